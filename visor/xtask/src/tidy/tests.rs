use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, circles, edges, headers, hints, leftovers, locks, manifest, size, subjects};
use crate::tree::Tree;

fn tree(files: &[(&str, &str)]) -> Tree {
    let files = files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
    Tree { files, ..Tree::default() }
}

fn found(check: impl Fn(&Tree, &mut Vec<Finding>), files: &[(&str, &str)]) -> Vec<String> {
    let mut findings = Vec::new();
    check(&tree(files), &mut findings);
    findings.iter().map(ToString::to_string).collect()
}

#[test]
fn sizes() {
    let (mut findings, mut warnings) = (Vec::new(), Vec::new());
    let (small, large, huge) = ("\n".repeat(500), "\n".repeat(501), "\n".repeat(801));
    let files = [("a.rs", small.as_str()), ("b.rs", &large), ("c.py", &huge), ("d.md", &huge)];
    size::check(&tree(&files), &mut findings, &mut warnings);
    assert_eq!((findings.len(), warnings.len()), (1, 1));
}

#[test]
fn marks_and_calls() {
    let marks = leftovers::MARKS.map(|mark| format!("// {mark} later"));
    let calls = leftovers::CALLS.map(|call| format!("let a = {call}b);"));
    let allows = leftovers::ALLOWS.map(|allow| format!("{allow}dead_code)]"));
    let code = ["// let a = b;", "// }", "// call(this);", "// if a {"];
    let lines = marks.into_iter().chain(calls).chain(allows).chain(code.map(String::from));
    for line in lines {
        assert_eq!(found(leftovers::check, &[("a.rs", &line)]).len(), 1, "{line}");
    }
    for line in [
        "// Nothing is left to do; the caller sees to it.",
        "/// let a = b;",
        "// return value of the call",
        "let todos = 1;",
        "#[expect(clippy::x, reason = \"y\")]",
        "let todos = hacks;",
    ] {
        assert_eq!(found(leftovers::check, &[("a.rs", line)]), [""; 0], "{line}");
    }
}

#[test]
fn machine_paths() {
    let clone = Tree { root: "/builds/me/clone".into(), ..Tree::default() };
    let with = |line: &str| {
        let files = BTreeMap::from([("a.sh".to_string(), line.to_string())]);
        let mut findings = Vec::new();
        leftovers::check(&Tree { files, root: clone.root.clone() }, &mut findings);
        findings.len()
    };
    let places = leftovers::places(&clone);
    assert!(places.contains(&"/builds/me/".to_string()), "{places:?}");
    for place in &places {
        assert_eq!(with(&format!("cd {place}data")), 1, "{place}");
        assert_eq!(with(&format!("\"tests{place}data\"")), 0, "{place}");
    }
    assert_eq!(with("cd /somewhere/else"), 0);
}

#[test]
fn every_dependency_has_a_reason_and_a_user() {
    let root = "[workspace]\nmembers = [\n  \"a\",\n]\n[workspace.dependencies]\ninner = { path = \"a\" }\n\n# Why.\nx = \"1\"\ny = \"1\"\n\nz = \"1\"\n[profile.dev]\ndebug = 1\n";
    let member = "[dependencies]\nx.workspace = true\nz = { workspace = true }\nw = \"2\"\n";
    assert_eq!(
        found(manifest::check, &[("Cargo.toml", root), ("a/Cargo.toml", member)]),
        [
            "Cargo.toml:10: y is used by no crate",
            "Cargo.toml:12: z: write in a line above it why it is needed",
            "a/Cargo.toml:4: w: pin it in the workspace's manifest",
        ]
    );
}

#[test]
fn other_lock_files_know_what_a_crate_depends_on() {
    let root = "[workspace]\nmembers = [\n  \"a\",\n]\n";
    let member = "[package]\nname = \"inner\"\n[dependencies]\nx.workspace = true\nx-y.workspace = true\nz = { workspace = true, optional = true }\n[dev-dependencies]\nw.workspace = true\n";
    let checked = |listed: &str| {
        let lock = format!(
            "[[package]]\nname = \"x\"\n\n[[package]]\nname = \"inner\"\ndependencies = [\n{listed}]\n"
        );
        let files = [("Cargo.toml", root), ("a/Cargo.toml", member), ("fuzz/Cargo.lock", &lock)];
        found(locks::check, &files)
    };
    assert_eq!(checked(" \"x 1.0.0\",\n \"x-y\",\n"), [""; 0]);
    assert_eq!(
        checked(" \"x-y\",\n"),
        ["fuzz/Cargo.lock: inner depends on x: run cargo update --workspace in fuzz"]
    );
    assert_eq!(
        checked(" \"x\",\n \"x-y\",\n \"z\",\n \"gone\",\n"),
        ["fuzz/Cargo.lock: inner does not depend on gone: run cargo update --workspace in fuzz"]
    );
}

