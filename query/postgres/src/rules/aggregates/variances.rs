//! Variances and standard deviations by PostgreSQL's algorithm: the results for floats equal
//! PostgreSQL's in every digit, and are NaN if a value is infinite or NaN. DataFusion returns 0 for
//! a single such value.
//!
//! For integers and numerics, the computation uses the difference of each value from the first
//! value. The subtraction is exact. Converted to doubles, large values with small differences would
//! be equal.

use std::{collections::HashSet, sync::Arc};

use ahash::RandomState;
use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, ListArray},
    buffer::OffsetBuffer,
    compute::cast,
    datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef, Float64Type},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF, EmitTo, GroupsAccumulator, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::format_state_name,
    },
};

use stratalog_model::Error;

use crate::{
    errors::to_datafusion,
    rules::{
        layers::{self, AggregateLayer, types_fitted},
        windows::sliding_windows::floats::{FloatAggregate, FloatMoments},
    },
};

/// Digits of the largest 64-bit integer, signed or unsigned.
const BIGINT_DIGITS: u8 = 20;

/// Wraps a variance or a standard deviation to use PostgreSQL's algorithm. Other functions stay
/// unchanged.
pub fn in_steps(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    match FloatAggregate::of(function.name()) {
        Some(kind @ FloatAggregate::Spread { .. }) => {
            let signature = Signature::user_defined(Volatility::Immutable);
            layers::aggregate(function, Variances { kind, signature })
        }
        _ => function,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Variances {
    kind: FloatAggregate,
    signature: Signature,
}

/// The names of the columns of a partial result.
const STATE: [&str; 4] = ["count", "sum", "squares", "base"];

/// The widest numeric type with the given scale.
fn decimals(scale: i8) -> DataType {
    DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale)
}

/// The scale of integer and numeric arguments; `None` for floats.
fn scale_of(fields: &[FieldRef]) -> Option<i8> {
    match fields.first()?.data_type() {
        DataType::Decimal128(_, scale) => Some(*scale),
        _ => None,
    }
}

impl AggregateLayer for Variances {
    fn signature<'a>(&'a self, _: &'a AggregateUDF) -> &'a Signature {
        &self.signature
    }

    fn coerce_types(&self, inner: &AggregateUDF, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [given] if given.is_integer() => Ok(vec![DataType::Decimal128(BIGINT_DIGITS, 0)]),
            [given @ DataType::Decimal128(..)] => Ok(vec![given.clone()]),
            _ => types_fitted(inner, arguments),
        }
    }

    fn state_fields(
        &self,
        inner: &AggregateUDF,
        arguments: StateFieldsArgs<'_>,
    ) -> Result<Vec<FieldRef>> {
        let scale = scale_of(arguments.input_fields);
        let name = |name: &str| format_state_name(arguments.name, name);
        match (arguments.is_distinct, scale) {
            (true, None) => inner.state_fields(arguments),
            (true, Some(scale)) => {
                let list = DataType::List(Arc::new(Field::new_list_field(decimals(scale), true)));
                Ok(vec![Arc::new(Field::new(name("values"), list, true))])
            }
            (false, _) => {
                let types = [DataType::Float64, DataType::Float64, DataType::Float64];
                let types = types.into_iter().chain([decimals(scale.unwrap_or_default())]);
                let fields = STATE.iter().zip(types);
                Ok(fields.map(|(at, of)| Arc::new(Field::new(name(at), of, true))).collect())
            }
        }
    }

    fn accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let scale = scale_of(arguments.expr_fields);
        Ok(match (arguments.is_distinct, scale) {
            (true, None) => inner.accumulator(arguments)?,
            (true, Some(scale)) => {
                Box::new(DistinctVariance { kind: self.kind, scale, values: HashSet::default() })
            }
            (false, _) => Box::new(VarianceAccumulator {
                kind: self.kind,
                scale: scale.unwrap_or_default(),
                part: ShiftedMoments::default(),
            }),
        })
    }

    fn groups_accumulator(
        &self,
        _: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let scale = scale_of(arguments.expr_fields).unwrap_or_default();
        Ok(Box::new(VarianceGroups { kind: self.kind, scale, parts: Vec::new() }))
    }
}

/// Statistics of the differences between values and a base. For floats the base is 0; for numerics
/// the base is the first value.
#[derive(Debug, Default, Clone, Copy)]
struct ShiftedMoments {
    moments: FloatMoments,
    /// The number that is subtracted from every value, as an integer in units of the last decimal
    /// place: for numerics the first value, for floats 0.
    base: i128,
}

