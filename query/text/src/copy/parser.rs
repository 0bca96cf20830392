//! Parses the data of COPY … FROM into record batches, chunk by chunk.

use std::sync::Arc;

use arrow::{
    array::{BooleanArray, RecordBatch, RecordBatchOptions},
    compute::filter_record_batch,
    datatypes::{Schema, SchemaRef},
};
use memchr::{memchr, memchr_iter};
use stratalog_model::{ColumnType, Error, ErrorKind, Result};

use super::{
    CopyEncoding, CopyFormat, CopyHeader, CopyOptions, SkippedRows, UNTERMINATED_HINT,
    encoding::from_latin1,
    record::{Boundary, has_stray_return, invalid_encoding, stray},
    unterminated_detail,
};
use crate::{ColumnBuilder, TextStyle};

mod row;

/// The limits that bound the memory of a parser.
#[derive(Debug, Clone, Copy)]
pub struct CopyLimits {
    /// The maximum number of rows in a batch.
    pub batch_rows_max: usize,
    /// The approximate maximum number of input bytes for one batch.
    pub batch_bytes_max: usize,
    /// The maximum size of a record in bytes; a longer record is an error.
    pub record_bytes_max: usize,
}

impl Default for CopyLimits {
    fn default() -> Self {
        Self { batch_rows_max: 8_192, batch_bytes_max: 8 << 20, record_bytes_max: 64 << 20 }
    }
}

/// The line ending of the data. The first line determines the line ending for all lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineEnd {
    Newline,
    ReturnNewline,
}

#[derive(Debug)]
struct Column {
    name: String,
    builder: ColumnBuilder,
    force_not_null: bool,
    force_null: bool,
    required: bool,
}

/// Whether the records contain a value for the last column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastColumn {
    /// Every record must contain a value for the last column.
    Given,
    /// The first record will decide whether all records contain the last column.
    Undecided,
    /// No record contains the last column. Its values in the batches are NULL.
    LeftOut,
}

/// Converts the bytes of COPY … FROM to record batches. The caller passes chunks of any size. The
/// memory is bounded by the limits plus the size of the largest chunk.
#[derive(Debug)]
pub struct CopyParser {
    options: CopyOptions,
    table: String,
    style: TextStyle,
    limits: CopyLimits,
    schema: SchemaRef,
    columns: Vec<Column>,
    /// The bytes of the last record if it is not complete yet.
    pending: Vec<u8>,
    boundary: Boundary,
    line_end: Option<LineEnd>,
    line: u64,
    /// True if the options have a header line, and it is not read yet.
    header: bool,
    /// True after the end marker `\.`.
    done: bool,
    /// True if `columns` contains all columns of the table, in the table's order.
    whole_rows: bool,
    /// Whether the records contain the last column.
    last: LastColumn,
    batch_rows: usize,
    batch_bytes: usize,
    /// The indexes of the skipped rows within the current batch.
    batch_skipped: Vec<usize>,
    skipped: SkippedRows,
    scratch: Vec<u8>,
}

impl CopyParser {
    /// The capacity in bytes of the buffer for the incomplete record.
    pub fn pending_bytes(&self) -> usize {
        self.pending.capacity()
    }

    /// Creates a parser for data with these columns. The batches have the columns in the same
    /// order, and all columns are nullable.
    ///
    /// # Errors
    /// `UndefinedColumn` if an option names a column that is not in `columns`.
    pub fn new(
        options: CopyOptions,
        columns: Vec<(String, ColumnType)>,
        style: TextStyle,
    ) -> Result<Self> {
        let limits = CopyLimits::default();
        for (selection, what) in
            [(&options.force_not_null, "FORCE_NOT_NULL"), (&options.force_null, "FORCE_NULL")]
        {
            if let super::ColumnSelection::Named(names) = selection
                && let Some(name) =
                    names.iter().find(|name| columns.iter().all(|(column, _)| column != *name))
            {
                return Err(Error::new(
                    ErrorKind::UndefinedColumn,
                    format!("{what} column \"{name}\" not referenced by COPY"),
                ));
            }
        }
        let fields: Vec<_> =
            columns.iter().map(|(name, column_type)| column_type.arrow_field(name, true)).collect();
        let columns = columns
            .into_iter()
            .map(|(name, column_type)| Column {
                builder: ColumnBuilder::new(&column_type, limits.batch_rows_max),
                force_not_null: options.force_not_null.has(&name),
                force_null: options.force_null.has(&name),
                required: false,
                name,
            })
            .collect();
        Ok(Self {
            header: options.header != CopyHeader::Absent,
            options,
            table: "FROM".to_string(),
            style,
            limits,
            schema: Arc::new(Schema::new(fields)),
            columns,
            pending: Vec::new(),
            boundary: Boundary::default(),
            line_end: None,
            line: 0,
            done: false,
            whole_rows: false,
            last: LastColumn::Given,
            batch_rows: 0,
            batch_bytes: 0,
            batch_skipped: Vec::new(),
            skipped: SkippedRows::default(),
            scratch: Vec::new(),
        })
    }

