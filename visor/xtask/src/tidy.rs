//! The checks of `tidy`, and their findings.

mod assertions;
mod edges;
mod headers;
mod hints;
mod leftovers;
mod locks;
mod manifest;
mod names;
mod size;
mod subjects;
mod words;

use std::fmt;

use crate::{documents, generate, tree::Tree};

pub use manifest::members;

/// A problem to fix.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    /// A finding in a line, counted from 1; 0 for the whole file.
    pub fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_string(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// Runs every check.
pub fn run(tree: &Tree) -> Result<String, String> {
    let mut findings = Vec::new();
    let mut warnings = Vec::new();
    size::check(tree, &mut findings, &mut warnings);
    leftovers::check(tree, &mut findings);
    headers::check(tree, &mut findings);
    hints::check(tree, &mut findings);
    manifest::check(tree, &mut findings);
    locks::check(tree, &mut findings);
    edges::check(tree, &mut findings)?;
    words::check(tree, &mut findings);
    names::check(tree, &mut findings);
    assertions::check(tree, &mut findings);
    documents::check(tree, &mut findings);
    generate::check(tree, &mut findings);
    subjects::check(tree, &mut findings)?;
    for warning in &warnings {
        println!("warning: {warning}");
    }
    if findings.is_empty() {
        return Ok(format!(
            "tidy: {} files, nothing to mend, {} to look at",
            tree.files.len(),
            warnings.len()
        ));
    }
    findings.sort();
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    Err(format!("{}\ntidy: {} to mend", lines.join("\n"), lines.len()))
}

#[cfg(test)]
mod tests;