/// The difference `to − from` as a double. `to` and `from` are in units of the last digit;
/// `units_per_one` is 10^scale.
fn distance(to: i128, from: i128, units_per_one: f64) -> f64 {
    match to.checked_sub(from) {
        Some(distance) => distance as f64 / units_per_one,
        None => to as f64 / units_per_one - from as f64 / units_per_one,
    }
}

impl ShiftedMoments {
    fn and(self, value: f64) -> Self {
        Self { moments: self.moments.and(value), ..self }
    }

    fn and_numeric(self, value: i128, units_per_one: f64) -> Self {
        let base = if self.moments.count == 0.0 { value } else { self.base };
        Self { moments: self.moments.and(distance(value, base, units_per_one)), base }
    }

    /// Combines the statistics with the statistics of later values.
    fn with(self, other: Self, units_per_one: f64) -> Self {
        if self.moments.count == 0.0 {
            return other;
        }
        let mut later = other.moments;
        later.sum += later.count * distance(other.base, self.base, units_per_one);
        Self { moments: self.moments.with(later), ..self }
    }
}

/// A column of values.
enum Numbers {
    Doubles(Float64Array),
    Numerics(Decimal128Array),
}

impl Numbers {
    fn of(values: &[ArrayRef]) -> Result<Self> {
        let array = values.first();
        if let Some(numerics) = array.and_then(|array| array.as_primitive_opt::<Decimal128Type>()) {
            return Ok(Self::Numerics(numerics.clone()));
        }
        Ok(Self::Doubles(doubles(array)?))
    }

    /// Adds the value in a row to the statistics `part`. A NULL adds nothing.
    fn add(&self, row: usize, part: ShiftedMoments, units_per_one: f64) -> ShiftedMoments {
        match self {
            Self::Doubles(values) if values.is_valid(row) => part.and(values.value(row)),
            Self::Numerics(values) if values.is_valid(row) => {
                part.and_numeric(values.value(row), units_per_one)
            }
            _ => part,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Doubles(values) => values.len(),
            Self::Numerics(values) => values.len(),
        }
    }
}

fn units_per_one(scale: i8) -> f64 {
    10_f64.powi(i32::from(scale))
}

