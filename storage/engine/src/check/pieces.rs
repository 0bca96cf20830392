//! Checks tablets and stories: compares every byte and every value with the summaries in the file
//! and with the manifest.

use std::sync::Arc;

use stratalog_model::{
    ChronicleDefinition, ChronicleId, Error, ErrorKind, Result, TickRange, TierName,
};
use stratalog_story::Source;
use stratalog_tablet::TabletId;

use super::{
    Line, PartKind, PartTally, Progress, Repair, Report, Severity,
    compare::{PieceComparison, StoredSummary},
    journal::{JournalContent, Shapes},
    message_of, name,
    seqs::Seqs,
    subject::{CatalogEntry, Subject},
    times,
};
use crate::{
    blocking_pool::BlockingPool,
    events::{
        block::Block,
        part_events::{ColumnSelection, PartEvents},
        shape::Shape,
        statistics,
    },
    version::manifest::{OwnedEvents, PieceRecord},
};

/// Number of rows of a story decoded at a time.
const BATCH_ROWS: usize = 8192;

/// Checks the pieces of all chronicles.
///
/// # Errors
/// The errors of `progress`; `ConnectionFailure`.
pub fn check(
    subject: &Subject,
    journaled: &JournalContent,
    progress: &mut Progress<'_>,
    report: &mut Report,
) -> Result<()> {
    let mut shapes = Shapes::default();
    let blocking_pool = BlockingPool::new()?;
    let (mut tablets, mut unknown) = (0_u64, 0_u64);
    for (id, owned) in subject.chronicles() {
        let definition = match (subject.definitions)(*id) {
            CatalogEntry::Chronicle(definition) => Some(definition),
            CatalogEntry::Dropped => None,
            CatalogEntry::Never => {
                if subject.is_catalog_known && !owned.pieces.is_empty() {
                    report.push(unknown_chronicle(*id, owned));
                }
                None
            }
        };
        let mut seqs = Seqs::default();
        for seq in journaled.seqs(*id) {
            seqs.insert(seq);
        }
        let mut of_chronicle = ChroniclePieces {
            subject,
            id: *id,
            table: name(definition.as_ref(), *id),
            definition,
            owned,
            blocking_pool: &blocking_pool,
            progress: &mut *progress,
            report: &mut *report,
            seqs,
        };
        of_chronicle.check_border();
        let (mut of_tablets, mut of_stories) = (PartTally::default(), PartTally::default());
        for record in owned.pieces.values() {
            let tally = match record.tier() {
                TierName::Story => &mut of_stories,
                _ => &mut of_tablets,
            };
            let shape = of_chronicle.shape(&mut shapes, record);
            let mut piece = PieceComparison::new(record, shape);
            let found = of_chronicle.report.lines.len();
            if record.tier() == TierName::Story {
                of_chronicle.story(&mut piece)?;
            } else {
                tablets += 1;
                unknown += u64::from(!of_chronicle.tablet(&mut piece)?);
            }
            if of_chronicle.report.lines.len() > found {
                tally.damaged += 1;
            } else {
                tally.files += 1;
                tally.rows += record.rows;
                tally.bytes += record.bytes;
            }
        }
        of_chronicle.sum_up(PartKind::Tablets, of_tablets);
        of_chronicle.sum_up(PartKind::Stories, of_stories);
    }
    report.push(index(tablets, unknown));
    Ok(())
}

/// The report line about sled's index of blocks. `tablets` is the number of readable tablets,
/// `unknown` the number of tablets that the index lacks or describes differently.
fn index(tablets: u64, unknown: u64) -> Line {
    debug_assert!(unknown <= tablets, "more tablets are unknown than there are");
    let line = |state| Line::new(PartKind::Index, "index", state);
    if unknown == 0 {
        return line(Severity::Sound)
            .with_detail(format!("the index contains the blocks of {tablets} tablets"));
    }
    line(Severity::Warning)
        .with_detail(format!(
            "the index contains no entries, or wrong entries, for {unknown} of {tablets} tablets: the index is damaged or outdated. Nothing is lost: missing entries are read from the files"
        ))
        .with_hint("reads of the tablets correct the index; --repair rebuilds the index")
        .with_cure(Repair::Index)
}

