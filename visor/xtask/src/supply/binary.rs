//! The packages of the binary and of the tests, as Cargo resolves the features.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use serde_json::Value;

use super::{lockfile::Id, policy::Policy};

/// The dependencies of each package.
pub type Edges = BTreeMap<Id, BTreeSet<Id>>;

/// The packages of the workspace on the platform of the binary.
#[derive(Debug, Default)]
pub struct Binary {
    /// The package of the binary.
    pub root: Option<Id>,
    /// The packages that the build of the binary needs, with the edges between the packages.
    pub edges: Edges,
    /// The packages whose code is in the binary. The others run during the build only.
    pub linked: BTreeSet<Id>,
    /// All packages, also for tests.
    pub facts: BTreeMap<Id, Facts>,
}

/// The statements of a package about itself.
#[derive(Debug, Default, Clone)]
pub struct Facts {
    /// The SPDX expression.
    pub licence: Option<String>,
    /// The description in one sentence or two.
    pub description: Option<String>,
    /// Crates of this repository.
    pub own: bool,
}

impl Binary {
    /// Asks Cargo.
    pub fn ask_cargo(root: &Path, policy: &Policy) -> Result<Self, String> {
        let metadata =
            ["metadata", "--format-version", "1", "--locked", "--filter-platform", &policy.target];
        let facts = facts(&cargo(root, &metadata)?)?;
        let tree = |edges: &str| {
            let package = ["tree", "--locked", "--package", &policy.binary, "--target"];
            let format = ["--edges", edges, "--prefix", "depth", "--format", "{p}"];
            let arguments: Vec<&str> =
                package.into_iter().chain([policy.target.as_str()]).chain(format).collect();
            parse_tree(&cargo(root, &arguments)?)
        };
        let (binary, edges) = tree("normal,build")?;
        let (_, linked) = tree("normal,no-proc-macro")?;
        Ok(Self { root: Some(binary), edges, linked: linked.into_keys().collect(), facts })
    }

    /// The packages that the build of the binary needs.
    pub fn shipped(&self) -> impl Iterator<Item = &Id> {
        self.edges.keys()
    }

    /// The packages that only tests and tools need.
    pub fn tests(&self) -> impl Iterator<Item = &Id> {
        self.facts.keys().filter(|id| !self.edges.contains_key(id))
    }
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let name = format!("cargo {}", arguments.first().unwrap_or(&""));
    let output = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_string()))
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| format!("{name}: {error}; is Cargo in the PATH?"))?;
    if !output.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim_end()));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{name}: {error}"))
}

/// Reads the packages of `cargo metadata`.
fn facts(text: &str) -> Result<BTreeMap<Id, Facts>, String> {
    let metadata: Value =
        serde_json::from_str(text).map_err(|error| format!("cargo metadata: {error}"))?;
    let field =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(String::from);
    let mut facts = BTreeMap::new();
    for package in metadata.get("packages").and_then(Value::as_array).into_iter().flatten() {
        let (Some(name), Some(version)) = (field(package, "name"), field(package, "version"))
        else {
            return Err("cargo metadata: a package without name or version".to_string());
        };
        let one = Facts {
            licence: field(package, "license").filter(|licence| !licence.trim().is_empty()),
            description: field(package, "description"),
            own: package.get("source").is_none_or(Value::is_null),
        };
        facts.insert(Id::new(&name, &version)?, one);
    }
    Ok(facts)
}

/// Reads `cargo tree --prefix depth --format {p}`: the root, and the edges.
///
/// ```text
/// 0stratalog v0.1.0 (/folder)
/// 1arrow v59.3.2
/// 2ahash v0.8.12
/// 1ahash v0.8.12 (*)             its dependencies are listed above
/// ```
pub fn parse_tree(text: &str) -> Result<(Id, Edges), String> {
    let mut edges = Edges::new();
    let mut path: Vec<Id> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let fault = || format!("cargo tree: cannot read the line {line:?}");
        let digits = line.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(fault)?;
        let (depth, package) = line.split_at(digits);
        let depth: usize = depth.parse().map_err(|_| fault())?;
        let mut words = package.split(' ');
        let name = words.next().ok_or_else(fault)?;
        let version = words.next().and_then(|word| word.strip_prefix('v')).ok_or_else(fault)?;
        let id = Id::new(name, version)?;
        if depth > path.len() {
            return Err(fault());
        }
        path.truncate(depth);
        if let Some(parent) = path.last() {
            edges.entry(parent.clone()).or_default().insert(id.clone());
        }
        edges.entry(id.clone()).or_default();
        path.push(id);
    }
    let root = path.into_iter().next().ok_or("cargo tree: no packages")?;
    Ok((root, edges))
}
