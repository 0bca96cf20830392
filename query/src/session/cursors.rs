//! The cursors of a session, by name.

use std::{collections::BTreeMap, sync::Arc};

use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use stratalog_model::{ChronicleId, Error, ErrorKind, Result};
use stratalog_pg_catalog::{CursorRow, CursorsView};
use stratalog_visor_core::acquisition::Using;

use super::{
    cursor::{SharedCursor, SqlCursor},
    work::Work,
};

/// Cursors that a session has open at a time.
const CURSORS_MAX: usize = 1_000;

/// The open cursors.
#[derive(Debug, Default)]
pub struct Cursors(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    by_name: BTreeMap<String, OpenCursor>,
    declared: u64,
}

/// What a session knows of a cursor.
#[derive(Debug, Clone)]
pub struct OpenCursor {
    /// The cursor.
    pub cursor: SharedCursor,
    /// Shape of its rows.
    pub schema: SchemaRef,
    /// What its query does.
    pub work: Arc<Work>,
    /// The statement that declared it.
    pub statement: String,
    /// WITH HOLD.
    pub holds: bool,
    /// SCROLL.
    pub scrolls: bool,
    /// BINARY.
    pub is_binary: bool,
    /// Nanoseconds since 1970 of its declaration.
    pub declared_ns: i64,
    /// What its query reads.
    pub reads: Reads,
    /// Cursors that were declared before it.
    number: u64,
    /// The block that declared it has not ended.
    in_block: bool,
}

/// What the query of a cursor reads.
#[derive(Debug, Clone)]
pub struct Reads {
    /// The chronicles.
    pub chronicles: Arc<[ChronicleId]>,
    _uses: Option<Arc<[Using]>>,
}

impl Reads {
    /// These chronicles; `uses` are those of a cursor that outlives the block in which it is declared.
    pub fn new(chronicles: &[ChronicleId], uses: Option<Arc<[Using]>>) -> Self {
        Self { chronicles: chronicles.into(), _uses: uses }
    }
}

/// How a cursor is declared.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// WITH HOLD.
    pub holds: bool,
    /// BINARY.
    pub is_binary: bool,
    /// A block is open.
    pub in_block: bool,
}

impl Cursors {
    /// Takes a new cursor.
    ///
    /// # Errors
    /// `DuplicateCursor`, `LimitExceeded`.
    pub fn declare(
        &self,
        name: &str,
        (cursor, work, reads): (SqlCursor, Arc<Work>, Reads),
        statement: &str,
        kind: Kind,
        now_ns: i64,
    ) -> Result<()> {
        let mut open = self.0.lock();
        check_free(&open, name)?;
        open.declared += 1;
        let declared = OpenCursor {
            schema: Arc::clone(cursor.schema()),
            work,
            statement: statement.to_string(),
            holds: kind.holds,
            scrolls: cursor.scrolls(),
            is_binary: kind.is_binary,
            declared_ns: now_ns,
            reads,
            number: open.declared,
            in_block: kind.in_block,
            cursor: Arc::new(tokio::sync::Mutex::new(cursor)),
        };
        open.by_name.insert(name.to_string(), declared);
        Ok(())
    }

    /// Checks that a cursor of that name could be declared.
    ///
    /// # Errors
    /// As [`Self::declare`].
    pub fn check_free(&self, name: &str) -> Result<()> {
        check_free(&self.0.lock(), name)
    }

    /// The cursor of a name.
    ///
    /// # Errors
    /// `InvalidCursorName`.
    pub fn find(&self, name: &str) -> Result<OpenCursor> {
        self.0.lock().by_name.get(name).cloned().ok_or_else(|| unknown(name))
    }

    /// CLOSE; whether there was one.
    pub fn close(&self, name: &str) -> bool {
        self.0.lock().by_name.remove(name).is_some()
    }

    /// CLOSE ALL.
    pub fn close_all(&self) {
        self.0.lock().by_name.clear();
    }

    /// The block ends: what does not hold is closed, and what it declared in vain.
    pub fn end(&self, committed: bool) {
        let mut open = self.0.lock();
        open.by_name.retain(|_, cursor| !cursor.in_block || cursor.holds && committed);
        open.by_name.values_mut().for_each(|cursor| cursor.in_block = false);
    }

    /// A place for [`Self::go_back`].
    pub fn mark(&self) -> u64 {
        self.0.lock().declared
    }

    /// Closes what was declared since.
    pub fn go_back(&self, mark: u64) {
        self.0.lock().by_name.retain(|_, cursor| cursor.number <= mark);
    }
}

impl CursorsView for Cursors {
    fn cursors(&self) -> Vec<CursorRow> {
        let open = self.0.lock();
        let row = |(name, cursor): (&String, &OpenCursor)| CursorRow {
            name: name.clone(),
            statement: cursor.statement.clone(),
            holds: cursor.holds,
            scrolls: cursor.scrolls,
            is_binary: cursor.is_binary,
            declared_us: cursor.declared_ns.div_euclid(1_000),
        };
        open.by_name.iter().map(row).collect()
    }
}

fn check_free(open: &Open, name: &str) -> Result<()> {
    if open.by_name.contains_key(name) {
        let message = format!("cursor \"{name}\" already exists");
        return Err(Error::new(ErrorKind::DuplicateCursor, message));
    }
    if open.by_name.len() >= CURSORS_MAX {
        let message = format!("the session already has {CURSORS_MAX} open cursors");
        return Err(Error::new(ErrorKind::LimitExceeded, message).with_hint("CLOSE some of them"));
    }
    Ok(())
}

fn unknown(name: &str) -> Error {
    let message = format!("cursor \"{name}\" does not exist");
    Error::new(ErrorKind::InvalidCursorName, message)
}
