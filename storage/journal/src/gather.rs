//! Decides when a group starts: at once, or after a wait for further appends.
//!
//! A sync takes the same time for one frame and for fifty frames. If appends overlap, the appenders
//! of the last group soon append again; a group that waits for all of them saves most syncs. A
//! single appender never waits, because its appends do not overlap.
//!
//! ```text
//!   9 frames synced, 3 new frames wait │ gather until 12 wait, or none arrives │ write, sync
//! ```

use std::time::Duration;

/// A wait ends if no new frame arrives within this time.
const PAUSE: Duration = Duration::from_micros(250);

/// Every n-th group waits for all further appends, to learn the current number of appenders; this
/// is n.
const EXPLORE_GROUPS: u32 = 32;

/// A group starts at once if this number of bytes waits.
const ENOUGH_BYTES: u64 = 64 << 10;

/// Learns from earlier groups how many frames a group should wait for.
#[derive(Debug)]
pub(crate) struct Gather {
    longest: Duration,
    /// Number of frames that a group should have; learned from recent waits.
    expected: usize,
    /// Number of frames in the last group, plus the frames that waited at its end.
    overlapping: usize,
    groups: u32,
}

/// The conditions that end one wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    /// The wait ends when this number of frames waits.
    pub(crate) frames: usize,
    /// The wait ends if no new frame arrives within this time.
    pub(crate) pause: Duration,
    /// Maximum duration of the wait.
    pub(crate) longest: Duration,
    explores: bool,
}

impl Gather {
    /// Makes a gatherer whose waits take at most `longest`; with zero, it never waits.
    pub(crate) fn new(longest: Duration) -> Self {
        Self { longest, expected: 1, overlapping: 0, groups: 0 }
    }

    /// Whether the recent appends did not overlap (at most one frame per group).
    pub(crate) fn is_lone(&self) -> bool {
        self.overlapping < 2
    }

    /// The wait for a group when `frames` frames with `bytes` bytes are queued; `None` to start at
    /// once.
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

    /// Learns from a wait after which `frames` frames were queued.
    pub(crate) fn learn_wait(&mut self, wait: Wait, frames: usize) {
        debug_assert!(frames > 0, "the waiting frames are gone");
        if wait.explores {
            self.expected = self.expected.max(frames);
        } else if frames < self.expected {
            // Some appenders have stopped, or were slow this time.
            self.expected = frames.max(self.expected * 7 / 8);
        }
        debug_assert!(self.expected > 0, "a group without a frame is expected");
    }

    /// Learns from a completed group of `frames` frames; `waiting` frames arrived meanwhile.
    pub(crate) fn done(&mut self, frames: usize, waiting: usize) {
        debug_assert!(frames > 0, "a group without a frame is done");
        self.overlapping = frames + waiting;
    }
}

#[cfg(test)]
mod tests;
