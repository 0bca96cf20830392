//! Messages from a socket.

use std::{io, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use stratalog_model::{Error, ErrorKind};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::message::is_known;
use crate::budget::{Budget, Claim};

/// Bytes of a message held by a connection without a claim on the budget.
const FREE_BYTES: usize = 128 << 10;

/// Maximum bytes read ahead during a statement.
const READ_AHEAD_BYTES: usize = 64 << 10;

/// Bytes requested per read from a client with much data.
const READ_BYTES: usize = 64 << 10;

/// Bytes requested per read at first, until a read returns a full buffer.
const FIRST_READ_BYTES: usize = 8 << 10;

/// An item from the socket.
#[derive(Debug)]
pub enum InboundItem {
    /// A message: its type and its undecoded body.
    Message(u8, Bytes),
    /// A message refused for lack of memory: its type, and the error for the client. The whole
    /// message was read and dropped.
    Refused(u8, Error),
    /// The client is gone, possibly within a message.
    Closed,
    /// Framing is lost: later bytes have no meaning. The error is for the client.
    Broken(Error),
}

/// The manner of a disconnect: no received message is left to execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disconnect {
    /// The client's end is closed.
    Closed,
    /// The client has sent Terminate and expects no answer.
    Farewell,
}

/// Limits of messages.
#[derive(Debug, Clone)]
pub struct MessageLimits {
    /// Maximum bytes of a message.
    pub bytes_max: usize,
    /// Budget for the large messages of all connections.
    pub room: Budget,
    /// Maximum wait of a message for room.
    pub patience: Duration,
}

/// Splits the bytes of a socket into messages. Memory is limited: a small buffer per connection,
/// and claims on the budget for large messages.
#[derive(Debug)]
pub struct MessageReader<R> {
    source: R,
    buffer: BytesMut,
    limits: MessageLimits,
    closed: bool,
    /// Bytes requested per read.
    read_bytes: usize,
    /// Claim for the incoming message.
    claim: Option<Claim>,
    /// Remaining bytes of a COPY data message after its first part was returned.
    data_left: usize,
    /// A refused incoming message: its type, and the number of remaining bytes.
    refused: Option<(u8, usize, Error)>,
}

/// A message with its claim; the claim ends with the drop of the last part.
struct ClaimedMessage {
    body: Bytes,
    _claim: Claim,
}

impl AsRef<[u8]> for ClaimedMessage {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl<R: AsyncRead + Unpin> MessageReader<R> {
    /// A reader of `source`; `buffer` contains bytes read before.
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

    /// The next message. Safe to drop and call again: no read bytes are lost.
    pub async fn next(&mut self) -> InboundItem {
        loop {
            match self.buffered() {
                Some(inbound) => return inbound,
                None if self.closed => return InboundItem::Closed,
                None => {
                    self.make_room().await;
                    match self.source.read_buf(&mut self.buffer).await {
                        Ok(0) => self.closed = true,
                        // A full read: more data may follow.
                        Ok(read) if read >= self.read_bytes => self.read_bytes = READ_BYTES,
                        Ok(_) => {}
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(_) => self.closed = true,
                    }
                }
            }
        }
    }

    /// Frees the memory of an empty buffer, for an idle connection.
    pub fn rest(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
            self.read_bytes = FIRST_READ_BYTES;
        }
    }

    /// Makes room for more of the incomplete message in the buffer. A large message waits here for
    /// its share of the server's memory; its sender waits too.
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
                "no room for a message of {whole} bytes: messages use {} of {} bytes, and statements may use the memory",
                self.limits.room.used(),
                self.limits.room.bytes_max()
            ),
        )
        .with_hint("try again, send less at once, or use fewer connections for large messages");
        self.buffer.clear();
        self.refused = Some((kind, whole.saturating_sub(here), error));
        self.buffer.reserve(READ_BYTES);
    }

    /// Drops the received part of a refused message.
    fn drop_refused(&mut self) -> Option<InboundItem> {
        let (kind, left, error) = self.refused.take()?;
        let here = left.min(self.buffer.len());
        self.buffer.advance(here);
        if here == left {
            return Some(InboundItem::Refused(kind, error));
        }
        self.refused = Some((kind, left - here, error));
        None
    }

    /// The next part of a large COPY data message, if the part is large enough.
    fn more_data(&mut self) -> Option<InboundItem> {
        let here = self.data_left.min(self.buffer.len());
        if here < self.data_left && here < READ_BYTES {
            return None;
        }
        self.data_left -= here;
        Some(InboundItem::Message(b'd', self.buffer.split_to(here).freeze()))
    }

    /// True if a received Sync comes next; Close and Flush messages before it do not count.
    pub fn is_sync_next(&self) -> bool {
        self.kind_behind(b"CH") == Some(b'S')
    }

    /// The type of the next received message with a type outside `passed`.
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

    /// The next message, if already received. COPY data is a stream: the parts of a large message
    /// are returned as they arrive, each as a separate message.
    pub fn buffered(&mut self) -> Option<InboundItem> {
        if self.refused.is_some() {
            return self.drop_refused();
        }
        if self.data_left > 0 {
            return self.more_data();
        }
        let header: [u8; 5] = self.buffer.get(..5)?.try_into().ok()?;
        let [kind, a, b, c, d] = header;
        if !is_known(kind) {
            return Some(InboundItem::Broken(Error::new(
                ErrorKind::ProtocolViolation,
                format!("invalid frontend message type {kind}"),
            )));
        }
        let length = i32::from_be_bytes([a, b, c, d]);
        let length = match usize::try_from(length) {
            Ok(length) if length >= 4 => length,
            _ => {
                return Some(InboundItem::Broken(Error::new(
                    ErrorKind::ProtocolViolation,
                    format!("invalid message length {length}"),
                )));
            }
        };
        if length > self.limits.bytes_max {
            return Some(InboundItem::Broken(
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
            body = Bytes::from_owner(ClaimedMessage { body, _claim: claim });
            // Later data must not keep the memory of this message.
            self.buffer = BytesMut::from(self.buffer.as_ref());
        }
        Some(InboundItem::Message(kind, body))
    }

    /// Waits until the client disconnects; reads ahead a limited number of bytes. Never returns
    /// while the client is connected, or while received messages need an answer. Sync, Close and
    /// Flush messages need no answer in this sense. Safe to drop.
    pub async fn left(&mut self) -> Disconnect {
        loop {
            if self.kind_behind(b"SCH") == Some(b'X') {
                return Disconnect::Farewell;
            }
            if self.closed && self.buffer.is_empty() {
                return Disconnect::Closed;
            }
            if self.closed || self.buffer.len() >= READ_AHEAD_BYTES {
                return std::future::pending().await;
            }
            self.read_ahead().await;
        }
    }

    /// Waits until the client closes the connection, and buffers the data received meanwhile. Never
    /// returns once the buffer holds `READ_AHEAD_BYTES`. Cancel-safe.
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
                // A reset connection accepts no answer.
                self.closed = true;
                self.buffer.clear();
            }
        }
    }
}
