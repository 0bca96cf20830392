//! The snapshot of the advisory database: `advisories.toml`.

use std::{collections::BTreeSet, fmt::Write};

use semver::Version;
use serde::{Deserialize, Serialize};

use super::range::Range;

/// The file of the snapshot.
pub const PATH: &str = "visor/xtask/supply/advisories.toml";

const HEADER: &str = "\
# Advisories of the RustSec advisory database about packages in the lock files of this repository.
# Data by the RustSec project and its contributors, in the public domain (CC0-1.0); an entry with
# another `licence` was adapted from the GitHub Advisory Database (CC-BY-4.0). Withdrawn advisories are
# left out. docs/supply-chain.md says how to renew this file and how far to trust it.
";

const LINE_CHARACTERS_MAX: usize = 100;

/// The advisories, and the packages that were looked up.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// The date of the newest state of the database in this snapshot.
    pub date: String,
    /// Where the advisories come from.
    pub source: String,
    /// The names of the packages that were looked up, with spaces between the names.
    packages: String,
    /// The advisories, by package and id.
    #[serde(default, rename = "advisory")]
    pub advisories: Vec<Advisory>,
}

/// An advisory.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Advisory {
    /// `RUSTSEC-YEAR-NUMBER`.
    pub id: String,
    /// The affected package.
    pub package: String,
    /// The kind of fault.
    pub kind: AdvisoryKind,
    /// The day of the report.
    pub date: String,
    /// The fault in one line.
    pub title: String,
    /// The versions with a fix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patched: Vec<Range>,
    /// The versions before the fault.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unaffected: Vec<Range>,
    /// The licence of the text, if other than CC0-1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
}

/// What an advisory reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AdvisoryKind {
    /// A fault that an attacker can use.
    Vulnerability,
    /// A package without maintainer.
    Unmaintained,
    /// Safe code can cause undefined behaviour.
    Unsound,
    /// Any other remark.
    Notice,
}

impl AdvisoryKind {
    /// The name as in the snapshot.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vulnerability => "vulnerability",
            Self::Unmaintained => "unmaintained",
            Self::Unsound => "unsound",
            Self::Notice => "notice",
        }
    }
}

impl Advisory {
    /// Whether a version of the package has the fault.
    pub fn affects(&self, version: &Version) -> bool {
        !self.patched.iter().chain(&self.unaffected).any(|range| range.contains(version))
    }
}

impl Snapshot {
    /// A snapshot of the state of the database on a day.
    pub fn new(
        date: String,
        source: String,
        packages: &BTreeSet<&str>,
        advisories: Vec<Advisory>,
    ) -> Self {
        let packages: Vec<&str> = packages.iter().copied().collect();
        Self { date, source, packages: packages.join(" "), advisories }
    }

    /// Reads the file.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| format!("{PATH}: {error}"))
    }

    /// The packages that were looked up.
    pub fn packages(&self) -> BTreeSet<&str> {
        self.packages.split_whitespace().collect()
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        let mut text = HEADER.to_string();
        let _ =
            write!(text, "date = {:?}\nsource = {:?}\npackages = \"\"\"", self.date, self.source);
        let mut column = LINE_CHARACTERS_MAX;
        for name in self.packages() {
            let separator = if column + name.len() >= LINE_CHARACTERS_MAX { '\n' } else { ' ' };
            column = if separator == '\n' { 0 } else { column + 1 } + name.len();
            text.push(separator);
            text.push_str(name);
        }
        text.push_str("\n\"\"\"\n");
        for advisory in &self.advisories {
            text.push_str("\n[[advisory]]\n");
            text.push_str(&toml::to_string(advisory).unwrap_or_default());
        }
        text
    }
}
