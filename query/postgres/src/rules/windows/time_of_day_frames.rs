//! RANGE frames with an offset for a key of type time (time of day). The key becomes a number of
//! microseconds, and the offset becomes the time part of its interval. Like in PostgreSQL, the
//! frame ends at midnight, and months and days of the interval are ignored.
//!
//! ```text
//!   ORDER BY k RANGE '1 hour' PRECEDING  ─►  ORDER BY k::bigint RANGE 3600000000 PRECEDING
//! ```

use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::{
    common::{DFSchema, Result, ScalarValue, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{
        Expr, ExprSchemable, WindowFrame, WindowFrameBound, WindowFrameUnits, cast,
        expr_rewriter::FunctionRewrite,
    },
};

/// Rule: converts the key and the offset of RANGE frames over a time of day to numbers. Runs before
/// type coercion, which would refuse the key.
#[derive(Debug)]
pub struct TimeOfDayFrames;

impl FunctionRewrite for TimeOfDayFrames {
    fn name(&self) -> &str {
        "time_of_day_frames"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let Expr::WindowFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
        let params = &mut call.params;
        let [key] = params.order_by.as_mut_slice() else {
            return Ok(Transformed::no(Expr::WindowFunction(call)));
        };
        if params.window_frame.units != WindowFrameUnits::Range || !is_time(&key.expr, schema) {
            return Ok(Transformed::no(Expr::WindowFunction(call)));
        }
        let WindowFrame { start_bound, end_bound, .. } = &params.window_frame;
        let (start, end) = (of_bound(start_bound)?, of_bound(end_bound)?);
        params.window_frame = WindowFrame::new_bounds(WindowFrameUnits::Range, start, end);
        let time = cast(std::mem::take(&mut key.expr), DataType::Time64(TimeUnit::Microsecond));
        key.expr = cast(time, DataType::Int64);
        Ok(Transformed::yes(Expr::WindowFunction(call)))
    }
}

/// Whether a sort key is a time of day that this rule has converted to a number.
pub fn is_time_of_day(key: &Expr, schema: &DFSchema) -> bool {
    match key {
        Expr::Cast(number) => is_time(&number.expr, schema) || is_time_of_day(&number.expr, schema),
        _ => false,
    }
}

fn is_time(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|of| matches!(of, DataType::Time32(_) | DataType::Time64(_)))
}

/// The microseconds of an interval offset; `None` for other offsets.
///
/// # Errors
/// An error if the text is not an interval.
pub fn microseconds(offset: &ScalarValue) -> Result<Option<i64>> {
    let of = offset.data_type();
    if !of.is_string() && !matches!(of, DataType::Interval(_)) {
        return Ok(None);
    }
    match offset.cast_to(&DataType::Interval(IntervalUnit::MonthDayNano))? {
        ScalarValue::IntervalMonthDayNano(Some(interval)) => {
            Ok(Some(interval.nanoseconds.div_euclid(1_000)))
        }
        _ => Ok(None),
    }
}

/// Converts the interval of a bound to microseconds. A number stays, because it is the placeholder
/// of a computed offset.
fn of_bound(bound: &WindowFrameBound) -> Result<WindowFrameBound> {
    let number = |offset: &ScalarValue| {
        Ok::<_, datafusion::error::DataFusionError>(match offset.try_as_str().flatten() {
            Some(text) if text.trim().parse::<f64>().is_err() => {
                match microseconds(&ScalarValue::from(text))? {
                    Some(microseconds) => ScalarValue::from(microseconds.to_string()),
                    None => offset.clone(),
                }
            }
            _ => offset.clone(),
        })
    };
    Ok(match bound {
        WindowFrameBound::CurrentRow => WindowFrameBound::CurrentRow,
        WindowFrameBound::Preceding(offset) => WindowFrameBound::Preceding(number(offset)?),
        WindowFrameBound::Following(offset) => WindowFrameBound::Following(number(offset)?),
    })
}
