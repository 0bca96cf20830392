//! Request bodies: receives and decompresses a body in steps of limited size.

use std::{
    io::{self, Write},
    time::Duration,
};

use axum::{
    body::{Body, BodyDataStream},
    http::{HeaderMap, header::CONTENT_ENCODING},
};
use bytes::{Buf as _, Bytes};
use flate2::write::MultiGzDecoder;
use futures::StreamExt as _;
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_query::MemoryPromise;
use tokio::{sync::OwnedSemaphorePermit, time::timeout};

use crate::state::{GrantedRoom, State};

/// The number of compressed bytes that the gzip decoder reads in one step. The output is at most
/// about a thousand times as large.
const GZIP_BYTES: usize = 4 << 10;

/// Buffer size of the zstd decoder.
const BUFFER_BYTES: usize = 64 << 10;

/// A decoder ends a step after this number of decompressed bytes.
const OUTPUT_BYTES: usize = 1 << 20;

/// Minimum growth of a memory reservation, in bytes.
const ROOM_BYTES: usize = 64 << 10;

/// A request's body, received and decompressed.
pub(crate) struct DecodedBody<'a> {
    stream: BodyDataStream,
    pub(crate) decoder: Decoder,
    state: &'a State,
    /// The number of received bytes, before decompression.
    raw: usize,
}

/// A decoder for the compression of a body. The decoder works in steps of limited size.
pub(crate) struct Decoder {
    kind: ContentCoding,
    /// Received bytes that are not yet decompressed.
    input: Bytes,
    /// The number of decompressed bytes so far, and its limit.
    decoded: usize,
    decoded_max: usize,
    finished: bool,
}

enum ContentCoding {
    Identity,
    Gzip(MultiGzDecoder<BoundedOutput>),
    Zstd(Zstd),
}

/// A buffer for decompressed bytes that refuses bytes beyond a limit.
#[derive(Debug, Default)]
struct BoundedOutput {
    bytes: Vec<u8>,
    left: usize,
}

impl Write for BoundedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.left {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "too large"));
        }
        self.left -= bytes.len();
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> DecodedBody<'a> {
    /// Begins to read the body of a request. The header Content-Encoding names the compression.
    ///
    /// # Errors
    /// `FeatureNotSupported` for an unsupported compression.
    pub(crate) fn new(state: &'a State, headers: &HeaderMap, body: Body) -> Result<Self> {
        let decoder = Decoder::of(headers, state.settings.decoded_bytes_max)?;
        Ok(Self { decoder, ..Self::undecoded(state, body) })
    }

    /// Begins to read a body without decompression, for protocols that compress their own messages.
    pub(crate) fn undecoded(state: &'a State, body: Body) -> Self {
        Self {
            stream: body.into_data_stream(),
            decoder: Decoder::new(ContentCoding::Identity, state.settings.decoded_bytes_max),
            state,
            raw: 0,
        }
    }

    /// Waits for the next bytes of the body, and passes them to the decoder. Returns `false` at the
    /// end of the body.
    ///
    /// # Errors
    /// `LimitExceeded` for a body that is too long; `ConnectionFailure` if the client has
    /// disconnected; `QueryCanceled` if the client sends too slowly; `TooManyConnections` if the
    /// server ended this stalled request to make room for a new request.
    pub(crate) async fn receive(&mut self) -> Result<bool> {
        let patience = Duration::from_millis(self.state.settings.patience_ms);
        let next = timeout(patience, self.stream.next()).await.map_err(|_| {
            Error::new(
                ErrorKind::QueryCanceled,
                format!("no more of the body came for {} ms", patience.as_millis()),
            )
        })?;
        let piece = match next {
            None => return Ok(false),
            Some(Ok(piece)) => piece,
            Some(Err(error)) => return Err(broken_off(error)),
        };
        self.raw += piece.len();
        if self.raw > self.state.settings.body_bytes_max {
            return Err(too_large("the body", self.state.settings.body_bytes_max));
        }
        self.decoder.input = piece;
        Ok(true)
    }

    /// Receives and decompresses the complete body. Returns the bytes and their memory reservation.
    ///
    /// # Errors
    /// The errors of [`Self::receive`]; `OutOfMemory`; `InvalidBinaryRepresentation` for damaged
    /// compressed data.
    pub(crate) async fn all(&mut self) -> Result<(Vec<u8>, Room)> {
        let (mut all, mut room) = (Vec::new(), Room::default());
        while self.receive().await? {
            while self.decoder.has_more() {
                let cost = self.decoder.cost();
                let piece = self.state.compute(cost, || self.decoder.next()).await?;
                room.grow_to(self.state, all.len() + piece.len()).await?;
                all.extend_from_slice(&piece);
            }
        }
        all.extend_from_slice(&self.decoder.finish()?);
        Ok((all, room))
    }

    /// The number of decompressed bytes so far.
    pub(crate) fn bytes(&self) -> usize {
        self.decoder.decoded
    }
}

