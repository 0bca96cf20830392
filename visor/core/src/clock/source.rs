//! The source of time.

use stratalog_model::{Error, ErrorKind, Result};

/// The last wall clock for a possible start, in nanoseconds since 1970: in 2261, a year before the
/// end of the 64-bit range.
const WALL_NS_MAX: i64 = 9_190_000_000 * 1_000_000_000;

/// Two readings of the monotonic clock at most this far apart have the reading of the wall clock
/// between them at a sufficiently exact instant.
const TOGETHER_NS: u64 = 1_000_000;

/// Maximum number of attempts for a close pair of readings.
const TRIES: usize = 8;

/// Both clocks at the same instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instant {
    pub(super) wall_ns: i64,
    pub(super) monotonic_ns: u64,
    /// Distance between the two readings of the monotonic clock.
    pub(super) spread_ns: u64,
    /// True if the readings are close together. A process suspended between two readings sees a
    /// jump without a step of the clock.
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

/// Checks that a start can use the clocks.
///
/// # Errors
/// `DatetimeOverflow` when the wall clock is before 1970 or after 2260.
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

/// The machine's clocks; replaced in tests.
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
    /// The clocks of this process; the monotonic one starts at 0 now.
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
