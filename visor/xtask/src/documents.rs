//! Checks hand-written documents against the code.

use std::collections::BTreeSet;

use crate::{
    generate,
    tidy::{Finding, members},
    tree::Tree,
};

const ARCHITECTURE: &str = "docs/ARCHITECTURE.md";
const ARCHITECTURE_LINES_MAX: usize = 500;
const GUARANTEES: &str = "docs/guarantees.md";
const REGISTRY: &str = "storage/model/src/invariant.rs";
const CREATE_TABLE: &str = "docs/sql/create-table.md";
const OPTIONS: &str = "visor/core/src/catalog/option.rs";
const PAGES_OF_PATHS: [&str; 2] = ["docs/recipes.md", "CONTRIBUTING.md"];

/// Runs all checks of documents.
pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let checks = [architecture, guarantees, tests_named, options, links, paths];
    for check in checks {
        if let Err(message) = check(tree, findings) {
            findings.push(Finding::new("docs", 0, message));
        }
    }
}

/// Checks that docs/ARCHITECTURE.md is not too long, and mentions every crate.
fn architecture(tree: &Tree, findings: &mut Vec<Finding>) -> Result<(), String> {
    let page = tree.text(ARCHITECTURE)?;
    let lines = page.lines().count();
    if lines > ARCHITECTURE_LINES_MAX {
        let message = format!("{lines} lines; {ARCHITECTURE_LINES_MAX} is the most");
        findings.push(Finding::new(ARCHITECTURE, 0, message));
    }
    for folder in members(tree).iter().filter(|folder| !page.contains(&format!("`{folder}`"))) {
        findings.push(Finding::new(ARCHITECTURE, 0, format!("does not describe `{folder}`")));
    }
    Ok(())
}

/// Checks that docs/guarantees.md has a section with the same text for every promise in the code.
fn guarantees(tree: &Tree, findings: &mut Vec<Finding>) -> Result<(), String> {
    let (registry, page) = (tree.text(REGISTRY)?, tree.text(GUARANTEES)?);
    let promises = generate::promises(registry);
    if promises.is_empty() {
        return Err(format!("{REGISTRY}: no promises found"));
    }
    for (number, text) in promises {
        if !page.lines().any(|line| line.starts_with(&format!("## CL-{number}"))) {
            findings.push(Finding::new(GUARANTEES, 0, format!("lacks a section ## CL-{number}")));
        }
        if !page.contains(&text) {
            let message = format!("CL-{number} does not say, as the registry does: {text}");
            findings.push(Finding::new(GUARANTEES, 0, message));
        }
    }
    Ok(())
}

/// Checks that all tests cited by docs/guarantees.md exist: each `name` after `- Tests:` must be a
/// function or a file.
fn tests_named(tree: &Tree, findings: &mut Vec<Finding>) -> Result<(), String> {
    let page = tree.text(GUARANTEES)?;
    let code: Vec<&str> = tree.ending(&[".rs", ".py"]).map(|(_, text)| text).collect();
    let mut inside = false;
    for (number, line) in (1..).zip(page.lines()) {
        inside = line.starts_with("- Tests:") || inside && line.starts_with("  ");
        if !inside {
            continue;
        }
        for name in line.split('`').skip(1).step_by(2) {
            let known = tree.root.join(name).exists()
                || tree.files.contains_key(name)
                || code.iter().any(|text| {
                    text.contains(&format!("fn {name}(")) || text.contains(&format!("def {name}("))
                });
            if !known {
                findings.push(Finding::new(GUARANTEES, number, format!("no test `{name}`")));
            }
        }
    }
    Ok(())
}

/// Checks that docs/sql/create-table.md describes every option of CREATE TABLE.
fn options(tree: &Tree, findings: &mut Vec<Finding>) -> Result<(), String> {
    let (code, page) = (tree.text(OPTIONS)?, tree.text(CREATE_TABLE)?);
    let lists = code.split("pub const OPTIONS").skip(1).filter_map(|rest| rest.split_once("];"));
    let names: Vec<&str> = lists.flat_map(|(list, _)| list.split('"').skip(1).step_by(2)).collect();
    if names.is_empty() {
        return Err(format!("{OPTIONS}: no options found"));
    }
    for name in names.iter().filter(|name| !page.contains(&format!("`{name}`"))) {
        findings.push(Finding::new(CREATE_TABLE, 0, format!("does not describe option `{name}`")));
    }
    Ok(())
}

/// Checks that the targets of links between documents exist.
fn links(tree: &Tree, findings: &mut Vec<Finding>) -> Result<(), String> {
    for (path, text) in tree.ending(&[".md"]) {
        for (number, line) in (1..).zip(text.lines()) {
            for rest in line.split("](").skip(1) {
                let Some((target, _)) = rest.split_once(')') else { continue };
                let target = target.split('#').next().unwrap_or_default();
                if target.is_empty() || target.contains("://") {
                    continue;
                }
                let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                if !exists(tree, &joined(folder, target)) {
                    let message = format!("link to {target}, which does not exist");
                    findings.push(Finding::new(path, number, message));
                }
            }
        }
    }
    Ok(())
}

/// Checks that the paths in the documents exist. Paths are `code` spans that begin with a top-level
/// folder.
fn paths(tree: &Tree, findings: &mut Vec<Finding>) -> Result<(), String> {
    let folders: BTreeSet<&str> =
        tree.files.keys().filter_map(|path| Some(path.split_once('/')?.0)).collect();
    for page in PAGES_OF_PATHS {
        for (number, line) in (1..).zip(tree.text(page)?.lines()) {
            for span in line.split('`').skip(1).step_by(2) {
                let path = span.split(' ').next().unwrap_or_default();
                let is_path =
                    path.split_once('/').is_some_and(|(folder, _)| folders.contains(folder));
                if is_path && !exists(tree, path) {
                    let message = format!("names {path}, which does not exist");
                    findings.push(Finding::new(page, number, message));
                }
            }
        }
    }
    Ok(())
}

/// The path `target`, which is relative to `folder`, as a path from the root.
fn joined(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

fn exists(tree: &Tree, path: &str) -> bool {
    tree.files.contains_key(path) || tree.root.join(path).exists()
}

#[cfg(test)]
mod tests;
