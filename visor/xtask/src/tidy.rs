//! The checks of `tidy`, and their findings.

mod assertions;
mod circles;
mod edges;
mod finding;
mod headers;
mod hints;
mod leftovers;
mod locks;
mod manifest;
mod names;
mod size;
mod subjects;
mod words;

use crate::{documents, generate, tree::Tree};

pub use finding::Finding;
pub use manifest::members;

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
    circles::check(tree, &mut findings);
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
