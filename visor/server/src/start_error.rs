//! Reasons for a failed start, with the exit status for scripts.

use std::path::PathBuf;

use stratalog_model::{Error, ErrorKind};

use crate::settings::SettingsError;

/// The reason for a failed start. The text is complete: problem, place, and correction.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is unusable.
    #[error("{0}")]
    Settings(#[from] SettingsError),
    /// Another program listens on the address.
    #[error(
        "cannot listen on {address} ({setting}): the address is in use\n  hint: stop the program that uses the address, or choose another address with --{setting}"
    )]
    AddressTaken {
        /// The configured address.
        address: String,
        /// The flag of the address.
        setting: &'static str,
    },
    /// The system refuses the address.
    #[error("cannot listen on {address} (--{setting}): {reason}")]
    AddressUnusable {
        /// The configured address.
        address: String,
        /// The flag of the address.
        setting: &'static str,
        /// The system's reason.
        reason: String,
    },
    /// Strangers could connect.
    #[error(
        "refusing to listen on {address} (--{setting}): anyone on the network could read and write everything, because users do not exist yet\n  hint: listen on 127.0.0.1, or accept the risk with --remote-without-password true"
    )]
    OpenToAll {
        /// The configured address.
        address: String,
        /// The flag of the address.
        setting: &'static str,
    },
    /// Another process has the directory open.
    #[error(
        "the data directory {} is in use by {}\n  hint: stop that process, or choose another directory with --data-dir",
        path.display(),
        holder.map(|pid| format!("process {pid}")).unwrap_or_else(|| "another process".to_string())
    )]
    DirectoryLocked {
        /// The directory.
        path: PathBuf,
        /// The other process, if it left its id.
        holder: Option<u32>,
    },
    /// The directory holds foreign files.
    #[error(
        "{} is not a Stratalog data directory: the directory contains \"{entry}\"\n  hint: choose an empty or a new directory with --data-dir; nothing in the directory was changed",
        path.display()
    )]
    ForeignDirectory {
        /// The directory.
        path: PathBuf,
        /// A foreign entry.
        entry: String,
    },
    /// The directory holds no database, and the caller requires an existing database.
    #[error(
        "there is no Stratalog database in {}: {}\n  hint: check the path given with --data-dir; \"stratalog serve --data-dir DIR\" creates a new database",
        path.display(),
        if *exists { "the file FORMAT of a data directory is missing" } else { "the directory does not exist" }
    )]
    NoDatabase {
        /// The directory.
        path: PathBuf,
        /// True if the directory exists.
        exists: bool,
    },
    /// A later release made the directory.
    #[error(
        "the data directory {} has format {found}; this release reads formats up to {known}\n  hint: start the release that wrote the data directory, or a later release",
        path.display()
    )]
    NewerFormat {
        /// The directory.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest readable format.
        known: u32,
    },
    /// No release has the directory's format.
    #[error(
        "the data directory {} has format {found}, which no release has written; this release reads formats 1 to {known}\n  hint: restore the file FORMAT from a backup; the data was not changed",
        path.display()
    )]
    UnknownFormat {
        /// The directory.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest readable format.
        known: u32,
    },
    /// The file with the format says an older version than the data beside the file.
    #[error(
        "the file FORMAT of the data directory {} says version {found}, but the directory has {part} of version {since}\n  hint: restore the file FORMAT of this directory from a backup, or copy the file from another data directory of the release that last used this directory: the content is always the same. The data was not changed",
        path.display()
    )]
    OlderFormat {
        /// The directory.
        path: PathBuf,
        /// The version of FORMAT.
        found: u32,
        /// The part that contradicts FORMAT.
        part: &'static str,
        /// The first version with this part.
        since: u32,
    },
    /// All parts exist except the file with the format.
    #[error(
        "the file FORMAT of the data directory {} is missing; its catalog, journal and clock are there\n  hint: restore the file from a backup, or copy the file from another data directory of the release that last used this directory: the content is always the same. The data was not changed",
        path.display()
    )]
    FormatMissing {
        /// The directory.
        path: PathBuf,
    },
    /// The file with the format is damaged.
    #[error(
        "{} is damaged: its checksum or first line is wrong\n  hint: if the directory is a Stratalog data directory, restore this file from a copy; the data was not changed",
        path.display()
    )]
    DamagedFormat {
        /// The file.
        path: PathBuf,
    },
    /// A part failed to open.
    #[error("{0}")]
    Part(#[from] Error),
}

impl StartError {
    /// The process's exit status: 1 for errors without a status of their own, 2 settings, 3
    /// address, 4 locked, 5 foreign, damaged or missing, 6 newer format.
    pub fn exit_status(&self) -> u8 {
        match self {
            StartError::Part(error) if error.kind() == ErrorKind::DataCorrupted => 5,
            StartError::Part(_) => 1,
            StartError::Settings(_) => 2,
            StartError::AddressTaken { .. }
            | StartError::AddressUnusable { .. }
            | StartError::OpenToAll { .. } => 3,
            StartError::DirectoryLocked { .. } => 4,
            StartError::ForeignDirectory { .. }
            | StartError::DamagedFormat { .. }
            | StartError::UnknownFormat { .. }
            | StartError::OlderFormat { .. }
            | StartError::FormatMissing { .. }
            | StartError::NoDatabase { .. } => 5,
            StartError::NewerFormat { .. } => 6,
        }
    }
}
