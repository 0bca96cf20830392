//! Options that are fixed or set per chronicle (F5, F25, F75, F91, F92).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Result};

/// What happens to a second event with the same collision key (F25: semantics A to D).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Collision {
    /// A: all are kept, in arrival order.
    All,
    /// B: the last to arrive is what readers see.
    Last,
    /// C: the first is kept, the others are rejected (23505).
    First,
    /// D: the first keeps the tick, the others take the next free ones.
    Next,
}

impl fmt::Display for Collision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Collision::All => "all",
            Collision::Last => "last",
            Collision::First => "first",
            Collision::Next => "next",
        })
    }
}

impl FromStr for Collision {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "all" => Ok(Collision::All),
            "last" => Ok(Collision::Last),
            "first" => Ok(Collision::First),
            "next" => Ok(Collision::Next),
            _ => Err(Error::new(
                ErrorKind::InvalidParameterValue,
                format!("collision = '{text}' is unknown"),
            )
            .with_hint("use 'all', 'first', 'last' or 'next'")),
        }
    }
}

/// What happens to events behind the ones already stored (F92).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LatePolicy {
    /// They are stored in their place.
    #[default]
    Accept,
    /// They are refused: those with ticks up to the highest that has left the journal.
    Reject,
}

/// Where the ticks of events come from (F75, F91).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TickSource {
    /// Application time: from the data, whatever it says.
    #[default]
    Column,
    /// System time: the keeper gives the time of arrival.
    Server,
    /// From the client, which goes by the master clock, within its acceptance window (F24).
    Client,
}

impl TickSource {
    /// Whether events come at about their ticks, so that there is an end to those that can still
    /// come.
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
