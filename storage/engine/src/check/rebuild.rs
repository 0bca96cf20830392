//! Rebuilds a damaged tablet from the journal, if the journal still has the tablet's events.
//!
//! ```text
//!   frames ─► events of the tablet's ticks and gsn's ─► in force when it was built ─► file
//!                                                          checksum as in the manifest? ─► accepted
//! ```
//! The rebuild guesses nothing. The result must match every byte of the tablet that the manifest
//! names. The checksum of all block heads proves this, because the heads contain the checksums of
//! the payloads. Otherwise the result is deleted.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use ahash::RandomState;
use hashbrown::HashMap;
use stratalog_model::{
    ChronicleDefinition, ChronicleId, Disk, Error, Frame, FrameKind, Gsn, Lsn, Result, StatementId,
    Tick,
};
use stratalog_tablet::{TabletId, Tablets};

use super::{
    journal::events,
    subject::{CatalogEntry, Subject},
};
use crate::{
    events::{keys::Groups, shape::Shape},
    tiering::build::{EventSource, Sizes, rows::EventRows, write_windows},
    version::{fence::Fence, manifest::PieceRecord},
};

/// A rebuild in progress: collects the events of a tablet.
pub struct Rebuild<'a> {
    subject: &'a Subject,
    definition: Arc<ChronicleDefinition>,
    shape: Arc<Shape>,
    record: PieceRecord,
    gsn: u64,
    open: HashMap<StatementId, Vec<Frame>, RandomState>,
    row_batches: Vec<EventRows>,
    fences: Vec<Fence>,
}

impl<'a> Rebuild<'a> {
    /// Begins the rebuild of a tablet that the manifest names. `None` if a rebuild is impossible:
    /// the journal begins after the tablet's first event, or the columns are unknown.
    pub fn new(subject: &'a Subject, chronicle: ChronicleId, id: u64) -> Option<Self> {
        let record = *subject.state.chronicles.get(&chronicle)?.pieces.get(&id)?;
        let CatalogEntry::Chronicle(definition) = (subject.definitions)(chronicle) else {
            return None;
        };
        let shape = Arc::new(Shape::of(&definition, record.schema_version).ok()?);
        let floor = &subject.state.floor;
        if record.gsns.0 <= floor.gsn {
            return None;
        }
        let (open, row_batches, fences) = (HashMap::default(), Vec::new(), Vec::new());
        let gsn = floor.gsn.0;
        Some(Self { subject, definition, shape, record, gsn, open, row_batches, fences })
    }

    /// Adds a frame of the journal. Call for all frames from the floor onward, in lsn order.
    ///
    /// # Errors
    /// `DataCorrupted` if the frame cannot be decoded.
    pub fn frame(&mut self, lsn: Lsn, frame: Frame) -> Result<()> {
        if lsn < self.subject.state.floor.lsn {
            return Ok(());
        }
        match frame.kind {
            FrameKind::Events if frame.commits() => self.commit(&frame),
            FrameKind::Events | FrameKind::StatementDelete => {
                // Only the payloads of this chronicle stay in memory.
                let ours = frame.chronicle == self.definition.id;
                let payload = if ours { frame.payload.clone() } else { Default::default() };
                let held = Frame { payload, ..frame };
                self.open.entry(held.statement).or_default().push(held);
                Ok(())
            }
            FrameKind::Commit | FrameKind::Transaction => {
                for statement in frame.completes()? {
                    let frames = self.open.remove(&statement).unwrap_or_default();
                    frames.iter().try_for_each(|frame| self.commit(frame))?;
                }
                Ok(())
            }
            FrameKind::Delete => {
                self.delete(&frame);
                Ok(())
            }
            FrameKind::Trim if frame.chronicle == self.definition.id => {
                let (gsn, raised) = (frame.trims()?, Some(Gsn(self.gsn)));
                self.fences.push(Fence { ticks: frame.ticks, gsn, raised });
                Ok(())
            }
            FrameKind::Trim | FrameKind::Catalog | FrameKind::Manifest => Ok(()),
        }
    }

    fn delete(&mut self, frame: &Frame) {
        if frame.chronicle == self.definition.id {
            self.fences.push(Fence { ticks: frame.ticks, gsn: Gsn(self.gsn), raised: None });
        }
    }

