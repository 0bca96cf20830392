//! Messages from a socket.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use stratalog_model::{Error, ErrorKind};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::message::is_known;

/// Bytes that are read ahead while a statement runs, at most.
const READ_AHEAD_BYTES: usize = 64 << 10;

/// Bytes asked of the socket at a time.
const READ_BYTES: usize = 64 << 10;

/// What came out of the socket.
#[derive(Debug)]
pub enum Inbound {
    /// A message: its type and its body, not yet looked at.
    Message(u8, Bytes),
    /// The client is gone, in the middle of a message or not.
    Closed,
    /// Framing is lost: nothing after this can be understood. The error is for the client.
    Broken(Error),
}

/// Cuts the bytes of a socket into messages. Memory is bounded by the largest message allowed.
#[derive(Debug)]
pub struct MessageReader<R> {
    source: R,
    buffer: BytesMut,
    message_bytes_max: usize,
    closed: bool,
}

impl<R: AsyncRead + Unpin> MessageReader<R> {
    /// A reader of `source`, with what has been read of it already.
    pub fn new(source: R, buffer: BytesMut, message_bytes_max: usize) -> Self {
        Self { source, buffer, message_bytes_max, closed: false }
    }

    /// The next message. Safe to drop and call again: nothing that was read is lost.
    pub async fn next(&mut self) -> Inbound {
        loop {
            match self.buffered() {
                Some(inbound) => return inbound,
                None if self.closed => return Inbound::Closed,
                None => {
                    self.buffer.reserve(READ_BYTES);
                    match self.source.read_buf(&mut self.buffer).await {
                        Ok(0) => self.closed = true,
                        Ok(_) => {}
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(_) => self.closed = true,
                    }
                }
            }
        }
    }

    /// The next message if it is here already.
    pub fn buffered(&mut self) -> Option<Inbound> {
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
        if length > self.message_bytes_max {
            return Some(Inbound::Broken(
                Error::new(
                    ErrorKind::LimitExceeded,
                    format!(
                        "a message of {length} bytes is larger than the limit of {} bytes",
                        self.message_bytes_max
                    ),
                )
                .with_hint("send less at once, use COPY, or raise message_bytes_max"),
            ));
        }
        if self.buffer.len() < length + 1 {
            return None;
        }
        self.buffer.advance(5);
        Some(Inbound::Message(kind, self.buffer.split_to(length - 4).freeze()))
    }

    /// Waits until the client is gone, reading ahead a bounded number of bytes. Never
    /// returns while the client is there, nor when it closed after sending more: what it
    /// sent is then still to be answered. Safe to drop.
    pub async fn gone(&mut self) {
        loop {
            if self.closed {
                if self.buffer.is_empty() {
                    return;
                }
                return std::future::pending().await;
            }
            if self.buffer.len() >= READ_AHEAD_BYTES {
                return std::future::pending().await;
            }
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
}
