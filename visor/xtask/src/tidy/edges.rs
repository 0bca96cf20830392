//! Checks the dependencies between crates: the rules of docs/ARCHITECTURE.md.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use serde_json::Value;

use super::Finding;
use crate::tree::Tree;

/// The allowed dependencies of each crate, among the crates of the workspace. Test crates, tools
/// and the server (which connects all crates) have no limits.
const ALLOWED: [(&str, &[&str]); 21] = [
    ("stratalog-model", &[]),
    ("stratalog-metrics", &["stratalog-model"]),
    ("stratalog-journal", &["stratalog-model", "stratalog-metrics"]),
    ("stratalog-tablet", &["stratalog-model"]),
    ("stratalog-story", &["stratalog-model"]),
    (
        "stratalog-engine",
        &["stratalog-model", "stratalog-metrics", "stratalog-tablet", "stratalog-story"],
    ),
    (
        "stratalog-backup",
        &["stratalog-model", "stratalog-journal", "stratalog-story", "stratalog-engine"],
    ),
    ("stratalog-visor-core", &["stratalog-model"]),
    ("stratalog-text", &["stratalog-model"]),
    ("stratalog-functions", &["stratalog-model", "stratalog-text"]),
    (
        "stratalog-pg-catalog",
        &["stratalog-model", "stratalog-text", "stratalog-functions", "stratalog-visor-core"],
    ),
    (
        "stratalog-postgres",
        &["stratalog-model", "stratalog-text", "stratalog-functions", "stratalog-pg-catalog"],
    ),
    (
        "stratalog-query",
        &[
            "stratalog-model",
            "stratalog-metrics",
            "stratalog-text",
            "stratalog-functions",
            "stratalog-pg-catalog",
            "stratalog-postgres",
            "stratalog-visor-core",
        ],
    ),
    ("stratalog-access", &["stratalog-model", "stratalog-metrics", "stratalog-visor-core"]),
    (
        "stratalog-pgwire",
        &[
            "stratalog-model",
            "stratalog-metrics",
            "stratalog-text",
            "stratalog-query",
            "stratalog-access",
        ],
    ),
    ("stratalog-flight-wire", &["stratalog-model"]),
    (
        "stratalog-flight-sql",
        &[
            "stratalog-model",
            "stratalog-metrics",
            "stratalog-query",
            "stratalog-access",
            "stratalog-flight-wire",
        ],
    ),
    ("stratalog-line", &["stratalog-model"]),
    ("stratalog-telemetry", &["stratalog-model", "stratalog-line"]),
    (
        "stratalog-http",
        &[
            "stratalog-model",
            "stratalog-metrics",
            "stratalog-text",
            "stratalog-query",
            "stratalog-access",
            "stratalog-line",
            "stratalog-telemetry",
        ],
    ),
    ("stratalog-client", &["stratalog-model"]),
];

/// External crates reserved for certain crates.
const RESERVED: [(&str, &[&str]); 3] = [
    ("sled", &["stratalog-tablet"]),
    ("pgwire", &["stratalog-pgwire"]),
    ("prometheus-client", &["stratalog-metrics"]),
];

/// External crates that a crate must not use, given by a part of their name.
const BANNED: [(&str, &str); 14] = [
    ("stratalog-journal", "arrow"),
    ("stratalog-model", "datafusion"),
    ("stratalog-model", "tokio"),
    ("stratalog-journal", "datafusion"),
    ("stratalog-engine", "datafusion"),
    ("stratalog-visor-core", "datafusion"),
    ("stratalog-text", "datafusion"),
    ("stratalog-line", "datafusion"),
    ("stratalog-line", "tokio"),
    ("stratalog-telemetry", "datafusion"),
    ("stratalog-telemetry", "tokio"),
    ("stratalog-pgwire", "stratalog-engine"),
    ("stratalog-flight-wire", "datafusion"),
    ("stratalog-flight-wire", "tokio"),
];

/// Pairs of crates: the first must not depend on the second, not even indirectly.
const UNREACHABLE: [(&str, &str); 3] = [
    ("stratalog-query", "stratalog-engine"),
    ("stratalog-query", "stratalog-journal"),
    ("stratalog-engine", "stratalog-query"),
];

/// The direct dependencies of each crate, without the dependencies of tests.
type Graph = BTreeMap<String, BTreeSet<String>>;

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) -> Result<(), String> {
    let output = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_string()))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(&tree.root)
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata: {error}"))?;
    judge(&graph_of(&metadata), findings);
    Ok(())
}

fn graph_of(metadata: &Value) -> Graph {
    let list = |value: &Value, key: &str| value.get(key).and_then(Value::as_array).cloned();
    let name = |value: &Value| value.get("name").and_then(Value::as_str).map(String::from);
    let mut graph = Graph::new();
    for package in list(metadata, "packages").unwrap_or_default() {
        let dependencies = list(&package, "dependencies").unwrap_or_default();
        let normal = dependencies
            .iter()
            .filter(|dependency| dependency.get("kind").and_then(Value::as_str) != Some("dev"))
            .filter_map(name);
        if let Some(package) = name(&package) {
            graph.insert(package, normal.collect());
        }
    }
    graph
}

pub(super) fn judge(graph: &Graph, findings: &mut Vec<Finding>) {
    let mut found = |message: String| findings.push(Finding::new("Cargo.toml", 0, message));
    for (from, allowed) in ALLOWED {
        for to in graph.get(from).into_iter().flatten() {
            if graph.contains_key(to) && !allowed.contains(&to.as_str()) {
                found(format!("forbidden edge {from} -> {to}"));
            }
        }
    }
    for (name, owners) in RESERVED {
        for (from, _) in graph.iter().filter(|(_, to)| to.contains(name)) {
            if !owners.contains(&from.as_str()) {
                found(format!("{from} names {name}, which only {} may", owners.join(", ")));
            }
        }
    }
    for (from, banned) in BANNED {
        for to in graph.get(from).into_iter().flatten().filter(|to| to.contains(banned)) {
            found(format!("{from} must not know {to}"));
        }
    }
    for (from, target) in UNREACHABLE {
        if let Some(path) = path_between(graph, from, target) {
            found(format!("{from} must not reach {target}: {}", path.join(" -> ")));
        }
    }
}

/// The crates on a path of dependencies from `from` to `target`.
fn path_between(graph: &Graph, from: &str, target: &str) -> Option<Vec<String>> {
    let mut seen = BTreeSet::from([from.to_string()]);
    let mut paths = vec![vec![from.to_string()]];
    while let Some(path) = paths.pop() {
        for next in path.last().and_then(|last| graph.get(last)).into_iter().flatten() {
            let mut longer = path.clone();
            longer.push(next.clone());
            if next == target {
                return Some(longer);
            }
            if seen.insert(next.clone()) {
                paths.push(longer);
            }
        }
    }
    None
}
