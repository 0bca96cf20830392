//! The transaction block of a session.
//!
//! ```text
//!   BEGIN ─► reads: one snapshot ─────────────────────────────┐
//!            writes: one append, lent to each statement ──────┴► read of a written table: both
//!            deletes: in the same append
//!            SAVEPOINT: a mark in the append
//!   COMMIT ─► commits the whole append at once
//! ```
//! Until COMMIT, the definitions (DDL) of a block are visible only inside the block. COMMIT writes
//! a single record to the catalog; the record commits both the definitions and the rows (RFC 0023).
//! After ADD COLUMN to an existing table, the block cannot insert rows into the table: another
//! block may give the same schema version to other columns.

mod definitions;
mod lost_rows;
mod modes;
mod uses;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;
use stratalog_model::{
    Append, ChronicleId, Error, ErrorKind, EventStore, Result, SchemaVersion, Snapshot,
};
use stratalog_visor_core::{CatalogState, acquisition::UseGuard};

use self::lost_rows::missing_append_error;
pub use self::modes::{Isolation, Modes};
use super::{TransactionState, definition::Definition, variables::SettingsMark};

/// Maximum number of savepoints of a block at a time.
const SAVEPOINTS_MAX: usize = 1 << 16;

/// The transaction state of a session, and the contents of its block.
#[derive(Default)]
pub struct Transaction(Mutex<Block>);

#[derive(Default)]
struct Block {
    state: TransactionState,
    /// An implicit block, without BEGIN: ends with its message or pipeline.
    implicit: bool,
    modes: Modes,
    snapshot: Option<Arc<dyn Snapshot>>,
    /// The rows written by the block. `None` while a statement borrows the append to write or to
    /// read the rows.
    append: Option<Box<dyn Append>>,
    /// Whether the append carries a sequence number from the client
    /// (`stratalog.producer_sequence`).
    numbered: bool,
    written: Arc<BTreeSet<ChronicleId>>,
    /// Each chronicle to which a statement of the block began to write, even if the statement was
    /// rolled back, with the highest schema version that a write used.
    touched: BTreeMap<ChronicleId, SchemaVersion>,
    /// `snapshot` combined with the rows of `append`, cached until the next write.
    own: Option<Arc<dyn Snapshot>>,
    savepoints: Vec<Savepoint>,
    /// The chronicles used by the block's statements, each at most once for reading and once for
    /// writing.
    uses: Vec<UseGuard>,
    /// The uncommitted definitions of the block. Declared after the written rows: Rust drops the rows
    /// before the definitions of their tables.
    definition: Option<Definition>,
    /// The error for each statement that needs the rows written by the block. Set when a lease ran
    /// out and the rows were dropped.
    lost: Option<Error>,
    began_ns: Option<i64>,
    /// Whether a statement of the block has read or written. From then on,
    /// [`Transaction::set_modes`] refuses most changes.
    queried: bool,
}

/// The state of the block at a SAVEPOINT; ROLLBACK TO restores the state.
struct Savepoint {
    name: String,
    /// The mark in the append; `None` without an append.
    mark: Option<usize>,
    written: Arc<BTreeSet<ChronicleId>>,
    definition: Option<Definition>,
    modes: Modes,
    marks: SavepointState,
}

/// The settings at a savepoint, and the number of cursors declared before the savepoint.
pub type SavepointState = (SettingsMark, u64);

/// The contents of a block at its end. COMMIT applies the contents, ROLLBACK drops the contents.
pub struct EndedBlock {
    /// The transaction state before the end.
    pub state: TransactionState,
    /// Whether rows were written or deleted: the append exists, or the rows are lost.
    pub wrote: bool,
    /// The written rows.
    pub append: Option<Box<dyn Append>>,
    /// The definitions.
    pub definition: Option<Definition>,
    /// The chronicles used by the block.
    pub uses: Vec<UseGuard>,
    /// The reason why the written rows cannot be committed.
    pub lost: Option<Error>,
}

/// The append that one statement writes to: borrowed from the block, or new outside of a block. If
/// the value drops without a call of `finish`, the block fails.
pub struct LentAppend {
    append: Option<Box<dyn Append>>,
    home: Option<Arc<Transaction>>,
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Transaction").field(&self.state()).finish()
    }
}

impl Transaction {
    /// The transaction state.
    pub fn state(&self) -> TransactionState {
        self.0.lock().state
    }

