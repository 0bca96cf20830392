//! Reserves memory for incoming messages from the memory budget (CL-10).
//!
//! The gRPC library collects a whole message before any handler of this crate runs, and before the
//! client is known. Therefore this module counts the bytes of an incomplete message in the memory
//! budget. If the budget is exhausted, the call with the message ends.
//!
//! ```text
//!   body:  ┊flags┊length (4)┊ message … ┊flags┊length┊ message …
//!                            └ counted until its last byte arrives
//! ```

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use stratalog_model::Error;
use stratalog_query::{Share, ShareReservation};
use tonic::{Status, codegen::StdError};

use crate::status::refused;

/// Bytes of the gRPC header before each message: flags, and the length.
const HEADER_BYTES: usize = 5;

/// Incomplete messages with fewer bytes do not count in the memory budget.
const FREE_BYTES: usize = 64 << 10;

/// The body of a request. Counts the bytes of the incomplete message in the memory budget.
#[derive(Debug)]
pub(crate) struct CountedBody<B> {
    body: B,
    share: Arc<Share>,
    message: MessageScanner,
    charge: Option<ShareReservation>,
}

impl<B> CountedBody<B> {
    pub(crate) fn new(body: B, share: Arc<Share>) -> Self {
        Self { body, share, message: MessageScanner::default(), charge: None }
    }

    fn count(&mut self, data: &[u8]) -> Result<(), Error> {
        let bytes = self.message.take(data);
        if bytes < FREE_BYTES {
            self.charge = None;
            return Ok(());
        }
        match &mut self.charge {
            Some(charge) => charge.resize(bytes),
            None => {
                self.charge = Some(self.share.hold(bytes)?);
                Ok(())
            }
        }
    }
}

impl<B> Body for CountedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<StdError>,
{
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let frame = match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => frame,
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => return Poll::Pending,
        };
        let counted = frame.data_ref().map_or(Ok(()), |data| self.count(data));
        Poll::Ready(Some(match counted {
            Ok(()) => Ok(frame),
            Err(error) => {
                let status: Status = refused(error);
                Err(status.into())
            }
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Finds the boundaries of messages in a stream of bytes.
#[derive(Debug, Default)]
struct MessageScanner {
    header: [u8; HEADER_BYTES],
    /// The number of bytes of the current header that have arrived.
    header_bytes: usize,
    /// The number of bytes of the current message that have not arrived.
    remaining: usize,
    /// The number of bytes of the current message that have arrived.
    buffered: usize,
}

impl MessageScanner {
    /// Reads the next bytes of the stream. Returns the number of received bytes of the incomplete
    /// message; 0 after a complete message.
    fn take(&mut self, mut data: &[u8]) -> usize {
        while !data.is_empty() {
            if self.remaining > 0 {
                let taken = self.remaining.min(data.len());
                self.remaining -= taken;
                self.buffered += taken;
                data = data.get(taken..).unwrap_or_default();
                if self.remaining == 0 {
                    self.buffered = 0;
                }
                continue;
            }
            let Some((byte, rest)) = data.split_first() else { break };
            data = rest;
            if let Some(place) = self.header.get_mut(self.header_bytes) {
                *place = *byte;
            }
            self.header_bytes += 1;
            if self.header_bytes == HEADER_BYTES {
                let [_, length @ ..] = self.header;
                self.remaining = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                self.header_bytes = 0;
            }
        }
        self.buffered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(length: usize) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend_from_slice(&u32::try_from(length).unwrap().to_be_bytes());
        bytes.resize(HEADER_BYTES + length, 7);
        bytes
    }

    #[test]
    fn the_incomplete_message_counts_wherever_the_stream_is_cut() {
        let stream = [message(10), message(0), message(300), message(7)].concat();
        for piece in 1..40 {
            let mut incoming = MessageScanner::default();
            let mut most = 0;
            for data in stream.chunks(piece) {
                most = most.max(incoming.take(data));
            }
            assert_eq!(incoming.take(&[]), 0, "all are complete");
            assert!(most > 300 - 2 * piece && most < 300, "{piece}: {most}");
        }
        let mut incoming = MessageScanner::default();
        assert_eq!(incoming.take(&message(100)[..HEADER_BYTES + 60]), 60);
        assert_eq!(incoming.take(&[1; 30]), 90);
        assert_eq!(incoming.take(&[1; 10]), 0);
    }
}