fn unknown_chronicle(id: ChronicleId, owned: &OwnedEvents) -> Line {
    Line::new(PartKind::Ownership, "manifest", Severity::Damaged)
        .with_rows(owned.pieces.values().map(|piece| piece.rows).sum())
        .with_detail(format!(
            "the manifest names {} pieces of table number {id}, which the catalog has never created: the catalog has lost records, or belongs to another data directory",
            owned.pieces.len()
        ))
        .with_hint("restore the directories catalog, manifest and journal from one backup")
}

/// The check of the pieces of one chronicle.
struct ChroniclePieces<'a, 'p> {
    subject: &'a Subject,
    id: ChronicleId,
    table: String,
    definition: Option<Arc<ChronicleDefinition>>,
    owned: &'a OwnedEvents,
    blocking_pool: &'a BlockingPool,
    progress: &'a mut Progress<'p>,
    report: &'a mut Report,
    seqs: Seqs,
}

impl ChroniclePieces<'_, '_> {
    fn line(&self, part: PartKind, path: String) -> Line {
        Line::new(part, path, Severity::Damaged).with_table(self.table.clone())
    }

    fn shape(&self, shapes: &mut Shapes, record: &PieceRecord) -> Option<Arc<Shape>> {
        shapes.of(self.definition.as_ref()?, record.schema_version).ok()
    }

    /// Checks the manifest's entry of the chronicle for contradictions.
    fn check_border(&mut self) {
        let OwnedEvents { through, next_seq: _, ticks_end, pieces, fences, .. } = self.owned;
        let mut wrong = Vec::new();
        for piece in pieces.values() {
            if piece.gsns.1 > *through || piece.gsns.0 > piece.gsns.1 {
                wrong.push(format!(
                    "piece {} has gsn's {} to {}, and pieces own events up to {through}",
                    piece.id, piece.gsns.0, piece.gsns.1
                ));
            }
            if ticks_end.is_none_or(|end| piece.ticks.end > end) {
                wrong.push(format!(
                    "piece {} has later ticks than `sealed` in the manifest",
                    piece.id
                ));
            }
            if piece.id > self.subject.state.last_piece {
                wrong.push(format!("piece {} has a number that was never assigned", piece.id));
            }
        }
        if let Some(fence) = fences.iter().find(|fence| fence.ticks.is_empty()) {
            wrong.push(format!("the delete of gsn {} has no ticks", fence.gsn));
        }
        if self.definition.is_some()
            && let Some(version) =
                pieces.values().map(|piece| piece.schema_version).find(|version| {
                    let known = self.definition.as_ref();
                    known.is_some_and(|known| Shape::of(known, *version).is_err())
                })
        {
            wrong
                .push(format!("the catalog does not know the schema version {version} of a piece"));
        }
        if !wrong.is_empty() {
            let line = self.line(PartKind::Ownership, "manifest".to_string());
            self.report.push(line.with_detail(wrong.join("; ")).with_hint(
                "restore the directories catalog, manifest and journal from one backup",
            ));
        }
    }

