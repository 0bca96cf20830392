//! `lag` and `lead` return the common type of value and default, like in PostgreSQL. DataFusion's
//! functions return the type of the value: functions around the call would cut the digits of the
//! default.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::{
    common::Result,
    logical_expr::{
        Documentation, LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, WindowUDF,
        WindowUDFImpl,
        function::{ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs},
    },
    physical_expr::PhysicalExpr,
};
use stratalog_model::ColumnType;

use crate::rules::types::common_types::{ValueType, common_type};

/// `function` with the common type as result, if `function` is `lag` or `lead`.
pub fn of_defaults(function: Arc<WindowUDF>) -> Arc<WindowUDF> {
    match function.name() {
        "lag" | "lead" => Arc::new(WindowUDF::new_from_impl(ShiftedRows { inner: function })),
        _ => function,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ShiftedRows {
    inner: Arc<WindowUDF>,
}

impl WindowUDFImpl for ShiftedRows {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn expressions(&self, arguments: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.inner().expressions(arguments)
    }

    fn partition_evaluator(
        &self,
        arguments: PartitionEvaluatorArgs<'_>,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        self.inner.partition_evaluator_factory(arguments)
    }

    fn field(&self, arguments: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        let wanted = match arguments.input_fields() {
            [value, _, default] => common_number(value, default),
            _ => None,
        };
        let field = self.inner.field(arguments)?;
        Ok(match wanted {
            Some(wanted) => Arc::new(field.as_ref().clone().with_data_type(wanted)),
            None => field,
        })
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        match self.inner.inner().reverse_expr() {
            ReversedUDWF::Reversed(reversed) => ReversedUDWF::Reversed(of_defaults(reversed)),
            other => other,
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn limit_effect(&self, arguments: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.inner.inner().limit_effect(arguments)
    }
}

/// The common type of two numbers, at least one of them a numeric or a float. Integers keep the type
/// of the value: the field of a constant is a bigint, whatever its value.
fn common_number(value: &FieldRef, default: &FieldRef) -> Option<DataType> {
    let given = [ValueType::of_field(value), ValueType::of_field(default)];
    match common_type("LAG", &given).ok()?? {
        common @ (ColumnType::Numeric { .. } | ColumnType::Real | ColumnType::Double) => {
            Some(common.arrow_type())
        }
        _ => None,
    }
}
