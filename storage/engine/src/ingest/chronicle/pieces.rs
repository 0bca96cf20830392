//! Moves events from memory into pieces (tablets and stories), and replaces pieces. All functions
//! run under the publisher's lock, except [`Chronicle::adopt`], which runs at a start.

use std::sync::Arc;

use stratalog_model::{Gsn, Tick, invariant};

use super::Chronicle;
use crate::{
    events::batch::MemoryBatch,
    ingest::{locator::Locator, series::SeriesTable},
    version::{
        Version, compact, fence::Fence, lost_positions::LostPositions, piece::OpenPiece,
        piece_set::PieceSet,
    },
};

impl Chronicle {
    /// Hands the events up to the gsn `through` over from memory to the pieces `added`.
    /// `snapshot_gsn` is the gsn at which the pieces were written: replacements after this gsn are
    /// marked in the pieces. Call only under the publisher's lock.
    pub fn move_out(
        &self,
        added: Vec<Arc<OpenPiece>>,
        through: Gsn,
        snapshot_gsn: Gsn,
    ) -> Arc<Version> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let version = Arc::clone(&state.version);
        let moved = version.batches().take_while(|batch| batch.last_gsn() <= through.0);
        let late = moved.flat_map(|batch| {
            let marks = batch.superseded();
            let late = marks.iter().filter(|mark| mark.gsn > snapshot_gsn.0);
            late.map(|mark| (batch.seq(mark.row as usize), mark.gsn)).collect::<Vec<_>>()
        });
        let pieces = version.pieces().with(added, &[], through).with_replaced(late);
        state.version = Arc::new(version.with_moved(pieces));
        if self.indexed {
            state.move_out(through.0);
        }
        state.account();
        Arc::clone(&state.version)
    }

    /// Replaces the pieces `removed` with the pieces `added`. The new pieces contain the same
    /// events, except the events with the arrival numbers `dropped`. Call only under the
    /// publisher's lock.
    pub fn swap_pieces(
        &self,
        added: Vec<Arc<OpenPiece>>,
        removed: &[u64],
        dropped: &[u64],
    ) -> Arc<Version> {
        let mut state = self.state.lock();
        if state.forgotten {
            return Arc::clone(&state.version);
        }
        let pieces = state.version.pieces();
        invariant!(
            MovesPreserve,
            removed.iter().all(|id| pieces.get(*id).is_some()),
            "chronicle {} replaces a piece that is not in its version",
            self.id
        );
        let pieces = pieces.with(added, removed, pieces.through).without_replaced(dropped);
        state.version = Arc::new(state.version.with_pieces(pieces).without_idle_fences());
        Arc::clone(&state.version)
    }

    /// Installs the pieces and deletes that the manifest names, at a start and before the replay of
    /// the journal.
    pub fn adopt(
        &self,
        pieces: PieceSet,
        (fences, lost): (Vec<Fence>, LostPositions),
        next_seq: u64,
        highest: Option<Tick>,
    ) -> Arc<Version> {
        let mut state = self.state.lock();
        debug_assert!(state.version.batches().next().is_none(), "events before the manifest");
        debug_assert!(state.pending.is_empty(), "appends before the manifest");
        state.highest = state.highest.max(highest.map(|tick| tick.0));
        if state.highest.is_some() {
            state.continue_from_start();
        }
        let newest = pieces.iter().map(|piece| piece.shape().version).max();
        state.newest_version = state.newest_version.max(newest.unwrap_or_default());
        state.version = Arc::new(state.version.with_pieces(pieces).with_fences(fences, lost));
        state.next_seq = state.next_seq.max(next_seq);
        Arc::clone(&state.version)
    }

    /// Replaces the adjacent batches `old` with the batch `merged`, or removes them if `merged` is
    /// `None`. Returns `None`, and changes nothing, if `old` are no longer in the version or are
    /// moving into pieces. Call only under the publisher's lock.
    pub fn replace(
        &self,
        old: &[Arc<MemoryBatch>],
        merged: Option<MemoryBatch>,
    ) -> Option<Arc<Version>> {
        debug_assert!(!old.is_empty(), "no batch to replace");
        debug_assert!(
            old.is_sorted_by(|before, after| before.last_gsn() < after.first_gsn()),
            "the batches are out of order"
        );
        if self.staying(old).len() < old.len() {
            return None;
        }
        let mut state = self.state.lock();
        if let Some(merged) = &merged {
            merged.set_superseded(compact::marks_of(old, merged));
        }
        let next = state.version.with_merged(old, merged.map(Arc::new))?;
        state.version = Arc::new(next.without_idle_fences());
        state.shrink_locator();
        state.account();
        Some(Arc::clone(&state.version))
    }

    /// Drops all events of a dropped chronicle, and refuses later events. Returns the pieces:
    /// snapshots may still read their files.
    pub fn forget(&self) -> Vec<Arc<OpenPiece>> {
        let mut state = self.state.lock();
        debug_assert!(!state.forgotten, "a chronicle is forgotten twice");
        state.forgotten = true;
        self.feed.end();
        let version = std::mem::take(&mut state.version);
        state.series = SeriesTable::default();
        state.locator = Locator::default();
        state.account();
        version.pieces().iter().cloned().collect()
    }
}
