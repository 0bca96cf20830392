//! Computes the time to issue: a state machine without side effects, which receives readings of the
//! machine's clocks.

use stratalog_model::clock::{ClockReading, RATE_ONE_PPB, TimeLine};

use super::{AHEAD_NS, CATCHING_UP_LEASE_NS, ClockSettings, lease::Mark, source::Instant};

/// If the wall clock and the monotonic clock differ by more than this, the wall clock has made a
/// step. A smaller difference is a delay between the readings.
const STEP_NS: i64 = 10_000_000;

/// If the wall clock is farther than this behind the issued time, the clock logs a warning.
const BEHIND_WARN_NS: i64 = 1_000_000_000;

/// Maximum lag of the wall clock behind the issued time that two crashes in short succession can
/// cause. Time then catches up without an operator.
const CRASHED_NS: i64 = 2 * AHEAD_NS;

/// At a start, a larger lead of the wall clock over the last run is held, like a jump of a running
/// clock: a wrong clock is more likely than a year without a server.
const START_LEAD_HELD_NS: i64 = 366 * 24 * 3_600 * 1_000_000_000;

/// If the wall clock is farther than this behind the issued time, the alarm also names the command
/// that corrects the time.
const CORRECTION_HINT_NS: i64 = 3_600 * 1_000_000_000;

/// Maximum difference that the drift between the wall clock and the monotonic clock can cause
/// between two readings. A wall clock that is less than this ahead of the confirmed time counts as
/// right.
const DRIFT_NS: i64 = 60_000_000_000;

/// The stored lead is updated only when it has changed by this much, because each update costs an
/// fdatasync.
const STORED_LEAD_STEP_NS: u64 = 3_600_000_000_000;

/// Minimum duration over which drift is measured.
const DRIFT_OVER_NS: i64 = 1_000_000_000;

/// Follows the wall clock, and computes the issued time.
#[derive(Debug)]
pub(super) struct Issue {
    settings: ClockSettings,
    /// The last reading of both clocks.
    last_reading: Instant,
    /// The issued time from which time runs at half speed while the wall clock is behind.
    anchor_ns: i64,
    /// The monotonic clock at `anchor_ns`.
    anchor_monotonic_ns: u64,
    /// How far the wall clock was behind the issued time at the last reading.
    behind_ns: i64,
    /// True if this lag is large, so that time runs at half speed for a long time.
    catches_up: bool,
    /// The last time at which the wall clock was right, plus the time passed since. Initially the
    /// end of the last run; it advances when the wall clock is within the trusted limits. Never
    /// ahead of the issued time.
    confirmed_ns: i64,
    /// The monotonic clock at `confirmed_ns`.
    confirmed_monotonic_ns: u64,
    /// The values stored with the lease. `unconfirmed_ns` is at least the lead of the issued time
    /// over the confirmed time.
    mark: Mark,
    steps: u64,
    jumps_held: u64,
    /// The readings of both clocks at which the measurement of drift began.
    drift_from: Instant,
    /// True if the clock has logged a warning about the lag of the wall clock.
    warned: bool,
    /// How much of the lag at the start is explained by crashes, which leave leases ahead of the
    /// issued time. 0 once the wall clock has caught up.
    crashed_ns: i64,
}

impl Issue {
    /// Starts a new epoch at the wall clock or at the lower limit of the issued time, whichever is
    /// later.
    pub(super) fn begin(
        settings: ClockSettings,
        now: Instant,
        floor_ns: Option<i64>,
        before: Mark,
    ) -> Self {
        debug_assert!(now.wall_ns >= 0, "a start uses an unusable wall clock");
        debug_assert!(
            settings.jump_ns_max.is_none_or(|most_ns| most_ns >= 0)
                && settings.start_lead_ns_max.is_none_or(|most_ns| most_ns >= 0),
            "a limit of the clock is negative"
        );
        let (held_ns, confirmed_ns) = at_start(settings, now, floor_ns, before);
        let wall_ns = now.wall_ns.saturating_sub_unsigned(held_ns);
        let start_ns = floor_ns.map_or(wall_ns, |floor| floor.max(wall_ns));
        debug_assert!(confirmed_ns <= start_ns, "a time is confirmed before the start");
        let unconfirmed_ns = lead_of(start_ns, confirmed_ns);
        let behind_ns = start_ns.saturating_sub(wall_ns);
        let crashed_ns = behind_ns.min(CRASHED_NS);
        debug_assert!(crashed_ns <= behind_ns, "crashes explain more than the lag");
        let warned = behind_ns > BEHIND_WARN_NS + crashed_ns;
        if warned {
            tracing::warn!(
                behind_ms = behind_ns / 1_000_000,
                "the wall clock is behind the time issued before the restart; time runs slower until the wall clock has caught up"
            );
        }
        let issue = Self {
            settings,
            last_reading: now,
            anchor_ns: start_ns,
            anchor_monotonic_ns: now.monotonic_ns,
            behind_ns,
            catches_up: behind_ns > STEP_NS,
            confirmed_ns: confirmed_ns.min(start_ns),
            confirmed_monotonic_ns: now.monotonic_ns,
            mark: Mark { epoch: before.epoch.saturating_add(1), held_ns, unconfirmed_ns },
            steps: 0,
            jumps_held: 0,
            drift_from: now,
            warned,
            crashed_ns,
        };
        issue.assert_consistent();
        issue
    }

