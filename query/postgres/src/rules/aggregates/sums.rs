//! Makes `sum` of integers and numerics return PostgreSQL's types: bigint for smallint and integer,
//! and numeric for bigint and numeric. An overflow is an error; DataFusion's sums would wrap
//! around.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Decimal128Array, Int64Array},
    buffer::NullBuffer,
    datatypes::{DataType, Field, FieldRef},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF, GroupsAccumulator, Signature, StatisticsArgs, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::format_state_name,
    },
};
use stratalog_model::{Error, ErrorKind};

use self::decimals::Decimals;
use crate::{
    errors::to_datafusion,
    rules::layers::{self, AggregateLayer, types_fitted},
};

mod decimals;
mod distinct;
mod groups;
mod single;

/// The type of a partial sum: wide enough for any number of rows.
const STATE: DataType = DataType::Decimal128(38, 0);

/// Digits of a sum of bigints. With only 26 digits, a quotient of the sum can keep all its decimal
/// places (`floats.rs`). A sum needs more digits only if it has more than ten million rows with the
/// greatest bigint.
const DIGITS: u8 = 26;

/// Wraps `sum` to report an overflow of integers and numerics. Other functions stay unchanged.
pub fn checked(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    match function.name() {
        "sum" => {
            let signature = Signature::user_defined(Volatility::Immutable);
            layers::aggregate(function, SumFunction { signature })
        }
        _ => function,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct SumFunction {
    signature: Signature,
}

/// The result type of a sum of integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SumType {
    /// The result of a sum of smallint or integer.
    Bigint,
    /// The result of a sum of bigint.
    Numeric,
}

impl SumType {
    /// The result type for values of type `argument`; `None` if the type is not an integer.
    fn of(argument: &DataType) -> Option<Self> {
        match argument {
            DataType::Int32 => Some(Self::Bigint),
            DataType::Int64 => Some(Self::Numeric),
            _ => None,
        }
    }

    /// The result type for the argument that `fields` describes; `None` if not an integer.
    fn of_fields(fields: &[FieldRef]) -> Option<Self> {
        fields.first().and_then(|field| Self::of(field.data_type()))
    }

    fn data_type(self) -> DataType {
        match self {
            Self::Bigint => DataType::Int64,
            Self::Numeric => DataType::Decimal128(DIGITS, 0),
        }
    }

    /// Converts the sum of a group to the result type.
    fn value(self, sum: Option<i128>) -> Result<ScalarValue> {
        Ok(match self {
            Self::Bigint => ScalarValue::Int64(sum.map(bigint).transpose()?),
            Self::Numeric => ScalarValue::Decimal128(sum.map(numeric).transpose()?, DIGITS, 0),
        })
    }

    /// Converts the sums of many groups to the result type. `seen` marks the groups that have a
    /// value.
    fn array(self, sums: Vec<i128>, seen: NullBuffer) -> Result<ArrayRef> {
        Ok(match self {
            Self::Bigint => {
                let sums = sums.into_iter().map(bigint).collect::<Result<Vec<i64>>>()?;
                Arc::new(Int64Array::new(sums.into(), Some(seen)))
            }
            Self::Numeric => {
                let sums = sums.into_iter().map(numeric).collect::<Result<Vec<i128>>>()?;
                let sums = Decimal128Array::new(sums.into(), Some(seen));
                Arc::new(sums.with_data_type(self.data_type()))
            }
        })
    }
}

fn bigint(sum: i128) -> Result<i64> {
    i64::try_from(sum).map_err(|_| out_of_range("bigint out of range"))
}

fn numeric(sum: i128) -> Result<i128> {
    match sum.unsigned_abs() < 10_u128.pow(u32::from(DIGITS)) {
        true => Ok(sum),
        false => Err(out_of_range("a sum of bigints has at most 26 digits")),
    }
}

fn out_of_range(message: &str) -> datafusion::error::DataFusionError {
    to_datafusion(Error::new(ErrorKind::NumericOutOfRange, message))
}

impl AggregateLayer for SumFunction {
    fn signature<'a>(&'a self, _: &'a AggregateUDF) -> &'a Signature {
        &self.signature
    }

    fn coerce_types(&self, inner: &AggregateUDF, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [DataType::Int8 | DataType::Int16 | DataType::Int32] => Ok(vec![DataType::Int32]),
            _ => types_fitted(inner, arguments),
        }
    }

    fn return_type(&self, inner: &AggregateUDF, arguments: &[DataType]) -> Result<DataType> {
        match arguments.first().and_then(SumType::of) {
            Some(sum_type) => Ok(sum_type.data_type()),
            None => inner.return_type(arguments),
        }
    }

    fn state_fields(
        &self,
        inner: &AggregateUDF,
        arguments: StateFieldsArgs<'_>,
    ) -> Result<Vec<FieldRef>> {
        if let Some(decimals) = Decimals::of(arguments.input_fields, &arguments.return_field) {
            return Ok(vec![Arc::new(decimals.state_field(arguments.name, arguments.is_distinct))]);
        }
        if SumType::of_fields(arguments.input_fields).is_none() {
            return inner.state_fields(arguments);
        }
        Ok(vec![Arc::new(match arguments.is_distinct {
            true => {
                let item = Field::new_list_field(DataType::Int64, true);
                Field::new_list(format_state_name(arguments.name, "sum distinct"), item, true)
            }
            false => Field::new(format_state_name(arguments.name, "sum"), STATE, true),
        })])
    }

    fn accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let decimals = Decimals::of(arguments.expr_fields, &arguments.return_field);
        match SumType::of_fields(arguments.expr_fields) {
            None if decimals.is_none() => inner.accumulator(arguments),
            _ => self.sliding_accumulator(inner, arguments),
        }
    }

    fn sliding_accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        if let Some(decimals) = Decimals::of(arguments.expr_fields, &arguments.return_field) {
            return Ok(match arguments.is_distinct {
                true => Box::new(decimals::DistinctDecimalSum::new(decimals)),
                false => Box::new(decimals::DecimalSum::new(decimals)),
            });
        }
        match (SumType::of_fields(arguments.expr_fields), arguments.is_distinct) {
            (Some(sum_type), true) => Ok(Box::new(distinct::DistinctIntegerSum::new(sum_type))),
            (Some(sum_type), false) => Ok(Box::new(single::IntegerSum::new(sum_type))),
            (None, _) => inner.create_sliding_accumulator(arguments),
        }
    }

    fn groups_accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        if let Some(decimals) = Decimals::of(arguments.expr_fields, &arguments.return_field) {
            return Ok(Box::new(decimals::DecimalSumGroups::new(decimals)));
        }
        match SumType::of_fields(arguments.expr_fields) {
            Some(sum_type) => Ok(Box::new(groups::IntegerSumGroups::new(sum_type))),
            None => inner.create_groups_accumulator(arguments),
        }
    }

    /// Disables the planner's use of statistics: the planner would multiply a constant by the
    /// number of rows without a check for overflow.
    fn value_from_stats(&self, _: &AggregateUDF, _: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        None
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::i256;
    use datafusion::logical_expr::EmitTo;

    use super::*;

    /// An overflow is an error, for one group and for many groups. Partial sums never overflow.
    #[test]
    fn sums_that_do_not_fit_are_errors() {
        let most = 10_i128.pow(26) - 1;
        for (sum_type, fits) in [(SumType::Bigint, i128::from(i64::MAX)), (SumType::Numeric, most)]
        {
            for (sum, is_error) in [(fits, false), (fits + 1, true), (-fits, false)] {
                let halves = vec![sum / 2, sum - sum / 2];
                let state = Decimal128Array::from(halves).with_data_type(STATE);
                let state: [ArrayRef; 1] = [Arc::new(state)];
                let mut one = single::IntegerSum::new(sum_type);
                one.merge_batch(&state).unwrap();
                let mut many = groups::IntegerSumGroups::new(sum_type);
                many.merge_batch(&state, &[0, 0], 1).unwrap();
                let (one, many) = (one.evaluate(), many.evaluate(EmitTo::All));
                assert_eq!(
                    (one.is_err(), many.is_err()),
                    (is_error, is_error),
                    "{sum_type:?} {sum}"
                );
                if let (Ok(one), Ok(many)) = (one, many) {
                    assert_eq!(ScalarValue::try_from_array(&many, 0).unwrap(), one);
                    assert_eq!(one.data_type(), sum_type.data_type());
                }
            }
        }
    }

    /// A sum of numerics with too many digits is an error, for one group and for many groups. A
    /// partial sum may have more digits.
    #[test]
    fn sums_of_numerics_that_do_not_fit_are_errors() {
        let decimals = Decimals { precision: 38, scale: 2 };
        let most = 10_i128.pow(38) - 1;
        for (values, fits) in [
            (vec![most, -1], true),
            (vec![most, 1], false),
            (vec![-most, -most, most], true),
            (vec![i128::MAX, i128::MAX], false),
        ] {
            let sum =
                values.iter().fold(i256::ZERO, |sum, v| sum.wrapping_add(i256::from_i128(*v)));
            let groups = vec![0; values.len()];
            let array: [ArrayRef; 1] =
                [Arc::new(Decimal128Array::from(values).with_data_type(decimals.value()))];
            let mut one = decimals::DecimalSum::new(decimals);
            one.update_batch(&array).unwrap();
            let mut many = decimals::DecimalSumGroups::new(decimals);
            many.update_batch(&array, &groups, None, 1).unwrap();
            let (one, many) = (one.evaluate(), many.evaluate(EmitTo::All));
            assert_eq!((one.is_ok(), many.is_ok()), (fits, fits), "{sum}");
            if let (Ok(one), Ok(many)) = (one, many) {
                let expected = ScalarValue::Decimal128(sum.to_i128(), 38, 2);
                assert_eq!(ScalarValue::try_from_array(&many, 0).unwrap(), expected);
                assert_eq!(one, expected);
            }
        }
    }
}