#[test]
fn headers_say_what_a_crate_is() {
    let root = "members = [\n  \"a\",\n]\n";
    let full =
        "//! A.\n//! *What it is*: x\n//! *What it deliberately is not*: y\n//! *Data path*: z\n";
    assert_eq!(found(headers::check, &[("Cargo.toml", root), ("a/src/lib.rs", full)]), [""; 0]);
    let late = "//! A.\nmod a;\n//! *What it is*: x\n";
    let lacking = found(headers::check, &[("Cargo.toml", root), ("a/src/main.rs", late)]);
    assert_eq!(lacking.len(), 3);
}

#[test]
fn hints_name_settings_that_exist() {
    let settings = "# Settings\n\n## memory_bytes_max\n";
    let source = "a(\"use less, or raise memory_bytes_max\");\nb(\"raise nothing_max.\");\nc(\"journal.memory_bytes_max = {} is small\", query.rows_max);\nd(\"raise the roof\");\n";
    assert_eq!(
        found(hints::check, &[("docs/settings.md", settings), ("a/src/lib.rs", source)]),
        [
            "a/src/lib.rs:2: nothing_max is no setting of docs/settings.md: name one, or none",
            "a/src/lib.rs:3: journal.memory_bytes_max is no setting of docs/settings.md: name one, or none",
        ]
    );
}

#[test]
fn forbidden_edges() {
    let judged = |edges: &[(&str, &[&str])]| {
        let to = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
        let graph: BTreeMap<_, _> =
            edges.iter().map(|(from, names)| (from.to_string(), to(names))).collect();
        let mut findings = Vec::new();
        edges::judge(&graph, &mut findings);
        findings.len()
    };
    let good: &[(&str, &[&str])] = &[
        ("stratalog-model", &["arrow"]),
        ("stratalog-engine", &["stratalog-model", "arrow"]),
        ("stratalog-query", &["stratalog-model", "datafusion"]),
        ("stratalog-tablet", &["sled"]),
        ("stratalog", &["stratalog-query", "stratalog-engine"]),
    ];
    assert_eq!(judged(good), 0);
    for bad in [
        ("stratalog-journal", &["arrow-ipc"][..]),
        ("stratalog-engine", &["sled"]),
        ("stratalog-model", &["stratalog-tablet"]),
        ("sqllogictests", &["sled"]),
    ] {
        let mut edges = good.to_vec();
        edges.push(bad);
        assert_eq!(judged(&edges), 1, "{bad:?}");
    }
    let around = [
        ("stratalog-query", &["helpful"][..]),
        ("helpful", &["stratalog-engine"]),
        ("stratalog-engine", &[]),
    ];
    assert_eq!(judged(&around), 2, "the edge to another crate, and what it leads to");
}

#[test]
fn first_lines_of_commits() {
    let root = Tree::open().unwrap().root;
    for subject in [
        "journal: segments grow with use",
        "docs, client: two names",
        "query/postgres: types",
        "Merge branch 'main'",
        "Revert \"journal: segments grow with use\"",
        "fixup! journal: segments grow with use",
    ] {
        assert_eq!(subjects::refusal(&root, subject), Ok(None), "{subject}");
    }
    for subject in ["", "fmt", "journal:", "journal: ", "Journal: segments", "a journal: segments"]
    {
        assert!(subjects::refusal(&root, subject).unwrap().is_some(), "{subject}");
    }
    assert!(subjects::is_unjoined("fixup! journal: segments grow with use"));
    assert!(!subjects::is_unjoined("journal: fixup! as a word"));
}

#[test]
fn circles_of_files() {
    let largest = circles::largest_of;
    let (root, base) = (("a/src/lib.rs", "mod b;\nmod c;\npub use b::B;\n"), ("a/src/b.rs", ""));
    assert_eq!(largest(&[root, base, ("a/src/c.rs", "use crate::B;\n")]), 1);
    for import in ["use crate::c::C;", "use super::{c::C, B};", "fn f() { crate::c::f() }"] {
        let files = [root, ("a/src/b.rs", import), ("a/src/c.rs", "use crate::B;\n")];
        assert_eq!(largest(&files), 2, "{import}");
    }
    for text in ["// use crate::c::C;", "/// [`crate::c`]", "const A: &str = \"crate::c::C\";"] {
        let files = [root, ("a/src/b.rs", text), ("a/src/c.rs", "use crate::B;\n")];
        assert_eq!(largest(&files), 1, "{text}");
    }
    let test = "\n#[cfg(test)]\nmod tests {\n    use crate::c::C;\n}\n";
    assert_eq!(largest(&[root, ("a/src/b.rs", test), ("a/src/c.rs", "use crate::B;\n")]), 1);
    let child = ("a/src/b/d.rs", "use super::B;\n");
    assert_eq!(largest(&[root, ("a/src/b.rs", "mod d;\nuse d::D;\n"), child]), 2);
    let lifetime = "fn f<'a>(_: &'a str, _: char) { f(\"\", '\\'') }\nuse crate::c::C;\n";
    let files = [root, ("a/src/b.rs", lifetime), ("a/src/c.rs", "use crate::B;\n")];
    assert_eq!(largest(&files), 2);
}
