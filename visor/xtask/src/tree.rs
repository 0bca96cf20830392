//! The text files of the repository.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Folders that are skipped when git is not available to list the files.
const SKIPPED: [&str; 6] = [".git", "target", "node_modules", ".venv", "__pycache__", "results"];

/// Maximum size of a text file in bytes; larger files are data, not written by hand.
const TEXT_BYTES_MAX: u64 = 1 << 20;

/// The text files of the repository: tracked files, and new files not ignored by git.
#[derive(Debug, Default)]
pub struct Tree {
    /// The folder of the workspace's `Cargo.toml`.
    pub root: PathBuf,
    /// The content of each file, by its path from the root, with `/` between folders.
    pub files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the source tree from which this program was built.
    pub fn open() -> Result<Self, String> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest.ancestors().nth(2).ok_or("xtask is not two folders deep")?;
        let mut files = BTreeMap::new();
        for path in listed(root).unwrap_or_else(|| walked(root)) {
            let full = root.join(&path);
            let small = fs::metadata(&full).is_ok_and(|data| data.len() <= TEXT_BYTES_MAX);
            // The file was deleted but is still listed, or it is not text: skip it.
            if small && let Ok(text) = fs::read_to_string(&full) {
                files.insert(path, text);
            }
        }
        Ok(Self { root: root.to_path_buf(), files })
    }

    /// The content of a file, or an error if the file does not exist.
    pub fn text(&self, path: &str) -> Result<&str, String> {
        self.files.get(path).map(String::as_str).ok_or_else(|| format!("{path} is missing"))
    }

    /// The files whose names end with one of `endings`.
    pub fn ending<'a>(
        &'a self,
        endings: &'a [&'a str],
    ) -> impl Iterator<Item = (&'a str, &'a str)> + 'a {
        self.files
            .iter()
            .filter(|(path, _)| endings.iter().any(|ending| path.ends_with(ending)))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }
}

/// The tracked files, and untracked files not ignored by git.
fn listed(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<String> =
        text.split('\0').filter(|path| !path.is_empty()).map(String::from).collect();
    (output.status.success() && !paths.is_empty()).then_some(paths)
}

fn walked(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let skipped = entry.file_name().to_str().is_none_or(|name| SKIPPED.contains(&name));
            if path.is_dir() && !skipped {
                folders.push(path);
            } else if let Some(name) = path.strip_prefix(root).ok().and_then(Path::to_str)
                && path.is_file()
            {
                found.push(name.replace('\\', "/"));
            }
        }
    }
    found
}
