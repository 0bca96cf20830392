//! Lock files of Cargo.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use semver::Version;
use serde::Deserialize;

/// A package in one version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// The name in the registry.
    pub name: String,
    /// The exact version.
    pub version: Version,
}

impl Id {
    /// The package of a name and a version.
    pub fn new(name: &str, version: &str) -> Result<Self, String> {
        let parsed = Version::parse(version)
            .map_err(|error| format!("{name}: {version:?} is no version: {error}"))?;
        Ok(Self { name: name.to_string(), version: parsed })
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// The packages of a lock file.
#[derive(Debug, Default)]
pub struct Lockfile {
    packages: BTreeMap<Id, LockedPackage>,
}

/// The rest of the record of a package.
#[derive(Debug)]
struct LockedPackage {
    /// Crates of this repository have no registry.
    own: bool,
    /// The SHA-256 of the package's archive.
    checksum: Option<String>,
    dependencies: Vec<Id>,
}

/// A lock file as Cargo writes it.
#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    package: Vec<RawPackage>,
}

#[derive(Deserialize)]
struct RawPackage {
    name: String,
    version: String,
    source: Option<String>,
    checksum: Option<String>,
    #[serde(default)]
    dependencies: Vec<String>,
}

impl Lockfile {
    /// Reads the text of the file at `path`.
    pub fn parse(path: &str, text: &str) -> Result<Self, String> {
        let fault = |error: String| format!("{path}: {error}; let Cargo write the file anew");
        let raw: Raw = toml::from_str(text).map_err(|error| fault(error.to_string()))?;
        let ids: Vec<Id> = raw
            .package
            .iter()
            .map(|package| Id::new(&package.name, &package.version))
            .collect::<Result<_, _>>()
            .map_err(fault)?;
        let mut packages = BTreeMap::new();
        for (id, package) in ids.iter().zip(&raw.package) {
            let dependencies = package
                .dependencies
                .iter()
                .map(|text| dependency(text, &ids))
                .collect::<Result<_, _>>()
                .map_err(fault)?;
            let entry = LockedPackage {
                own: package.source.is_none(),
                checksum: package.checksum.clone(),
                dependencies,
            };
            packages.insert(id.clone(), entry);
        }
        Ok(Self { packages })
    }

    /// The packages that come from a registry.
    pub fn foreign(&self) -> impl Iterator<Item = &Id> {
        self.packages.iter().filter(|(_, entry)| !entry.own).map(|(id, _)| id)
    }

    /// The SHA-256 of the archive of a package.
    pub fn checksum(&self, id: &Id) -> Option<&str> {
        self.packages.get(id)?.checksum.as_deref()
    }

    /// The packages on all paths from the crates of this repository, except paths through a
    /// package with the name `barrier`.
    pub fn reachable_without(&self, barrier: &str) -> BTreeSet<&Id> {
        let own = self.packages.iter().filter(|(_, entry)| entry.own).map(|(id, _)| id);
        let mut waiting: Vec<&Id> = own.collect();
        let mut seen = BTreeSet::new();
        while let Some(id) = waiting.pop() {
            if id.name != barrier && seen.insert(id) {
                waiting.extend(self.packages.get(id).into_iter().flat_map(|e| &e.dependencies));
            }
        }
        seen
    }
}

/// The package of an entry of `dependencies`: `name`, `name version` or `name version (source)`.
fn dependency(text: &str, ids: &[Id]) -> Result<Id, String> {
    let mut words = text.split(' ');
    let name = words.next().unwrap_or_default();
    match words.next() {
        Some(version) => Id::new(name, version),
        None => {
            let found = ids.iter().find(|id| id.name == name).cloned();
            found.ok_or_else(|| format!("the dependency {name:?} has no entry"))
        }
    }
}
