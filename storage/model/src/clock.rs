//! Time, as a thing that is handed in.

/// The master clock (F23). Implementations keep CL-8: what they hand out never goes
/// backwards, across restarts and clock steps.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Nanoseconds since 1970-01-01T00:00:00Z; every call returns at least what the call before did.
    fn now_ns(&self) -> i64;

    /// Nanoseconds of a clock that only measures durations.
    fn monotonic_ns(&self) -> u64;
}
