//! The streams of a leaf, distributed among its partitions.

use datafusion::{
    error::Result,
    physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder},
};
use parking_lot::Mutex;
use stratalog_model::tier::BatchStream;

/// The distributed streams of the partitions that have not started yet.
#[derive(Default)]
pub struct Dealt(Mutex<Vec<Option<Vec<BatchStream>>>>);

impl Dealt {
    /// The streams of `partition`, read in sequence. `open` opens the streams of all `partitions`,
    /// and always the same streams, because a partition may be read more than once.
    ///
    /// # Errors
    /// The errors of `open`.
    pub fn hand(
        &self,
        partition: usize,
        partitions: usize,
        metrics: &ExecutionPlanMetricsSet,
        open: impl FnOnce() -> Result<Vec<BatchStream>>,
    ) -> Result<Vec<BatchStream>> {
        let mut dealt = self.0.lock();
        if let Some(hand) = dealt.get_mut(partition).and_then(Option::take) {
            return Ok(hand);
        }
        let time = MetricBuilder::new(metrics).subset_time("open_time", partition);
        let timer = time.timer();
        let streams = open()?;
        timer.done();
        MetricBuilder::new(metrics).global_counter("streams").add(streams.len());
        *dealt = std::iter::repeat_with(|| Some(Vec::new())).take(partitions).collect();
        for (at, stream) in streams.into_iter().enumerate() {
            if let Some(Some(hand)) = dealt.get_mut(at % partitions) {
                hand.push(stream);
            }
        }
        Ok(dealt.get_mut(partition).and_then(Option::take).unwrap_or_default())
    }
}
