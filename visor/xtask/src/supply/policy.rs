//! The decisions of the project about packages.

use serde::Deserialize;

/// The file of the decisions.
pub const PATH: &str = "visor/xtask/supply/policy.toml";

/// The decisions, each with a reason.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The package of the binary.
    pub binary: String,
    /// The platform of the binary.
    pub target: String,
    /// The allowed licences.
    #[serde(default)]
    pub licence: Vec<Licence>,
    /// Licences of single packages.
    #[serde(default)]
    pub exception: Vec<Exception>,
    /// Known advisories.
    #[serde(default)]
    pub accepted: Vec<Accepted>,
    /// Packages in several versions.
    #[serde(default)]
    pub duplicate: Vec<Duplicate>,
}

/// A licence that packages may have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Licence {
    /// The SPDX id, with the exception after `WITH`.
    pub id: String,
    /// The packages that may have the licence.
    #[serde(default)]
    pub scope: Scope,
    /// Why the conditions can be kept.
    pub reason: String,
}

/// The packages that a decision is for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// All packages.
    #[default]
    All,
    /// Packages that only tests and tools use, and nobody receives.
    Tests,
}

/// A licence of a single package.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exception {
    /// The name of the package.
    pub package: String,
    /// The SPDX id.
    pub licence: String,
    /// Why this package may have the licence.
    pub reason: String,
}

/// An advisory that the project knows and lives with.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accepted {
    /// The id, `RUSTSEC-YEAR-NUMBER`.
    pub advisory: String,
    /// The affected package.
    pub package: String,
    /// The only package through which the package gets into the lock files.
    pub brought_by: String,
    /// The last day of the acceptance; a vulnerability needs a last day.
    pub until: Option<String>,
    /// Why the risk is bearable, and what ends the acceptance.
    pub reason: String,
}

/// A package that the binary contains in several versions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Duplicate {
    /// The name of the package.
    pub package: String,
    /// The leading parts of the versions, up to the part that breaks compatibility: `0.22`, `3`.
    pub versions: Vec<String>,
    /// The packages that need each version.
    pub reason: String,
}

impl Policy {
    /// Reads the file, and refuses entries without a reason.
    pub fn parse(text: &str) -> Result<Self, String> {
        let policy: Self = toml::from_str(text).map_err(|error| format!("{PATH}: {error}"))?;
        let reasons = policy.licence.iter().map(|one| (&one.id, &one.reason));
        let reasons = reasons
            .chain(policy.exception.iter().map(|one| (&one.package, &one.reason)))
            .chain(policy.accepted.iter().map(|one| (&one.advisory, &one.reason)))
            .chain(policy.duplicate.iter().map(|one| (&one.package, &one.reason)));
        for (subject, reason) in reasons {
            if reason.trim().is_empty() {
                return Err(format!("{PATH}: {subject} has no reason: write the reason"));
            }
        }
        Ok(policy)
    }
}
