//! The folder with the files of all tablets.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use stratalog_model::{ChronicleId, Disk, Error, ErrorKind, Result, SchemaVersion, invariant};

use crate::{
    block::BlockHead,
    file::{BUILDING_SUFFIX, Builder, BuiltTablet, SUFFIX, TabletId, path_of},
    index::Index,
    tablet::{Tablet, damaged, missing},
};

/// Suffix of the file name of a damaged tablet that a sound tablet has replaced.
const ASIDE_SUFFIX: &str = ".damaged";

/// The tablets of a data directory.
#[derive(Debug)]
pub struct Tablets {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    index: Index,
    holding: Mutex<HoldState>,
}

/// The number of existing holds ([`TabletsHold`]), and the tablets to remove after the last hold.
#[derive(Debug, Default)]
struct HoldState {
    holds: usize,
    doomed: Vec<TabletId>,
}

impl HoldState {
    fn assert_consistent(&self) {
        debug_assert!(
            self.holds > 0 || self.doomed.is_empty(),
            "a tablet waits for the end of a hold, and nobody holds"
        );
    }
}

/// While this value exists, no tablet is removed. When the last hold is dropped, the tablets whose
/// removal was requested meanwhile are removed.
#[derive(Debug)]
pub struct TabletsHold(Arc<Tablets>);

impl Drop for TabletsHold {
    fn drop(&mut self) {
        let doomed = {
            let mut holding = self.0.holding.lock();
            debug_assert!(holding.holds > 0, "a hold ends twice");
            holding.holds -= 1;
            if holding.holds > 0 {
                return;
            }
            let doomed = std::mem::take(&mut holding.doomed);
            holding.assert_consistent();
            doomed
        };
        for id in doomed {
            if let Err(error) = self.0.remove(id) {
                tracing::warn!(%error, "cannot remove an unused tablet; the next start removes the tablet");
            }
        }
    }
}

