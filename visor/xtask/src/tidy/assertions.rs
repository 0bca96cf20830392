//! Checks the assertions in the storage crates and in the core of the visor: each promise of the
//! registry must be asserted, and the code must have a minimum number of assertions per function.

use super::{Finding, manifest::members};
use crate::tree::Tree;

/// Minimum number of assertions per 1,000 functions of the product code.
const ASSERTIONS_MIN: usize = 250;

/// The registry of promises.
const REGISTRY: &str = "storage/model/src/invariant.rs";

/// Storage crates outside of the product.
const TESTS_ONLY: [&str; 1] = ["storage/sim"];

const MACROS: [&str; 7] = [
    "invariant!(",
    "assert!(",
    "assert_eq!(",
    "assert_ne!(",
    "debug_assert!(",
    "debug_assert_eq!(",
    "debug_assert_ne!(",
];

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let (mut functions, mut assertions) = (0, 0);
    let mut asserted: Vec<&str> = Vec::new();
    for member in members(tree).iter().filter(|member| is_covered(member)) {
        let source = format!("{member}/src/");
        for (path, text) in tree.ending(&[".rs"]) {
            if !path.starts_with(&source) || path.ends_with("/tests.rs") || path.contains("/tests/")
            {
                continue;
            }
            let product = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let code = product.lines().map(str::trim).filter(|line| !line.starts_with("//"));
            let code: Vec<&str> = code.collect();
            functions += code.iter().filter(|line| defines_function(line)).count();
            assertions += code.iter().filter(|line| asserts(line)).count();
            if path != REGISTRY {
                asserted.extend(promises(&code));
            }
        }
    }
    if assertions * 1_000 < ASSERTIONS_MIN * functions {
        let message = format!(
            "storage and visor/core have {assertions} assertions for {functions} functions; the minimum is {ASSERTIONS_MIN} for 1,000 functions"
        );
        findings.push(Finding::new(REGISTRY, 0, message));
    }
    for name in registered(tree) {
        if !asserted.contains(&name) {
            let message = format!("the promise {name} is not asserted by invariant! anywhere");
            findings.push(Finding::new(REGISTRY, 0, message));
        }
    }
}

fn is_covered(member: &str) -> bool {
    let is_storage = member.starts_with("storage/") && !TESTS_ONLY.contains(&member);
    is_storage || member == "visor/core"
}

fn asserts(line: &str) -> bool {
    MACROS.iter().any(|name| line.starts_with(name))
}

fn defines_function(line: &str) -> bool {
    let words = line.split(' ').take_while(|word| {
        ["const", "async", "unsafe", "fn"].contains(word) || word.starts_with("pub")
    });
    words.last() == Some("fn")
        || line.starts_with("pub(")
            && line.split_once(") ").is_some_and(|(_, rest)| rest.starts_with("fn "))
}

/// The promises that `invariant!` names, on the line of the macro or on the next line.
fn promises<'a>(code: &[&'a str]) -> Vec<&'a str> {
    let mut found = Vec::new();
    for (at, line) in code.iter().enumerate() {
        let Some(rest) = line.strip_prefix("invariant!(") else { continue };
        let first = if rest.is_empty() { code.get(at + 1).copied().unwrap_or("") } else { rest };
        let name = first.trim_start_matches("halt ").split(',').next().unwrap_or("");
        found.push(name);
    }
    found
}

/// The names of all promises in the registry, which has lines of the form `Name = 1: "text";`.
fn registered(tree: &Tree) -> Vec<&str> {
    let text = tree.text(REGISTRY).unwrap_or("");
    let lines = text.lines().filter_map(|line| {
        let (name, rest) = line.trim().split_once(" = ")?;
        let (number, text) = rest.split_once(": ")?;
        let is_promise = number.parse::<u32>().is_ok() && text.starts_with('"');
        is_promise.then_some(name)
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(engine: &str) -> Vec<String> {
        let mut tree = Tree::default();
        let mut file =
            |path: &str, text: &str| tree.files.insert(path.to_string(), text.to_string());
        file("Cargo.toml", "members = [\n    \"storage/engine\",\n    \"storage/sim\",\n]\n");
        file(REGISTRY, "promises! {\n    OneOwner = 2: \"One.\";\n}\n");
        file("storage/engine/src/lib.rs", engine);
        file("storage/engine/src/tests.rs", "fn a() {\n    assert!(true);\n}\n");
        file("storage/sim/src/lib.rs", "fn a() {}\nfn b() {}\n");
        let mut findings = Vec::new();
        check(&tree, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn functions_without_assertions_are_a_finding() {
        let sound = "pub(crate) async fn a() {\n    invariant!(\n        halt OneOwner,\n        true,\n        \"x\"\n    );\n}\n";
        assert_eq!(findings(sound), [""; 0]);
        let bare = format!("{sound}{}", "pub fn b() {}\nfn c() {}\n".repeat(20));
        let few = findings(&bare);
        assert!(few.len() == 1 && few[0].contains("1 assertions for 41 functions"), "{few:?}");
        let unnamed = findings("fn a() {\n    debug_assert!(true);\n}\n");
        assert!(unnamed.len() == 1 && unnamed[0].contains("OneOwner"), "{unnamed:?}");
        let in_comment = findings("fn a() {}\n// invariant!(OneOwner, true, \"x\");\n");
        assert_eq!(in_comment.len(), 2, "{in_comment:?}");
    }
}
