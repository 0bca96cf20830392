//! Shared reads: concurrent reads of the same byte range are combined into one read (F39). A
//! dashboard often requests the same hours many times at once.

use std::{collections::HashMap, fmt, ops::Range, sync::Arc};

use bytes::Bytes;
use futures::{
    FutureExt,
    future::{BoxFuture, WeakShared},
};
use parking_lot::Mutex;
use stratalog_model::{Error, Result};

/// A read shared by several readers. If it fails, the first reader removes the error from the
/// mutex.
type SharedRead = BoxFuture<'static, Result<Bytes, Arc<Mutex<Option<Error>>>>>;

/// The running reads of one file, by byte range.
#[derive(Default)]
pub(crate) struct Sharing(Mutex<HashMap<(u64, u64), WeakShared<SharedRead>>>);

impl Sharing {
    /// Reads a byte range: joins a running read of the same range, or else calls `read`. If a
    /// reader is cancelled, the other readers continue. If the read fails, one reader gets the
    /// error, and each of the other readers reads again.
    pub(crate) async fn read(
        &self,
        range: Range<u64>,
        read: impl Fn() -> BoxFuture<'static, Result<Bytes>>,
    ) -> Result<Bytes> {
        debug_assert!(range.start < range.end, "a read of no bytes");
        let key = (range.start, range.end);
        let shared = {
            let mut reads = self.0.lock();
            match reads.get(&key).and_then(WeakShared::upgrade) {
                Some(shared) => shared,
                None => {
                    let failed = |error| Arc::new(Mutex::new(Some(error)));
                    let shared = read().map(move |read| read.map_err(failed)).boxed().shared();
                    reads.retain(|_, read| read.upgrade().is_some());
                    reads.extend(shared.downgrade().map(|read| (key, read)));
                    shared
                }
            }
        };
        let failed = match shared.await {
            Ok(bytes) => return Ok(bytes),
            Err(failed) => failed,
        };
        let error = failed.lock().take();
        match error {
            Some(error) => Err(error),
            None => read().await,
        }
    }
}

impl fmt::Debug for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} reads", self.0.lock().len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::{
        channel::oneshot,
        executor::block_on,
        future::{join, join3},
        poll,
    };
    use stratalog_model::ErrorKind;

    use super::*;

    #[test]
    fn one_reads_for_all_that_ask_at_the_same_time() {
        let (sharing, reads) = (Sharing::default(), Arc::new(AtomicUsize::new(0)));
        let read = || {
            let reads = Arc::clone(&reads);
            async move {
                reads.fetch_add(1, Ordering::Relaxed);
                futures::pending!();
                Ok(Bytes::from_static(b"some"))
            }
            .boxed()
        };
        let all =
            join3(sharing.read(0..4, read), sharing.read(0..4, read), sharing.read(4..8, read));
        let (one, other, third) = block_on(async {
            futures::pin_mut!(all);
            assert!(poll!(&mut all).is_pending());
            all.await
        });
        assert_eq!(
            (one.unwrap(), other.unwrap(), third.unwrap()),
            ("some".into(), "some".into(), "some".into())
        );
        assert_eq!(reads.load(Ordering::Relaxed), 2);
        // After the shared read has ended, a later call reads again.
        block_on(sharing.read(0..4, read)).unwrap();
        assert_eq!(reads.load(Ordering::Relaxed), 3);
        assert_eq!(sharing.0.lock().len(), 1);
    }

    #[test]
    fn who_leaves_takes_nothing_from_the_others() {
        let sharing = Sharing::default();
        let (sender, receiver) = oneshot::channel::<()>();
        let receiver = receiver.shared();
        let read = || {
            let receiver = receiver.clone();
            async move {
                receiver.await.map_err(|_| Error::internal("nobody answers"))?;
                Ok(Bytes::from_static(b"some"))
            }
            .boxed()
        };
        block_on(async {
            let (mut first, mut second) =
                (Box::pin(sharing.read(0..4, read)), Box::pin(sharing.read(0..4, read)));
            assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
            drop(first);
            sender.send(()).unwrap();
            assert_eq!(second.await.unwrap(), "some");
        });
    }

    #[test]
    fn each_hears_of_a_failure_of_its_own() {
        let (sharing, reads) = (Sharing::default(), Arc::new(AtomicUsize::new(0)));
        let read = || {
            let reads = Arc::clone(&reads);
            async move {
                futures::pending!();
                match reads.fetch_add(1, Ordering::Relaxed) {
                    0 => Err(Error::new(ErrorKind::Io, "no disk")),
                    _ => Ok(Bytes::from_static(b"some")),
                }
            }
            .boxed()
        };
        let both = join(sharing.read(0..4, read), sharing.read(0..4, read));
        let (one, other) = block_on(async {
            futures::pin_mut!(both);
            assert!(poll!(&mut both).is_pending());
            assert!(poll!(&mut both).is_pending());
            both.await
        });
        let (error, bytes) = if one.is_err() { (one, other) } else { (other, one) };
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(bytes.unwrap(), "some");
        assert_eq!(reads.load(Ordering::Relaxed), 2);
    }
}
