//! Messages from a socket.

use std::{io, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use stratalog_model::{Error, ErrorKind};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::message::is_known;
use crate::budget::{Budget, Claim};

/// Bytes of a message that a connection may have before it needs room for the rest.
const FREE_BYTES: usize = 128 << 10;

/// Bytes that are read ahead while a statement runs, at most.
const READ_AHEAD_BYTES: usize = 64 << 10;

/// Bytes asked of the socket at a time, of a client that sends much.
const READ_BYTES: usize = 64 << 10;

/// Bytes asked of the socket at a time, before a client has sent as many at once.
const FIRST_READ_BYTES: usize = 8 << 10;

/// What came out of the socket.
#[derive(Debug)]
pub enum Inbound {
    /// A message: its type and its body, not yet looked at.
    Message(u8, Bytes),
    /// A message that there was no room for: its type, and what to tell the client. All of
    /// it was read, and dropped.
    Refused(u8, Error),
    /// The client is gone, in the middle of a message or not.
    Closed,
    /// Framing is lost: nothing after this can be understood. The error is for the client.
    Broken(Error),
}

/// How a client has left: nothing that it sent is still to be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// Its end is closed.
    Closed,
    /// It has said so, and waits for no answer.
    Farewell,
}

/// Limits of messages.
#[derive(Debug, Clone)]
pub struct MessageLimits {
    /// Bytes of one message.
    pub bytes_max: usize,
    /// Room for the large messages of all connections.
    pub room: Budget,
    /// How long a message waits for room.
    pub patience: Duration,
}

/// Cuts the bytes of a socket into messages. Memory is bounded: a little for each
/// connection, and what is claimed of the room for large messages.
#[derive(Debug)]
pub struct MessageReader<R> {
    source: R,
    buffer: BytesMut,
    limits: MessageLimits,
    closed: bool,
    /// Bytes asked of the socket at a time.
    read_bytes: usize,
    /// Room for the message that is coming in.
    claim: Option<Claim>,
    /// Bytes of COPY data that are still to come of the message whose beginning was handed out.
    data_left: usize,
    /// The message that is coming in is dropped: its type, and the bytes that are left.
    refused: Option<(u8, usize, Error)>,
}

/// A message with its room, which is free again when the last part of it is dropped.
struct Claimed {
    body: Bytes,
    _claim: Claim,
}

impl AsRef<[u8]> for Claimed {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl<R: AsyncRead + Unpin> MessageReader<R> {
    /// A reader of `source`, with what has been read of it already.
    pub fn new(source: R, buffer: BytesMut, limits: MessageLimits) -> Self {
        Self {
            source,
            buffer,
            limits,
            closed: false,
            read_bytes: FIRST_READ_BYTES,
            claim: None,
            data_left: 0,
            refused: None,
        }
    }

    /// The next message. Safe to drop and call again: nothing that was read is lost.
    pub async fn next(&mut self) -> Inbound {
        loop {
            match self.buffered() {
                Some(inbound) => return inbound,
                None if self.closed => return Inbound::Closed,
                None => {
                    self.make_room().await;
                    match self.source.read_buf(&mut self.buffer).await {
                        Ok(0) => self.closed = true,
                        // More than a little at a time: there may be much more.
                        Ok(read) if read >= self.read_bytes => self.read_bytes = READ_BYTES,
                        Ok(_) => {}
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(_) => self.closed = true,
                    }
                }
            }
        }
    }

    /// Gives the memory of an empty buffer back, of a connection that is idle.
    pub fn rest(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
            self.read_bytes = FIRST_READ_BYTES;
        }
    }

    /// Makes room for more of the message whose beginning is in the buffer. A message that
    /// is not small waits here for its share of the server's memory, its sender with it.
    async fn make_room(&mut self) {
        let here = self.buffer.len();
        if here < FREE_BYTES || self.claim.is_some() || self.refused.is_some() || self.data_left > 0
        {
            self.buffer.reserve(self.read_bytes);
            return;
        }
        let Some([kind, length @ ..]) = self.buffer.first_chunk::<5>().copied() else { return };
        let whole = u32::from_be_bytes(length) as usize + 1;
        self.claim = self.limits.room.claim_within(self.limits.patience, whole).await;
        if self.claim.is_some() {
            self.buffer.reserve(whole.saturating_sub(here));
            return;
        }
        let error = Error::new(
            ErrorKind::OutOfMemory,
            format!(
                "no room for a message of {whole} bytes: messages hold {} of {} bytes, and statements may hold the memory",
                self.limits.room.used(),
                self.limits.room.bytes_max()
            ),
        )
        .with_hint("try again, send less at once, or use fewer connections for large messages");
        self.buffer.clear();
        self.refused = Some((kind, whole.saturating_sub(here), error));
        self.buffer.reserve(READ_BYTES);
    }

