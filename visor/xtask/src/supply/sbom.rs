//! The bill of materials of the binary, in CycloneDX 1.5.
//!
//! The text depends on the lock file, the manifests and the policy only: the same commit gives the
//! same bytes. A time is part of the text if `SOURCE_DATE_EPOCH` is set.

use serde::Serialize;

use super::{
    Supply, advisories,
    date::Date,
    licences::canonical,
    lockfile::{Id, Lockfile},
    snapshot::{Advisory, AdvisoryKind},
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bom {
    bom_format: &'static str,
    spec_version: &'static str,
    version: u32,
    metadata: Metadata,
    components: Vec<Component>,
    dependencies: Vec<Dependency>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    vulnerabilities: Vec<Vulnerability>,
}

#[derive(Serialize)]
struct Metadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
    tools: Tools,
    component: Component,
    properties: Vec<Property>,
}

#[derive(Serialize)]
struct Tools {
    components: Vec<Tool>,
}

#[derive(Serialize)]
struct Tool {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct Component {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(rename = "bom-ref")]
    reference: String,
    name: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    scope: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hashes: Vec<Hash>,
    licenses: Vec<LicenceExpression>,
    #[serde(skip_serializing_if = "Option::is_none")]
    purl: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    properties: Vec<Property>,
}

#[derive(Serialize)]
struct Hash {
    alg: &'static str,
    content: String,
}

#[derive(Serialize)]
struct LicenceExpression {
    expression: String,
}

#[derive(Serialize)]
struct Property {
    name: &'static str,
    value: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Dependency {
    #[serde(rename = "ref")]
    reference: String,
    depends_on: Vec<String>,
}

#[derive(Serialize)]
struct Vulnerability {
    #[serde(rename = "bom-ref")]
    reference: String,
    id: String,
    source: Source,
    description: String,
    analysis: Analysis,
    affects: Vec<Affected>,
}

#[derive(Serialize)]
struct Source {
    name: &'static str,
}

#[derive(Serialize)]
struct Analysis {
    state: &'static str,
    detail: String,
}

#[derive(Serialize)]
struct Affected {
    #[serde(rename = "ref")]
    reference: String,
}

/// The bill as JSON. `epoch` is the value of `SOURCE_DATE_EPOCH`, in seconds.
pub fn text(supply: &Supply, epoch: Option<&str>) -> Result<String, String> {
    let lock = supply.lock()?;
    let root = supply.binary.root.as_ref().ok_or("cargo tree named no package of the binary")?;
    let component = |id: &Id| component(supply, lock, id);
    let mut main = component(root)?;
    main.kind = "application";
    let components: Vec<Component> = supply
        .binary
        .shipped()
        .filter(|id| *id != root)
        .map(component)
        .collect::<Result<_, _>>()?;
    let dependencies = supply
        .binary
        .edges
        .iter()
        .map(|(id, to)| Dependency {
            reference: reference(id),
            depends_on: to.iter().map(reference).collect(),
        })
        .collect();
    let tool = Tool { kind: "application", name: "xtask", version: env!("CARGO_PKG_VERSION") };
    let bom = Bom {
        bom_format: "CycloneDX",
        spec_version: "1.5",
        version: 1,
        metadata: Metadata {
            timestamp: epoch.map(timestamp).transpose()?,
            tools: Tools { components: vec![tool] },
            component: main,
            properties: vec![
                Property { name: "stratalog:target", value: supply.policy.target.clone() },
                Property { name: "stratalog:advisories", value: supply.snapshot.date.clone() },
            ],
        },
        components,
        dependencies,
        vulnerabilities: vulnerabilities(supply, lock),
    };
    let text = serde_json::to_string_pretty(&bom).map_err(|error| format!("sbom: {error}"))?;
    Ok(text + "\n")
}

fn component(supply: &Supply, lock: &Lockfile, id: &Id) -> Result<Component, String> {
    let facts = supply.binary.facts.get(id).cloned().unwrap_or_default();
    let licence = facts
        .licence
        .or_else(|| {
            let exception = supply.policy.exception.iter().find(|one| one.package == id.name);
            exception.map(|one| one.licence.clone())
        })
        .ok_or_else(|| format!("{id} states no licence: run cargo run -p xtask -- supply"))?;
    let expression = canonical(&licence).map_err(|error| format!("{id}: {licence:?}: {error}"))?;
    let hashes = lock.checksum(id).map(|sum| Hash { alg: "SHA-256", content: sum.to_string() });
    Ok(Component {
        kind: "library",
        reference: reference(id),
        name: id.name.clone(),
        version: id.version.to_string(),
        description: facts
            .description
            .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")),
        scope: if supply.binary.linked.contains(id) { "required" } else { "excluded" },
        hashes: hashes.into_iter().collect(),
        licenses: vec![LicenceExpression { expression }],
        // No registry has the crates of this repository.
        purl: (!facts.own).then(|| purl(id)),
        properties: properties(supply, lock, id, facts.own),
    })
}

/// The remarks about a package: why the binary keeps several versions, or a package with an advisory.
fn properties(supply: &Supply, lock: &Lockfile, id: &Id, own: bool) -> Vec<Property> {
    let mut properties = Vec::new();
    if own {
        properties.push(Property { name: "stratalog:own", value: "true".to_string() });
    }
    for one in supply.policy.duplicate.iter().filter(|one| one.package == id.name) {
        properties
            .push(Property { name: "stratalog:kept-in-versions", value: one.versions.join(", ") });
        properties.push(Property {
            name: "stratalog:kept-in-versions:reason",
            value: one.reason.clone(),
        });
    }
    for (advisory, reason) in accepted(supply, lock, id) {
        let value = format!("{} ({}): {}", advisory.id, advisory.kind.name(), advisory.title);
        properties.push(Property { name: "stratalog:advisory", value });
        properties.push(Property { name: "stratalog:advisory:reason", value: reason.to_string() });
    }
    for one in supply.policy.exception.iter().filter(|one| one.package == id.name) {
        properties.push(Property { name: "stratalog:licence:reason", value: one.reason.clone() });
    }
    properties
}

/// The advisories about a package, with the reasons of their acceptance.
fn accepted<'a>(
    supply: &'a Supply,
    lock: &'a Lockfile,
    id: &'a Id,
) -> impl Iterator<Item = (&'a Advisory, &'a str)> {
    advisories::affected(lock, &supply.snapshot).filter(move |(one, _)| *one == id).map(
        move |(_, advisory)| {
            let entry = supply.policy.accepted.iter().find(|one| advisories::covers(one, advisory));
            (advisory, entry.map_or("not judged yet", |one| one.reason.as_str()))
        },
    )
}