impl Tablets {
    /// Opens the folder (made if missing), and removes unfinished files. `index` is the folder of
    /// the sled database on a local disk; without it, block heads are read from the tablets.
    ///
    /// # Errors
    /// `ObjectNotInPrerequisiteState` if the folder contains a file that is not a tablet; `Io`.
    pub fn open(disk: Arc<dyn Disk>, folder: &Path, index: Option<&Path>) -> Result<Self> {
        let failed = |error| Error::io(format!("cannot open {}", folder.display()), error);
        disk.create_dir_all(folder).map_err(failed)?;
        // The sync is needed even for an existing folder: its creator may have stopped before the
        // sync.
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
                    format!("{} is not a tablet", path.display()),
                )
                .with_hint("move the file elsewhere"));
            }
        }
        let index = Index::open(index);
        Ok(Self { disk, folder: folder.to_path_buf(), index, holding: Mutex::default() })
    }

    /// Opens the folder for reading only, while no server uses it: creates and removes nothing in
    /// the folder. `index` is a copy of sled's folder, because sled writes to its folder on open.
    pub fn look(disk: Arc<dyn Disk>, folder: &Path, index: Option<&Path>) -> Self {
        let (index, holding) = (Index::open(index), Mutex::default());
        Self { disk, folder: folder.to_path_buf(), index, holding }
    }

    /// The names of the other files in the folder: first the unfinished tablets, then the files
    /// that are not tablets. Damaged tablets that were renamed are in neither list.
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

    /// Begins a new tablet.
    ///
    /// # Errors
    /// `DiskFull`, `Io`; `Internal` if the number is in use.
    pub fn build(
        &self,
        id: TabletId,
        chronicle: ChronicleId,
        schema_version: SchemaVersion,
    ) -> Result<Builder> {
        let path = path_of(&self.folder, id, SUFFIX);
        let there = self.disk.exists(&path);
        if there.map_err(|error| Error::io(format!("cannot create {}", path.display()), error))? {
            return Err(Error::internal(format!("tablet {id} already exists")));
        }
        Builder::create(&self.disk, &self.folder, id, chronicle, schema_version)
    }

    /// Stores the block heads of a tablet in the index.
    pub fn remember(&self, built: &BuiltTablet, heads: &[BlockHead]) {
        debug_assert_eq!(heads.len() as u64, u64::from(built.blocks), "a block has no head");
        self.index.put(built.id, heads, built.checksum);
    }

    /// Opens a tablet that the manifest names. Compares the header and the end record with the
    /// manifest's description `built`.
    ///
    /// # Errors
    /// `DataCorrupted` if the file is missing, damaged or a different tablet; `Io`.
    pub fn tablet(&self, built: &BuiltTablet) -> Result<Tablet> {
        Tablet::open(self.disk.as_ref(), path_of(&self.folder, built.id, SUFFIX), built)
    }

    /// The heads of a tablet's blocks, in ascending order of (key, tick). The heads come from the
    /// index; if entries are missing, from the file.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`.
    pub fn blocks(&self, tablet: &Tablet) -> Result<Vec<BlockHead>> {
        let built = tablet.built();
        match self.index.get(built.id, built.blocks, built.checksum) {
            Some(heads) if tablet.has(&heads) => {
                let rows: u64 = heads.iter().map(|head| u64::from(head.summary.rows)).sum();
                invariant!(
                    IndexRebuilds,
                    heads.len() == built.blocks as usize && rows == built.rows,
                    "the index has {rows} of {} events of tablet {}",
                    built.rows,
                    built.id
                );
                Ok(heads)
            }
            _ => {
                let heads = tablet.heads()?;
                self.remember(built, &heads);
                Ok(heads)
            }
        }
    }

    /// Whether the index has the same block heads as the file. True for a tablet whose entries are
    /// too long for the index.
    pub fn remembers(&self, built: &BuiltTablet, heads: &[BlockHead]) -> bool {
        if !Index::takes(heads) {
            return true;
        }
        self.index.get(built.id, built.blocks, built.checksum).is_some_and(|known| known == heads)
    }

    /// Number of events in the first block of a tablet, from the index; `None` if the index lacks
    /// the block.
    pub fn first_block_rows(&self, built: &BuiltTablet) -> Option<usize> {
        let heads = self.index.get(built.id, built.blocks, built.checksum)?;
        heads.first().map(|head| head.summary.rows as usize)
    }

    /// Renames a damaged tablet, so that a sound tablet can have its name.
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

    /// The path of a tablet's file.
    pub fn path(&self, id: TabletId) -> PathBuf {
        path_of(&self.folder, id, SUFFIX)
    }

    /// Removes all tablets that are not in `kept`, with their index entries. Returns the number of
    /// removed files.
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

    /// Prevents the removal of tablets while the result exists: all tablets of a manifest that is
    /// read from now on stay readable.
    pub fn hold(self: &Arc<Self>) -> TabletsHold {
        let mut holding = self.holding.lock();
        holding.assert_consistent();
        holding.holds += 1;
        drop(holding);
        TabletsHold(Arc::clone(self))
    }

    /// Whether obsolete tablets still exist only because of a [hold](Self::hold).
    pub fn is_holding(&self) -> bool {
        !self.holding.lock().doomed.is_empty()
    }

    /// The disk and the path of a tablet's file.
    pub fn file(&self, id: TabletId) -> (Arc<dyn Disk>, PathBuf) {
        (Arc::clone(&self.disk), self.path(id))
    }

    /// Removes a tablet that the manifest no longer names; a [hold](Self::hold) delays the removal.
    /// Readers that have the tablet open can continue.
    ///
    /// # Errors
    /// `Io`.
    pub fn remove(&self, id: TabletId) -> Result<()> {
        {
            let mut holding = self.holding.lock();
            if holding.holds > 0 {
                holding.doomed.push(id);
                holding.assert_consistent();
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

    /// Checks that `files` contains the tablet with the length `bytes`. Reads nothing.
    ///
    /// # Errors
    /// `DataCorrupted` if the file is missing or has another length.
    pub fn check(&self, id: TabletId, bytes: u64, files: &BTreeMap<TabletId, u64>) -> Result<()> {
        let path = path_of(&self.folder, id, SUFFIX);
        match files.get(&id) {
            None => Err(missing(&path)),
            Some(length) if *length != bytes => {
                let what = format!(
                    "the file has {length} bytes, but {bytes} bytes according to the manifest"
                );
                Err(damaged(&path, *length.min(&bytes), &what))
            }
            Some(_) => Ok(()),
        }
    }

    /// The name of a tablet's file, relative to the data directory.
    pub fn file_name(&self, id: TabletId) -> String {
        let folder = self.folder.file_name().unwrap_or_default();
        Path::new(folder).join(format!("{:020}{SUFFIX}", id.0)).to_string_lossy().into_owned()
    }

    /// Removes the files of tablets, complete or unfinished. Ignores missing files.
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

    /// Sabotage: performs the syncs that [`Builder::finish`] has omitted.
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

    /// The numbers of all complete tablets, with the lengths of their files.
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

/// Whether a file is a damaged tablet that was renamed by [`Tablets::put_aside`].
fn is_aside(name: &str) -> bool {
    name.ends_with(ASIDE_SUFFIX)
}

fn parse_name(name: &str, suffix: &str) -> Option<TabletId> {
    let digits = name.strip_suffix(suffix)?;
    let valid = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| valid).map(TabletId)
}
