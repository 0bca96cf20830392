//! Arithmetic that fails like in PostgreSQL. Integers fail on overflow; DataFusion's integers wrap
//! around. Floats fail on overflow, underflow and division by zero; DataFusion's floats become
//! infinity or zero. Times fail outside of their range; for times, DataFusion's estimate of bounds
//! uses a wrong type.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Datum, Scalar},
    compute::{CastOptions, cast, cast_with_options, kernels::numeric},
    datatypes::{
        DECIMAL128_MAX_PRECISION, DECIMAL128_MAX_SCALE, DECIMAL256_MAX_PRECISION, DataType,
        Decimal128Type, Float32Type, Float64Type,
    },
    error::ArrowError,
};
use datafusion::{
    common::{Result, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{
        BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs,
        ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        expr::ScalarFunction,
        expr_rewriter::NamePreserver,
        sort_properties::{ExprProperties, SortProperties},
        type_coercion::binary::BinaryTypeCoercer,
        utils::merge_schema,
    },
    optimizer::AnalyzerRule,
    scalar::ScalarValue,
};
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};
use stratalog_functions::{function::sql_name, governor};
use stratalog_model::{Error, ErrorKind};

use crate::errors::{no_operator, to_datafusion};

mod floats;

/// Replaces arithmetic operators by functions that fail on overflow: `+`, `-` and `*` of integers
/// and floats, and `+` and `-` of times and intervals. `/` of floats becomes a function that also
/// fails for a zero divisor. Numerics need functions for other reasons: the simplifier would
/// replace `n % 1` by zero, and the kernel for `/` overflows even if the quotient has few digits.
/// Runs after type coercion.
#[derive(Debug)]
pub struct CheckedArithmetic {
    add: Arc<ScalarUDF>,
    subtract: Arc<ScalarUDF>,
    multiply: Arc<ScalarUDF>,
    divide: Arc<ScalarUDF>,
    modulo: Arc<ScalarUDF>,
}

impl Default for CheckedArithmetic {
    fn default() -> Self {
        let function =
            |operation| Arc::new(ScalarUDF::new_from_impl(CheckedOperation::new(operation)));
        Self {
            add: function(Operation::Add),
            subtract: function(Operation::Subtract),
            multiply: function(Operation::Multiply),
            divide: function(Operation::Divide),
            modulo: function(Operation::Modulo),
        }
    }
}

