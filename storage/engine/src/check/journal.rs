//! Checks the journal: decodes and counts the events, and separates the events that the journal
//! owns from those that pieces (tablets and stories) own.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use ahash::RandomState;
use hashbrown::{HashMap, HashSet};
use stratalog_model::{
    ChronicleDefinition, ChronicleId, Decision, Error, ErrorKind, Frame, FrameKind, Lsn, Result,
    SchemaVersion, StatementId, TickRange,
};

use super::{
    Line, PartKind, PartTally, Repair, Report, Severity, Tallies, is_finding, message_of, name,
    seqs::Ranges,
    subject::{CatalogEntry, Subject},
    times,
};
use crate::{
    events::{
        column::Column,
        encode::{self, DecodedPayload},
        shape::Shape,
        ticks,
    },
    version::manifest::Floor,
};

/// The content of the journal read so far.
pub struct JournalContent {
    /// The floor: the beginning of the journal.
    floor: Floor,
    /// True after the first frame at or after the floor.
    started: bool,
    /// Highest gsn so far; `None` after a gap in the frames, because the gsn is then unknown.
    gsn: Option<u64>,
    /// Frames of statements that have no commit frame so far.
    open: HashMap<StatementId, Vec<FrameHead>, RandomState>,
    /// Statements of the catalog's last decision (RFC 0023): the next start commits them.
    decided: HashSet<StatementId, RandomState>,
    /// Decoding errors of frames in `open`, reported only if the statement commits: the schema
    /// version of rolled-back events may no longer exist.
    undecodable: HashMap<StatementId, Vec<Line>, RandomState>,
    shapes: Shapes,
    /// Unknown chronicles that were already reported.
    unknown_chronicles: HashSet<ChronicleId, RandomState>,
    /// Totals of the events that the journal owns.
    tallies: Tallies,
    /// The arrival numbers of the events that the journal owns.
    seqs: BTreeMap<ChronicleId, Ranges>,
}

/// The counts of a frame, without its payload.
#[derive(Clone, Copy)]
struct FrameHead {
    chronicle: ChronicleId,
    count: u32,
    first_seq: u64,
    bytes: u64,
}

/// The shapes (columns and types) of the schema versions used so far.
#[derive(Default)]
pub struct Shapes(HashMap<(ChronicleId, SchemaVersion), Arc<Shape>, RandomState>);

impl Shapes {
    /// The shape of a schema version.
    ///
    /// # Errors
    /// `Internal` if the definition does not know the version.
    pub fn of(
        &mut self,
        definition: &ChronicleDefinition,
        version: SchemaVersion,
    ) -> Result<Arc<Shape>> {
        let key = (definition.id, version);
        if let Some(known) = self.0.get(&key) {
            return Ok(Arc::clone(known));
        }
        let shape = Arc::new(Shape::of(definition, version)?);
        debug_assert_eq!(shape.version, version, "the shape of another version");
        self.0.insert(key, Arc::clone(&shape));
        Ok(shape)
    }
}

impl JournalContent {
    pub fn new(floor: &Floor, decision: Option<&Decision>) -> Self {
        let decided = decision.into_iter().flat_map(|decision| decision.statements.iter().copied());
        Self {
            floor: floor.clone(),
            started: false,
            gsn: Some(floor.gsn.0),
            open: HashMap::default(),
            decided: decided.collect(),
            undecodable: HashMap::default(),
            shapes: Shapes::default(),
            unknown_chronicles: HashSet::default(),
            tallies: Tallies::new(),
            seqs: BTreeMap::new(),
        }
    }

