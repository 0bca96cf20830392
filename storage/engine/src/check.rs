//! A read-only check of all stored data (CL-2, CL-6).
//!
//! ```text
//!   Subject: owners of events (a manifest, or the published version), and places of files
//!      │
//!      ├─ frame, lost ◄── journal: decoded, counted, gsn's given as recovery gives them
//!      ├─ pieces      ◄── tablets and stories: every byte, every value, order, counts
//!      └─ finish      ◄── is every event owned once, does the journal reach the pieces
//!                 each part, and each finding ─► Report
//! ```
//! Memory of a check: one block or row group, the frame counts of unfinished statements, and a bit
//! for each arrival number of one chronicle, up to 64 MiB. Beyond this limit, the check does not
//! look for events with two owners.

mod compare;
mod journal;
mod pieces;
mod rebuild;
mod report;
mod seqs;
mod subject;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use stratalog_model::{
    ChronicleDefinition, ChronicleId, Error, ErrorKind, Frame, Lsn, Result, TickRange,
};

pub use rebuild::Rebuild;
pub use report::{Line, PartKind, Repair, Report, Severity};
pub use subject::{CatalogEntry, Subject};

use journal::JournalContent;

/// A callback that receives the number of bytes read since its last call. An error ends the check.
pub type Progress<'a> = dyn FnMut(u64) -> Result<()> + 'a;

/// A check in progress.
pub struct Check<'a> {
    subject: &'a Subject,
    progress: &'a mut Progress<'a>,
    report: Report,
    journaled: JournalContent,
}

impl<'a> Check<'a> {
    /// A new check of `subject`.
    pub fn new(subject: &'a Subject, progress: &'a mut Progress<'a>) -> Self {
        let journaled = JournalContent::new(&subject.state.floor, subject.decision.as_ref());
        Self { subject, progress, report: Report::default(), journaled }
    }

    /// Checks a frame of the journal. Call for all frames from the floor onward, in lsn order.
    ///
    /// # Errors
    /// The errors of `progress`.
    pub fn frame(&mut self, path: &Path, offset: u64, lsn: Lsn, frame: Frame) -> Result<()> {
        (self.progress)(frame.payload.len() as u64)?;
        self.journaled.frame(self.subject, &mut self.report, path, offset, lsn, frame);
        Ok(())
    }

    /// Records a gap in the journal: frames from `lsn` onward cannot be read. If a single frame is
    /// lost and its header is known, `frame` is the header, without a payload. Returns a text with
    /// the meaning of the gap for the data.
    pub fn lost(&mut self, lsn: Lsn, frame: Option<&Frame>) -> String {
        self.journaled.lost(self.subject, lsn, frame)
    }

    /// Checks all files that the manifest names. Blocks the thread.
    ///
    /// # Errors
    /// The errors of `progress`; `ConnectionFailure` if an object store is out of reach.
    pub fn pieces(&mut self) -> Result<()> {
        pieces::check(self.subject, &self.journaled, self.progress, &mut self.report)
    }

    /// Ends the check, and returns its report. `torn` is true if the tail of the journal is torn.
    pub fn finish(mut self, torn: bool) -> Report {
        self.journaled.finish(self.subject, torn, &mut self.report);
        self.report
    }
}

/// A range of ticks as a text with times; the end is inclusive.
fn times(definition: Option<&ChronicleDefinition>, ticks: &TickRange) -> String {
    if ticks.is_empty() {
        return "no ticks".to_string();
    }
    let last = stratalog_model::Tick(ticks.end.0.saturating_sub(1));
    let Some(definition) = definition else {
        return format!("ticks {} to {last}", ticks.start);
    };
    let time = |tick| definition.scale.time_ns_of(tick).map(timestamp);
    match (time(ticks.start), time(last)) {
        (Some(first), Some(last)) => format!("{first} to {last}"),
        _ => format!("ticks {} to {last}", ticks.start),
    }
}

/// A time in UTC, as text.
fn timestamp(time_ns: i64) -> String {
    let array = arrow::array::TimestampNanosecondArray::from(vec![time_ns]);
    let text = arrow::util::display::array_value_to_string(&array, 0);
    text.map_or_else(|_| format!("{time_ns} ns since 1970"), |text| format!("{text}Z"))
}

/// The table name of a chronicle, for messages.
fn name(definition: Option<&Arc<ChronicleDefinition>>, id: ChronicleId) -> String {
    definition.map_or_else(|| format!("number {id}"), |known| known.qualified_name())
}

/// True for damaged data, which the check reports; false for an error that ends the check.
fn is_finding(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::DataCorrupted
            | ErrorKind::Io
            | ErrorKind::Internal
            | ErrorKind::ObjectNotInPrerequisiteState
            | ErrorKind::DatetimeOverflow
    )
}

/// An error as one line of text: message and detail.
fn message_of(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}; {detail}", error.message()),
        None => error.message().to_string(),
    }
}

/// Totals of the parts of one kind.
#[derive(Debug, Clone, Copy, Default)]
struct PartTally {
    files: u64,
    rows: u64,
    bytes: u64,
    damaged: u64,
}

/// Totals by chronicle.
type Tallies = BTreeMap<ChronicleId, PartTally>;
