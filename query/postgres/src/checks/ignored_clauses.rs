//! Refuses clauses that the planner would ignore: collations, and clauses in calls of aggregates
//! and window functions.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, GroupByExpr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem,
    Value, ValueWithSpan,
};
use stratalog_model::{Error, ErrorKind, Result};

use super::ambiguous_names::is_same;
use crate::{
    errors::no_function,
    names::{NameResolver, fold},
    walk::{self, Flow, Look},
};

/// Collations that sort text by bytes, the only order of text in this database.
const BY_BYTES: [&str; 4] = ["C", "POSIX", "default", "ucs_basic"];

/// Refuses clauses that the planner would ignore.
///
/// # Errors
/// `WrongObjectType`, like PostgreSQL, and `FeatureNotSupported`.
pub fn check(tree: &Query, names: &dyn NameResolver) -> Result<()> {
    let mut error = None;
    let _ = walk::expressions(tree, |expr| {
        error = match expr {
            Expr::Function(call) => overlooked(call, names),
            Expr::Collate { collation, .. } => foreign(collation),
            _ => None,
        };
        if error.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    error.map_or(Ok(()), Err)?;
    let mut groups = GroupingSetCheck(None);
    let _ = walk::look(tree, &mut groups);
    groups.0.map_or(Ok(()), Err)
}

/// Refuses ROLLUP, CUBE and GROUPING SETS of an expression that the select list contains under two
/// names, if the GROUP BY also has the other name as a plain group. DataFusion has one column for
/// both names, and cannot give NULL for only one name.
struct GroupingSetCheck(Option<Error>);

impl Look for GroupingSetCheck {
    fn pre_visit_select(&mut self, select: &Select) -> Flow {
        let GroupByExpr::Expressions(groups, _) = &select.group_by else {
            return ControlFlow::Continue(());
        };
        let item = |group: &Expr| -> Option<(usize, &Expr)> {
            let named = |(at, item): (usize, &'_ SelectItem)| match (item, group) {
                (SelectItem::ExprWithAlias { alias, .. }, Expr::Identifier(name)) => {
                    fold(alias) == fold(name)
                }
                (_, Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. })) => {
                    number.parse() == Ok(at + 1)
                }
                _ => false,
            };
            let at = select.projection.iter().enumerate().position(named)?;
            match select.projection.get(at)? {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                    Some((at, expr))
                }
                _ => None,
            }
        };
        let (mut always, mut sometimes) = (Vec::new(), Vec::new());
        for group in groups {
            match group {
                Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => {
                    sometimes.extend(sets.iter().flatten().filter_map(item));
                }
                plain => always.extend(item(plain)),
            }
        }
        let repeats = sometimes.iter().any(|(at, expr)| {
            always.iter().any(|(other_at, other)| at != other_at && expr == other)
        });
        if repeats {
            self.0 = Some(
                Error::new(
                    ErrorKind::FeatureNotSupported,
                    "ROLLUP, CUBE or GROUPING SETS of an expression with two names is not supported",
                )
                .with_hint("group by the expression under one name"),
            );
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// The error for a collation with another order than by bytes; `None` for a supported collation.
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

fn overlooked(call: &Function, names: &dyn NameResolver) -> Option<Error> {
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
    if let Some(error) = starred(&name, call) {
        return Some(error);
    }
    if names.is_aggregate(&name) || names.is_window(&name) {
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
            true if ordered => not_for("a separate ORDER BY", "a function with OVER"),
            true if distinct && !names.is_aggregate(&name) => {
                not_for("DISTINCT", "window functions")
            }
            true if call.filter.is_some() && !names.is_aggregate(&name) => {
                not_for("FILTER", "window functions other than aggregates")
            }
            true => wrong_number_of_arguments(&name, call),
            false if distinct && ordered => order_beside_distinct(call),
            false => None,
        };
    }
    if !names.is_scalar(&name) {
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

/// The error for `*` as the argument of a function other than `count`, and for `count` without an
/// argument.
fn starred(name: &str, call: &Function) -> Option<Error> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let is_star = matches!(list.args.as_slice(), [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]);
    match name {
        "count" if list.args.is_empty() => Some(Error::new(
            ErrorKind::WrongObjectType,
            "count(*) must be used to call a parameterless aggregate function",
        )),
        "count" if is_star && list.duplicate_treatment.is_some() => {
            Some(Error::new(ErrorKind::SyntaxError, "syntax error at or near \"*\""))
        }
        "count" => None,
        name => is_star.then(|| no_function(&format!("{name}()"))),
    }
}

/// The error for a call with DISTINCT whose ORDER BY has a key that is not an argument of the call.
fn order_beside_distinct(call: &Function) -> Option<Error> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let is_argument = |key: &Expr| {
        list.args.iter().any(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => is_same(argument, key),
            _ => false,
        })
    };
    let mut keys = list.clauses.iter().flat_map(|clause| match clause {
        FunctionArgumentClause::OrderBy(keys) => keys.as_slice(),
        _ => &[],
    });
    keys.any(|key| !is_argument(&key.expr)).then(|| {
        let message =
            "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
        Error::new(ErrorKind::InvalidColumnReference, message)
    })
}

/// The error of a window function with a wrong number of arguments; `None` if the number is right.
/// DataFusion does not check the number for these functions.
fn wrong_number_of_arguments(name: &str, call: &Function) -> Option<Error> {
    let expected = match name {
        "first_value" | "last_value" | "ntile" => 1..=1,
        "nth_value" => 2..=2,
        "lag" | "lead" => 1..=3,
        _ => return None,
    };
    let given = match &call.args {
        FunctionArguments::List(list) => list.args.len(),
        _ => 0,
    };
    let call = match given {
        0 => format!("{name}()"),
        1 => format!("{name} with one argument"),
        _ => format!("{name} with {given} arguments"),
    };
    (!expected.contains(&given)).then(|| no_function(&call))
}
