//! Checks that all settings named by hints of errors exist.

use super::Finding;
use crate::tree::Tree;

/// The page with a heading for every setting of the server.
const SETTINGS: &str = "docs/settings.md";

/// The word that precedes the name of a setting in a hint.
const LABEL: &str = "raise ";

/// The endings of the names of settings that are limits. A name with a dot is not a setting of the
/// server.
const ENDS: [&str; 4] = ["_max", "_min", "_bytes", "_ms"];

/// Prefixes that name a crate, and not a section of the settings.
const SECTIONS: [&str; 6] = ["query.", "pgwire.", "journal.", "engine.", "flight.", "http."];

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let Some((_, settings)) = tree.files.iter().find(|(path, _)| *path == SETTINGS) else {
        return;
    };
    let known: Vec<&str> = settings.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    for (path, text) in &tree.files {
        if !path.ends_with(".rs") || path.contains("/tests") || path.contains("/xtask/") {
            continue;
        }
        for (number, line) in (1..).zip(text.lines()) {
            for name in named(line).filter(|name| !known.contains(name)) {
                findings.push(Finding::new(
                    path,
                    number,
                    format!("{name} is no setting of {SETTINGS}: name one, or none"),
                ));
            }
        }
    }
}

/// The names of settings in the string literals of a line.
fn named(line: &str) -> impl Iterator<Item = &str> {
    let raised = line.match_indices(LABEL).filter_map(|(at, label)| line.get(at + label.len()..));
    let of_sections = SECTIONS
        .iter()
        .flat_map(|section| line.match_indices(*section))
        .filter(|(at, _)| {
            let before = line.get(..*at).unwrap_or_default();
            let quotes = before.bytes().filter(|byte| *byte == b'"').count();
            !quotes.is_multiple_of(2) && before.ends_with(['"', ' ', '('])
        })
        .filter_map(|(at, _)| line.get(at..));
    raised.chain(of_sections).map(word).filter(|word| ENDS.iter().any(|end| word.ends_with(end)))
}

/// The name at the beginning of a text.
fn word(text: &str) -> &str {
    let end = text
        .find(|character: char| !(character.is_ascii_alphanumeric() || "_.".contains(character)))
        .unwrap_or(text.len());
    text.get(..end).unwrap_or_default().trim_end_matches('.')
}
