//! Window frames with PostgreSQL's bounds. A negative offset is an error (22013), and a frame that
//! ends before its start has no rows. DataFusion accepts negative offsets, and refuses empty
//! frames. This rule also computes offsets that are expressions.

use std::sync::Arc;

use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, FieldRef, IntervalMonthDayNano, IntervalUnit, TimeUnit,
};
use datafusion::{
    common::{
        Column, DFSchema, Result, ScalarValue,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    error::DataFusionError,
    logical_expr::{
        ColumnarValue, Expr, ExprSchemable, LogicalPlan, Projection, ReturnFieldArgs,
        ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, SortExpr, Volatility, Window,
        WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition, cast,
        expr::WindowFunction, expr_rewriter::NamePreserver, lit, simplify::SimplifyContext,
        utils::merge_schema, when,
    },
    optimizer::{AnalyzerRule, simplify_expressions::ExprSimplifier},
};
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};
use stratalog_model::{Error, ErrorKind};

use super::time_of_day_frames::{is_time_of_day, microseconds};
use crate::{
    errors::to_datafusion,
    rules::{
        calendar::lengths::{is_length, length_of},
        subqueries::decorrelation::any_expression,
        types::wide_numerics::Bound,
    },
};

const DAY_NS: i64 = 86_400_000_000_000;

/// Rule: checks offsets, and makes functions over empty frames see no rows. Runs after type
/// coercion, when offsets have the type of the compared values.
#[derive(Debug)]
pub struct Frames;

impl AnalyzerRule for Frames {
    fn name(&self) -> &str {
        "frames"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.change_with_subqueries(|node| {
            if !matches!(node, LogicalPlan::Window(_)) {
                return Ok(Transformed::no(node));
            }
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            // The calls of a node share their sort keys; if one call needs a wider key, all calls
            // get it.
            let widens = any_expression(&node, |expr| {
                expr.exists(|part| Ok(matches!(part, Expr::WindowFunction(call) if adds(call))))
            })?;
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let checked = expr.change_up(|expr| match expr {
                    Expr::WindowFunction(call) => of_call(*call, &schema, widens, config),
                    other => Ok(Transformed::no(other)),
                })?;
                Ok(checked.update_data(|expr| name.restore(expr)))
            })?
            .transform_data(each_once)
        })
        .map(|plan| plan.data)
    }
}

/// The name of the function that stores a computed offset in PARTITION BY. No statement can write
/// this name.
pub const OFFSET_FUNCTION: &str = "$frame_offset";

/// Creates the function with the name [`OFFSET_FUNCTION`].
pub fn offset_function() -> Arc<ScalarUDF> {
    let signature = Signature::any(2, Volatility::Volatile);
    Arc::new(ScalarUDF::new_from_impl(Offset { signature }))
}

