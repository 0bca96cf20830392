//! Checks the licence of each package against the list in the policy.

use spdx::{Expression, ParseMode};

use super::{
    Id, LOCK,
    binary::Binary,
    policy::{self, Policy, Scope},
};
use crate::tidy::Finding;

/// Checks all packages; packages of tests may have more licences.
pub fn check(binary: &Binary, policy: &Policy, findings: &mut Vec<Finding>) {
    for (ids, scope) in [
        (binary.shipped().collect::<Vec<_>>(), Scope::All),
        (binary.tests().collect::<Vec<_>>(), Scope::Tests),
    ] {
        for id in ids {
            let licence = binary.facts.get(id).and_then(|facts| facts.licence.as_deref());
            if let Err(message) = judge(id, licence, scope, policy) {
                findings.push(Finding::new(LOCK, 0, message));
            }
        }
    }
    for exception in &policy.exception {
        if !binary.facts.keys().any(|id| id.name == exception.package) {
            let message =
                format!("exception for {}: no such package; delete the entry", exception.package);
            findings.push(Finding::new(policy::PATH, 0, message));
        }
    }
}

/// Judges the licence of a package.
pub fn judge(id: &Id, licence: Option<&str>, scope: Scope, policy: &Policy) -> Result<(), String> {
    let place = match scope {
        Scope::All => "in the binary",
        Scope::Tests => "in tests",
    };
    let Some(licence) = licence else {
        return Err(format!(
            "{id} states no licence. Read the files of the package: if a file grants a licence of the list in \
             {}, add an [[exception]] with the name of the licence; otherwise remove the package",
            policy::PATH
        ));
    };
    let expression = parse(licence).map_err(|error| {
        format!(
            "{id}: {licence:?} is no SPDX expression: {error}. Read the licence of the package, and add an \
             [[exception]] to {}, or remove the package",
            policy::PATH
        )
    })?;
    let allowed = |licence: &str| {
        let listed = policy
            .licence
            .iter()
            .filter(|one| one.scope == Scope::All || scope == Scope::Tests)
            .any(|one| one.id == licence);
        let excepted =
            policy.exception.iter().any(|one| one.package == id.name && one.licence == licence);
        listed || excepted
    };
    if expression.evaluate(|one| allowed(&one.to_string())) {
        return Ok(());
    }
    let refused: Vec<String> = expression
        .requirements()
        .map(|one| one.req.to_string())
        .filter(|licence| !allowed(licence))
        .collect();
    Err(format!(
        "{id} has the licence {licence:?}: {} is not allowed {place}. If the conditions of the licence can be kept, \
         add the licence to {} with a reason ([[exception]] for this package alone); otherwise remove the package",
        refused.join(", "),
        policy::PATH
    ))
}

/// Reads an SPDX expression. Old packages write `MIT/Apache-2.0`, where the slash means OR.
fn parse(licence: &str) -> Result<Expression, String> {
    let mode = ParseMode { allow_slash_as_or_operator: true, ..ParseMode::STRICT };
    Expression::parse_mode(licence, mode).map_err(|error| error.reason.to_string())
}

/// The expression in the present form of SPDX, for the bill of materials.
pub fn canonical(licence: &str) -> Result<String, String> {
    let canonical = Expression::canonicalize(licence).map_err(|error| error.reason.to_string())?;
    Ok(canonical.unwrap_or_else(|| licence.to_string()))
}
