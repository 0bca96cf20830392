//! Compares the lock files with the snapshot of advisories.

use super::{
    Date, Id, Lockfile, Snapshot,
    policy::{self, Accepted, Policy},
    snapshot::{self, Advisory, AdvisoryKind},
};
use crate::tidy::Finding;

/// The age of a snapshot without a warning.
const AGE_DAYS_MAX: i64 = 180;

/// The days before the end of an acceptance with a warning.
const END_DAYS_WARN: i64 = 30;

/// The names of packages in a warning.
const NAMES_MAX: usize = 8;

/// Checks every lock file.
pub fn check(
    locks: &[(String, Lockfile)],
    snapshot: &Snapshot,
    policy: &Policy,
    today: Date,
    findings: &mut Vec<Finding>,
    warnings: &mut Vec<Finding>,
) {
    for (path, lock) in locks {
        for (id, advisory) in affected(lock, snapshot) {
            let accepted = policy.accepted.iter().find(|one| covers(one, advisory));
            let (failure, warning) = match accepted {
                Some(accepted) => judge(id, advisory, accepted, lock, today),
                None => (Some(unknown(id, advisory)), None),
            };
            findings.extend(failure.map(|message| Finding::new(path, 0, message)));
            warnings.extend(warning.map(|message| Finding::new(path, 0, message)));
        }
    }
    for one in &policy.accepted {
        let used = locks
            .iter()
            .flat_map(|(_, lock)| affected(lock, snapshot))
            .any(|(_, advisory)| covers(one, advisory));
        if !used {
            let message = format!(
                "{} for {} is accepted, but no lock file is affected: delete the entry",
                one.advisory, one.package
            );
            findings.push(Finding::new(policy::PATH, 0, message));
        }
    }
    match Date::parse(&snapshot.date) {
        Ok(date) if today.days_since(date) > AGE_DAYS_MAX => {
            let message = format!(
                "the snapshot is {} days old, and shows no later advisory: renew it (docs/supply-chain.md)",
                today.days_since(date)
            );
            warnings.push(Finding::new(snapshot::PATH, 0, message));
        }
        Ok(_) => {}
        Err(message) => findings.push(Finding::new(snapshot::PATH, 0, message)),
    }
    warnings.extend(uncovered(locks, snapshot));
}

/// The packages of a lock file with an advisory about their version.
pub fn affected<'a>(
    lock: &'a Lockfile,
    snapshot: &'a Snapshot,
) -> impl Iterator<Item = (&'a Id, &'a Advisory)> {
    lock.foreign().flat_map(move |id| {
        let matching = move |one: &&Advisory| one.package == id.name && one.affects(&id.version);
        snapshot.advisories.iter().filter(matching).map(move |one| (id, one))
    })
}

/// Whether an entry of the policy is about an advisory.
pub fn covers(accepted: &Accepted, advisory: &Advisory) -> bool {
    accepted.advisory == advisory.id && accepted.package == advisory.package
}

/// The message about an advisory without an entry in the policy.
fn unknown(id: &Id, advisory: &Advisory) -> String {
    let patched: Vec<String> = advisory.patched.iter().map(ToString::to_string).collect();
    let fix = match patched.as_slice() {
        [] => "no version has a fix: replace the package".to_string(),
        ranges => format!(
            "a version with a fix is {}: cargo update --package {}",
            ranges.join(" or "),
            id.name
        ),
    };
    format!(
        "{id}: {} ({}): {}; {fix}. If the fix must wait, write an [[accepted]] with the reason into {}",
        advisory.id,
        advisory.kind.name(),
        advisory.title,
        policy::PATH
    )
}

/// The failure and the warning about an accepted advisory.
fn judge(
    id: &Id,
    advisory: &Advisory,
    accepted: &Accepted,
    lock: &Lockfile,
    today: Date,
) -> (Option<String>, Option<String>) {
    let name = format!("{id}: {} ({})", advisory.id, advisory.kind.name());
    if lock.reachable_without(&accepted.brought_by).contains(id) {
        let failure = format!(
            "{name} is accepted as a dependency of {} alone, but another package needs {} too: run cargo tree \
             --invert {}, and remove the other dependency",
            accepted.brought_by, id.name, id.name
        );
        return (Some(failure), None);
    }
    let Some(until) = accepted.until.as_deref() else {
        let failure = (advisory.kind == AdvisoryKind::Vulnerability).then(|| {
            format!(
                "{name} is accepted without an end: add until = \"YEAR-MONTH-DAY\" in {}",
                policy::PATH
            )
        });
        return (failure, None);
    };
    let days = match Date::parse(until) {
        Ok(date) => date.days_since(today),
        Err(message) => return (Some(format!("{name}: {message}")), None),
    };
    if days < 0 {
        let failure = format!(
            "{name} was accepted until {until}: update the package, or judge the risk anew and move the day in {}",
            policy::PATH
        );
        return (Some(failure), None);
    }
    let remark = if days <= END_DAYS_WARN { ": decide soon" } else { "" };
    let warning = format!("{name}: {}; accepted until {until}{remark}", advisory.title);
    (None, Some(warning))
}

/// The warning about packages that entered the lock files after the snapshot.
fn uncovered(locks: &[(String, Lockfile)], snapshot: &Snapshot) -> Option<Finding> {
    let covered = snapshot.packages();
    let mut names: Vec<&str> = locks
        .iter()
        .flat_map(|(_, lock)| lock.foreign())
        .map(|id| id.name.as_str())
        .filter(|name| !covered.contains(name))
        .collect();
    names.sort_unstable();
    names.dedup();
    let more = if names.len() > NAMES_MAX { ", …" } else { "" };
    let shown: Vec<&str> = names.iter().copied().take(NAMES_MAX).collect();
    (!names.is_empty()).then(|| {
        let message = format!(
            "{} packages are newer than the snapshot and were not looked up: {}{more}; renew it (docs/supply-chain.md)",
            names.len(),
            shown.join(", ")
        );
        Finding::new(snapshot::PATH, 0, message)
    })
}
