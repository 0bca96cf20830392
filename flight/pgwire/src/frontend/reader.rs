//! Splits the bytes of a socket into messages.

use std::{io, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use stratalog_model::{Error, ErrorKind};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::message::is_known;
use crate::budget::{Budget, Claim};

/// The number of bytes of a message that a connection may buffer without a memory reservation from
/// the budget.
const FREE_BYTES: usize = 128 << 10;

/// Maximum bytes that the server reads and buffers while a statement runs.
const READ_AHEAD_BYTES: usize = 64 << 10;

/// The size in bytes of a read from a client that sends much data.
const READ_BYTES: usize = 64 << 10;

/// The size in bytes of the first reads. After a read that fills its buffer, the size is
/// [`READ_BYTES`].
const FIRST_READ_BYTES: usize = 8 << 10;

/// An item that the reader returns.
#[derive(Debug)]
pub enum InboundItem {
    /// A message: its type byte and its undecoded body.
    Message(u8, Bytes),
    /// A message for which no memory was free: its type byte, and the error for the client. The
    /// message was read and dropped.
    Refused(u8, Error),
    /// The client has disconnected, possibly in the middle of a message.
    Closed,
    /// The bytes do not form a message, so the reader cannot find the next message. The error is
    /// for the client.
    Broken(Error),
}

/// The way in which a client has ended the connection, after all its received messages are
/// answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disconnect {
    /// The client has closed its side of the TCP connection.
    Closed,
    /// The client has sent Terminate, and expects no answer.
    Farewell,
}

/// The limits of messages.
#[derive(Debug, Clone)]
pub struct MessageLimits {
    /// Maximum bytes of a message.
    pub bytes_max: usize,
    /// The budget that the large messages of all connections share.
    pub room: Budget,
    /// The maximal time for which a large message waits for its memory reservation.
    pub patience: Duration,
}

/// Splits the bytes of a socket into messages. The memory is bounded: each connection has a small
/// buffer, and large messages need a memory reservation (a claim) from the budget.
#[derive(Debug)]
pub struct MessageReader<R> {
    source: R,
    buffer: BytesMut,
    limits: MessageLimits,
    closed: bool,
    /// The size of the next read.
    read_bytes: usize,
    /// The memory reservation of the incomplete message.
    claim: Option<Claim>,
    /// The number of missing bytes of a COPY data message of which the reader has already returned
    /// a part.
    data_left: usize,
    /// The refused message whose bytes the reader drops now: its type byte, the number of its
    /// missing bytes, and the error.
    refused: Option<(u8, usize, Error)>,
}

/// The body of a message and its memory reservation. The reservation ends when the last slice of
/// the body is dropped.
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
    /// Creates a reader of `source`. `buffer` contains the bytes that were already read from
    /// `source`.
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

    /// Waits for the next message. Dropping the future loses no bytes.
    pub async fn next(&mut self) -> InboundItem {
        loop {
            match self.buffered() {
                Some(inbound) => return inbound,
                None if self.closed => return InboundItem::Closed,
                None => {
                    self.make_room().await;
                    match self.source.read_buf(&mut self.buffer).await {
                        Ok(0) => self.closed = true,
                        // The read filled its buffer, so more data probably follows.
                        Ok(read) if read >= self.read_bytes => self.read_bytes = READ_BYTES,
                        Ok(_) => {}
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(_) => self.closed = true,
                    }
                }
            }
        }
    }

    /// Frees the memory of an empty buffer, while the connection is idle.
    pub fn rest(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
            self.read_bytes = FIRST_READ_BYTES;
        }
    }

    /// Grows the buffer for the rest of the incomplete message. For a large message, waits here for
    /// a memory reservation from the budget; in the meantime nothing is read from the client.
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

    /// Drops the received bytes of a refused message. Returns the refusal when the whole message
    /// has arrived.
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

    /// Returns the next part of a large COPY data message; `None` if too few bytes have arrived.
    fn more_data(&mut self) -> Option<InboundItem> {
        let here = self.data_left.min(self.buffer.len());
        if here < self.data_left && here < READ_BYTES {
            return None;
        }
        self.data_left -= here;
        Some(InboundItem::Message(b'd', self.buffer.split_to(here).freeze()))
    }

    /// True if the received messages continue with any number of Close and Flush messages and then
    /// Sync.
    pub fn is_sync_next(&self) -> bool {
        self.kind_behind(b"CH") == Some(b'S')
    }

    /// The type of the first received message whose type is not in `passed`.
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

    /// Returns the next message if it has arrived. A large COPY data message is returned in parts
    /// as they arrive. Each part has the form of a separate message.
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
            // A new buffer for later data, because the old buffer would keep the memory of this
            // message allocated.
            self.buffer = BytesMut::from(self.buffer.as_ref());
        }
        Some(InboundItem::Message(kind, body))
    }

    /// Waits until the client disconnects, and reads a limited number of bytes in the meantime.
    /// Never returns while the buffer contains a message that needs an answer, that is, any message
    /// except Sync, Close and Flush. Dropping the future loses no bytes.
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

    /// Waits until the client closes its side of the connection, and buffers the data that arrives.
    /// Never returns once the buffer has [`READ_AHEAD_BYTES`]. Dropping the future loses no bytes.
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
                // After a reset of the connection the client cannot receive an answer.
                self.closed = true;
                self.buffer.clear();
            }
        }
    }
}
