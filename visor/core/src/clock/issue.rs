//! Which time to issue: pure, from one look at the machine's clocks to the next.

use stratalog_model::clock::{ClockReading, RATE_ONE_PPB, TimeLine};

use super::{AHEAD_NS, CATCHING_UP_LEASE_NS, ClockSettings, lease::Mark, source::Instant};

/// The wall clock went another way than the monotonic one by more than this: it was stepped, not
/// read a little late.
const STEP_NS: i64 = 10_000_000;

/// A wall clock that is this far behind the issued time is worth a warning.
const BEHIND_WARN_NS: i64 = 1_000_000_000;

/// How far two crashes, one soon after the other, leave the wall clock behind. Time catches up by
/// itself, and no operator need look.
const CRASHED_NS: i64 = 2 * AHEAD_NS;

/// A start whose wall clock is ahead of the last run by more than this holds the lead, as a running
/// clock holds a jump: a wrong clock is likelier than a year without a server.
const START_LEAD_HELD_NS: i64 = 366 * 24 * 3_600 * 1_000_000_000;

/// A wall clock that is farther behind the issued time is mentioned together with the correction by
/// command.
const CORRECTION_HINT_NS: i64 = 3_600 * 1_000_000_000;

/// A shorter time tells nothing about drift.
const DRIFT_OVER_NS: i64 = 1_000_000_000;

/// How the wall clock and issued time go together.
#[derive(Debug)]
pub(super) struct Issue {
    settings: ClockSettings,
    /// The clocks, when they were looked at last.
    seen: Instant,
    /// Where slow time starts from while the wall clock is behind.
    anchor_ns: i64,
    /// The monotonic clock at the anchor.
    anchor_monotonic_ns: u64,
    /// How far the wall clock was behind when it was looked at last.
    behind_ns: i64,
    /// Whether it is so far behind that time goes at half speed for long.
    catches_up: bool,
    mark: Mark,
    steps: u64,
    jumps_held: u64,
    /// The clocks when drift began to be measured.
    drift_from: Instant,
    /// Whether the wall clock is far behind and this was said.
    warned: bool,
    /// How far the wall clock was behind at the start as crashes explain: the leases that they left.
    /// Nothing once the clocks have met.
    crashed_ns: i64,
}

impl Issue {
    /// Begins a new epoch at the larger of the wall clock and the floor of what was issued.
    pub(super) fn begin(
        settings: ClockSettings,
        now: Instant,
        floor_ns: Option<i64>,
        before: Mark,
    ) -> Self {
        let (held_ns, unconfirmed_ns) = at_start(settings, now, floor_ns, before);
        let wall_ns = now.wall_ns.saturating_sub_unsigned(held_ns);
        let start_ns = floor_ns.map_or(wall_ns, |floor| floor.max(wall_ns));
        let behind_ns = start_ns.saturating_sub(wall_ns);
        let crashed_ns = behind_ns.min(CRASHED_NS);
        let warned = behind_ns > BEHIND_WARN_NS + crashed_ns;
        if warned {
            tracing::warn!(
                behind_ms = behind_ns / 1_000_000,
                "the wall clock is behind the time issued before the restart; time runs slower until it has caught up"
            );
        }
        Self {
            settings,
            seen: now,
            anchor_ns: start_ns,
            anchor_monotonic_ns: now.monotonic_ns,
            behind_ns,
            catches_up: behind_ns > STEP_NS,
            mark: Mark { epoch: before.epoch.saturating_add(1), held_ns, unconfirmed_ns },
            steps: 0,
            jumps_held: 0,
            drift_from: now,
            warned,
            crashed_ns,
        }
    }

    /// The time at which it began; later the time at which the two clocks met last.
    pub(super) fn start_ns(&self) -> i64 {
        self.anchor_ns
    }

    /// What a start must know.
    pub(super) fn mark(&self) -> Mark {
        self.mark
    }