    /// Opens a block; returns false if a block is already open. An explicit BEGIN turns an open
    /// implicit block into an explicit block and returns true.
    pub fn begin(&self, implicit: bool, modes: Modes, now_ns: i64) -> bool {
        let mut block = self.0.lock();
        if block.state == TransactionState::Block && block.implicit && !implicit {
            (block.implicit, block.modes) = (false, modes);
            return true;
        }
        if block.state != TransactionState::Idle {
            return false;
        }
        *block = Block {
            state: TransactionState::Block,
            implicit,
            modes,
            began_ns: Some(now_ns),
            ..Block::default()
        };
        true
    }

    /// Whether the open block is implicit, that is, began without BEGIN.
    pub fn is_implicit(&self) -> bool {
        self.0.lock().implicit
    }

    /// The modes of the open block.
    pub fn modes(&self) -> Modes {
        self.0.lock().modes
    }

    /// Changes the modes of the open block.
    ///
    /// # Errors
    /// `ActiveTransaction` for another isolation level, or for READ WRITE in a READ ONLY block,
    /// after the first query of the block or a savepoint.
    pub fn set_modes(&self, modes: Modes) -> Result<()> {
        let mut block = self.0.lock();
        block.check_change(modes)?;
        block.modes = modes;
        Ok(())
    }

    /// Records the start of a statement that reads or writes.
    pub fn note_query(&self) {
        let mut block = self.0.lock();
        block.queried |= block.state == TransactionState::Block;
    }

    /// Start of the open block, in nanoseconds since 1970; `None` without an open block.
    pub fn began_ns(&self) -> Option<i64> {
        self.0.lock().began_ns
    }

    /// Marks the open block as failed after an error. Drops the contents of the block, unless a
    /// savepoint exists. Afterwards the block accepts only its end, or a return to a savepoint.
    pub fn fail(&self) {
        let mut block = self.0.lock();
        if block.state != TransactionState::Block {
            return;
        }
        if block.savepoints.is_empty() {
            let Block { began_ns, modes, implicit, queried, .. } = *block;
            *block = Block { began_ns, modes, implicit, queried, ..Block::default() };
        }
        block.state = TransactionState::Failed;
    }

    /// Ends the block and returns its contents. The session is then outside of a block.
    pub fn end(&self) -> EndedBlock {
        let block = std::mem::take(&mut *self.0.lock());
        EndedBlock {
            state: block.state,
            wrote: !block.written.is_empty(),
            append: block.append,
            definition: block.definition,
            uses: block.uses,
            lost: block.lost,
        }
    }

    /// The current snapshot for a statement that reads the chronicles `reads`: the committed
    /// events, and, if the block wrote to any of these chronicles, the block's own rows over the
    /// committed events.
    ///
    /// # Errors
    /// The errors of [`Append::over`]; `LeaseLost` if the rows written by the block are lost.
    pub async fn snapshot(
        self: &Arc<Self>,
        store: &dyn EventStore,
        reads: &[ChronicleId],
    ) -> Result<Arc<dyn Snapshot>> {
        let (base, mut lent_append) = {
            let mut block = self.0.lock();
            if block.state != TransactionState::Block {
                return Ok(store.snapshot());
            }
            if block.modes.isolation.is_per_statement() {
                (block.snapshot, block.own) = (None, None);
            }
            let base = Arc::clone(block.snapshot.get_or_insert_with(|| store.snapshot()));
            if !reads.iter().any(|chronicle| block.written.contains(chronicle)) {
                return Ok(base);
            }
            if let Some(own) = &block.own {
                return Ok(Arc::clone(own));
            }
            let Some(append) = block.append.take() else {
                return Err(missing_append_error(block.lost.as_ref()));
            };
            (base, LentAppend { append: Some(append), home: Some(Arc::clone(self)) })
        };
        let own = lent_append.append()?.over(&base).await;
        let mut block = self.0.lock();
        if let Some(append) = lent_append.append.take() {
            block.take_back(append, None);
        }
        if block.state == TransactionState::Block && block.lost.is_none() {
            block.own = own.as_ref().ok().cloned();
        }
        own
    }

    /// The chronicles to which the block has written rows or deletes.
    pub fn written(&self) -> Vec<ChronicleId> {
        self.0.lock().written.iter().copied().collect()
    }

    /// Checks that a statement may write now.
    ///
    /// # Errors
    /// `ReadOnlyTransaction`.
    pub fn check_write(&self, read_only_default: bool) -> Result<()> {
        let block = self.0.lock();
        let read_only = match block.state {
            TransactionState::Idle => read_only_default,
            TransactionState::Block | TransactionState::Failed => block.modes.read_only,
        };
        if read_only {
            return Err(Error::new(
                ErrorKind::ReadOnlyTransaction,
                "cannot write in a read-only transaction",
            ));
        }
        Ok(())
    }

