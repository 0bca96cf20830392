//! The folder of block files.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use stratalog_model::{ChronicleId, Disk, Error, ErrorKind, Result, SchemaVersion};

use crate::{
    block::BlockHead,
    file::{BUILDING_SUFFIX, Builder, Built, SUFFIX, TabletId, path_of},
    index::Index,
    tablet::{Tablet, damaged, missing},
};

/// Ending of the name of a damaged tablet that was replaced by a sound one.
const ASIDE_SUFFIX: &str = ".damaged";

/// The tablets of a data directory.
#[derive(Debug)]
pub struct Tablets {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    index: Index,
    holding: Mutex<Holding>,
}

/// Who holds files, and those that go when nobody does.
#[derive(Debug, Default)]
struct Holding {
    holds: usize,
    doomed: Vec<TabletId>,
}

/// As long as it lives, no tablet is removed. Dropping the last one removes those that would
/// have gone.
#[derive(Debug)]
pub struct TabletsHold(Arc<Tablets>);

impl Drop for TabletsHold {
    fn drop(&mut self) {
        let doomed = {
            let mut holding = self.0.holding.lock();
            holding.holds -= 1;
            if holding.holds > 0 {
                return;
            }
            std::mem::take(&mut holding.doomed)
        };
        for id in doomed {
            if let Err(error) = self.0.remove(id) {
                tracing::warn!(%error, "a tablet of no use is left for the next start");
            }
        }
    }
}

impl Tablets {
    /// Opens the folder, made if it is missing. Files that were never finished are removed.
    /// `index` is where sled lies, on the machine's own disk; without it, what blocks hold is
    /// read from their files.
    ///
    /// # Errors
    /// `ObjectNotInPrerequisiteState` for a file that is none of ours; `Io`.
    pub fn open(disk: Arc<dyn Disk>, folder: &Path, index: Option<&Path>) -> Result<Self> {
        let failed = |error| Error::io(format!("cannot open {}", folder.display()), error);
        disk.create_dir_all(folder).map_err(failed)?;
        // Also when it was there: whoever made it may not have come to this.
        disk.sync_dir(folder.parent().unwrap_or(folder)).map_err(failed)?;
        for name in disk.list(folder).map_err(failed)? {
            let path = folder.join(&name);
            if name.ends_with(BUILDING_SUFFIX) && parse_name(&name, BUILDING_SUFFIX).is_some() {
                let removed = disk.remove_file(&path);
                removed.map_err(|error| {
                    Error::io(format!("cannot remove {}", path.display()), error)
                })?;
            } else if parse_name(&name, SUFFIX).is_none() && !is_aside(&name) {
                return Err(Error::new(
                    ErrorKind::ObjectNotInPrerequisiteState,
                    format!("{} is no tablet", path.display()),
                )
                .with_hint("move the file elsewhere"));
            }
        }
        let index = Index::open(index);
        Ok(Self { disk, folder: folder.to_path_buf(), index, holding: Mutex::default() })
    }

    /// The tablets of a folder that nobody has open, for whoever only looks: nothing is made
    /// or removed there. `index` is a copy of where sled lies: sled writes where it opens.
    pub fn look(disk: Arc<dyn Disk>, folder: &Path, index: Option<&Path>) -> Self {
        let (index, holding) = (Index::open(index), Mutex::default());
        Self { disk, folder: folder.to_path_buf(), index, holding }
    }

    /// What else lies in the folder: names of files that were never finished, and of others.
    /// Ones that were put aside are passed over.
    ///
    /// # Errors
    /// `Io`.
    pub fn others(&self) -> Result<(Vec<String>, Vec<String>)> {
        let failed = |error| Error::io(format!("cannot open {}", self.folder.display()), error);
        let mut names = self.disk.list(&self.folder).map_err(failed)?;
        names.retain(|name| parse_name(name, SUFFIX).is_none() && !is_aside(name));
        let building = |name: &String| parse_name(name, BUILDING_SUFFIX).is_some();
        Ok(names.into_iter().partition(building))
    }

