//! Checks that the header comment of every crate states purpose, limits and data path.

use super::{Finding, manifest::members};
use crate::tree::Tree;

const PARTS: [&str; 3] = ["*What it is*", "*What it deliberately is not*", "*Data path*"];

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for member in members(tree) {
        let library = format!("{member}/src/lib.rs");
        let path = match tree.files.contains_key(&library) {
            true => library,
            false => format!("{member}/src/main.rs"),
        };
        let Ok(text) = tree.text(&path) else {
            findings.push(Finding::new(&path, 0, "crate without lib.rs or main.rs"));
            continue;
        };
        let header: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
        for part in PARTS {
            if !header.iter().any(|line| line.contains(part)) {
                findings.push(Finding::new(&path, 1, format!("the crate's header lacks {part}")));
            }
        }
    }
}
