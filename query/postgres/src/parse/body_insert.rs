//! The INSERT in the body of a query.

use datafusion::sql::sqlparser::ast::{Insert, Query, SetExpr, Statement};

/// The INSERT of `WITH … INSERT …`.
pub fn body_insert(query: &Query) -> Option<&Insert> {
    match query.body.as_ref() {
        SetExpr::Insert(Statement::Insert(insert)) => Some(insert),
        _ => None,
    }
}

/// See [`body_insert`].
pub fn body_insert_mut(query: &mut Query) -> Option<&mut Insert> {
    match query.body.as_mut() {
        SetExpr::Insert(Statement::Insert(insert)) => Some(insert),
        _ => None,
    }
}
