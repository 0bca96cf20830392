//! An expression with a short result that is computed from values of any length.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use arrow::{
    array::{Array, ArrayRef, RecordBatch},
    compute::concat,
    datatypes::{DataType, FieldRef, Schema},
};
use datafusion::{common::Result, logical_expr::ColumnarValue, physical_expr::PhysicalExpr};
use stratalog_functions::{
    governor::{Evaluation, evaluating},
    metered::expanded,
};

use super::{constants, halves, is_out_of_memory, rows_max};

/// Evaluates an expression for a whole batch, or, if memory is too small, for parts of the batch.
#[derive(Debug)]
pub struct SlicedExpr {
    inner: Arc<dyn PhysicalExpr>,
    rows_max: usize,
}

impl SlicedExpr {
    /// Wraps `inner` for evaluation in parts.
    pub fn of(inner: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        let rows_max = rows_max(constants(inner).unwrap_or(0));
        Arc::new(Self { inner: Arc::clone(inner), rows_max })
    }

    fn parts(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        let mut pending = vec![batch.clone()];
        let mut results: Vec<ArrayRef> = Vec::new();
        let mut rows_max = self.rows_max;
        while let Some(part) = pending.pop() {
            if part.num_rows() > rows_max {
                pending.push(part.slice(rows_max, part.num_rows() - rows_max));
                pending.push(part.slice(0, rows_max));
                continue;
            }
            let result = evaluating(Evaluation::Splittable, || {
                expanded(&self.inner.evaluate(&part)?, part.num_rows())
            });
            match result {
                Err(error) if part.num_rows() > 1 && is_out_of_memory(&error) => {
                    let [first, second] = halves(&part);
                    rows_max = first.num_rows().max(1);
                    pending.extend([second, first]);
                }
                result => results.push(result?),
            }
        }
        let results: Vec<&dyn Array> = results.iter().map(AsRef::as_ref).collect();
        Ok(concat(&results)?)
    }
}

impl PartialEq for SlicedExpr {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for SlicedExpr {}

impl Hash for SlicedExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl fmt::Display for SlicedExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PhysicalExpr for SlicedExpr {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.inner.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.inner.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.inner.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        if batch.num_rows() <= self.rows_max {
            let whole = evaluating(Evaluation::Splittable, || self.inner.evaluate(batch));
            match whole {
                Err(error) if batch.num_rows() > 1 && is_out_of_memory(&error) => {}
                whole => return whole,
            }
        }
        self.parts(batch).map(ColumnarValue::Array)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(match children.first() {
            Some(inner) => Self::of(inner),
            None => self,
        })
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}
