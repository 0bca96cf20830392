//! Collects small HTTP/2 frames for a socket, so that many frames need only a single system call.
//!
//! ```text
//!   first flush after a pause        ─► sends at once
//!   flush soon after a send          ─► keeps the bytes until the next poll of the connection,
//!                                      after all ready tasks: thousands of streams can write
//! ```
//! A stream with a new frame wakes its connection. Without the outbox, the connection would make a
//! system call for each stream. The outbox requires HTTP/2: a woken HTTP/2 connection either reads
//! or shuts down, and both send the kept bytes.

use std::{
    io::{IoSlice, Result},
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use tokio::io::AsyncWrite;

/// Maximum number of buffered bytes; beyond this number the outbox sends.
const BUFFERED_MAX: usize = 64 << 10;

/// The outbox sends a write of at least this many bytes directly, without a copy.
const LARGE: usize = 16 << 10;

/// A flush within this time after the last send does not send, but keeps the bytes for later.
const FLUSH_PAUSE: Duration = Duration::from_micros(50);

/// A flush sends all bytes if the outbox has kept bytes of an earlier flush for this time.
const KEPT_TIME_MAX: Duration = Duration::from_millis(1);

/// The bytes that the connection has written and the outbox has not yet passed to the socket.
#[derive(Debug)]
pub(super) struct Outbox {
    buffered: Vec<u8>,
    /// The number of bytes at the beginning of `buffered` that are already sent.
    sent: usize,
    /// The time of the last send.
    last: Instant,
    /// The time of the first flush that kept bytes.
    flushed: Option<Instant>,
}

impl Outbox {
    pub(super) fn new() -> Self {
        Self { buffered: Vec::new(), sent: 0, last: Instant::now(), flushed: None }
    }

    /// Buffers the bytes of a small write; sends a large write directly.
    pub(super) fn write<W: AsyncWrite + Unpin>(
        &mut self,
        socket: &mut W,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        if bytes >= LARGE || self.buffered.len() + bytes > BUFFERED_MAX {
            ready!(self.send(socket, context))?;
        }
        if bytes < LARGE {
            slices.iter().for_each(|slice| self.buffered.extend_from_slice(slice));
            return Poll::Ready(Ok(bytes));
        }
        let written = ready!(Pin::new(socket).poll_write_vectored(context, slices))?;
        self.last = Instant::now();
        Poll::Ready(Ok(written))
    }

    /// Sends the buffered bytes now, or at the next poll if the last send was just before.
    pub(super) fn flush<W: AsyncWrite + Unpin>(
        &mut self,
        socket: &mut W,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        if !self.buffered.is_empty() {
            let now = Instant::now();
            match self.flushed {
                Some(flushed) if now.duration_since(flushed) < KEPT_TIME_MAX => {
                    return Poll::Ready(Ok(()));
                }
                None if now.duration_since(self.last) < FLUSH_PAUSE => {
                    self.flushed = Some(now);
                    // The wake-up makes the runtime poll the connection again, after all tasks that
                    // are ready now.
                    context.waker().wake_by_ref();
                    return Poll::Ready(Ok(()));
                }
                _ => {}
            }
        }
        self.send(socket, context)
    }

    /// Sends the bytes that earlier flushes kept; called at each poll of the connection. If the
    /// socket is full, the socket wakes the task later. Ignores errors: a broken socket returns its
    /// error again at the next write, or at a read after the received data.
    pub(super) fn poll_kept_bytes<W: AsyncWrite + Unpin>(
        &mut self,
        socket: &mut W,
        context: &mut Context<'_>,
    ) {
        if self.flushed.is_some() {
            let _pending_or_broken = self.send(socket, context);
        }
    }

    /// Sends all buffered bytes.
    pub(super) fn send<W: AsyncWrite + Unpin>(
        &mut self,
        socket: &mut W,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        while let Some(rest) = self.buffered.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut *socket).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into())),
                sent => self.sent += sent,
            }
            self.last = Instant::now();
        }
        if self.buffered.len() < LARGE {
            self.buffered.shrink_to(LARGE);
        }
        self.buffered.clear();
        (self.sent, self.flushed) = (0, None);
        Pin::new(socket).poll_flush(context)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// A socket that accepts at most `most` bytes per call, and counts the calls.
    struct Socket {
        taken: Vec<u8>,
        calls: usize,
        most: usize,
        is_full: bool,
        is_broken: bool,
    }

    impl AsyncWrite for Socket {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<Result<usize>> {
            if self.is_broken {
                return Poll::Ready(Err(std::io::ErrorKind::BrokenPipe.into()));
            }
            if self.is_full {
                return Poll::Pending;
            }
            let count = bytes.len().min(self.most);
            self.calls += 1;
            self.taken.extend_from_slice(&bytes[..count]);
            Poll::Ready(Ok(count))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn socket(most: usize) -> Socket {
        Socket { taken: Vec::new(), calls: 0, most, is_full: false, is_broken: false }
    }

    fn write(outbox: &mut Outbox, socket: &mut Socket, bytes: &[u8]) -> Poll<usize> {
        let mut context = Context::from_waker(Waker::noop());
        outbox.write(socket, &mut context, &[IoSlice::new(bytes)]).map(|written| written.unwrap())
    }

    fn flush(outbox: &mut Outbox, socket: &mut Socket) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        outbox.flush(socket, &mut context).map(|flushed| flushed.unwrap()).is_ready()
    }

    /// An outbox whose last send counts as long ago, even on a slow machine.
    fn rested() -> Outbox {
        Outbox { last: Instant::now() - Duration::from_secs(1), ..Outbox::new() }
    }

    /// An outbox whose last send counts as recent, even on a slow machine.
    fn busy() -> Outbox {
        Outbox { last: Instant::now() + Duration::from_secs(60), ..Outbox::new() }
    }

    #[test]
    fn what_is_flushed_alone_is_sent_at_once() {
        let (mut outbox, mut socket) = (rested(), socket(usize::MAX));
        assert_eq!(write(&mut outbox, &mut socket, b"one"), Poll::Ready(3));
        assert_eq!(socket.calls, 0);
        assert!(flush(&mut outbox, &mut socket));
        assert_eq!(socket.taken, b"one");
    }

    #[test]
    fn what_is_flushed_together_is_sent_together() {
        let (mut outbox, mut socket) = (busy(), socket(usize::MAX));
        for part in [b"one ", b"two ", b"many"] {
            assert_eq!(write(&mut outbox, &mut socket, part), Poll::Ready(4));
            assert!(flush(&mut outbox, &mut socket));
            // The first flush counts as recent, even on a slow machine.
            outbox.flushed = Some(Instant::now() + Duration::from_secs(60));
        }
        assert_eq!(socket.calls, 0, "the connection was not looked at yet");
        let mut context = Context::from_waker(Waker::noop());
        outbox.poll_kept_bytes(&mut socket, &mut context);
        assert_eq!((socket.calls, socket.taken.as_slice()), (1, b"one two many".as_slice()));
        // Without a flush, a poll does not send these bytes.
        let _ = write(&mut outbox, &mut socket, b"more");
        outbox.poll_kept_bytes(&mut socket, &mut context);
        assert_eq!(socket.calls, 1);
    }

    #[test]
    fn nobody_waits_longer_than_a_moment() {
        let (mut outbox, mut socket) = (busy(), socket(usize::MAX));
        let _ = write(&mut outbox, &mut socket, b"one");
        outbox.flushed = Some(Instant::now() - Duration::from_secs(1));
        assert!(flush(&mut outbox, &mut socket));
        assert_eq!(socket.taken, b"one");
    }

    #[test]
    fn who_writes_to_a_broken_socket_is_told_and_who_reads_reads_first() {
        let (mut outbox, mut socket) = (busy(), socket(usize::MAX));
        let _ = write(&mut outbox, &mut socket, b"one");
        assert!(flush(&mut outbox, &mut socket));
        socket.is_broken = true;
        let mut context = Context::from_waker(Waker::noop());
        outbox.poll_kept_bytes(&mut socket, &mut context);
        let large = vec![0; LARGE];
        let outcome = outbox.write(&mut socket, &mut context, &[IoSlice::new(&large)]);
        assert!(matches!(outcome, Poll::Ready(Err(_))));
        assert!(matches!(outbox.send(&mut socket, &mut context), Poll::Ready(Err(_))));
    }

    #[test]
    fn all_bytes_go_in_their_order_whatever_the_socket_takes() {
        let (mut outbox, mut socket) = (busy(), socket(1000));
        let mut all = Vec::new();
        for number in 0..60_u8 {
            let bytes = vec![number; [1, 300, 5_000, LARGE, 3 * LARGE][usize::from(number) % 5]];
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let Poll::Ready(written) = write(&mut outbox, &mut socket, rest) else {
                    unreachable!()
                };
                rest = &rest[written..];
                assert!(outbox.buffered.len() <= BUFFERED_MAX);
            }
            all.extend_from_slice(&bytes);
        }
        let mut context = Context::from_waker(Waker::noop());
        assert!(outbox.send(&mut socket, &mut context).is_ready());
        assert!(socket.taken == all);
    }

    #[test]
    fn a_full_socket_is_waited_for_and_nothing_is_kept_without_end() {
        let (mut outbox, mut socket) = (busy(), socket(usize::MAX));
        socket.is_full = true;
        let mut taken = 0;
        while write(&mut outbox, &mut socket, &[7; 5_000]).is_ready() {
            taken += 5_000;
            // The first flush counts as recent, however long the test takes.
            outbox.flushed = Some(Instant::now() + Duration::from_secs(60));
            assert!(flush(&mut outbox, &mut socket) && taken <= BUFFERED_MAX);
        }
        assert!(taken > BUFFERED_MAX / 2);
        outbox.flushed = Some(Instant::now() - Duration::from_secs(1));
        assert!(!flush(&mut outbox, &mut socket), "a full socket takes nothing");
        socket.is_full = false;
        assert!(flush(&mut outbox, &mut socket));
        assert_eq!(socket.taken, vec![7; taken]);
    }
}