    /// Asserts the relations between the fields, except during the computation of a time.
    fn assert_consistent(&self) {
        debug_assert!(self.behind_ns >= 0, "the lag of the wall clock is negative");
        debug_assert!(
            (0..=CRASHED_NS).contains(&self.crashed_ns),
            "crashes explain an impossible lag"
        );
        debug_assert!(
            self.catches_up || self.behind_ns <= STEP_NS,
            "time runs at full speed despite a lag"
        );
        debug_assert!(self.warned || !self.is_behind(), "no warning tells of the lag");
    }

    /// The last time at which the issued time was equal to the wall clock; before that, the start
    /// time of the clock.
    pub(super) fn start_ns(&self) -> i64 {
        self.anchor_ns
    }

    /// The values to store for the next start.
    pub(super) fn mark(&self) -> Mark {
        self.mark
    }

    /// How far a new lease should reach beyond the issued time; at most `most_ns`.
    pub(super) fn lease_ns(&self, most_ns: i64) -> i64 {
        debug_assert!(most_ns > 0, "a new lease lies in the past");
        match self.behind_ns > STEP_NS {
            true => most_ns.min(CATCHING_UP_LEASE_NS),
            false => most_ns,
        }
    }

    /// The number of jumps of the wall clock that the clock did not follow (held jumps).
    pub(super) fn jumps_held(&self) -> u64 {
        self.jumps_held
    }

    /// Computes the time to issue.
    pub(super) fn advance(&mut self, now: Instant) -> i64 {
        let time_ns = self.issued(now);
        self.confirmed_ns = self.confirmed_ns.min(time_ns);
        // The lead grows only at a start: here it can only shrink.
        let lead_ns = significant(lead_of(time_ns, self.confirmed_ns));
        debug_assert!(self.confirmed_ns <= time_ns, "a time is confirmed before its issue");
        let gone_ns = self.mark.unconfirmed_ns.saturating_sub(lead_ns);
        if gone_ns >= STORED_LEAD_STEP_NS || lead_ns == 0 {
            self.mark.unconfirmed_ns = lead_ns;
        }
        debug_assert!(
            self.mark.unconfirmed_ns.saturating_sub(lead_ns) < STORED_LEAD_STEP_NS,
            "the stored lead does not follow the lead"
        );
        self.assert_consistent();
        time_ns
    }

    fn issued(&mut self, now: Instant) -> i64 {
        let elapsed_ns = now.monotonic_ns.saturating_sub(self.anchor_monotonic_ns) / 2;
        let slow_ns = self.anchor_ns.saturating_add_unsigned(elapsed_ns);
        let wall_ns = self.followed(now, slow_ns);
        debug_assert!(self.anchor_ns <= slow_ns, "time goes back without the wall clock");
        self.behind_ns = slow_ns.saturating_sub(wall_ns).max(0);
        if wall_ns >= slow_ns {
            debug_assert_eq!(self.behind_ns, 0, "the clocks have met, and a lag remains");
            debug_assert!(self.anchor_ns <= wall_ns, "the anchor goes back");
            self.anchor_ns = wall_ns;
            self.anchor_monotonic_ns = now.monotonic_ns;
            self.warned = false;
            self.crashed_ns = 0;
            self.steps += u64::from(std::mem::take(&mut self.catches_up));
            return wall_ns;
        }
        debug_assert!(self.behind_ns > 0, "time runs slower without a lag");
        if self.behind_ns > STEP_NS && !std::mem::replace(&mut self.catches_up, true) {
            self.steps += 1;
        }
        if self.is_behind() && !std::mem::replace(&mut self.warned, true) {
            tracing::warn!(
                behind_ms = self.behind_ns / 1_000_000,
                "the wall clock was set back; time runs slower until the wall clock has caught up"
            );
        }
        slow_ns
    }