    /// The catalog in the block's view; `None` for the common catalog.
    pub fn catalog(&self) -> Option<Arc<CatalogState>> {
        self.0.lock().definition.as_ref().map(Definition::state)
    }

    /// The uncommitted definitions (DDL) of the block; `None` without definitions.
    pub fn definition(&self) -> Option<Definition> {
        self.0.lock().definition.clone()
    }

    /// The definitions of the block, if the definitions are based on an older version of the common
    /// catalog than `everybodys`, the current version.
    pub fn definition_behind(&self, everybodys: u64) -> Option<Definition> {
        let block = self.0.lock();
        block.definition.as_ref().filter(|definition| definition.is_behind(everybodys)).cloned()
    }

    /// Replaces the definitions of the open block. Outside of a block, has no effect.
    pub fn define(&self, definition: Definition) {
        let mut block = self.0.lock();
        if block.state == TransactionState::Block {
            block.definition = Some(definition);
        }
    }

    /// Checks that no block is open, for a statement that cannot be part of a block.
    ///
    /// # Errors
    /// `ActiveTransaction`.
    pub fn check_outside(&self, command: &str) -> Result<()> {
        match self.state() {
            TransactionState::Idle => Ok(()),
            TransactionState::Block | TransactionState::Failed => Err(Error::new(
                ErrorKind::ActiveTransaction,
                format!("{command} cannot run inside a transaction block"),
            )
            .with_hint("run the statement without BEGIN, or in the autocommit mode of the driver")),
        }
    }

    /// Lends the append to a statement that writes: the append of the block, or a new append.
    /// `numbered` is true if the statement's producer numbers the append.
    ///
    /// # Errors
    /// The errors of `begin`; `FeatureNotSupported` for a number within a block; `LeaseLost` if the
    /// rows written by the block are lost.
    pub fn lend(
        self: &Arc<Self>,
        numbered: bool,
        begin: impl FnOnce() -> Result<Box<dyn Append>>,
    ) -> Result<LentAppend> {
        let mut block = self.0.lock();
        if block.state == TransactionState::Idle {
            return Ok(LentAppend { append: Some(begin()?), home: None });
        }
        if block.lost.is_some() {
            return Err(missing_append_error(block.lost.as_ref()));
        }
        if numbered && block.definition.is_some() {
            return Err(Error::not_yet("stratalog.producer_sequence in a block with definitions")
                .with_hint("COMMIT the definitions first"));
        }
        let append = match block.append.take() {
            Some(append) if numbered => {
                block.append = Some(append);
                return Err(Error::new(
                    ErrorKind::FeatureNotSupported,
                    "stratalog.producer_sequence numbers a complete block",
                )
                .with_hint("set stratalog.producer_sequence before the first writing statement of the block"));
            }
            Some(append) => append,
            None if block.written.is_empty() => {
                block.numbered = numbered;
                begin()?
            }
            None => return Err(append_is_lent()),
        };
        Ok(LentAppend { append: Some(append), home: Some(Arc::clone(self)) })
    }

