//! Bodies, piece by piece, decompressed within limits.

use std::{
    io::{self, Write},
    time::Duration,
};

use axum::{
    body::{Body, BodyDataStream},
    http::{HeaderMap, header::CONTENT_ENCODING},
};
use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use futures::StreamExt as _;
use stratalog_model::{Error, ErrorKind, Result};
use tokio::{sync::OwnedSemaphorePermit, time::timeout};

use crate::state::State;

/// Bytes that are decompressed at a time.
const PIECE_BYTES: usize = 64 << 10;

/// A request's body.
pub(crate) struct Decoded<'a> {
    stream: BodyDataStream,
    decoder: Decoder,
    state: &'a State,
    /// Bytes as they came, and decompressed.
    raw: usize,
    decoded: usize,
    room: Option<OwnedSemaphorePermit>,
    held: usize,
    waiting: Bytes,
    ended: bool,
}

enum Decoder {
    Identity,
    Gzip(MultiGzDecoder<Bounded>),
    Zstd(Zstd),
}

/// Output of a decoder, up to a limit.
#[derive(Debug, Default)]
struct Bounded {
    bytes: Vec<u8>,
    left: usize,
}

impl Write for Bounded {
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

impl<'a> Decoded<'a> {
    /// The body of a request with these headers.
    ///
    /// # Errors
    /// `FeatureNotSupported` for a compression that is not offered.
    pub(crate) fn new(state: &'a State, headers: &HeaderMap, body: Body) -> Result<Self> {
        let decoder = Decoder::of(state, headers)?;
        Ok(Self { decoder, ..Self::as_it_comes(state, body) })
    }

    /// The body of a request whose compression is part of its protocol.
    pub(crate) fn as_it_comes(state: &'a State, body: Body) -> Self {
        Self {
            stream: body.into_data_stream(),
            decoder: Decoder::Identity,
            state,
            raw: 0,
            decoded: 0,
            room: None,
            held: 0,
            waiting: Bytes::new(),
            ended: false,
        }
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// `LimitExceeded`, `OutOfMemory`; `InvalidBinaryRepresentation` for damaged compression;
    /// `ConnectionFailure` when the client is gone or too slow.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if self.ended {
                return Ok(None);
            }
            if self.waiting.is_empty() {
                let patience = Duration::from_millis(self.state.settings.patience_ms);
                let next = timeout(patience, self.stream.next()).await.map_err(|_| {
                    Error::new(
                        ErrorKind::QueryCanceled,
                        format!("no more of the body came for {} ms", patience.as_millis()),
                    )
                })?;
                match next {
                    Some(Ok(piece)) => {
                        self.raw += piece.len();
                        if self.raw > self.state.settings.body_bytes_max {
                            return Err(too_large("the body", self.state.settings.body_bytes_max));
                        }
                        self.waiting = piece;
                    }
                    Some(Err(error)) => {
                        return Err(Error::new(
                            ErrorKind::ConnectionFailure,
                            format!("the body broke off: {error}"),
                        ));
                    }
                    None => {
                        self.ended = true;
                        let last = self.decoder.finish(self.state.settings.decoded_bytes_max)?;
                        self.take_room(last.len()).await?;
                        return Ok((!last.is_empty()).then(|| Bytes::from(last)));
                    }
                }
            }
            let piece = self.waiting.split_to(PIECE_BYTES.min(self.waiting.len()));
            let piece = self.decoder.decode(piece, self.state.settings.decoded_bytes_max)?;
            if !piece.is_empty() {
                self.take_room(piece.len()).await?;
                return Ok(Some(piece));
            }
        }
    }

    /// All of it.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub(crate) async fn all(&mut self) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(piece) = self.next().await? {
            all.extend_from_slice(&piece);
        }
        Ok(all)
    }

    /// Bytes so far, decompressed.
    pub(crate) fn bytes(&self) -> usize {
        self.decoded
    }

    /// What of the room is used is kept until the request has ended: rows take as much.
    async fn take_room(&mut self, bytes: usize) -> Result<()> {
        self.decoded += bytes;
        if self.decoded > self.state.settings.decoded_bytes_max {
            return Err(too_large("the decompressed body", self.state.settings.decoded_bytes_max));
        }
        if self.decoded <= self.held {
            return Ok(());
        }
        let more = (self.decoded - self.held).max(PIECE_BYTES);
        let room = self.state.room(more).await?;
        self.held += more;
        match &mut self.room {
            Some(held) => held.merge(room),
            None => self.room = Some(room),
        }
        Ok(())
    }
}

