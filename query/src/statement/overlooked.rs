//! Clauses that the planner overlooks: those of a call that only aggregates and window
//! functions take, and collations.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArgumentClause, FunctionArguments, Ident,
    ObjectName, ObjectNamePart, Query,
};
use stratalog_model::{Error, ErrorKind, Result};

use super::walk;
use crate::session::planner::Planner;

/// Collations that order text as we do, by its bytes.
const BY_BYTES: [&str; 4] = ["C", "POSIX", "default", "ucs_basic"];

/// Refuses clauses that would have no effect.
///
/// # Errors
/// `WrongObjectType`, as PostgreSQL says it, and `FeatureNotSupported`.
pub fn check(tree: &Query, planner: &Planner) -> Result<()> {
    let mut error = None;
    let _ = walk::expressions(tree, |expr| {
        error = match expr {
            Expr::Function(call) => overlooked(call, planner),
            Expr::Collate { collation, .. } => foreign(collation),
            _ => None,
        };
        if error.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    error.map_or(Ok(()), Err)
}

/// The error of a collation by which we do not order.
fn foreign(collation: &ObjectName) -> Option<Error> {
    if let Some(ObjectNamePart::Identifier(name)) = collation.0.last()
        && BY_BYTES.contains(&name.value.as_str())
    {
        return None;
    }
    Some(
        Error::new(
            ErrorKind::FeatureNotSupported,
            format!("collation {collation} is not supported"),
        )
        .with_hint("text is ordered by its bytes, as COLLATE \"C\" does"),
    )
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
        if distinct && !call.within_group.is_empty() {
            let message = "cannot use DISTINCT with WITHIN GROUP";
            return Some(Error::new(ErrorKind::SyntaxError, message));
        }
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
