//! Reads a clone of the RustSec advisory database: `crates/NAME/RUSTSEC-YEAR-NUMBER.md`.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use serde::Deserialize;

use super::{
    lockfile::Lockfile,
    range::Range,
    snapshot::{Advisory, AdvisoryKind, Snapshot},
};

/// The front matter of an advisory. The database has more fields.
#[derive(Deserialize)]
struct Front {
    advisory: Head,
    #[serde(default)]
    versions: Versions,
}

#[derive(Deserialize)]
struct Head {
    id: String,
    package: String,
    date: String,
    informational: Option<AdvisoryKind>,
    withdrawn: Option<String>,
    license: Option<String>,
}

#[derive(Default, Deserialize)]
struct Versions {
    #[serde(default)]
    patched: Vec<Range>,
    #[serde(default)]
    unaffected: Vec<Range>,
}

/// The advisories about all packages of the lock files.
pub fn read(database: &Path, locks: &[(String, Lockfile)]) -> Result<Snapshot, String> {
    let folder = database.join("crates");
    if !folder.is_dir() {
        return Err(format!(
            "{} is no clone of the advisory database: the folder crates is missing. \
             Clone rustsec/advisory-db from GitHub, and give the path of the clone",
            database.display()
        ));
    }
    let packages: BTreeSet<&str> =
        locks.iter().flat_map(|(_, lock)| lock.foreign()).map(|id| id.name.as_str()).collect();
    let mut advisories = Vec::new();
    for package in &packages {
        for path in files(&folder.join(package)) {
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            let advisory = parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
            advisories.extend(advisory);
        }
    }
    advisories.sort_by(|left, right| (&left.package, &left.id).cmp(&(&right.package, &right.id)));
    let commit = git(database, "%H").ok_or("git log fails in the clone of the database")?;
    let date = git(database, "%cs").ok_or("git log fails in the clone of the database")?;
    let source = format!("RustSec advisory database, commit {commit}");
    Ok(Snapshot::new(date, source, &packages, advisories))
}

/// The files of a folder, by name; none if the folder does not exist.
fn files(folder: &Path) -> BTreeSet<std::path::PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension() == Some("md".as_ref()))
        .collect()
}

/// Reads an advisory: TOML between two fences, then a title in Markdown. `None` if the advisory
/// was withdrawn.
pub fn parse(text: &str) -> Result<Option<Advisory>, String> {
    let fault = "the file does not begin with ```toml; is the clone complete?";
    let (front, rest) = text
        .trim_start()
        .strip_prefix("```toml")
        .and_then(|t| t.split_once("\n```"))
        .ok_or(fault)?;
    let front: Front = toml::from_str(front).map_err(|error| error.to_string())?;
    let title = rest.lines().find_map(|line| line.strip_prefix("# ")).ok_or("no title")?;
    let Head { id, package, date, informational, withdrawn, license } = front.advisory;
    Ok(withdrawn.is_none().then(|| Advisory {
        id,
        package,
        kind: informational.unwrap_or(AdvisoryKind::Vulnerability),
        date,
        title: title.trim().to_string(),
        patched: front.versions.patched,
        unaffected: front.versions.unaffected,
        licence: license.filter(|licence| licence != "CC0-1.0"),
    }))
}

/// A field of the latest commit.
fn git(folder: &Path, field: &str) -> Option<String> {
    let output = Command::new("git")
        .args(["log", "-1", &format!("--format={field}")])
        .current_dir(folder)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_string();
    (output.status.success() && !text.is_empty()).then_some(text)
}
