//! The supply chain: licences, advisories and duplicates of packages, and the bill of materials.
//!
//! Two files decide. `policy.toml` holds the project's decisions, each with a reason.
//! `advisories.toml` is a snapshot of the RustSec advisory database.
//!
//! *Data path*: lock files, `cargo metadata` and `cargo tree` ─► one check after the other ─► findings.

mod advisories;
mod binary;
mod date;
mod duplicates;
mod licences;
mod lockfile;
mod policy;
mod range;
mod renew;
mod sbom;
mod snapshot;

use std::path::Path;

use crate::{tidy::Finding, tree::Tree};
use binary::Binary;
use date::Date;
use lockfile::{Id, Lockfile};
use policy::Policy;
use snapshot::Snapshot;

/// The lock file of the workspace; the binary is built from this file.
const LOCK: &str = "Cargo.lock";

/// All decisions of the project, with the state of the packages.
struct Supply {
    policy: Policy,
    snapshot: Snapshot,
    /// The lock files of the repository, by their paths.
    locks: Vec<(String, Lockfile)>,
    binary: Binary,
}

impl Supply {
    fn open(tree: &Tree) -> Result<Self, String> {
        let policy = Policy::parse(tree.text(policy::PATH)?)?;
        let snapshot = Snapshot::parse(tree.text(snapshot::PATH)?)?;
        let locks = locks(tree)?;
        let binary = Binary::ask_cargo(&tree.root, &policy)?;
        Ok(Self { policy, snapshot, locks, binary })
    }

    /// The lock file of the workspace.
    fn lock(&self) -> Result<&Lockfile, String> {
        let lock = self.locks.iter().find(|(path, _)| path == LOCK);
        lock.map(|(_, lock)| lock).ok_or_else(|| format!("{LOCK} is missing: run cargo metadata"))
    }
}

/// Checks licences, advisories and duplicates.
pub fn check(tree: &Tree) -> Result<String, String> {
    let supply = Supply::open(tree)?;
    let (mut findings, mut warnings) = (Vec::new(), Vec::new());
    licences::check(&supply.binary, &supply.policy, &mut findings);
    duplicates::check(&supply.binary, &supply.policy, &mut findings);
    advisories::check(
        &supply.locks,
        &supply.snapshot,
        &supply.policy,
        Date::today()?,
        &mut findings,
        &mut warnings,
    );
    for warning in &warnings {
        println!("warning: {warning}");
    }
    findings.sort();
    if findings.is_empty() {
        return Ok(format!(
            "supply: {} packages in the binary, {} for tests, {} advisories of {}: nothing to mend, {} to look at",
            supply.binary.shipped().count(),
            supply.binary.tests().count(),
            supply.snapshot.advisories.len(),
            supply.snapshot.date,
            warnings.len()
        ));
    }
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    Err(format!("{}\nsupply: {} to mend", lines.join("\n"), lines.len()))
}

/// Writes the bill of materials to a file, or returns the text without a file.
pub fn sbom(tree: &Tree, file: Option<&str>) -> Result<String, String> {
    let supply = Supply::open(tree)?;
    let text = sbom::text(&supply, std::env::var("SOURCE_DATE_EPOCH").ok().as_deref())?;
    let Some(file) = file else { return Ok(text.trim_end().to_string()) };
    std::fs::write(file, &text)
        .map_err(|error| format!("cannot write {file}: {error}; give the path of another file"))?;
    Ok(format!("sbom: {} packages in {file}", supply.binary.shipped().count()))
}

/// Makes the snapshot anew from a clone of the advisory database.
pub fn renew(tree: &Tree, database: &str) -> Result<String, String> {
    let locks = locks(tree)?;
    let snapshot = renew::read(Path::new(database), &locks)?;
    let path = tree.root.join(snapshot::PATH);
    std::fs::write(&path, snapshot.text())
        .map_err(|error| format!("cannot write {}: {error}", snapshot::PATH))?;
    Ok(format!(
        "advisories: {} of {} in {}; now run cargo run -p xtask -- supply",
        snapshot.advisories.len(),
        snapshot.date,
        snapshot::PATH
    ))
}

/// Every lock file of the repository.
fn locks(tree: &Tree) -> Result<Vec<(String, Lockfile)>, String> {
    tree.ending(&[LOCK])
        .map(|(path, text)| Ok((path.to_string(), Lockfile::parse(path, text)?)))
        .collect()
}

#[cfg(test)]
mod tests;