    /// Checks a tablet. Returns true if the index knows the tablet.
    fn tablet(&mut self, piece: &mut PieceComparison<'_>) -> Result<bool> {
        let record = piece.record;
        let tablets = &self.subject.shelves.tablets;
        let path = tablets.file_name(TabletId(record.id));
        let built = record.tablet(self.id);
        let cure = Repair::Tablet(self.id, record.id);
        let tablet = match tablets.tablet(&built) {
            Ok(tablet) => tablet,
            Err(error) => {
                self.unreadable(PartKind::Tablets, path, record, &error, cure);
                return Ok(true);
            }
        };
        let (heads, error) = tablet.heads_on_disk();
        let whole = error.is_none();
        let rows: u64 = heads.iter().map(|head| u64::from(head.summary.rows)).sum();
        if let Some(error) = error {
            let line = self.line(PartKind::Tablets, path.clone()).with_cure(cure);
            let lost = record.rows.saturating_sub(rows);
            self.report.push(
                line.with_rows(lost)
                    .with_detail(format!(
                        "{}: from block {} on, {lost} of its {} events cannot be read; the tablet \
                         has {}",
                        message_of(&error),
                        heads.len(),
                        record.rows,
                        self.times(&record.ticks)
                    ))
                    .with_hint(self.repair_hint(&path)),
            );
        }
        for head in &heads {
            (self.progress)(head.bytes())?;
            let summary = &head.summary;
            let rows = summary.rows as usize;
            let read = tablet.read_all(head).and_then(|sections| match &piece.shape {
                None => Ok(None),
                Some(shape) => {
                    let events =
                        Block::decode(&sections, &ColumnSelection::all(shape), shape, rows)?;
                    events.into_block().map(Some)
                }
            });
            let stored_summary = StoredSummary {
                rows: u64::from(summary.rows),
                ticks: summary.ticks,
                gsns: summary.gsns,
                keys: (&summary.keys.0, &summary.keys.1),
            };
            let checked = read.and_then(|block| match block {
                None => {
                    piece.count_by_summary(&stored_summary);
                    Ok(())
                }
                Some(block) => {
                    statistics::check(&block.columns, &summary.statistics).and_then(|()| {
                        piece.part(&[PartEvents::of_block(block)], &stored_summary, &mut self.seqs)
                    })
                }
            });
            if let Err(error) = checked {
                let place = format!("block {} at offset {}", head.number, head.offset);
                self.part(
                    PartKind::Tablets,
                    &path,
                    &place,
                    stored_summary.rows,
                    &summary.hull(),
                    &error,
                    cure,
                )?;
                piece.count_by_summary(&stored_summary);
                piece.before = None;
            }
        }
        if whole {
            self.whole(PartKind::Tablets, &path, piece, cure);
        }
        Ok(!whole || tablets.remembers(&built, &heads))
    }

    /// Checks a story.
    fn story(&mut self, piece: &mut PieceComparison<'_>) -> Result<()> {
        let Some(built) = piece.record.story(self.id) else { return Ok(()) };
        let stories = &self.subject.shelves.stories;
        let (blocking_pool, path) = (self.blocking_pool, stories.place(built.name()));
        let story = match blocking_pool.block_on(stories.open_anew(&built)) {
            Ok(story) => story,
            Err(error) if error.kind() == ErrorKind::ConnectionFailure => return Err(error),
            Err(error) => {
                self.unreadable(PartKind::Stories, path, piece.record, &error, Repair::None);
                return Ok(());
            }
        };
        let sources = match &piece.shape {
            Some(shape) => ColumnSelection::all(shape).sources(shape)?,
            None => {
                let columns = story.schema().columns.iter();
                let columns = columns.map(|column| Source::Column(column.id));
                columns.chain([Source::Tick, Source::Seq, Source::Gsn]).collect()
            }
        };
        let before = self.report.lines.len();
        for group in story.groups() {
            (self.progress)(group.bytes)?;
            let summary = &group.summary;
            let stored_summary = StoredSummary {
                rows: summary.rows,
                ticks: summary.ticks,
                gsns: summary.gsns,
                keys: (&summary.keys.0, &summary.keys.1),
            };
            let read = blocking_pool.block_on(story.fetch(group.number, &sources, None));
            let rows = read.and_then(|fetched| fetched.decode(BATCH_ROWS));
            let checked = rows.and_then(|mut rows| match &piece.shape {
                None => {
                    piece.count_by_summary(&stored_summary);
                    rows.try_for_each(|batch| batch.map(drop))
                }
                Some(shape) => {
                    let shape = Arc::clone(shape);
                    let wanted = ColumnSelection::all(&shape);
                    let events = rows.map(|batch| PartEvents::of_batch(&batch?, &wanted, &shape));
                    let events = events.collect::<Result<Vec<_>>>()?;
                    piece.part(&events, &stored_summary, &mut self.seqs)
                }
            });
            // Rows are ordered only within each row group.
            piece.before = None;
            if let Err(error) = checked {
                if error.kind() == ErrorKind::ConnectionFailure {
                    return Err(error);
                }
                let place = format!("row group {}", group.number);
                let hull = summary.hull();
                self.part(
                    PartKind::Stories,
                    &path,
                    &place,
                    stored_summary.rows,
                    &hull,
                    &error,
                    Repair::None,
                )?;
                piece.count_by_summary(&stored_summary);
            }
        }
        // Verifies the remaining bytes: filters, and all bytes between the values.
        if self.report.lines.len() == before
            && let Err(error) = blocking_pool.block_on(story.verify_blocks())
        {
            if error.kind() == ErrorKind::ConnectionFailure {
                return Err(error);
            }
            let line = self.line(PartKind::Stories, path.clone()).with_detail(format!(
                "{}: the damaged bytes contain no events, but filters for queries",
                message_of(&error)
            ));
            let hint = self.repair_hint(&path);
            self.report.push(line.with_rows(0).with_hint(hint));
        }
        self.whole(PartKind::Stories, &path, piece, Repair::None);
        Ok(())
    }