impl AnalyzerRule for CheckedArithmetic {
    fn name(&self) -> &str {
        "checked_arithmetic"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.change_with_subqueries(|plan| {
            let schema = merge_schema(&plan.inputs());
            let names = NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let rewritten = expr.change_up(|expr| {
                    if let Expr::Negative(inner) = &expr
                        && let Ok(data_type) = inner.get_type(&schema)
                        && data_type.is_signed_integer()
                        && !matches!(inner.as_ref(), Expr::Literal(_, _))
                    {
                        let zero = Expr::Literal(ScalarValue::new_zero(&data_type)?, None);
                        let function = Arc::clone(&self.subtract);
                        let arguments = vec![zero, inner.as_ref().clone()];
                        return Ok(Transformed::yes(Expr::ScalarFunction(
                            ScalarFunction::new_udf(function, arguments),
                        )));
                    }
                    if let Expr::Negative(inner) = &expr
                        && let Ok(data_type) = inner.get_type(&schema)
                        && matches!(data_type, DataType::Timestamp(..))
                    {
                        // DataFusion would negate the time since 1970.
                        let operation = format!("- {}", sql_name(&data_type));
                        return Err(to_datafusion(no_operator(&operation)));
                    }
                    if let Expr::Negative(inner) = &expr
                        && let Ok(data_type) = inner.get_type(&schema)
                        && data_type.is_floating()
                    {
                        // Multiplies by -1, because the negative of NaN must be the same NaN.
                        let minus = ScalarValue::new_negative_one(&data_type)?;
                        let function = Arc::clone(&self.multiply);
                        let arguments = vec![inner.as_ref().clone(), Expr::Literal(minus, None)];
                        return Ok(Transformed::yes(Expr::ScalarFunction(
                            ScalarFunction::new_udf(function, arguments),
                        )));
                    }
                    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &expr else {
                        return Ok(Transformed::no(expr));
                    };
                    let function = match op {
                        Operator::Plus => &self.add,
                        Operator::Minus => &self.subtract,
                        Operator::Multiply => &self.multiply,
                        Operator::Divide => &self.divide,
                        Operator::Modulo => &self.modulo,
                        _ => return Ok(Transformed::no(expr)),
                    };
                    let both = (left.get_type(&schema), right.get_type(&schema));
                    let (Ok(left_type), Ok(right_type)) = both else {
                        return Ok(Transformed::no(expr));
                    };
                    let checked = match op {
                        Operator::Divide if are_numerics(&left_type, &right_type) => true,
                        Operator::Divide => left_type == right_type && left_type.is_floating(),
                        Operator::Modulo => are_numerics(&left_type, &right_type),
                        Operator::Multiply if are_numerics(&left_type, &right_type) => true,
                        _ if left_type == right_type => {
                            left_type.is_integer() || left_type.is_floating()
                        }
                        _ => moves_time(&left_type, *op, &right_type),
                    };
                    if !checked {
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

fn are_numerics(left: &DataType, right: &DataType) -> bool {
    matches!((left, right), (DataType::Decimal128(..), DataType::Decimal128(..)))
}

/// Whether an operator adds an interval to a timestamp, or subtracts it.
fn moves_time(left: &DataType, op: Operator, right: &DataType) -> bool {
    match (left, right) {
        (DataType::Timestamp(_, _), DataType::Interval(_)) => op != Operator::Multiply,
        (DataType::Interval(_), DataType::Timestamp(_, _)) => op == Operator::Plus,
        _ => false,
    }
}

/// The number of decimal places that the kernel's quotient has in addition to those of the
/// dividend.
const QUOTIENT_DIGITS_MORE: i8 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

/// A function that computes an arithmetic operation and fails on overflow.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedOperation {
    operation: Operation,
    signature: Signature,
}

impl CheckedOperation {
    fn new(operation: Operation) -> Self {
        Self { operation, signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for CheckedOperation {
    fn name(&self) -> &str {
        match self.operation {
            Operation::Add => "add_checked",
            Operation::Subtract => "subtract_checked",
            Operation::Multiply => "multiply_checked",
            Operation::Divide => "divide_checked",
            Operation::Modulo => "modulo_checked",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        // The planner calls this method again for each level of a deep expression, and the
        // statement must remain stoppable.
        governor::check()?;
        if let [left, right] = arguments
            && are_numerics(left, right)
        {
            let operator = match self.operation {
                Operation::Modulo => Operator::Modulo,
                Operation::Divide => Operator::Divide,
                _ => Operator::Multiply,
            };
            return BinaryTypeCoercer::new(left, &operator, right).get_result_type();
        }
        let time = arguments.iter().find(|given| matches!(given, DataType::Timestamp(_, _)));
        Ok(time.or(arguments.first()).cloned().unwrap_or(DataType::Int64))
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(match inputs {
            // Times that move by the same interval stay in order.
            [time, by] if by.sort_properties == SortProperties::Singleton => match self.operation {
                Operation::Add | Operation::Subtract => time.sort_properties,
                Operation::Multiply | Operation::Divide | Operation::Modulo => {
                    SortProperties::Unordered
                }
            },
            _ => SortProperties::Unordered,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = arguments.args.as_slice() else {
            return Err(to_datafusion(Error::internal("arithmetic needs two arguments")));
        };
        let result_type = arguments.return_field.data_type().clone();
        let computed = |left: &dyn Datum, right: &dyn Datum| {
            let result = self.compute(left, right);
            let result = result.map_err(|error| overflow(error, &result_type))?;
            if matches!(self.operation, Operation::Divide) && vanishes(left, &result) {
                return Err(to_datafusion(vanished(&result_type)));
            }
            floats::in_range(self.operation, left, right, result)
        };
        let result = match (left, right) {
            (ColumnarValue::Scalar(left), ColumnarValue::Scalar(right)) => {
                let array = computed(&left.to_scalar()?, &right.to_scalar()?)?;
                return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
            }
            (ColumnarValue::Array(left), ColumnarValue::Scalar(right)) => {
                computed(left, &right.to_scalar()?)
            }
            (ColumnarValue::Scalar(left), ColumnarValue::Array(right)) => {
                computed(&left.to_scalar()?, right)
            }
            (ColumnarValue::Array(left), ColumnarValue::Array(right)) => computed(left, right),
        };
        result.map(ColumnarValue::Array)
    }
}

impl CheckedOperation {
    fn compute(&self, left: &dyn Datum, right: &dyn Datum) -> Result<ArrayRef, ArrowError> {
        match self.operation {
            Operation::Add => numeric::add(left, right),
            Operation::Subtract => numeric::sub(left, right),
            Operation::Multiply => numeric::mul(left, right),
            Operation::Divide if divides_by_zero(left, right) => Err(ArrowError::DivideByZero),
            Operation::Divide => match numeric::div(left, right) {
                Err(ArrowError::ArithmeticOverflow(_)) => quotient(left, right),
                result => result,
            },
            Operation::Modulo => numeric::rem(left, right),
        }
    }
}

/// The quotient of numerics. It is computed with 76 digits, and cut to the scale that the kernel's
/// quotient would have.
fn quotient(left: &dyn Datum, right: &dyn Datum) -> Result<ArrayRef, ArrowError> {
    let scales = (left.get().0.data_type(), right.get().0.data_type());
    let (DataType::Decimal128(_, dividend), DataType::Decimal128(_, _)) = scales else {
        return Err(ArrowError::ArithmeticOverflow(String::new()));
    };
    let scale = dividend.saturating_add(QUOTIENT_DIGITS_MORE).min(DECIMAL128_MAX_SCALE);
    let divided = match (wide(left)?, wide(right)?) {
        ((left, false), (right, false)) => numeric::div(&left, &right)?,
        ((left, true), (right, false)) => numeric::div(&Scalar::new(left), &right)?,
        ((left, false), (right, true)) => numeric::div(&left, &Scalar::new(right))?,
        ((left, true), (right, true)) => numeric::div(&Scalar::new(left), &Scalar::new(right))?,
    };
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let wanted = DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale);
    cast_with_options(&divided, &wanted, &options)
        .map_err(|error| ArrowError::ArithmeticOverflow(error.to_string()))
}

/// Widens numerics to 76 digits. The flag is true for a constant.
fn wide(numbers: &dyn Datum) -> Result<(ArrayRef, bool), ArrowError> {
    let (array, is_constant) = numbers.get();
    let scale = match array.data_type() {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    };
    let wide = cast(array, &DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale))?;
    Ok((wide, is_constant))
}

/// Whether any row has the quotient 0 for a dividend other than 0. This quotient is too small for
/// the decimal places of its type.
fn vanishes(dividend: &dyn Datum, quotient: &ArrayRef) -> bool {
    let (dividend, is_constant) = dividend.get();
    let numerics = (
        dividend.as_primitive_opt::<Decimal128Type>(),
        quotient.as_primitive_opt::<Decimal128Type>(),
    );
    let (Some(dividends), Some(quotients)) = numerics else { return false };
    let dividend = |row: usize| dividends.value(if is_constant { 0 } else { row });
    (0..quotients.len())
        .any(|row| quotients.value(row) == 0 && quotients.is_valid(row) && dividend(row) != 0)
}

fn vanished(quotient: &DataType) -> Error {
    let scale = match quotient {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    };
    Error::new(
        ErrorKind::NumericOutOfRange,
        format!("a quotient of numerics has only zeros in its {scale} decimal places"),
    )
    .with_hint("cast the dividend to double precision")
}

/// Whether any row divides a number by zero. NaN and NULL do not count as numbers.
fn divides_by_zero(left: &dyn Datum, right: &dyn Datum) -> bool {
    let ((left, constant_left), (right, constant_right)) = (left.get(), right.get());
    let float = |array: &dyn Array, row: usize| match array.data_type() {
        _ if array.is_null(row) => None,
        DataType::Float32 => Some(f64::from(array.as_primitive::<Float32Type>().value(row))),
        _ => array.as_primitive_opt::<Float64Type>().map(|values| values.value(row)),
    };
    let dividend = |row: usize| float(left, if constant_left { 0 } else { row });
    let is_divided = |row: usize| dividend(row).is_some_and(|value| !value.is_nan());
    let is_zero = |row: usize| float(right, row) == Some(0.0);
    if constant_right {
        return is_zero(0) && (0..left.len()).any(is_divided);
    }
    (0..right.len()).any(|row| is_zero(row) && is_divided(row))
}

fn overflow(error: ArrowError, data_type: &DataType) -> datafusion::error::DataFusionError {
    match error {
        ArrowError::ArithmeticOverflow(_) if matches!(data_type, DataType::Timestamp(_, _)) => {
            to_datafusion(Error::new(ErrorKind::DatetimeOverflow, "timestamp out of range"))
        }
        ArrowError::ArithmeticOverflow(_) => {
            let name = match data_type {
                DataType::Int16 => "smallint",
                DataType::Int32 => "integer",
                DataType::Decimal128(..) => "numeric",
                _ => "bigint",
            };
            to_datafusion(Error::new(ErrorKind::NumericOutOfRange, format!("{name} out of range")))
        }
        other => other.into(),
    }
}
