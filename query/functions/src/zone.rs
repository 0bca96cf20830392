//! Timestamps in time zones: the operator `AT TIME ZONE`, and the effect of the session's time zone
//! on `date_trunc`, `date_part` and casts.
//!
//! A timestamptz is stored in UTC. Functions of the local time use the setting `TimeZone`. Unless
//! the zone is UTC, `date_trunc('day', t)` becomes `timezone(zone, date_trunc('day', timezone(zone,
//! t)))`.

use std::sync::Arc;

use arrow::{
    array::{Array as _, ArrayRef, AsArray, Int64Array, PrimitiveArray},
    datatypes::{
        DataType, FieldRef, Int64Type, TimeUnit, TimestampMicrosecondType,
        TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    },
};
use datafusion::{
    common::{DFSchema, Result, ScalarValue, plan_err, tree_node::Transformed},
    config::ConfigOptions,
    logical_expr::{
        BinaryExpr, Cast, Expr, ExprSchemable, Operator, ScalarUDF, Volatility, WindowFrameBound,
        WindowFrameUnits,
        expr::{ScalarFunction, WindowFunction},
        expr_rewriter::FunctionRewrite,
        lit, when,
    },
};
use stratalog_model::{Error, ErrorKind};
use stratalog_text::TimeZone;

use crate::{
    failed,
    function::{Arguments, Function, Parameter, Returns, text_at},
    style::style_of,
};

mod shift;

pub(crate) use shift::later;

const LOCAL: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// The SQL functions that this module declares.
pub fn functions() -> Vec<Function> {
    vec![
        Function {
            name: "timezone",
            aliases: &[],
            parameters: &[&[Parameter::Text, Parameter::Time]],
            returns: Returns::Rule(returned),
            volatility: Volatility::Immutable,
            description: "The local time of a timestamptz in a zone, or the timestamptz of a local time: what AT TIME ZONE calls.",
            run: Arc::new(timezone),
        },
        Function {
            name: "timestamptz_add",
            aliases: &[],
            parameters: &[&[
                Parameter::Text,
                Parameter::Time,
                Parameter::Interval,
                Parameter::Boolean,
            ]],
            returns: Returns::Same(1),
            volatility: Volatility::Immutable,
            description: "A timestamptz so much later, or earlier if the last is true, by the calendar of a zone: what + and - call in a session with a time zone.",
            run: Arc::new(shift::timestamptz_add),
        },
    ]
}

/// True if the expression adds an interval to a timestamptz, or subtracts one.
fn shifts(binary: &BinaryExpr, schema: &DFSchema) -> bool {
    matches!(binary.op, Operator::Plus | Operator::Minus)
        && is_zoned(&binary.left, schema)
        && matches!(binary.right.get_type(schema), Ok(DataType::Interval(_)))
}

/// True for a constant interval that has only a time (no days and months). Its length is the same
/// in every zone.
fn is_time_of_day(interval: &Expr) -> bool {
    match interval {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(value)), _) => {
            value.months == 0 && value.days == 0
        }
        _ => false,
    }
}

fn returned(fields: &[FieldRef]) -> Result<DataType> {
    match fields.get(1).map(|field| field.data_type()) {
        Some(DataType::Timestamp(unit, Some(_))) => Ok(DataType::Timestamp(*unit, None)),
        Some(DataType::Timestamp(unit, None)) => {
            Ok(DataType::Timestamp(*unit, Some(Arc::from("UTC"))))
        }
        Some(DataType::Date32) => Ok(DataType::Timestamp(TimeUnit::Microsecond, None)),
        _ => plan_err!("timezone needs a zone and a timestamp"),
    }
}

