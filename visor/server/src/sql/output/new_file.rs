//! A file visible only when complete.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

/// A temporary file for incomplete data. A drop before [`Self::keep`] removes the file.
pub struct NewFile {
    /// Beside the requested file; `None` for a special file, such as a pipe, written directly.
    temporary: Option<PathBuf>,
    /// The requested file, with links resolved.
    path: PathBuf,
}

impl NewFile {
    /// A temporary file beside `path`; it will replace the file at `path`.
    ///
    /// # Errors
    /// A place where no file can be made.
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

    /// Gives the complete `file` its final name.
    ///
    /// # Errors
    /// Errors of the disk; the name then does not exist, or still belongs to the old file.
    pub fn keep(mut self, file: &File) -> io::Result<()> {
        let Some(temporary) = &self.temporary else { return Ok(()) };
        // A file that replaces another file must survive a crash.
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
            // A file that cannot be removed keeps its recognizable temporary name.
            let _ = std::fs::remove_file(temporary);
        }
    }
}