    fn commit(&mut self, frame: &Frame) -> Result<()> {
        if frame.kind == FrameKind::StatementDelete {
            self.delete(frame);
            return Ok(());
        }
        let first = self.gsn + 1;
        self.gsn += u64::from(frame.count);
        let record = &self.record;
        let ours = frame.chronicle == self.definition.id
            && frame.schema_version == record.schema_version
            && frame.ticks.overlaps(&record.ticks)
            && self.gsn >= record.gsns.0.0
            && first <= record.fenced_through.0;
        if !ours {
            return Ok(());
        }
        let (columns, ticks) = events(&self.definition, &self.shape, frame)?;
        let numbers = |from: u64| (from..).take(ticks.len()).map(u64::cast_signed).collect();
        let rows = EventRows {
            shape: Arc::clone(&self.shape),
            columns,
            seqs: numbers(frame.first_seq),
            gsns: numbers(first),
            ticks,
        };
        debug_assert!(
            rows.columns.iter().all(|column| column.len() == rows.len()),
            "a column lacks rows"
        );
        debug_assert!(
            rows.seqs.len() == rows.len() && rows.gsns.len() == rows.len(),
            "an event has no number"
        );
        let inside = |row: &u32| {
            rows.ticks.get(*row as usize).is_some_and(|tick| record.ticks.contains(Tick(*tick)))
        };
        let picked: Vec<u32> = (0..rows.len() as u32).filter(inside).collect();
        self.row_batches.push(rows.pick(&picked)?);
        Ok(())
    }

    /// Builds the tablet in the empty folder `folder`. Returns true if the result is identical to
    /// the tablet of the manifest: the file is then durable in `folder`, under the tablet's name.
    ///
    /// # Errors
    /// `DiskFull`, `Io`.
    pub fn finish(mut self, disk: &Arc<dyn Disk>, folder: &Path) -> Result<bool> {
        let record = self.record;
        let Some(rows) = EventRows::concat(std::mem::take(&mut self.row_batches))? else {
            return Ok(false);
        };
        let kept = self.in_force(&rows)?;
        if kept.len() as u64 != record.rows {
            return Ok(false);
        }
        let Some(block_rows) = self.block_rows() else { return Ok(false) };
        let rows = rows.pick(&kept)?;
        let tablets = Tablets::open(Arc::clone(disk), folder, None)?;
        let sizes = Sizes {
            tablet_rows_max: usize::MAX,
            block_rows_max: block_rows,
            block_bytes: usize::MAX,
            keep_blocks: false,
        };
        let from = EventSource { snapshot_gsn: record.fenced_through, since_ns: record.since_ns };
        let (id, number) = (self.definition.id, &mut || record.id);
        let written = write_windows(&tablets, id, &rows, from, number, sizes)?;
        let [made] = written.as_slice() else {
            return Err(Error::internal("a tablet became several"));
        };
        debug_assert_eq!(made.record.id, record.id, "the tablet has another number");
        debug_assert_eq!(made.record.rows, record.rows, "events are lost in a rebuild");
        Ok(made.record == record)
    }

    /// The rows that were neither replaced nor deleted at the time when the tablet was built.
    fn in_force(&self, rows: &EventRows) -> Result<Vec<u32>> {
        let snapshot_gsn = self.record.fenced_through;
        let at = |values: &[i64], row: u32| values.get(row as usize).copied().unwrap_or_default();
        let groups = Groups::of(&rows.columns, &self.shape.keys, rows.len())?;
        let mut last: BTreeMap<(&[u8], i64), i64> = BTreeMap::new();
        let replaces = self.definition.collision.replaces();
        for row in 0..rows.len() as u32 {
            let key = groups.keys.get(groups.group(row as usize)).map_or(&[][..], |key| key);
            let gsn = at(&rows.gsns, row);
            if replaces && gsn.cast_unsigned() <= snapshot_gsn.0 {
                let newest = last.entry((key, at(&rows.ticks, row))).or_insert(gsn);
                *newest = gsn.max(*newest);
            }
        }
        let (low, high) = self.record.gsns;
        let kept = (0..rows.len() as u32).filter(|row| {
            let (tick, gsn) = (at(&rows.ticks, *row), at(&rows.gsns, *row));
            let key = groups.keys.get(groups.group(*row as usize)).map_or(&[][..], |key| key);
            let newest = last.get(&(key, tick)).is_none_or(|newest| *newest == gsn);
            let number = Gsn(gsn.cast_unsigned());
            let deleted = self.fences.iter().any(|fence| {
                fence.raised() <= snapshot_gsn
                    && fence.gsn >= number
                    && fence.ticks.contains(Tick(tick))
            });
            (low..=high).contains(&number) && newest && !deleted
        });
        Ok(kept.collect())
    }

    /// Number of events of each block (the last block may have fewer), read from the damaged file
    /// or from the index.
    fn block_rows(&self) -> Option<usize> {
        let record = &self.record;
        if record.parts == 1 {
            return usize::try_from(record.rows).ok();
        }
        let tablets = &self.subject.shelves.tablets;
        let built = record.tablet(self.definition.id);
        let on_disk = tablets.tablet(&built).ok().and_then(|tablet| {
            tablet.heads_on_disk().0.first().map(|head| head.summary.rows as usize)
        });
        on_disk.or_else(|| tablets.first_block_rows(&built))
    }

    /// The number of the tablet.
    pub fn id(&self) -> TabletId {
        TabletId(self.record.id)
    }
}
