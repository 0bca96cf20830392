//! Aggregates of floats return only one kind of NaN, without a sign. Like in PostgreSQL, a sum or
//! average of finite values that overflows to infinity is an error.

use std::sync::Arc;

use arrow::{
    array::{Array as _, ArrayRef, AsArray, BooleanArray},
    datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type},
};
use datafusion::{
    common::{DataFusionError, Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF, EmitTo, GroupsAccumulator, function::AccumulatorArgs,
    },
};

use stratalog_model::{Error, ErrorKind};

use crate::{
    errors::to_datafusion,
    rules::layers::{self, AggregateLayer},
};

/// Wraps `function` to return only the positive NaN. Functions without float results stay
/// unchanged.
pub fn of_results(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    match function.name() {
        "sum" | "avg" => layers::aggregate(function, CanonicalNan { overflows: true }),
        "corr" | "covar_samp" | "covar_pop" => {
            layers::aggregate(function, CanonicalNan { overflows: false })
        }
        name if name.starts_with("regr_") => {
            layers::aggregate(function, CanonicalNan { overflows: false })
        }
        _ => function,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct CanonicalNan {
    /// Whether an infinite result of finite values is an error.
    overflows: bool,
}

impl AggregateLayer for CanonicalNan {
    fn accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let is_floating = arguments.return_field.data_type().is_floating();
        let of_inner = inner.accumulator(arguments)?;
        Ok(match is_floating {
            true => {
                Box::new(CanonicalNanAccumulator { inner: of_inner, infinite: !self.overflows })
            }
            false => of_inner,
        })
    }

    fn sliding_accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let is_floating = arguments.return_field.data_type().is_floating();
        let of_inner = inner.create_sliding_accumulator(arguments)?;
        Ok(match is_floating {
            true => {
                Box::new(CanonicalNanAccumulator { inner: of_inner, infinite: !self.overflows })
            }
            false => of_inner,
        })
    }

    fn groups_accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let is_floating = arguments.return_field.data_type().is_floating();
        let of_inner = inner.create_groups_accumulator(arguments)?;
        let overflows = self.overflows;
        Ok(match is_floating {
            true => {
                Box::new(CanonicalNanGroups { inner: of_inner, overflows, infinite: Vec::new() })
            }
            false => of_inner,
        })
    }
}

fn positive(value: ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::Float64(Some(value)) if value.is_nan() => ScalarValue::Float64(Some(f64::NAN)),
        ScalarValue::Float32(Some(value)) if value.is_nan() => ScalarValue::Float32(Some(f32::NAN)),
        other => other,
    }
}

fn overflow() -> DataFusionError {
    to_datafusion(Error::new(ErrorKind::NumericOutOfRange, "value out of range: overflow"))
}

/// The positions of infinite numbers in an array. A list with an infinite number counts too,
/// because the partial result of a sum of distinct values is a list.
fn infinite(array: &ArrayRef) -> Vec<usize> {
    fn places<T: ArrowPrimitiveType>(array: &ArrayRef, is: fn(T::Native) -> bool) -> Vec<usize> {
        let numbers = array.as_primitive::<T>();
        // A fast check first, because infinite values are rare.
        if !numbers.values().iter().any(|number| is(*number)) {
            return Vec::new();
        }
        let values = numbers.values().iter().enumerate();
        values
            .filter(|(at, number)| is(**number) && numbers.is_valid(*at))
            .map(|(at, _)| at)
            .collect()
    }
    match array.data_type() {
        DataType::Float64 => places::<Float64Type>(array, f64::is_infinite),
        DataType::Float32 => places::<Float32Type>(array, f32::is_infinite),
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let elements = infinite(lists.values());
            let row_of = |element: usize| {
                let ends = lists.value_offsets().get(1..).unwrap_or_default();
                ends.partition_point(|end| usize::try_from(*end).unwrap_or(0) <= element)
            };
            let mut rows: Vec<usize> = elements.into_iter().map(row_of).collect();
            rows.dedup();
            rows.retain(|row| *row < lists.len());
            rows
        }
        _ => Vec::new(),
    }
}

fn is_infinite(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::List(list) => !infinite(&(Arc::clone(list) as ArrayRef)).is_empty(),
        ScalarValue::Float64(Some(value)) => value.is_infinite(),
        ScalarValue::Float32(Some(value)) => value.is_infinite(),
        _ => false,
    }
}

/// Computes the result of a group.
#[derive(Debug)]
struct CanonicalNanAccumulator {
    inner: Box<dyn Accumulator>,
    /// Whether an input value was infinite. If so, the result may be infinite too.
    infinite: bool,
}

impl CanonicalNanAccumulator {
    fn note(&mut self, values: &[ArrayRef]) {
        self.infinite = self.infinite || values.iter().any(|array| !infinite(array).is_empty());
    }
}

impl Accumulator for CanonicalNanAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.note(values);
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = self.inner.evaluate().map(positive)?;
        if is_infinite(&value) && !self.infinite { Err(overflow()) } else { Ok(value) }
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let state = self.inner.state()?;
        if state.iter().any(is_infinite) && !self.infinite { Err(overflow()) } else { Ok(state) }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.note(states);
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

/// Computes the results of many groups.
struct CanonicalNanGroups {
    inner: Box<dyn GroupsAccumulator>,
    overflows: bool,
    /// For each group, whether an input value was infinite. Groups beyond the end of the vector had
    /// only finite values.
    infinite: Vec<bool>,
}

impl CanonicalNanGroups {
    fn note(&mut self, values: &[ArrayRef], groups: &[usize]) {
        if !self.overflows {
            return;
        }
        for place in values.iter().flat_map(infinite) {
            let Some(group) = groups.get(place) else { continue };
            if self.infinite.len() <= *group {
                self.infinite.resize(*group + 1, false);
            }
            if let Some(infinite) = self.infinite.get_mut(*group) {
                *infinite = true;
            }
        }
    }

    /// Checks the results of groups that leave the accumulator, and removes the state of these
    /// groups.
    fn check(&mut self, results: &[ArrayRef], emit: EmitTo) -> Result<()> {
        let may_be = |group: usize| self.infinite.get(group).copied().unwrap_or(false);
        if self.overflows && results.iter().flat_map(infinite).any(|group| !may_be(group)) {
            return Err(overflow());
        }
        match emit {
            EmitTo::All => self.infinite.clear(),
            EmitTo::First(groups) => {
                self.infinite.drain(..groups.min(self.infinite.len()));
            }
        }
        Ok(())
    }
}

impl GroupsAccumulator for CanonicalNanGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.note(values, groups);
        self.inner.update_batch(values, groups, filter, total)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let results = crate::rules::equality::float_keys::with_one_nan(&self.inner.evaluate(emit)?);
        self.check(std::slice::from_ref(&results), emit)?;
        Ok(results)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let states = self.inner.state(emit)?;
        self.check(&states, emit)?;
        Ok(states)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.note(values, groups);
        self.inner.merge_batch(values, groups, total)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.inner.size() + self.infinite.capacity()
    }
}
