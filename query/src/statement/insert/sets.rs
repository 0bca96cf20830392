//! A single VALUES row with set-returning functions. As in PostgreSQL, the row is planned as a
//! SELECT.
//!
//! ```text
//!   INSERT INTO t (a, b, c) VALUES (generate_series(1, 3), DEFAULT, 1)
//!   INSERT INTO t (a, c) SELECT generate_series(1, 3), 1
//! ```

use datafusion::sql::sqlparser::ast::{Expr, Query, Statement};
use stratalog_model::{ChronicleDefinition, Error, Result};
use stratalog_postgres::{dialect, parse};

use super::{cells::Cell, columns::Targets};

/// Converts a VALUES row with set-returning functions to a SELECT; also returns the target columns
/// of the SELECT. `None` for a row without set-returning functions. `names` are the columns that
/// the statement lists.
///
/// # Errors
/// See [`Targets::new`].
pub fn query_of(
    chronicle: &ChronicleDefinition,
    names: &[String],
    row: &[Expr],
) -> Result<Option<(Box<Query>, Vec<String>)>> {
    if !row.iter().any(dialect::returns_rows) {
        return Ok(None);
    }
    let listed = Targets::positions(chronicle, names, Some(row.len()))?;
    let (mut values, mut columns) = (Vec::new(), Vec::new());
    for (position, expr) in listed.into_iter().zip(row) {
        let Some(column) = chronicle.columns.get(position) else { continue };
        // Omit columns with DEFAULT: the statement fills an unlisted column with its default.
        if !matches!(Cell::of(expr, None, &mut Vec::new())?, Cell::Default) {
            values.push(expr.to_string());
            columns.push(column.name.clone());
        }
    }
    let select = format!("SELECT {}", values.join(", "));
    let parsed = parse::statements(&select, usize::MAX)?.into_iter().next();
    match parsed.map(|tree| tree.statement) {
        Some(Statement::Query(query)) => Ok(Some((query, columns))),
        _ => Err(Error::internal("a list of values is no query")),
    }
}
