//! Computes the cells (aggregates per series and time window) from the rows of a row group.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{
        Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, RecordBatch,
        UInt32Array,
    },
    compute::{partition, take},
    datatypes::{DataType, Float64Type, Int64Type, Schema, SchemaRef},
};
use stratalog_model::{Error, Result, aggregate::Windows};

use super::{CellColumn, layout, place_of};
use crate::{
    kernel::{Column, Number, Total},
    schema::{Source, StorySchema},
};

/// Maximum difference between two sums of the same floats in different orders, divided by the
/// largest absolute value times the number of values.
const SUM_ERROR: f64 = 1e-12;

/// The Arrow schema of the cells.
pub(crate) fn schema_of(schema: &StorySchema) -> SchemaRef {
    let fields = layout(schema).into_iter().map(|(_, field)| field);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Computes the cells of a row group, each of about `cell_rows` rows. The rows must be sorted by
/// key and tick, and have the columns of [`StorySchema::arrow_schema`]. Returns `None` if the keys
/// have on average less than a quarter of `cell_rows` rows.
///
/// # Errors
/// `Internal` for rows with unexpected columns.
pub(crate) fn cells_of(
    schema: &StorySchema,
    cell_rows: usize,
    rows: &RecordBatch,
) -> Result<Option<RecordBatch>> {
    let missing = || Error::internal("rows of a story lack a column");
    let column = |at: Option<usize>| at.and_then(|at| rows.columns().get(at)).ok_or_else(missing);
    let keys = schema.key_positions().map(|at| column(Some(at)).map(Arc::clone));
    let keys = keys.collect::<Result<Vec<ArrayRef>>>()?;
    let runs = match rows.num_rows() {
        0 => Vec::new(),
        rows if keys.is_empty() => std::iter::once(0..rows).collect(),
        _ => partition(&keys)?.ranges(),
    };
    debug_assert_eq!(
        runs.iter().map(Range::len).sum::<usize>(),
        rows.num_rows(),
        "the runs are not all rows"
    );
    let ticks = column(schema.position(Source::Tick))?;
    let ticks: &[i64] = ticks.as_primitive_opt::<Int64Type>().ok_or_else(missing)?.values();
    if runs.is_empty() || rows.num_rows() / runs.len() < cell_rows.div_ceil(4) {
        return Ok(None);
    }
    let cells = cut(&runs, ticks, windows_for(schema, cell_rows, runs.len(), ticks));
    debug_assert!(cells.len() >= runs.len(), "a run without a cell");
    debug_assert!(cells.iter().all(|cell| !cell.is_empty()), "a cell without rows");
    let mut arrays = Vec::new();
    for (of, field) in layout(schema) {
        let values = column(place_of(schema, of))?;
        arrays.push(cell_values(of, values, ticks, &cells, field.data_type())?);
    }
    Ok(Some(RecordBatch::try_new(schema_of(schema), arrays)?))
}

/// The shortest time windows whose cells have enough rows; `None` for one cell per key.
fn windows_for(
    schema: &StorySchema,
    cell_rows: usize,
    runs: usize,
    ticks: &[i64],
) -> Option<Windows> {
    debug_assert!((1..=ticks.len()).contains(&runs), "a run without a row");
    let (first, last) = (*ticks.iter().min()?, *ticks.iter().max()?);
    Windows::common(&schema.scale).find(|windows| {
        let number = |tick| windows.start(tick).map(|start| start / windows.width);
        let (Some(first), Some(last)) = (number(first), number(last)) else { return false };
        debug_assert!(first <= last, "a later tick has an earlier window");
        let each = usize::try_from(last - first).unwrap_or(usize::MAX).saturating_add(1);
        runs.saturating_mul(each).saturating_mul(cell_rows) <= ticks.len()
    })
}

/// Divides the runs of rows with equal keys into cells, by time window; returns the rows of each
/// cell.
fn cut(runs: &[Range<usize>], ticks: &[i64], windows: Option<Windows>) -> Vec<Range<usize>> {
    debug_assert!(runs.last().is_none_or(|run| run.end <= ticks.len()), "rows without a tick");
    let Some(windows) = windows else { return runs.to_vec() };
    let mut cells = Vec::new();
    for run in runs {
        let mut at = run.start;
        while at < run.end {
            let rest = ticks.get(at..run.end).unwrap_or(&[]);
            let start = rest.first().and_then(|tick| windows.start(*tick));
            let next = start.map(|start| start.saturating_add(windows.width));
            let len = rest.partition_point(|tick| next.is_none_or(|next| *tick < next));
            cells.push(at..at + len.max(1));
            at += len.max(1);
            debug_assert!(at <= run.end, "a cell reaches into the next run");
        }
    }
    debug_assert_eq!(
        cells.iter().map(Range::len).sum::<usize>(),
        runs.iter().map(Range::len).sum::<usize>()
    );
    cells
}

/// Computes one column of the cells.
fn cell_values(
    of: CellColumn,
    values: &ArrayRef,
    ticks: &[i64],
    cells: &[Range<usize>],
    data_type: &DataType,
) -> Result<ArrayRef> {
    debug_assert_eq!(values.len(), ticks.len(), "columns of other lengths");
    let tick = |at: usize| ticks.get(at).copied().unwrap_or_default();
    let column = Column::of(values);
    let numbers = |numbers: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(numbers)) };
    let array: ArrayRef = match of {
        CellColumn::Key(_) => {
            let firsts = cells.iter().map(|cell| cell.start as u32);
            take(values, &UInt32Array::from_iter_values(firsts), None)?
        }
        CellColumn::First => numbers(cells.iter().map(|cell| tick(cell.start)).collect()),
        CellColumn::Last => {
            numbers(cells.iter().map(|cell| tick(cell.end.saturating_sub(1))).collect())
        }
        CellColumn::Rows => numbers(cells.iter().map(|cell| cell.len() as i64).collect()),
        CellColumn::Count(_) => {
            numbers(cells.iter().map(|cell| column.count(cell.clone())).collect())
        }
        CellColumn::Sum(_) => {
            let sums = cells.iter().map(|cell| column.sum(cell.clone()));
            let sums = sums.collect::<Result<Vec<_>>>()?;
            match data_type.is_floating() {
                true => Arc::new(Float64Array::from_iter(sums.into_iter().map(|sum| match sum {
                    Some(Total::Float(sum)) => Some(sum),
                    Some(Total::Whole(_)) | None => None,
                }))),
                false => {
                    let whole = sums.into_iter().map(|sum| match sum {
                        Some(Total::Whole(sum)) => Some(sum),
                        Some(Total::Float(_)) | None => None,
                    });
                    let whole = Decimal128Array::from_iter(whole);
                    Arc::new(whole.with_data_type(data_type.clone()))
                }
            }
        }
        CellColumn::Min(_) | CellColumn::Max(_) => {
            let greatest = matches!(of, CellColumn::Max(_));
            let found = cells.iter().map(|cell| column.extreme(cell.clone(), greatest));
            match data_type.is_floating() {
                true => Arc::new(Float64Array::from_iter(found.map(|found| match found {
                    Some(Number::Float(value)) => Some(value),
                    Some(Number::Integer(_)) | None => None,
                }))),
                false => Arc::new(Int64Array::from_iter(found.map(|found| match found {
                    Some(Number::Integer(value)) => Some(value),
                    Some(Number::Float(_)) | None => None,
                }))),
            }
        }
    };
    debug_assert_eq!(array.len(), cells.len(), "a cell without a value");
    Ok(array)
}

