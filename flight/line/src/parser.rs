//! Parses line protocol into rows, chunk by chunk.

mod boundary;
mod careful;
mod escape;
mod fast;
mod number;

use memchr::{memchr_iter, memrchr};
use stratalog_model::{Error, ErrorKind, Result};

use self::boundary::{LineEnd, indent};
use crate::{LineError, LineLimits, Precision, RowBuilder, TableRows, Tables, fault::LineErrors};

/// The number of bytes that the parser keeps of a line that is too long, to show them in the error.
const HEAD_BYTES: usize = 1 << 10;

/// Maximal capacity in bytes that the buffer for an incomplete line keeps after the line is read.
const PENDING_KEPT: usize = 64 << 10;

/// The parameters of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineRequest {
    /// The unit of the timestamps.
    pub precision: Precision,
    /// The time, in nanoseconds since 1970, of the first line without a timestamp. Each further
    /// line without a timestamp is one nanosecond later, so that the lines become different events.
    pub now_ns: i64,
}

/// The result of a request, without the rows that [`LineParser::take`] returned before the end.
#[derive(Debug)]
pub struct Outcome {
    /// The rows that [`LineParser::take`] did not return before.
    pub tables: Vec<TableRows>,
    /// The first errors, up to `errors_max` of the limits.
    pub errors: Vec<LineError>,
    /// The number of lines that became a row.
    pub lines_ok: u64,
    /// The number of refused lines; comments and blank lines do not count.
    pub lines_failed: u64,
}

/// Reads requests of line protocol, one after the other, and keeps a cache of their tables and
/// series.
///
/// A request arrives in chunks, which may end at any byte. The memory is bounded by the limits,
/// plus the rows that the caller has not yet taken.
#[derive(Debug)]
pub struct LineParser {
    limits: LineLimits,
    rows: RowBuilder,
    precision: Precision,
    now_ns: i64,
    /// The number of lines without a timestamp so far.
    without_timestamp: i64,
    /// The number of complete lines so far, including comments and blank lines.
    line: u64,
    lines_ok: u64,
    errors: LineErrors,
    stops_at_error: bool,
    /// True if the last chunk ended in the middle of a line.
    begun: bool,
    /// The bytes of the incomplete line, without leading spaces. If the line is too long, only its
    /// first bytes.
    pending: Vec<u8>,
    /// The length of the incomplete line in bytes; `pending` is shorter if the line is too long.
    pending_bytes: usize,
    /// The number of newlines of the incomplete line that `pending` does not contain.
    pending_newlines: u64,
    /// The state of the search for the end of the incomplete line.
    pending_end: LineEnd,
    scratch: Vec<u8>,
}

impl LineParser {
    /// Creates a parser with an empty cache. Call [`Self::begin`] before the first chunk.
    pub fn new(limits: LineLimits) -> Self {
        Self {
            rows: RowBuilder::new(limits.rows),
            limits,
            precision: Precision::Nanosecond,
            now_ns: 0,
            without_timestamp: 0,
            line: 0,
            lines_ok: 0,
            errors: LineErrors::default(),
            stops_at_error: false,
            begun: false,
            pending: Vec::new(),
            pending_bytes: 0,
            pending_newlines: 0,
            pending_end: LineEnd::default(),
            scratch: Vec::new(),
        }
    }

    /// Begins a request. Drops the rows and the incomplete line of an unfinished request.
    pub fn begin(&mut self, request: LineRequest) {
        self.rows.begin();
        self.precision = request.precision;
        self.now_ns = request.now_ns;
        self.without_timestamp = 0;
        self.line = 0;
        self.lines_ok = 0;
        self.errors = LineErrors::default();
        self.stops_at_error = false;
        self.end_pending();
    }

    /// Makes the request end at its first refused line: no later line becomes a row. The effect
    /// lasts until the next [`Self::begin`].
    pub fn stop_at_error(&mut self) {
        self.stops_at_error = true;
    }

    /// Reads the next chunk of the request.
    ///
    /// # Errors
    /// `LimitExceeded` if the request has too many lines; the request has then ended. Errors of
    /// single lines appear in the [`Outcome`] instead.
    pub fn push(&mut self, bytes: &[u8], tables: &dyn Tables) -> Result<()> {
        self.push_within(bytes, usize::MAX, tables).map(drop)
    }

