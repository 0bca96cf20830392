//! Options of a chronicle; some are fixed at creation (F5, F75, F91, F92).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Result};

/// The rule for an event whose tick is before the tick of stored events (F92).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LatePolicy {
    /// The store accepts late events and sorts them in by their ticks.
    #[default]
    Accept,
    /// The store refuses an event whose tick is at most the highest tick that has left the journal.
    Reject,
}

/// The source of the ticks of events (F75, F91).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TickSource {
    /// Application time: the value of the tick column; any time is allowed.
    #[default]
    Column,
    /// System time: the keeper sets the time of arrival.
    Server,
    /// The client sets the time from its estimate of the master clock; the time must be within the
    /// acceptance window (F24).
    Client,
}

impl TickSource {
    /// Whether events arrive at about the time of their ticks. If so, after some time no new event
    /// with a given tick can arrive.
    pub fn is_clocked(self) -> bool {
        self != TickSource::Column
    }
}

impl fmt::Display for TickSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TickSource::Column => "column",
            TickSource::Server => "server",
            TickSource::Client => "client",
        })
    }
}

impl FromStr for TickSource {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "column" => Ok(TickSource::Column),
            "server" => Ok(TickSource::Server),
            "client" => Ok(TickSource::Client),
            _ => Err(Error::new(
                ErrorKind::InvalidParameterValue,
                format!("time_source = '{text}' is unknown"),
            )
            .with_hint("use 'column', 'server' or 'client'")),
        }
    }
}