    /// Begins a tablet.
    ///
    /// # Errors
    /// `DiskFull`, `Io`; `Internal` for a number that is in use.
    pub fn build(
        &self,
        id: TabletId,
        chronicle: ChronicleId,
        schema_version: SchemaVersion,
    ) -> Result<Builder> {
        let path = path_of(&self.folder, id, SUFFIX);
        let there = self.disk.exists(&path);
        if there.map_err(|error| Error::io(format!("cannot make {}", path.display()), error))? {
            return Err(Error::internal(format!("there is a tablet {id} already")));
        }
        Builder::create(&self.disk, &self.folder, id, chronicle, schema_version)
    }

    /// Remembers what the blocks of a tablet hold.
    pub fn remember(&self, built: &Built, heads: &[BlockHead]) {
        self.index.put(built.id, heads, built.checksum);
    }

    /// A tablet that the manifest names. Its header and end are compared with what the
    /// manifest knows.
    ///
    /// # Errors
    /// `DataCorrupted` when it is missing, damaged or another one; `Io`.
    pub fn tablet(&self, built: &Built) -> Result<Tablet> {
        Tablet::open(self.disk.as_ref(), path_of(&self.folder, built.id, SUFFIX), built)
    }

    /// What the blocks of a tablet hold, by ascending (key, tick): from the index, or, where
    /// that does not know, from the file.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`.
    pub fn blocks(&self, tablet: &Tablet) -> Result<Vec<BlockHead>> {
        let built = tablet.built();
        match self.index.get(built.id, built.blocks, built.checksum) {
            Some(heads) if tablet.has(&heads) => Ok(heads),
            _ => {
                let heads = tablet.heads()?;
                self.remember(built, &heads);
                Ok(heads)
            }
        }
    }

    /// Whether the index says the same of a tablet's blocks as its file; it need not say
    /// anything of one for which it has no room.
    pub fn remembers(&self, built: &Built, heads: &[BlockHead]) -> bool {
        if !Index::takes(heads) {
            return true;
        }
        self.index.get(built.id, built.blocks, built.checksum).is_some_and(|known| known == heads)
    }

    /// Events of a tablet's first block, as the index says.
    pub fn first_block_rows(&self, built: &Built) -> Option<usize> {
        let heads = self.index.get(built.id, built.blocks, built.checksum)?;
        heads.first().map(|head| head.summary.rows as usize)
    }

    /// Puts a damaged tablet aside, under another name, so that a sound one can have its.
    ///
    /// # Errors
    /// `Io`.
    pub fn put_aside(&self, id: TabletId) -> Result<PathBuf> {
        let from = path_of(&self.folder, id, SUFFIX);
        let failed = |error| Error::io(format!("cannot rename {}", from.display()), error);
        let free = (0..).map(|number: u32| match number {
            0 => path_of(&self.folder, id, &format!("{SUFFIX}{ASIDE_SUFFIX}")),
            _ => path_of(&self.folder, id, &format!("{SUFFIX}.{number}{ASIDE_SUFFIX}")),
        });
        for to in free {
            if !self.disk.exists(&to).map_err(failed)? {
                self.disk.rename(&from, &to).map_err(failed)?;
                self.disk.sync_dir(&self.folder).map_err(failed)?;
                return Ok(to);
            }
        }
        Err(Error::internal("no name is free"))
    }

    /// Where the file of a tablet lies.
    pub fn path(&self, id: TabletId) -> PathBuf {
        path_of(&self.folder, id, SUFFIX)
    }

    /// Removes the files that `kept` does not name, and what is remembered of them. Returns
    /// how many files that were.
    ///
    /// # Errors
    /// `Io`.
    pub fn keep_only(&self, kept: &BTreeSet<TabletId>) -> Result<usize> {
        let failed = |error| Error::io(format!("cannot open {}", self.folder.display()), error);
        let mut removed = 0;
        for name in self.disk.list(&self.folder).map_err(failed)? {
            if let Some(id) = parse_name(&name, SUFFIX)
                && !kept.contains(&id)
            {
                self.remove(id)?;
                removed += 1;
            }
        }
        for id in self.index.tablets() {
            if !kept.contains(&id) {
                self.index.remove(id);
            }
        }
        Ok(removed)
    }

    /// Keeps the tablets that a manifest names which is read from now on.
    pub fn hold(self: &Arc<Self>) -> TabletsHold {
        self.holding.lock().holds += 1;
        TabletsHold(Arc::clone(self))
    }