    pub fn frame(
        &mut self,
        subject: &Subject,
        report: &mut Report,
        path: &Path,
        offset: u64,
        lsn: Lsn,
        frame: Frame,
    ) {
        if self.is_before(subject, lsn) {
            return;
        }
        let id = frame.chronicle;
        if matches!(
            frame.kind,
            FrameKind::Events | FrameKind::Delete | FrameKind::StatementDelete | FrameKind::Trim
        ) {
            match (subject.definitions)(id) {
                CatalogEntry::Chronicle(definition) => {
                    if let Err(error) = self.decode(&definition, &frame) {
                        let line = undecodable(&definition, path, offset, lsn, &frame, &error);
                        let uncommitted = frame.kind == FrameKind::Events && !frame.commits();
                        match uncommitted && !self.decided.contains(&frame.statement) {
                            true => self.undecodable.entry(frame.statement).or_default().push(line),
                            false => report.push(line),
                        }
                    }
                }
                CatalogEntry::Dropped => {}
                CatalogEntry::Never
                    if subject.is_catalog_known && self.unknown_chronicles.insert(id) =>
                {
                    report.push(unknown_chronicle(path, offset, id));
                }
                CatalogEntry::Never => {}
            }
        }
        if let Err(error) = frame.completes() {
            report.push(unlisted(path, offset, lsn, &error));
            // The committed statements are unknown, and therefore all later gsn's.
            self.gsn = None;
        }
        self.count(subject, report, path, offset, &frame);
    }

    /// True if a frame is before the floor, and thus not needed.
    fn is_before(&mut self, subject: &Subject, lsn: Lsn) -> bool {
        if !self.started {
            // The journal has released more frames meanwhile: takes the new floor.
            if lsn > self.floor.lsn.max(Lsn(1))
                && let Some(manifest) = &subject.manifest
            {
                self.floor = manifest.state().floor.clone();
                self.gsn = Some(self.floor.gsn.0);
            }
            if lsn < self.floor.lsn {
                return true;
            }
            // A journal that never released a frame has the floor 0.
            if lsn > self.floor.lsn.max(Lsn(1)) {
                self.gsn = None;
            }
            self.started = true;
        }
        false
    }

    /// Counts the events of a frame, and assigns gsn's as recovery does.
    fn count(
        &mut self,
        subject: &Subject,
        report: &mut Report,
        path: &Path,
        offset: u64,
        frame: &Frame,
    ) {
        let held = FrameHead {
            chronicle: frame.chronicle,
            count: frame.count,
            first_seq: frame.first_seq,
            bytes: frame.payload.len() as u64,
        };
        let committed = match frame.kind {
            FrameKind::Events if frame.commits() => vec![held],
            FrameKind::Events => {
                self.open.entry(frame.statement).or_default().push(held);
                return;
            }
            // An unreadable list of statements is already reported.
            FrameKind::Commit | FrameKind::Transaction => {
                let mut held = Vec::new();
                for statement in frame.completes().unwrap_or_default() {
                    held.extend(self.open.remove(&statement).unwrap_or_default());
                    for line in self.undecodable.remove(&statement).unwrap_or_default() {
                        report.push(line);
                    }
                }
                held
            }
            FrameKind::Delete
            | FrameKind::StatementDelete
            | FrameKind::Trim
            | FrameKind::Catalog
            | FrameKind::Manifest => return,
        };
        for held in committed {
            let Some(gsn) = &mut self.gsn else { continue };
            let first = *gsn + 1;
            *gsn += u64::from(held.count);
            let (last, through) = (*gsn, subject.through(held.chronicle).0);
            if last <= through || subject.definition(held.chronicle).is_none() {
                continue;
            }
            if first <= through {
                report.push(straddling_statement(
                    subject,
                    path,
                    offset,
                    held.chronicle,
                    (first, last),
                ));
            }
            let tally = self.tallies.entry(held.chronicle).or_default();
            tally.files += 1;
            tally.rows += u64::from(held.count);
            tally.bytes += held.bytes;
            let seqs = self.seqs.entry(held.chronicle).or_default();
            seqs.push(held.first_seq, u64::from(held.count));
        }
    }

    fn decode(&mut self, definition: &ChronicleDefinition, frame: &Frame) -> Result<()> {
        if frame.kind == FrameKind::Trim {
            return frame.trims().map(drop);
        }
        if frame.kind != FrameKind::Events {
            return Ok(());
        }
        let shape = self.shapes.of(definition, frame.schema_version)?;
        let (_, ticks) = events(definition, &shape, frame)?;
        let hull = ticks.iter().fold(TickRange::EMPTY, |hull, tick| {
            let tick = stratalog_model::Tick(*tick);
            hull.hull(&TickRange::new(tick, tick.next()))
        });
        if hull == frame.ticks {
            return Ok(());
        }
        let time_range = |ticks| times(Some(definition), ticks);
        let what = format!(
            "the events of the frame are from {}, but the header of the frame declares {}",
            time_range(&hull),
            time_range(&frame.ticks)
        );
        Err(Error::new(ErrorKind::DataCorrupted, what))
    }

