//! Backups of an open database, and the commands `backup`, `backups` and `restore`.
//!
//! ```text
//!   CALL stratalog.backup('URL') ─┐
//!   stratalog backup --data-dir ──┴─► DatabaseBackups ─► a new thread: stratalog_backup::save
//! ```

mod allowed_places;
mod command;

use std::{path::Path, sync::Arc};

use stratalog_backup::{Place, SavedBackup, Source, Watch, save};
use stratalog_model::{BoxFuture, Clock, Disk, Error, ErrorKind, Result};
use stratalog_query::{Backups, FinishedBackup};
use stratalog_story::{Objects, RemoteSettings};

pub(crate) use allowed_places::AllowedPlaces;
pub(crate) use command::{
    BackupArguments, BackupsArguments, RestoreArguments, operator_remote_settings, run_backup,
    run_backups, run_restore,
};

/// Makes backups of one database.
#[derive(Debug)]
pub struct DatabaseBackups {
    pub(crate) source: Source,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) remote: RemoteSettings,
    /// Where clients may put backups.
    pub(crate) allowed: AllowedPlaces,
}

/// Cancels the backup when dropped: the caller of the backup no longer waits for the result.
struct CancelOnDrop(Arc<Watch>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl DatabaseBackups {
    /// Makes a backup at a place, given as a URL or a path. `watch` receives the progress. Dropping
    /// the future cancels the backup soon afterwards.
    ///
    /// # Errors
    /// `InvalidParameterValue` for an invalid place, or a place in the data directory; errors of
    /// [`save`].
    pub async fn run(&self, url: &str, watch: &Arc<Watch>) -> Result<SavedBackup> {
        let place = Place::of_url(url, &self.source.disk, self.remote.clone())?;
        if let Some(folder) = place.local() {
            self.check_outside(folder)?;
        }
        self.save(place, watch).await
    }

    async fn save(&self, place: Place, watch: &Arc<Watch>) -> Result<SavedBackup> {
        let _waiting = CancelOnDrop(Arc::clone(watch));
        let (source, watch, time_ns) =
            (self.source.clone(), Arc::clone(watch), self.clock.now_ns());
        let runtime = tokio::runtime::Handle::current();
        let working = tokio::task::spawn_blocking(move || {
            runtime.block_on(save(&source, &place, time_ns, &watch))
        });
        let saved = working
            .await
            .unwrap_or_else(|error| Err(Error::internal(format!("a backup failed: {error}"))))?;
        tracing::info!(
            backup = saved.name,
            files = saved.files,
            bytes = saved.bytes,
            stored_files = saved.stored_files,
            stored_bytes = saved.stored_bytes,
            "backup made"
        );
        Ok(saved)
    }

    /// Refuses a folder inside the data directory, except in its folder `backups`. Other entries in
    /// the data directory would make the next start fail, or be removed by it.
    fn check_outside(&self, folder: &Path) -> Result<()> {
        let (disk, directory) = (&self.source.disk, &self.source.directory);
        if !lies_in(disk, folder, directory) || self.allowed.is_own(disk, folder) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::InvalidParameterValue,
            format!(
                "a backup in {} would lie in the data directory {}",
                folder.display(),
                directory.display()
            ),
        )
        .with_hint("give a folder outside of the data directory, preferably on another machine, or an object store"))
    }
}

/// True if `folder` is `directory` or is below it; also works before `folder` exists.
fn lies_in(disk: &Arc<dyn Disk>, folder: &Path, directory: &Path) -> bool {
    let directory = disk.canonical(directory);
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    let mut above = folder.ancestors();
    let there = above.find(|above| disk.exists(above).unwrap_or(false));
    there.is_some_and(|there| disk.canonical(there).starts_with(&directory))
}

impl Backups for DatabaseBackups {
    fn backup<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<FinishedBackup>> {
        Box::pin(async move {
            // Opening an object store may already send a request for credentials.
            if Objects::is_url(url) {
                self.allowed.remote(url)?;
            }
            let place = Place::of_url(url, &self.source.disk, self.remote.clone())?;
            if place.local().is_some_and(Path::is_relative) {
                return Err(Error::new(
                    ErrorKind::InvalidParameterValue,
                    format!("\"{url}\" is not an absolute path"),
                )
                .with_detail("the folder is on the machine of the server")
                .with_hint("write a path that begins with /, or the URL of an object store"));
            }
            // Check the folder before any other error: an error about a forbidden folder would
            // reveal which files exist.
            let place = match place.local() {
                Some(folder) => {
                    let folder = self.allowed.folder(&self.source.disk, folder)?;
                    Place::folder(Arc::clone(&self.source.disk), &folder)
                }
                None => self.allowed.remote(url).map(|()| place)?,
            };
            let saved = self.save(place, &Arc::default()).await?;
            let SavedBackup { name, files, bytes, stored_files, stored_bytes } = saved;
            Ok(FinishedBackup { name, files, bytes, stored_files, stored_bytes })
        })
    }
}
