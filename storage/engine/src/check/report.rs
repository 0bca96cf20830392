//! The report of a check: a line for each part of the data directory without a finding, and a line
//! for each finding.

use std::fmt;

use stratalog_model::ChronicleId;

/// Maximum number of findings in a report: a part that is damaged everywhere needs no complete
/// list.
const FINDINGS_MAX: usize = 1000;

/// The parts of a data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PartKind {
    /// The format marker of the directory.
    Format,
    /// The lease of the clock: the time up to which the clock may issue times.
    Clock,
    /// The log of the catalog.
    Catalog,
    /// The manifest: the log of the owners of events.
    Manifest,
    /// The journal: the log of events.
    Journal,
    /// The tablets: files of blocks.
    Tablets,
    /// The stories: Parquet files.
    Stories,
    /// The index: sled's copy of the metadata of all blocks.
    Index,
    /// The ownership of events: each event has exactly one owner.
    Ownership,
    /// Files that no record names.
    Files,
}

impl fmt::Display for PartKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PartKind::Format => "format",
            PartKind::Clock => "clock",
            PartKind::Catalog => "catalog",
            PartKind::Manifest => "manifest",
            PartKind::Journal => "journal",
            PartKind::Tablets => "tablets",
            PartKind::Stories => "stories",
            PartKind::Index => "index",
            PartKind::Ownership => "ownership",
            PartKind::Files => "files",
        })
    }
}

/// The severity of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// There is no finding.
    Sound,
    /// A finding that the next start or the next use repairs: nothing is lost.
    Warning,
    /// The part could not be checked.
    Unchecked,
    /// Data is damaged, or a start is refused.
    Damaged,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Sound => "sound",
            Severity::Warning => "warning",
            Severity::Unchecked => "unchecked",
            Severity::Damaged => "damaged",
        })
    }
}

/// The repair of a finding, for findings that a check can repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repair {
    /// The check cannot repair the finding; a backup may help.
    #[default]
    None,
    /// Remove the index: the next start builds a new index.
    Index,
    /// Cut off the torn tail of the log of this part.
    Tail,
    /// Remove the file.
    Remove,
    /// Rebuild the tablet, if the journal still has its events.
    Tablet(ChronicleId, u64),
}

/// A line of the report: a part without a finding, or a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The part.
    pub part: PartKind,
    /// The file or folder. The path is relative if it is inside the data directory.
    pub path: String,
    /// The table concerned; `None` if the line concerns no single table.
    pub table: Option<String>,
    /// Number of events in the part, or of events concerned by the finding.
    pub rows: Option<u64>,
    /// Number of bytes read, or of bytes concerned by the finding.
    pub bytes: Option<u64>,
    /// The severity.
    pub state: Severity,
    /// Counts; or the damage, its place, and its meaning for the data.
    pub detail: String,
    /// How to repair the finding, for people.
    pub hint: Option<String>,
    /// The repair that the check can make.
    pub cure: Repair,
}

impl Line {
    /// A line without details about a part.
    pub fn new(part: PartKind, path: impl Into<String>, state: Severity) -> Self {
        Self {
            part,
            path: path.into(),
            table: None,
            rows: None,
            bytes: None,
            state,
            detail: String::new(),
            hint: None,
            cure: Repair::None,
        }
    }

    /// Sets the detail.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    /// Sets the hint.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Sets the table.
    #[must_use]
    pub fn with_table(self, table: impl Into<String>) -> Self {
        Self { table: Some(table.into()), ..self }
    }

    /// Sets the number of events.
    #[must_use]
    pub fn with_rows(self, rows: u64) -> Self {
        Self { rows: Some(rows), ..self }
    }

    /// Sets the number of bytes.
    #[must_use]
    pub fn with_bytes(self, bytes: u64) -> Self {
        Self { bytes: Some(bytes), ..self }
    }

    /// Sets the repair.
    #[must_use]
    pub fn with_cure(self, cure: Repair) -> Self {
        Self { cure, ..self }
    }
}

/// The report of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The lines, in the order of the check.
    pub lines: Vec<Line>,
    /// Number of findings beyond the limit, which are not listed.
    pub unlisted: u64,
}

impl Report {
    /// Adds a line.
    pub fn push(&mut self, line: Line) {
        if line.state != Severity::Sound && self.lines.len() >= FINDINGS_MAX {
            self.unlisted += 1;
            return;
        }
        self.lines.push(line);
    }

    /// Adds the lines of another report.
    pub fn append(&mut self, other: Report) {
        self.unlisted += other.unlisted;
        other.lines.into_iter().for_each(|line| self.push(line));
    }

    /// The number of lines with a severity.
    pub fn count(&self, state: Severity) -> usize {
        self.lines.iter().filter(|line| line.state == state).count()
    }

    /// True if a part is damaged.
    pub fn is_damaged(&self, part: PartKind) -> bool {
        self.lines.iter().any(|line| line.part == part && line.state == Severity::Damaged)
    }

    /// The highest severity of all lines.
    pub fn state(&self) -> Severity {
        let worst = self.lines.iter().map(|line| line.state).max().unwrap_or(Severity::Sound);
        if self.unlisted > 0 { worst.max(Severity::Damaged) } else { worst }
    }
}
