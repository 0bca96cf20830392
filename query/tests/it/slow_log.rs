//! A log that answers late.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use stratalog_model::{
    Durability, Log, Lsn, Result,
    log::{Completion, Frame, LogStatus, Reservation},
};

/// Reports each frame's completion with a delay in milliseconds.
#[derive(Debug)]
pub struct SlowLog {
    pub inner: Arc<dyn Log>,
    pub late_ms: Arc<AtomicU64>,
}

impl Log for SlowLog {
    fn reserve(&self, payload_bytes: usize) -> BoxFuture<'_, Result<Reservation>> {
        self.inner.reserve(payload_bytes)
    }

    fn submit(
        &self,
        frame: Frame,
        reservation: Reservation,
        durability: Durability,
        done: Completion,
    ) {
        let late = Duration::from_millis(self.late_ms.load(Ordering::Relaxed));
        let late_done: Completion = Box::new(move |result| {
            if late.is_zero() {
                return done(result);
            }
            drop(std::thread::spawn(move || {
                std::thread::sleep(late);
                done(result);
            }));
        });
        self.inner.submit(frame, reservation, durability, late_done);
    }

    fn replay(&self, visit: &mut dyn FnMut(Lsn, Frame) -> Result<()>) -> Result<()> {
        self.inner.replay(visit)
    }

    fn status(&self) -> LogStatus {
        self.inner.status()
    }

    fn close(&self) -> Result<()> {
        self.inner.close()
    }
}
