//! Computes any aggregate over a sliding window from DataFusion's partial results of the aggregate.

use arrow::array::ArrayRef;
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::Accumulator,
};

use super::{
    AccumulatorFactory,
    frame::{Fold, Frame, no_partial_results},
};
/// The arguments of the aggregate in a row.
type Row = Vec<ScalarValue>;

impl Fold for AccumulatorFactory {
    type Row = Row;
    /// The state of DataFusion's accumulator; empty for no rows.
    type Part = Vec<ScalarValue>;

    const NARROW: usize = 16;

    fn and<'a>(
        &self,
        part: &Self::Part,
        rows: impl Iterator<Item = &'a Row>,
    ) -> Result<Self::Part> {
        let mut accumulator = self.make()?;
        merge(accumulator.as_mut(), part)?;
        for row in rows {
            accumulator.update_batch(&arrays(row)?)?;
        }
        accumulator.state()
    }

    fn before(&self, row: &Row, part: &Self::Part) -> Result<Self::Part> {
        let mut accumulator = self.make()?;
        accumulator.update_batch(&arrays(row)?)?;
        merge(accumulator.as_mut(), part)?;
        accumulator.state()
    }
}

/// The rows of the window.
#[derive(Debug)]
pub(super) struct PartialResults(Frame<AccumulatorFactory>);

impl PartialResults {
    pub(super) fn new(maker: AccumulatorFactory) -> Result<Self> {
        // Creates an accumulator to report an unsupported aggregate immediately.
        maker.make()?;
        Ok(Self(Frame::new(maker)))
    }
}

fn arrays(values: &[ScalarValue]) -> Result<Vec<ArrayRef>> {
    values.iter().map(ScalarValue::to_array).collect()
}

fn merge(accumulator: &mut dyn Accumulator, part: &[ScalarValue]) -> Result<()> {
    if part.is_empty() { Ok(()) } else { accumulator.merge_batch(&arrays(part)?) }
}

impl Accumulator for PartialResults {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for row in 0..values.first().map_or(0, |array| array.len()) {
            let row = values.iter().map(|array| ScalarValue::try_from_array(array, row));
            self.0.extend([row.collect::<Result<Row>>()?]);
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.leave(values.first().map_or(0, |array| array.len()))
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        no_partial_results()
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        no_partial_results()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut accumulator = self.0.fold.make()?;
        if let Some(rows) = self.0.narrow() {
            for row in rows {
                accumulator.update_batch(&arrays(row)?)?;
            }
            return accumulator.evaluate();
        }
        let (oldest, newest) = self.0.parts()?;
        if let Some(oldest) = oldest {
            merge(accumulator.as_mut(), oldest)?;
        }
        merge(accumulator.as_mut(), newest)?;
        accumulator.evaluate()
    }

    fn size(&self) -> usize {
        let bytes =
            |values: &Vec<ScalarValue>| -> usize { values.iter().map(ScalarValue::size).sum() };
        size_of_val(self) + self.0.size(bytes, bytes)
    }
}
