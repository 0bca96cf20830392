//! Adds days to dates, and subtracts days from dates. Type coercion would convert the days to an
//! interval of nanoseconds, which cannot hold more than 292 years.

use std::sync::Arc;

use arrow::{
    array::{AsArray, Date32Array},
    compute::cast,
    datatypes::{DataType, Date32Type, Int64Type},
};
use datafusion::{
    common::{DFSchema, Result, ScalarValue, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{
        BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF,
        ScalarUDFImpl, Signature, Volatility,
        expr_rewriter::FunctionRewrite,
        sort_properties::{ExprProperties, SortProperties},
    },
};
use stratalog_model::{Error, ErrorKind};
use stratalog_text::calendar::UNIX_EPOCH_JULIAN;

use crate::errors::to_datafusion;

/// PostgreSQL's first date, -4713-11-24, in days since 1970.
const FIRST_DAY: i64 = -UNIX_EPOCH_JULIAN;

/// PostgreSQL's last date, 5874897-12-31, in days since 1970.
const LAST_DAY: i64 = 2_147_483_493 - UNIX_EPOCH_JULIAN;

/// Replaces `date + days` and `date - days` by function calls. Runs before type coercion.
#[derive(Debug)]
pub struct DateShifts;

impl FunctionRewrite for DateShifts {
    fn name(&self) -> &str {
        "date_shifts"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let Expr::BinaryExpr(BinaryExpr {
            left,
            op: op @ (Operator::Plus | Operator::Minus),
            right,
        }) = expr
        else {
            return Ok(Transformed::no(expr));
        };
        let types = (left.get_type(schema), right.get_type(schema));
        let (Ok(left_type), Ok(right_type)) = types else {
            return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
        };
        Ok(match (left_type, op, right_type) {
            (DataType::Date32, _, days) if days.is_integer() => {
                Transformed::yes(DateShift::call(*left, op, *right))
            }
            (days, Operator::Plus, DataType::Date32) if days.is_integer() => {
                Transformed::yes(DateShift::call(*right, op, *left))
            }
            _ => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
        })
    }
}

/// A function that returns a date some days later, or some days earlier.
#[derive(Debug, PartialEq, Eq, Hash)]
struct DateShift {
    is_backward: bool,
    signature: Signature,
}

impl DateShift {
    fn call(date: Expr, op: Operator, days: Expr) -> Expr {
        let signature = Signature::any(2, Volatility::Immutable);
        let function = Self { is_backward: op == Operator::Minus, signature };
        Arc::new(ScalarUDF::new_from_impl(function)).call(vec![date, days])
    }

    fn shifted(&self, date: i32, days: i64) -> Result<i32> {
        let days = if self.is_backward { days.checked_neg() } else { Some(days) };
        days.and_then(|days| days.checked_add(i64::from(date)))
            .filter(|day| (FIRST_DAY..=LAST_DAY).contains(day))
            .and_then(|day| i32::try_from(day).ok())
            .ok_or_else(|| {
                to_datafusion(Error::new(ErrorKind::DatetimeOverflow, "date out of range"))
            })
    }
}

impl ScalarUDFImpl for DateShift {
    fn name(&self) -> &str {
        if self.is_backward { "date_minus_days" } else { "date_plus_days" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Date32)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(match inputs {
            // Dates that move by the same number of days stay in order.
            [date, days] if days.sort_properties == SortProperties::Singleton => {
                date.sort_properties
            }
            _ => SortProperties::Unordered,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let [dates, days] = arrays.as_slice() else {
            return Err(to_datafusion(Error::internal("a date is moved by two arguments")));
        };
        let dates = cast(dates, &DataType::Date32)?;
        let days = cast(days, &DataType::Int64)?;
        let pairs = dates.as_primitive::<Date32Type>().iter().zip(days.as_primitive::<Int64Type>());
        let moved = pairs.map(|pair| {
            let (Some(date), Some(days)) = pair else { return Ok(None) };
            self.shifted(date, days).map(Some)
        });
        let moved: Date32Array = moved.collect::<Result<_>>()?;
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&moved, 0)?),
            false => ColumnarValue::Array(Arc::new(moved)),
        })
    }
}