    /// Reports a piece that cannot be opened: all its events are lost.
    fn unreadable(
        &mut self,
        part: PartKind,
        path: String,
        record: &PieceRecord,
        error: &Error,
        cure: Repair,
    ) {
        let hint = self.repair_hint(&path);
        let ticks = self.times(&record.ticks);
        let line = self.line(part, path).with_rows(record.rows).with_bytes(record.bytes);
        let what = message_of(error);
        let what =
            format!("{what}: the {} events of the file, {ticks}, cannot be read", record.rows);
        self.report.push(line.with_detail(what).with_hint(hint).with_cure(cure));
    }

    /// Reports a damaged block or row group.
    #[expect(clippy::too_many_arguments, reason = "one call for both tiers, all of it is needed")]
    fn part(
        &mut self,
        part: PartKind,
        path: &str,
        place: &str,
        rows: u64,
        hull: &TickRange,
        error: &Error,
        cure: Repair,
    ) -> Result<()> {
        let what = format!("{place}: {}: {rows} events, {}", message_of(error), self.times(hull));
        let line = self.line(part, path.to_string()).with_rows(rows).with_detail(what);
        let hint = self.repair_hint(path);
        self.report.push(line.with_hint(hint).with_cure(cure));
        Ok(())
    }

    /// Compares the totals of a piece with its record in the manifest.
    fn whole(&mut self, part: PartKind, path: &str, piece: &PieceComparison<'_>, cure: Repair) {
        let record = piece.record;
        let gsns = (record.gsns.0.0, record.gsns.1.0);
        let same = piece.rows == record.rows && piece.hull == record.ticks && piece.gsns == gsns;
        if !same {
            let what = format!(
                "the file has {} events, {}, gsn {} to {}; the manifest has {} events, {}, gsn {} to {}",
                piece.rows,
                self.times(&piece.hull),
                piece.gsns.0,
                piece.gsns.1,
                record.rows,
                self.times(&record.ticks),
                gsns.0,
                gsns.1
            );
            let hint = self.repair_hint(path);
            let line = self.line(part, path.to_string()).with_rows(record.rows);
            self.report.push(line.with_detail(what).with_hint(hint).with_cure(cure));
        }
        if piece.twice > 0 {
            let line = self.line(PartKind::Ownership, path.to_string()).with_rows(piece.twice);
            self.report.push(
                line.with_detail(format!(
                    "{} events of the file are also in another piece, or in the journal: queries return these events twice",
                    piece.twice
                ))
                .with_hint("restore the directories manifest, tablets and stories from one backup"),
            );
        }
    }

    fn sum_up(&mut self, part: PartKind, tally: PartTally) {
        if tally.files == 0 {
            return;
        }
        let folder = if part == PartKind::Stories { "stories" } else { "tablets" };
        let of = match tally.damaged {
            0 => String::new(),
            damaged => format!(" of {}", tally.files + damaged),
        };
        let dropped = match &self.definition {
            None if self.subject.is_catalog_known => {
                "; the table was dropped, and the files will be removed"
            }
            _ => "",
        };
        let compared = match self.seqs.is_whole() {
            true => "",
            false => "; too many events for a check for events with two owners",
        };
        let files = tally.files;
        let mut line = self.line(part, folder.to_string());
        line.state = Severity::Sound;
        let line = line.with_rows(tally.rows).with_bytes(tally.bytes);
        self.report.push(line.with_detail(format!("{files}{of} files{dropped}{compared}")));
    }

    fn times(&self, ticks: &TickRange) -> String {
        times(self.definition.as_deref(), ticks)
    }

    /// The hint how to repair a piece.
    fn repair_hint(&self, path: &str) -> String {
        format!("restore {path} from a backup: a piece never changes, so every copy is correct")
    }
}
