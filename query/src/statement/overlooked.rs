//! Clauses that the planner overlooks: those of a call that only aggregates and window
//! functions take, and collations.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArgumentClause, FunctionArguments, Ident,
    ObjectNamePart, Query, visit_expressions,
};
use stratalog_model::{Error, ErrorKind, Result};

use crate::session::planner::Planner;

/// Collations that order text as we do, by its bytes.
const BY_BYTES: [&str; 4] = ["C", "POSIX", "default", "ucs_basic"];

/// Refuses clauses that would have no effect.
///
/// # Errors
/// `WrongObjectType`, as PostgreSQL says it, and `FeatureNotSupported`.
pub fn check(tree: &Query, planner: &Planner) -> Result<()> {
    let found = visit_expressions(tree, |expr| match expr {
        Expr::Function(call) => match overlooked(call, planner) {
            Some(error) => ControlFlow::Break(error),
            None => ControlFlow::Continue(()),
        },
        Expr::Collate { collation, .. } => match collation.0.last() {
            Some(ObjectNamePart::Identifier(Ident { value, .. }))
                if BY_BYTES.contains(&value.as_str()) =>
            {
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Break(
                Error::new(
                    ErrorKind::FeatureNotSupported,
                    format!("collation {collation} is not supported"),
                )
                .with_hint("text is ordered by its bytes, as COLLATE \"C\" does"),
            ),
        },
        _ => ControlFlow::Continue(()),
    });
    match found {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

fn overlooked(call: &Function, planner: &Planner) -> Option<Error> {
    let Some(ObjectNamePart::Identifier(Ident { value, .. })) = call.name.0.last() else {
        return None;
    };
    let name = value.to_lowercase();
    let (distinct, ordered) = match &call.args {
        FunctionArguments::List(list) => (
            list.duplicate_treatment == Some(DuplicateTreatment::Distinct),
            list.clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_))),
        ),
        _ => (false, false),
    };
    if planner.is_aggregate(&name) || planner.is_window(&name) {
        let not_for = |clause: &str, of: &str| {
            Some(Error::new(
                ErrorKind::FeatureNotSupported,
                format!("{clause} is not supported for {of}"),
            ))
        };
        return match call.over.is_some() {
            true if ordered => not_for("an ORDER BY of its own", "a function with OVER"),
            true if distinct && !planner.is_aggregate(&name) => {
                not_for("DISTINCT", "window functions")
            }
            true if call.filter.is_some() && !planner.is_aggregate(&name) => {
                not_for("FILTER", "window functions that are no aggregates")
            }
            _ => None,
        };
    }
    if !planner.is_scalar(&name) {
        return None;
    }
    for (there, clause, kinds) in [
        (distinct, "DISTINCT", "an aggregate function"),
        (!call.within_group.is_empty(), "WITHIN GROUP", "an ordered-set aggregate function"),
        (ordered, "ORDER BY", "an aggregate function"),
        (call.filter.is_some(), "FILTER", "an aggregate function"),
        (call.over.is_some(), "OVER", "a window function nor an aggregate function"),
    ] {
        if there {
            return Some(Error::new(
                ErrorKind::WrongObjectType,
                format!("{clause} specified, but {name} is not {kinds}"),
            ));
        }
    }
    None
}