    /// The wall clock without its held part (the jumps that are not followed). Compares the wall
    /// clock with the monotonic clock since the last reading, to detect steps. `slow_ns` is the
    /// time that will be issued at least.
    fn followed(&mut self, now: Instant, slow_ns: i64) -> i64 {
        let elapsed_ns = now.monotonic_ns.saturating_sub(self.last_reading.monotonic_ns);
        let expected_ns = self.last_reading.wall_ns.saturating_add_unsigned(elapsed_ns);
        let step_ns = now.wall_ns.saturating_sub(expected_ns);
        let expected_ns = expected_ns.saturating_sub_unsigned(self.mark.held_ns);
        let without_step_ns = expected_ns.max(slow_ns);
        let most_ns = self.settings.jump_ns_max;
        let most_ns = most_ns.filter(|_| !crate::sabotage::active("jump-followed"));
        let most_ns = most_ns.unwrap_or(i64::MAX);
        let wall_ns = now.wall_ns.saturating_sub_unsigned(self.mark.held_ns);
        let confirmed_ago_ns = now.monotonic_ns.saturating_sub(self.confirmed_monotonic_ns);
        self.confirmed_ns = self.confirmed_ns.saturating_add_unsigned(confirmed_ago_ns);
        self.confirmed_monotonic_ns = now.monotonic_ns;
        if !now.sure {
            // If the clock readings were far apart, only the next reading can decide about a jump.
            // All such unsure readings together advance the time by at most `most_ns`.
            return wall_ns.min(expected_ns.saturating_add(most_ns));
        }
        self.last_reading = now;
        if step_ns.saturating_abs() > STEP_NS {
            self.drift_from = now;
            let ahead_ns = wall_ns.saturating_sub(without_step_ns);
            if step_ns > 0 && ahead_ns > most_ns {
                self.hold(ahead_ns.unsigned_abs());
            } else if step_ns < 0 && self.mark.held_ns > 0 {
                self.set_right(step_ns.unsigned_abs(), most_ns.unsigned_abs());
            } else if ahead_ns > STEP_NS {
                self.steps += 1;
            }
        }
        let wall_ns = now.wall_ns.saturating_sub_unsigned(self.mark.held_ns);
        self.confirm(wall_ns, step_ns);
        wall_ns
    }

    /// Advances the confirmed time after a reading: by a step ahead that is short enough to follow;
    /// and to the wall clock, if the wall clock is only slightly ahead of the confirmed time, or
    /// was set back to slightly ahead of it.
    fn confirm(&mut self, wall_ns: i64, step_ns: i64) {
        let before_ns = self.confirmed_ns;
        let followed_ns = self.settings.jump_ns_max.unwrap_or(i64::MAX);
        if step_ns > STEP_NS && step_ns <= followed_ns {
            self.confirmed_ns = self.confirmed_ns.saturating_add(step_ns);
        }
        let trusted_ns = match step_ns < -STEP_NS {
            true => self.settings.start_lead_ns_max.unwrap_or(i64::MAX),
            false => DRIFT_NS,
        };
        if wall_ns.saturating_sub(self.confirmed_ns) <= trusted_ns {
            self.confirmed_ns = self.confirmed_ns.max(wall_ns);
        }
        debug_assert!(before_ns <= self.confirmed_ns, "the confirmed time goes back");
    }

    /// Holds a jump of the wall clock that is too far ahead: time continues without the jump.
    fn hold(&mut self, ahead_ns: u64) {
        debug_assert!(ahead_ns > 0, "a jump without a length is held");
        self.jumps_held += 1;
        self.fence(self.mark.held_ns.saturating_add(ahead_ns), self.mark.unconfirmed_ns);
        debug_assert!(ahead_ns <= self.mark.held_ns, "a part of the jump is not held");
        tracing::error!(
            jump_s = ahead_ns / 1_000_000_000,
            held_s = self.mark.held_ns / 1_000_000_000,
            "the wall clock jumped ahead, and time does not follow the jump: correct the wall clock, or accept the jump with CALL stratalog.accept_clock_jump()"
        );
    }

