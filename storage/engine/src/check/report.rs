//! The report of a check: a line for each sound part, and a line for each finding.

use std::fmt;

use stratalog_model::ChronicleId;

/// Maximum number of findings in a report: a part broken all over needs no complete list.
const FINDINGS_MAX: usize = 1000;

/// Parts of a data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PartKind {
    /// The format marker of the directory.
    Format,
    /// The clock's lease.
    Clock,
    /// The journal of the catalog.
    Catalog,
    /// The journal of the owners of events.
    Manifest,
    /// The journal of events.
    Journal,
    /// Block files.
    Tablets,
    /// Parquet files.
    Stories,
    /// sled's copy of the block files' heads.
    Index,
    /// The owners of events.
    Ownership,
    /// Files not named by any record.
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
    /// No finding.
    Sound,
    /// A finding for the next start or the next use to mend: nothing is lost.
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

/// The repair of a finding, where a second copy exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repair {
    /// Only a backup, or no repair at all.
    #[default]
    None,
    /// The index is removed; the next start makes a new index.
    Index,
    /// The torn tail of the journal of this part is cut.
    Tail,
    /// The file is removed.
    Remove,
    /// The tablet is rebuilt, if the journal still has the tablet's events.
    Tablet(ChronicleId, u64),
}

/// A sound part, or a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The part.
    pub part: PartKind,
    /// The file or folder; relative to the data directory for a path inside.
    pub path: String,
    /// The table concerned, if any.
    pub table: Option<String>,
    /// Events of the part, or events concerned by the finding.
    pub rows: Option<u64>,
    /// Bytes read, or bytes concerned by the finding.
    pub bytes: Option<u64>,
    /// The severity.
    pub state: Severity,
    /// The text: counts, or the damage, its place, and its meaning for the data.
    pub detail: String,
    /// The repair in words.
    pub hint: Option<String>,
    /// The repair.
    pub cure: Repair,
}

impl Line {
    /// A line about a part.
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

    /// The text.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    /// The repair in words.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The table of the events.
    #[must_use]
    pub fn with_table(self, table: impl Into<String>) -> Self {
        Self { table: Some(table.into()), ..self }
    }

    /// The number of events.
    #[must_use]
    pub fn with_rows(self, rows: u64) -> Self {
        Self { rows: Some(rows), ..self }
    }

    /// The number of bytes.
    #[must_use]
    pub fn with_bytes(self, bytes: u64) -> Self {
        Self { bytes: Some(bytes), ..self }
    }

    /// The repair.
    #[must_use]
    pub fn with_cure(self, cure: Repair) -> Self {
        Self { cure, ..self }
    }
}

/// The findings of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The lines, in the order of the check.
    pub lines: Vec<Line>,
    /// Findings beyond the limit of the report.
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
