//! Durability levels (CL-1).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind};

/// What an acknowledgement guarantees.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Written to the journal file: survives `kill -9`, not a power cut.
    Relaxed,
    /// Made durable by an fdatasync of the whole group: survives a power cut.
    #[default]
    Disk,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Durability::Relaxed => "relaxed",
            Durability::Disk => "disk",
        })
    }
}

impl FromStr for Durability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.to_ascii_lowercase().as_str() {
            "relaxed" => Ok(Durability::Relaxed),
            "disk" => Ok(Durability::Disk),
            "quorum" => Err(Error::not_yet("durability = 'quorum' (needs replicas)")
                .with_hint("use 'disk' (default) or 'relaxed'")),
            _ => Err(Error::new(
                ErrorKind::InvalidParameterValue,
                format!("durability = '{text}' is unknown"),
            )
            .with_hint("use 'disk' (default) or 'relaxed'")),
        }
    }
}