fn doubles(array: Option<&ArrayRef>) -> Result<Float64Array> {
    let array =
        array.ok_or_else(|| to_datafusion(Error::internal("a variance needs an argument")))?;
    Ok(cast(array, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

/// Reads partial results from four columns; each row is one partial result.
fn parts(states: &[ArrayRef]) -> Result<Vec<ShiftedMoments>> {
    let column = |at: usize| doubles(states.get(at));
    let (counts, sums, squares) = (column(0)?, column(1)?, column(2)?);
    let bases = states.get(3).and_then(|bases| bases.as_primitive_opt::<Decimal128Type>());
    let bases =
        bases.ok_or_else(|| to_datafusion(Error::internal("a partial variance has no base")))?;
    let rows = counts.iter().zip(sums.iter()).zip(squares.iter()).zip(bases.iter());
    Ok(rows
        .map(|(((count, sum), squares), base)| match (count, sum, squares, base) {
            (Some(count), Some(sum), Some(squares), Some(base)) => {
                ShiftedMoments { moments: FloatMoments { count, sum, squares }, base }
            }
            _ => ShiftedMoments::default(),
        })
        .collect())
}

/// Writes partial results to four columns; each row is one partial result.
fn columns(parts: &[ShiftedMoments], scale: i8) -> Vec<ArrayRef> {
    let column = |of: fn(&ShiftedMoments) -> f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(parts.iter().map(of)))
    };
    let bases = Decimal128Array::from_iter_values(parts.iter().map(|part| part.base));
    vec![
        column(|part| part.moments.count),
        column(|part| part.moments.sum),
        column(|part| part.moments.squares),
        Arc::new(bases.with_data_type(decimals(scale))),
    ]
}

/// Computes the variance or standard deviation of a group.
#[derive(Debug)]
struct VarianceAccumulator {
    kind: FloatAggregate,
    scale: i8,
    part: ShiftedMoments,
}

impl Accumulator for VarianceAccumulator {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let (values, units_per_one) = (Numbers::of(arrays)?, units_per_one(self.scale));
        self.part =
            (0..values.len()).fold(self.part, |part, row| values.add(row, part, units_per_one));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let columns = columns(&[self.part], self.scale);
        columns.iter().map(|column| ScalarValue::try_from_array(column, 0)).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let units_per_one = units_per_one(self.scale);
        self.part = parts(states)?
            .into_iter()
            .fold(self.part, |part, other| part.with(other, units_per_one));
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.part.moments.result(self.kind)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Computes the variance or standard deviation of the distinct numerics of a group.
#[derive(Debug)]
struct DistinctVariance {
    kind: FloatAggregate,
    scale: i8,
    values: HashSet<i128, RandomState>,
}

impl DistinctVariance {
    fn take(&mut self, values: &ArrayRef) {
        if let Some(values) = values.as_primitive_opt::<Decimal128Type>() {
            self.values.extend(values.iter().flatten());
        }
    }

    /// The values in ascending order, so that the result does not depend on the order of the rows.
    fn sorted(&self) -> Vec<i128> {
        let mut values: Vec<i128> = self.values.iter().copied().collect();
        values.sort_unstable();
        values
    }
}

impl Accumulator for DistinctVariance {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        arrays.iter().take(1).for_each(|values| self.take(values));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = Decimal128Array::from_iter_values(self.sorted());
        let values = values.with_data_type(decimals(self.scale));
        let field = Arc::new(Field::new_list_field(decimals(self.scale), true));
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        let list = ListArray::try_new(field, offsets, Arc::new(values), None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for lists in states.iter().filter_map(|states| states.as_list_opt::<i32>()) {
            lists.iter().flatten().for_each(|values| self.take(&values));
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let units_per_one = units_per_one(self.scale);
        let add = |part: ShiftedMoments, value| part.and_numeric(value, units_per_one);
        let part = self.sorted().into_iter().fold(ShiftedMoments::default(), add);
        Ok(ScalarValue::Float64(part.moments.result(self.kind)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * (size_of::<i128>() + 1)
    }
}

/// Computes the variances or standard deviations of many groups.
#[derive(Debug)]
struct VarianceGroups {
    kind: FloatAggregate,
    scale: i8,
    parts: Vec<ShiftedMoments>,
}

fn passes(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

impl GroupsAccumulator for VarianceGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        let (values, units_per_one) = (Numbers::of(values)?, units_per_one(self.scale));
        self.parts.resize(total_num_groups, ShiftedMoments::default());
        for (row, group) in group_indices.iter().enumerate() {
            if let Some(part) = self.parts.get_mut(*group)
                && passes(opt_filter, row)
            {
                *part = values.add(row, *part, units_per_one);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let parts = emit_to.take_needed(&mut self.parts);
        let results: Float64Array =
            parts.into_iter().map(|part| part.moments.result(self.kind)).collect();
        Ok(Arc::new(results))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(columns(&emit_to.take_needed(&mut self.parts), self.scale))
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        let units_per_one = units_per_one(self.scale);
        self.parts.resize(total_num_groups, ShiftedMoments::default());
        for (group, other) in group_indices.iter().zip(parts(states)?) {
            if let Some(part) = self.parts.get_mut(*group) {
                *part = part.with(other, units_per_one);
            }
        }
        Ok(())
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let (values, units_per_one) = (Numbers::of(values)?, units_per_one(self.scale));
        let parts: Vec<ShiftedMoments> = (0..values.len())
            .map(|row| match passes(opt_filter, row) {
                true => values.add(row, ShiftedMoments::default(), units_per_one),
                false => ShiftedMoments::default(),
            })
            .collect();
        Ok(columns(&parts, self.scale))
    }

    fn size(&self) -> usize {
        self.parts.capacity() * size_of::<ShiftedMoments>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(kind: FloatAggregate, values: &[f64]) -> Option<f64> {
        values.iter().copied().fold(FloatMoments::default(), FloatMoments::and).result(kind)
    }

    #[test]
    fn spreads_are_those_of_postgresql() {
        let population = FloatAggregate::Spread { root: false, sample: false };
        let near = [100_000_003.0, 100_000_004.0, 100_000_006.0, 100_000_007.0];
        assert_eq!(spread(population, &near), Some(2.5));
        assert_eq!(spread(population, &[1.5]), Some(0.0));
        for value in [f64::NAN, f64::INFINITY] {
            assert!(spread(population, &[value]).is_some_and(f64::is_nan));
        }
        assert_eq!(spread(FloatAggregate::Spread { root: true, sample: true }, &[1.0]), None);
    }
}
