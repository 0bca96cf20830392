//! Functions that return positions in the log of commits.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use datafusion::{common::Result, error::DataFusionError, logical_expr::Volatility};
use stratalog_functions::function::{Arguments, Function, Parameter, text_at};
use stratalog_model::ColumnType;

use super::{Declare, same_bigint};
use crate::{CatalogContext, table_of_regclass};

use Parameter::Text;

pub(super) fn functions(context: &Arc<CatalogContext>) -> Vec<Function> {
    let declare = Declare { context };
    vec![Function {
        // The log may grow while a statement runs.
        volatility: Volatility::Volatile,
        ..declare.stable(
            "head_of_log",
            &[&[], &[Text]],
            ColumnType::BigInt,
            "Highest gsn up to which all events of a table are readable.",
            head_of_log,
        )
    }]
}

/// Computes the head (last position) of the log. All tables share one log, and therefore have the
/// same head.
fn head_of_log(context: &CatalogContext, arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let head = i64::try_from(context.store.snapshot().gsn().0).unwrap_or(i64::MAX);
    if arguments.arrays.is_empty() {
        return same_bigint(arguments, head);
    }
    let names = arguments.text(0)?;
    let state = context.state();
    let path = context.search_path(&state);
    let head_of = |row: usize| -> Result<Option<i64>> {
        let Some(name) = text_at(names, row) else { return Ok(None) };
        table_of_regclass(&state, &context.database, &path, name)
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(Some(head))
    };
    let heads = (0..arguments.rows).map(head_of).collect::<Result<Int64Array>>()?;
    Ok(Arc::new(heads))
}
