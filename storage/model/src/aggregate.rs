//! Aggregates of events by series and window of time, as storage can tell them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::{TickScale, tier::ScanRequest};

/// Windows of equal length: tick `t` is in the one that begins at
/// `origin + floor((t − origin) ÷ width) × width`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Windows {
    /// Ticks of a window, at least 1.
    pub width: i64,
    /// A tick at which a window begins.
    pub origin: i64,
}

/// Lengths of windows that people look at, in nanoseconds: each is a multiple of those before it.
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
    /// The windows of a scale that people look at, the narrowest first: seconds to days, which
    /// begin with those of UTC. Those that ticks do not tell are left out.
    pub fn common(scale: &TickScale) -> impl DoubleEndedIterator<Item = Self> + use<> {
        let (base, tick) = (scale.base_ns(), scale.granularity().ns());
        COMMON_NS.into_iter().filter_map(move |width| {
            let origin = base.checked_neg()?.rem_euclid(width);
            (width % tick == 0 && origin % tick == 0)
                .then(|| Self { width: width / tick, origin: origin / tick })
        })
    }

    /// Where the window of a tick begins; `None` before the first tick there is.
    pub fn start(&self, tick: i64) -> Option<i64> {
        if let Some(distance) = tick.checked_sub(self.origin) {
            return tick.checked_sub(distance.rem_euclid(self.width.max(1)));
        }
        let distance = i128::from(tick) - i128::from(self.origin);
        let before = distance.rem_euclid(i128::from(self.width.max(1)));
        i64::try_from(i128::from(tick) - before).ok()
    }
}

/// What is to be told of a column, or of the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Statistic {
    /// How many events: Int64.
    Rows,
    /// How many values that are not NULL: Int64.
    Count,
    /// Their sum, NULL for none. Of doubles it is Float64, added in pairs, so that the error grows
    /// with the logarithm of their number; of whole numbers it is exact, [`WHOLE_SUM`].
    Sum,
    /// The least, NULL for none; NaN is above all numbers.
    Min,
    /// The greatest.
    Max,
}

/// The type of sums of whole numbers: wide enough for any number of them.
pub const WHOLE_SUM: DataType = DataType::Decimal128(38, 0);

/// The type of the sum of a column; `None` where storage tells none.
fn sum_type(of: &DataType) -> Option<DataType> {
    match of {
        DataType::Float64 => Some(DataType::Float64),
        DataType::Int16 | DataType::Int32 | DataType::Int64 => Some(WHOLE_SUM),
        _ => None,
    }
}

/// A statistic of a column, by its position in the definition; of the events themselves, any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// The column.
    pub column: usize,
    /// What of it.
    pub statistic: Statistic,
}

impl Wanted {
    /// Whether storage can tell such a statistic of a column of a type.
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

/// Partial aggregates of the events of a scan, by key columns and window. A group may be told
/// in several parts, to be put together by whoever asks.
#[derive(Debug, Clone)]
pub struct AggregateRequest {
    /// Which events: its ticks and keys. What it projects, orders and limits does not matter.
    pub scan: ScanRequest,
    /// Key columns to group by, by position.
    pub keys: Vec<usize>,
    /// Windows to group by.
    pub windows: Option<Windows>,
    /// What is to be told of each group.
    pub wanted: Vec<Wanted>,
}

impl AggregateRequest {
    /// Columns whose values are looked at, by position, each once.
    pub fn columns(&self) -> Vec<usize> {
        let mut columns = Vec::with_capacity(self.wanted.len());
        for wanted in &self.wanted {
            if wanted.statistic != Statistic::Rows && !columns.contains(&wanted.column) {
                columns.push(wanted.column);
            }
        }
        columns
    }

    /// What rows are read for it: the key columns, `_tick`, then [`Self::columns`]; as
    /// [`ScanRequest::projection`] counts.
    pub fn projection(&self) -> Vec<usize> {
        let tick = self.scan.chronicle.columns.len();
        self.keys.iter().copied().chain([tick]).chain(self.columns()).collect()
    }

    /// The schema of the batches that answer: the key columns, the tick at which the window
    /// begins, then what is wanted.
    pub fn schema(&self) -> SchemaRef {
        let columns = self.scan.chronicle.arrow_schema();
        let column = |at: usize| columns.fields().get(at).map(|field| field.data_type().clone());
        let mut fields: Vec<Arc<Field>> =
            self.keys.iter().filter_map(|at| columns.fields().get(*at).cloned()).collect();
        if self.windows.is_some() {
            fields.push(Arc::new(Field::new("_window", DataType::Int64, false)));
        }
        for (number, wanted) in self.wanted.iter().enumerate() {
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
        Arc::new(Schema::new(fields))
    }
}

#[cfg(test)]
mod tests;