    /// Whether tablets are there only because somebody [holds](Self::hold) them.
    pub fn is_holding(&self) -> bool {
        !self.holding.lock().doomed.is_empty()
    }

    /// Where the file of a tablet is, and on which disk.
    pub fn file(&self, id: TabletId) -> (Arc<dyn Disk>, PathBuf) {
        (Arc::clone(&self.disk), self.path(id))
    }

    /// Removes a tablet that no manifest names any more, once nobody [holds](Self::hold) it.
    /// Whoever has it open reads on.
    ///
    /// # Errors
    /// `Io`.
    pub fn remove(&self, id: TabletId) -> Result<()> {
        {
            let mut holding = self.holding.lock();
            if holding.holds > 0 {
                holding.doomed.push(id);
                return Ok(());
            }
        }
        let path = path_of(&self.folder, id, SUFFIX);
        self.disk
            .remove_file(&path)
            .map_err(|error| Error::io(format!("cannot remove {}", path.display()), error))?;
        self.index.remove(id);
        Ok(())
    }

    /// Whether the file of a tablet is among `files` and has `bytes`: what costs nothing to see.
    ///
    /// # Errors
    /// `DataCorrupted`.
    pub fn check(&self, id: TabletId, bytes: u64, files: &BTreeMap<TabletId, u64>) -> Result<()> {
        let path = path_of(&self.folder, id, SUFFIX);
        match files.get(&id) {
            None => Err(missing(&path)),
            Some(length) if *length != bytes => {
                let what = format!("it has {length} bytes, and the manifest says {bytes}");
                Err(damaged(&path, *length.min(&bytes), &what))
            }
            Some(_) => Ok(()),
        }
    }

    /// The name of a tablet's file, below the data directory.
    pub fn file_name(&self, id: TabletId) -> String {
        let folder = self.folder.file_name().unwrap_or_default();
        Path::new(folder).join(format!("{:020}{SUFFIX}", id.0)).to_string_lossy().into_owned()
    }

    /// Removes the files of tablets, finished or not. None of them needs to be there.
    ///
    /// # Errors
    /// `Io`.
    pub fn remove_all(&self, ids: &BTreeSet<TabletId>) -> Result<()> {
        let failed = |error| Error::io(format!("cannot open {}", self.folder.display()), error);
        for name in self.disk.list(&self.folder).map_err(failed)? {
            let id = parse_name(&name, SUFFIX).or_else(|| parse_name(&name, BUILDING_SUFFIX));
            if let Some(id) = id.filter(|id| ids.contains(id)) {
                let path = self.folder.join(&name);
                self.disk.remove_file(&path).map_err(|error| {
                    Error::io(format!("cannot remove {}", path.display()), error)
                })?;
                self.index.remove(id);
            }
        }
        Ok(())
    }

    /// Sabotage: makes durable what [`Builder::finish`] did not.
    #[cfg(feature = "sabotage")]
    pub fn sync_late(&self) -> Result<()> {
        if !crate::sabotage::active("edit-before-tablet") {
            return Ok(());
        }
        let failed = |error| Error::io(format!("cannot sync {}", self.folder.display()), error);
        for name in self.disk.list(&self.folder).map_err(failed)? {
            let file = self.disk.open(&self.folder.join(name)).map_err(failed)?;
            file.sync_all().map_err(failed)?;
        }
        self.disk.sync_dir(&self.folder).map_err(failed)
    }

    /// Numbers of the files that are there, and their lengths.
    ///
    /// # Errors
    /// `Io`.
    pub fn files(&self) -> Result<BTreeMap<TabletId, u64>> {
        let failed = |error| Error::io(format!("cannot open {}", self.folder.display()), error);
        let mut files = BTreeMap::new();
        for name in self.disk.list(&self.folder).map_err(failed)? {
            if let Some(id) = parse_name(&name, SUFFIX) {
                let file = self.disk.open(&self.folder.join(&name)).map_err(failed)?;
                files.insert(id, file.len().map_err(failed)?);
            }
        }
        Ok(files)
    }
}

/// Whether a file was put aside because it is damaged.
fn is_aside(name: &str) -> bool {
    name.ends_with(ASIDE_SUFFIX)
}

fn parse_name(name: &str, suffix: &str) -> Option<TabletId> {
    let digits = name.strip_suffix(suffix)?;
    let valid = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| valid).map(TabletId)
}