    /// Drops what is here of a message that was refused.
    fn drop_refused(&mut self) -> Option<Inbound> {
        let (kind, left, error) = self.refused.take()?;
        let here = left.min(self.buffer.len());
        self.buffer.advance(here);
        if here == left {
            return Some(Inbound::Refused(kind, error));
        }
        self.refused = Some((kind, left - here, error));
        None
    }

    /// More of a large message of COPY data, when it is worth it.
    fn more_data(&mut self) -> Option<Inbound> {
        let here = self.data_left.min(self.buffer.len());
        if here < self.data_left && here < READ_BYTES {
            return None;
        }
        self.data_left -= here;
        Some(Inbound::Message(b'd', self.buffer.split_to(here).freeze()))
    }

    /// Whether Sync is here already and comes next, but for messages that ask for nothing:
    /// Close and Flush.
    pub fn is_sync_next(&self) -> bool {
        self.kind_behind(b"CH") == Some(b'S')
    }

    /// The type of the next message that is of none of the types `passed`, if that is here already.
    fn kind_behind(&self, passed: &[u8]) -> Option<u8> {
        if self.refused.is_some() || self.data_left > 0 {
            return None;
        }
        let mut rest: &[u8] = &self.buffer;
        loop {
            let (kind, behind) = rest.split_first()?;
            if !passed.contains(kind) {
                return Some(*kind);
            }
            let length = u32::from_be_bytes(*behind.first_chunk::<4>()?) as usize;
            rest = behind.get(length.max(4)..)?;
        }
    }

    /// The next message if it is here already. COPY data is a stream, whatever messages it
    /// comes in: of large ones the parts are handed out as they come, each a message.
    pub fn buffered(&mut self) -> Option<Inbound> {
        if self.refused.is_some() {
            return self.drop_refused();
        }
        if self.data_left > 0 {
            return self.more_data();
        }
        let header: [u8; 5] = self.buffer.get(..5)?.try_into().ok()?;
        let [kind, a, b, c, d] = header;
        if !is_known(kind) {
            return Some(Inbound::Broken(Error::new(
                ErrorKind::ProtocolViolation,
                format!("invalid frontend message type {kind}"),
            )));
        }
        let length = i32::from_be_bytes([a, b, c, d]);
        let length = match usize::try_from(length) {
            Ok(length) if length >= 4 => length,
            _ => {
                return Some(Inbound::Broken(Error::new(
                    ErrorKind::ProtocolViolation,
                    format!("invalid message length {length}"),
                )));
            }
        };
        if length > self.limits.bytes_max {
            return Some(Inbound::Broken(
                Error::new(
                    ErrorKind::LimitExceeded,
                    format!(
                        "a message of {length} bytes is larger than the limit of {} bytes",
                        self.limits.bytes_max
                    ),
                )
                .with_hint("send less at once, use COPY, or raise message_bytes_max"),
            ));
        }
        if self.buffer.len() < length + 1 {
            if kind == b'd' && self.buffer.len() > READ_BYTES {
                self.buffer.advance(5);
                self.data_left = length - 4;
                return self.more_data();
            }
            return None;
        }
        self.buffer.advance(5);
        let mut body = self.buffer.split_to(length - 4).freeze();
        if let Some(claim) = self.claim.take() {
            body = Bytes::from_owner(Claimed { body, _claim: claim });
            // What follows must not keep the memory of this one.
            self.buffer = BytesMut::from(self.buffer.as_ref());
        }
        Some(Inbound::Message(kind, body))
    }

    /// Waits until the client has left, reading ahead a bounded number of bytes. Never
    /// returns while the client is there, nor when it left after sending more: what it
    /// sent is then still to be answered. The end of a round, and what asks for nothing, is not more. Safe to
    /// drop.
    pub async fn left(&mut self) -> Left {
        loop {
            if self.kind_behind(b"SCH") == Some(b'X') {
                return Left::Farewell;
            }
            if self.closed && self.buffer.is_empty() {
                return Left::Closed;
            }
            if self.closed || self.buffer.len() >= READ_AHEAD_BYTES {
                return std::future::pending().await;
            }
            self.read_ahead().await;
        }
    }

    /// Waits until the client has closed its end, whatever it sent before, as far as that is no
    /// more than is read ahead. Safe to drop.
    pub async fn closed(&mut self) {
        while !self.closed {
            if self.buffer.len() >= READ_AHEAD_BYTES {
                return std::future::pending().await;
            }
            self.read_ahead().await;
        }
    }

    async fn read_ahead(&mut self) {
        self.buffer.reserve(4096);
        match self.source.read_buf(&mut self.buffer).await {
            Ok(0) => self.closed = true,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => {
                // A reset connection takes no answer.
                self.closed = true;
                self.buffer.clear();
            }
        }
    }
}
