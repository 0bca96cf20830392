//! Commands by which an operator changes the clock of a database that no server has open.

use std::path::Path;

use stratalog_model::{Disk, Error, ErrorKind, Result};

use super::{
    AHEAD_NS,
    lease::{Lease, Mark},
    source::{TimeSource, read, usable},
};

/// The end of the lease before and after a correction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Correction {
    /// The old lease, in nanoseconds since 1970.
    pub from_ns: i64,
    /// The new lease, in nanoseconds since 1970.
    pub to_ns: i64,
}

/// Sets the time back to the machine's clock, although later times were issued. This explicit
/// command is the only exception to CL-8. It begins a new epoch: clients must not compute times
/// from earlier readings. Stored events stay unchanged.
///
/// # Errors
/// `ObjectNotInPrerequisiteState` if the issued time is not ahead of the machine's clock;
/// `DatetimeOverflow` if the machine's clock is unusable; `DataCorrupted`, `Io`.
pub fn correct(disk: &dyn Disk, directory: &Path, source: &dyn TimeSource) -> Result<Correction> {
    let now = usable(read(source))?;
    let (mut lease, floor_ns) = Lease::open(disk, directory, true)?;
    let from_ns = floor_ns.unwrap_or(i64::MIN);
    // Even with a correct machine's clock, a crash can leave the lease this far ahead.
    if from_ns <= now.wall_ns.saturating_add(AHEAD_NS) {
        return Err(Error::new(
            ErrorKind::ObjectNotInPrerequisiteState,
            "the time of this database is not ahead of the machine's clock: no correction is needed",
        )
        .with_hint("if the machine's clock is wrong, correct the machine's clock first"));
    }
    debug_assert!(now.wall_ns < from_ns, "a correction does not take time back");
    let mark = Mark { epoch: lease.mark().epoch.saturating_add(1), ..Mark::default() };
    write_both(&mut lease, now.wall_ns, mark)?;
    Ok(Correction { from_ns, to_ns: now.wall_ns })
}

/// Confirms the machine's clock, as `CALL stratalog.accept_clock_jump()` does on a running server.
/// Returns the sum of the held jump and the unconfirmed lead in nanoseconds; `None` if the sum is
/// 0.
///
/// # Errors
/// `DatetimeOverflow` if the machine's clock is unusable; `DataCorrupted`, `Io`.
pub fn accept(disk: &dyn Disk, directory: &Path, source: &dyn TimeSource) -> Result<Option<u64>> {
    let now = usable(read(source))?;
    let (mut lease, floor_ns) = Lease::open(disk, directory, true)?;
    let Some(floor_ns) = floor_ns else { return Ok(None) };
    let before = lease.mark();
    // Also confirms the lead that the next start would find.
    let confirmed_ns = floor_ns.saturating_sub_unsigned(before.unconfirmed_ns);
    let lead_ns = now.wall_ns.saturating_sub_unsigned(before.held_ns).saturating_sub(confirmed_ns);
    let accepted_ns = before.held_ns.saturating_add(u64::try_from(lead_ns).unwrap_or(0));
    debug_assert!(before.held_ns <= accepted_ns, "a part of the held jump is not accepted");
    if accepted_ns == 0 {
        return Ok(None);
    }
    let unconfirmed_ns = u64::try_from(floor_ns.saturating_sub(now.wall_ns)).unwrap_or(0);
    let mark = Mark { epoch: before.epoch.saturating_add(1), held_ns: 0, unconfirmed_ns };
    write_both(&mut lease, floor_ns.max(now.wall_ns), mark)?;
    Ok(Some(accepted_ns))
}

/// Writes the same content to both slots: if one slot is damaged later, the old lease cannot come
/// back.
fn write_both(lease: &mut Lease, lease_ns: i64, mark: Mark) -> Result<()> {
    lease.write_marked(lease_ns, mark)?;
    debug_assert_eq!(lease.mark(), mark, "the first slot has another mark");
    lease.write_marked(lease_ns, mark)
}