    /// Records a gap from `lsn` onward; returns a text with the meaning of the gap for the data.
    pub fn lost(&mut self, subject: &Subject, lsn: Lsn, frame: Option<&Frame>) -> String {
        let Some(frame) = frame else {
            self.gsn = None;
            return "the number and the tables of the affected events are unknown".to_string();
        };
        if lsn < self.floor.lsn {
            return "pieces own the events, no event is lost".to_string();
        }
        let definition = subject.definition(frame.chronicle);
        let table = name(definition.as_ref(), frame.chronicle);
        let ticks = times(definition.as_deref(), &frame.ticks);
        let gsns = self.gsn.map(|gsn| (gsn + 1, gsn + u64::from(frame.count)));
        let through = subject.through(frame.chronicle).0;
        let mut ignored = Report::default();
        // The header alone has the number of events, and thus of gsn's.
        self.count(subject, &mut ignored, Path::new(""), 0, frame);
        let events = format!("{} events of table {table}, {ticks}", frame.count);
        match gsns.filter(|_| frame.commits()) {
            _ if frame.kind != FrameKind::Events => "the frame contains no events".to_string(),
            Some((first, last)) if last <= through => {
                format!("{events}, gsn {first} to {last}: pieces own the events, no event is lost")
            }
            Some((first, last)) => format!("{events}, gsn {first} to {last}, cannot be read"),
            None => format!("{events}, cannot be read"),
        }
    }

    /// The arrival numbers of a chronicle's events that the journal owns.
    pub fn seqs(&self, id: ChronicleId) -> impl Iterator<Item = u64> {
        self.seqs.get(&id).into_iter().flat_map(Ranges::numbers)
    }

    /// Reports the content of the journal, and checks that the journal reaches the last gsn of the
    /// pieces. `torn` is true if its tail is torn.
    pub fn finish(&self, subject: &Subject, torn: bool, report: &mut Report) {
        for (id, PartTally { files, rows, bytes, .. }) in &self.tallies {
            let line = Line::new(PartKind::Journal, "journal", Severity::Sound)
                .with_table(name(subject.definition(*id).as_ref(), *id))
                .with_rows(*rows)
                .with_bytes(*bytes);
            report.push(line.with_detail(format!("{files} frames with events outside of pieces")));
        }
        let (mut decided, mut uncommitted) = (0, 0);
        for (statement, frames) in &self.open {
            let rows: u64 = frames.iter().map(|held| u64::from(held.count)).sum();
            match self.decided.contains(statement) {
                true => decided += rows,
                false => uncommitted += rows,
            }
        }
        if decided > 0 {
            let what = "events of a transaction with a decision in the catalog: the next start commits the events if all events are in the journal";
            let line = Line::new(PartKind::Journal, "journal", Severity::Sound);
            report.push(line.with_rows(decided).with_detail(what));
        }
        if uncommitted > 0 {
            let what =
                "events of statements that were rolled back or unfinished: the events do not count";
            let line = Line::new(PartKind::Journal, "journal", Severity::Sound);
            report.push(line.with_rows(uncommitted).with_detail(what));
        }
        let Some(gsn) = self.gsn else { return };
        let last = subject.chronicles().map(|(id, owned)| (*id, owned.last_gsn().0));
        let ahead: Vec<_> = last.filter(|(_, last)| *last > gsn).collect();
        let Some(last) = ahead.iter().map(|(_, last)| *last).max() else {
            if !report.is_damaged(PartKind::Ownership) {
                let line = Line::new(PartKind::Ownership, "manifest", Severity::Sound);
                let floor = self.floor.gsn;
                report.push(line.with_detail(format!(
                    "pieces own events according to the manifest, and the journal owns the later events, from gsn {floor} to {gsn}"
                )));
            }
            return;
        };
        let tables: Vec<String> =
            ahead.iter().map(|(id, _)| name(subject.definition(*id).as_ref(), *id)).collect();
        let tables = tables.join(", ");
        let why = if torn {
            "the last frames look like an interrupted write, but the frames were durable, because pieces made from the frames are durable"
        } else {
            "the last frames are lost"
        };
        let line = Line::new(PartKind::Journal, "journal", Severity::Damaged).with_detail(format!(
            "the journal ends at gsn {gsn}, but pieces continue to {last}: {why}. Events of {tables} up to gsn {last} are safe in pieces; events of other tables from gsn {} on are lost. A start is refused, and changes nothing",
            gsn + 1
        ));
        report.push(line.with_hint("restore the last segment of the journal from a backup"));
    }
}