    /// Sets a savepoint. `marks` is the state of the settings and cursors now.
    ///
    /// # Errors
    /// `NoActiveTransaction` outside of a block; `LimitExceeded`.
    pub fn savepoint(&self, name: &str, marks: SavepointState) -> Result<()> {
        let mut block = self.0.lock();
        let block = &mut *block;
        block.check_open("SAVEPOINT")?;
        if block.savepoints.len() >= SAVEPOINTS_MAX {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("a block has at most {SAVEPOINTS_MAX} savepoints"),
            )
            .with_hint("RELEASE unneeded savepoints"));
        }
        let mark = block.append.as_mut().map(|append| append.savepoint()).transpose()?;
        block.savepoints.push(Savepoint {
            name: name.to_string(),
            mark,
            written: Arc::clone(&block.written),
            definition: block.definition.clone(),
            modes: block.modes,
            marks,
        });
        Ok(())
    }

    /// RELEASE: removes a savepoint and all later savepoints.
    ///
    /// # Errors
    /// `NoActiveTransaction` outside of a block; `InvalidSavepoint`.
    pub fn release(&self, name: &str) -> Result<()> {
        let mut block = self.0.lock();
        let block = &mut *block;
        block.check_open("RELEASE SAVEPOINT")?;
        let at = block.find(name)?;
        // Like in PostgreSQL, modes set after the savepoint end with the savepoint.
        if let Some(savepoint) = block.savepoints.drain(at..).next() {
            block.modes = savepoint.modes;
        }
        let last = block.savepoints.iter().filter_map(|savepoint| savepoint.mark).max();
        if let Some(append) = &mut block.append {
            append.release(last.unwrap_or(0));
        }
        Ok(())
    }

    /// ROLLBACK TO: undoes all changes since a savepoint. Returns the marks of the savepoint.
    ///
    /// # Errors
    /// `NoActiveTransaction` outside of a block; `InvalidSavepoint`; `LeaseLost` if rows written
    /// before the savepoint are lost.
    pub fn roll_back_to(&self, name: &str) -> Result<SavepointState> {
        let mut block = self.0.lock();
        let block = &mut *block;
        block.check_open("ROLLBACK TO SAVEPOINT")?;
        let at = block.find(name)?;
        block.savepoints.truncate(at + 1);
        let Some(savepoint) = block.savepoints.last() else { return Err(no_savepoint(name)) };
        match (&mut block.append, savepoint.mark) {
            (Some(append), Some(mark)) => append.roll_back_to(mark),
            // Rows written before the savepoint must not be forgotten.
            (None, Some(_)) => return Err(missing_append_error(block.lost.as_ref())),
            (append, None) => *append = None,
        }
        block.written = Arc::clone(&savepoint.written);
        (block.own, block.modes) = (None, savepoint.modes);
        block.definition.clone_from(&savepoint.definition);
        block.state = TransactionState::Block;
        Ok(savepoint.marks.clone())
    }
}

impl Block {
    fn check_open(&self, command: &str) -> Result<()> {
        match self.state {
            TransactionState::Block | TransactionState::Failed if !self.implicit => Ok(()),
            _ => Err(Error::new(
                ErrorKind::NoActiveTransaction,
                format!("{command} can only be used in transaction blocks"),
            )),
        }
    }

    /// The index of the newest savepoint called `name`.
    fn find(&self, name: &str) -> Result<usize> {
        let at = self.savepoints.iter().rposition(|savepoint| savepoint.name == name);
        at.ok_or_else(|| no_savepoint(name))
    }

    /// Takes back the append that a statement borrowed. `wrote` is the chronicle that the statement
    /// wrote to, if any.
    fn take_back(&mut self, append: Box<dyn Append>, wrote: Option<ChronicleId>) {
        match self.state {
            // The rows were lost meanwhile: drop the append.
            TransactionState::Block if self.lost.is_some() => {}
            TransactionState::Failed if self.lost.is_some() => return,
            TransactionState::Block => self.append = Some(append),
            // Keep the append for a return to a savepoint.
            TransactionState::Failed if !self.savepoints.is_empty() => self.append = Some(append),
            TransactionState::Failed | TransactionState::Idle => return,
        }
        self.own = None;
        if let Some(wrote) = wrote.filter(|wrote| !self.written.contains(wrote)) {
            Arc::make_mut(&mut self.written).insert(wrote);
        }
    }
}

impl LentAppend {
    /// The append that the statement writes to.
    ///
    /// # Errors
    /// `Internal` if the append was already given back to the block.
    pub fn append(&mut self) -> Result<&mut Box<dyn Append>> {
        self.append.as_mut().ok_or_else(append_is_lent)
    }

    /// Ends a statement that has written all its rows to a chronicle: the rows belong to the block.
    /// Outside of a block, returns the append for the commit.
    pub fn finish(mut self, chronicle: ChronicleId) -> Option<Box<dyn Append>> {
        let append = self.append.take()?;
        let Some(home) = &self.home else { return Some(append) };
        home.0.lock().take_back(append, Some(chronicle));
        None
    }
}

impl Drop for LentAppend {
    fn drop(&mut self) {
        let (Some(append), Some(home)) = (self.append.take(), &self.home) else { return };
        home.fail();
        home.0.lock().take_back(append, None);
    }
}

/// The error if another statement still borrows the append. Statements of a block run one at a
/// time: only a defect causes this error.
pub fn append_is_lent() -> Error {
    Error::internal("another statement of the block is writing")
}

fn no_savepoint(name: &str) -> Error {
    let message = format!("savepoint \"{name}\" does not exist");
    Error::new(ErrorKind::InvalidSavepoint, message)
}