    /// Reads a chunk of the request until the collected rows have `rows_bytes_max` bytes. Returns
    /// the number of bytes read. Pass the remaining bytes again after taking rows or raising the
    /// limit.
    ///
    /// # Errors
    /// The errors of [`Self::push`].
    pub fn push_within(
        &mut self,
        bytes: &[u8],
        rows_bytes_max: usize,
        tables: &dyn Tables,
    ) -> Result<usize> {
        if self.is_stopped() {
            return Ok(bytes.len());
        }
        if self.bytes() >= rows_bytes_max {
            return Ok(0);
        }
        let mut rest = bytes;
        if self.begun {
            let Some(behind) = self.complete(bytes, tables) else {
                return self.check_lines().map(|()| bytes.len());
            };
            rest = behind;
        }
        let consumed = self.lines(rest, rows_bytes_max, tables)?;
        let behind = rest.get(consumed..).unwrap_or_default();
        if self.is_stopped() {
            return Ok(bytes.len());
        }
        if self.bytes() >= rows_bytes_max {
            return Ok(bytes.len() - behind.len());
        }
        self.keep(behind);
        self.check_lines().map(|()| bytes.len())
    }

    /// Ends the request, and returns its result. A last line without a newline counts as complete.
    ///
    /// # Errors
    /// The errors of [`Self::push`].
    pub fn finish(&mut self, tables: &dyn Tables) -> Result<Outcome> {
        if self.begun {
            self.take_pending(tables);
            self.check_lines()?;
        }
        let errors = std::mem::take(&mut self.errors);
        Ok(Outcome {
            tables: self.rows.take(),
            errors: errors.first_errors,
            lines_ok: std::mem::take(&mut self.lines_ok),
            lines_failed: errors.count,
        })
    }

    /// For a stream without separate requests: restarts the line count after the caller has taken
    /// the rows. The next line without a timestamp has the time `now_ns`, in nanoseconds since
    /// 1970. An incomplete line is kept.
    pub fn continue_stream(&mut self, now_ns: i64) {
        self.now_ns = now_ns;
        self.without_timestamp = 0;
        self.line = 0;
        self.lines_ok = 0;
    }

    /// Drops an incomplete line at the end of a stream. The caller needs this if only a newline
    /// completes a line, because the beginning of a line may look like a complete line. Returns
    /// true if there was an incomplete line.
    pub fn drop_incomplete_line(&mut self) -> bool {
        let begun = self.begun;
        self.end_pending();
        begun
    }

    /// The number of the next line, from 1.
    pub fn next_line(&self) -> u64 {
        self.line + 1
    }

    fn is_stopped(&self) -> bool {
        self.stops_at_error && self.errors.count > 0
    }

    /// The number of refused lines of the request so far.
    pub fn lines_failed(&self) -> u64 {
        self.errors.count
    }

    /// The number of complete rows that the caller has not yet taken.
    pub fn rows(&self) -> usize {
        self.rows.rows()
    }

    /// The approximate bytes, in the form of batches, of the complete rows that the caller has not
    /// yet taken.
    pub fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    /// Removes and returns the complete rows, grouped by table. The request continues. The parser
    /// uses the cached definitions of the tables until the request ends or the caller calls
    /// [`Self::refresh`].
    pub fn take(&mut self) -> Vec<TableRows> {
        self.rows.take()
    }

    /// Makes the parser ask for the definitions of all tables again. Call this only after all rows
    /// were taken.
    pub fn refresh(&mut self) {
        self.rows.refresh();
    }
}

impl LineParser {
    /// Reads complete lines until the collected rows have `rows_bytes_max` bytes. Returns the
    /// position of the first unread line.
    fn lines(&mut self, data: &[u8], rows_bytes_max: usize, tables: &dyn Tables) -> Result<usize> {
        let Some(last) = memrchr(b'\n', data) else { return Ok(0) };
        let mut at = 0;
        while at <= last && self.bytes() < rows_bytes_max && !self.is_stopped() {
            at = match self.plain_line(data, at, tables) {
                Some(next) => next,
                None => match self.other_line(data, at, tables) {
                    Some(next) => next,
                    None => break,
                },
            };
            self.check_lines()?;
        }
        Ok(at)
    }

