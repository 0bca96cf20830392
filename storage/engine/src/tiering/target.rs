//! The tiers with files as targets of moves: the counterpart, for writes, of the trait
//! [`Tier`](stratalog_model::Tier) for reads.
//!
//! ```text
//!   rewrite ─► PieceWriting ─► TargetTier::write ─► pieces: durable, verified, not visible yet
//! ```

use std::{collections::BTreeMap, sync::Arc};

use futures::future::LocalBoxFuture;
use stratalog_model::{ChronicleDefinition, Result, SchemaVersion, TierName, aggregate::Windows};
use stratalog_story::{StorySchema, StorySettings};

use crate::{
    ingest::chronicle::Chronicle,
    tiering::{
        build::{self, EventSource, Sizes, WrittenPiece, story::StoryWriter},
        files::EngineFiles,
        mover::Mover,
        piece_numbers::PieceNumbers,
        sweep::{PartSweep, WindowLimit},
    },
    version::{
        Version,
        piece::{OpenPiece, Part},
    },
};

/// A tier into which moves write new pieces.
pub trait TargetTier: Send + Sync {
    /// The name of the tier.
    fn name(&self) -> TierName;

    /// Time windows of several lengths, the longest first: the row groups of new pieces end at
    /// the end of one of them if possible.
    fn windows(&self, definition: &ChronicleDefinition) -> Vec<Windows>;

    /// Writes the events of a sweep into new pieces, with numbers from `writing`. On return, the
    /// pieces are durable, verified by reading them back, and listed in `writing.written`.
    ///
    /// # Errors
    /// `DiskFull`, `Io`, `ConnectionFailure`, `DataCorrupted`.
    fn write<'a>(
        &'a self,
        writing: &'a mut PieceWriting<'_>,
        version: SchemaVersion,
        sweep: &'a mut PartSweep<'_>,
    ) -> LocalBoxFuture<'a, Result<()>>;
}

/// The tier of tablets.
pub const TABLETS: &dyn TargetTier = &TabletTarget;

/// The tier of stories.
pub const STORIES: &dyn TargetTier = &StoryTarget;

/// The state of a move that writes new pieces.
pub struct PieceWriting<'a> {
    /// The mover, with settings and write throttle.
    pub mover: &'a Mover,
    /// The files of the engine.
    pub files: &'a EngineFiles,
    /// The chronicle of the events.
    pub chronicle: &'a Chronicle,
    /// The current definition of the chronicle.
    pub definition: &'a ChronicleDefinition,
    /// The snapshot from which the events come.
    pub from: EventSource,
    /// Allocates the numbers of the new pieces.
    pub numbers: PieceNumbers<'a>,
    /// True if the events are in memory now, and should stay in memory.
    pub keep_blocks: bool,
    /// The pieces written so far.
    pub written: Vec<WrittenPiece>,
    /// Arrival numbers of replaced events that the new pieces omit.
    pub dropped: Vec<u64>,
}

