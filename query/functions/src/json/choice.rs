//! The functions `greatest`, `least` and `nullif` of jsonb. They compare the values and not the
//! texts, so 1.0 equals 1.

use std::{cmp::Ordering, sync::Arc};

use arrow::{
    array::{ArrayRef, AsArray, StringViewArray},
    compute::cast,
    datatypes::{DataType, FieldRef},
};
use datafusion::{
    common::Result,
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility,
    },
};
use stratalog_model::ColumnType;

use super::compare::compare;
use crate::function::{text_at, text_rows};

/// The version of `greatest`, `least` or `nullif` for jsonb; `None` for any other function name.
pub fn choice(name: &str) -> Option<Arc<ScalarUDF>> {
    let (name, take) = match name {
        "greatest" => ("jsonb_greatest", JsonChoice::Greatest),
        "least" => ("jsonb_least", JsonChoice::Least),
        "nullif" => ("jsonb_nullif", JsonChoice::Different),
        _ => return None,
    };
    let signature = Signature::variadic_any(Volatility::Immutable);
    Some(Arc::new(ScalarUDF::new_from_impl(JsonChoiceFunction { name, take, signature })))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum JsonChoice {
    Greatest,
    Least,
    Different,
}

impl JsonChoice {
    /// Returns the result for two values. `first` is the first argument, or the result for all
    /// arguments before `next`.
    fn of<'a>(self, first: Option<&'a str>, next: Option<&'a str>) -> Option<&'a str> {
        let (Some(left), Some(right)) = (first, next) else {
            return if self == JsonChoice::Different { first } else { first.or(next) };
        };
        match (self, compare(left, right)) {
            (JsonChoice::Different, Ordering::Equal) => None,
            (JsonChoice::Greatest, Ordering::Less) | (JsonChoice::Least, Ordering::Greater) => {
                Some(right)
            }
            _ => Some(left),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct JsonChoiceFunction {
    name: &'static str,
    take: JsonChoice,
    signature: Signature,
}

impl ScalarUDFImpl for JsonChoiceFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(ColumnType::Jsonb.arrow_type())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(ColumnType::Jsonb.arrow_field(self.name, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let texts = |value: &ColumnarValue| Ok(cast(&value.to_array(rows)?, &DataType::Utf8View)?);
        let columns: Vec<ArrayRef> = arguments.args.iter().map(texts).collect::<Result<_>>()?;
        let columns: Vec<&StringViewArray> =
            columns.iter().map(|column| column.as_string_view()).collect();
        let Some((first, others)) = columns.split_first() else {
            return Ok(ColumnarValue::Array(text_rows(rows, |_| Ok(None::<String>))?));
        };
        let chosen = text_rows(rows, |row| {
            let others = others.iter().map(|column| text_at(column, row));
            let chosen =
                others.fold(text_at(first, row), |before, next| self.take.of(before, next));
            Ok(chosen.map(str::to_string))
        })?;
        Ok(ColumnarValue::Array(chosen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_as_jsonb() {
        for (take, first, next, wanted) in [
            (JsonChoice::Greatest, Some("[1]"), Some("{}"), Some("{}")),
            (JsonChoice::Greatest, Some("9"), Some("10"), Some("10")),
            (JsonChoice::Least, Some("9"), Some("10"), Some("9")),
            (JsonChoice::Least, None, Some("10"), Some("10")),
            (JsonChoice::Different, Some("1.0"), Some("1"), None),
            (JsonChoice::Different, Some("1.0"), None, Some("1.0")),
            (JsonChoice::Different, None, Some("1"), None),
        ] {
            assert_eq!(take.of(first, next), wanted, "{take:?} {first:?} {next:?}");
        }
    }
}
