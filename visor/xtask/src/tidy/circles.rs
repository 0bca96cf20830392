//! Circles of files: files of a crate with mutual imports, direct or indirect. A reader must know
//! all files of a circle to understand any file of the circle.
//!
//! ```text
//!   `use` and paths with `crate`, `super`, `self` ─► file of the named item ─► edges ─► circles
//! ```
//!
//! If a file re-exports a name, the import leads to the file with the definition. Tests do not
//! count.

use std::collections::{BTreeMap, BTreeSet};

use self::imports::{Import, imports};
use super::{Finding, manifest::members};
use crate::tree::Tree;

mod imports;

/// The maximum number of files in a circle of imports.
const FILES_MAX: usize = 8;

/// Crates with a larger circle, and the size of the circle. The check fails if the circle grows.
const LARGER: [(&str, usize); 1] = [("query", 75)];

/// Maximum length of a chain of re-exports that the check follows.
const RE_EXPORTS_MAX: usize = 5;

/// The path of a module, from the root of its crate.
type Module = Vec<String>;

/// The imported modules of each module.
type Edges = BTreeMap<Module, BTreeSet<Module>>;

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for member in members(tree) {
        let largest = largest_circle(&source(tree, &member));
        let ceiling = LARGER.iter().find(|(name, _)| *name == member).map(|(_, size)| *size);
        let size = largest.len();
        let message = match ceiling {
            Some(ceiling) if size < ceiling => {
                format!(
                    "the largest circle of files has {size} files; lower its ceiling of {ceiling}"
                )
            }
            None if size <= FILES_MAX => continue,
            Some(ceiling) if size == ceiling => continue,
            _ => {
                let names: Vec<String> = largest.iter().map(|path| path.join("::")).collect();
                let most = ceiling.unwrap_or(FILES_MAX);
                format!("{size} files import each other, {most} is the most: {}", names.join(", "))
            }
        };
        findings.push(Finding::new(&member, 0, message));
    }
}

/// The imports of each file of a crate, without tests.
fn source(tree: &Tree, member: &str) -> BTreeMap<Module, Vec<Import>> {
    let folder = format!("{member}/src/");
    let files = tree.ending(&[".rs"]).filter_map(|(path, text)| {
        let name = path.strip_prefix(&folder)?.strip_suffix(".rs")?;
        let parts: Module = name.split('/').map(String::from).collect();
        let is_test = parts.iter().any(|part| part == "tests");
        let module = match name {
            "lib" | "main" => Module::new(),
            _ => parts,
        };
        let product = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        (!is_test).then(|| (module.clone(), imports(product, &module)))
    });
    files.collect()
}

/// The module that defines the item at a path; follows re-exports.
fn owner(files: &BTreeMap<Module, Vec<Import>>, path: &[String], depth: usize) -> Module {
    let mut known = 0;
    while known < path.len() && path.get(..=known).is_some_and(|module| files.contains_key(module))
    {
        known += 1;
    }
    let (module, item) = path.split_at(known);
    let re_exported = item.first().and_then(|name| {
        let found = files.get(module)?.iter().find(|import| import.name.as_ref() == Some(name));
        found.map(|import| &import.path)
    });
    match re_exported {
        Some(target) if depth < RE_EXPORTS_MAX => {
            let rest = item.get(1..).unwrap_or_default();
            let target: Module = target.iter().chain(rest).cloned().collect();
            if target == path { module.to_vec() } else { owner(files, &target, depth + 1) }
        }
        _ => module.to_vec(),
    }
}

/// The size of the largest circle in a crate `a` with the given files.
#[cfg(test)]
pub(super) fn largest_of(files: &[(&str, &str)]) -> usize {
    let files = files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
    largest_circle(&source(&Tree { files, ..Tree::default() }, "a")).len()
}

/// The modules of the largest circle of imports.
fn largest_circle(files: &BTreeMap<Module, Vec<Import>>) -> Vec<Module> {
    let mut edges = Edges::new();
    for (module, imports) in files {
        let targets = imports.iter().map(|import| owner(files, &import.path, 0));
        edges.insert(module.clone(), targets.filter(|target| target != module).collect());
    }
    let mut largest = Vec::new();
    let mut seen = BTreeSet::new();
    let reversed = reversed(&edges);
    for module in edges.keys().filter(|module| !seen.contains(*module)).collect::<Vec<_>>() {
        if seen.contains(module) {
            continue;
        }
        let ahead = reachable(&edges, module);
        let behind = reachable(&reversed, module);
        let circle: Vec<Module> = ahead.intersection(&behind).cloned().collect();
        seen.extend(circle.iter().cloned());
        if circle.len() > largest.len() {
            largest = circle;
        }
    }
    largest
}

fn reversed(edges: &Edges) -> Edges {
    let mut reversed = Edges::new();
    for (from, targets) in edges {
        for to in targets {
            reversed.entry(to.clone()).or_default().insert(from.clone());
        }
    }
    reversed
}

/// The module `from`, and all modules reachable from `from`.
fn reachable(edges: &Edges, from: &Module) -> BTreeSet<Module> {
    let mut found = BTreeSet::from([from.clone()]);
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for next in edges.get(module).into_iter().flatten() {
            if found.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    found
}