impl PieceWriting<'_> {
    /// Writes the events of `inputs`, without deleted and replaced events, into new pieces of
    /// `target`.
    ///
    /// # Errors
    /// Like [`TargetTier::write`].
    pub async fn write(
        &mut self,
        target: &dyn TargetTier,
        inputs: &[Arc<OpenPiece>],
        version: &Version,
    ) -> Result<()> {
        let mut by_shape: BTreeMap<SchemaVersion, Vec<(&OpenPiece, Part)>> = BTreeMap::new();
        for piece in inputs {
            let parts = by_shape.entry(piece.shape().version).or_default();
            parts.extend(piece.parts().await?.iter().map(|part| (piece.as_ref(), part.clone())));
        }
        for (schema_version, parts) in by_shape {
            let windows = target.windows(self.definition);
            let mut sweep = PartSweep::new(version, self.from.snapshot_gsn, parts, windows);
            target.write(self, schema_version, &mut sweep).await?;
        }
        Ok(())
    }

    async fn tablets(&mut self, sweep: &mut PartSweep<'_>) -> Result<()> {
        let settings = &self.mover.settings;
        // Each window becomes one tablet.
        let sizes = Sizes { tablet_rows_max: usize::MAX, ..Sizes::of(settings, self.keep_blocks) };
        let tablets = &self.files.shelves.tablets;
        let id = self.chronicle.id();
        let bytes = usize::try_from(settings.move_bytes.saturating_mul(2)).unwrap_or(usize::MAX);
        let most = WindowLimit { rows: settings.tablet_rows_max, bytes };
        while let Some(rows) = sweep.window(most, &mut self.dropped).await? {
            let (from, number) = (self.from, &mut || self.numbers.take());
            let tablets = build::write_windows(tablets, id, &rows, from, number, sizes)?;
            debug_assert_eq!(tablets.len(), 1, "a window becomes several tablets");
            let bytes = tablets.iter().map(|written| written.record.bytes).sum();
            self.written.extend(tablets);
            self.mover.write_throttle.throttle(bytes).await;
        }
        Ok(())
    }

    async fn stories(&mut self, version: SchemaVersion, sweep: &mut PartSweep<'_>) -> Result<()> {
        let settings = self.mover.settings.for_chronicle(&self.definition.tiering);
        let schema = StorySchema::of(self.definition, version)?;
        let mut open: Option<StoryWriter> = None;
        let most = WindowLimit { rows: settings.slice_rows_max, bytes: settings.slice_bytes_max };
        while let Some(rows) = sweep.window(most, &mut self.dropped).await? {
            debug_assert_eq!(rows.shape.version, version, "events of another shape");
            let mut writer = match open.take() {
                Some(writer) => writer,
                None => {
                    let packed =
                        StorySettings { cell_rows: settings.cell_rows, ..StorySettings::default() };
                    let stories = &self.files.shelves.stories;
                    StoryWriter::new(stories, self.numbers.take(), &schema, packed)?
                }
            };
            let before = writer.bytes();
            writer.push(&rows)?;
            self.mover.write_throttle.throttle(writer.bytes().saturating_sub(before)).await;
            let full = writer.rows() >= settings.story_rows_max
                || writer.bytes() >= settings.story_bytes_max;
            // A tick stays within one story: otherwise the stories would overlap, and would soon be
            // merged.
            match full && !sweep.continues_tick() {
                true => self.finish(writer).await?,
                false => open = Some(writer),
            }
        }
        match open {
            Some(writer) => self.finish(writer).await,
            None => Ok(()),
        }
    }

    async fn finish(&mut self, writer: StoryWriter) -> Result<()> {
        let record = writer.finish(self.from.snapshot_gsn, self.from.since_ns).await?;
        self.written.push(WrittenPiece { record, tablet: None });
        Ok(())
    }
}

struct TabletTarget;

impl TargetTier for TabletTarget {
    fn name(&self) -> TierName {
        TierName::Tablet
    }

    fn windows(&self, _: &ChronicleDefinition) -> Vec<Windows> {
        Vec::new()
    }

    fn write<'a>(
        &'a self,
        writing: &'a mut PieceWriting<'_>,
        _: SchemaVersion,
        sweep: &'a mut PartSweep<'_>,
    ) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(writing.tablets(sweep))
    }
}

struct StoryTarget;

impl TargetTier for StoryTarget {
    fn name(&self) -> TierName {
        TierName::Story
    }

    fn windows(&self, definition: &ChronicleDefinition) -> Vec<Windows> {
        Windows::common(&definition.scale).rev().collect()
    }

    fn write<'a>(
        &'a self,
        writing: &'a mut PieceWriting<'_>,
        version: SchemaVersion,
        sweep: &'a mut PartSweep<'_>,
    ) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(writing.stories(version, sweep))
    }
}
