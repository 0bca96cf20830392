//! Checks the lock files outside of the workspace, for example of fuzzers and of the Python
//! package. These lock files must list the dependencies of the workspace's crates. Otherwise a
//! build with `--locked` fails, but a build of the workspace does not show the problem.

use std::collections::BTreeMap;

use super::{
    Finding,
    manifest::{self, Entry},
};
use crate::tree::Tree;

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let manifests: BTreeMap<&str, &str> = manifest::members(tree)
        .into_iter()
        .filter_map(|member| tree.text(&format!("{member}/Cargo.toml")).ok())
        .filter_map(|text| Some((named("name", text)?, text)))
        .collect();
    let version = tree.text("Cargo.toml").ok().and_then(|root| named("version", root));
    for (path, text) in tree.ending(&["/Cargo.lock"]) {
        let folder = path.trim_end_matches("/Cargo.lock");
        let mut found = |what: String| {
            let message = format!("{what}: run cargo update --workspace in {folder}");
            findings.push(Finding::new(path, 0, message));
        };
        for package in text.split("[[package]]").skip(1) {
            let Some(name) = named("name", package) else { continue };
            let Some(manifest) = manifests.get(name) else { continue };
            if version.is_some() && named("version", package) != version {
                found(format!("{name} has another version"));
            }
            let entries: Vec<Entry<'_>> =
                manifest::dependencies(manifest).filter(|entry| !entry.dev).collect();
            let listed: Vec<&str> = listed(package).collect();
            for entry in entries.iter().filter(|entry| !entry.text.contains("optional")) {
                if !listed.contains(&entry.name) {
                    found(format!("{name} depends on {}", entry.name));
                }
            }
            for gone in listed.iter().filter(|one| entries.iter().all(|entry| entry.name != **one))
            {
                found(format!("{name} does not depend on {gone}"));
            }
        }
    }
}

/// The value of the first line `key = "…"` in a text.
fn named<'a>(key: &str, text: &'a str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"');
    text.lines().find_map(value)
}

/// The dependencies of a package in a lock file. If the file has several versions of a dependency,
/// its entry has the version after a space.
fn listed(package: &str) -> impl Iterator<Item = &str> {
    let names = package.lines().filter_map(|line| line.strip_prefix(" \"")?.strip_suffix("\","));
    names.filter_map(|name| name.split(' ').next())
}