    /// Handles a step back of the wall clock while a jump is held: most likely, the wall clock is
    /// right again.
    fn set_right(&mut self, back_ns: u64, most_ns: u64) {
        debug_assert!(back_ns > 0 && self.mark.held_ns > 0, "no held jump is set right");
        let held_ns = self.mark.held_ns.saturating_sub(back_ns);
        // A remaining jump this small would have been followed: nothing is held any more.
        let held_ns = if held_ns <= most_ns { 0 } else { held_ns };
        debug_assert!(held_ns <= self.mark.held_ns);
        self.fence(held_ns, self.mark.unconfirmed_ns);
        tracing::warn!(
            held_s = held_ns / 1_000_000_000,
            "the wall clock was set back after a held jump"
        );
    }

    fn fence(&mut self, held_ns: u64, unconfirmed_ns: u64) {
        self.mark = Mark { epoch: self.mark.epoch.saturating_add(1), held_ns, unconfirmed_ns };
        self.steps = 0;
    }

    /// The time that retention may use when `now_ns` is issued: ahead neither of the wall clock nor
    /// of the confirmed time.
    pub(super) fn confirmed_ns(&self, now_ns: i64) -> i64 {
        let confirmed_ns = now_ns.saturating_sub(self.behind_ns).min(self.confirmed_ns);
        debug_assert!(confirmed_ns <= now_ns, "a time is confirmed before its issue");
        confirmed_ns
    }

    /// The lead of the followed wall clock over the confirmed time, when `now_ns` is issued.
    pub(super) fn unconfirmed_ns(&self, now_ns: i64) -> u64 {
        significant(lead_of(now_ns.saturating_sub(self.behind_ns), self.confirmed_ns))
    }

    /// The values to store after an operator has accepted the wall clock.
    pub(super) fn accepted(&self) -> Mark {
        let held_ns = i64::try_from(self.mark.held_ns).unwrap_or(i64::MAX);
        let behind_ns = self.behind_ns.saturating_sub(held_ns);
        debug_assert!(behind_ns <= self.behind_ns, "an accepted jump adds to the lag");
        Mark {
            epoch: self.mark.epoch.saturating_add(1),
            held_ns: 0,
            unconfirmed_ns: u64::try_from(behind_ns).unwrap_or(0),
        }
    }

    /// Follows the wall clock after an operator has accepted it.
    pub(super) fn accept(&mut self, mark: Mark) {
        debug_assert_eq!(mark.held_ns, 0, "an accepted jump is still held");
        debug_assert!(self.mark.epoch <= mark.epoch, "the epoch goes back");
        self.mark = mark;
        self.confirmed_ns = self.last_reading.wall_ns;
        self.confirmed_monotonic_ns = self.last_reading.monotonic_ns;
        self.steps = 0;
        self.drift_from = self.last_reading;
        self.assert_consistent();
    }

    /// The reading for a client when `now_ns` is issued.
    pub(super) fn reading(&self, now_ns: i64) -> ClockReading {
        ClockReading {
            now_ns,
            rate_ppb: if self.catches_up { RATE_ONE_PPB / 2 } else { RATE_ONE_PPB },
            uncertainty_ns: self.last_reading.spread_ns,
            line: TimeLine { epoch: self.mark.epoch, steps: self.steps },
        }
    }

    /// How much faster the wall clock runs than the monotonic clock, in billionths.
    pub(super) fn drift_ppb(&self) -> i64 {
        let from = self.drift_from;
        let elapsed_ns =
            i64::try_from(self.last_reading.monotonic_ns.saturating_sub(from.monotonic_ns));
        let elapsed_ns = elapsed_ns.unwrap_or(i64::MAX);
        if elapsed_ns < DRIFT_OVER_NS {
            return 0;
        }
        let wall_ns = self.last_reading.wall_ns.saturating_sub(from.wall_ns);
        let ahead = i128::from(wall_ns.saturating_sub(elapsed_ns)) * i128::from(RATE_ONE_PPB);
        i64::try_from(ahead / i128::from(elapsed_ns)).unwrap_or(0)
    }

    /// True if the wall clock is farther behind than crashes can explain.
    fn is_behind(&self) -> bool {
        self.behind_ns > BEHIND_WARN_NS.saturating_add(self.crashed_ns)
    }

