//! The registry of the guarantees CL-1 … CL-10 ("promises").
//!
//! Code checks a promise with [`invariant!`](crate::invariant!). A broken promise panics in debug
//! builds; release builds count and log it. With `halt`, a broken promise panics in release builds
//! too, because the next step could lose data.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! promises {
    ($( $name:ident = $number:literal: $text:literal; )*) => {
        /// A numbered guarantee; documents, code and tests cite the number.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Promise { $( #[doc = $text] $name, )* }

        impl Promise {
            /// Every promise, in order.
            pub const ALL: &'static [Promise] = &[ $( Promise::$name, )* ];

            /// The number: `CL-n`.
            pub const fn number(self) -> usize {
                match self { $( Promise::$name => $number, )* }
            }

            /// The text of the promise.
            pub const fn text(self) -> &'static str {
                match self { $( Promise::$name => $text, )* }
            }
        }
    };
}

promises! {
    AcknowledgedIsRecovered = 1: "Acknowledged means recovered, at the durability level that the acknowledgement names.";
    OneOwner = 2: "In one version, every event is owned by exactly one tier.";
    MovesPreserve = 3: "A move preserves the multiset of events, and is one manifest edit.";
    OrderedScans = 4: "Time scans are in (tick, seq) order; subscriptions are in gsn order.";
    SnapshotsFrozen = 5: "A pinned snapshot never changes.";
    NoWrongRow = 6: "Damaged bytes never become a wrong row.";
    FailedSyncPoisons = 7: "A failed fsync poisons the writer.";
    TimeForward = 8: "Assigned time never goes backwards.";
    IndexRebuilds = 9: "Losing or deleting the index loses nothing.";
    FailuresContained = 10: "A full disk, a full budget, a runaway query or a malformed message fails that request only.";
}

static BROKEN: [AtomicU64; 11] = [const { AtomicU64::new(0) }; 11];

/// The number of violations of `promise` since the process started. A number above 0 shows a
/// defect.
pub fn broken_count(promise: Promise) -> u64 {
    BROKEN.get(promise.number()).map_or(0, |count| count.load(Ordering::Relaxed))
}

/// Counts and logs a broken promise; called by [`invariant!`](crate::invariant!).
#[doc(hidden)]
#[track_caller]
pub fn report(promise: Promise, detail: std::fmt::Arguments<'_>) {
    if let Some(count) = BROKEN.get(promise.number()) {
        count.fetch_add(1, Ordering::Relaxed);
    }
    tracing::error!(promise = promise.number(), %detail, "invariant broken");
    debug_assert!(false, "CL-{} broken: {detail}", promise.number());
}

/// Like [`report`], but panics in release builds too.
#[doc(hidden)]
#[cold]
#[track_caller]
#[expect(clippy::panic, reason = "a step further could lose data")]
pub fn halt(promise: Promise, detail: std::fmt::Arguments<'_>) -> ! {
    report(promise, detail);
    panic!("CL-{} broken: {detail}", promise.number());
}

/// Checks that a condition of a promise holds: `invariant!(OrderedScans, a <= b, "{a} after {b}")`.
/// With `halt`, a broken promise panics in release builds too. Use `halt` where the next step could
/// lose data and a panic prevents this step.
#[macro_export]
macro_rules! invariant {
    (halt $promise:ident, $condition:expr, $($detail:tt)+) => {
        if !$condition {
            $crate::invariant::halt(
                $crate::invariant::Promise::$promise,
                format_args!($($detail)+),
            );
        }
    };
    ($promise:ident, $condition:expr, $($detail:tt)+) => {
        if !$condition {
            $crate::invariant::report(
                $crate::invariant::Promise::$promise,
                format_args!($($detail)+),
            );
        }
    };
}