    /// How far ahead of the issued time a lease is put, of at most `most_ns`.
    pub(super) fn lease_ns(&self, most_ns: i64) -> i64 {
        match self.behind_ns > STEP_NS {
            true => most_ns.min(CATCHING_UP_LEASE_NS),
            false => most_ns,
        }
    }

    /// How often a jump was not followed.
    pub(super) fn jumps_held(&self) -> u64 {
        self.jumps_held
    }

    /// The time to issue.
    pub(super) fn advance(&mut self, now: Instant) -> i64 {
        let elapsed_ns = now.monotonic_ns.saturating_sub(self.anchor_monotonic_ns) / 2;
        let slow_ns = self.anchor_ns.saturating_add_unsigned(elapsed_ns);
        let wall_ns = self.followed(now, slow_ns);
        self.behind_ns = slow_ns.saturating_sub(wall_ns).max(0);
        if wall_ns >= slow_ns {
            self.anchor_ns = wall_ns;
            self.anchor_monotonic_ns = now.monotonic_ns;
            self.warned = false;
            self.crashed_ns = 0;
            self.steps += u64::from(std::mem::take(&mut self.catches_up));
            return wall_ns;
        }
        if self.behind_ns > STEP_NS && !std::mem::replace(&mut self.catches_up, true) {
            self.steps += 1;
        }
        if self.is_behind() && !std::mem::replace(&mut self.warned, true) {
            tracing::warn!(
                behind_ms = self.behind_ns / 1_000_000,
                "the wall clock was set back; time runs slower until it has caught up"
            );
        }
        slow_ns
    }

    /// The wall clock without what is held of it, once it was compared with what the monotonic
    /// clock did since both were looked at last. `slow_ns`: time is issued up to there anyway.
    fn followed(&mut self, now: Instant, slow_ns: i64) -> i64 {
        let elapsed_ns = now.monotonic_ns.saturating_sub(self.seen.monotonic_ns);
        let expected_ns = self.seen.wall_ns.saturating_add_unsigned(elapsed_ns);
        let step_ns = now.wall_ns.saturating_sub(expected_ns);
        let expected_ns = expected_ns.saturating_sub_unsigned(self.mark.held_ns);
        let without_step_ns = expected_ns.max(slow_ns);
        let most_ns = self.settings.jump_ns_max;
        let most_ns = most_ns.filter(|_| !crate::sabotage::active("jump-followed"));
        let most_ns = most_ns.unwrap_or(i64::MAX);
        let wall_ns = now.wall_ns.saturating_sub_unsigned(self.mark.held_ns);
        if !now.sure {
            // Not known to be of one instant: the next look decides about a jump. However many are
            // so, they add up to no more than one.
            return wall_ns.min(expected_ns.saturating_add(most_ns));
        }
        self.seen = now;
        if step_ns.saturating_abs() <= STEP_NS {
            return wall_ns;
        }
        self.drift_from = now;
        let ahead_ns = wall_ns.saturating_sub(without_step_ns);
        if step_ns > 0 && ahead_ns > most_ns {
            self.hold(ahead_ns.unsigned_abs());
        } else if step_ns < 0 && self.mark.held_ns > 0 {
            self.set_right(step_ns.unsigned_abs(), most_ns.unsigned_abs());
        } else if step_ns < 0 && self.mark.unconfirmed_ns > 0 {
            self.corrected(step_ns.unsigned_abs());
        } else if ahead_ns > STEP_NS {
            self.steps += 1;
        }
        now.wall_ns.saturating_sub_unsigned(self.mark.held_ns)
    }

    /// The wall clock jumped too far ahead: time goes on as if it had not.
    fn hold(&mut self, ahead_ns: u64) {
        self.jumps_held += 1;
        self.fence(self.mark.held_ns.saturating_add(ahead_ns), self.mark.unconfirmed_ns);
        tracing::error!(
            jump_s = ahead_ns / 1_000_000_000,
            held_s = self.mark.held_ns / 1_000_000_000,
            "the wall clock jumped ahead and is not followed: set it right, or accept the jump by CALL stratalog.accept_clock_jump()"
        );
    }