    /// Texts about problems, for an operator.
    pub(super) fn alarms(&self, now_ns: i64) -> Vec<String> {
        let mut alarms = Vec::new();
        if self.mark.held_ns > 0 {
            alarms.push(format!(
                "the machine's clock jumped ahead by {} s, and time does not follow the jump: correct the machine's clock, or CALL stratalog.accept_clock_jump()",
                self.mark.held_ns / 1_000_000_000
            ));
        }
        let unconfirmed_ns = self.unconfirmed_ns(now_ns);
        if unconfirmed_ns > 0 {
            alarms.push(format!(
                "the machine's clock was {} s ahead of the last run at a start: retention keeps events longer by this lead. If the machine's clock is right, CALL stratalog.accept_clock_jump(); if the clock is wrong, stop the server, correct the clock, and run stratalog clock --correct",
                unconfirmed_ns / 1_000_000_000
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
                "the machine's clock is {} s behind the issued time: time runs at half speed until the machine's clock has caught up{hint}",
                self.behind_ns / 1_000_000_000
            ));
        }
        alarms
    }
}

/// The lead, or 0 if the drift between the clocks can explain the lead.
fn significant(lead_ns: u64) -> u64 {
    if lead_ns <= DRIFT_NS.unsigned_abs() { 0 } else { lead_ns }
}

/// How far `ahead_ns` is ahead of `behind_ns`, in nanoseconds; 0 if it is not ahead.
fn lead_of(ahead_ns: i64, behind_ns: i64) -> u64 {
    u64::try_from(ahead_ns.saturating_sub(behind_ns)).unwrap_or(0)
}

/// Computes the held part of the wall clock (the jumps that are not followed) at a start, and the
/// confirmed time.
///
/// The last run ended at the floor (its lease), which was ahead of the confirmed time by the stored
/// lead. A wall clock that was wrong at an earlier start may be right now, and wrong again at the
/// next start. Therefore the wall clock is compared with the confirmed time, not with the floor.
fn at_start(
    settings: ClockSettings,
    now: Instant,
    floor_ns: Option<i64>,
    before: Mark,
) -> (u64, i64) {
    let held_ns = still_held(settings, now, floor_ns, before);
    debug_assert!(held_ns <= before.held_ns, "a restart adds to the held jump");
    let wall_ns = now.wall_ns.saturating_sub_unsigned(held_ns);
    let (Some(floor_ns), Some(most_ns)) = (floor_ns, settings.start_lead_ns_max) else {
        return (held_ns, floor_ns.map_or(wall_ns, |floor| floor.max(wall_ns)));
    };
    let confirmed_ns = floor_ns.saturating_sub_unsigned(before.unconfirmed_ns);
    let ahead_ns = lead_of(wall_ns, floor_ns);
    if settings.jump_ns_max.is_some() && ahead_ns > START_LEAD_HELD_NS.unsigned_abs() {
        tracing::error!(
            lead_s = ahead_ns / 1_000_000_000,
            "the wall clock is more than a year ahead of the last run, and time does not follow the wall clock: correct the wall clock, or accept the jump with CALL stratalog.accept_clock_jump()"
        );
        return (held_ns.saturating_add(ahead_ns), confirmed_ns);
    }
    let lead_ns = lead_of(wall_ns, confirmed_ns);
    if lead_ns <= most_ns.unsigned_abs() {
        return (held_ns, confirmed_ns.max(wall_ns));
    }
    debug_assert!(confirmed_ns < wall_ns, "a start without a lead is unconfirmed");
    tracing::error!(
        lead_s = lead_ns / 1_000_000_000,
        "the wall clock is far ahead of the last run: retention keeps events longer by this lead until the clock is confirmed. If the wall clock is right, CALL stratalog.accept_clock_jump(); if the wall clock is wrong, stop the server, correct the clock, and run stratalog clock --correct"
    );
    (held_ns, confirmed_ns)
}

/// The part of a held jump that is still held after a restart: the whole jump if the wall clock is
/// still ahead by the jump; 0 if the wall clock was corrected, or if every jump is followed.
fn still_held(settings: ClockSettings, now: Instant, floor_ns: Option<i64>, before: Mark) -> u64 {
    let (Some(floor_ns), Some(_)) = (floor_ns, settings.jump_ns_max) else { return 0 };
    let wall_ns = now.wall_ns.saturating_sub_unsigned(before.held_ns);
    // After a crash, the floor may be up to two leases ahead of the last issued time.
    let as_before = wall_ns >= floor_ns.saturating_sub(CRASHED_NS);
    if before.held_ns > 0 && as_before {
        tracing::error!(
            held_s = before.held_ns / 1_000_000_000,
            "the wall clock is still ahead by a jump held before the restart: correct the wall clock, or accept the jump with CALL stratalog.accept_clock_jump()"
        );
        return before.held_ns;
    }
    0
}
