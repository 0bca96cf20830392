//! Finds the INSERT in a query `WITH … INSERT …`.

use datafusion::sql::sqlparser::ast::{Insert, Query, SetExpr, Statement};

/// The INSERT in a query `WITH … INSERT …`; `None` for other queries.
pub fn body_insert(query: &Query) -> Option<&Insert> {
    match query.body.as_ref() {
        SetExpr::Insert(Statement::Insert(insert)) => Some(insert),
        _ => None,
    }
}

/// The mutable version of [`body_insert`].
pub fn body_insert_mut(query: &mut Query) -> Option<&mut Insert> {
    match query.body.as_mut() {
        SetExpr::Insert(Statement::Insert(insert)) => Some(insert),
        _ => None,
    }
}
