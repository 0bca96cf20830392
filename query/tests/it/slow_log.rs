//! A log that answers late.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use stratalog_journal::{Journal, JournalSettings};
use stratalog_model::{
    Durability, Log, Lsn, Result,
    log::{Completion, Frame, LogStatus, Reservation},
};
use stratalog_sim::{
    FaultyDisk,
    conformance::log::{self, LogStorage},
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

    fn release(&self, before: Lsn) -> Result<u64> {
        self.inner.release(before)
    }

    fn close(&self) -> Result<()> {
        self.inner.close()
    }
}

#[test]
fn it_keeps_the_promises_of_a_log() {
    let fresh = || -> Box<dyn LogStorage> {
        let disk = FaultyDisk::new(1);
        Box::new(move || -> Arc<dyn Log> {
            let settings = JournalSettings {
                segment_bytes_max: 256 << 10,
                frame_bytes_max: 64 << 10,
                group_bytes_max: 64 << 10,
                free_bytes_min: 0,
                ..JournalSettings::default()
            };
            let inner = Journal::open(Arc::new(disk.clone()), "/data/journal".into(), settings);
            Arc::new(SlowLog { inner: Arc::new(inner.unwrap()), late_ms: Arc::default() })
        })
    };
    log::every_log(&fresh);
    log::log_of_files(&fresh);
}
