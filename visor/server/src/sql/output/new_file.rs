//! Writes a file under a temporary name, and renames the complete file.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

/// A file under a temporary name. If the value is dropped before [`Self::keep`], the file is
/// removed.
pub struct NewFile {
    /// The temporary path, in the folder of the final path; `None` for a special file, such as a
    /// pipe, which is written directly.
    temporary: Option<PathBuf>,
    /// The final path, with links resolved.
    path: PathBuf,
}

impl NewFile {
    /// Creates a temporary file that will replace the file at `path`.
    ///
    /// # Errors
    /// No new file can be created in the folder.
    pub fn create(path: &Path) -> io::Result<(Self, File)> {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let existing = path.metadata().ok();
        if existing.as_ref().is_some_and(|existing| !existing.is_file()) {
            let file = File::options().write(true).open(&path)?;
            return Ok((Self { temporary: None, path }, file));
        }
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.new", std::process::id()));
        let temporary = path.with_file_name(name);
        let file = File::create(&temporary)?;
        let new = Self { temporary: Some(temporary), path };
        if let Some(existing) = existing {
            file.set_permissions(existing.permissions())?;
        }
        Ok((new, file))
    }

    /// Makes the file durable, and renames it to its final name.
    ///
    /// # Errors
    /// Errors of the disk. Then the final name does not exist, or still belongs to the old file.
    pub fn keep(mut self, file: &File) -> io::Result<()> {
        let Some(temporary) = &self.temporary else { return Ok(()) };
        // After a crash, the name must refer to the old file or to the complete new file.
        file.sync_all()?;
        std::fs::rename(temporary, &self.path)?;
        self.temporary = None;
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // If the removal fails, the temporary name shows that the file is incomplete.
            let _ = std::fs::remove_file(temporary);
        }
    }
}