    /// The wall clock was set back while a jump of it is held: most likely to where it was.
    fn set_right(&mut self, back_ns: u64, most_ns: u64) {
        let held_ns = self.mark.held_ns.saturating_sub(back_ns);
        // What is left is no more than would have been followed at once.
        let held_ns = if held_ns <= most_ns { 0 } else { held_ns };
        self.fence(held_ns, self.mark.unconfirmed_ns);
        tracing::warn!(
            held_s = held_ns / 1_000_000_000,
            "the wall clock was set back after a jump that was not followed"
        );
    }

    /// The wall clock was set back while its lead at a start is unconfirmed: the lead is shorter by
    /// as much, or gone.
    fn corrected(&mut self, back_ns: u64) {
        let unconfirmed_ns = rest_of_lead(self.settings, self.mark.unconfirmed_ns, back_ns);
        self.fence(self.mark.held_ns, unconfirmed_ns);
        tracing::warn!(
            unconfirmed_s = unconfirmed_ns / 1_000_000_000,
            "the wall clock was set back after a start with an unconfirmed lead"
        );
    }

    fn fence(&mut self, held_ns: u64, unconfirmed_ns: u64) {
        self.mark = Mark { epoch: self.mark.epoch.saturating_add(1), held_ns, unconfirmed_ns };
        self.steps = 0;
    }

    /// The time by which retention may delete, when `now_ns` is issued: not ahead of the wall clock,
    /// and without its unconfirmed lead.
    pub(super) fn confirmed_ns(&self, now_ns: i64) -> i64 {
        let by_wall_ns = now_ns.saturating_sub(self.behind_ns);
        by_wall_ns.saturating_sub_unsigned(self.mark.unconfirmed_ns)
    }

    /// An operator wants the wall clock to be followed.
    pub(super) fn accept(&mut self, mark: Mark) {
        self.mark = mark;
        self.steps = 0;
        self.drift_from = self.seen;
    }

    /// What is told when `now_ns` is issued.
    pub(super) fn reading(&self, now_ns: i64) -> ClockReading {
        ClockReading {
            now_ns,
            rate_ppb: if self.catches_up { RATE_ONE_PPB / 2 } else { RATE_ONE_PPB },
            uncertainty_ns: self.seen.spread_ns,
            line: TimeLine { epoch: self.mark.epoch, steps: self.steps },
        }
    }

    /// How much faster the wall clock is than the monotonic one, in billionths.
    pub(super) fn drift_ppb(&self) -> i64 {
        let from = self.drift_from;
        let elapsed_ns = i64::try_from(self.seen.monotonic_ns.saturating_sub(from.monotonic_ns));
        let elapsed_ns = elapsed_ns.unwrap_or(i64::MAX);
        if elapsed_ns < DRIFT_OVER_NS {
            return 0;
        }
        let wall_ns = self.seen.wall_ns.saturating_sub(from.wall_ns);
        let ahead = i128::from(wall_ns.saturating_sub(elapsed_ns)) * i128::from(RATE_ONE_PPB);
        i64::try_from(ahead / i128::from(elapsed_ns)).unwrap_or(0)
    }

    /// Whether the wall clock is behind by more than crashes explain.
    fn is_behind(&self) -> bool {
        self.behind_ns > BEHIND_WARN_NS.saturating_add(self.crashed_ns)
    }