/// A memory reservation for the body and the rows of one request, freed on drop. All requests share
/// one memory limit.
#[derive(Debug, Default)]
pub(crate) struct Room {
    permit: Option<OwnedSemaphorePermit>,
    promise: MemoryPromise,
    reserved_bytes: usize,
}

impl Room {
    /// Grows the reservation to `bytes`. Waits for free memory, at most for the setting `room_ms`.
    ///
    /// # Errors
    /// `OutOfMemory` after the wait.
    pub(crate) async fn grow_to(&mut self, state: &State, bytes: usize) -> Result<()> {
        if bytes > self.reserved_bytes {
            let more = (bytes - self.reserved_bytes).max(ROOM_BYTES);
            self.add(state.room(more).await?, more);
        }
        Ok(())
    }

    /// Grows the reservation to `bytes`. Waits for free memory without a time limit.
    ///
    /// # Errors
    /// `OutOfMemory` if the server shuts down.
    pub(crate) async fn wait_for(&mut self, state: &State, bytes: usize) -> Result<()> {
        if bytes > self.reserved_bytes {
            let more = bytes - self.reserved_bytes;
            self.add(state.wait_for_room(more).await?, more);
        }
        Ok(())
    }

    /// Grows the reservation to `bytes` without waiting; returns `false` if the memory is not free.
    pub(crate) fn try_grow_to(&mut self, state: &State, bytes: usize) -> bool {
        if bytes <= self.reserved_bytes {
            return true;
        }
        let more = bytes - self.reserved_bytes;
        let Some(room) = state.try_room(more) else { return false };
        self.add(room, more);
        true
    }

    fn add(&mut self, (room, promise): GrantedRoom, bytes: usize) {
        self.reserved_bytes += bytes;
        self.promise.merge(promise);
        match &mut self.permit {
            Some(held) => held.merge(room),
            None => self.permit = Some(room),
        }
    }
}

impl Decoder {
    fn new(kind: ContentCoding, decoded_max: usize) -> Self {
        Self { kind, input: Bytes::new(), decoded: 0, decoded_max, finished: false }
    }

    fn of(headers: &HeaderMap, decoded_max: usize) -> Result<Self> {
        let output = BoundedOutput { bytes: Vec::new(), left: decoded_max };
        let encoding = headers.get(CONTENT_ENCODING).and_then(|encoding| encoding.to_str().ok());
        let encoding = encoding.unwrap_or("identity").trim().to_ascii_lowercase();
        let kind = match encoding.as_str() {
            "" | "identity" => ContentCoding::Identity,
            "gzip" | "x-gzip" => ContentCoding::Gzip(MultiGzDecoder::new(output)),
            "zstd" => ContentCoding::Zstd(Zstd::new(output)?),
            _ => {
                return Err(Error::new(
                    ErrorKind::FeatureNotSupported,
                    format!("Content-Encoding {encoding} is not offered"),
                )
                .with_hint("use gzip or zstd, or send the body uncompressed"));
            }
        };
        Ok(Self::new(kind, decoded_max))
    }

    /// True if the decoder can produce more output from the input that it already has.
    pub(crate) fn has_more(&self) -> bool {
        !self.input.is_empty() || matches!(&self.kind, ContentCoding::Zstd(zstd) if zstd.holds_back)
    }

    /// An estimate in bytes of the work to decompress the received input; `usize::MAX` for
    /// compressed input, whose output size is unknown.
    pub(crate) fn cost(&self) -> usize {
        match &self.kind {
            ContentCoding::Identity => self.input.len(),
            ContentCoding::Gzip(_) | ContentCoding::Zstd(_) => usize::MAX,
        }
    }

