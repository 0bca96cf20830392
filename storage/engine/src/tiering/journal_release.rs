//! Releases (frees) segments of the journal. Holds, for example of a backup, delay the release.

use parking_lot::Mutex;
use stratalog_model::{Log, Lsn, Result};

/// The number of holds on the journal, and the release to make after the last hold.
#[derive(Debug, Default)]
pub struct JournalRelease(Mutex<JournalReleaseState>);

#[derive(Debug, Default)]
struct JournalReleaseState {
    holds: usize,
    before: Option<Lsn>,
}

impl JournalRelease {
    /// True while at least one hold exists.
    pub fn is_held(&self) -> bool {
        self.0.lock().holds > 0
    }

    /// Releases the segments before the frame `before`: now, or after the last hold. Returns the
    /// number of bytes freed.
    ///
    /// # Errors
    /// `Io`.
    pub fn release(&self, log: &dyn Log, before: Lsn) -> Result<u64> {
        {
            let mut releasing = self.0.lock();
            if releasing.holds > 0 {
                releasing.before = releasing.before.max(Some(before));
                return Ok(0);
            }
            debug_assert!(releasing.before.is_none(), "the last hold left a release");
        }
        log.release(before)
    }

    /// Begins a hold.
    pub fn hold(&self) {
        let mut releasing = self.0.lock();
        debug_assert!(
            releasing.holds > 0 || releasing.before.is_none(),
            "the last hold left a release"
        );
        releasing.holds += 1;
    }

    /// Ends a hold. If it was the last hold, returns the release that the caller must make now.
    pub fn end_hold(&self) -> Option<Lsn> {
        let mut releasing = self.0.lock();
        debug_assert!(releasing.holds > 0, "a hold ends that did not begin");
        releasing.holds -= 1;
        if releasing.holds > 0 {
            return None;
        }
        releasing.before.take()
    }

    /// True if a release waits for the end of the holds.
    pub fn is_due(&self) -> bool {
        self.0.lock().before.is_some()
    }
}
