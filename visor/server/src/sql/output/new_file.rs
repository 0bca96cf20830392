//! A file that appears when it is whole.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

/// Where the bytes go until all are there. Dropped before [`Self::keep`], it removes them.
pub struct NewFile {
    /// Beside the file that is asked for; `None` for what is no file, such as a pipe, which
    /// is written as it is.
    temporary: Option<PathBuf>,
    /// The file that is asked for; what a link points at.
    path: PathBuf,
}

impl NewFile {
    /// A file beside `path`, which takes its place in the end.
    ///
    /// # Errors
    /// A place where none can be made.
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

    /// Gives `file`, which is complete, its name.
    ///
    /// # Errors
    /// What the disk says; nothing has the name then, or what had it before.
    pub fn keep(mut self, file: &File) -> io::Result<()> {
        let Some(temporary) = &self.temporary else { return Ok(()) };
        // What takes the place of another file must be there after a crash, too.
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
            // What cannot be removed is left under a name that says what it is.
            let _ = std::fs::remove_file(temporary);
        }
    }
}
