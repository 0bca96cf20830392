//! Computes the key and the tick of each row of a batch.

use arrow::{
    array::{
        ArrayRef, RecordBatch, TimestampMicrosecondArray, TimestampMillisecondArray,
        TimestampNanosecondArray, TimestampSecondArray,
    },
    datatypes::{DataType, TimeUnit},
    row::{Row, RowConverter, Rows, SortField},
};
use stratalog_model::{ChronicleDefinition, Error, Result};

/// The values of the key columns, without the tick column, of each row of a batch.
pub(super) struct Keys(Option<Rows>);

impl Keys {
    /// The keys of a batch that has all columns of a table.
    ///
    /// # Errors
    /// Arrow's error for a type that cannot be a key.
    pub(super) fn of(definition: &ChronicleDefinition, batch: &RecordBatch) -> Result<Self> {
        let columns = definition.columns.iter().zip(batch.columns());
        let keys = columns.filter(|(column, _)| definition.key_columns.contains(&column.id));
        let keys: Vec<ArrayRef> = keys.map(|(_, values)| values.clone()).collect();
        if keys.is_empty() {
            return Ok(Self(None));
        }
        let fields = keys.iter().map(|key| SortField::new(key.data_type().clone()));
        let converter = RowConverter::new(fields.collect())?;
        Ok(Self(Some(converter.convert_columns(&keys)?)))
    }

    /// The key of the row at index `at`; `None` for a table without key columns.
    pub(super) fn row(&self, at: usize) -> Option<Row<'_>> {
        self.0.as_ref().filter(|rows| at < rows.num_rows()).map(|rows| rows.row(at))
    }
}

/// The tick of each row's time. For a time outside of the range of ticks, the time itself.
///
/// # Errors
/// `Internal` for a batch without a time column.
pub(super) fn ticks_of(definition: &ChronicleDefinition, batch: &RecordBatch) -> Result<Vec<i64>> {
    let at = definition.columns.iter().position(|column| column.id == definition.tick_column);
    let column = at.and_then(|at| batch.columns().get(at));
    let column = column.ok_or_else(|| Error::internal("rows without a tick column"))?;
    let (values, unit_ns) = times(column)?;
    let tick = |value: &i64| {
        let time_ns = value.saturating_mul(unit_ns);
        definition.scale.tick_of(time_ns).map_or(time_ns, |tick| tick.0)
    };
    Ok(values.iter().map(tick).collect())
}

/// The values of a timestamp column, and the nanoseconds of one unit of the values.
fn times(column: &ArrayRef) -> Result<(Vec<i64>, i64)> {
    macro_rules! values {
        ($array:ty, $unit:literal) => {
            column.as_any().downcast_ref::<$array>().map(|array| (array.values().to_vec(), $unit))
        };
    }
    let values = match column.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => values!(TimestampSecondArray, 1_000_000_000),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            values!(TimestampMillisecondArray, 1_000_000)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => values!(TimestampMicrosecondArray, 1_000),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => values!(TimestampNanosecondArray, 1),
        _ => None,
    };
    values.ok_or_else(|| Error::internal("the tick column is not a timestamp"))
}