fn timezone(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let zones = arguments.text(0)?;
    let mut times = Arc::clone(arguments.array(1)?);
    let to_local = matches!(arguments.result, DataType::Timestamp(_, None));
    if *times.data_type() == DataType::Date32 {
        times = arrow::compute::cast(&times, arguments.result)?;
    }
    let raw = arrow::compute::cast(&times, &DataType::Int64)?;
    let raw: &Int64Array = raw.as_primitive::<Int64Type>();
    let per_second: i64 = match times.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => 1,
        DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000_000,
        _ => 1_000_000_000,
    };
    let mut known: Option<(String, TimeZone)> = None;
    let mut moved = Vec::with_capacity(arguments.rows);
    for row in 0..arguments.rows {
        let Some(name) = text_at(zones, row).filter(|_| !raw.is_null(row)) else {
            moved.push(None);
            continue;
        };
        let zone = match &known {
            Some((last, zone)) if last == name => zone,
            _ => &known.insert((name.to_string(), zone_of(name)?)).1,
        };
        let value = raw.value(row);
        let seconds = value.div_euclid(per_second);
        let east = if to_local { zone.offset_at(seconds) } else { -zone.offset_of_local(seconds) };
        let shifted =
            i64::from(east).checked_mul(per_second).and_then(|east| value.checked_add(east));
        moved.push(Some(shifted.ok_or_else(|| {
            failed(Error::new(ErrorKind::DatetimeOverflow, "timestamp out of range"))
        })?));
    }
    let moved = Int64Array::from(moved);
    fn typed<T>(moved: &Int64Array, result: &DataType) -> ArrayRef
    where
        T: arrow::datatypes::ArrowPrimitiveType<Native = i64>,
    {
        let array: PrimitiveArray<T> = moved.reinterpret_cast();
        Arc::new(array.with_data_type(result.clone()))
    }
    Ok(match arguments.result {
        DataType::Timestamp(TimeUnit::Second, _) => {
            typed::<TimestampSecondType>(&moved, arguments.result)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            typed::<TimestampMillisecondType>(&moved, arguments.result)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            typed::<TimestampMicrosecondType>(&moved, arguments.result)
        }
        _ => typed::<TimestampNanosecondType>(&moved, arguments.result),
    })
}

pub(crate) fn zone_of(name: &str) -> Result<TimeZone> {
    let abbreviated = || stratalog_text::abbreviated(&name.trim().to_ascii_lowercase());
    TimeZone::parse_setting(name).or_else(|error| abbreviated().ok_or(error)).map_err(|_| {
        failed(Error::new(
            ErrorKind::InvalidParameterValue,
            format!("time zone \"{name}\" not recognized"),
        ))
    })
}

/// An expression rewrite that makes functions of the local time use the session's zone.
#[derive(Debug)]
pub struct SessionZone {
    timezone: Option<Arc<ScalarUDF>>,
    shift: Option<Arc<ScalarUDF>>,
}

impl SessionZone {
    /// Creates the rewrite. `functions` contains the functions for the calls of the rewrite, such
    /// as `timezone`.
    pub fn new(functions: &[Arc<ScalarUDF>]) -> Self {
        let named =
            |name| functions.iter().find(|function| function.name() == name).map(Arc::clone);
        Self { timezone: named("timezone"), shift: named("timestamptz_add") }
    }
}

fn is_utc(zone: &str) -> bool {
    matches!(zone, "UTC" | "utc" | "Z" | "+00:00" | "+00" | "GMT" | "Etc/UTC")
}

/// True if `expr` is a timestamptz.
fn is_zoned(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(
        expr.get_type(schema),
        Ok(DataType::Timestamp(_, Some(zone))) if is_utc(&zone)
    )
}

fn is_date(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Date32))
}

fn is_plain(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Timestamp(_, None) | DataType::Date32))
}

