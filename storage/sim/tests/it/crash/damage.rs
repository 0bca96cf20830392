//! Damage at rest: reported at the start, or without effect (CL-6).

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use stratalog_sim::Random;

use super::{run::Run, server::Server, verify::Loss};

impl Run {
    /// Writes for a while, kills the server, and starts the server on copies of its directory, each
    /// with a flipped bit; then on a copy with garbage behind the last frame.
    pub fn damage_and_check(mut self, flips: u64) -> Result<(), String> {
        // A kill right after a rotation leaves an empty last segment: in this case, repeat.
        for _ in 0..3 {
            let server = self.serve(&self.data)?;
            self.write_until(server, Loss::Process, Server::kill)?;
            if last_segment(&self.data).is_ok() {
                break;
            }
        }
        // Settles statements without an answer, and marks the durable frames.
        let mut server = self.serve(&self.data)?;
        self.check(&server, &self.ledger, Loss::Process)?;
        std::thread::sleep(std::time::Duration::from_millis(200));
        server.kill();
        for _ in 0..flips {
            let copy = self.copy()?;
            let (path, used) = last_segment(&copy)?;
            let at = self.random.between(4096, used) as usize;
            let bit = 1 << self.random.below(8);
            change(&path, |bytes| bytes[at] ^= bit)?;
            match self.serve(&copy) {
                Ok(server) => self
                    .check(&server, &self.ledger, Loss::Process)
                    .map_err(|broken| format!("after a bit flip at {at}: {broken}"))?,
                Err(error) if error.contains("damaged") => 0,
                Err(error) => return Err(format!("after a bit flip at {at}: {error}")),
            };
        }
        for flip in 0..flips {
            // The events may be in any of these folders.
            let folders = [&["tablets", "stories"][..], &["manifest"]][flip as usize % 2];
            let copy = self.copy()?;
            let (path, used) = some_file(&copy, folders, &mut self.random)?;
            let (at, bit) = (self.random.below(used) as usize, 1 << self.random.below(8));
            change(&path, |bytes| bytes[at] ^= bit)?;
            let shown = self
                .serve(&copy)
                .and_then(|server| self.check(&server, &self.ledger, Loss::Process));
            match shown {
                Err(error) if !error.contains("damaged") => {
                    let path = path.display();
                    return Err(format!("after a bit flip at {at} of {path}: {error}"));
                }
                _ => {}
            }
        }
        let copy = self.copy()?;
        let (path, used) = last_segment(&copy)?;
        let end = used.next_multiple_of(128) as usize;
        change(&path, |bytes| bytes[end..end + 1000].fill(0xA7))?;
        for _ in 0..2 {
            let server = self.serve(&copy)?;
            self.check(&server, &self.ledger, Loss::Process)
                .map_err(|broken| format!("after a torn tail: {broken}"))?;
        }
        Ok(())
    }

    fn copy(&self) -> Result<PathBuf, String> {
        let copy = self.directory.path().join("copy");
        fs::remove_dir_all(&copy).ok();
        copy_directory(&self.data, &copy).map_err(|error| format!("copying: {error}"))?;
        Ok(copy)
    }
}

fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_directory(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// The last segment of the events' journal, and the length of its used part.
fn last_segment(data: &Path) -> Result<(PathBuf, u64), String> {
    let entries = fs::read_dir(data.join("journal")).map_err(|error| error.to_string())?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut segments: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|name| name == "journal"))
        .filter(|path| !path.ends_with("spare.journal"))
        .collect();
    segments.sort();
    let used = |path: &PathBuf| {
        let bytes = fs::read(path).ok()?;
        Some(bytes.iter().rposition(|byte| *byte != 0)? as u64 + 1)
    };
    let full = segments.into_iter().rev().find_map(|path| Some((path.clone(), used(&path)?)));
    full.filter(|(_, used)| *used > 5000).ok_or_else(|| "the journal is empty".to_string())
}

/// A random file of some folders and their subfolders, and the length of its used part.
fn some_file(data: &Path, folders: &[&str], random: &mut Random) -> Result<(PathBuf, u64), String> {
    let used = |path: PathBuf| {
        let bytes = fs::read(&path).ok()?;
        let last = bytes.iter().rposition(|byte| *byte != 0)?;
        path.extension().is_some().then_some((path, last as u64 + 1))
    };
    let mut files = Vec::new();
    let mut left: Vec<PathBuf> = folders.iter().map(|folder| data.join(folder)).collect();
    while let Some(folder) = left.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| error.to_string())?;
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            match path.is_dir() {
                true => left.push(path),
                false => files.extend(used(path)),
            }
        }
    }
    if files.is_empty() {
        return Err(format!("nothing is in {folders:?}"));
    }
    files.sort();
    Ok(files.swap_remove(random.below(files.len() as u64) as usize))
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> Result<(), String> {
    let mut bytes = fs::read(path).map_err(|error| error.to_string())?;
    change(&mut bytes);
    fs::write(path, bytes).map_err(|error| error.to_string())
}