    /// Sets the name of the table, which error messages contain, as in `COPY cpu, line 3`.
    #[must_use]
    pub fn for_table(mut self, table: impl Into<String>) -> Self {
        self.table = table.into();
        self
    }

    /// Makes NULL in the named columns an error, which contains the line number.
    #[must_use]
    pub fn requiring(mut self, names: &[String]) -> Self {
        for column in &mut self.columns {
            column.required = names.contains(&column.name);
        }
        self
    }

    /// Sets whether the columns are all columns of the table, in the table's order. If true, the
    /// message about a forbidden NULL shows the whole row.
    #[must_use]
    pub fn of_whole_rows(mut self, whole: bool) -> Self {
        self.whole_rows = whole;
        self
    }

    /// If `optional`, accepts data in which every record omits the last column. The number of
    /// fields in the first record decides whether the column is omitted; an omitted column is NULL.
    #[must_use]
    pub fn with_optional_last(mut self, optional: bool) -> Self {
        if optional && self.columns.len() > 1 {
            self.last = LastColumn::Undecided;
        }
        self
    }

    /// Replaces the default limits.
    #[must_use]
    pub fn with_limits(mut self, limits: CopyLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The rows skipped up to now because of invalid values.
    pub fn skipped(&self) -> &SkippedRows {
        &self.skipped
    }

    /// Parses a chunk of data, and returns the batches that are complete. After an error, the
    /// caller must drop the parser.
    ///
    /// # Errors
    /// PostgreSQL's errors for invalid data, with table, line and column as their context.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        if self.done {
            return Ok(batches);
        }
        let mut translated = Vec::new();
        let bytes = match self.options.encoding {
            CopyEncoding::Utf8 => bytes,
            CopyEncoding::Latin1 => {
                from_latin1(bytes, &mut translated);
                translated.as_slice()
            }
        };
        if self.pending.is_empty() {
            let consumed = self.consume(bytes, &mut batches)?;
            self.pending.extend_from_slice(bytes.get(consumed..).unwrap_or_default());
        } else {
            let mut pending = std::mem::take(&mut self.pending);
            pending.extend_from_slice(bytes);
            let consumed = self.consume(&pending, &mut batches)?;
            pending.drain(..consumed);
            self.pending = pending;
        }
        if self.done {
            self.pending = Vec::new();
        }
        self.check_record_length(self.pending.len())?;
        Ok(batches)
    }

    /// Parses the last record, which may have no newline, and returns the remaining rows as a
    /// batch.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(&mut self) -> Result<Option<RecordBatch>> {
        if !self.done && !self.pending.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            if let Some(quote) = self.boundary.open_quote() {
                self.line += 1;
                let before = memchr_iter(b'\n', pending.get(..quote).unwrap_or_default()).count();
                let line = self.line.saturating_add(u64::try_from(before).unwrap_or(0));
                return Err(Error::new(ErrorKind::BadCopyFormat, "unterminated CSV quoted field")
                    .with_detail(unterminated_detail(self.line, line))
                    .with_hint(UNTERMINATED_HINT)
                    .with_context(self.line_context(&pending)));
            }
            self.record(&pending, true)?;
        }
        if self.batch_rows == 0 { Ok(None) } else { self.batch() }
    }

    fn consume(&mut self, data: &[u8], batches: &mut Vec<RecordBatch>) -> Result<usize> {
        let mut start = 0;
        while let Some(rest) = data.get(start..)
            && let Some(length) = self.boundary.find(rest, &self.options)
        {
            self.check_record_length(length)?;
            self.record(rest.get(..length).unwrap_or_default(), false)?;
            start += length + 1;
            if self.done {
                break;
            }
            self.batch_bytes += length;
            if self.batch_rows >= self.limits.batch_rows_max
                || (self.batch_bytes >= self.limits.batch_bytes_max && self.batch_rows > 0)
            {
                batches.extend(self.batch()?);
            }
        }
        Ok(start)
    }

    fn check_record_length(&self, length: usize) -> Result<()> {
        if length <= self.limits.record_bytes_max {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::LimitExceeded,
            format!("a line of COPY data is longer than {} bytes", self.limits.record_bytes_max),
        )
        .with_hint("an unclosed quote makes all following text part of the line")
        .with_context(format!("COPY {}, line {}", self.table, self.line + 1)))
    }

    /// Parses one record; `raw` excludes the newline. `last` is true for the record at the end of
    /// the data.
    fn record(&mut self, raw: &[u8], last: bool) -> Result<()> {
        self.line += 1;
        let record = self.without_return(raw, last)?;
        if record == b"\\." {
            self.done = true;
            return Ok(());
        }
        let Ok(text) = simdutf8::basic::from_utf8(record) else {
            return Err(invalid_encoding(record)
                .with_context(format!("COPY {}, line {}", self.table, self.line)));
        };
        if memchr(0, record).is_some() {
            return Err(invalid_encoding(b"\0").with_context(self.line_context(record)));
        }
        if self.options.format == CopyFormat::Text && text.starts_with("\\.") {
            return Err(Error::new(ErrorKind::BadCopyFormat, "end-of-copy marker corrupt")
                .with_context(self.line_context(record)));
        }
        if self.header {
            self.header = false;
            return if self.options.header == CopyHeader::Match {
                self.check_header(text)
            } else {
                Ok(())
            };
        }
        self.fields(text)?;
        self.batch_rows += 1;
        if self.options.format == CopyFormat::Csv {
            let embedded = memchr_iter(b'\n', record).count();
            self.line += u64::try_from(embedded).unwrap_or(0);
        }
        Ok(())
    }

    /// Removes the carriage return of the line ending from a record. Refuses a carriage return at
    /// any other place.
    #[inline]
    fn without_return<'a>(&mut self, raw: &'a [u8], last: bool) -> Result<&'a [u8]> {
        let stripped = raw.strip_suffix(b"\r");
        let seen = if stripped.is_some() { LineEnd::ReturnNewline } else { LineEnd::Newline };
        let expected = *self.line_end.get_or_insert(seen);
        let fail = |error: Error| error.with_context(self.line_context(raw));
        let text = self.options.format == CopyFormat::Text;
        let literal = |what: &str, escape: &str| {
            Error::new(ErrorKind::BadCopyFormat, format!("literal {what} found in data"))
                .with_hint(format!("Use \"{escape}\" to represent {what}."))
        };
        let record = match (expected, stripped) {
            (LineEnd::ReturnNewline, Some(stripped)) => stripped,
            (LineEnd::ReturnNewline, None) if last => raw,
            (LineEnd::ReturnNewline, None) if text => {
                return Err(fail(literal("newline", "\\n")));
            }
            (LineEnd::ReturnNewline, None) => return Err(fail(stray("newline"))),
            (LineEnd::Newline, _) => raw,
        };
        if memchr(b'\r', record).is_some() {
            if text && has_stray_return(record) {
                return Err(fail(literal("carriage return", "\\r")));
            }
            if !text && memchr(self.options.quote, record).is_none() {
                return Err(fail(stray("carriage return")));
            }
        }
        Ok(record)
    }

    fn line_context(&self, record: &[u8]) -> String {
        format!(
            "COPY {}, line {}: \"{}\"",
            self.table,
            self.line,
            shown_data(&String::from_utf8_lossy(record))
        )
    }

    /// Returns the collected rows as a batch, without skipped rows, and starts the next batch.
    /// `None` if all collected rows are skipped.
    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        let arrays = self.columns.iter_mut().map(|column| column.builder.finish()).collect();
        let rows = std::mem::take(&mut self.batch_rows);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        self.batch_bytes = 0;
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?;
        if self.batch_skipped.is_empty() {
            return Ok(Some(batch));
        }
        let mut kept = vec![true; rows];
        for row in self.batch_skipped.drain(..) {
            if let Some(keep) = kept.get_mut(row) {
                *keep = false;
            }
        }
        let batch = filter_record_batch(&batch, &BooleanArray::from(kept))?;
        Ok((batch.num_rows() > 0).then_some(batch))
    }
}

/// The first 100 characters of a text, for error messages. PostgreSQL has the same limit.
fn shown_data(text: &str) -> String {
    const SHOWN_MAX: usize = 100;
    match text.char_indices().nth(SHOWN_MAX) {
        None => text.to_string(),
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
    }
}
