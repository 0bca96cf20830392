//! The settings of a journal.

use serde::{Deserialize, Serialize};
use stratalog_model::{Error, ErrorKind, PartitionId, Result};

use crate::{frame, segment};

/// Settings of one journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JournalSettings {
    /// Partition of the segments. A directory with segments of another partition is refused.
    pub partition: PartitionId,
    /// Bytes of one segment file, header included. On a nearly full disk, segments are smaller.
    pub segment_bytes_max: u64,
    /// Maximum bytes of frames per group commit.
    pub group_bytes_max: u64,
    /// Maximum time in microseconds for which a group waits until the appenders of the last group
    /// have appended again, to share one sync. Only groups of overlapping `disk` appends wait; 0:
    /// never.
    pub gather_us_max: u64,
    /// A lone appender writes and syncs on its own thread if the previous group took at most this
    /// number of microseconds; 0: never.
    pub lone_us_max: u64,
    /// Minimum bytes of a synced group that bypasses the page cache.
    pub direct_bytes_min: u64,
    /// Maximum bytes of frames that wait or are being written; `reserve` waits beyond this limit.
    pub queue_bytes_max: u64,
    /// Maximum bytes of one frame's payload.
    pub frame_bytes_max: u64,
    /// Bytes of the file system that stay free. Below this limit, appends are refused with
    /// `DiskFull` until the disk has room again.
    pub free_bytes_min: u64,
    /// Reserve the disk space of a segment in advance. Without the reservation, a full disk shows
    /// only when a write fails.
    pub preallocate: bool,
    /// Idle time in milliseconds after which a mark records the durable position of the journal.
    /// With the mark, later damage is distinguishable from a torn tail; 0: only at close.
    pub mark_idle_ms: u64,
    /// A deliberate defect, for a crash test.
    #[cfg(feature = "sabotage")]
    #[serde(skip, default = "crate::Sabotage::from_environment")]
    pub sabotage: Option<crate::Sabotage>,
}

impl Default for JournalSettings {
    fn default() -> Self {
        Self {
            partition: PartitionId(0),
            segment_bytes_max: 256 << 20,
            group_bytes_max: 8 << 20,
            gather_us_max: 2000,
            lone_us_max: 500,
            direct_bytes_min: 128 << 10,
            queue_bytes_max: 64 << 20,
            frame_bytes_max: 16 << 20,
            free_bytes_min: 64 << 20,
            preallocate: true,
            mark_idle_ms: 50,
            #[cfg(feature = "sabotage")]
            sabotage: crate::Sabotage::from_environment(),
        }
    }
}

impl JournalSettings {
    /// Checks that the settings are consistent.
    ///
    /// # Errors
    /// `InvalidParameterValue`, with the setting and its bounds.
    pub fn validate(&self) -> Result<()> {
        let invalid = |message: String| Err(Error::new(ErrorKind::InvalidParameterValue, message));
        let frame_max = frame::extent_bytes(self.frame_bytes_max);
        if self.frame_bytes_max == 0 || self.frame_bytes_max > 1 << 30 {
            return invalid(format!(
                "the size of the largest frame, {}, must be between 1 and {}",
                self.frame_bytes_max,
                1 << 30
            ));
        }
        if self.segment_bytes_max < segment::HEADER_BYTES + frame_max + frame::HEADER_BYTES {
            return invalid(format!(
                "segment_bytes = {} must be at least {}, to contain the largest frame",
                self.segment_bytes_max,
                segment::HEADER_BYTES + frame_max + frame::HEADER_BYTES
            ));
        }
        if self.queue_bytes_max < frame_max || self.queue_bytes_max > u64::from(u32::MAX) {
            return invalid(format!(
                "journal_queue_bytes_max = {} must be between {frame_max} (the largest frame) and {}",
                self.queue_bytes_max,
                u32::MAX
            ));
        }
        if self.group_bytes_max == 0 {
            return invalid("a group of frames must have room for one frame".to_string());
        }
        debug_assert!(u32::try_from(frame_max).is_ok(), "a reservation has no room for a frame");
        Ok(())
    }
}
