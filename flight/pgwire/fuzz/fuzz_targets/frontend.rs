//! Input from clients: start-up packets, messages and their bodies, COPY data. The target builds
//! the server's own source of the protocol, without the layers above it.
//!
//! The first byte of an input selects the type of the rest; the second byte is the size of its
//! pieces.

#![no_main]
#![expect(dead_code, reason = "of the server's modules a part is used")]

#[path = "../../src/budget.rs"]
mod budget;
#[path = "../../src/encoding.rs"]
mod encoding;
#[path = "../../src/frontend"]
mod frontend {
    mod message;
    mod reader;
    pub use self::{
        message::Frontend,
        reader::{InboundItem, MessageLimits, MessageReader},
    };
}
#[path = "../../src/startup.rs"]
mod startup;

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use stratalog_model::ColumnType;
use stratalog_text::{
    CopyParser, TextStyle,
    copy::{CopyEncoding, CopyHeader, CopyLimits, CopyOptions},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use frontend::{Frontend, InboundItem, MessageLimits, MessageReader};

/// A client that sends `bytes` in pieces and ignores all answers.
struct Client<'a> {
    bytes: &'a [u8],
    piece: usize,
}

impl AsyncRead for Client<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let count = self.piece.min(into.remaining()).min(self.bytes.len());
        let (now, later) = self.bytes.split_at(count);
        into.put_slice(now);
        self.bytes = later;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Client<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

thread_local! {
    static RUNTIME: tokio::runtime::Runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
}

fuzz_target!(|input: &[u8]| {
    let [what, piece, rest @ ..] = input else { return };
    let piece = usize::from(*piece).max(1);
    match what % 5 {
        0 => start(rest, piece),
        1 => messages(rest, piece),
        2 => body(rest),
        _ => copy(rest, piece),
    }
});

fn start(bytes: &[u8], piece: usize) {
    let mut client = Client { bytes, piece };
    let request = RUNTIME.with(|runtime| runtime.block_on(startup::negotiate(&mut client)));
    if let Ok(startup::Request::Start(start)) = request {
        let _ = (start.settings(), start.unknown_options());
    }
}

fn messages(bytes: &[u8], piece: usize) {
    let limits = MessageLimits {
        bytes_max: 1 << 20,
        room: budget::Budget::new(1 << 20),
        patience: Duration::ZERO,
    };
    let mut reader = MessageReader::new(Client { bytes, piece }, BytesMut::new(), limits);
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let mut held = 0;
            loop {
                let _ = reader.is_sync_next();
                match reader.next().await {
                    InboundItem::Message(kind, body) => {
                        held += body.len();
                        let _ = Frontend::decode(kind, body);
                    }
                    InboundItem::Refused(..) => {}
                    InboundItem::Closed | InboundItem::Broken(_) => break,
                }
            }
            assert!(held <= bytes.len(), "more was read than was sent");
        });
    });
}

fn body(bytes: &[u8]) {
    if let [kind, body @ ..] = bytes {
        let _ = Frontend::decode(*kind, Bytes::copy_from_slice(body));
    }
}

/// Reads COPY data as a whole, and in pieces: both results must be equal.
fn copy(bytes: &[u8], piece: usize) {
    let [form, delimiter, null, data @ ..] = bytes else { return };
    let bit = |at: u32| form >> at & 1 == 1;
    let mut options = if bit(0) { CopyOptions::csv() } else { CopyOptions::default() };
    if bit(1) {
        options.delimiter = [b'|', b';', b'\t', b' '][usize::from(*delimiter) % 4];
    }
    if bit(2) {
        options.escape = b'\\';
    }
    if bit(3) {
        options.null = ["", "\\N", "NULL"][usize::from(*null) % 3].to_string();
    }
    options.header = [CopyHeader::Absent, CopyHeader::Match][usize::from(bit(4))];
    options.ignores_errors = bit(5);
    options.verbose = bit(6);
    options.encoding = [CopyEncoding::Utf8, CopyEncoding::Latin1][usize::from(bit(7))];
    let whole = read(options.clone(), data, data.len().max(1));
    let pieces = read(options, data, piece);
    assert_eq!(whole, pieces);
}

/// The number of rows and of skipped rows; or the SQLSTATE.
fn read(options: CopyOptions, data: &[u8], piece: usize) -> Result<(usize, u64), &'static str> {
    let columns = [
        ("t", ColumnType::TimestampTz { precision: 9 }),
        ("i", ColumnType::Integer),
        ("d", ColumnType::Double),
        ("n", ColumnType::Numeric { precision: 12, scale: 3 }),
        ("s", ColumnType::Text),
        ("b", ColumnType::Bytea),
        ("j", ColumnType::Jsonb),
        ("v", ColumnType::Interval),
        ("a", ColumnType::Array(Box::new(ColumnType::Text))),
    ];
    // The number of columns follows the delimiters in the first line: then more of the data is
    // read.
    let first = data.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let wide = first.iter().filter(|byte| **byte == options.delimiter).count() + 1;
    let from = data.first().map_or(0, |byte| usize::from(*byte)) % columns.len();
    let columns = columns.into_iter().cycle().skip(from).take(wide.min(9)).enumerate();
    let columns = columns.map(|(at, (name, kind))| (format!("{name}{at}"), kind)).collect();
    let limits =
        CopyLimits { batch_rows_max: 3, batch_bytes_max: 1 << 10, record_bytes_max: 1 << 16 };
    let parser = CopyParser::new(options, columns, TextStyle::default());
    let mut parser = parser.map_err(|error| error.kind().sqlstate())?.with_limits(limits);
    let mut rows = 0;
    let mut read = || {
        for piece in data.chunks(piece) {
            rows += parser.push(piece)?.iter().map(|batch| batch.num_rows()).sum::<usize>();
        }
        rows += parser.finish()?.map_or(0, |batch| batch.num_rows());
        Ok::<_, stratalog_model::Error>((rows, parser.skipped().rows))
    };
    read().map_err(|error| error.kind().sqlstate())
}
