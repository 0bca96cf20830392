//! Finds DataFusion's test files in cargo's cache.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::Failure;

/// The folder of DataFusion's `.slt` files; fetches the crate if necessary.
///
/// # Errors
/// If cargo cannot fetch the crate, with cargo's message.
pub fn test_files(folder: &Path) -> Result<PathBuf, Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--manifest-path"])
        .arg(folder.join("Cargo.toml"))
        .output()
        .map_err(|error| Failure::of_harness(format!("cargo metadata: {error}")))?;
    if !output.status.success() {
        return Err(Failure::of_harness(format!(
            "cargo metadata of sqllogictests/upstream: {}",
            String::from_utf8_lossy(&output.stderr)
        )));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    manifest_of(&text, "datafusion-sqllogictest-")
        .and_then(|manifest| manifest.parent().map(|package| package.join("test_files")))
        .filter(|files| files.is_dir())
        .ok_or_else(|| Failure::of_harness("cargo did not fetch datafusion-sqllogictest"))
}

/// The `manifest_path` of the package whose folder name starts with `prefix`.
fn manifest_of(metadata: &str, prefix: &str) -> Option<PathBuf> {
    metadata
        .split("\"manifest_path\":\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .map(PathBuf::from)
        .find(|path| {
            path.parent()
                .and_then(Path::file_name)
                .is_some_and(|folder| folder.to_string_lossy().starts_with(prefix))
        })
}
