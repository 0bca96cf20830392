//! What a statement gives back.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use futures::{Stream, stream::BoxStream};
use stratalog_model::{ColumnType, Result};
use stratalog_text::copy::CopyOptions;

use crate::CopyProgress;

/// The result of one statement. Dropping it cancels its work and frees what it held.
#[derive(Debug)]
pub enum Outcome {
    /// Rows, as they are produced.
    Rows(Rows),
    /// Nothing but a complete command tag: `CREATE TABLE`, `INSERT 0 5`, `BEGIN` …
    Done(String),
    /// The statement waits for rows: COPY … FROM STDIN.
    CopyIn(Box<CopyIn>),
    /// Rows to be written in a COPY format: COPY … TO STDOUT.
    CopyOut(CopyOut),
    /// The string held no statement.
    Empty,
}

/// How the command tag of a statement with rows is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsTag {
    /// `SELECT n`
    Select,
    /// `INSERT 0 n`
    Insert,
    /// `FETCH n`
    Fetch,
    /// `SUBSCRIBE n`
    Subscribe,
    /// Nothing but a word: `EXPLAIN`, `SHOW`.
    Word(&'static str),
}

impl RowsTag {
    /// The tag after `rows` rows.
    pub fn after(self, rows: u64) -> String {
        match self {
            RowsTag::Select => format!("SELECT {rows}"),
            RowsTag::Insert => format!("INSERT 0 {rows}"),
            RowsTag::Fetch => format!("FETCH {rows}"),
            RowsTag::Subscribe => format!("SUBSCRIBE {rows}"),
            RowsTag::Word(word) => word.to_string(),
        }
    }
}

/// A stream of batches of one schema.
pub struct Rows {
    schema: SchemaRef,
    stream: BoxStream<'static, Result<RecordBatch>>,
    tag: RowsTag,
    rows: u64,
    binary: bool,
    endless: bool,
}

impl Rows {
    /// Rows of `schema` that `stream` produces.
    pub fn new(
        schema: SchemaRef,
        stream: BoxStream<'static, Result<RecordBatch>>,
        tag: RowsTag,
    ) -> Self {
        Self { schema, stream, tag, rows: 0, binary: false, endless: false }
    }

    /// They go on as long as somebody reads them: what is there must not wait for what comes.
    #[must_use]
    pub fn without_end(mut self) -> Self {
        self.endless = true;
        self
    }

    /// Whether they have no end.
    pub fn is_endless(&self) -> bool {
        self.endless
    }

    /// Whether protocols write them in binary where the client does not say how: those of a
    /// binary cursor.
    #[must_use]
    pub fn in_binary(mut self, binary: bool) -> Self {
        self.binary = binary;
        self
    }

    /// Whether they are of a binary cursor.
    pub fn is_binary(&self) -> bool {
        self.binary
    }

    /// Shape of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The command tag for the rows that the stream gave so far.
    pub fn tag(&self) -> String {
        self.tag.after(self.rows)
    }

    /// How the tag is made, for a protocol that counts rows itself (suspended portals).
    pub fn tag_kind(&self) -> RowsTag {
        self.tag
    }
}

impl Stream for Rows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.stream.as_mut().poll_next(context);
        if let Poll::Ready(Some(Ok(batch))) = &next {
            self.rows = self.rows.saturating_add(batch.num_rows() as u64);
        }
        next
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("schema", &self.schema).field("tag", &self.tag).finish()
    }
}

/// A COPY … FROM STDIN that waits for rows.
#[derive(Debug)]
pub struct CopyIn {
    /// Name of the table, for messages: `COPY cpu, line 3`.
    pub table: String,
    /// Format of the data.
    pub options: CopyOptions,
    /// Columns of the data in order.
    pub columns: Vec<(String, ColumnType)>,
    /// Names of those that take no NULL.
    pub required: Vec<String>,
    /// Whether `columns` are all that the table has, in its order.
    pub whole_rows: bool,
    /// Whether the data may leave out its last column, for all rows.
    pub last_is_optional: bool,
    /// Takes the rows.
    pub sink: CopySink,
    /// Where what was done so far is counted: bytes by the protocol, rows by the sink.
    pub progress: Arc<CopyProgress>,
}

/// A COPY … TO STDOUT.
#[derive(Debug)]
pub struct CopyOut {
    /// Format wanted.
    pub options: CopyOptions,
    /// The rows; their tag is `COPY n`, made by the protocol that counts them.
    pub rows: Rows,
    /// Where the protocol counts what was sent.
    pub progress: Arc<CopyProgress>,
}

pub use crate::statement::copy::CopySink;