    /// Decompresses the next part of the received input, limited to one step.
    ///
    /// # Errors
    /// `LimitExceeded`; `InvalidBinaryRepresentation` for damaged compressed data.
    pub(crate) fn next(&mut self) -> Result<Bytes> {
        let most = self.decoded_max;
        let failed = |error| undecodable(&error, most);
        let output = match &mut self.kind {
            ContentCoding::Identity => {
                let piece = self.input.split_to(OUTPUT_BYTES.min(self.input.len()));
                return self.count(piece);
            }
            ContentCoding::Gzip(decoder) => {
                let piece = self.input.split_to(GZIP_BYTES.min(self.input.len()));
                decoder.write_all(&piece).map_err(failed)?;
                decoder.get_mut()
            }
            ContentCoding::Zstd(decoder) => {
                decoder.decode(&mut self.input).map_err(failed)?;
                &mut decoder.output
            }
        };
        let piece = Bytes::from(std::mem::take(&mut output.bytes));
        self.count(piece)
    }

    /// Finishes after the end of the input: verifies that the compressed data is complete, and
    /// returns the last decompressed bytes. A second call returns no bytes.
    ///
    /// # Errors
    /// The errors of [`Self::next`].
    pub(crate) fn finish(&mut self) -> Result<Bytes> {
        if std::mem::replace(&mut self.finished, true) {
            return Ok(Bytes::new());
        }
        let most = self.decoded_max;
        let failed = |error| undecodable(&error, most);
        let last = match &mut self.kind {
            ContentCoding::Identity => Bytes::new(),
            ContentCoding::Gzip(decoder) => {
                decoder.try_finish().map_err(failed)?;
                Bytes::from(std::mem::take(&mut decoder.get_mut().bytes))
            }
            ContentCoding::Zstd(decoder) => {
                let cut =
                    io::Error::new(io::ErrorKind::UnexpectedEof, "the body ends within a frame");
                if !decoder.complete {
                    return Err(failed(cut));
                }
                Bytes::new()
            }
        };
        self.count(last)
    }

    fn count(&mut self, piece: Bytes) -> Result<Bytes> {
        self.decoded += piece.len();
        if self.decoded > self.decoded_max {
            return Err(too_large("the decompressed body", self.decoded_max));
        }
        Ok(piece)
    }
}

/// A decoder for a sequence of zstd frames.
struct Zstd {
    decoder: zstd::stream::raw::Decoder<'static>,
    output: BoundedOutput,
    /// True if the input read so far ends with a complete frame.
    complete: bool,
    /// True if the decoder may have more output than fitted into the buffer.
    holds_back: bool,
}

impl Zstd {
    fn new(output: BoundedOutput) -> Result<Self> {
        let decoder = zstd::stream::raw::Decoder::new();
        let decoder = decoder.map_err(|error| Error::io("no room to decompress", error))?;
        Ok(Self { decoder, output, complete: true, holds_back: false })
    }

    /// Decompresses until the input is used up, or until the output reaches [`OUTPUT_BYTES`].
    fn decode(&mut self, piece: &mut Bytes) -> io::Result<()> {
        use zstd::stream::raw::{InBuffer, Operation as _, OutBuffer};
        let mut buffer = [0; BUFFER_BYTES];
        loop {
            let mut input = InBuffer::around(piece);
            let mut output = OutBuffer::around(&mut buffer[..]);
            let hint = self.decoder.run(&mut input, &mut output)?;
            let (read, written) = (input.pos(), output.pos());
            self.output.write_all(buffer.get(..written).unwrap_or_default())?;
            if read > 0 || written > 0 {
                self.complete = hint == 0;
            }
            piece.advance(read);
            // If the output filled the buffer, the decoder may hold more output.
            self.holds_back = written == BUFFER_BYTES;
            let done = piece.is_empty() && !self.holds_back;
            if done || self.output.bytes.len() >= OUTPUT_BYTES {
                return Ok(());
            }
        }
    }
}

fn undecodable(error: &io::Error, most: usize) -> Error {
    if error.kind() == io::ErrorKind::FileTooLarge {
        return too_large("the decompressed body", most);
    }
    Error::new(
        ErrorKind::InvalidBinaryRepresentation,
        format!("the body cannot be decompressed: {error}"),
    )
    .with_hint("Content-Encoding must name the compression of the body; the body may be cut off")
}

/// The error of a body that ended too early: the client has disconnected, or the server ended this
/// stalled request to make room for a new request.
fn broken_off(error: axum::Error) -> Error {
    match error.into_inner().downcast::<Error>() {
        Ok(lost_place) => *lost_place,
        Err(error) => {
            Error::new(ErrorKind::ConnectionFailure, format!("the body ended early: {error}"))
        }
    }
}

fn too_large(what: &str, most: usize) -> Error {
    Error::new(ErrorKind::LimitExceeded, format!("{what} is larger than {most} bytes"))
        .with_hint("send the data in several requests")
}

#[cfg(test)]
mod tests;
