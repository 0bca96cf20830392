//! What a check says: a line for each part that is right, and one for each thing that is not.

use std::fmt;

use stratalog_model::ChronicleId;

/// Lines about things that are wrong, at most: what is broken all over need not be listed.
const FINDINGS_MAX: usize = 1000;

/// Parts of a data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PartKind {
    /// What says which format the directory has.
    Format,
    /// The clock's lease.
    Clock,
    /// The journal of the catalog.
    Catalog,
    /// The journal of who owns what.
    Manifest,
    /// The journal of events.
    Journal,
    /// Block files.
    Tablets,
    /// Parquet files.
    Stories,
    /// What the block files hold, as sled says.
    Index,
    /// Who owns which events.
    Ownership,
    /// Files that nothing names.
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

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// All is as it should be.
    Sound,
    /// Something is not, and the next start or the next use mends it: nothing is lost.
    Warning,
    /// It could not be looked at.
    Unchecked,
    /// Data is damaged, or a start is refused.
    Damaged,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            State::Sound => "sound",
            State::Warning => "warning",
            State::Unchecked => "unchecked",
            State::Damaged => "damaged",
        })
    }
}

/// What mends it, where there is a second copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cure {
    /// Only a backup, or nothing at all is to be done.
    #[default]
    None,
    /// The index is removed, and made again by the next start.
    Index,
    /// The torn tail of the journal of this part is cut.
    Tail,
    /// The file is removed.
    Remove,
    /// The tablet is made again, if the journal still has its events.
    Tablet(ChronicleId, u64),
}

/// One part, or one thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Which part.
    pub part: PartKind,
    /// The file or folder; below the data directory where it lies there.
    pub path: String,
    /// The table concerned, if it is one.
    pub table: Option<String>,
    /// Events: those of the part, or those concerned.
    pub rows: Option<u64>,
    /// Bytes that were read, or that are concerned.
    pub bytes: Option<u64>,
    /// What the line says.
    pub state: State,
    /// In words: counts, or what is wrong, where, and what that means for the data.
    pub detail: String,
    /// What mends it, in words.
    pub hint: Option<String>,
    /// What mends it.
    pub cure: Cure,
}

impl Line {
    /// A line about a part.
    pub fn new(part: PartKind, path: impl Into<String>, state: State) -> Self {
        Self {
            part,
            path: path.into(),
            table: None,
            rows: None,
            bytes: None,
            state,
            detail: String::new(),
            hint: None,
            cure: Cure::None,
        }
    }

    /// In words.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    /// What mends it.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Whose events.
    #[must_use]
    pub fn with_table(self, table: impl Into<String>) -> Self {
        Self { table: Some(table.into()), ..self }
    }

    /// How many events.
    #[must_use]
    pub fn with_rows(self, rows: u64) -> Self {
        Self { rows: Some(rows), ..self }
    }

    /// How many bytes.
    #[must_use]
    pub fn with_bytes(self, bytes: u64) -> Self {
        Self { bytes: Some(bytes), ..self }
    }

    /// What mends it.
    #[must_use]
    pub fn with_cure(self, cure: Cure) -> Self {
        Self { cure, ..self }
    }
}

/// What a check has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// In the order in which it was found.
    pub lines: Vec<Line>,
    /// Findings for which there was no room.
    pub unlisted: u64,
}

impl Report {
    /// Adds a line.
    pub fn push(&mut self, line: Line) {
        if line.state != State::Sound && self.lines.len() >= FINDINGS_MAX {
            self.unlisted += 1;
            return;
        }
        self.lines.push(line);
    }

    /// Adds those of another one.
    pub fn append(&mut self, other: Report) {
        self.unlisted += other.unlisted;
        other.lines.into_iter().for_each(|line| self.push(line));
    }

    /// How many lines say so.
    pub fn count(&self, state: State) -> usize {
        self.lines.iter().filter(|line| line.state == state).count()
    }

    /// Whether a part is damaged.
    pub fn is_damaged(&self, part: PartKind) -> bool {
        self.lines.iter().any(|line| line.part == part && line.state == State::Damaged)
    }

    /// The worst that a line says.
    pub fn state(&self) -> State {
        let worst = self.lines.iter().map(|line| line.state).max().unwrap_or(State::Sound);
        if self.unlisted > 0 { worst.max(State::Damaged) } else { worst }
    }
}
