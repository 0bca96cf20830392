//! COPY FROM STDIN and COPY TO STDOUT.
//!
//! ```text
//!   socket ─► messages ─► chunks, up to PIECE_BYTES ─► parser ─► batches ─► sink
//!   └──── the connection's task ─────────────────────┘ └── a task ──────┘ └─ a task ─┘
//! ```
//! The sink stores the rows. A few chunks may wait for the parser, and one batch for the sink, so
//! that parser and sink run in parallel.

use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::{Bytes, BytesMut};
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_query::{CopyIn, CopyOut, CopyProgress, CopySink, Rows, Share};
use stratalog_text::{
    CopyParser, CopyWriter,
    copy::{CopyHeader, CopyLimits, SkippedRows},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};

use super::{Connection, Step, StepEnd, shutting_down, work::SpawnedTask};
use crate::{
    copy_binary::{self, BinaryCopyParser},
    encode::{BINARY, LongValues, RowWriter},
    frontend::{Frontend, InboundItem},
};

/// The connection combines small messages to chunks of this many bytes, because some clients send
/// one line per message.
const PIECE_BYTES: usize = 128 << 10;

/// Maximum number of chunks that wait for the parser.
const PIECES_WAITING: usize = 2;

/// Maximum number of batches that wait for the sink.
const BATCHES_WAITING: usize = 1;

/// A message from the connection to the parser. If the channel closes without `Done`, the COPY is
/// cancelled and stores no row.
#[derive(Debug)]
enum CopyMessage {
    Data(Bytes),
    Done,
}

/// The parser for the format of the COPY.
enum Parser {
    Lines(Box<CopyParser>),
    Binary(BinaryCopyParser),
}

impl Parser {
    fn push(&mut self, data: &[u8]) -> Result<Vec<RecordBatch>> {
        match self {
            Parser::Lines(parser) => parser.push(data),
            Parser::Binary(parser) => parser.push(data),
        }
    }

    fn finish(&mut self) -> Result<Option<RecordBatch>> {
        match self {
            Parser::Lines(parser) => parser.finish(),
            Parser::Binary(parser) => parser.finish(),
        }
    }

    fn pending_bytes(&self) -> usize {
        match self {
            Parser::Lines(parser) => parser.pending_bytes(),
            Parser::Binary(parser) => parser.pending_bytes(),
        }
    }

    fn skipped(&self) -> Option<&SkippedRows> {
        match self {
            Parser::Lines(parser) => Some(parser.skipped()),
            Parser::Binary(_) => None,
        }
    }
}

/// A message from the parser to the sink. If the channel closes without `Done`, the sink stores no
/// row.
#[derive(Debug)]
enum ParserMessage {
    Batch(RecordBatch),
    /// The data has ended. The value reports the rows that the parser skipped.
    Done(SkippedRows),
}

/// Parses and stores the data of a COPY; returns the number of stored rows. Dropping the future
/// stores no row.
async fn store(
    parser: Parser,
    sink: CopySink,
    feed: mpsc::Receiver<CopyMessage>,
    (progress, share): (Arc<CopyProgress>, Arc<Share>),
) -> Result<u64> {
    let (sender, batches) = mpsc::channel(BATCHES_WAITING);
    let mut sinking = SpawnedTask::spawn(sink_all(sink, batches));
    let parsed = parse_all(parser, feed, &sender, (&progress, &share)).await;
    drop(sender);
    // An error of the sink has priority, because it concerns earlier rows than an error of the
    // parser.
    let stored = sinking.result().await?;
    parsed?;
    stored.ok_or_else(|| Error::internal("a COPY ended without CopyDone or CopyFail"))
}

/// Passes batches to the sink until `Done`, then commits and returns the number of stored rows.
/// `None` if the channel closes without `Done`.
async fn sink_all(
    mut sink: CopySink,
    mut batches: mpsc::Receiver<ParserMessage>,
) -> Result<Option<u64>> {
    loop {
        let next = tokio::select! {
            biased;
            next = batches.recv() => next,
            error = sink.stopped() => return Err(error),
        };
        match next {
            Some(ParserMessage::Batch(batch)) => sink.push(batch).await?,
            Some(ParserMessage::Done(skipped)) => return sink.finish(&skipped).await.map(Some),
            None => return Ok(None),
        }
    }
}