impl FunctionRewrite for SessionZone {
    fn name(&self) -> &str {
        "session_zone"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        config: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let expr = match in_zone(expr, &self.timezone, schema, config)? {
            changed if changed.transformed => return Ok(changed),
            same => same.data,
        };
        let zone = style_of(config).time_zone.to_string();
        let zone = Some(zone).filter(|zone| !is_utc(zone));
        let (Some(zone), Some(timezone), Some(shift)) = (zone, &self.timezone, &self.shift) else {
            return Ok(Transformed::no(expr));
        };
        let local = |inner: Expr| {
            timezone
                .call(vec![Expr::Literal(ScalarValue::Utf8(Some(zone.to_string())), None), inner])
        };
        match expr {
            Expr::ScalarFunction(mut call)
                if matches!(call.name(), "date_trunc" | "date_part" | "extract")
                    && call.args.len() == 2
                    && call.args.get(1).is_some_and(|time| is_zoned(time, schema))
                    && !is_zone_independent(&call) =>
            {
                let truncates = call.name() == "date_trunc";
                let instant = call.args.get(1).cloned().unwrap_or_default();
                let shown = local(instant.clone());
                let keeps_offset = truncates && is_below_day(&call);
                if let Some(time) = call.args.get_mut(1) {
                    *time = shown.clone();
                }
                // If the unit is not a constant, a CASE compares it at execution.
                let unit = call.args.first().filter(|unit| !is_literal(unit)).cloned();
                let of_instant = match (&unit, truncates) {
                    (Some(unit), false) => {
                        Some(call.func.call(vec![unit.clone(), instant.clone()]))
                    }
                    _ => None,
                };
                let call = Expr::ScalarFunction(call);
                Ok(Transformed::yes(match (unit, of_instant) {
                    (Some(unit), Some(of_instant)) => {
                        unit_choice(unit, &PARTS_OF_INSTANT, of_instant, call)?
                    }
                    (Some(unit), None) => {
                        let cut = cut_off(instant, shown, call.clone());
                        unit_choice(unit, &UNITS_BELOW_DAY, cut, local(call))?
                    }
                    (None, _) if keeps_offset => cut_off(instant, shown, call),
                    (None, _) if truncates => local(call),
                    (None, _) => call,
                }))
            }
            Expr::ScalarFunction(mut call)
                if call.name() == "date_trunc"
                    && call.args.get(1).is_some_and(|time| is_date(time, schema)) =>
            {
                if let Some(time) = call.args.get_mut(1) {
                    *time = datafusion::logical_expr::cast(std::mem::take(time), LOCAL);
                }
                Ok(Transformed::yes(local(Expr::ScalarFunction(call))))
            }
            Expr::BinaryExpr(binary)
                if shifts(&binary, schema) && !is_time_of_day(&binary.right) =>
            {
                let back = binary.op == Operator::Minus;
                let zone = Expr::Literal(ScalarValue::Utf8(Some(zone.to_string())), None);
                let arguments = vec![zone, *binary.left, *binary.right, lit(back)];
                Ok(Transformed::yes(shift.call(arguments)))
            }
            Expr::Cast(cast) => {
                let from_zoned = is_zoned(&cast.expr, schema);
                let move_zone = match cast.field.data_type() {
                    DataType::Timestamp(_, None) | DataType::Date32 | DataType::Time64(_) => {
                        from_zoned
                    }
                    DataType::Timestamp(_, Some(_)) => is_plain(&cast.expr, schema),
                    _ => false,
                };
                if !move_zone {
                    return Ok(Transformed::no(Expr::Cast(cast)));
                }
                // A date means midnight in the session's zone.
                let inner = match is_date(&cast.expr, schema) {
                    true => datafusion::logical_expr::cast(*cast.expr, LOCAL),
                    false => *cast.expr,
                };
                let inner = Box::new(local(inner));
                Ok(Transformed::yes(Expr::Cast(Cast { expr: inner, field: cast.field })))
            }
            Expr::WindowFunction(window) => {
                check_frame(&window, schema, &style_of(config).time_zone)?;
                Ok(Transformed::no(Expr::WindowFunction(window)))
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

/// Refuses a RANGE window frame of months or days over a timestamptz, because DataFusion would
/// compute the frame in UTC. Days are accepted if `zone` has a constant offset.
fn check_frame(window: &WindowFunction, schema: &DFSchema, zone: &TimeZone) -> Result<()> {
    let parameters = &window.params;
    let frame = &parameters.window_frame;
    let by_instants = parameters.order_by.iter().any(|sort| is_zoned(&sort.expr, schema));
    if frame.units != WindowFrameUnits::Range || !by_instants {
        return Ok(());
    }
    let is_civil = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(ScalarValue::IntervalMonthDayNano(Some(length)))
        | WindowFrameBound::Following(ScalarValue::IntervalMonthDayNano(Some(length))) => {
            let steady = matches!(zone, TimeZone::Fixed { .. });
            length.months != 0 || length.days != 0 && !steady
        }
        _ => false,
    };
    if !is_civil(&frame.start_bound) && !is_civil(&frame.end_bound) {
        return Ok(());
    }
    let message = format!(
        "a RANGE frame of days or months over a timestamptz is not supported in the time zone {zone}"
    );
    Err(failed(Error::new(ErrorKind::FeatureNotSupported, message).with_hint(
        "write the frame in hours (interval '24 hours'), order by the local time (time AT TIME ZONE '…'), or SET TimeZone = 'UTC'",
    )))
}

/// Replaces a call `date_trunc(unit, time, zone)` by an expression that truncates the local time of
/// `zone`. Other expressions stay unchanged.
fn in_zone(
    expr: Expr,
    timezone: &Option<Arc<ScalarUDF>>,
    schema: &DFSchema,
    config: &ConfigOptions,
) -> Result<Transformed<Expr>> {
    let (mut call, timezone) = match (expr, timezone) {
        (Expr::ScalarFunction(call), Some(timezone))
            if call.name() == "date_trunc" && call.args.len() == 3 =>
        {
            (call, timezone)
        }
        (expr, _) => return Ok(Transformed::no(expr)),
    };
    let zone = call.args.pop().unwrap_or_default();
    let keeps_offset = is_below_day(&call);
    let (mut instant, mut shown) = (Expr::default(), Expr::default());
    if let Some(time) = call.args.get_mut(1) {
        let mut inner = std::mem::take(time);
        if is_plain(&inner, schema) {
            // A time without a zone counts as a local time of the session's zone.
            let session = style_of(config).time_zone.to_string();
            let session = Expr::Literal(ScalarValue::Utf8(Some(session)), None);
            if is_date(&inner, schema) {
                inner = datafusion::logical_expr::cast(inner, LOCAL);
            }
            inner = timezone.call(vec![session, inner]);
        }
        instant = inner.clone();
        *time = timezone.call(vec![zone.clone(), inner]);
        shown = time.clone();
    }
    let unit = call.args.first().filter(|unit| !is_literal(unit)).cloned();
    let call = Expr::ScalarFunction(call);
    Ok(Transformed::yes(match unit {
        Some(unit) => {
            let cut = cut_off(instant, shown, call.clone());
            unit_choice(unit, &UNITS_BELOW_DAY, cut, timezone.call(vec![zone, call]))?
        }
        None if keeps_offset => cut_off(instant, shown, call),
        None => timezone.call(vec![zone, call]),
    }))
}

/// True if the call truncates to a unit below a day. Such a truncation changes neither the day nor
/// the offset of the zone.
fn is_below_day(call: &ScalarFunction) -> bool {
    let unit = match call.args.first() {
        Some(Expr::Literal(unit, _)) => unit.try_as_str().flatten().unwrap_or_default(),
        _ => return false,
    };
    let unit = unit.to_ascii_lowercase();
    ["h", "hour", "min", "sec", "s", "mil", "us", "usec", "micro", "ms", "msec"]
        .iter()
        .any(|start| unit.starts_with(start))
        && !unit.starts_with("millen")
        && !matches!(unit.as_str(), "mil" | "mils")
        || unit == "m"
}

/// The names of the units of `date_trunc` that are shorter than a day.
const UNITS_BELOW_DAY: [&str; 25] = [
    "hour",
    "hours",
    "h",
    "hr",
    "hrs",
    "minute",
    "minutes",
    "m",
    "min",
    "mins",
    "second",
    "seconds",
    "s",
    "sec",
    "secs",
    "millisecond",
    "milliseconds",
    "ms",
    "msec",
    "msecs",
    "microsecond",
    "microseconds",
    "us",
    "usec",
    "usecs",
];

/// The fields of `date_part` that depend on the instant, and not on the local time.
const PARTS_OF_INSTANT: [&str; 6] =
    ["epoch", "timezone", "timezone_hour", "timezone_minute", "timezone_h", "timezone_m"];

fn is_literal(unit: &Expr) -> bool {
    matches!(unit, Expr::Literal(_, _))
}

/// Makes an expression `CASE WHEN lower(unit) IN (names) THEN these ELSE others END`.
fn unit_choice(unit: Expr, names: &[&str], these: Expr, others: Expr) -> Result<Expr> {
    let name = datafusion::functions::string::lower().call(vec![unit]);
    let names = names.iter().map(|name| lit(*name)).collect();
    when(name.in_list(names, false), these).otherwise(others)
}

/// Subtracts from `instant` the time that truncation removed from its local time: `shown` is the
/// local time, and `cut` is the truncated local time. When the clocks repeat an hour, each of the
/// two hours thus keeps its own start.
fn cut_off(instant: Expr, shown: Expr, cut: Expr) -> Expr {
    instant - (shown - cut)
}

/// True if the call reads a field that does not depend on the local time: seconds since 1970 are
/// the same in every zone, and the offset of a zone belongs to the instant.
fn is_zone_independent(call: &ScalarFunction) -> bool {
    let part = match call.args.first() {
        Some(Expr::Literal(part, _)) => part.try_as_str().flatten().unwrap_or_default(),
        _ => return false,
    };
    call.name() != "date_trunc"
        && PARTS_OF_INSTANT
            .iter()
            .any(|known| part.trim_matches(['\'', '"']).eq_ignore_ascii_case(known))
}
