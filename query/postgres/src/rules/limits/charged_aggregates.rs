//! Reserves memory in advance for aggregates of a group or of a window (CL-10).
//!
//! DataFusion asks for the size of an aggregate after each batch. In two cases the answer comes too
//! late:
//! - A hash table that doubles has the old and the new entries at once. An aggregate of many rows
//!   therefore reserves memory for a second copy of the aggregate.
//! - A window keeps the results of all rows of a batch. The aggregate therefore charges the large
//!   results of the last 8,192 rows.

use std::{collections::VecDeque, sync::Arc};

use arrow::array::{Array, ArrayRef};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{Accumulator, AggregateUDF, function::AccumulatorArgs},
};
use stratalog_functions::{
    governor::{self, CHARGED_BYTES_MIN, Charge},
    scalar_bytes,
};

use crate::{
    errors::to_datafusion,
    rules::layers::{self, AggregateLayer},
};

/// Number of rows between two checks of an aggregate's size.
const ROWS_BETWEEN_LOOKS: usize = 1 << 20;

/// Maximum number of results that a window keeps: the rows of a batch.
const RESULTS_KEPT: usize = 8_192;

/// Wraps aggregates with potentially large results or state to reserve memory in advance. Other
/// functions stay unchanged.
pub fn with_memory_charge(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    match function.name() {
        "string_agg" | "array_agg" | "min" | "max" | "count" | "first_value" | "last_value"
        | "nth_value" => layers::aggregate(function, ChargedLayer),
        _ => function,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ChargedLayer;

impl AggregateLayer for ChargedLayer {
    fn accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        Ok(ChargedAccumulator::charged_accumulator(inner.accumulator(arguments)?))
    }

    fn sliding_accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        Ok(ChargedAccumulator::charged_accumulator(inner.create_sliding_accumulator(arguments)?))
    }
}

#[derive(Debug)]
struct ChargedAccumulator {
    inner: Box<dyn Accumulator>,
    /// Number of rows since the last check of the size.
    rows: usize,
    /// Memory reserved for a second copy of the aggregate's state.
    headroom: Option<Charge>,
    /// Memory reservations for large results, each with the sequence number of its result.
    results: VecDeque<(usize, Charge)>,
    evaluated: usize,
}

impl ChargedAccumulator {
    fn charged_accumulator(inner: Box<dyn Accumulator>) -> Box<dyn Accumulator> {
        let results = VecDeque::new();
        Box::new(Self { inner, rows: 0, headroom: None, results, evaluated: 0 })
    }

    fn look(&mut self, rows: usize) -> Result<()> {
        self.rows = self.rows.saturating_add(rows);
        if self.rows < ROWS_BETWEEN_LOOKS {
            return Ok(());
        }
        self.rows = 0;
        governor::check()?;
        let bytes = self.inner.size();
        match &mut self.headroom {
            Some(headroom) => headroom.resize(bytes).map_err(to_datafusion),
            None => {
                self.headroom = Some(governor::charge(bytes).map_err(to_datafusion)?);
                Ok(())
            }
        }
    }

    fn charge_result(&mut self, value: &ScalarValue) -> Result<()> {
        self.evaluated += 1;
        while let Some((number, _)) = self.results.front()
            && number.saturating_add(RESULTS_KEPT) < self.evaluated
        {
            self.results.pop_front();
        }
        let bytes = scalar_bytes(value);
        if bytes >= CHARGED_BYTES_MIN {
            governor::check()?;
            let charge = governor::charge(bytes).map_err(to_datafusion)?;
            self.results.push_back((self.evaluated, charge));
        }
        Ok(())
    }
}

impl Accumulator for ChargedAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.look(values.first().map_or(0, |values| values.len()))?;
        self.inner.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.look(states.first().map_or(0, |states| states.len()))?;
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = self.inner.evaluate()?;
        self.charge_result(&value)?;
        Ok(value)
    }

    fn size(&self) -> usize {
        self.inner.size() + size_of::<Self>()
    }
}
