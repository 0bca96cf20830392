//! A log in memory. If it is opened again, it replays the acknowledged records.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use stratalog_model::{
    BoxFuture, Durability, Error, ErrorKind, Frame, Log, Lsn, Result,
    log::{Completion, LogStatus, Reservation},
};

#[derive(Debug, Default)]
pub(super) struct MemoryLog {
    pub frames: Arc<Mutex<Vec<Frame>>>,
    /// If true, the next submit fails.
    pub failing: AtomicBool,
    /// If true, the log has stopped permanently.
    stopped: AtomicBool,
    /// Completion callbacks that wait for `finish`.
    pub holding: AtomicBool,
    held: Mutex<Vec<Held>>,
}

struct Held(Completion, Lsn);

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Held({})", self.1)
    }
}

impl MemoryLog {
    /// Makes another log with the same frames, as after a restart.
    pub fn reopened(&self) -> MemoryLog {
        MemoryLog { frames: Arc::clone(&self.frames), ..MemoryLog::default() }
    }

    /// Lets every submit fail from now on.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Calls the completion callbacks that were kept since `holding`.
    pub fn finish(&self) {
        for Held(done, lsn) in self.held.lock().drain(..) {
            done(Ok(lsn));
        }
    }
}

impl Log for MemoryLog {
    fn reserve(&self, _payload_bytes: usize) -> BoxFuture<'_, Result<Reservation>> {
        Box::pin(async { Ok(Box::new(()) as Reservation) })
    }

    fn submit(
        &self,
        frame: Frame,
        _reservation: Reservation,
        durability: Durability,
        done: Completion,
    ) {
        assert_eq!(durability, Durability::Disk, "the catalog is always on disk");
        if self.failing.swap(false, Ordering::Relaxed) {
            return done(Err(Error::new(ErrorKind::DiskFull, "no room")));
        }
        if self.stopped.load(Ordering::Relaxed) {
            return done(Err(Error::new(ErrorKind::Io, "the log has stopped")));
        }
        let mut frames = self.frames.lock();
        frames.push(frame);
        let lsn = Lsn(frames.len() as u64);
        drop(frames);
        if self.holding.load(Ordering::Relaxed) {
            self.held.lock().push(Held(done, lsn));
        } else {
            done(Ok(lsn));
        }
    }

    fn replay(&self, visit: &mut dyn FnMut(Lsn, Frame) -> Result<()>) -> Result<()> {
        for (lsn, frame) in (1..).map(Lsn).zip(self.frames.lock().iter()) {
            visit(lsn, frame.clone())?;
        }
        Ok(())
    }

    fn status(&self) -> LogStatus {
        let stopped = self.stopped.load(Ordering::Relaxed);
        LogStatus { poisoned: stopped.then(|| "stopped".into()), ..LogStatus::default() }
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}
