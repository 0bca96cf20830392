//! Admitted events, before their commit.

use std::sync::Arc;

use arrow::buffer::ScalarBuffer;
use bytes::Bytes;
use stratalog_model::{
    Frame, FrameKind, PartitionId, ProducerId, Result, SchemaVersion, StatementId, TickRange,
};

use super::{chronicle::Chronicle, series::SeriesId};
use crate::{
    events::{
        batch::{MemoryBatch, Run, hull_of},
        budget::Claim,
        column::Column,
        encode,
        shape::Shape,
    },
    version::compact::batch_bytes,
};

/// The collision keys and arrival numbers that an uncommitted chunk has reserved. If dropped before
/// the commit, frees the keys (rollback).
#[derive(Debug)]
pub struct KeyReservation {
    /// The chronicle of the events.
    pub chronicle: Arc<Chronicle>,
    /// First arrival number.
    pub first_seq: u64,
    /// End (exclusive) of the arrival numbers.
    pub end_seq: u64,
    /// The series with reserved keys, and the lowest reserved tick of each series.
    pub touched: Vec<(SeriesId, i64)>,
    /// True after the commit: the drop then frees nothing.
    pub committed: bool,
}

impl KeyReservation {
    /// True if `seq` is in the reserved range of arrival numbers.
    pub fn contains(&self, seq: u64) -> bool {
        (self.first_seq..self.end_seq).contains(&seq)
    }
}

impl Drop for KeyReservation {
    fn drop(&mut self) {
        if !self.committed {
            self.chronicle.roll_back(self);
        }
    }
}

/// Admitted events: encoded for the journal, and decoded as columns for reads.
#[derive(Debug)]
pub struct Chunk {
    /// Columns and types of the events.
    pub shape: Arc<Shape>,
    /// The columns: views into `payload`.
    pub columns: Vec<Column>,
    /// Tick of each event.
    pub ticks: ScalarBuffer<i64>,
    /// The payload of the journal frame.
    pub payload: Bytes,
    /// The claim on the memory budget.
    pub claim: Claim,
    /// The reserved keys; freed when dropped, unless the chunk is committed.
    pub reserved: KeyReservation,
}

impl Chunk {
    /// Encodes admitted columns as a frame payload. The columns of the result point into the
    /// payload. `explicit_ticks` stores the ticks separately from the tick column.
    pub fn encode(
        shape: Arc<Shape>,
        columns: &[Column],
        ticks: Vec<i64>,
        explicit_ticks: bool,
        mut claim: Claim,
        reserved: KeyReservation,
    ) -> Result<Self> {
        debug_assert!(!ticks.is_empty(), "a chunk without an event");
        debug_assert!(
            reserved.first_seq.checked_add(ticks.len() as u64) == Some(reserved.end_seq),
            "the events and the arrival numbers differ in number"
        );
        debug_assert!(
            columns.iter().all(|column| column.len() == ticks.len()),
            "a column has another number of events"
        );
        let ticks: ScalarBuffer<i64> = ticks.into();
        let payload = encode::encode(columns, explicit_ticks.then_some(&ticks))?;
        let decoded = encode::decode(&payload, &shape.schema, ticks.len())?;
        let ticks = decoded.ticks.unwrap_or(ticks);
        debug_assert!(reserved.first_seq <= reserved.end_seq);
        debug_assert!(decoded.columns.len() <= shape.columns.len());
        claim.adjust(batch_bytes(payload.len(), ticks.len(), decoded.columns.len()));
        Ok(Self { shape, columns: decoded.columns, ticks, payload, claim, reserved })
    }

    /// Number of events.
    pub fn rows(&self) -> usize {
        self.ticks.len()
    }

    /// The journal frame that stores the chunk.
    pub fn frame(&self, statement: StatementId, producer: Option<(ProducerId, u64)>) -> Frame {
        debug_assert!(u32::try_from(self.rows()).is_ok(), "too many events for a frame");
        Frame {
            kind: FrameKind::Events,
            partition: PartitionId(0),
            chronicle: self.reserved.chronicle.id(),
            schema_version: self.shape.version,
            statement,
            ticks: hull_of(&self.ticks),
            count: self.rows() as u32,
            first_seq: self.reserved.first_seq,
            producer,
            payload: self.payload.clone(),
        }
    }

    /// Converts the chunk into a committed batch whose first event has `first_gsn`. Also returns
    /// the reservation.
    pub fn into_batch(self, first_gsn: u64) -> (MemoryBatch, KeyReservation) {
        debug_assert!(first_gsn > 0, "an event gets the gsn 0");
        let run = Run { row: 0, seq: self.reserved.first_seq, gsn: first_gsn };
        let batch = MemoryBatch::new(self.shape, self.columns, self.ticks, vec![run], self.claim);
        (batch, self.reserved)
    }
}

/// The frame that commits the statements `first` and `others`.
pub fn commit_frame(
    first: StatementId,
    others: &[StatementId],
    producer: Option<(ProducerId, u64)>,
) -> Frame {
    let ids = [first].into_iter().chain(others.iter().copied());
    let (kind, payload) = match others {
        [] => (FrameKind::Commit, Bytes::new()),
        _ => (FrameKind::Transaction, ids.flat_map(|id| id.0.to_le_bytes()).collect()),
    };
    Frame {
        kind,
        partition: PartitionId(0),
        chronicle: Default::default(),
        schema_version: SchemaVersion(0),
        statement: first,
        ticks: TickRange::EMPTY,
        count: 0,
        first_seq: 0,
        producer,
        payload,
    }
}
