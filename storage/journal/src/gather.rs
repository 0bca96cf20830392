//! The start of a group: at once, or after a wait for further appends.
//!
//! A sync costs the same for one frame and for fifty frames. With overlapping appends, the
//! appenders of the last group soon append again; a group that waits for all of them saves most
//! syncs. A single appender never waits: its appends never overlap.
//!
//! ```text
//!   group of 9 done, 3 wait │ gather until 12 wait, or none came for a while │ write, sync
//! ```

use std::time::Duration;

/// A group starts after this time without a new frame.
const PAUSE: Duration = Duration::from_micros(250);

/// Interval, in groups, of the exploration of the number of appenders.
const EXPLORE_GROUPS: u32 = 32;

/// Waiting bytes that make a group large enough to start.
const ENOUGH_BYTES: u64 = 64 << 10;

/// The number of frames worth a wait, learned from earlier groups.
#[derive(Debug)]
pub(crate) struct Gather {
    longest: Duration,
    /// Frames of recent groups after a wait.
    expected: usize,
    /// Frames of the last group plus frames waiting at its end.
    overlapping: usize,
    groups: u32,
}

/// One wait for a group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    /// Number of frames that ends the wait.
    pub(crate) frames: usize,
    /// Time without a new frame that ends the wait.
    pub(crate) pause: Duration,
    /// Maximum duration of the wait.
    pub(crate) longest: Duration,
    explores: bool,
}

impl Gather {
    /// A gatherer with a maximum wait `longest`; zero: never waits.
    pub(crate) fn new(longest: Duration) -> Self {
        Self { longest, expected: 1, overlapping: 0, groups: 0 }
    }

    /// Whether recent appends did not overlap.
    pub(crate) fn is_lone(&self) -> bool {
        self.overlapping < 2
    }

    /// The wait for a group while `frames` with `bytes` are queued; `None` to start at once.
    pub(crate) fn wait(&mut self, frames: usize, bytes: u64) -> Option<Wait> {
        debug_assert!(frames > 0, "no frame waits for a group");
        if self.longest.is_zero() || self.overlapping.max(frames) < 2 || bytes >= ENOUGH_BYTES {
            return None;
        }
        self.groups = self.groups.wrapping_add(1);
        let explores = self.groups % EXPLORE_GROUPS == 1;
        if !explores && frames >= self.expected {
            return None;
        }
        let frames = if explores { usize::MAX } else { self.expected };
        Some(Wait { frames, pause: PAUSE, longest: self.longest, explores })
    }

    /// Learns from a wait that ended with `frames`.
    pub(crate) fn learn_wait(&mut self, wait: Wait, frames: usize) {
        debug_assert!(frames > 0, "the waiting frames are gone");
        if wait.explores {
            self.expected = self.expected.max(frames);
        } else if frames < self.expected {
            // Some appenders have left, or were slow this time.
            self.expected = frames.max(self.expected * 7 / 8);
        }
        debug_assert!(self.expected > 0, "a group without a frame is expected");
    }

    /// Learns from a group: `frames` are done, and `waiting` frames arrived meanwhile.
    pub(crate) fn done(&mut self, frames: usize, waiting: usize) {
        debug_assert!(frames > 0, "a group without a frame is done");
        self.overlapping = frames + waiting;
    }
}

#[cfg(test)]
mod tests;
