//! Accumulators that convert the types of the arguments or results of a wrapped accumulator.

use std::borrow::Cow;

use arrow::{
    array::{ArrayRef, BooleanArray},
    compute::cast,
    datatypes::DataType,
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{Accumulator, EmitTo, GroupsAccumulator},
};

/// Wraps an accumulator of one group or of many groups, and converts its arguments and results.
/// Partial results keep the types of the wrapped accumulator.
#[derive(Debug)]
pub struct Converted<A: ?Sized> {
    /// The type of the arguments for the wrapped accumulator; `None` if they need no conversion.
    pub argument: Option<DataType>,
    /// The type to which results are converted.
    pub result: DataType,
    /// The wrapped accumulator.
    pub inner: Box<A>,
}

impl<A: ?Sized> Converted<A> {
    fn arguments<'a>(&self, values: &'a [ArrayRef]) -> Result<Cow<'a, [ArrayRef]>> {
        let Some(wanted) = &self.argument else { return Ok(Cow::Borrowed(values)) };
        let values = values.iter().map(|array| cast(array, wanted));
        Ok(Cow::Owned(values.collect::<Result<_, _>>()?))
    }
}

impl Accumulator for Converted<dyn Accumulator> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = self.arguments(values)?;
        self.inner.update_batch(&values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.inner.evaluate()?.cast_to(&self.result)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = self.arguments(values)?;
        self.inner.retract_batch(&values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

impl GroupsAccumulator for Converted<dyn GroupsAccumulator> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        let values = self.arguments(values)?;
        self.inner.update_batch(&values, groups, filter, total)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        Ok(cast(&self.inner.evaluate(emit)?, &self.result)?)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.inner.merge_batch(values, groups, total)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(&self.arguments(values)?, filter)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}
