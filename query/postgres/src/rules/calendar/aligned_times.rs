//! Compares times of different types as instants, in a unit that can hold both sides.
//!
//! DataFusion casts the coarser side to the unit of the finer side. The cast fails for times that
//! nanoseconds cannot hold, and casts a column even if a cast of a constant would suffice. This
//! rule rounds a constant to the unit of the other side (`t < 1.5 s` means `t < 2 s` if `t` counts
//! seconds). Otherwise the rule widens the coarser side, up to the last possible time.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, Int64Array},
    compute::cast,
    datatypes::{DataType, Int64Type, TimeUnit},
};
use datafusion::{
    common::{DFSchema, Result, ScalarValue, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{
        Between, BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs,
        ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast as cast_expr,
        expr::InList,
        expr_rewriter::FunctionRewrite,
        sort_properties::{ExprProperties, SortProperties},
    },
};
use stratalog_functions::literal::compares;
use stratalog_model::Error;
use stratalog_text::calendar::per_second;

use crate::errors::to_datafusion;

const LOCAL: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Converts both sides of a comparison of times to a common type. Runs before type coercion.
#[derive(Debug)]
pub struct AlignedTimes;

impl FunctionRewrite for AlignedTimes {
    fn name(&self) -> &str {
        "aligned_times"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(op) => {
                Ok(match aligned(&left, op, &right, schema)? {
                    Some(aligned) => Transformed::yes(aligned),
                    None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
                })
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                let bound = |op, bound: &Expr| aligned(&expr, op, bound, schema);
                let (from, to) = (bound(Operator::GtEq, &low)?, bound(Operator::LtEq, &high)?);
                if from.is_none() && to.is_none() {
                    return Ok(Transformed::no(Expr::Between(Between {
                        expr,
                        negated,
                        low,
                        high,
                    })));
                }
                let from = from.unwrap_or_else(|| binary(*expr.clone(), Operator::GtEq, *low));
                let to = to.unwrap_or_else(|| binary(*expr, Operator::LtEq, *high));
                let inside = from.and(to);
                Ok(Transformed::yes(if negated { !inside } else { inside }))
            }
            Expr::InList(list) => in_list(list, schema),
            other => Ok(Transformed::no(other)),
        }
    }
}

/// Rewrites `t IN (…)`. Constants that fit in the type of `t` stay in the list; each other value of
/// another type becomes a separate comparison.
fn in_list(list: InList, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (mut kept, mut apart) = (Vec::new(), Vec::new());
    for value in &list.list {
        match aligned(&list.expr, Operator::Eq, value, schema)? {
            None => kept.push(value.clone()),
            Some(Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }))
                if left == list.expr && matches!(*right, Expr::Literal(_, _)) =>
            {
                kept.push(*right);
            }
            Some(comparison) => apart.push(comparison),
        }
    }
    if apart.is_empty() && kept == list.list {
        return Ok(Transformed::no(Expr::InList(list)));
    }
    let InList { expr, negated, .. } = list;
    let kept = (!kept.is_empty()).then(|| Expr::InList(InList::new(expr, kept, false)));
    let any = kept.into_iter().chain(apart).reduce(Expr::or);
    let any = any.unwrap_or(Expr::Literal(ScalarValue::Boolean(Some(false)), None));
    Ok(Transformed::yes(if negated { !any } else { any }))
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) })
}

/// The comparison with both sides in a common type; `None` if both sides have the same type, or are
/// not times.
fn aligned(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let types = (left.get_type(schema), right.get_type(schema));
    let (Ok(left_type), Ok(right_type)) = types else { return Ok(None) };
    let is_time =
        |data_type: &DataType| matches!(data_type, DataType::Date32 | DataType::Timestamp(_, _));
    if left_type == DataType::Date32 && right_type == DataType::Date32 {
        return Ok(of_dates(left, op, right, schema));
    }
    if left_type == right_type || !is_time(&left_type) || !is_time(&right_type) {
        return Ok(None);
    }
    let (left, left_type) = as_timestamp(left.clone(), left_type, &right_type);
    let (right, right_type) = as_timestamp(right.clone(), right_type, &left_type);
    let (DataType::Timestamp(left_unit, _), DataType::Timestamp(right_unit, _)) =
        (left_type, right_type)
    else {
        return Ok(None);
    };
    Ok(Some(match left_unit.cmp(&right_unit) {
        std::cmp::Ordering::Equal => binary(left, op, right),
        std::cmp::Ordering::Less => in_one_unit(left, left_unit, op, right, right_unit)?,
        std::cmp::Ordering::Greater => {
            let Some(op) = op.swap() else { return Ok(None) };
            in_one_unit(right, right_unit, op, left, left_unit)?
        }
    }))
}

