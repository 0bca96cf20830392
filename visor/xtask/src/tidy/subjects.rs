//! Checks the subject lines of the latest commits with the commit hook of the repository.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use super::Finding;
use crate::tree::Tree;

/// The path of the commit hook.
pub(super) const HOOK: &str = "scripts/hooks/commit-msg";

/// The number of commits to check, as an option of `git log`.
const COMMITS: &str = "-10";

/// First words of the subjects of commits to be joined with an earlier commit by
/// `git rebase --autosquash`.
const UNJOINED: [&str; 3] = ["fixup! ", "squash! ", "amend! "];

/// Checks the subjects. Without git, there are no commits to check.
pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) -> Result<(), String> {
    if !tree.root.join(".git").exists() {
        return Ok(());
    }
    let log = Command::new("git")
        .args(["log", "--no-merges", COMMITS, "--format=%h %s"])
        .current_dir(&tree.root)
        .output();
    let Ok(log) = log else { return Ok(()) };
    if !log.status.success() {
        return Err(format!("git log: {}", String::from_utf8_lossy(&log.stderr).trim_end()));
    }
    let log = String::from_utf8_lossy(&log.stdout);
    for (commit, subject) in log.lines().filter_map(|line| line.split_once(' ')) {
        if let Some(refusal) = refusal(&tree.root, subject)? {
            findings.push(Finding::new(&format!("commit {commit}"), 0, refusal));
        }
        if is_unjoined(subject) {
            let message = format!("\"{subject}\": run git rebase --autosquash first");
            findings.push(Finding::new(&format!("commit {commit}"), 0, message));
        }
    }
    Ok(())
}

/// Whether the hook accepts the subject only temporarily, until the commit is joined with an
/// earlier commit.
pub(super) fn is_unjoined(subject: &str) -> bool {
    UNJOINED.iter().any(|word| subject.starts_with(word))
}

/// The message of the hook about a subject; `None` if the hook accepts the subject.
pub(super) fn refusal(root: &Path, subject: &str) -> Result<Option<String>, String> {
    let failed = |error: std::io::Error| format!("cannot run {HOOK}: {error}");
    let mut hook = Command::new(root.join(HOOK))
        .arg("/dev/stdin")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut input) = hook.stdin.take() {
        input.write_all(format!("{subject}\n").as_bytes()).map_err(failed)?;
    }
    let output = hook.wait_with_output().map_err(failed)?;
    let message = String::from_utf8_lossy(&output.stderr);
    Ok((!output.status.success()).then(|| message.trim_end().to_string()))
}
