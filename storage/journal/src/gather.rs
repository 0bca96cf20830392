//! When a group starts: at once, or when those who are about to append have done so.
//!
//! A sync costs the same for one frame as for fifty. Where appends overlap, whoever was
//! answered last is back in a moment, and the group that waits for all of them needs a
//! fraction of the syncs. Nobody waits for a single appender: its appends never overlap.
//!
//! ```text
//!   group of 9 done, 3 wait │ gather until 12 wait, or none came for a while │ write, sync
//! ```

use std::time::Duration;

/// So long without a new frame, and the group starts with what is there.
const PAUSE: Duration = Duration::from_micros(250);

/// Every so many groups it is found out anew how many come.
const EXPLORE_GROUPS: u32 = 32;

/// Bytes that wait from which on a group is large enough.
const ENOUGH_BYTES: u64 = 64 << 10;

/// How many frames a group is worth waiting for. Learned from the groups before.
#[derive(Debug)]
pub(crate) struct Gather {
    longest: Duration,
    /// Frames that came together lately when they were waited for.
    expected: usize,
    /// Frames of the last group and those that waited at its end.
    overlapping: usize,
    groups: u32,
}

/// One wait for a group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    /// Frames that end it.
    pub(crate) frames: usize,
    /// Without a new frame for so long, it ends.
    pub(crate) pause: Duration,
    /// It ends anyway.
    pub(crate) longest: Duration,
    explores: bool,
}

impl Gather {
    /// Waits for at most `longest`; not at all when that is zero.
    pub(crate) fn new(longest: Duration) -> Self {
        Self { longest, expected: 1, overlapping: 0, groups: 0 }
    }

    /// Whether appends have not overlapped lately.
    pub(crate) fn is_lone(&self) -> bool {
        self.overlapping < 2
    }

    /// How to wait while `frames` of `bytes` are there; `None` to start at once.
    pub(crate) fn wait(&mut self, frames: usize, bytes: u64) -> Option<Wait> {
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

    /// A wait ended with so many frames.
    pub(crate) fn waited(&mut self, wait: Wait, frames: usize) {
        if wait.explores {
            self.expected = self.expected.max(frames);
        } else if frames < self.expected {
            // Some have left, or were slow for once.
            self.expected = frames.max(self.expected * 7 / 8);
        }
    }

    /// A group of `frames` is done, and `waiting` came meanwhile.
    pub(crate) fn done(&mut self, frames: usize, waiting: usize) {
        self.overlapping = frames + waiting;
    }
}

#[cfg(test)]
mod tests;
