//! Bins that begin between two values of the time's precision: a bin of `date_bin('300 us', t)`
//! with a `timestamp(3)` begins at microseconds. `date_bin` and `time_bucket` return the type of
//! the time; the rule therefore casts the time to a higher precision.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::{
    common::{DFSchema, Result, ScalarValue, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{Cast, Expr, ExprSchemable, cast, expr_rewriter::FunctionRewrite},
};
use stratalog_functions::literal::{self, style_of};
use stratalog_model::ColumnType;
use stratalog_text::TextStyle;

/// Casts the time argument of bins to microseconds, unless all bins begin at whole units of the
/// time.
#[derive(Debug)]
pub struct FineBins;

impl FunctionRewrite for FineBins {
    fn name(&self) -> &str {
        "fine_bins"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        config: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let Expr::ScalarFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
        if !matches!(call.name(), "date_bin" | "time_bucket") {
            return Ok(Transformed::no(Expr::ScalarFunction(call)));
        }
        let style = style_of(config);
        let fine = match call.args.as_slice() {
            [width, time, origin @ ..] => match time.get_type(schema) {
                Ok(DataType::Timestamp(unit, zone)) => unit_ns(unit)
                    .filter(|unit_ns| {
                        let mut parts = std::iter::once(width).chain(origin);
                        !parts.all(|part| is_whole(part, *unit_ns, &style))
                    })
                    .map(|_| DataType::Timestamp(TimeUnit::Microsecond, zone)),
                _ => None,
            },
            _ => None,
        };
        let (Some(fine), Some(time)) = (fine, call.args.get_mut(1)) else {
            return Ok(Transformed::no(Expr::ScalarFunction(call)));
        };
        *time = cast(std::mem::take(time), fine);
        Ok(Transformed::yes(Expr::ScalarFunction(call)))
    }
}

/// The length of a unit in nanoseconds; `None` for microseconds and nanoseconds.
fn unit_ns(unit: TimeUnit) -> Option<i64> {
    match unit {
        TimeUnit::Second => Some(1_000_000_000),
        TimeUnit::Millisecond => Some(1_000_000),
        TimeUnit::Microsecond | TimeUnit::Nanosecond => None,
    }
}

/// Whether the width, origin or offset of bins is a constant with a whole number of units.
fn is_whole(part: &Expr, unit_ns: i64, style: &TextStyle) -> bool {
    match part {
        Expr::Cast(Cast { expr, .. }) => is_whole(expr, unit_ns, style),
        Expr::Literal(value, _) => match value.try_as_str() {
            Some(Some(text)) => read(text, style).is_some_and(|value| divides(&value, unit_ns)),
            Some(None) => false,
            None => divides(value, unit_ns),
        },
        _ => false,
    }
}

/// Parses a text as an interval, or else as a time; `None` if both fail.
fn read(text: &str, style: &TextStyle) -> Option<ScalarValue> {
    let types = [ColumnType::Interval, ColumnType::TimestampTz { precision: 9 }];
    types.iter().find_map(|column_type| match literal::read(text, column_type, style) {
        Ok(Expr::Literal(value, _)) => Some(value),
        _ => None,
    })
}

fn divides(value: &ScalarValue, unit_ns: i64) -> bool {
    match value {
        ScalarValue::IntervalMonthDayNano(Some(length)) => length.nanoseconds % unit_ns == 0,
        ScalarValue::Date32(Some(_)) | ScalarValue::TimestampSecond(Some(_), _) => true,
        ScalarValue::TimestampMillisecond(Some(time), _) => time % (unit_ns / 1_000_000) == 0,
        ScalarValue::TimestampMicrosecond(Some(time), _) => time % (unit_ns / 1_000) == 0,
        ScalarValue::TimestampNanosecond(Some(time), _) => time % unit_ns == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_not_whole() {
        let (second, style) = (1_000_000_000, TextStyle::default());
        let text = |text: &str| Expr::Literal(ScalarValue::Utf8(Some(text.to_string())), None);
        for (part, wanted) in [
            (text("1 minute"), true),
            (text("1.5 s"), false),
            (text("500 ms"), false),
            (text("2000-01-01"), true),
            (text("2000-01-01 00:00:00.5"), false),
            (Expr::Literal(ScalarValue::TimestampMillisecond(Some(2_000), None), None), true),
            (Expr::Literal(ScalarValue::TimestampMillisecond(Some(2_500), None), None), false),
            (Expr::Literal(ScalarValue::Utf8(None), None), false),
        ] {
            assert_eq!(is_whole(&part, second, &style), wanted, "{part}");
        }
    }
}
