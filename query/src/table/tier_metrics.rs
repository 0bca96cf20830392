//! The metrics of a scan in each tier, for EXPLAIN ANALYZE.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use datafusion::physical_plan::metrics::{Count, Metric, MetricValue, MetricsSet};
use stratalog_model::{TierName, tier::ScanMetrics};

/// Adds the counts of each tier in which the scan read or skipped blocks or row groups ("parts"):
/// `tablet_parts_read`, `tablet_parts_pruned`, `tablet_rows_read`, `tablet_bytes_read`,
/// `tablet_keys_read`; for stories also `story_cells_used`.
pub fn add(set: &mut MetricsSet, scan: &ScanMetrics) {
    for tier in TierName::ALL {
        let metrics = scan.of(tier);
        let (read, pruned) = (value(&metrics.parts_read), value(&metrics.parts_pruned));
        if read == 0 && pruned == 0 {
            continue;
        }
        for (what, counted) in [
            ("parts_read", read),
            ("parts_pruned", pruned),
            ("rows_read", value(&metrics.rows)),
            ("bytes_read", value(&metrics.bytes)),
            ("keys_read", value(&metrics.keys)),
            ("cells_used", value(&metrics.cells)),
        ] {
            if what == "cells_used" && !tier.has_cells() {
                continue;
            }
            let count = Count::new();
            count.add(counted);
            let name = format!("{tier}_{what}").into();
            set.push(Arc::new(Metric::new(MetricValue::Count { name, count }, None)));
        }
    }
}

fn value(counter: &AtomicU64) -> usize {
    usize::try_from(counter.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
