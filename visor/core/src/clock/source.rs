//! Where time comes from.

/// The machine's clocks; replaced in tests.
pub trait TimeSource: Send + Sync + std::fmt::Debug {
    /// Nanoseconds since 1970-01-01T00:00:00Z as the machine believes; may jump.
    fn wall_ns(&self) -> i64;

    /// Nanoseconds since some fixed instant; never jumps, not even back.
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