    /// What an operator should look at.
    pub(super) fn alarms(&self) -> Vec<String> {
        let mut alarms = Vec::new();
        if self.mark.held_ns > 0 {
            alarms.push(format!(
                "the machine's clock jumped ahead by {} s and is not followed: set it right, or CALL stratalog.accept_clock_jump()",
                self.mark.held_ns / 1_000_000_000
            ));
        }
        if self.mark.unconfirmed_ns > 0 {
            alarms.push(format!(
                "the machine's clock was {} s ahead of the last run at a start: retention keeps events for so much longer. If that clock is right, CALL stratalog.accept_clock_jump(); if it is wrong, stop the server, set the clock right, and run stratalog clock --correct",
                self.mark.unconfirmed_ns / 1_000_000_000
            ));
        }
        if self.is_behind() {
            let far_ns = CORRECTION_HINT_NS;
            let hint = if self.behind_ns > far_ns {
                "; to continue at the machine's clock instead, stop the server and run stratalog clock --correct"
            } else {
                ""
            };
            alarms.push(format!(
                "the machine's clock is {} s behind the time that was given out: time runs at half speed until it has caught up{hint}",
                self.behind_ns / 1_000_000_000
            ));
        }
        alarms
    }
}

/// What a start holds of the wall clock, and what of its lead over the last run is unconfirmed.
fn at_start(
    settings: ClockSettings,
    now: Instant,
    floor_ns: Option<i64>,
    before: Mark,
) -> (u64, u64) {
    let held_ns = still_held(settings, now, floor_ns, before);
    let (Some(floor_ns), Some(most_ns)) = (floor_ns, settings.start_lead_ns_max) else {
        return (held_ns, 0);
    };
    let lead_ns = now.wall_ns.saturating_sub_unsigned(held_ns).saturating_sub(floor_ns);
    let ahead_ns = u64::try_from(lead_ns).unwrap_or(0);
    if settings.jump_ns_max.is_some() && lead_ns > START_LEAD_HELD_NS {
        tracing::error!(
            lead_s = ahead_ns / 1_000_000_000,
            "the wall clock is more than a year ahead of the last run and is not followed: set it right, or accept the jump by CALL stratalog.accept_clock_jump()"
        );
        return (held_ns.saturating_add(ahead_ns), before.unconfirmed_ns);
    }
    if lead_ns > most_ns {
        tracing::error!(
            lead_s = ahead_ns / 1_000_000_000,
            "the wall clock is far ahead of the last run: retention keeps events for so much longer until the clock is confirmed. If it is right, CALL stratalog.accept_clock_jump(); if it is wrong, stop the server, set the clock right, and run stratalog clock --correct"
        );
        return (held_ns, before.unconfirmed_ns.saturating_add(ahead_ns));
    }
    // A crash leaves the floor a lease or two ahead of the issued time.
    let back_ns = floor_ns.saturating_sub(CRASHED_NS).saturating_sub(now.wall_ns);
    let back_ns = u64::try_from(back_ns).unwrap_or(0);
    (held_ns, rest_of_lead(settings, before.unconfirmed_ns, back_ns))
}

/// What is left of an unconfirmed lead once the wall clock was set back: nothing, if a start would
/// have trusted the rest.
fn rest_of_lead(settings: ClockSettings, unconfirmed_ns: u64, back_ns: u64) -> u64 {
    let trusted_ns = settings.start_lead_ns_max.map_or(u64::MAX, i64::unsigned_abs);
    match unconfirmed_ns.saturating_sub(back_ns) {
        rest if back_ns > 0 && rest <= trusted_ns => 0,
        rest => rest,
    }
}

/// How much of what was held before a restart is held on: all of it while the wall clock is as far
/// ahead as it was, nothing once it was set right, or every jump is followed.
fn still_held(settings: ClockSettings, now: Instant, floor_ns: Option<i64>, before: Mark) -> u64 {
    let (Some(floor_ns), Some(_)) = (floor_ns, settings.jump_ns_max) else { return 0 };
    let wall_ns = now.wall_ns.saturating_sub_unsigned(before.held_ns);
    // A crash leaves the floor a lease or two ahead of what was issued.
    let as_before = wall_ns >= floor_ns.saturating_sub(CRASHED_NS);
    if before.held_ns > 0 && as_before {
        tracing::error!(
            held_s = before.held_ns / 1_000_000_000,
            "the wall clock is still ahead by a jump that was not followed before the restart: set it right, or accept the jump by CALL stratalog.accept_clock_jump()"
        );
        return before.held_ns;
    }
    0
}
