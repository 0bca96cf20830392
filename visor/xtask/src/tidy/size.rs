//! Checks the sizes of source files: a warning above 500 lines, an error above 800.

use super::Finding;
use crate::tree::Tree;

const LINES_WARN: usize = 500;
const LINES_MAX: usize = 800;

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>, warnings: &mut Vec<Finding>) {
    for (path, text) in tree.ending(&[".rs", ".py"]) {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            let message = format!("{lines} lines; split it, {LINES_MAX} is the most");
            findings.push(Finding::new(path, 0, message));
        } else if lines > LINES_WARN {
            warnings.push(Finding::new(path, 0, format!("{lines} lines; think of splitting it")));
        }
    }
}
