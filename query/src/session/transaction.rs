//! The transaction block of a session.
//!
//! ```text
//!   BEGIN ─► reads: one snapshot ─────────────────┐
//!            writes: one append, lent to each ────┴► read of a table written to: both
//!            deletes: in the same append
//!            SAVEPOINT: a mark in the append
//!   COMMIT ─► the append, at once and whole
//! ```
//! Only the block sees what the block defines, until COMMIT: one record of the catalog decides about
//! definitions and rows (RFC 0023). After ADD COLUMN to an existing table the block inserts no row into
//! that table: another block may give the same schema version to other columns.

mod defining;
mod lost;
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
use stratalog_visor_core::{CatalogState, acquisition::Using};

use self::lost::missing;
pub use self::modes::{Isolation, Modes};
use super::{TransactionState, definition::Definition, variables::Marked};

/// Savepoints that a block has at a time.
const SAVEPOINTS_MAX: usize = 1 << 16;

/// Where a session stands, and what its block holds.
#[derive(Default)]
pub struct Transaction(Mutex<Block>);

#[derive(Default)]
struct Block {
    state: TransactionState,
    /// Nobody said BEGIN: it lasts as long as a message or a pipeline.
    implicit: bool,
    modes: Modes,
    snapshot: Option<Arc<dyn Snapshot>>,
    /// What was written; lent out while a statement writes or reads it.
    append: Option<Box<dyn Append>>,
    /// Whether a producer numbers the append.
    numbered: bool,
    written: Arc<BTreeSet<ChronicleId>>,
    /// The chronicles that statements began to write to, statements that were rolled back included, and
    /// the highest schema version of a write.
    touched: BTreeMap<ChronicleId, SchemaVersion>,
    /// What the block sees of `snapshot` and `append`, until it writes again.
    own: Option<Arc<dyn Snapshot>>,
    savepoints: Vec<Savepoint>,
    /// The chronicles that its statements use, each once for reading and once for writing.
    uses: Vec<Using>,
    /// Dropped after what was written to its tables.
    definition: Option<Definition>,
    /// What was written is lost, with a lease, and dropped: what a statement is told that needs it.
    lost: Option<Error>,
    began_ns: Option<i64>,
    /// A statement that reads or writes has begun: the modes of the block are settled.
    queried: bool,
}

/// A place to come back to.
struct Savepoint {
    name: String,
    /// Where, in the append; `None` when there was none.
    mark: Option<usize>,
    written: Arc<BTreeSet<ChronicleId>>,
    definition: Option<Definition>,
    modes: Modes,
    marks: Marks,
}

/// The settings of then, and how many cursors had been declared.
pub type Marks = (Marked, u64);

/// What a block held when it ended: to be carried out by COMMIT, dropped by ROLLBACK.
pub struct Ended {
    /// Where the session stood.
    pub state: TransactionState,
    /// Whether rows were written or deleted: the append exists, or the rows are lost.
    pub wrote: bool,
    /// The rows that were written.
    pub append: Option<Box<dyn Append>>,
    /// What was defined.
    pub definition: Option<Definition>,
    /// The chronicles that it used.
    pub uses: Vec<Using>,
    /// Why the rows that were written can not be committed.
    pub lost: Option<Error>,
}

/// The append of a block, in the hands of one statement; or that of a statement by itself.
/// Dropped unfinished, it makes the block fail.
pub struct Lent {
    append: Option<Box<dyn Append>>,
    home: Option<Arc<Transaction>>,
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

    /// Opens a block; false when one is open. An implicit one becomes one that is not.
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

    /// Whether a block is open that nobody began.
    pub fn is_implicit(&self) -> bool {
        self.0.lock().implicit
    }

    /// How the open block reads and writes.
    pub fn modes(&self) -> Modes {
        self.0.lock().modes
    }

    /// Changes how the open block reads and writes.
    ///
    /// # Errors
    /// `ActiveTransaction` for another isolation level, or for READ WRITE in a block that is READ ONLY,
    /// after the first query of the block or a savepoint.
    pub fn set_modes(&self, modes: Modes) -> Result<()> {
        let mut block = self.0.lock();
        block.check_change(modes)?;
        block.modes = modes;
        Ok(())
    }

