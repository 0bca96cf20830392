//! The storage streams of a plan leaf, distributed among its partitions.

use datafusion::{
    error::Result,
    physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder},
};
use parking_lot::Mutex;
use stratalog_model::tier::BatchStream;

/// For each partition that has not started yet, its streams.
#[derive(Default)]
pub struct PartitionStreams(Mutex<Vec<Option<Vec<BatchStream>>>>);

impl PartitionStreams {
    /// Returns the streams of `partition`, which are read one after the other. `open` opens the
    /// streams of all `partitions`. `open` must always return the same streams, because a partition
    /// may be read more than once.
    ///
    /// # Errors
    /// The errors of `open`.
    pub fn take(
        &self,
        partition: usize,
        partitions: usize,
        metrics: &ExecutionPlanMetricsSet,
        open: impl FnOnce() -> Result<Vec<BatchStream>>,
    ) -> Result<Vec<BatchStream>> {
        let mut undelivered = self.0.lock();
        if let Some(partition_streams) = undelivered.get_mut(partition).and_then(Option::take) {
            return Ok(partition_streams);
        }
        let time = MetricBuilder::new(metrics).subset_time("open_time", partition);
        let timer = time.timer();
        let streams = open()?;
        timer.done();
        MetricBuilder::new(metrics).global_counter("streams").add(streams.len());
        *undelivered = std::iter::repeat_with(|| Some(Vec::new())).take(partitions).collect();
        for (at, stream) in streams.into_iter().enumerate() {
            if let Some(Some(partition_streams)) = undelivered.get_mut(at % partitions) {
                partition_streams.push(stream);
            }
        }
        Ok(undelivered.get_mut(partition).and_then(Option::take).unwrap_or_default())
    }
}
