//! The workspace manifest: every dependency once, with its reason, and used.

use super::Finding;
use crate::tree::Tree;

const ROOT: &str = "Cargo.toml";

/// Folders of the workspace's crates.
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
    let used: Vec<&str> = manifests
        .iter()
        .flat_map(|(_, text)| dependencies(text))
        .map(|(_, name, _)| name)
        .collect();

    for (number, name, line) in dependencies(text) {
        if line.contains("path =") {
            continue;
        }
        if !explained(text, number) {
            let message = format!("{name}: write in a line above it why it is needed");
            findings.push(Finding::new(ROOT, number, message));
        }
        if !used.contains(&name) {
            findings.push(Finding::new(ROOT, number, format!("{name} is used by no crate")));
        }
    }
    for (path, text) in &manifests {
        for (number, name, line) in dependencies(text) {
            if !line.contains("workspace") {
                let message = format!("{name}: pin it in the workspace's manifest");
                findings.push(Finding::new(path, number, message));
            }
        }
    }
}

/// (line, name, text) of every entry of a dependency table.
fn dependencies(text: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    let mut inside = false;
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        if line.starts_with('[') {
            inside = line.trim_end().ends_with("dependencies]");
            return None;
        }
        let (name, _) = line.split_once('=')?;
        let name = name.trim().trim_end_matches(".workspace");
        let plain = !name.is_empty() && !name.starts_with('#');
        (inside && plain).then_some((number, name, line))
    })
}

/// Whether a comment stands above the line, with only other entries in between.
fn explained(text: &str, number: usize) -> bool {
    let above: Vec<&str> = text.lines().take(number.saturating_sub(1)).collect();
    above.iter().rev().take_while(|line| !line.trim().is_empty()).any(|line| line.starts_with('#'))
}
