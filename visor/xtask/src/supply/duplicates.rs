//! Checks that the policy gives a reason for each package with several versions in the binary.

use std::collections::{BTreeMap, BTreeSet};

use semver::Version;

use super::{LOCK, binary::Binary, policy, policy::Policy};
use crate::tidy::Finding;

/// Compares the duplicates with the list.
pub fn check(binary: &Binary, policy: &Policy, findings: &mut Vec<Finding>) {
    let found = duplicates(binary);
    for (name, lines) in &found {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let listed = policy.duplicate.iter().find(|one| one.package == *name);
        let same = listed.is_some_and(|one| {
            one.versions.iter().map(String::as_str).collect::<BTreeSet<_>>()
                == lines.iter().copied().collect()
        });
        if !same {
            let message = format!(
                "the binary contains {name} in the versions {}. Run cargo tree --package {} --invert {name}@VERSION \
                 for each version: update the package that needs the old version, or write a [[duplicate]] with \
                 these versions and the reason into {}",
                lines.join(" and "),
                policy.binary,
                policy::PATH
            );
            findings.push(Finding::new(LOCK, 0, message));
        }
    }
    for one in policy.duplicate.iter().filter(|one| !found.contains_key(one.package.as_str())) {
        let message =
            format!("{} occurs once in the binary: delete its [[duplicate]]", one.package);
        findings.push(Finding::new(policy::PATH, 0, message));
    }
}

/// The packages with several versions, and the lines of compatible versions.
fn duplicates(binary: &Binary) -> BTreeMap<&str, BTreeSet<String>> {
    let mut lines: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for id in binary.shipped() {
        lines.entry(&id.name).or_default().insert(line(&id.version));
    }
    lines.retain(|_, lines| lines.len() > 1);
    lines
}

/// The leading parts of a version, up to the part that breaks compatibility.
pub fn line(version: &Version) -> String {
    match (version.major, version.minor) {
        (0, 0) => format!("0.0.{}", version.patch),
        (0, minor) => format!("0.{minor}"),
        (major, _) => major.to_string(),
    }
}
