//! Prints the report of a check in readable form.

use std::{cell::Cell, io::IsTerminal as _, path::Path, time::Duration};

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use stratalog_engine::check::{Line, Report, Severity};

/// Prints a report.
pub(super) fn report(path: &Path, report: &Report) {
    for line in &report.lines {
        println!("{}", text(line));
    }
    if report.unlisted > 0 {
        println!("… and {} more findings", report.unlisted);
    }
    let count = |state| report.count(state);
    let (damaged, warnings) = (count(Severity::Damaged), count(Severity::Warning));
    let warned = match warnings {
        0 => String::new(),
        1 => "; 1 warning, without consequence for the data".to_string(),
        _ => format!("; {warnings} warnings, without consequence for the data"),
    };
    let path = path.display();
    match (report.state(), damaged) {
        (Severity::Sound | Severity::Warning, _) => println!("{path} is sound{warned}"),
        (Severity::Unchecked, _) => println!("{path} could not be checked completely{warned}"),
        (Severity::Damaged, 1) => println!("{path} is damaged: 1 finding{warned}"),
        (Severity::Damaged, _) => println!("{path} is damaged: {damaged} findings{warned}"),
    }
}

/// The text for a part: one line if the part is sound, several lines if not.
fn text(line: &Line) -> String {
    let mut facts = Vec::new();
    facts.extend(line.table.as_ref().map(|table| format!("table {table}")));
    facts.extend(line.rows.map(|rows| format!("{rows} rows")));
    facts.extend(line.bytes.map(|bytes| HumanBytes(bytes).to_string()));
    let Line { part, state, path, .. } = line;
    let facts = facts.join(", ");
    let head = format!("{part:<10} {state:<9} {path}");
    let head = if facts.is_empty() { head } else { format!("{head}: {facts}") };
    if line.state == Severity::Sound {
        return match line.detail.as_str() {
            "" => head,
            detail => format!("{head}; {detail}"),
        };
    }
    let hint = line.hint.as_ref().map(|hint| format!("\n    hint: {hint}"));
    format!("{head}\n    {}{}", line.detail, hint.unwrap_or_default())
}

/// The progress bar of a check; hidden if the output is not a terminal.
pub(super) struct CheckProgress {
    bar: ProgressBar,
    /// Bytes that were read since the last update of the bar.
    pending: Cell<u64>,
}

/// The bar is updated after this number of bytes.
const STEP_BYTES: u64 = 1 << 20;

impl CheckProgress {
    pub(super) fn new(path: &Path) -> Self {
        let pending = Cell::new(0);
        if !std::io::stderr().is_terminal() {
            return Self { bar: ProgressBar::hidden(), pending };
        }
        let bar = ProgressBar::new(bytes_of(path));
        if let Ok(style) =
            ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes}, {eta} left")
        {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, pending }
    }

    pub(super) fn advance(&self, bytes: u64) {
        let pending = self.pending.get() + bytes;
        if pending < STEP_BYTES {
            self.pending.set(pending);
            return;
        }
        self.pending.set(0);
        self.bar.inc(pending);
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Bytes of all files below a folder: about the number of bytes that a check reads.
fn bytes_of(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_of(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.sum()
}
