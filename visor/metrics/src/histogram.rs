//! Histograms that need no lock.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::{MetricType, TypedMetric},
};

/// Counts observed values in buckets. Clones share the counts.
#[derive(Debug, Clone)]
pub struct Histogram(Arc<BucketCounts>);

#[derive(Debug)]
struct BucketCounts {
    /// The upper bounds of the buckets, inclusive and ascending.
    bounds: &'static [u64],
    /// The output divides observed values by this number: for example 1e9 for nanoseconds shown in
    /// seconds.
    scale: f64,
    /// The count of each bucket; the last count is for values above all bounds.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    /// An empty histogram. The output divides observed values by `scale`.
    pub(crate) fn new(bounds: &'static [u64], scale: f64) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(BucketCounts { bounds, scale, counts, sum: AtomicU64::new(0) }))
    }

    /// Adds a value to the histogram.
    pub fn observe(&self, value: u64) {
        let BucketCounts { bounds, counts, sum, .. } = &*self.0;
        let at = bounds.partition_point(|bound| *bound < value);
        if let Some(count) = counts.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Adds a duration to a histogram of nanoseconds.
    pub fn observe_duration(&self, duration: Duration) {
        self.observe(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// The number of observed values.
    pub fn count(&self) -> u64 {
        self.0.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

impl TypedMetric for Histogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let BucketCounts { bounds, scale, counts, sum } = &*self.0;
        let bounds = bounds.iter().map(|bound| *bound as f64 / scale).chain([f64::INFINITY]);
        let counts = counts.iter().map(|count| count.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        // Compute the total from the same reads as the buckets, so that both always agree.
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = sum.load(Ordering::Relaxed) as f64 / scale;
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
