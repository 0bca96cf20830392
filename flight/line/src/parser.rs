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

/// Bytes kept of a line that is too long, to show it in the error.
const HEAD_BYTES: usize = 1 << 10;

/// Maximal capacity kept in the buffer for incomplete lines.
const PENDING_KEPT: usize = 64 << 10;

/// The parameters of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineRequest {
    /// The unit of the timestamps.
    pub precision: Precision,
    /// The tick, in nanoseconds since 1970, of the first line without a timestamp. Each further
    /// line without a timestamp gets a tick one nanosecond later, so that the lines become distinct
    /// events.
    pub now_ns: i64,
}

/// The result of a request.
#[derive(Debug)]
pub struct Outcome {
    /// The rows that were not yet taken.
    pub tables: Vec<TableRows>,
    /// The first errors, up to `errors_max` of the limits.
    pub errors: Vec<LineError>,
    /// Lines that made a row.
    pub lines_ok: u64,
    /// Lines that failed with an error; comments and blank lines do not count.
    pub lines_failed: u64,
}

/// Reads requests of line protocol, one after another, and caches their tables and series.
///
/// The chunks may be cut anywhere. Memory is bounded by the limits and the rows that are not yet
/// taken.
#[derive(Debug)]
pub struct LineParser {
    limits: LineLimits,
    rows: RowBuilder,
    precision: Precision,
    now_ns: i64,
    /// Lines without a timestamp.
    without_timestamp: i64,
    /// Finished lines of any kind.
    line: u64,
    lines_ok: u64,
    errors: LineErrors,
    stops_at_error: bool,
    /// A line has begun and has not ended yet.
    begun: bool,
    /// The part of the line so far, without leading spaces; of a line that is too long, the head.
    pending: Vec<u8>,
    /// Bytes of the line so far; more than `pending` has if the line is too long.
    pending_bytes: usize,
    /// Newlines of the line that are not in `pending`.
    pending_newlines: u64,
    /// State of the search for the end of the line.
    pending_end: LineEnd,
    scratch: Vec<u8>,
}

impl LineParser {
    /// An empty parser. Call [`Self::begin`] next.
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

    /// Begins a request. The rest of an unfinished request is dropped.
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

    /// Stops the request at its first refused line: later lines leave nothing. Valid until the next
    /// [`Self::begin`].
    pub fn stop_at_error(&mut self) {
        self.stops_at_error = true;
    }

    /// Takes the next bytes of the request.
    ///
    /// # Errors
    /// `LimitExceeded` if the request has more lines than the limit; the request is over then.
    /// Errors of single lines are in the [`Outcome`].
    pub fn push(&mut self, bytes: &[u8], tables: &dyn Tables) -> Result<()> {
        self.push_within(bytes, usize::MAX, tables).map(drop)
    }

    /// Reads bytes of the request until the rows have `rows_bytes_max` bytes; returns the number of
    /// bytes read. Pass the remaining bytes again after rows were taken or the limit has grown.
    ///
    /// # Errors
    /// As [`Self::push`].
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

    /// Ends the request: reads the last line if it has no newline.
    ///
    /// # Errors
    /// As [`Self::push`].
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

    /// Continues a stream without requests, after its rows have been taken: the line count
    /// restarts, and lines without a timestamp have the time `now_ns` from now on, in nanoseconds
    /// since 1970. The begun part of a line stays.
    pub fn go_on(&mut self, now_ns: i64) {
        self.now_ns = now_ns;
        self.without_timestamp = 0;
        self.line = 0;
        self.lines_ok = 0;
    }

    /// Drops the line that has begun and has not ended, for streams in which only a newline
    /// completes a line: half of a line may look like a whole line. Returns true if there was such
    /// a line.
    pub fn drop_begun(&mut self) -> bool {
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

    /// Refused lines of the request so far.
    pub fn lines_failed(&self) -> u64 {
        self.errors.count
    }

    /// Rows that are ready to be taken.
    pub fn rows(&self) -> usize {
        self.rows.rows()
    }

    /// Approximate size of the rows as batches, in bytes.
    pub fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    /// Takes the rows so far, by table. The request goes on; cached definitions of its tables stay
    /// valid until the request ends or [`Self::refresh`] is called.
    pub fn take(&mut self) -> Vec<TableRows> {
        self.rows.take()
    }

    /// Reloads the definitions of tables, after all rows have been taken.
    pub fn refresh(&mut self) {
        self.rows.refresh();
    }
}

impl LineParser {
    /// Reads complete lines until the rows have `rows_bytes_max` bytes; returns the start of the
    /// unread lines.
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

    /// Reads a line that is blank, a comment, new, unusual or wrong. Returns the start of the next
    /// line, or `None` if the end of the line has not arrived yet.
    #[cold]
    fn other_line(&mut self, data: &[u8], start: usize, tables: &dyn Tables) -> Option<usize> {
        let rest = data.get(start..)?;
        let end = LineEnd::default().find(rest)?;
        let line = rest.get(..end.checked_sub(1)?)?;
        let text = line.get(indent(line)..)?;
        self.text(text, text.len(), newlines_in(text), tables);
        Some(start + end)
    }

    /// Reads a line without leading spaces and without a newline. `text` may be only the head of a
    /// line of `bytes` bytes; `newlines` counts the newlines of the whole line.
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

/// Lines that come in pieces.
impl LineParser {
    /// Continues the incomplete line. Returns the rest behind the line, or `None` if the line is
    /// still incomplete.
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

    /// Reads the pending line as a complete line.
    fn take_pending(&mut self, tables: &dyn Tables) {
        let text = std::mem::take(&mut self.pending);
        self.text(&text, self.pending_bytes, self.pending_newlines + newlines_in(&text), tables);
        self.pending = text;
        self.end_pending();
    }

    /// Keeps the beginning of an incomplete line.
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

/// The line number in the format of the rows. The limit on lines is checked before the number
/// exceeds `u32`.
fn line_number(line: u64) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX)
}