/// Parses the data until its end, and sends the batches to the sink. Also returns, without an
/// error, if the sink has ended: the sink reports its own error.
async fn parse_all(
    mut parser: Parser,
    mut feed: mpsc::Receiver<CopyMessage>,
    sink: &mpsc::Sender<ParserMessage>,
    (progress, share): (&CopyProgress, &Arc<Share>),
) -> Result<()> {
    // The memory reservation for the bytes of an incomplete row.
    let mut pending = share.hold(0)?;
    loop {
        let piece = tokio::select! {
            biased;
            piece = feed.recv() => piece,
            () = sink.closed() => return Ok(()),
        };
        match piece {
            Some(CopyMessage::Data(bytes)) => {
                for batch in parser.push(&bytes)? {
                    if sink.send(ParserMessage::Batch(batch)).await.is_err() {
                        return Ok(());
                    }
                }
                let long = parser.pending_bytes();
                pending.resize(if long > PIECE_BYTES { long } else { 0 })?;
                progress.add_bytes(bytes.len());
                if let Some(skipped) = parser.skipped() {
                    progress.set_excluded(skipped.rows);
                }
            }
            Some(CopyMessage::Done) => break,
            None => {
                return Err(Error::new(ErrorKind::QueryCanceled, "COPY from stdin was aborted"));
            }
        }
    }
    let rest = parser.finish()?.map(ParserMessage::Batch);
    let skipped = parser.skipped().cloned().unwrap_or_default();
    for last in rest.into_iter().chain([ParserMessage::Done(skipped)]) {
        if sink.send(last).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    /// Runs COPY FROM STDIN. After a failure the COPY stores no row, and the connection ignores
    /// later data of the client.
    pub(super) async fn copy_in(&mut self, copy: CopyIn) -> Step<()> {
        let CopyIn {
            table,
            options,
            columns,
            required,
            whole_rows,
            last_is_optional,
            sink,
            progress,
        } = copy;
        let count = columns.len();
        let limits = CopyLimits {
            record_bytes_max: self.settings.copy_line_bytes_max,
            ..CopyLimits::default()
        };
        let (binary, style) = (options.binary, self.session.text_style());
        let parser = if binary {
            let parser = BinaryCopyParser::new(table, columns, &required, style, limits);
            Parser::Binary(parser.with_optional_last(last_is_optional))
        } else {
            let parser = CopyParser::new(options, columns, style)?
                .for_table(table)
                .requiring(&required)
                .of_whole_rows(whole_rows)
                .with_optional_last(last_is_optional)
                .with_limits(limits);
            Parser::Lines(Box::new(parser))
        };
        self.out.copy_in(count, binary)?;
        self.flush().await?;
        let share = Arc::clone(self.session.share());
        let (sender, receiver) = mpsc::channel(PIECES_WAITING);
        let mut work = SpawnedTask::spawn(store(parser, sink, receiver, (progress, share)));
        if let Err(ending) = self.feed(&sender, &mut work).await {
            // The parser and the sink must end before the next statement begins.
            drop(sender);
            if let StepEnd::Error(_) = &ending {
                let _ = self.watched(async { Ok(work.result().await.is_ok()) }).await?;
            }
            return Err(ending);
        }
        let rows = self.watched(work.result()).await?;
        self.complete(&format!("COPY {rows}"))?;
        Ok(())
    }

    /// Passes the client's data to the parser until the client sends CopyDone.
    async fn feed(
        &mut self,
        sender: &mpsc::Sender<CopyMessage>,
        work: &mut SpawnedTask<u64>,
    ) -> Step<()> {
        let mut gathered = BytesMut::new();
        loop {
            let inbound = match self.reader.buffered() {
                Some(inbound) => inbound,
                None => {
                    self.hand_over(sender, work, &mut gathered).await?;
                    tokio::select! {
                        biased;
                        inbound = self.reader.next() => inbound,
                        // The parser or the sink ended before the client's data, so the COPY has
                        // failed.
                        result = work.result() => return Err(ended_early(result)),
                        () = self.stop.hard.cancelled() => return Err(shutting_down()),
                    }
                }
            };
            let (kind, body) = match inbound {
                InboundItem::Message(kind, body) => (kind, body),
                InboundItem::Refused(_, error) => return Err(StepEnd::Error(error)),
                InboundItem::Closed => return Err(StepEnd::Gone),
                InboundItem::Broken(error) => return Err(StepEnd::Fatal(error)),
            };
            match kind {
                b'd' if gathered.is_empty() && body.len() >= PIECE_BYTES / 2 => {
                    self.send_piece(sender, work, CopyMessage::Data(body)).await?;
                }
                b'd' => {
                    gathered.extend_from_slice(&body);
                    if gathered.len() >= PIECE_BYTES {
                        self.hand_over(sender, work, &mut gathered).await?;
                    }
                }
                b'c' => {
                    self.hand_over(sender, work, &mut gathered).await?;
                    return self.send_piece(sender, work, CopyMessage::Done).await;
                }
                // A client may send Flush and Sync during a COPY. The server ignores both.
                b'H' | b'S' => {}
                b'X' => return Err(StepEnd::Gone),
                b'f' => {
                    let reason = match Frontend::decode(kind, body)? {
                        Frontend::CopyFail(reason) => reason,
                        _ => String::new(),
                    };
                    return Err(StepEnd::Error(Error::new(
                        ErrorKind::QueryCanceled,
                        format!("COPY from stdin failed: {reason}"),
                    )));
                }
                other => {
                    return Err(StepEnd::Error(Error::new(
                        ErrorKind::ProtocolViolation,
                        format!("unexpected message type 0x{other:02X} during COPY from stdin"),
                    )));
                }
            }
        }
    }

    async fn hand_over(
        &mut self,
        sender: &mpsc::Sender<CopyMessage>,
        work: &mut SpawnedTask<u64>,
        gathered: &mut BytesMut,
    ) -> Step<()> {
        if gathered.is_empty() {
            return Ok(());
        }
        self.send_piece(sender, work, CopyMessage::Data(gathered.split().freeze())).await
    }

    /// Passes a chunk to the parser; waits while the parser is busy.
    async fn send_piece(
        &mut self,
        sender: &mpsc::Sender<CopyMessage>,
        work: &mut SpawnedTask<u64>,
        piece: CopyMessage,
    ) -> Step<()> {
        let taken = self.watched(async { Ok(sender.send(piece).await.is_ok()) }).await?;
        if taken {
            return Ok(());
        }
        Err(ended_early(work.result().await))
    }

    /// Runs COPY TO STDOUT: sends each row as a message.
    pub(super) async fn copy_out(&mut self, copy: CopyOut) -> Step<()> {
        let CopyOut { options, is_table, mut rows, progress } = copy;
        let schema = Arc::clone(rows.schema());
        self.out.copy_out(schema.fields().len(), options.binary)?;
        let count = if options.binary {
            self.copy_out_binary(&mut rows, &progress, is_table).await?
        } else {
            let header = options.header != CopyHeader::Absent;
            let writer = CopyWriter::new(options, schema, self.session.text_style());
            if header {
                let start = self.out.begin(b'd');
                if let Err(error) = writer.write_header(&mut self.out.bytes) {
                    self.out.remove_message(start);
                    return Err(StepEnd::Error(error));
                }
                self.out.end(start)?;
            }
            self.copy_out_lines(&mut rows, &writer, &progress).await?
        };
        self.out.copy_done();
        self.complete(&format!("COPY {count}"))?;
        Ok(())
    }

    async fn copy_out_lines(
        &mut self,
        rows: &mut Rows,
        writer: &CopyWriter,
        progress: &CopyProgress,
    ) -> Step<u64> {
        let mut count = 0_u64;
        while let Some(batch) = self.next_to_copy(rows).await? {
            let mut lines = writer.rows(&batch)?;
            let long = LongValues::of(&batch);
            for row in 0..batch.num_rows() {
                self.out.make_room(long.bytes(row), self.session.share())?;
                let start = self.out.begin(b'd');
                if let Err(error) = lines.write(row, &mut self.out.bytes) {
                    self.out.remove_message(start);
                    return Err(StepEnd::Error(error));
                }
                self.out.end(start)?;
                progress.add_bytes(self.out.bytes.len() - start - 4);
                progress.add_rows(1);
                self.flush_if_full().await?;
            }
            count += batch.num_rows() as u64;
        }
        Ok(count)
    }

    async fn copy_out_binary(
        &mut self,
        rows: &mut Rows,
        progress: &CopyProgress,
        is_table: bool,
    ) -> Step<u64> {
        let style = self.session.text_style();
        // Clients expect the header in the same message as the first row, or as the trailer if
        // there is no row.
        let header = copy_binary::header();
        let mut before: &[u8] = &header;
        let mut count = 0_u64;
        while let Some(batch) = self.next_to_copy(rows).await? {
            let writer = RowWriter::new(&batch, &[BINARY], &style)?;
            // A copy of a table must keep all digits of times, or two events could become one. In a
            // copy of a query, times are cut to microseconds as in other binary results, because
            // some drivers read query results with COPY.
            if is_table {
                writer.check_digits(batch.schema_ref())?;
            }
            for row in 0..batch.num_rows() {
                self.out.make_room(writer.long_bytes(row), self.session.share())?;
                let start = self.out.bytes.len();
                writer.write_as(b'd', before, row, &mut self.out)?;
                progress.add_bytes(self.out.bytes.len().saturating_sub(start + 5));
                progress.add_rows(1);
                before = &[];
                self.flush_if_full().await?;
            }
            count += batch.num_rows() as u64;
        }
        self.out.copy_data(&[before, &copy_binary::TRAILER].concat())?;
        Ok(count)
    }
}

fn ended_early(result: Result<u64>) -> StepEnd {
    StepEnd::Error(result.err().unwrap_or_else(|| Error::internal("COPY ended before its data")))
}