    /// A statement that reads or writes begins.
    pub fn note_query(&self) {
        let mut block = self.0.lock();
        block.queried |= block.state == TransactionState::Block;
    }

    /// When the open block began.
    pub fn began_ns(&self) -> Option<i64> {
        self.0.lock().began_ns
    }

    /// An error in a block: what it holds is dropped, unless there are savepoints to go back
    /// to, and only its end is accepted, or going back.
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

    /// Ends the block.
    pub fn end(&self) -> Ended {
        let block = std::mem::take(&mut *self.0.lock());
        Ended {
            state: block.state,
            wrote: !block.written.is_empty(),
            append: block.append,
            definition: block.definition,
            uses: block.uses,
            lost: block.lost,
        }
    }

    /// The snapshot that a statement uses now which reads the chronicles `reads`: one of what
    /// is committed, and, where the block wrote to one of them, of its own rows over that.
    ///
    /// # Errors
    /// Those of [`Append::over`]; `LeaseLost` when what the block wrote is lost.
    pub async fn snapshot(
        self: &Arc<Self>,
        store: &dyn EventStore,
        reads: &[ChronicleId],
    ) -> Result<Arc<dyn Snapshot>> {
        let (base, mut lent) = {
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
                return Err(missing(block.lost.as_ref()));
            };
            (base, Lent { append: Some(append), home: Some(Arc::clone(self)) })
        };
        let own = lent.append()?.over(&base).await;
        let mut block = self.0.lock();
        if let Some(append) = lent.append.take() {
            block.take_back(append, None);
        }
        if block.state == TransactionState::Block && block.lost.is_none() {
            block.own = own.as_ref().ok().cloned();
        }
        own
    }

    /// The chronicles that the block wrote to.
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

    /// The catalog as the block sees it; `None` as everybody does.
    pub fn catalog(&self) -> Option<Arc<CatalogState>> {
        self.0.lock().definition.as_ref().map(Definition::state)
    }

    /// What the block has defined so far.
    pub fn definition(&self) -> Option<Definition> {
        self.0.lock().definition.clone()
    }

    /// What the block has defined, if others have defined something since: as of this version of
    /// everybody's catalog.
    pub fn definition_behind(&self, everybodys: u64) -> Option<Definition> {
        let block = self.0.lock();
        block.definition.as_ref().filter(|definition| definition.is_behind(everybodys)).cloned()
    }

    /// The block has defined more.
    pub fn define(&self, definition: Definition) {
        let mut block = self.0.lock();
        if block.state == TransactionState::Block {
            block.definition = Some(definition);
        }
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
            )
            .with_hint("run it by itself: without BEGIN, or in the driver's autocommit mode")),
        }
    }

    /// The append for a statement that writes: the block's, or a new one. `numbered` when the
    /// statement's producer numbers it.
    ///
    /// # Errors
    /// What `begin` says; `FeatureNotSupported` for a number within a block; `LeaseLost` when what the
    /// block wrote is lost.
    pub fn lend(
        self: &Arc<Self>,
        numbered: bool,
        begin: impl FnOnce() -> Result<Box<dyn Append>>,
    ) -> Result<Lent> {
        let mut block = self.0.lock();
        if block.state == TransactionState::Idle {
            return Ok(Lent { append: Some(begin()?), home: None });
        }
        if block.lost.is_some() {
            return Err(missing(block.lost.as_ref()));
        }
        if numbered && block.definition.is_some() {
            return Err(Error::not_yet(
                "stratalog.producer_sequence in a block that defines something",
            )
            .with_hint("COMMIT the definitions first"));
        }
        let append = match block.append.take() {
            Some(append) if numbered => {
                block.append = Some(append);
                return Err(Error::new(
                    ErrorKind::FeatureNotSupported,
                    "stratalog.producer_sequence numbers a block as a whole",
                )
                .with_hint("set it before the first statement of the block that writes"));
            }
            Some(append) => append,
            None if block.written.is_empty() => {
                block.numbered = numbered;
                begin()?
            }
            None => return Err(lent_out()),
        };
        Ok(Lent { append: Some(append), home: Some(Arc::clone(self)) })
    }

    /// SAVEPOINT.
    ///
    /// # Errors
    /// `NoActiveTransaction` outside of a block; `LimitExceeded`.
    pub fn savepoint(&self, name: &str, marks: Marks) -> Result<()> {
        let mut block = self.0.lock();
        let block = &mut *block;
        block.check_open("SAVEPOINT")?;
        if block.savepoints.len() >= SAVEPOINTS_MAX {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("a block has at most {SAVEPOINTS_MAX} savepoints"),
            )
            .with_hint("RELEASE those that are no longer needed"));
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

    /// RELEASE: forgets a savepoint and those after it.
    ///
    /// # Errors
    /// `NoActiveTransaction` outside of a block; `InvalidSavepoint`.
    pub fn release(&self, name: &str) -> Result<()> {
        let mut block = self.0.lock();
        let block = &mut *block;
        block.check_open("RELEASE SAVEPOINT")?;
        let at = block.find(name)?;
        // Modes that were set after the savepoint end with it, as in PostgreSQL.
        if let Some(savepoint) = block.savepoints.drain(at..).next() {
            block.modes = savepoint.modes;
        }
        let last = block.savepoints.iter().filter_map(|savepoint| savepoint.mark).max();
        if let Some(append) = &mut block.append {
            append.release(last.unwrap_or(0));
        }
        Ok(())
    }

    /// ROLLBACK TO: what came after a savepoint is undone. Returns what was marked then.
    ///
    /// # Errors
    /// `NoActiveTransaction` outside of a block; `InvalidSavepoint`; `LeaseLost` when what was written before
    /// the savepoint is lost.
    pub fn roll_back_to(&self, name: &str) -> Result<Marks> {
        let mut block = self.0.lock();
        let block = &mut *block;
        block.check_open("ROLLBACK TO SAVEPOINT")?;
        let at = block.find(name)?;
        block.savepoints.truncate(at + 1);
        let Some(savepoint) = block.savepoints.last() else { return Err(no_savepoint(name)) };
        match (&mut block.append, savepoint.mark) {
            (Some(append), Some(mark)) => append.roll_back_to(mark),
            // What stands before the savepoint must not be forgotten.
            (None, Some(_)) => return Err(missing(block.lost.as_ref())),
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

    /// The last savepoint of a name.
    fn find(&self, name: &str) -> Result<usize> {
        let at = self.savepoints.iter().rposition(|savepoint| savepoint.name == name);
        at.ok_or_else(|| no_savepoint(name))
    }

    /// The append comes home from a statement.
    fn take_back(&mut self, append: Box<dyn Append>, wrote: Option<ChronicleId>) {
        match self.state {
            // It was lost meanwhile, and goes.
            TransactionState::Block if self.lost.is_some() => {}
            TransactionState::Failed if self.lost.is_some() => return,
            TransactionState::Block => self.append = Some(append),
            // What there is to go back to.
            TransactionState::Failed if !self.savepoints.is_empty() => self.append = Some(append),
            TransactionState::Failed | TransactionState::Idle => return,
        }
        self.own = None;
        if let Some(wrote) = wrote.filter(|wrote| !self.written.contains(wrote)) {
            Arc::make_mut(&mut self.written).insert(wrote);
        }
    }
}

impl Lent {
    /// The append.
    ///
    /// # Errors
    /// `Internal` when it was given back.
    pub fn append(&mut self) -> Result<&mut Box<dyn Append>> {
        self.append.as_mut().ok_or_else(lent_out)
    }

    /// The statement has written all its rows, to a chronicle: they are the block's. Outside
    /// of a block it gets the append, to be committed.
    pub fn finish(mut self, chronicle: ChronicleId) -> Option<Box<dyn Append>> {
        let append = self.append.take()?;
        let Some(home) = &self.home else { return Some(append) };
        home.0.lock().take_back(append, Some(chronicle));
        None
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let (Some(append), Some(home)) = (self.append.take(), &self.home) else { return };
        home.fail();
        home.0.lock().take_back(append, None);
    }
}

/// The append of a block is in other hands: a defect.
pub fn lent_out() -> Error {
    Error::internal("another statement of the block is writing")
}

fn no_savepoint(name: &str) -> Error {
    let message = format!("savepoint \"{name}\" does not exist");
    Error::new(ErrorKind::InvalidSavepoint, message)
}
