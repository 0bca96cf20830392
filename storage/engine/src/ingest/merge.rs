//! Merges under `collision = 'merge'`: if a new event has NULL in a column, it takes the value of
//! the earlier event with the same key and tick.
//!
//! ```text
//!   admission: key reserved ─► earlier event found ─► its values read ─► chunk encoded
//! ```
//!
//! The key is reserved before the earlier event is read. Until the statement ends, no other append
//! takes the key, and no DELETE, TRUNCATE or TRIM removes the earlier event: the values stay valid
//! until the commit. Only the expiry by retention does not wait, see
//! [`crate::ingest::delete::expire`].

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, UInt32Array},
    buffer::{BooleanBuffer, NullBuffer},
    compute::{concat, interleave},
    datatypes::DataType,
};
use stratalog_model::{ChronicleDefinition, Error, Result, ipc::array_bytes};

use super::{chunk::Chunk, violation};
use crate::{
    events::{column::Column, part_events::ColumnSelection, shape::Shape},
    read::pieces::lookup::StoredEvent,
    version::Version,
};

/// The place of the earlier event with which a row merges.
#[derive(Debug, Clone, Copy)]
pub enum EarlierEvent {
    /// A row of the same chunk.
    Row(usize),
    /// An uncommitted event of the same append, in an earlier chunk; by arrival number.
    Uncommitted(u64),
    /// A committed event in memory, by gsn.
    Memory(u64),
    /// A committed event in a tablet or story.
    Stored(StoredEvent),
}

/// The merges of a chunk.
#[derive(Debug)]
pub struct Merges {
    /// Rows that may take values of an earlier event, ascending, each with the place of the earlier
    /// event. A row may lack a value if it has NULL, or if the chronicle has events with a newer
    /// definition.
    pub rows: Vec<(usize, EarlierEvent)>,
    /// The version in which the committed earlier events are found.
    pub version: Arc<Version>,
}

/// The result of [`Merges::fill`].
#[derive(Debug)]
pub enum FilledColumns {
    /// The columns of the chunk, with the values of the earlier events in place of NULL.
    Complete(Vec<Column>),
    /// The columns with these values do not fit into one frame: the caller must retry with fewer
    /// rows.
    TooLarge,
}

/// Returns a bit per row, set if the row has NULL in a column outside of the key; `None` if no row
/// has.
pub fn incomplete_rows(columns: &[Column], shape: &Shape) -> Option<BooleanBuffer> {
    let mut complete: Option<NullBuffer> = None;
    for (at, column) in columns.iter().enumerate() {
        if is_value(shape, at) {
            complete = NullBuffer::union(complete.as_ref(), column.nulls());
        }
    }
    let complete = complete.filter(|complete| complete.null_count() > 0)?;
    debug_assert_eq!(
        complete.len(),
        columns.first().map_or(0, Column::len),
        "the mask does not cover the rows"
    );
    Some(!complete.inner())
}

/// True if column `at` is outside of the key and not the tick column.
fn is_value(shape: &Shape, at: usize) -> bool {
    at != shape.tick_at && !shape.keys.at.contains(&at)
}

/// The values of earlier events, copied for those columns of a chunk that have a NULL.
struct EarlierValues<'a> {
    definition: &'a ChronicleDefinition,
    shape: &'a Shape,
    /// Positions of the columns to fill.
    wanted: Vec<usize>,
    /// For each wanted column, the copied values; all columns in the order of `rows`.
    copies: Vec<Vec<ArrayRef>>,
    /// For each copied value, the row of the chunk that takes it.
    rows: Vec<usize>,
    /// Bytes of the chunk and of the copied values together; at most `bytes_max`.
    bytes: usize,
    bytes_max: usize,
}

