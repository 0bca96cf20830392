//! The transaction block of a session.
//!
//! A block reads one snapshot, pinned by its first read, and takes one writing statement,
//! or one that defines something, held back until COMMIT. What is not kept is refused: see
//! the errors below.

use std::sync::Arc;

use parking_lot::Mutex;
use stratalog_model::{Append, ChronicleId, Error, ErrorKind, EventStore, Result, Snapshot};
use stratalog_visor_core::catalog::Command;

use super::TransactionState;

/// Where a session stands, and what its block holds.
#[derive(Default)]
pub struct Transaction(Mutex<Block>);

#[derive(Default)]
struct Block {
    state: TransactionState,
    snapshot: Option<Arc<dyn Snapshot>>,
    append: Option<Box<dyn Append>>,
    written: Option<ChronicleId>,
    definition: Option<Vec<Command>>,
    read_only: bool,
    began_ns: Option<i64>,
}

/// What a block held when it ended: to be carried out by COMMIT, dropped by ROLLBACK.
pub struct Ended {
    /// Where the session stood.
    pub state: TransactionState,
    /// The rows of the block's writing statement.
    pub append: Option<Box<dyn Append>>,
    /// The commands of the block's definition.
    pub definition: Vec<Command>,
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Transaction").field(&self.state()).finish()
    }
}

impl Transaction {
    /// Where the session stands.
    pub fn state(&self) -> TransactionState {
        self.0.lock().state
    }

    /// Opens a block; false when one is open.
    pub fn begin(&self, read_only: bool, now_ns: i64) -> bool {
        let mut block = self.0.lock();
        if block.state != TransactionState::Idle {
            return false;
        }
        *block = Block {
            state: TransactionState::Block,
            read_only,
            began_ns: Some(now_ns),
            ..Block::default()
        };
        true
    }

    /// Changes whether the open block may write.
    pub fn set_read_only(&self, read_only: bool) {
        self.0.lock().read_only = read_only;
    }

    /// When the open block began.
    pub fn began_ns(&self) -> Option<i64> {
        self.0.lock().began_ns
    }

    /// Whether a block is open that may not write.
    pub fn is_read_only(&self) -> bool {
        self.0.lock().read_only
    }

    /// An error in a block: what it holds is dropped, and only its end is accepted.
    pub fn fail(&self) {
        let mut block = self.0.lock();
        if block.state == TransactionState::Block {
            *block = Block {
                state: TransactionState::Failed,
                began_ns: block.began_ns,
                ..Block::default()
            };
        }
    }

    /// Ends the block.
    pub fn end(&self) -> Ended {
        let block = std::mem::take(&mut *self.0.lock());
        Ended {
            state: block.state,
            append: block.append,
            definition: block.definition.unwrap_or_default(),
        }
    }

    /// The snapshot that a read of the session uses now.
    pub fn snapshot(&self, store: &dyn EventStore) -> Arc<dyn Snapshot> {
        let mut block = self.0.lock();
        match block.state {
            TransactionState::Block => {
                Arc::clone(block.snapshot.get_or_insert_with(|| store.snapshot()))
            }
            TransactionState::Idle | TransactionState::Failed => store.snapshot(),
        }
    }

    /// Checks that a statement may write to a chronicle now.
    ///
    /// # Errors
    /// `ReadOnlyTransaction`; `FeatureNotSupported` for a second writing statement.
    pub fn check_write(&self, read_only_default: bool) -> Result<()> {
        let block = self.0.lock();
        let read_only = match block.state {
            TransactionState::Idle => read_only_default,
            TransactionState::Block | TransactionState::Failed => block.read_only,
        };
        if read_only {
            return Err(Error::new(
                ErrorKind::ReadOnlyTransaction,
                "cannot write in a read-only transaction",
            ));
        }
        if block.written.is_some() {
            return Err(Error::not_yet("a transaction block with more than one writing statement")
                .with_hint("insert all rows in one statement, or COMMIT between the statements"));
        }
        Ok(())
    }

    /// Checks that a statement may read a chronicle now.
    ///
    /// # Errors
    /// `FeatureNotSupported` when the block wrote to it: its rows are not visible yet.
    pub fn check_read(&self, chronicle: ChronicleId) -> Result<()> {
        if self.0.lock().written == Some(chronicle) {
            return Err(Error::not_yet("reading a table after writing to it in the same block")
                .with_hint("COMMIT first"));
        }
        Ok(())
    }

    /// Checks that the block does not hold a definition: what follows could not see it.
    ///
    /// # Errors
    /// `FeatureNotSupported`.
    pub fn check_undefined(&self) -> Result<()> {
        if self.0.lock().definition.is_some() {
            return Err(Error::not_yet(
                "a statement after one that defines something in the same block",
            )
            .with_hint("COMMIT first"));
        }
        Ok(())
    }

    /// Checks that no block is open, for a statement that cannot be part of one.
    ///
    /// # Errors
    /// `ActiveTransaction`.
    pub fn check_outside(&self, command: &str) -> Result<()> {
        match self.state() {
            TransactionState::Idle => Ok(()),
            TransactionState::Block | TransactionState::Failed => Err(Error::new(
                ErrorKind::ActiveTransaction,
                format!("{command} cannot run inside a transaction block"),
            )),
        }
    }

    /// Keeps the commands of a definition until the block ends; gives them back when there
    /// is no block, to be carried out at once.
    pub fn hold_definition(&self, commands: Vec<Command>) -> Option<Vec<Command>> {
        let mut block = self.0.lock();
        match block.state {
            TransactionState::Block => {
                block.definition = Some(commands);
                None
            }
            TransactionState::Failed => None,
            TransactionState::Idle => Some(commands),
        }
    }

    /// Keeps the append of a block's writing statement until the block ends; gives it back
    /// when there is no block, to be committed at once.
    pub fn hold(&self, append: Box<dyn Append>, chronicle: ChronicleId) -> Option<Box<dyn Append>> {
        let mut block = self.0.lock();
        match block.state {
            TransactionState::Block => {
                block.append = Some(append);
                block.written = Some(chronicle);
                None
            }
            // The block failed meanwhile: the rows go with it.
            TransactionState::Failed => None,
            TransactionState::Idle => Some(append),
        }
    }
}
