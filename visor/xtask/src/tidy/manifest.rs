//! Checks the manifest of the workspace: every dependency is listed once, has a comment with its
//! reason, and is used.

use super::Finding;
use crate::tree::Tree;

const ROOT: &str = "Cargo.toml";

/// The folders of the crates of the workspace.
pub fn members(tree: &Tree) -> Vec<String> {
    let text = tree.text(ROOT).unwrap_or_default();
    let inside = text.lines().skip_while(|line| !line.starts_with("members")).skip(1);
    inside
        .take_while(|line| !line.starts_with(']'))
        .filter_map(|line| line.trim().trim_end_matches(',').strip_prefix('"')?.strip_suffix('"'))
        .map(String::from)
        .collect()
}

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let Ok(text) = tree.text(ROOT) else {
        findings.push(Finding::new(ROOT, 0, "missing"));
        return;
    };
    let manifests: Vec<(String, &str)> = members(tree)
        .into_iter()
        .map(|member| format!("{member}/Cargo.toml"))
        .filter_map(|path| tree.text(&path).ok().map(|text| (path, text)))
        .collect();
    let used: Vec<&str> =
        manifests.iter().flat_map(|(_, text)| dependencies(text)).map(|entry| entry.name).collect();

    for Entry { line, name, text: entry, .. } in dependencies(text) {
        if entry.contains("path =") {
            continue;
        }
        if !explained(text, line) {
            let message = format!("{name}: write in a line above it why it is needed");
            findings.push(Finding::new(ROOT, line, message));
        }
        if !used.contains(&name) {
            findings.push(Finding::new(ROOT, line, format!("{name} is used by no crate")));
        }
    }
    for (path, text) in &manifests {
        for Entry { line, name, text: entry, .. } in dependencies(text) {
            if !entry.contains("workspace") {
                let message = format!("{name}: pin it in the workspace's manifest");
                findings.push(Finding::new(path, line, message));
            }
        }
    }
}

/// An entry of a dependency table.
pub(super) struct Entry<'a> {
    pub line: usize,
    pub name: &'a str,
    pub text: &'a str,
    /// True if only the crate's own tests and benches use the dependency.
    pub dev: bool,
}

/// All entries of the dependency tables of a manifest.
pub(super) fn dependencies(manifest: &str) -> impl Iterator<Item = Entry<'_>> {
    let (mut inside, mut dev) = (false, false);
    (1..).zip(manifest.lines()).filter_map(move |(line, text)| {
        if text.starts_with('[') {
            inside = text.trim_end().ends_with("dependencies]");
            dev = text.contains("dev-dependencies");
            return None;
        }
        let (name, _) = text.split_once('=')?;
        let name = name.trim().trim_end_matches(".workspace");
        let plain = !name.is_empty() && !name.starts_with('#');
        (inside && plain).then_some(Entry { line, name, text, dev })
    })
}

/// True if a comment is above the line; only entries of the same group may be between them.
fn explained(text: &str, number: usize) -> bool {
    let above: Vec<&str> = text.lines().take(number.saturating_sub(1)).collect();
    above.iter().rev().take_while(|line| !line.trim().is_empty()).any(|line| line.starts_with('#'))
}