/// Computes the offsets that a call stores in PARTITION BY, and inserts them into its frame.
/// Returns whether the call had such offsets.
fn compute(call: &mut WindowFunction, schema: &DFSchema, config: &ConfigOptions) -> Result<bool> {
    let params = &mut call.params;
    let mut found = Vec::new();
    params.partition_by.retain(|expr| match unaliased(expr) {
        Expr::ScalarFunction(offset) if offset.func.inner().is::<Offset>() => {
            found.push(offset.args.clone());
            false
        }
        _ => true,
    });
    if found.is_empty() {
        return Ok(false);
    }
    let frame = &params.window_frame;
    let (units, mut start, mut end) =
        (frame.units, frame.start_bound.clone(), frame.end_bound.clone());
    for arguments in found {
        let [at, offset] = arguments.as_slice() else { return Err(unread_offset_error()) };
        let Expr::Literal(at, _) = unaliased(at) else { return Err(unread_offset_error()) };
        let is_start = at.cast_to(&DataType::Int64)? == ScalarValue::Int64(Some(0));
        let (bound, which) = if is_start { (&mut start, "starting") } else { (&mut end, "ending") };
        // True if the keys of the frame are at least this far from the key of the row; false if at
        // most this far.
        let is_least_distance = is_start == matches!(bound, WindowFrameBound::Following(_));
        let (WindowFrameBound::Preceding(value) | WindowFrameBound::Following(value)) = bound
        else {
            return Err(unread_offset_error());
        };
        let mut given = constant(offset, schema, config)?;
        if given.is_null() {
            return Err(to_datafusion(Error::new(
                ErrorKind::NullNotAllowed,
                format!("frame {which} offset must not be null"),
            )));
        }
        let is_length = |key: &SortExpr| is_length(&key.expr);
        if units == WindowFrameUnits::Range && params.order_by.iter().any(is_length) {
            given = length(&given)?;
        }
        if units == WindowFrameUnits::Range
            && params.order_by.iter().any(|key| is_time_of_day(&key.expr, schema))
        {
            let microseconds = microseconds(&given)?.ok_or_else(unfit_offset)?;
            given = ScalarValue::Int64(Some(microseconds));
        }
        *value = match (value.data_type(), Bound::of_value(&given)) {
            (DataType::Decimal128(precision, scale), Some(exact)) => {
                in_digits(exact, precision, scale, is_least_distance)?
            }
            (wanted, _) => in_type(given, &wanted)?,
        };
    }
    params.window_frame = WindowFrame::new_bounds(units, start, end);
    Ok(true)
}

fn unread_offset_error() -> DataFusionError {
    to_datafusion(Error::internal("the offset of a frame has a place"))
}

fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}

/// The length of an interval offset, in nanoseconds.
fn length(given: &ScalarValue) -> Result<ScalarValue> {
    let of = given.data_type();
    if !of.is_string() && !matches!(of, DataType::Interval(_)) {
        return Err(unfit_offset());
    }
    match given.cast_to(&DataType::Interval(IntervalUnit::MonthDayNano))? {
        ScalarValue::IntervalMonthDayNano(Some(interval)) => {
            Ok(ScalarValue::Decimal128(Some(length_of(interval)), 38, 0))
        }
        _ => Err(unfit_offset()),
    }
}

/// The value of a constant offset expression.
fn constant(offset: &Expr, schema: &DFSchema, config: &ConfigOptions) -> Result<ScalarValue> {
    let context = SimplifyContext::builder()
        .with_schema(Arc::new(schema.clone()))
        .with_config_options(Arc::new(config.clone()))
        .build();
    match ExprSimplifier::new(context).simplify(offset.clone())? {
        Expr::Literal(value, _) => Ok(value),
        _ => Err(to_datafusion(Error::not_yet("this expression as the offset of a frame"))),
    }
}

/// Converts an offset to the type that the frame needs.
fn in_type(given: ScalarValue, wanted: &DataType) -> Result<ScalarValue> {
    let of = given.data_type();
    if of.is_numeric() && *wanted == DataType::UInt64 {
        return match given.cast_to(&DataType::Int64)? {
            ScalarValue::Int64(Some(rows)) if rows >= 0 => given.cast_to(wanted),
            _ => Err(negative_offset()),
        };
    }
    // Text is parsed as the wanted type; other types must be of the same kind.
    let fits = of.is_string()
        || of == *wanted
        || (of.is_integer() && wanted.is_numeric())
        || (of.is_decimal() && (wanted.is_decimal() || wanted.is_floating()))
        || (of.is_floating() && wanted.is_floating());
    if !fits {
        return Err(unfit_offset());
    }
    let offset = given.cast_to(wanted)?;
    match offset {
        // The difference of two infinities is NaN.
        ScalarValue::Float64(Some(value)) if value.is_infinite() => {
            Err(to_datafusion(Error::not_yet("a frame with an infinite offset")))
        }
        offset => Ok(offset),
    }
}

