//! Checks that no crate defines a type name twice in the product code: a search for a type must
//! find a single definition.

use std::collections::BTreeMap;

use super::{Finding, manifest::members};
use crate::tree::Tree;

const KEYWORDS: [&str; 4] = ["struct", "enum", "trait", "union"];

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for member in members(tree) {
        let source = format!("{member}/src/");
        let mut first: BTreeMap<&str, String> = BTreeMap::new();
        for (path, text) in tree.ending(&[".rs"]) {
            if !path.starts_with(&source) || is_test(path) {
                continue;
            }
            let product = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            for (at, line) in product.lines().enumerate() {
                let Some(name) = defined(line) else { continue };
                let place = format!("{path}:{}", at + 1);
                match first.get(name) {
                    Some(other) => findings.push(Finding::new(
                        path,
                        at + 1,
                        format!("the type name {name} is already in use at {other}"),
                    )),
                    None => {
                        first.insert(name, place);
                    }
                }
            }
        }
    }
}

fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// The name of the type that a line defines.
fn defined(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.strip_prefix(' ')?,
        None => line,
    };
    let (keyword, rest) = line.split_once(' ')?;
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let name = rest.get(..end.unwrap_or(rest.len()))?;
    let is_type =
        KEYWORDS.contains(&keyword) && name.starts_with(|letter: char| letter.is_uppercase());
    is_type.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_definition_of_a_name_is_a_finding() {
        let mut tree = Tree::default();
        let mut file =
            |path: &str, text: &str| tree.files.insert(path.to_string(), text.to_string());
        file("Cargo.toml", "members = [\n    \"a\",\n    \"b\",\n]\n");
        file("a/src/lib.rs", "pub struct Place;\nenum Kind<T> {}\n");
        file(
            "a/src/other.rs",
            "pub(crate) enum Place {}\n\n#[cfg(test)]\nmod tests {\n    struct Kind;\n",
        );
        file("a/src/tests.rs", "struct Kind;\n");
        file("b/src/lib.rs", "trait Place {}\n/// struct Place\nlet enum_like = 1;\n");
        let mut findings = Vec::new();
        check(&tree, &mut findings);
        let shown: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            ["a/src/other.rs:1: the type name Place is already in use at a/src/lib.rs:1"]
        );
    }
}
