//! Statistics of a scan, computed without reading events. The statistics are exact where the
//! snapshot has exact values, so that `count(*)`, `min(time)` and `max(time)` need no scan.

use arrow::datatypes::{DataType, Schema, TimeUnit};
use datafusion::{
    common::{ColumnStatistics, Statistics, stats::Precision},
    scalar::ScalarValue,
};
use stratalog_model::{Snapshot, Tick, tier::ScanRequest};

/// The statistics of all streams of the scan together.
pub fn of(snapshot: &dyn Snapshot, request: &ScanRequest, schema: &Schema) -> Statistics {
    let Some(extent) = snapshot.extent(&request.chronicle, &request.ticks) else {
        return Statistics::new_unknown(schema);
    };
    let rows = usize::try_from(extent.rows).unwrap_or(usize::MAX);
    let whole = request.keys.is_empty()
        && request.gsns.is_all()
        && request.values.is_empty()
        && request.newest_of.is_none()
        && request.limit.is_none_or(|limit| limit >= rows);
    let num_rows = if whole {
        Precision::Exact(rows)
    } else {
        let keyed = if request.keys.is_empty() { rows } else { rows / 100 + 1 };
        Precision::Inexact(keyed.min(request.limit.unwrap_or(usize::MAX)).min(rows))
    };
    let columns = schema
        .fields()
        .iter()
        .zip(&request.projection)
        .map(|(field, at)| {
            let mut column = ColumnStatistics::new_unknown();
            if !field.is_nullable() {
                column.null_count = Precision::Exact(0);
            }
            let definition = request.chronicle.columns.get(*at);
            let is_tick =
                definition.is_some_and(|column| column.id == request.chronicle.tick_column);
            if is_tick && whole && rows > 0 && !extent.ticks.is_empty() {
                let first = value_of(request, field.data_type(), extent.ticks.start);
                let last = value_of(request, field.data_type(), Tick(extent.ticks.end.0 - 1));
                if let (Some(first), Some(last)) = (first, last) {
                    column.min_value = Precision::Exact(first);
                    column.max_value = Precision::Exact(last);
                }
            }
            column
        })
        .collect();
    Statistics {
        num_rows,
        total_byte_size: Precision::Inexact(usize::try_from(extent.bytes).unwrap_or(usize::MAX)),
        column_statistics: columns,
    }
}

/// The value of the tick column for a tick, in the column's type.
fn value_of(request: &ScanRequest, data_type: &DataType, tick: Tick) -> Option<ScalarValue> {
    let ns = request.chronicle.scale.time_ns_of(tick)?;
    let DataType::Timestamp(unit, zone) = data_type else { return None };
    Some(match unit {
        TimeUnit::Second => {
            ScalarValue::TimestampSecond(Some(ns.div_euclid(1_000_000_000)), zone.clone())
        }
        TimeUnit::Millisecond => {
            ScalarValue::TimestampMillisecond(Some(ns.div_euclid(1_000_000)), zone.clone())
        }
        TimeUnit::Microsecond => {
            ScalarValue::TimestampMicrosecond(Some(ns.div_euclid(1_000)), zone.clone())
        }
        TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(Some(ns), zone.clone()),
    })
}