/// The vulnerabilities of the binary.
fn vulnerabilities(supply: &Supply, lock: &Lockfile) -> Vec<Vulnerability> {
    supply
        .binary
        .shipped()
        .flat_map(|id| {
            accepted(supply, lock, id).map(move |(advisory, reason)| (id, advisory, reason))
        })
        .filter(|(_, advisory, _)| advisory.kind == AdvisoryKind::Vulnerability)
        .map(|(id, advisory, reason)| Vulnerability {
            reference: format!("{}:{}", advisory.id, reference(id)),
            id: advisory.id.clone(),
            source: Source { name: "RustSec" },
            description: advisory.title.clone(),
            analysis: Analysis { state: "exploitable", detail: reason.to_string() },
            affects: vec![Affected { reference: reference(id) }],
        })
        .collect()
}

fn reference(id: &Id) -> String {
    format!("{}@{}", id.name, id.version)
}

/// The package URL. The plus sign of build metadata must be encoded.
fn purl(id: &Id) -> String {
    format!("pkg:cargo/{}@{}", id.name, id.version.to_string().replace('+', "%2B"))
}

fn timestamp(epoch: &str) -> Result<String, String> {
    let seconds: u64 = epoch.parse().map_err(|_| {
        format!("SOURCE_DATE_EPOCH is {epoch:?}, and must be a number of seconds since 1970")
    })?;
    let (hours, minutes) = (seconds / 3600 % 24, seconds / 60 % 60);
    Ok(format!("{}T{hours:02}:{minutes:02}:{:02}Z", Date::of_seconds(seconds), seconds % 60))
}