/// Hides the cast in a comparison such as `time::date = day` of two columns inside of a function
/// call. The planner estimates the number of rows after a filter; for a plain cast it would treat
/// the whole day as an instant, and fail.
fn of_dates(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> Option<Expr> {
    if !left.any_column_refs() || !right.any_column_refs() {
        return None;
    }
    let hidden = |expr: &Expr| match expr {
        Expr::Cast(cast) if matches!(cast.expr.get_type(schema), Ok(DataType::Timestamp(_, _))) => {
            let signature = Signature::any(1, Volatility::Immutable);
            let function = Arc::new(ScalarUDF::new_from_impl(DateIdentity { signature }));
            // The cast stays inside of the call, so that it follows the session's time zone.
            Some(function.call(vec![Expr::Cast(cast.clone())]))
        }
        _ => None,
    };
    match (hidden(left), hidden(right)) {
        (None, None) => None,
        (day, other) => Some(binary(
            day.unwrap_or_else(|| left.clone()),
            op,
            other.unwrap_or_else(|| right.clone()),
        )),
    }
}

/// A function that returns a date unchanged.
#[derive(Debug, PartialEq, Eq, Hash)]
struct DateIdentity {
    signature: Signature,
}

impl ScalarUDFImpl for DateIdentity {
    fn name(&self) -> &str {
        "day_of"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Date32)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let day = arguments.args.into_iter().next();
        day.ok_or_else(|| to_datafusion(Error::internal("a date needs an argument")))
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        Ok(input.first().map_or(SortProperties::Unordered, |time| time.sort_properties))
    }
}

/// Converts one side of a comparison to a timestamp. A date becomes midnight of the day. A
/// timestamp without a time zone gets the time zone of the other side (`beside`), if the other side
/// has one.
fn as_timestamp(expr: Expr, data_type: DataType, beside: &DataType) -> (Expr, DataType) {
    let (expr, data_type) = match data_type {
        DataType::Date32 => (cast_expr(expr, LOCAL), LOCAL),
        other => (expr, other),
    };
    match (&data_type, beside) {
        (DataType::Timestamp(unit, None), DataType::Timestamp(_, Some(zone))) => {
            let zoned = DataType::Timestamp(*unit, Some(Arc::clone(zone)));
            (cast_expr(expr, zoned.clone()), zoned)
        }
        _ => (expr, data_type),
    }
}

fn in_one_unit(
    coarse: Expr,
    coarse_unit: TimeUnit,
    op: Operator,
    fine: Expr,
    fine_unit: TimeUnit,
) -> Result<Expr> {
    let up = || call(TimeConversion::Up, coarse_unit, fine.clone());
    let down = || call(TimeConversion::Down, coarse_unit, fine.clone());
    let widened =
        |coarse: Expr| binary(call(TimeConversion::Widen, fine_unit, coarse), op, fine.clone());
    if fine.any_column_refs() {
        return Ok(widened(coarse));
    }
    if let Some(whole) = whole(&fine, coarse_unit)? {
        return Ok(binary(coarse, op, whole));
    }
    Ok(match op {
        Operator::Lt | Operator::GtEq => binary(coarse, op, up()),
        Operator::LtEq | Operator::Gt => binary(coarse, op, down()),
        Operator::Eq => {
            binary(coarse.clone(), Operator::GtEq, up()).and(binary(coarse, Operator::LtEq, down()))
        }
        Operator::NotEq => {
            binary(coarse.clone(), Operator::Lt, up()).or(binary(coarse, Operator::Gt, down()))
        }
        _ => widened(coarse),
    })
}

