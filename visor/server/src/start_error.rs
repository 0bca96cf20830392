//! The reasons for a failed start, and the exit status of each for scripts.

use std::path::PathBuf;

use stratalog_model::{Error, ErrorKind};

use crate::settings::SettingsError;

/// The reason for a failed start. The message says what is wrong, where, and how to correct it.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is unusable.
    #[error("{0}")]
    Settings(#[from] SettingsError),
    /// Another program already listens on this address.
    #[error(
        "cannot listen on {address} ({setting}): the address is in use\n  hint: stop the program that uses the address, or choose another address with --{setting}"
    )]
    AddressTaken {
        /// The address in the setting.
        address: String,
        /// The flag of the setting.
        setting: &'static str,
    },
    /// The system does not permit listening on this address.
    #[error("cannot listen on {address} (--{setting}): {reason}")]
    AddressUnusable {
        /// The address in the setting.
        address: String,
        /// The flag of the setting.
        setting: &'static str,
        /// The error of the system.
        reason: String,
    },
    /// The address is reachable from other machines, but the server has no certificate or no user.
    #[error(
        "refusing to listen on {address} (--{setting}): other machines could connect {}\n  hint: listen on 127.0.0.1, or create a certificate and a user while the server is stopped:\n    stratalog certificate create --data-dir {data_dir} --host NAME\n    stratalog user create NAME --superuser --data-dir {data_dir}",
        if *has_tls { "without a password, because no user has one" } else { "without encryption, because the server has no certificate" }
    )]
    OpenToAll {
        /// The address in the setting.
        address: String,
        /// The flag of the setting.
        setting: &'static str,
        /// True if the server has a certificate.
        has_tls: bool,
        /// The data directory.
        data_dir: String,
    },
    /// Another process has the directory open.
    #[error(
        "the data directory {} is in use by {}\n  hint: stop that process, or choose another directory with --data-dir",
        path.display(),
        holder.map(|pid| format!("process {pid}")).unwrap_or_else(|| "another process".to_string())
    )]
    DirectoryLocked {
        /// The path of the directory.
        path: PathBuf,
        /// The id of the other process, if it could write its id.
        holder: Option<u32>,
    },
    /// The directory contains files of another program.
    #[error(
        "{} is not a Stratalog data directory: the directory contains \"{entry}\"\n  hint: choose an empty or a new directory with --data-dir; nothing in the directory was changed",
        path.display()
    )]
    ForeignDirectory {
        /// The path of the directory.
        path: PathBuf,
        /// The name of one of these files.
        entry: String,
    },
    /// The directory has no database, and the command does not create one.
    #[error(
        "there is no Stratalog database in {}: {}\n  hint: check the path given with --data-dir; \"stratalog serve --data-dir DIR\" creates a new database",
        path.display(),
        if *exists { "the file FORMAT of a data directory is missing" } else { "the directory does not exist" }
    )]
    NoDatabase {
        /// The path of the directory.
        path: PathBuf,
        /// True if the directory exists.
        exists: bool,
    },
    /// A later release of Stratalog has written the directory.
    #[error(
        "the data directory {} has format {found}; this release reads formats up to {known}\n  hint: start the release that wrote the data directory, or a later release",
        path.display()
    )]
    NewerFormat {
        /// The path of the directory.
        path: PathBuf,
        /// The format version of the directory.
        found: u32,
        /// The newest format version that this release can read.
        known: u32,
    },
    /// The directory has a format version that no release has written.
    #[error(
        "the data directory {} has format {found}, which no release has written; this release reads formats 1 to {known}\n  hint: restore the file FORMAT from a backup; the data was not changed",
        path.display()
    )]
    UnknownFormat {
        /// The path of the directory.
        path: PathBuf,
        /// The format version of the directory.
        found: u32,
        /// The newest format version that this release can read.
        known: u32,
    },
    /// The file FORMAT has an older version than the data in the directory.
    #[error(
        "the file FORMAT of the data directory {} says version {found}, but the directory has {part} of version {since}\n  hint: restore the file FORMAT of this directory from a backup, or copy the file from another data directory of the release that last used this directory: the content is always the same. The data was not changed",
        path.display()
    )]
    OlderFormat {
        /// The path of the directory.
        path: PathBuf,
        /// The version in the file FORMAT.
        found: u32,
        /// A part in the directory that does not exist in the version that FORMAT states.
        part: &'static str,
        /// The first version that has this part.
        since: u32,
    },
    /// All parts exist, but the file FORMAT is missing.
    #[error(
        "the file FORMAT of the data directory {} is missing; its catalog, journal and clock are there\n  hint: restore the file from a backup, or copy the file from another data directory of the release that last used this directory: the content is always the same. The data was not changed",
        path.display()
    )]
    FormatMissing {
        /// The path of the directory.
        path: PathBuf,
    },
    /// The file FORMAT is damaged.
    #[error(
        "{} is damaged: its checksum or first line is wrong\n  hint: if the directory is a Stratalog data directory, restore this file from a copy; the data was not changed",
        path.display()
    )]
    DamagedFormat {
        /// The path of the file.
        path: PathBuf,
    },
    /// A part of the database could not be opened.
    #[error("{0}")]
    Part(#[from] Error),
}

impl StartError {
    /// The exit status of the process: 2 for settings, 3 for an address, 4 for a locked directory,
    /// 5 for a foreign, damaged or missing directory, 6 for a newer format, 1 for anything else.
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