impl EarlierValues<'_> {
    /// Copies values from `columns`. Each entry of `rows` has a row of the chunk, and the row of
    /// `columns` that has its earlier event. Returns `false` if all values together exceed
    /// `bytes_max`.
    fn copy(
        &mut self,
        shape: &Shape,
        columns: &[Option<Column>],
        rows: &[(usize, usize)],
    ) -> Result<bool> {
        debug_assert!(!rows.is_empty(), "no row takes the values");
        debug_assert_eq!(self.wanted.len(), self.copies.len(), "a column without copies");
        let places = UInt32Array::from_iter_values(rows.iter().map(|(_, place)| *place as u32));
        for at in unknown_columns(self.shape, shape) {
            let column = columns.get(at).and_then(Option::as_ref);
            let column = column.ok_or_else(|| Error::internal("a column was not read"))?;
            if column.rows(&places)?.null_count() < rows.len() {
                return Err(violation::columns_added(self.definition));
            }
        }
        for (at, copies) in self.wanted.iter().zip(&mut self.copies) {
            let id = self.shape.columns.get(*at).copied();
            let id = id.ok_or_else(|| Error::internal("a shape lacks a column"))?;
            let stored = match shape.position(id) {
                Some(at) => {
                    let column = columns.get(at).and_then(Option::as_ref);
                    column.ok_or_else(|| Error::internal("a column was not read"))?.pick(&places)?
                }
                None => {
                    let column = self.definition.column(id);
                    let column =
                        column.ok_or_else(|| Error::internal("a definition lacks a column"))?;
                    Column::missing(column, rows.len())?
                }
            };
            self.bytes += stored.bytes();
            copies.push(stored.slice(0, rows.len())?);
        }
        self.rows.extend(rows.iter().map(|(row, _)| *row));
        Ok(self.bytes <= self.bytes_max)
    }
}

/// Positions of the value columns that the shape `event` has and the shape `chunk` lacks.
fn unknown_columns<'a>(chunk: &'a Shape, event: &'a Shape) -> impl Iterator<Item = usize> + 'a {
    // Key columns are not checked: if two events have the same key, a key column that one of them
    // lacks has the value ''.
    let ids = event.columns.iter().enumerate().filter(|(at, _)| is_value(event, *at));
    ids.filter(|(_, id)| chunk.position(**id).is_none()).map(|(at, _)| at)
}

impl Merges {
    /// Fills the NULLs of `columns` with the values of the earlier events. `own` are the earlier
    /// chunks of the same append for this chronicle. `bytes_max` is the maximum size of a frame.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure` if a read of tablets or stories fails;
    /// `SerializationFailure` if an earlier event has values in columns that `shape` lacks.
    pub async fn fill(
        &self,
        definition: &ChronicleDefinition,
        shape: &Shape,
        columns: Vec<Column>,
        own: impl Iterator<Item = &Chunk>,
        bytes_max: usize,
    ) -> Result<FilledColumns> {
        debug_assert!(
            self.rows.is_sorted_by(|before, after| before.0 < after.0),
            "the merges are out of order"
        );
        debug_assert!(
            self.rows.last().is_none_or(|last| last.0 < columns.first().map_or(0, Column::len)),
            "a merge behind the rows"
        );
        let takes_own =
            |(_, earlier): &(usize, EarlierEvent)| matches!(earlier, EarlierEvent::Uncommitted(_));
        let own: BTreeMap<u64, &Chunk> = match self.rows.iter().any(takes_own) {
            true => own.map(|chunk| (chunk.reserved.first_seq, chunk)).collect(),
            false => BTreeMap::new(),
        };
        let wanted: Vec<usize> = (0..columns.len())
            .filter(|at| is_value(shape, *at))
            .filter(|at| columns.get(*at).is_some_and(|column| column.nulls().is_some()))
            .collect();
        let mut values = EarlierValues {
            definition,
            shape,
            copies: vec![Vec::new(); wanted.len()],
            wanted,
            rows: Vec::new(),
            bytes: columns.iter().map(Column::bytes).sum(),
            // A single row cannot be split, and is therefore allowed to have any size.
            bytes_max: match columns.first().map_or(0, Column::len) {
                1 => usize::MAX,
                _ => bytes_max,
            },
        };
        match self.read(&mut values, &own).await? {
            true => self.columns(&values, columns),
            false => Ok(FilledColumns::TooLarge),
        }
    }

