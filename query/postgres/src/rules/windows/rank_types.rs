//! Makes `ntile` return an integer, and `row_number`, `rank` and `dense_rank` a bigint, like in
//! PostgreSQL. DataFusion's functions return unsigned numbers, and `rank() / 2` would become a
//! numeric.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::ArrayRef,
    compute::cast,
    datatypes::{DataType, Field, FieldRef},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        PartitionEvaluator, WindowUDF,
        function::{PartitionEvaluatorArgs, WindowUDFFieldArgs},
        window_state::WindowAggState,
    },
};

use crate::rules::layers::{self, WindowLayer};

/// Wraps functions that number rows to return PostgreSQL's type. Other functions stay unchanged.
pub fn of_integers(function: Arc<WindowUDF>) -> Arc<WindowUDF> {
    let result_type = match function.name() {
        "ntile" => DataType::Int32,
        "row_number" | "rank" | "dense_rank" => DataType::Int64,
        _ => return function,
    };
    layers::window(function, RowNumbers { result_type })
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RowNumbers {
    result_type: DataType,
}

impl WindowLayer for RowNumbers {
    fn field(&self, inner: &WindowUDF, arguments: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        let field = inner.field(arguments)?;
        Ok(Arc::new(Field::clone(&field).with_data_type(self.result_type.clone())))
    }

    fn evaluator(
        &self,
        inner: &WindowUDF,
        arguments: PartitionEvaluatorArgs<'_>,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(SignedEvaluator {
            inner: inner.partition_evaluator_factory(arguments)?,
            result_type: self.result_type.clone(),
        }))
    }
}

/// An evaluator that converts the results of DataFusion's evaluator to another type.
#[derive(Debug)]
struct SignedEvaluator {
    inner: Box<dyn PartitionEvaluator>,
    result_type: DataType,
}

impl PartitionEvaluator for SignedEvaluator {
    fn memoize(&mut self, state: &mut WindowAggState) -> Result<()> {
        self.inner.memoize(state)
    }

    fn get_range(&self, row: usize, rows: usize) -> Result<Range<usize>> {
        self.inner.get_range(row, rows)
    }

    fn is_causal(&self) -> bool {
        self.inner.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        Ok(cast(&self.inner.evaluate_all(values, rows)?, &self.result_type)?)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        self.inner.evaluate(values, range)?.cast_to(&self.result_type)
    }

    fn evaluate_all_with_rank(&self, rows: usize, ranks: &[Range<usize>]) -> Result<ArrayRef> {
        Ok(cast(&self.inner.evaluate_all_with_rank(rows, ranks)?, &self.result_type)?)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.inner.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.inner.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.inner.include_rank()
    }
}