/// Decodes the columns and ticks of a frame's events, as recovery does.
///
/// # Errors
/// `DataCorrupted`; `DatetimeOverflow` if a time has no tick.
pub fn events(
    definition: &ChronicleDefinition,
    shape: &Shape,
    frame: &Frame,
) -> Result<(Vec<Column>, Vec<i64>)> {
    let DecodedPayload { columns, ticks } =
        encode::decode(&frame.payload, &shape.schema, frame.count as usize)?;
    if let Some(ticks) = ticks {
        return Ok((columns, ticks.to_vec()));
    }
    let Some(Column::Plain(times)) = columns.get(shape.tick_at) else {
        return Err(Error::internal("the tick column is missing"));
    };
    let ticks = ticks::assign(&ticks::values(times)?, shape.tick_unit_ns, &definition.scale)?;
    debug_assert_eq!(ticks.len(), frame.count as usize, "an event has no tick");
    Ok((columns, ticks))
}

fn undecodable(
    definition: &Arc<ChronicleDefinition>,
    path: &Path,
    offset: u64,
    lsn: Lsn,
    frame: &Frame,
    error: &Error,
) -> Line {
    debug_assert!(is_finding(error), "{error}");
    Line::new(PartKind::Journal, path.to_string_lossy(), Severity::Damaged)
        .with_table(definition.qualified_name())
        .with_rows(u64::from(frame.count))
        .with_bytes(frame.payload.len() as u64)
        .with_detail(format!(
            "frame {lsn} at offset {offset} has a sound checksum and events that cannot be read: \
             {}; {}",
            message_of(error),
            times(Some(definition), &frame.ticks)
        ))
        .with_hint(
            "start the version of Stratalog that wrote the file; or restore the file from a backup",
        )
}

/// The finding for a commit frame whose list of statements cannot be read.
fn unlisted(path: &Path, offset: u64, lsn: Lsn, error: &Error) -> Line {
    Line::new(PartKind::Journal, path.to_string_lossy(), Severity::Damaged)
        .with_detail(format!(
            "frame {lsn} at offset {offset} has a sound checksum, and commits statements that \
             cannot be read: {}",
            message_of(error)
        ))
        .with_hint(
            "start the version of Stratalog that wrote the file; or restore the file from a backup",
        )
}

fn unknown_chronicle(path: &Path, offset: u64, id: ChronicleId) -> Line {
    Line::new(PartKind::Ownership, path.to_string_lossy(), Severity::Damaged)
        .with_detail(format!(
            "the frame at offset {offset} contains events of table number {id}, which the catalog has never created: the catalog has lost records, or belongs to another data directory"
        ))
        .with_hint("restore the directories catalog, manifest and journal from one backup")
}

fn straddling_statement(
    subject: &Subject,
    path: &Path,
    offset: u64,
    id: ChronicleId,
    (first, last): (u64, u64),
) -> Line {
    debug_assert!(
        (first..last).contains(&subject.through(id).0),
        "the border does not cut the statement"
    );
    Line::new(PartKind::Ownership, path.to_string_lossy(), Severity::Damaged)
        .with_table(name(subject.definition(id).as_ref(), id))
        .with_cure(Repair::None)
        .with_detail(format!(
            "the events of gsn {first} to {last}, whose statement ends at offset {offset}, are \
             owned by pieces up to gsn {} and by the journal from there on: queries return some events twice",
            subject.through(id)
        ))
        .with_hint("restore the directories manifest and journal from one backup")
}