    /// Reads the values of all earlier events that are not rows of the chunk itself. Returns
    /// `false` if all values together exceed the maximum.
    async fn read(
        &self,
        values: &mut EarlierValues<'_>,
        own: &BTreeMap<u64, &Chunk>,
    ) -> Result<bool> {
        let mut uncommitted: BTreeMap<u64, Vec<(usize, usize)>> = BTreeMap::new();
        let mut memory: BTreeMap<u64, Vec<(usize, usize)>> = BTreeMap::new();
        let mut stored: BTreeMap<(u64, u32), Vec<(usize, usize)>> = BTreeMap::new();
        for (row, earlier) in &self.rows {
            match earlier {
                EarlierEvent::Row(_) => {}
                EarlierEvent::Uncommitted(seq) => {
                    let own = own.range(..=*seq).next_back();
                    let own = own.filter(|(_, chunk)| chunk.reserved.contains(*seq));
                    let (first, _) = own.ok_or_else(lost)?;
                    uncommitted.entry(*first).or_default().push((*row, (seq - first) as usize));
                }
                EarlierEvent::Memory(gsn) => {
                    let batch = self.version.batch_of(*gsn).ok_or_else(lost)?;
                    let place = batch.row_of(*gsn).ok_or_else(lost)?;
                    memory.entry(batch.first_gsn()).or_default().push((*row, place));
                }
                EarlierEvent::Stored(event) => {
                    let part = stored.entry((event.piece, event.part)).or_default();
                    part.push((*row, event.row as usize));
                }
            }
        }
        for (first_seq, rows) in uncommitted {
            let chunk = own.get(&first_seq).ok_or_else(lost)?;
            let columns: Vec<_> = chunk.columns.iter().cloned().map(Some).collect();
            if !values.copy(&chunk.shape, &columns, &rows)? {
                return Ok(false);
            }
        }
        for (first_gsn, rows) in memory {
            let batch = self.version.batch_of(first_gsn).ok_or_else(lost)?;
            let columns: Vec<_> = batch.columns().iter().cloned().map(Some).collect();
            if !values.copy(batch.shape(), &columns, &rows)? {
                return Ok(false);
            }
        }
        for ((piece, part), found) in stored {
            let piece = self.version.pieces().get(piece).ok_or_else(lost)?;
            let mut selection = ColumnSelection::default();
            for at in &values.wanted {
                let id = values.shape.columns.get(*at);
                selection.columns.extend(id.and_then(|id| piece.shape().position(*id)));
            }
            selection.columns.extend(unknown_columns(values.shape, piece.shape()));
            selection.columns.sort_unstable();
            let columns = if selection.columns.is_empty() {
                Vec::new()
            } else {
                let part = piece.parts().await?.iter().find(|known| known.number == part);
                piece.read(part.ok_or_else(lost)?, &selection).await?.columns
            };
            if !values.copy(piece.shape(), &columns, &found)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Builds the columns of the chunk, with the values of earlier events in place of NULL.
    fn columns(
        &self,
        values: &EarlierValues<'_>,
        mut columns: Vec<Column>,
    ) -> Result<FilledColumns> {
        let rows = columns.first().map_or(0, Column::len);
        let mut bytes: usize = columns.iter().map(Column::bytes).sum();
        debug_assert!(values.rows.len() <= self.rows.len(), "a copy without a merge");
        let mut copied = vec![None; rows];
        for (place, row) in values.rows.iter().enumerate() {
            if let Some(slot) = copied.get_mut(*row) {
                *slot = Some(place);
            }
        }
        for (at, copies) in values.wanted.iter().zip(&values.copies) {
            let Some(column) = columns.get_mut(*at) else { continue };
            let given = column.slice(0, rows)?;
            let copies: Vec<&dyn Array> = copies.iter().map(AsRef::as_ref).collect();
            let copies = match copies.is_empty() {
                true => given.slice(0, 0),
                false => concat(&copies)?,
            };
            let mut places: Vec<(usize, usize)> = (0..rows).map(|row| (0, row)).collect();
            for (row, earlier) in &self.rows {
                if given.is_valid(*row) {
                    continue;
                }
                debug_assert!(
                    !matches!(earlier, EarlierEvent::Row(before) if before >= row),
                    "a row takes values of a later row"
                );
                // The loop visits rows in ascending order: the place of an earlier row is final
                // already.
                let place = match earlier {
                    EarlierEvent::Row(earlier) => places.get(*earlier).copied(),
                    _ => copied.get(*row).copied().flatten().map(|place| (1, place)),
                };
                if let (Some(place), Some(slot)) = (place, places.get_mut(*row)) {
                    *slot = place;
                    // Counted per row, because many rows of the chunk may take the same large
                    // value.
                    bytes += value_bytes(if place.0 == 0 { &given } else { &copies }, place.1);
                    if bytes > values.bytes_max {
                        return Ok(FilledColumns::TooLarge);
                    }
                }
            }
            *column = Column::store(&interleave(&[given.as_ref(), copies.as_ref()], &places)?)?;
        }
        Ok(FilledColumns::Complete(columns))
    }
}

/// Approximate bytes of a value.
fn value_bytes(array: &ArrayRef, row: usize) -> usize {
    debug_assert!(row < array.len(), "a value behind the array");
    match array.data_type() {
        DataType::Utf8View | DataType::Binary | DataType::List(_) => {
            array_bytes(&array.slice(row, 1))
        }
        other => other.primitive_width().unwrap_or(1),
    }
}

fn lost() -> Error {
    Error::internal("the earlier event of a merge is missing")
}