impl Decoder {
    fn of(state: &State, headers: &HeaderMap) -> Result<Self> {
        let output = Bounded { bytes: Vec::new(), left: state.settings.decoded_bytes_max };
        let encoding = headers.get(CONTENT_ENCODING).and_then(|encoding| encoding.to_str().ok());
        let encoding = encoding.unwrap_or("identity").trim().to_ascii_lowercase();
        Ok(match encoding.as_str() {
            "" | "identity" => Decoder::Identity,
            "gzip" | "x-gzip" => Decoder::Gzip(MultiGzDecoder::new(output)),
            "zstd" => {
                let decoder = zstd::stream::raw::Decoder::new();
                let decoder = decoder.map_err(|error| Error::io("no room to decompress", error))?;
                Decoder::Zstd(Zstd { decoder, output, complete: true })
            }
            _ => {
                return Err(Error::new(
                    ErrorKind::FeatureNotSupported,
                    format!("Content-Encoding {encoding} is not offered"),
                )
                .with_hint("use gzip or zstd, or send it as it is"));
            }
        })
    }

    fn decode(&mut self, piece: Bytes, most: usize) -> Result<Bytes> {
        let failed = |error| undecodable(&error, most);
        let output = match self {
            Decoder::Identity => return Ok(piece),
            Decoder::Gzip(decoder) => {
                decoder.write_all(&piece).map_err(failed)?;
                decoder.get_mut()
            }
            Decoder::Zstd(decoder) => {
                decoder.decode(&piece).map_err(failed)?;
                &mut decoder.output
            }
        };
        Ok(Bytes::from(std::mem::take(&mut output.bytes)))
    }

    /// What is left at the end; the checksum, where there is one, is right.
    fn finish(&mut self, most: usize) -> Result<Vec<u8>> {
        let failed = |error| undecodable(&error, most);
        match self {
            Decoder::Identity => Ok(Vec::new()),
            Decoder::Gzip(decoder) => {
                decoder.try_finish().map_err(failed)?;
                Ok(std::mem::take(&mut decoder.get_mut().bytes))
            }
            Decoder::Zstd(decoder) => {
                let cut = io::Error::new(io::ErrorKind::UnexpectedEof, "it ends within a frame");
                if decoder.complete { Ok(Vec::new()) } else { Err(failed(cut)) }
            }
        }
    }
}

/// Frames of zstd, one after another.
struct Zstd {
    decoder: zstd::stream::raw::Decoder<'static>,
    output: Bounded,
    /// The last frame has ended.
    complete: bool,
}

impl Zstd {
    fn decode(&mut self, piece: &[u8]) -> io::Result<()> {
        use zstd::stream::raw::{InBuffer, Operation as _, OutBuffer};
        let mut input = InBuffer::around(piece);
        let mut buffer = [0; PIECE_BYTES];
        loop {
            let mut output = OutBuffer::around(&mut buffer[..]);
            let hint = self.decoder.run(&mut input, &mut output)?;
            let written = output.pos();
            self.output.write_all(buffer.get(..written).unwrap_or_default())?;
            if input.pos() > 0 || written > 0 {
                self.complete = hint == 0;
            }
            // What the decoder holds back comes while it fills the buffer.
            if input.pos() == piece.len() && written < PIECE_BYTES {
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
    .with_hint("Content-Encoding says how it is compressed; it may have been cut off")
}

fn too_large(what: &str, most: usize) -> Error {
    Error::new(ErrorKind::LimitExceeded, format!("{what} is larger than {most} bytes"))
        .with_hint("send it in several requests")
}

#[cfg(test)]
mod tests;