/// The constant `fine` in the unit `unit`; `None` unless it is a whole number of these units.
fn whole(fine: &Expr, unit: TimeUnit) -> Result<Option<Expr>> {
    let Expr::Literal(value, None) = fine else { return Ok(None) };
    let array = value.to_array()?;
    let (up, down) =
        (changed(&array, TimeConversion::Up, unit)?, changed(&array, TimeConversion::Down, unit)?);
    if up.as_ref() != down.as_ref() {
        return Ok(None);
    }
    Ok(Some(Expr::Literal(ScalarValue::try_from_array(&down, 0)?, None)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum TimeConversion {
    /// Converts to a finer unit. A time out of range becomes the first or the last time in the
    /// range.
    Widen,
    /// Converts to a coarser unit, rounded up.
    Up,
    /// Converts to a coarser unit, rounded down.
    Down,
}

/// Converts `time` to a finer unit by a function call; a time out of range becomes the last
/// possible time. In place of a cast, the planner would round the other side of the comparison.
pub fn widened(time: Expr, unit: TimeUnit) -> Expr {
    call(TimeConversion::Widen, unit, time)
}

fn call(change: TimeConversion, unit: TimeUnit, time: Expr) -> Expr {
    let name = match change {
        TimeConversion::Widen => "time_widened",
        TimeConversion::Up => "time_up",
        TimeConversion::Down => "time_down",
    };
    let function = UnitConversion {
        name: format!("{name}_{unit:?}").to_lowercase(),
        change,
        unit,
        signature: Signature::any(1, Volatility::Immutable),
    };
    Arc::new(ScalarUDF::new_from_impl(function)).call(vec![time])
}

/// A function that converts a timestamp to another unit.
#[derive(Debug, PartialEq, Eq, Hash)]
struct UnitConversion {
    name: String,
    change: TimeConversion,
    unit: TimeUnit,
    signature: Signature,
}

impl ScalarUDFImpl for UnitConversion {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let zone = match arguments.first() {
            Some(DataType::Timestamp(_, zone)) => zone.clone(),
            _ => None,
        };
        Ok(DataType::Timestamp(self.unit, zone))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match arguments.args.first() {
            Some(ColumnarValue::Array(array)) => {
                Ok(ColumnarValue::Array(changed(array, self.change, self.unit)?))
            }
            Some(ColumnarValue::Scalar(value)) => {
                let changed = changed(&value.to_array()?, self.change, self.unit)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&changed, 0)?))
            }
            None => Err(to_datafusion(Error::internal("a time needs an argument"))),
        }
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        Ok(input.first().map_or(SortProperties::Unordered, |time| time.sort_properties))
    }
}

fn changed(times: &ArrayRef, change: TimeConversion, unit: TimeUnit) -> Result<ArrayRef> {
    let DataType::Timestamp(from, zone) = times.data_type() else {
        return Err(to_datafusion(Error::internal("a time in another unit needs a timestamp")));
    };
    let (given, wanted) = (per_second(*from), per_second(unit));
    let counts = cast(times, &DataType::Int64)?;
    let counts: Int64Array = counts.as_primitive::<Int64Type>().unary(|count| match change {
        TimeConversion::Widen => count.saturating_mul((wanted / given).max(1)),
        TimeConversion::Down => count.div_euclid((given / wanted).max(1)),
        TimeConversion::Up => {
            let units = (given / wanted).max(1);
            count.div_euclid(units) + i64::from(count.rem_euclid(units) != 0)
        }
    });
    Ok(cast(&counts, &DataType::Timestamp(unit, zone.clone()))?)
}

#[cfg(test)]
mod tests {
    use arrow::array::{TimestampMicrosecondArray, TimestampNanosecondArray};

    use super::*;

    #[test]
    fn units_round_and_widen() {
        let fine: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1_500, 2_000, -1_500]));
        let counts = |change| {
            let array = changed(&fine, change, TimeUnit::Microsecond).unwrap();
            let array = cast(&array, &DataType::Int64).unwrap();
            array.as_primitive::<Int64Type>().values().to_vec()
        };
        assert_eq!(counts(TimeConversion::Up), [2, 2, -1]);
        assert_eq!(counts(TimeConversion::Down), [1, 2, -2]);
        let coarse: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![7, i64::MAX]));
        let wide = changed(&coarse, TimeConversion::Widen, TimeUnit::Nanosecond).unwrap();
        let wide = cast(&wide, &DataType::Int64).unwrap();
        assert_eq!(wide.as_primitive::<Int64Type>().values().to_vec(), [7_000, i64::MAX]);
    }
}
