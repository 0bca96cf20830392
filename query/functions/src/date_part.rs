//! The functions `extract` and `date_part`, which return a field of a time, date or interval, such
//! as the year.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, Decimal128Array, Float64Array},
    datatypes::{DataType, Field, FieldRef},
};
use datafusion::{
    common::{Result, ScalarValue, plan_err},
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
        Signature, Volatility,
        planner::{ExprPlanner, PlannerResult},
        preimage::PreimageResult,
        simplify::SimplifyContext,
    },
};

use crate::function::{sql_name, text_at};

mod part;
mod source;
mod unit;
mod year;

use part::{Kind, Part};
pub use unit::{CalendarUnit, steady_unit};

/// Creates the functions `extract` and `date_part`.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let of = |exact| Arc::new(ScalarUDF::new_from_impl(DatePart::new(exact)));
    vec![of(false), of(true)]
}

/// Plans the syntax `EXTRACT(field FROM time)` as a call of `extract`.
#[derive(Debug, Default)]
pub struct Extract;

impl ExprPlanner for Extract {
    fn plan_extract(&self, arguments: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        let extract = Arc::new(ScalarUDF::new_from_impl(DatePart::new(true)));
        Ok(PlannerResult::Planned(extract.call(arguments)))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DatePart {
    /// True for `extract`, whose result is numeric; false for `date_part`, whose result is double
    /// precision.
    exact: bool,
    signature: Signature,
}

impl DatePart {
    fn new(exact: bool) -> Self {
        // The functions read the time zone from the session's settings if a field depends on it.
        Self { exact, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

/// The type to which an argument of the type `given` is cast; `None` for a type without fields.
fn source_type(given: &DataType, exact: bool) -> Option<DataType> {
    use arrow::datatypes::{IntervalUnit, TimeUnit};
    Some(match given {
        // As in PostgreSQL, only `extract` accepts dates; `date_part` casts a date to a timestamp.
        DataType::Date32 | DataType::Date64 if !exact => {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
        DataType::Date32 | DataType::Timestamp(_, _) | DataType::Duration(_) => given.clone(),
        DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Nanosecond),
        DataType::Interval(_) => DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 | DataType::Null => {
            DataType::Timestamp(TimeUnit::Nanosecond, None)
        }
        _ => return None,
    })
}

impl ScalarUDFImpl for DatePart {
    fn name(&self) -> &str {
        if self.exact { "extract" } else { "date_part" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("{} tells its type by return_field_from_args", self.name())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let kind = arguments.arg_fields.get(1).map(|field| Kind::of(field.data_type()));
        let data_type = match (self.exact, arguments.scalar_arguments.first(), kind) {
            (false, _, _) => DataType::Float64,
            (true, Some(Some(unit)), Some(kind)) => match unit.try_as_str().flatten() {
                Some(name) => {
                    let (precision, scale) = Part::named(name, kind)?.digits(kind);
                    DataType::Decimal128(precision, scale)
                }
                None => DataType::Decimal128(38, 0),
            },
            _ => return plan_err!("the unit of extract must be a constant"),
        };
        Ok(Arc::new(Field::new(self.name(), data_type, true)))
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        // The name of the field is not cast, because a cast expression would not be a constant.
        if let [
            unit @ (DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 | DataType::Null),
            time,
        ] = given
            && let Some(source) = source_type(time, self.exact)
        {
            return Ok(vec![unit.clone(), source]);
        }
        let name = self.name();
        plan_err!(
            "function {name}({}) does not exist; there is {name}(text, timestamp), {name}(text, interval)",
            given.iter().map(sql_name).collect::<Vec<_>>().join(", ")
        )
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { arguments.number_rows };
        let [units, times] = arguments.args.as_slice() else {
            return plan_err!("{} needs a unit and a time", self.name());
        };
        let (units, times) = (units.to_array(rows)?, times.to_array(rows)?);
        let units = arrow::compute::cast(&units, &DataType::Utf8View)?;
        let units: &arrow::array::StringViewArray =
            arrow::array::AsArray::as_string_view(units.as_ref());
        let kind = Kind::of(times.data_type());
        let zone = crate::literal::style_of(&arguments.config_options).time_zone;
        let source = source::Source::of(&times)?;
        let mut known: Option<(String, Part)> = None;
        let mut values: Vec<Option<(i128, i8)>> = Vec::with_capacity(rows);
        for row in 0..rows {
            let Some(name) = text_at(units, row) else {
                values.push(None);
                continue;
            };
            let part = match &known {
                Some((last, part)) if last == name => *part,
                _ => known.insert((name.to_string(), Part::named(name, kind)?)).1,
            };
            let (_, scale) = part.digits(kind);
            let instant = times.is_valid(row).then(|| source.at(row));
            values.push(instant.map(|instant| (part.of(instant, kind, &zone), scale)));
        }
        let result: ArrayRef = match arguments.return_field.data_type() {
            DataType::Decimal128(precision, scale) => {
                let numbers = values.into_iter().map(|value| value.map(|(value, _)| value));
                let numbers: Decimal128Array = numbers.collect();
                Arc::new(numbers.with_precision_and_scale(*precision, *scale)?)
            }
            _ => {
                #[expect(clippy::cast_precision_loss, reason = "date_part gives floats")]
                let float = |(value, scale): (i128, i8)| value as f64 / 10_f64.powi(scale.into());
                let numbers: Float64Array =
                    values.into_iter().map(|value| value.map(float)).collect();
                Arc::new(numbers)
            }
        };
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }

    fn preimage(
        &self,
        arguments: &[Expr],
        wanted: &Expr,
        context: &SimplifyContext,
    ) -> Result<PreimageResult> {
        year::preimage(arguments, wanted, context)
    }
}

#[cfg(test)]
mod tests;