/// Whether stored cells agree with cells computed from the rows. Float sums only need to agree
/// approximately, because the order of addition may differ.
pub(crate) fn agree(read: &RecordBatch, counted: &RecordBatch) -> bool {
    if read.num_rows() != counted.num_rows() || read.schema_ref() != counted.schema_ref() {
        return false;
    }
    let rows = counted.column_by_name("rows").and_then(|rows| rows.as_primitive_opt::<Int64Type>());
    let floats = |batch: &RecordBatch, name: &str| {
        let array = batch.column_by_name(name)?;
        array.as_primitive_opt::<Float64Type>().cloned()
    };
    let (schema, columns) = (counted.schema(), read.columns().iter().zip(counted.columns()));
    schema.fields().iter().zip(columns).all(|(field, (own, other))| {
        let Some(id) = field.name().strip_suffix(".sum") else { return own == other };
        let (Some(own), Some(other)) = (floats(read, field.name()), floats(counted, field.name()))
        else {
            return own == other;
        };
        let (min, max) =
            (floats(counted, &format!("{id}.min")), floats(counted, &format!("{id}.max")));
        let (Some(rows), Some(min), Some(max)) = (rows, min, max) else { return false };
        (0..own.len()).all(|at| {
            if own.is_null(at) || other.is_null(at) {
                return own.is_null(at) == other.is_null(at);
            }
            let (own, other) = (own.value(at), other.value(at));
            let largest = min.value(at).abs().max(max.value(at).abs());
            let error = SUM_ERROR * largest * rows.value(at) as f64;
            own == other
                || (own - other).abs() <= error
                || !(own.is_finite() && other.is_finite() && error.is_finite())
        })
    })
}
