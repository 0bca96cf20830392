//! Converts a condition `extract(year FROM time) = 2024` to a range of times, so that scans can
//! skip data outside of the range.

use arrow::datatypes::DataType;
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        Expr, interval_arithmetic::Interval, preimage::PreimageResult, simplify::SimplifyContext,
    },
};
use stratalog_text::calendar::{Civil, days_of};

use super::part::{Kind, Part};

/// The range of times whose year is `wanted`, if the call extracts the year of a timestamp or date.
pub(super) fn preimage(
    arguments: &[Expr],
    wanted: &Expr,
    context: &SimplifyContext,
) -> Result<PreimageResult> {
    let [Expr::Literal(unit, _), time] = arguments else { return Ok(PreimageResult::None) };
    let data_type = context.get_data_type(time)?;
    if !matches!(data_type, DataType::Timestamp(_, _) | DataType::Date32) {
        return Ok(PreimageResult::None);
    }
    let part = unit.try_as_str().flatten().map(|name| Part::named(name, Kind::of(&data_type)));
    let (Some(Ok(Part::Year)), Expr::Literal(wanted, _)) = (part, wanted) else {
        return Ok(PreimageResult::None);
    };
    let bounds = year_of(wanted).and_then(|year| {
        Some((start_of(year, &data_type)?, start_of(year.checked_add(1)?, &data_type)?))
    });
    Ok(match bounds {
        Some((from, to)) => PreimageResult::Range {
            expr: time.clone(),
            interval: Box::new(Interval::try_new(from, to)?),
        },
        None => PreimageResult::None,
    })
}

/// The year in a constant, from 1 to 9999. `None` for any other constant; the condition is then
/// evaluated row by row.
fn year_of(wanted: &ScalarValue) -> Option<i64> {
    let ScalarValue::Int64(Some(year)) = wanted.cast_to(&DataType::Int64).ok()? else {
        return None;
    };
    let same = ScalarValue::Int64(Some(year)).cast_to(&wanted.data_type()).ok()? == *wanted;
    (same && (1..10_000).contains(&year)).then_some(year)
}

/// The first moment of a year as a value of this type; `None` if it is out of the range of the
/// type.
fn start_of(year: i64, data_type: &DataType) -> Option<ScalarValue> {
    let days = days_of(Civil { year, month: 1, day: 1 });
    let date = ScalarValue::Date32(i32::try_from(days).ok());
    let start = date.cast_to(data_type).ok()?;
    let back = start.cast_to(&DataType::Date32).ok()?;
    (back == date).then_some(start)
}
