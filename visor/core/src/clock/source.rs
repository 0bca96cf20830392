//! Reads the machine's clocks.

use stratalog_model::{Error, ErrorKind, Result};

/// The latest wall clock time with which a start is possible, in nanoseconds since 1970: in 2261, a
/// year before the end of the 64-bit range.
const WALL_NS_MAX: i64 = 9_190_000_000 * 1_000_000_000;

/// The wall clock is read between two readings of the monotonic clock. If these two readings differ
/// by at most this number of nanoseconds, the instant of the wall clock reading is known exactly
/// enough.
const TOGETHER_NS: u64 = 1_000_000;

/// Maximum number of attempts to get readings that are close together.
const TRIES: usize = 8;

/// Readings of both clocks at nearly the same instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instant {
    pub(super) wall_ns: i64,
    pub(super) monotonic_ns: u64,
    /// Difference between the two readings of the monotonic clock.
    pub(super) spread_ns: u64,
    /// True if the readings are close together. If the process was suspended between two readings,
    /// they differ as if the clock had jumped, although it has not.
    pub(super) sure: bool,
}

/// Reads both clocks.
pub(super) fn read(source: &dyn TimeSource) -> Instant {
    let look = || {
        let before_ns = source.monotonic_ns();
        let wall_ns = source.wall_ns();
        let monotonic_ns = source.monotonic_ns();
        let spread_ns = monotonic_ns.saturating_sub(before_ns);
        Instant { wall_ns, monotonic_ns, spread_ns, sure: spread_ns <= TOGETHER_NS }
    };
    let mut now = look();
    for _ in 1..TRIES {
        if now.sure {
            break;
        }
        now = look();
    }
    debug_assert!(
        now.spread_ns <= now.monotonic_ns,
        "two readings are farther apart than the clock has run"
    );
    now
}

/// Checks that a start can use the wall clock.
///
/// # Errors
/// `DatetimeOverflow` if the wall clock is before 1970 or after 2260.
pub(super) fn usable(now: Instant) -> Result<Instant> {
    if (0..=WALL_NS_MAX).contains(&now.wall_ns) {
        return Ok(now);
    }
    let which = if now.wall_ns < 0 { "before 1970" } else { "after the year 2260" };
    Err(Error::new(
        ErrorKind::DatetimeOverflow,
        format!("the machine's clock shows a time {which}: no start is possible"),
    )
    .with_hint("correct the machine's clock, and start again; nothing was changed"))
}

/// Gives access to the machine's clocks; tests replace it.
pub trait TimeSource: Send + Sync + std::fmt::Debug {
    /// Nanoseconds since 1970-01-01T00:00:00Z by the machine's wall clock; may jump.
    fn wall_ns(&self) -> i64;

    /// Nanoseconds since a fixed instant; never jumps or goes back.
    fn monotonic_ns(&self) -> u64;
}

/// The operating system's clocks.
#[derive(Debug)]
pub struct SystemTimeSource {
    start: std::time::Instant,
}

impl SystemTimeSource {
    /// The clocks for this process; the monotonic clock starts at 0 now.
    #[expect(clippy::disallowed_methods, reason = "the one place where time enters")]
    pub fn new() -> Self {
        Self { start: std::time::Instant::now() }
    }
}

impl Default for SystemTimeSource {
    fn default() -> Self {
        Self::new()
    }
}

impl TimeSource for SystemTimeSource {
    #[expect(clippy::disallowed_methods, reason = "the one place where time enters")]
    fn wall_ns(&self) -> i64 {
        match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
            Err(before) => {
                i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, std::ops::Neg::neg)
            }
        }
    }

    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
