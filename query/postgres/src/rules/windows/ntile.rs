//! `ntile` returns an integer, like in PostgreSQL; DataFusion's `ntile` returns a bigint.

use std::sync::Arc;

use arrow::{
    array::ArrayRef,
    compute::cast,
    datatypes::{DataType, Field, FieldRef},
};
use datafusion::{
    common::Result,
    logical_expr::{
        Documentation, LimitEffect, PartitionEvaluator, Signature, WindowUDF, WindowUDFImpl,
        function::{PartitionEvaluatorArgs, WindowUDFFieldArgs},
    },
    physical_expr::PhysicalExpr,
};

/// `function` with an integer result, if `function` is `ntile`.
pub fn of_integers(function: Arc<WindowUDF>) -> Arc<WindowUDF> {
    match function.name() {
        "ntile" => Arc::new(WindowUDF::new_from_impl(Ntile(function))),
        _ => function,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Ntile(Arc<WindowUDF>);

impl WindowUDFImpl for Ntile {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn partition_evaluator(
        &self,
        arguments: PartitionEvaluatorArgs<'_>,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(IntegerEvaluator(self.0.partition_evaluator_factory(arguments)?)))
    }

    fn field(&self, arguments: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        let field = self.0.field(arguments)?;
        Ok(Arc::new(Field::clone(&field).with_data_type(DataType::Int32)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }

    fn limit_effect(&self, arguments: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.0.inner().limit_effect(arguments)
    }
}

#[derive(Debug)]
struct IntegerEvaluator(Box<dyn PartitionEvaluator>);

impl PartitionEvaluator for IntegerEvaluator {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        Ok(cast(&self.0.evaluate_all(values, rows)?, &DataType::Int32)?)
    }
}
