//! An operator's commands for the clock of a database while no server has the database open.

use std::path::Path;

use stratalog_model::{Disk, Error, ErrorKind, Result};

use super::{
    AHEAD_NS,
    lease::{Lease, Mark},
    source::{TimeSource, read, usable},
};

/// The end of time before a correction, and the start of time after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Correction {
    /// The old lease, in nanoseconds since 1970.
    pub from_ns: i64,
    /// The new lease, in nanoseconds since 1970.
    pub to_ns: i64,
}

/// Lets time continue at the machine's clock, before the issued time: the only exception to CL-8,
/// by an explicit command. The command begins a new epoch: clients must not compute time from
/// earlier readings. Stored events stay unchanged.
///
/// # Errors
/// `ObjectNotInPrerequisiteState` when the issued time is not ahead of the machine's clock;
/// `DatetimeOverflow` when the machine's clock is unusable; `DataCorrupted`, `Io`.
pub fn correct(disk: &dyn Disk, directory: &Path, source: &dyn TimeSource) -> Result<Correction> {
    let now = usable(read(source))?;
    let (mut lease, floor_ns) = Lease::open(disk, directory, true)?;
    let from_ns = floor_ns.unwrap_or(i64::MIN);
    // A crash leaves the lease this far ahead of a correct machine's clock.
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

/// Confirms the machine's clock, like `CALL stratalog.accept_clock_jump()` on a running server.
/// Returns the sum of the held and the unconfirmed nanoseconds; `None` if the sum is 0.
///
/// # Errors
/// `DatetimeOverflow` when the machine's clock is unusable; `DataCorrupted`, `Io`.
pub fn accept(disk: &dyn Disk, directory: &Path, source: &dyn TimeSource) -> Result<Option<u64>> {
    let now = usable(read(source))?;
    let (mut lease, floor_ns) = Lease::open(disk, directory, true)?;
    let Some(floor_ns) = floor_ns else { return Ok(None) };
    let before = lease.mark();
    // The lead of the next start is confirmed too.
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

/// Writes both slots with the same content: damage of a slot does not bring the earlier lease back.
fn write_both(lease: &mut Lease, lease_ns: i64, mark: Mark) -> Result<()> {
    lease.write_marked(lease_ns, mark)?;
    debug_assert_eq!(lease.mark(), mark, "the first slot has another mark");
    lease.write_marked(lease_ns, mark)
}
