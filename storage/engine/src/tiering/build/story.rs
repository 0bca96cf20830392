//! Writes stories, slice by slice (a slice is a window of ticks, and becomes one row group).

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use bytes::Bytes;
use stratalog_model::{Error, Gsn, Result, invariant};
use stratalog_story::{Builder, GroupSummary, Stories, StoryId, StorySchema, StorySettings};

use super::{order, ranks, rows::EventRows};
use crate::{
    events::keys::Groups,
    version::manifest::{PieceFile, PieceRecord},
};

/// Writes one story.
pub struct StoryWriter {
    builder: Builder,
    schema: StorySchema,
    rows: u64,
    unpacked_bytes: u64,
}

impl StoryWriter {
    /// Begins a story. `id` must be a number that no piece has had.
    ///
    /// # Errors
    /// `DiskFull`, `Io`.
    pub fn new(
        stories: &Stories,
        id: u64,
        schema: &StorySchema,
        settings: StorySettings,
    ) -> Result<Self> {
        let builder = stories.build(StoryId(id), schema, settings)?;
        Ok(Self { builder, schema: schema.clone(), rows: 0, unpacked_bytes: 0 })
    }

    /// Number of events written so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Approximate bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.builder.bytes()
    }

    /// Adds a slice: events of one window of ticks, after all earlier slices.
    ///
    /// # Errors
    /// `DiskFull`, `Io`.
    pub fn push(&mut self, rows: &EventRows) -> Result<()> {
        let groups = Groups::of(&rows.columns, &rows.shape.keys, rows.len())?;
        let ranks = ranks(&groups);
        let at = |values: &[i64], row: u32| values.get(row as usize).copied().unwrap_or_default();
        let all: Vec<u32> = (0..rows.len() as u32).collect();
        let order = order::by_key(rows, &groups, &ranks, &all);
        debug_assert_eq!(order.len(), rows.len());
        let key = |row: Option<&u32>| {
            let key = row.and_then(|row| groups.keys.get(groups.group(*row as usize)));
            key.map(|key| Bytes::copy_from_slice(key)).unwrap_or_default()
        };
        let gsns = hull(&rows.gsns)?;
        let keys = (key(order.first()), key(order.last()));
        debug_assert!(keys.0 <= keys.1, "the first key of a slice follows the last key");
        let summary = GroupSummary {
            rows: rows.len() as u64,
            ticks: hull(&rows.ticks)?,
            gsns: (gsns.0.cast_unsigned(), gsns.1.cast_unsigned()),
            keys,
        };
        let numbers = |values: &[i64]| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(order.iter().map(|row| at(values, *row))))
        };
        let indices = UInt32Array::from(order.clone());
        let mut arrays = Vec::with_capacity(rows.columns.len() + 3);
        for column in &rows.columns {
            arrays.push(column.rows(&indices)?);
        }
        arrays.extend([numbers(&rows.ticks), numbers(&rows.seqs), numbers(&rows.gsns)]);
        let batch = RecordBatch::try_new(self.schema.arrow_schema(), arrays)?;
        self.builder.push(&batch, summary)?;
        self.rows += rows.len() as u64;
        self.unpacked_bytes += batch.get_array_memory_size() as u64;
        Ok(())
    }

    /// Finishes the story. On return, the story is durable at its final place, and was verified by
    /// reading it back.
    ///
    /// # Errors
    /// `DiskFull`, `Io`, `ConnectionFailure`, `DataCorrupted`. After an error, there is no story.
    pub async fn finish(self, snapshot_gsn: Gsn, since_ns: i64) -> Result<PieceRecord> {
        let built = self.builder.finish().await?;
        invariant!(
            MovesPreserve,
            built.rows == self.rows,
            "story {} has {} of {} events",
            built.id,
            built.rows,
            self.rows
        );
        debug_assert!(built.gsns.1 <= snapshot_gsn.0, "a story has events after its snapshot");
        Ok(PieceRecord {
            id: built.id.0,
            schema_version: built.schema_version,
            bytes: built.bytes,
            unpacked_bytes: self.unpacked_bytes,
            parts: built.groups,
            rows: built.rows,
            checksum: built.checksum,
            ticks: built.hull(),
            gsns: (Gsn(built.gsns.0), Gsn(built.gsns.1)),
            fenced_through: snapshot_gsn,
            since_ns,
            file: PieceFile::Story { tail_at: built.tail_at },
        })
    }
}

fn hull(values: &[i64]) -> Result<(i64, i64)> {
    let ends = values.iter().min().zip(values.iter().max());
    ends.map(|(low, high)| (*low, *high)).ok_or_else(|| Error::internal("a slice has no events"))
}
