//! The places where clients may put backups. The operator lists folders and URLs; everything below
//! them is allowed.

use std::{
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use stratalog_model::{Disk, Error, ErrorKind, Result};
use url::Url;

use crate::directory::BACKUPS;

/// Folders and URLs below which clients may put backups.
#[derive(Debug, Clone)]
pub struct AllowedPlaces {
    folders: Vec<PathBuf>,
    stores: Vec<Url>,
}

impl AllowedPlaces {
    /// Parses the setting `backup_urls`, a comma-separated list of paths and URLs, and adds the
    /// folder [`BACKUPS`] of the data directory.
    pub(crate) fn new(list: &str, data_directory: &Path) -> Self {
        let (mut folders, mut stores) = (vec![data_directory.join(BACKUPS)], Vec::new());
        for text in list.split(',').map(str::trim).filter(|text| !text.is_empty()) {
            match Url::parse(text) {
                Ok(url) if url.scheme() == "file" => folders.extend(url.to_file_path()),
                Ok(url) => stores.push(url),
                Err(_) => folders.push(PathBuf::from(text)),
            }
        }
        Self { folders, stores }
    }

    /// Checks all elements of the setting. If one is invalid, returns an error text about the first
    /// invalid element.
    pub(crate) fn check(list: &str) -> std::result::Result<(), String> {
        for text in list.split(',').map(str::trim).filter(|text| !text.is_empty()) {
            let usable = match Url::parse(text) {
                Ok(url) if url.scheme() == "file" => url.to_file_path().is_ok(),
                Ok(url) => url.has_host() && url.query().is_none() && is_plain(&url),
                Err(_) => Path::new(text).is_absolute(),
            };
            if !usable {
                return Err(format!(
                    "\"{text}\" is not a place for backups; write a path that begins with /, or s3://bucket/prefix, \
                     gs://bucket/prefix or az://container/prefix"
                ));
            }
        }
        Ok(())
    }

    /// If `folder` is in an allowed folder, returns its absolute path without symbolic links and
    /// `..`.
    ///
    /// # Errors
    /// `InsufficientPrivilege` if `folder` is outside of all allowed folders.
    pub(crate) fn folder(&self, disk: &Arc<dyn Disk>, folder: &Path) -> Result<PathBuf> {
        let resolved = resolved(disk, folder).filter(|resolved| {
            let mut allowed =
                self.folders.iter().filter_map(|allowed| self::resolved(disk, allowed));
            allowed.any(|allowed| resolved.starts_with(allowed))
        });
        resolved.ok_or_else(|| self.refused(&folder.display().to_string()))
    }

    /// True if a folder is in the folder `backups` of the data directory.
    pub(crate) fn is_own(&self, disk: &Arc<dyn Disk>, folder: &Path) -> bool {
        let own = self.folders.first().and_then(|own| resolved(disk, own));
        let folder = std::path::absolute(folder).ok().and_then(|folder| resolved(disk, &folder));
        own.zip(folder).is_some_and(|(own, folder)| folder.starts_with(own))
    }

    /// Checks that the URL of an object store is below an allowed URL.
    ///
    /// # Errors
    /// `InsufficientPrivilege` if it is not.
    pub(crate) fn remote(&self, url: &str) -> Result<()> {
        let parsed = Url::parse(url).ok().filter(is_plain);
        let allowed =
            parsed.is_some_and(|url| self.stores.iter().any(|store| lies_below(&url, store)));
        if allowed {
            return Ok(());
        }
        Err(self.refused(&stratalog_story::without_secrets(url)))
    }

    fn refused(&self, place: &str) -> Error {
        let own = self.folders.first().map(|own| own.display().to_string()).unwrap_or_default();
        Error::new(
            ErrorKind::InsufficientPrivilege,
            format!("permission denied for a backup in \"{place}\""),
        )
        .with_detail(format!(
            "a client may make backups in {own}, and below the places in the setting backup_urls"
        ))
        .with_hint(
            "add the place to backup_urls, or run `stratalog backup --data-dir` on the server",
        )
    }
}

/// The path with its symbolic links resolved. `None` if a part of the path that does not exist
/// contains `..`.
fn resolved(disk: &Arc<dyn Disk>, path: &Path) -> Option<PathBuf> {
    if !path.is_absolute() {
        return None;
    }
    let there = path.ancestors().find(|above| disk.exists(above).unwrap_or(false))?;
    let rest = path.strip_prefix(there).ok()?;
    let plain = rest.components().all(|component| matches!(component, Component::Normal(_)));
    plain.then(|| disk.canonical(there).join(rest))
}

/// True if the URL has no credentials, no query, and no encoded `/` or `..`.
fn is_plain(url: &Url) -> bool {
    let segments = || url.path().split('/');
    url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
        && !url.path().contains(['%', '\\'])
        && segments().all(|segment| segment != ".." && segment != ".")
}

fn lies_below(url: &Url, store: &Url) -> bool {
    let parts = |url: &Url| -> Vec<String> {
        url.path().split('/').filter(|part| !part.is_empty()).map(str::to_string).collect()
    };
    url.scheme() == store.scheme()
        && url.host_str() == store.host_str()
        && url.port() == store.port()
        && parts(url).starts_with(&parts(store))
}

#[cfg(test)]
mod tests;