    /// Reads one line that the fast path cannot read: a blank line, a comment, or a line with new
    /// names, unusual syntax or errors. Returns the start of the next line; `None` if `data` ends
    /// within the line.
    #[cold]
    fn other_line(&mut self, data: &[u8], start: usize, tables: &dyn Tables) -> Option<usize> {
        let rest = data.get(start..)?;
        let end = LineEnd::default().find(rest)?;
        let line = rest.get(..end.checked_sub(1)?)?;
        let text = line.get(indent(line)..)?;
        self.text(text, text.len(), newlines_in(text), tables);
        Some(start + end)
    }

    /// Reads one line, without leading spaces and without its newline. `bytes` is the length of the
    /// line; `text` is shorter than `bytes` if the line is too long. `newlines` is the number of
    /// newlines within the line.
    fn text(&mut self, text: &[u8], bytes: usize, newlines: u64, tables: &dyn Tables) {
        let text =
            if text.len() == bytes { text.strip_suffix(b"\r").unwrap_or(text) } else { text };
        if !(text.is_empty() || text.first() == Some(&b'#')) {
            let read = match bytes > self.limits.line_bytes_max {
                true => Err(self.too_long()),
                false => self.any_line(text, tables),
            };
            match read {
                Ok(()) => self.lines_ok += 1,
                Err(error) => {
                    self.errors.add(self.limits.errors_max, self.line + 1, text, &error);
                }
            }
        }
        self.line += 1 + newlines;
    }
}

/// Methods for lines that are spread over several chunks.
impl LineParser {
    /// Appends `bytes` to the incomplete line up to the end of the line, and reads the line if it
    /// is complete. Returns the bytes after the line; `None` if the line is still incomplete.
    fn complete<'a>(&mut self, bytes: &'a [u8], tables: &dyn Tables) -> Option<&'a [u8]> {
        let Some(end) = self.pending_end.find(bytes) else {
            self.append(bytes);
            return None;
        };
        let (line, rest) = bytes.split_at_checked(end)?;
        self.append(line.strip_suffix(b"\n").unwrap_or(line));
        self.take_pending(tables);
        Some(rest)
    }

    /// Reads the bytes of the incomplete line as a complete line.
    fn take_pending(&mut self, tables: &dyn Tables) {
        let text = std::mem::take(&mut self.pending);
        self.text(&text, self.pending_bytes, self.pending_newlines + newlines_in(&text), tables);
        self.pending = text;
        self.end_pending();
    }

    /// Keeps the bytes of an incomplete line for the next chunk.
    fn keep(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.pending_end.find(bytes);
            self.append(bytes);
        }
    }

    fn append(&mut self, bytes: &[u8]) {
        self.begun = true;
        let bytes = match self.pending_bytes {
            0 => bytes.get(indent(bytes)..).unwrap_or_default(),
            _ => bytes,
        };
        self.pending_bytes += bytes.len();
        if self.pending_bytes <= self.limits.line_bytes_max {
            self.pending.extend_from_slice(bytes);
            return;
        }
        let room = HEAD_BYTES.saturating_sub(self.pending.len()).min(bytes.len());
        let (head, rest) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
        self.pending.extend_from_slice(head);
        let beyond = self.pending.get(HEAD_BYTES..).unwrap_or_default();
        self.pending_newlines += newlines_in(beyond) + newlines_in(rest);
        self.pending.truncate(HEAD_BYTES);
    }

    fn end_pending(&mut self) {
        self.begun = false;
        self.pending.clear();
        self.pending.shrink_to(PENDING_KEPT);
        self.pending_bytes = 0;
        self.pending_newlines = 0;
        self.pending_end = LineEnd::default();
    }

    fn too_long(&self) -> Error {
        Error::new(
            ErrorKind::LimitExceeded,
            format!("the line is longer than {} bytes", self.limits.line_bytes_max),
        )
        .with_hint("an unclosed quote makes all following text part of the line")
    }

    #[inline]
    fn check_lines(&self) -> Result<()> {
        if self.line <= u64::from(self.limits.request_lines_max) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::LimitExceeded,
            format!("the request has more than {} lines", self.limits.request_lines_max),
        )
        .with_hint("send the lines in several requests"))
    }
}

fn newlines_in(bytes: &[u8]) -> u64 {
    memchr_iter(b'\n', bytes).count() as u64
}

/// Converts a line number to 32 bits. The limit on lines ensures that the number fits.
fn line_number(line: u64) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX)
}