/// Rounds an offset to the scale of the keys. The frame stays the same, because no key lies between
/// the rounded and the exact offset. An offset larger than the distance of any two keys is reduced.
fn in_digits(
    exact: Bound,
    precision: u8,
    scale: i8,
    is_least_distance: bool,
) -> Result<ScalarValue> {
    if exact.is_negative() {
        return Err(negative_offset());
    }
    let end = 10_i128.saturating_pow(u32::from(precision));
    // The sum with a key must not overflow.
    let most = if precision < DECIMAL128_MAX_PRECISION { end * 2 } else { end - 1 };
    let units = exact.floor(i16::from(scale)).and_then(|(floor, is_exact)| {
        let floor = floor.to_i128()?;
        if is_least_distance && !is_exact { floor.checked_add(1) } else { Some(floor) }
    });
    let units = units.map_or(most, |units| units.min(most));
    Ok(ScalarValue::Decimal128(Some(units), precision, scale))
}

/// The function that stores a computed offset.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Offset {
    signature: Signature,
}

impl ScalarUDFImpl for Offset {
    fn name(&self) -> &str {
        OFFSET_FUNCTION
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(arrow::datatypes::Field::new(OFFSET_FUNCTION, DataType::Int64, true)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(to_datafusion(Error::internal("the offset of a frame is computed before its use")))
    }
}

/// Replaces equal calls of a node by one call. Calls over different empty frames become equal, and
/// DataFusion's elimination of common subexpressions would move a repeated call out of the node.
fn each_once(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Window(window) = node else { return Ok(Transformed::no(node)) };
    let mut seen: Vec<(Expr, Expr)> = Vec::new();
    let mut columns: Vec<Expr> =
        window.input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut computed = Vec::new();
    for expr in &window.window_expr {
        let column = Expr::Column(Column::from_name(expr.schema_name().to_string()));
        let call = expr.clone().unalias();
        if let Some((_, same)) = seen.iter().find(|(other, _)| *other == call) {
            columns.push(same.clone().alias(expr.schema_name().to_string()));
        } else {
            seen.push((call, column.clone()));
            columns.push(column);
            computed.push(expr.clone());
        }
    }
    if computed.len() == window.window_expr.len() {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let calls = Window::try_new(computed, window.input)?;
    let all = Projection::try_new(columns, Arc::new(LogicalPlan::Window(calls)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(all)))
}

fn of_call(
    mut call: WindowFunction,
    schema: &DFSchema,
    widens: bool,
    config: &ConfigOptions,
) -> Result<Transformed<Expr>> {
    if shifts_by_null(&call, schema, config) {
        let value = call.params.args.first().map(|value| value.get_type(schema)).transpose()?;
        let none = ScalarValue::try_new_null(&value.unwrap_or(DataType::Null))?;
        call.params.args = vec![Expr::Literal(none, None)];
        return Ok(Transformed::yes(Expr::WindowFunction(Box::new(call))));
    }
    // A computed offset may need the wider type too.
    let widened = widens && widen(&mut call, schema)?;
    let computed = compute(&mut call, schema, config)?;
    let frame = &call.params.window_frame;
    if adds(&call) {
        for key in &call.params.order_by {
            check_key(&key.expr.get_type(schema)?)?;
        }
    }
    for bound in [&frame.start_bound, &frame.end_bound] {
        if let WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) = bound
            && is_negative(offset)?
        {
            return Err(negative_offset());
        }
    }
    if is_empty(frame) {
        leave_none(&mut call, schema)?;
        return Ok(Transformed::yes(Expr::WindowFunction(Box::new(call))));
    }
    let in_hours = days_in_hours(&mut call.params.window_frame);
    let call = Expr::WindowFunction(Box::new(call));
    Ok(Transformed::new_transformed(call, widened || computed || in_hours))
}

/// Converts the days of two interval offsets on the same side of the row to hours. Otherwise the
/// planner, which checks the order of the bounds, would treat 24 hours as less than a day. Returns
/// whether the frame changed.
fn days_in_hours(frame: &mut WindowFrame) -> bool {
    use WindowFrameBound::{Following, Preceding};
    let ((Preceding(start), Preceding(end)) | (Following(start), Following(end))) =
        (&mut frame.start_bound, &mut frame.end_bound)
    else {
        return false;
    };
    let in_hours = |offset: &ScalarValue| match offset {
        ScalarValue::IntervalMonthDayNano(Some(interval)) => {
            let days_ns = i64::from(interval.days).checked_mul(DAY_NS)?;
            let nanoseconds = interval.nanoseconds.checked_add(days_ns)?;
            let interval = IntervalMonthDayNano::new(interval.months, 0, nanoseconds);
            Some(ScalarValue::IntervalMonthDayNano(Some(interval)))
        }
        _ => None,
    };
    let (Some(new_start), Some(new_end)) = (in_hours(start), in_hours(end)) else { return false };
    (*start, *end) = (new_start, new_end);
    true
}

/// Whether a call is `lag(v, NULL)` or `lead(v, NULL)`, whose result is NULL for every row.
fn shifts_by_null(call: &WindowFunction, schema: &DFSchema, config: &ConfigOptions) -> bool {
    let is_null = |expr: &Expr| {
        expr.column_refs().is_empty()
            && constant(expr, schema, config).is_ok_and(|value| value.is_null())
    };
    matches!(call.fun.name(), "lag" | "lead") && call.params.args.get(1).is_some_and(is_null)
}

/// Refuses a RANGE offset if the type of the sort key has no distances.
fn check_key(key: &DataType) -> Result<()> {
    let has_distance = key.is_numeric()
        || key.is_null()
        || matches!(key, DataType::Timestamp(..) | DataType::Date32 | DataType::Interval(_));
    match has_distance {
        true => Ok(()),
        false => Err(unfit_offset()),
    }
}

fn unfit_offset() -> DataFusionError {
    to_datafusion(Error::new(
        ErrorKind::FeatureNotSupported,
        "RANGE with an offset of this type is not supported for the type of the ORDER BY",
    ))
}

/// Makes a call with an empty frame see no rows. Some keys do not change by an offset: NULL plus an
/// offset is NULL, infinity plus an offset is infinity, and 1e300 plus 1 is 1e300. For such a key,
/// the RANGE frame consists of the peers of the row.
fn leave_none(call: &mut WindowFunction, schema: &DFSchema) -> Result<()> {
    let params = &mut call.params;
    let key = match params.order_by.as_slice() {
        [key] if params.window_frame.units == WindowFrameUnits::Range => Some(key),
        _ => None,
    };
    let is_ascending = key.is_some_and(|key| key.asc);
    let key = key.map(|key| &key.expr);
    let is_float = |key: &Expr| key.get_type(schema).is_ok_and(|of| of.is_floating());
    let key = match key {
        Some(key) if key.nullable(schema)? || is_float(key) => Some(key.clone()),
        _ => None,
    };
    let is_left = match &key {
        Some(key) if is_float(key) => {
            let double = cast(key.clone(), DataType::Float64);
            let far = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN].map(lit).to_vec();
            let is_left = key.clone().is_null().or(double.clone().in_list(far, false));
            match absorbed(double, &params.window_frame, is_ascending) {
                Some(is_absorbed) => is_left.or(is_absorbed),
                None => is_left,
            }
        }
        Some(key) => key.clone().is_null(),
        None => lit(false),
    };
    match &call.fun {
        WindowFunctionDefinition::AggregateUDF(_) => {
            let filter = match (params.filter.take(), &key) {
                (Some(filter), Some(_)) => filter.and(is_left),
                _ => is_left,
            };
            params.filter = Some(Box::new(filter));
        }
        WindowFunctionDefinition::WindowUDF(function) => {
            if matches!(function.name(), "first_value" | "last_value" | "nth_value")
                && let Some(value) = params.args.first_mut()
            {
                let none = ScalarValue::try_new_null(&value.get_type(schema)?)?;
                let none = Expr::Literal(none, None);
                *value = match &key {
                    Some(_) => when(is_left, std::mem::take(value)).otherwise(none)?,
                    None => none,
                };
            }
        }
    }
    // The filter excludes all rows of the new frame, or their values are NULL. Without a nullable
    // key, the frame only grows, because not every aggregate can remove rows.
    let (start, units) = match key {
        Some(_) => (WindowFrameBound::CurrentRow, WindowFrameUnits::Range),
        None => (WindowFrameBound::Preceding(ScalarValue::UInt64(None)), WindowFrameUnits::Rows),
    };
    params.window_frame = WindowFrame::new_bounds(units, start, WindowFrameBound::CurrentRow);
    Ok(())
}

