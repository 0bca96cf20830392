//! The direct path for `SELECT expressions` without FROM: the expressions are planned once, and
//! each execution only computes them with its parameter values.

use std::sync::Arc;

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    compute::cast,
    datatypes::SchemaRef,
};
use datafusion::{
    logical_expr::{Expr, LogicalPlan},
    scalar::ScalarValue,
};
use stratalog_model::{ColumnType, Result};
use stratalog_postgres::errors::from_arrow;

use super::point::constants::{self, Constants};
use crate::session::planner::Planner;

/// A query that returns one row, computed from the parameters.
#[derive(Debug)]
pub struct OneRow {
    schema: SchemaRef,
    /// One expression for each column: a constant, or a placeholder for a computed constant.
    columns: Vec<Expr>,
    constants: Constants,
}

impl OneRow {
    /// Creates the direct path for a plan with parameters of the given types; `None` if the plan
    /// reads a table, or calls a function other than `now()` whose value changes.
    pub fn of(planner: &Planner, plan: &LogicalPlan, types: &[ColumnType]) -> Option<Self> {
        if !is_one_row(plan) {
            return None;
        }
        let optimized = planner.optimize(&constants::open(plan.clone(), types)?).ok()?;
        let LogicalPlan::Projection(projection) = &optimized else { return None };
        if !is_one_row(&optimized) {
            return None;
        }
        let mut columns: Vec<Expr> =
            projection.expr.iter().map(|expr| expr.clone().unalias()).collect();
        let mut open: Vec<&mut Expr> = columns.iter_mut().collect();
        let constants = Constants::take(planner, &mut open)?;
        let schema = Arc::clone(optimized.schema().inner());
        Some(Self { schema, columns, constants })
    }

    /// Computes the row for the parameters `values`; `None` if a value cannot be computed: a normal
    /// plan of the query then reports the error.
    ///
    /// # Errors
    /// An error while assembling the row, a defect.
    pub fn row(&self, values: &[ScalarValue], now_ns: i64) -> Result<Option<RecordBatch>> {
        let Some(computed) = self.constants.compute(values, now_ns) else { return Ok(None) };
        let arrays = self.columns.iter().zip(self.schema.fields()).map(|(column, field)| {
            let Expr::Literal(value, _) = constants::fill(column, &computed)? else { return None };
            let array = value.to_array().ok()?;
            // Cast the array, not the scalar: a scalar does not keep the metadata of list elements.
            match array.data_type() == field.data_type() {
                true => Some(array),
                false => cast(&array, field.data_type()).ok(),
            }
        });
        let Some(arrays) = arrays.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let schema = Arc::clone(&self.schema);
        RecordBatch::try_new_with_options(schema, arrays, &options).map(Some).map_err(from_arrow)
    }
}

/// True if a plan is a list of expressions without a table.
fn is_one_row(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Projection(projection) = plan else { return false };
    matches!(projection.input.as_ref(), LogicalPlan::EmptyRelation(empty) if empty.produce_one_row)
}
