//! The cursors of a session, by name.

use std::{collections::BTreeMap, sync::Arc};

use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_pg_catalog::{CursorRow, CursorsView};
use stratalog_visor_core::acquisition::UseGuard;

use super::{
    cursor::{SharedCursor, SqlCursor},
    work::Work,
};
use crate::statement::column_reads::ColumnReads;

/// Maximum number of open cursors of a session.
const CURSORS_MAX: usize = 1_000;

/// The open cursors.
#[derive(Debug, Default)]
pub struct Cursors(Mutex<OpenCursors>);

#[derive(Debug, Default)]
struct OpenCursors {
    by_name: BTreeMap<String, OpenCursor>,
    declared: u64,
}

/// An open cursor, and its properties for `pg_cursors`.
#[derive(Debug, Clone)]
pub struct OpenCursor {
    /// The cursor.
    pub cursor: SharedCursor,
    /// Schema of the rows.
    pub schema: SchemaRef,
    /// The running query of the cursor, for cancellation.
    pub work: Arc<Work>,
    /// The text of the statement that declared the cursor.
    pub statement: String,
    /// Declared WITH HOLD: the cursor stays open after the commit of its block.
    pub holds: bool,
    /// Declared with SCROLL: the cursor can move back.
    pub scrolls: bool,
    /// Declared BINARY: protocols send the rows in binary format.
    pub is_binary: bool,
    /// Declaration time: nanoseconds since 1970.
    pub declared_ns: i64,
    /// The chronicles read by the query.
    pub reads: Reads,
    /// The number of the cursor, counted from 1 in the order of declaration.
    number: u64,
    /// True until the block that declared the cursor ends.
    in_block: bool,
}

/// The chronicles that the query of a cursor reads.
#[derive(Debug, Clone)]
pub struct Reads {
    /// The chronicles and columns.
    pub columns: Arc<ColumnReads>,
    _uses: Option<Arc<[UseGuard]>>,
}

impl Reads {
    /// `uses` are guards that mark the chronicles as in use, for a cursor that outlives its block;
    /// otherwise `None`.
    pub fn new(columns: &Arc<ColumnReads>, uses: Option<Arc<[UseGuard]>>) -> Self {
        Self { columns: Arc::clone(columns), _uses: uses }
    }
}

/// The options of DECLARE, and whether a block is open.
#[derive(Debug, Clone, Copy)]
pub struct CursorKind {
    /// Declared WITH HOLD: the cursor stays open after the commit of its block.
    pub holds: bool,
    /// Declared BINARY: protocols send the rows in binary format.
    pub is_binary: bool,
    /// True if DECLARE runs in a block.
    pub in_block: bool,
}

impl Cursors {
    /// Adds a new cursor.
    ///
    /// # Errors
    /// `DuplicateCursor`, `LimitExceeded`.
    pub fn declare(
        &self,
        name: &str,
        (cursor, work, reads): (SqlCursor, Arc<Work>, Reads),
        statement: &str,
        kind: CursorKind,
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

    /// Checks that a cursor with this name can be declared.
    ///
    /// # Errors
    /// The errors of [`Self::declare`].
    pub fn check_free(&self, name: &str) -> Result<()> {
        check_free(&self.0.lock(), name)
    }

    /// The cursor with a name.
    ///
    /// # Errors
    /// `InvalidCursorName`.
    pub fn find(&self, name: &str) -> Result<OpenCursor> {
        self.0.lock().by_name.get(name).cloned().ok_or_else(|| unknown(name))
    }

    /// Closes a cursor. Returns whether the cursor existed.
    pub fn close(&self, name: &str) -> bool {
        self.0.lock().by_name.remove(name).is_some()
    }

    /// Closes all cursors.
    pub fn close_all(&self) {
        self.0.lock().by_name.clear();
    }

    /// Handles the end of a block. Of the cursors declared in the block, only cursors WITH HOLD
    /// stay open, and only after a commit.
    pub fn end(&self, committed: bool) {
        let mut open = self.0.lock();
        open.by_name.retain(|_, cursor| !cursor.in_block || cursor.holds && committed);
        open.by_name.values_mut().for_each(|cursor| cursor.in_block = false);
    }

    /// A mark for [`Self::go_back`]: the number of cursors declared so far.
    pub fn mark(&self) -> u64 {
        self.0.lock().declared
    }

    /// Closes the cursors declared after the mark.
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

fn check_free(open: &OpenCursors, name: &str) -> Result<()> {
    if open.by_name.contains_key(name) {
        let message = format!("cursor \"{name}\" already exists");
        return Err(Error::new(ErrorKind::DuplicateCursor, message));
    }
    if open.by_name.len() >= CURSORS_MAX {
        let message = format!("the session already has {CURSORS_MAX} open cursors");
        return Err(Error::new(ErrorKind::LimitExceeded, message).with_hint("CLOSE some cursors"));
    }
    Ok(())
}

fn unknown(name: &str) -> Error {
    let message = format!("cursor \"{name}\" does not exist");
    Error::new(ErrorKind::InvalidCursorName, message)
}
