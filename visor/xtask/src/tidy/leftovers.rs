//! Finds leftovers of unfinished work, and paths of a single machine.

use std::env;

use super::Finding;
use crate::tree::Tree;

/// Words that mark unfinished work, in any text file. Here, the words and the calls and folders
/// below are written in two parts: this file must pass the check too.
pub(super) const MARKS: [&str; 4] =
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];

/// Calls that no Rust code may contain, including tests.
pub(super) const CALLS: [&str; 3] =
    [concat!("to", "do!("), concat!("unimple", "mented!("), concat!("db", "g!(")];

/// Attributes with a better replacement.
pub(super) const ALLOWS: [&str; 2] = [concat!("#[al", "low("), concat!("#![al", "low(")];

/// The folders of home directories on the supported systems.
const HOMES: [&str; 2] = [concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// Exempt files: third-party texts, checksums, data.
const EXEMPT: [&str; 4] = ["Cargo.lock", "LICENSE", "go.sum", ".slt.part"];

/// Paths of a single machine: home directories, and the folder of this clone.
pub(super) fn places(tree: &Tree) -> Vec<String> {
    let home = env::home_dir().into_iter();
    let clone = tree.root.parent().map(|folder| folder.to_path_buf());
    let folders = home.chain(clone).map(|folder| format!("{}/", folder.display()));
    let own = folders.filter(|folder| folder.len() > 2);
    HOMES.iter().map(|home| (*home).to_string()).chain(own).collect()
}

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let places = places(tree);
    for (path, text) in &tree.files {
        if EXEMPT.iter().any(|name| path.ends_with(name)) {
            continue;
        }
        let rust = path.ends_with(".rs");
        for (number, line) in (1..).zip(text.lines()) {
            let mut found = |message: String| findings.push(Finding::new(path, number, message));
            for mark in MARKS.iter().filter(|mark| has_word(line, mark)) {
                found(format!("{mark}: finish it, or write an issue"));
            }
            if let Some(place) = places.iter().find(|place| names_place(line, place)) {
                found(format!("path of one machine: {place}…"));
            }
            if rust {
                let test = path.contains("/tests/") || path.contains("/benches/");
                check_rust(line, test, &mut found);
            }
        }
    }
}

/// Checks a line of Rust code. The root files of tests and benches may allow lints for their
/// helpers.
fn check_rust(line: &str, test: bool, found: &mut impl FnMut(String)) {
    for call in CALLS.iter().filter(|call| line.contains(**call)) {
        found(format!("{call}…) must not be left in the code"));
    }
    if !test && ALLOWS.iter().any(|allow| line.contains(allow)) {
        found("use #[expect(…, reason = \"…\")] instead of allow".to_string());
    }
    if looks_like_code(line) {
        found("commented-out code: delete it, git remembers".to_string());
    }
}

/// True if `line` contains the separate word `word`.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + word.len()..).and_then(|text| text.chars().next());
        let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !joins(before) && !joins(after)
    })
}

/// True if the line contains a path that begins with `place`.
fn names_place(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        before.is_none_or(|c| !(c.is_alphanumeric() || "_-.})*~$/>".contains(c)))
    })
}

/// True if a comment looks like commented-out code.
fn looks_like_code(line: &str) -> bool {
    let Some(text) = line.trim_start().strip_prefix("//") else { return false };
    if text.starts_with(['/', '!']) {
        return false;
    }
    let text = text.trim();
    let declares = ["let ", "use ", "pub ", "fn ", "impl ", "return ", "#["]
        .iter()
        .any(|start| text.starts_with(start));
    let ends = text.ends_with(';') || text.ends_with('{') || text == "}" || text.ends_with(")]");
    let calls = text.ends_with(");") || text.ends_with(")?;") || text.ends_with(" {");
    text == "}" || calls || (declares && ends)
}
