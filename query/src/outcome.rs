//! The results of statements.

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

use crate::{CopyProgress, measurement::Measurement};

/// The result of one statement. A drop cancels the statement and frees its resources.
#[derive(Debug)]
pub enum Outcome {
    /// Rows, streamed during execution.
    Rows(Rows),
    /// Only a complete command tag: `CREATE TABLE`, `INSERT 0 5`, `BEGIN` …
    Done(String),
    /// The statement waits for rows: COPY … FROM STDIN.
    CopyIn(Box<CopyIn>),
    /// Rows that the protocol writes in a COPY format: COPY … TO STDOUT.
    CopyOut(CopyOut),
    /// The SQL string contained no statement.
    Empty,
}

impl Outcome {
    /// Measures the duration of the statement until the last row of its result; for a result
    /// without rows, the measurement ends now.
    pub(crate) fn measured_by(self, measurement: Measurement) -> Self {
        match self {
            Outcome::Rows(rows) => Outcome::Rows(rows.measured_by(measurement)),
            Outcome::CopyOut(CopyOut { options, is_table, rows, progress }) => {
                let rows = rows.measured_by(measurement);
                Outcome::CopyOut(CopyOut { options, is_table, rows, progress })
            }
            // The duration of a COPY FROM STDIN depends on the client.
            Outcome::CopyIn(copy) => {
                measurement.discard();
                Outcome::CopyIn(copy)
            }
            outcome @ (Outcome::Done(_) | Outcome::Empty) => outcome,
        }
    }
}

/// The form of the command tag that ends a statement with rows.
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
    /// Only a word: `EXPLAIN`, `SHOW`.
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

/// The rows of a result: a stream of batches with one schema.
pub struct Rows {
    schema: SchemaRef,
    stream: BoxStream<'static, Result<RecordBatch>>,
    tag: RowsTag,
    rows: u64,
    binary: bool,
    endless: bool,
    /// Ends with the last row, an error, or the drop of the rows.
    measurement: Option<Measurement>,
    rights: Option<RightsCheck>,
}

/// Checks that the session may still read the columns of some rows.
pub(crate) type RightsCheck = Box<dyn Fn() -> Result<()> + Send + Sync>;

impl Rows {
    /// Rows of `schema` that `stream` produces.
    pub fn new(
        schema: SchemaRef,
        stream: BoxStream<'static, Result<RecordBatch>>,
        tag: RowsTag,
    ) -> Self {
        Self {
            schema,
            stream,
            tag,
            rows: 0,
            binary: false,
            endless: false,
            measurement: None,
            rights: None,
        }
    }

    /// Marks the rows as endless: a protocol must send available rows immediately, without waiting
    /// for more rows.
    #[must_use]
    pub fn without_end(mut self) -> Self {
        self.endless = true;
        self
    }

    /// Sets the check of [`Self::check_rights`].
    #[must_use]
    pub(crate) fn checked_by(mut self, rights: RightsCheck) -> Self {
        self.rights = Some(rights);
        self
    }

    /// Checks that the session may still read the columns of the rows. The stream itself checks
    /// each new batch; a protocol calls this function before it sends the rest of a batch in a later
    /// step.
    ///
    /// # Errors
    /// `InsufficientPrivilege`; `UndefinedTable` if the session may no longer know of a table;
    /// `InvalidAuthorization`.
    pub fn check_rights(&self) -> Result<()> {
        self.rights.as_ref().map_or(Ok(()), |check| check())
    }

    /// Records the duration and the number of rows in the metrics, unless the rows are endless.
    #[must_use]
    fn measured_by(mut self, mut measurement: Measurement) -> Self {
        if self.endless {
            measurement.discard();
        } else {
            measurement.add_rows(0);
            self.measurement = Some(measurement);
        }
        self
    }

    /// True if the rows have no end.
    pub fn is_endless(&self) -> bool {
        self.endless
    }

    /// Marks the rows of a binary cursor: protocols write the rows in binary unless the client
    /// chooses a format.
    #[must_use]
    pub fn in_binary(mut self, binary: bool) -> Self {
        self.binary = binary;
        self
    }

    /// True for rows of a binary cursor.
    pub fn is_binary(&self) -> bool {
        self.binary
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The command tag for the rows streamed so far.
    pub fn tag(&self) -> String {
        self.tag.after(self.rows)
    }

    /// The form of the tag, for a protocol that counts rows itself (suspended portals).
    pub fn tag_kind(&self) -> RowsTag {
        self.tag
    }
}

impl Stream for Rows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.stream.as_mut().poll_next(context);
        match &next {
            Poll::Ready(Some(Ok(batch))) => {
                let rows = batch.num_rows() as u64;
                self.rows = self.rows.saturating_add(rows);
                if let Some(measurement) = &mut self.measurement {
                    measurement.add_rows(rows);
                }
            }
            Poll::Ready(Some(Err(error))) => {
                if let Some(measurement) = self.measurement.take() {
                    measurement.fail(error);
                }
            }
            Poll::Ready(None) => self.measurement = None,
            Poll::Pending => {}
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
    /// Name and type of each column of the data, in order.
    pub columns: Vec<(String, ColumnType)>,
    /// Names of the NOT NULL columns.
    pub required: Vec<String>,
    /// True if `columns` are all columns of the table in the table's order.
    pub whole_rows: bool,
    /// True if the data may omit its last column, for all rows.
    pub last_is_optional: bool,
    /// Receives the rows and stores them.
    pub sink: CopySink,
    /// The progress counters: the protocol counts bytes, the sink counts rows.
    pub progress: Arc<CopyProgress>,
}

/// A COPY … TO STDOUT.
#[derive(Debug)]
pub struct CopyOut {
    /// The requested format.
    pub options: CopyOptions,
    /// True for a copy of a table, false for the result of a query.
    pub is_table: bool,
    /// The rows; the protocol counts the rows and makes the tag `COPY n`.
    pub rows: Rows,
    /// The protocol's counters of sent data.
    pub progress: Arc<CopyProgress>,
}

pub use crate::statement::copy::CopySink;