/// Whether a double does not change by the greater of the two offsets of an empty frame, because
/// the double is too large.
fn absorbed(double: Expr, frame: &WindowFrame, is_ascending: bool) -> Option<Expr> {
    let (offset, is_following) = match (&frame.start_bound, &frame.end_bound) {
        (WindowFrameBound::Preceding(_), WindowFrameBound::Preceding(end)) => (end, false),
        (WindowFrameBound::Following(start), WindowFrameBound::Following(_)) => (start, true),
        _ => return None,
    };
    let ScalarValue::Float64(Some(offset)) = offset else { return None };
    let moved = match is_following == is_ascending {
        true => double.clone() + lit(*offset),
        false => double.clone() - lit(*offset),
    };
    Some(moved.eq(double))
}

/// Whether the frame of a call computes a bound from the key and an offset.
fn adds(call: &WindowFunction) -> bool {
    let frame = &call.params.window_frame;
    let is_offset = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => false,
        WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) => {
            !offset.is_null()
        }
    };
    frame.units == WindowFrameUnits::Range
        && (is_offset(&frame.start_bound) || is_offset(&frame.end_bound))
}

/// Gives the integer key of a RANGE frame a wider type, because DataFusion's sums wrap around: on
/// an overflow, the frame of the largest number would begin with the smallest number. A real
/// becomes a double, the type of PostgreSQL's sums. A date becomes a timestamp, because a date plus
/// an interval has a time of day. Returns whether the call changed.
fn widen(call: &mut WindowFunction, schema: &DFSchema) -> Result<bool> {
    let params = &mut call.params;
    let frame = &params.window_frame;
    let [key] = params.order_by.as_mut_slice() else { return Ok(false) };
    let wide = match key.expr.get_type(schema)? {
        DataType::Int8 | DataType::Int16 | DataType::Int32 => DataType::Int64,
        // The sum of two bigints has at most 20 digits.
        DataType::Int64 => DataType::Decimal128(20, 0),
        DataType::Float32 => DataType::Float64,
        DataType::Date32 => {
            let midnight = DataType::Timestamp(TimeUnit::Microsecond, None);
            key.expr = cast(std::mem::take(&mut key.expr), midnight);
            return Ok(true);
        }
        _ => return Ok(false),
    };
    let bound = |bound: &WindowFrameBound| {
        Ok(match bound {
            WindowFrameBound::CurrentRow => WindowFrameBound::CurrentRow,
            WindowFrameBound::Preceding(offset) => {
                WindowFrameBound::Preceding(offset.cast_to(&wide)?)
            }
            WindowFrameBound::Following(offset) => {
                WindowFrameBound::Following(offset.cast_to(&wide)?)
            }
        })
    };
    if frame.units == WindowFrameUnits::Range {
        let bounds: Result<(WindowFrameBound, WindowFrameBound)> =
            bound(&frame.start_bound).and_then(|start| Ok((start, bound(&frame.end_bound)?)));
        let (start, end) = bounds?;
        params.window_frame = WindowFrame::new_bounds(WindowFrameUnits::Range, start, end);
    }
    key.expr = cast(std::mem::take(&mut key.expr), wide);
    Ok(true)
}

