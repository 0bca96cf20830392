//! `upstream/list.txt`: the files to run, and the skipped records with their reasons.
//!
//! ```text
//! run aggregate.slt
//! skip aggregate.slt:123,456 reason
//! pattern "text" reason            any record whose SQL contains the text, in any case
//! pattern aggregate.slt "text" reason
//! ```

use std::{
    collections::HashMap,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::Failure;

#[derive(Debug)]
struct Pattern {
    file: Option<String>,
    text: String,
    line: String,
    used: AtomicBool,
}

/// The contents of `list.txt`.
#[derive(Debug, Default)]
pub struct List {
    files: Vec<String>,
    skipped: HashMap<(String, u32), AtomicBool>,
    patterns: Vec<Pattern>,
}

impl List {
    /// Reads the list.
    ///
    /// # Errors
    /// If a line has none of the forms `run`, `skip` and `pattern`, or lacks a reason.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::of_harness(format!("{}: {error}", path.display())))?;
        let mut list = List::default();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            list.take(line)
                .ok_or_else(|| Failure::of_harness(format!("{}: {line}", path.display())))?;
        }
        Ok(list)
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let (word, rest) = line.split_once(' ')?;
        match word {
            "run" => self.files.push(rest.trim().to_string()),
            "skip" => {
                let (place, reason) = rest.split_once(' ')?;
                let (file, number) = place.rsplit_once(':')?;
                if reason.trim().is_empty() {
                    return None;
                }
                for number in number.split(',') {
                    let key = (file.to_string(), number.parse().ok()?);
                    self.skipped.insert(key, AtomicBool::new(false));
                }
            }
            "pattern" => {
                let (file, quoted) = rest.split_once('"')?;
                let (text, reason) = quoted.split_once("\" ")?;
                if reason.trim().is_empty() {
                    return None;
                }
                self.patterns.push(Pattern {
                    file: Some(file.trim().to_string()).filter(|file| !file.is_empty()),
                    text: text.to_ascii_lowercase(),
                    line: line.to_string(),
                    used: AtomicBool::new(false),
                });
            }
            _ => return None,
        }
        Some(())
    }

    /// The files to run.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(String::as_str)
    }

    /// True if the list skips a record.
    pub fn skips(&self, file: &str, line: u32, sql: &str) -> bool {
        if let Some(used) = self.skipped.get(&(file.to_string(), line)) {
            used.store(true, Ordering::Relaxed);
            return true;
        }
        let sql = sql.to_ascii_lowercase();
        let found = self.patterns.iter().find(|pattern| {
            pattern.file.as_deref().is_none_or(|only| only == file) && sql.contains(&pattern.text)
        });
        if let Some(pattern) = found {
            pattern.used.store(true, Ordering::Relaxed);
        }
        found.is_some()
    }

    /// Lines of the list that had no effect although their file ran. Such lines must be removed
    /// from the list.
    pub fn unused(&self, wanted: impl Fn(&Path) -> bool) -> Vec<String> {
        let idle = |used: &AtomicBool| !used.load(Ordering::Relaxed);
        let everything = self.files.iter().all(|file| wanted(Path::new(file)));
        let mut lines: Vec<String> = self
            .skipped
            .iter()
            .filter(|((file, _), used)| wanted(Path::new(file)) && idle(used))
            .map(|((file, line), _)| format!("upstream/list.txt: no record at {file}:{line}"))
            .collect();
        lines.sort();
        if everything {
            lines.extend(
                self.patterns
                    .iter()
                    .filter(|pattern| idle(&pattern.used))
                    .map(|pattern| format!("upstream/list.txt: matches nothing: {}", pattern.line)),
            );
        }
        lines
    }
}
