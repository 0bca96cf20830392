//! Aggregates of events by series and time window, computed by the storage layer.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::{TickScale, tier::ScanRequest};

/// Windows of equal length. Tick `t` is in the window that begins at
/// `origin + floor((t − origin) ÷ width) × width`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Windows {
    /// Length of a window in ticks, at least 1.
    pub width: i64,
    /// A tick at which a window begins.
    pub origin: i64,
}

/// Common window lengths, in nanoseconds. Each length is a multiple of all shorter lengths.
const COMMON_NS: [i64; 11] = {
    const SECOND: i64 = 1_000_000_000;
    const MINUTE: i64 = 60 * SECOND;
    const HOUR: i64 = 60 * MINUTE;
    [
        SECOND,
        5 * SECOND,
        10 * SECOND,
        30 * SECOND,
        MINUTE,
        5 * MINUTE,
        10 * MINUTE,
        30 * MINUTE,
        HOUR,
        6 * HOUR,
        24 * HOUR,
    ]
};

impl Windows {
    /// The common window lengths as windows of a scale, from 1 second to 1 day, the shortest first.
    /// The windows begin at whole units of UTC. A length is omitted if its windows would not begin
    /// and end exactly at a tick.
    pub fn common(scale: &TickScale) -> impl DoubleEndedIterator<Item = Self> + use<> {
        let (base, tick) = (scale.base_ns(), scale.granularity().ns());
        COMMON_NS.into_iter().filter_map(move |width| {
            let origin = base.checked_neg()?.rem_euclid(width);
            if width % tick != 0 || origin % tick != 0 {
                return None;
            }
            let windows = Self { width: width / tick, origin: origin / tick };
            debug_assert!(windows.width >= 1, "a window has no ticks");
            debug_assert!(
                (0..windows.width).contains(&windows.origin),
                "the origin is not in the window behind tick 0"
            );
            Some(windows)
        })
    }

    /// The first tick of the window that contains `tick`; `None` if the window begins before the
    /// smallest tick.
    pub fn start(&self, tick: i64) -> Option<i64> {
        debug_assert!(self.width >= 1, "a window has no ticks");
        let start = match tick.checked_sub(self.origin) {
            Some(distance) => tick.checked_sub(distance.rem_euclid(self.width.max(1))),
            None => {
                let distance = i128::from(tick) - i128::from(self.origin);
                let before = distance.rem_euclid(i128::from(self.width.max(1)));
                i64::try_from(i128::from(tick) - before).ok()
            }
        };
        debug_assert!(start.is_none_or(|start| start <= tick), "a window begins after its tick");
        debug_assert!(
            start.is_none_or(|start| tick.abs_diff(start) < self.width.unsigned_abs()),
            "a window ends before its tick"
        );
        start
    }
}

/// A statistic of the values of a column, or of the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Statistic {
    /// The number of events: Int64.
    Rows,
    /// The number of values that are not NULL: Int64.
    Count,
    /// The sum of the values; NULL without values. The sum of doubles is Float64: pairwise
    /// summation keeps the error proportional to the logarithm of the number of values. The sum of
    /// whole numbers is exact and has the type [`WHOLE_SUM`].
    Sum,
    /// The minimum of the values; NULL without values. NaN is above all numbers.
    Min,
    /// The maximum of the values; NULL without values. NaN is above all numbers.
    Max,
}

/// The type of a sum of integers: wide enough for any number of values.
pub const WHOLE_SUM: DataType = DataType::Decimal128(38, 0);

/// The type of the sum of a column with the type `of`; `None` if storage cannot compute the sum.
fn sum_type(of: &DataType) -> Option<DataType> {
    match of {
        DataType::Float64 => Some(DataType::Float64),
        DataType::Int16 | DataType::Int32 | DataType::Int64 => Some(WHOLE_SUM),
        _ => None,
    }
}

/// A statistic to compute for a column. [`Statistic::Rows`] counts events, so any column may be
/// given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ColumnStatistic {
    /// The column, as a position in the definition.
    pub column: usize,
    /// The statistic.
    pub statistic: Statistic,
}

impl ColumnStatistic {
    /// Whether storage can compute the statistic for a column of type `data_type`.
    pub fn of_type(statistic: Statistic, data_type: &DataType) -> bool {
        match statistic {
            Statistic::Rows | Statistic::Count => true,
            Statistic::Sum => sum_type(data_type).is_some(),
            Statistic::Min | Statistic::Max => matches!(
                data_type,
                DataType::Float64
                    | DataType::Float32
                    | DataType::Int16
                    | DataType::Int32
                    | DataType::Int64
                    | DataType::Timestamp(..)
            ),
        }
    }
}

/// A request for partial aggregates of events, grouped by key columns and time window. The answer
/// may contain several partial aggregates of one group; the caller merges them.
#[derive(Debug, Clone)]
pub struct AggregateRequest {
    /// Selects the events by ticks and keys. Projection, order and limit of this scan have no
    /// effect.
    pub scan: ScanRequest,
    /// Key columns to group by, as positions in the definition.
    pub keys: Vec<usize>,
    /// Time windows to group by; `None` for no grouping by time.
    pub windows: Option<Windows>,
    /// The statistics of each group.
    pub statistics: Vec<ColumnStatistic>,
}

impl AggregateRequest {
    /// The columns whose values the statistics need, as positions, without duplicates.
    pub fn columns(&self) -> Vec<usize> {
        let mut columns = Vec::with_capacity(self.statistics.len());
        for wanted in &self.statistics {
            if wanted.statistic != Statistic::Rows && !columns.contains(&wanted.column) {
                columns.push(wanted.column);
            }
        }
        debug_assert!(columns.len() <= self.statistics.len(), "a column without a statistic");
        columns
    }

    /// The columns to read for the aggregation: the key columns, `_tick`, then [`Self::columns`].
    /// The positions have the same meaning as in [`ScanRequest::projection`].
    pub fn projection(&self) -> Vec<usize> {
        let tick = self.scan.chronicle.columns.len();
        self.keys.iter().copied().chain([tick]).chain(self.columns()).collect()
    }

    /// The schema of the result batches: the key columns, the first tick of the window (if windows
    /// are requested), then the statistics.
    pub fn schema(&self) -> SchemaRef {
        let columns = self.scan.chronicle.arrow_schema();
        let column = |at: usize| columns.fields().get(at).map(|field| field.data_type().clone());
        let mut fields: Vec<Arc<Field>> =
            self.keys.iter().filter_map(|at| columns.fields().get(*at).cloned()).collect();
        if self.windows.is_some() {
            fields.push(Arc::new(Field::new("_window", DataType::Int64, false)));
        }
        for (number, wanted) in self.statistics.iter().enumerate() {
            let (data_type, nullable) = match wanted.statistic {
                Statistic::Rows | Statistic::Count => (DataType::Int64, false),
                Statistic::Sum => {
                    let sum = column(wanted.column).and_then(|of| sum_type(&of));
                    (sum.unwrap_or(DataType::Null), true)
                }
                Statistic::Min | Statistic::Max => {
                    (column(wanted.column).unwrap_or(DataType::Null), true)
                }
            };
            fields.push(Arc::new(Field::new(number.to_string(), data_type, nullable)));
        }
        debug_assert_eq!(
            fields.len(),
            self.keys.len() + usize::from(self.windows.is_some()) + self.statistics.len(),
            "the result has other columns than the request"
        );
        Arc::new(Schema::new(fields))
    }
}

#[cfg(test)]
mod tests;