/// The error for a negative offset.
pub fn negative_offset() -> DataFusionError {
    to_datafusion(Error::new(
        ErrorKind::InvalidFrameOffset,
        "invalid preceding or following size in window function",
    ))
}

fn is_negative(offset: &ScalarValue) -> Result<bool> {
    Ok(match offset {
        offset if offset.is_null() => false,
        ScalarValue::Float64(Some(offset)) => offset.is_nan() || *offset < 0.0,
        ScalarValue::IntervalMonthDayNano(Some(interval)) => length_of(*interval) < 0,
        offset if offset.data_type().is_numeric() => {
            *offset < ScalarValue::new_zero(&offset.data_type())?
        }
        _ => false,
    })
}

/// Whether a frame is empty for every row, because it ends before its start.
fn is_empty(frame: &WindowFrame) -> bool {
    match (&frame.start_bound, &frame.end_bound) {
        (WindowFrameBound::Preceding(start), WindowFrameBound::Preceding(end)) => {
            !start.is_null() && is_less(start, end)
        }
        (WindowFrameBound::Following(start), WindowFrameBound::Following(end)) => {
            !end.is_null() && is_less(end, start)
        }
        _ => false,
    }
}

fn is_less(left: &ScalarValue, right: &ScalarValue) -> bool {
    match (left, right) {
        (
            ScalarValue::IntervalMonthDayNano(Some(left)),
            ScalarValue::IntervalMonthDayNano(Some(right)),
        ) => length_of(*left) < length_of(*right),
        (left, right) => left < right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(start: WindowFrameBound, end: WindowFrameBound) -> WindowFrame {
        WindowFrame::new_bounds(WindowFrameUnits::Rows, start, end)
    }

    #[test]
    fn frames_that_end_before_they_begin_are_empty() {
        use WindowFrameBound::{CurrentRow, Following, Preceding};
        let rows = |rows: u64| ScalarValue::UInt64(Some(rows));
        let unbounded = ScalarValue::UInt64(None);
        for (start, end, empty) in [
            (Preceding(rows(1)), Preceding(rows(3)), true),
            (Preceding(rows(3)), Preceding(rows(1)), false),
            (Preceding(unbounded.clone()), Preceding(rows(3)), false),
            (Following(rows(3)), Following(rows(1)), true),
            (Following(rows(3)), Following(unbounded), false),
            (Preceding(rows(0)), CurrentRow, false),
        ] {
            assert_eq!(is_empty(&frame(start.clone(), end.clone())), empty, "{start} {end}");
        }
    }

    #[test]
    fn offsets_round_towards_the_keys() {
        let exact = |units| Bound::of_value(&ScalarValue::Decimal128(Some(units), 38, 4)).unwrap();
        let rounded = |units, is_least| in_digits(exact(units), 10, 2, is_least).unwrap();
        let hundredths = |units| ScalarValue::Decimal128(Some(units), 10, 2);
        assert_eq!(rounded(149, false), hundredths(1));
        assert_eq!(rounded(101, true), hundredths(2));
        assert_eq!(rounded(100, true), hundredths(1));
        assert_eq!(rounded(i128::from(i64::MAX), false), hundredths(20_000_000_000));
        assert!(in_digits(exact(-1), 10, 2, true).is_err());
    }

    #[test]
    fn intervals_are_negative_by_their_length() {
        let interval = |months, days| {
            ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(months, days, 0)))
        };
        assert!(is_negative(&interval(-1, 29)).unwrap());
        assert!(!is_negative(&interval(1, -30)).unwrap());
        assert!(is_negative(&ScalarValue::Float64(Some(-0.5))).unwrap());
        assert!(!is_negative(&ScalarValue::UInt64(Some(7))).unwrap());
    }
}
