//! Lock files beside the workspace's (of fuzzers, the Python package, …) know what its crates depend on: what is
//! built with `--locked` stops at once if they do not, and nothing of the workspace's own build tells.

use std::collections::BTreeMap;

use super::{Finding, manifest};
use crate::tree::Tree;

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let manifests: BTreeMap<&str, &str> = manifest::members(tree)
        .into_iter()
        .filter_map(|member| tree.text(&format!("{member}/Cargo.toml")).ok())
        .filter_map(|text| Some((named(text.lines())?, text)))
        .collect();
    for (path, text) in tree.ending(&["/Cargo.lock"]) {
        for package in text.split("[[package]]").skip(1) {
            let Some(manifest) = named(package.lines()).and_then(|name| manifests.get(name)) else {
                continue;
            };
            let lacks = manifest::dependencies(manifest)
                .filter(|entry| !entry.dev && !entry.text.contains("optional"))
                .map(|entry| entry.name)
                .filter(|name| !lists(package, name));
            for name in lacks {
                let folder = path.trim_end_matches("/Cargo.lock");
                let message = format!(
                    "{} depends on {name}: run cargo update --workspace in {folder}",
                    named(package.lines()).unwrap_or_default()
                );
                findings.push(Finding::new(path, 0, message));
            }
        }
    }
}

/// The value of the first `name = "…"`.
fn named<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    lines.find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
}

/// Whether a package of a lock file lists a dependency; two versions of one name are told apart behind a space.
fn lists(package: &str, name: &str) -> bool {
    package.lines().any(|line| {
        line.strip_prefix(" \"")
            .and_then(|line| line.strip_prefix(name))
            .is_some_and(|rest| rest.starts_with(['"', ' ']))
    })
}
