//! The modes of a transaction block: read-only or read-write, and the isolation level.

use stratalog_model::{Error, ErrorKind, Result};

use super::Block;

/// The access mode and the isolation level of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modes {
    /// True if the block may not write.
    pub read_only: bool,
    /// The isolation level, which determines the snapshots that the block reads.
    pub isolation: Isolation,
}

/// A supported isolation level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Behaves like `ReadCommitted`; SHOW returns the name chosen by the client.
    ReadUncommitted,
    /// Each statement reads its own snapshot.
    ReadCommitted,
    /// The whole block reads a single snapshot.
    #[default]
    RepeatableRead,
}

impl Isolation {
    /// The isolation level for the value of a setting.
    pub fn of_setting(value: &str) -> Self {
        match value {
            "read uncommitted" => Self::ReadUncommitted,
            "read committed" => Self::ReadCommitted,
            _ => Self::RepeatableRead,
        }
    }

    /// The name of the level in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadUncommitted => "read uncommitted",
            Self::ReadCommitted => "read committed",
            Self::RepeatableRead => "repeatable read",
        }
    }

    /// Whether each statement reads its own snapshot.
    pub fn is_per_statement(self) -> bool {
        self != Self::RepeatableRead
    }
}

impl Modes {
    /// A number that differs between different modes.
    pub(crate) fn code(self) -> u64 {
        let isolation = match self.isolation {
            Isolation::ReadUncommitted => 0,
            Isolation::ReadCommitted => 2,
            Isolation::RepeatableRead => 4,
        };
        isolation + u64::from(self.read_only)
    }
}

impl Block {
    /// Checks that the modes of the block may change to `modes` now.
    pub(super) fn check_change(&self, modes: Modes) -> Result<()> {
        let refused = |message| Err(Error::new(ErrorKind::ActiveTransaction, message));
        let nested = !self.savepoints.is_empty();
        if self.modes.read_only && !modes.read_only {
            if nested {
                return refused(
                    "cannot set transaction read-write mode inside a read-only transaction",
                );
            }
            if self.queried {
                return refused("transaction read-write mode must be set before any query");
            }
        }
        if self.modes.isolation != modes.isolation {
            if self.queried {
                return refused("SET TRANSACTION ISOLATION LEVEL must be called before any query");
            }
            if nested {
                return refused(
                    "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction",
                );
            }
        }
        Ok(())
    }
}
