//! Integer arithmetic that fails when it overflows, as in PostgreSQL; DataFusion's wraps.

use std::sync::Arc;

use arrow::{array::ArrayRef, compute::kernels::numeric, datatypes::DataType, error::ArrowError};
use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    logical_expr::{
        BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs,
        ScalarUDF, ScalarUDFImpl, Signature, Volatility, expr::ScalarFunction,
        expr_rewriter::NamePreserver, utils::merge_schema,
    },
    optimizer::AnalyzerRule,
    scalar::ScalarValue,
};
use stratalog_model::{Error, ErrorKind};

use crate::errors::to_datafusion;

/// Replaces `+`, `-` and `*` of integers by functions that fail on overflow. Runs after
/// type coercion.
#[derive(Debug)]
pub struct CheckedArithmetic {
    add: Arc<ScalarUDF>,
    subtract: Arc<ScalarUDF>,
    multiply: Arc<ScalarUDF>,
}

impl Default for CheckedArithmetic {
    fn default() -> Self {
        let function = |operation| Arc::new(ScalarUDF::new_from_impl(Checked::new(operation)));
        Self {
            add: function(Operation::Add),
            subtract: function(Operation::Subtract),
            multiply: function(Operation::Multiply),
        }
    }
}

impl AnalyzerRule for CheckedArithmetic {
    fn name(&self) -> &str {
        "checked_arithmetic"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| {
            let schema = merge_schema(&plan.inputs());
            let names = NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let rewritten = expr.transform_up(|expr| {
                    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &expr else {
                        return Ok(Transformed::no(expr));
                    };
                    let function = match op {
                        Operator::Plus => &self.add,
                        Operator::Minus => &self.subtract,
                        Operator::Multiply => &self.multiply,
                        _ => return Ok(Transformed::no(expr)),
                    };
                    let both = (left.get_type(&schema), right.get_type(&schema));
                    let (Ok(left_type), Ok(right_type)) = both else {
                        return Ok(Transformed::no(expr));
                    };
                    if left_type != right_type || !left_type.is_integer() {
                        return Ok(Transformed::no(expr));
                    }
                    let arguments = vec![left.as_ref().clone(), right.as_ref().clone()];
                    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(
                        Arc::clone(function),
                        arguments,
                    ))))
                })?;
                Ok(rewritten.update_data(|expr| name.restore(expr)))
            })
        })
        .map(|plan| plan.data)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    Add,
    Subtract,
    Multiply,
}

/// One checked operation.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operation: Operation,
    signature: Signature,
}

impl Checked {
    fn new(operation: Operation) -> Self {
        Self { operation, signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.operation {
            Operation::Add => "add_checked",
            Operation::Subtract => "subtract_checked",
            Operation::Multiply => "multiply_checked",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments.first().cloned().unwrap_or(DataType::Int64))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = arguments.args.as_slice() else {
            return Err(to_datafusion(Error::internal("arithmetic needs two arguments")));
        };
        let result = match (left, right) {
            (ColumnarValue::Scalar(left), ColumnarValue::Scalar(right)) => {
                let result = self.compute(&left.to_scalar()?, &right.to_scalar()?);
                let array = result.map_err(|error| overflow(error, &left.data_type()))?;
                return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
            }
            (ColumnarValue::Array(left), ColumnarValue::Scalar(right)) => {
                self.compute(left, &right.to_scalar()?)
            }
            (ColumnarValue::Scalar(left), ColumnarValue::Array(right)) => {
                self.compute(&left.to_scalar()?, right)
            }
            (ColumnarValue::Array(left), ColumnarValue::Array(right)) => self.compute(left, right),
        };
        result.map(ColumnarValue::Array).map_err(|error| overflow(error, &left.data_type()))
    }
}

impl Checked {
    fn compute(
        &self,
        left: &dyn arrow::array::Datum,
        right: &dyn arrow::array::Datum,
    ) -> Result<ArrayRef, ArrowError> {
        match self.operation {
            Operation::Add => numeric::add(left, right),
            Operation::Subtract => numeric::sub(left, right),
            Operation::Multiply => numeric::mul(left, right),
        }
    }
}

fn overflow(error: ArrowError, data_type: &DataType) -> datafusion::error::DataFusionError {
    match error {
        ArrowError::ArithmeticOverflow(_) => {
            let name = match data_type {
                DataType::Int16 => "smallint",
                DataType::Int32 => "integer",
                _ => "bigint",
            };
            to_datafusion(Error::new(ErrorKind::NumericOutOfRange, format!("{name} out of range")))
        }
        other => other.into(),
    }
}
