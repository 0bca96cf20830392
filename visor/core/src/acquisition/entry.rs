//! The acquisition state of one chronicle: holders, running statements and waiting requests.

use std::collections::BTreeMap;

use stratalog_model::{ChronicleId, TickRange};

use super::claim::{Acquisition, Claim, HolderId, Mode, Moment, Refusal, Standing, Use};

/// The state of a chronicle that has at least one holder, running statement or waiting request.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) parties: BTreeMap<HolderId, Party>,
    /// Waiting requests, the oldest first.
    pub(super) queue: Vec<WaitingRequest>,
    /// The number of running drops of the chronicle.
    pub(super) closing: u32,
    /// True if the chronicle is to be dropped after its last release.
    pub(super) marked: bool,
    /// No lease on the chronicle runs out before this moment.
    earliest: Option<Moment>,
}

/// The state of one holder in the chronicle.
#[derive(Debug)]
pub(super) struct Party {
    pub(super) held: Option<HeldClaim>,
    /// The claim that the holder lost when its last lease ran out.
    lost: Option<HeldClaim>,
    /// True after the loss of a lease, until the holder acquires again or releases.
    pub(super) is_barred: bool,
    reading: u32,
    writing: u32,
    /// The number of statements whose commit has started: their writes may become durable at any
    /// moment.
    committing: u32,
    /// The number of statements with void writes. Writes are void if their lease ran out before
    /// their commit started: they will never be committed.
    void_writes: u32,
    /// The number of times that a lease ran out during a write. A statement remembers the number at
    /// its start, which shows whether its writes are void.
    epoch: u32,
    /// The smallest range that contains the ticks to which the running statements may write.
    written: TickRange,
    /// The start of the current uninterrupted use by the holder's statements.
    since: Option<Moment>,
}

/// What a statement may do after its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StartedUse {
    /// The ticks of the events that the statement may read and write.
    pub(super) ticks: TickRange,
    /// The wall-clock time at which the holder acquired the chronicle, in nanoseconds since 1970;
    /// `None` without an acquisition.
    pub(super) since_ns: Option<i64>,
    /// The holder's epoch at the start of the statement; to be passed back at its end.
    pub(super) epoch: u32,
}

/// An acquired claim.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldClaim {
    claim: Claim,
    since: Moment,
    /// The same moment on the wall clock: nanoseconds since 1970.
    since_ns: i64,
    until: Option<Moment>,
}

/// A waiting request.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitingRequest {
    pub(super) ticket: u64,
    pub(super) holder: HolderId,
    pub(super) claim: Claim,
    since: Moment,
}

impl Default for Party {
    fn default() -> Self {
        Self {
            held: None,
            lost: None,
            is_barred: false,
            reading: 0,
            writing: 0,
            committing: 0,
            void_writes: 0,
            epoch: 0,
            written: TickRange::EMPTY,
            since: None,
        }
    }
}

impl Party {
    fn is_idle(&self) -> bool {
        self.reading == 0 && self.writing == 0 && self.void_writes == 0
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_idle() && self.held.is_none() && !self.is_barred
    }

    /// True if the party blocks a request for EXCLUSIVE. A party must not wait behind a request
    /// that waits for the party itself.
    fn is_in(&self) -> bool {
        self.held.is_some() || self.writing > 0
    }

    /// Handles the end of a lease. Writes whose commit has not started become void, and other
    /// holders do not wait for them.
    fn lose(&mut self) {
        debug_assert!(self.held.is_some(), "a lease runs out without a claim");
        self.lost = self.held.take();
        self.is_barred = true;
        let void = self.writing.saturating_sub(self.committing);
        if void > 0 {
            self.void_writes = self.void_writes.saturating_add(void);
            self.writing = self.committing;
            self.epoch = self.epoch.wrapping_add(1);
        }
        self.assert_consistent();
    }

    /// Asserts the relations between the fields.
    fn assert_consistent(&self) {
        debug_assert!(!self.is_barred || self.held.is_none(), "a holder is barred from its claim");
        debug_assert!(!self.is_barred || self.lost.is_some(), "a holder is barred without a loss");
        debug_assert!(self.epoch == 0 || self.lost.is_some(), "writes are void without a loss");
        debug_assert!(
            self.void_writes == 0 || self.lost.is_some(),
            "a statement has void writes without a loss"
        );
        debug_assert!(self.is_idle() || self.since.is_some(), "a use has no begin");
    }

    /// The ticks of the events that the holder's statements may read and write.
    fn ticks(&self) -> TickRange {
        self.held.map_or(TickRange::ALL, |held| held.claim.ticks)
    }
}

impl Entry {
    /// True if the entry has no content any more and can be removed.
    pub(super) fn is_gone(&self) -> bool {
        self.parties.is_empty() && self.queue.is_empty() && self.closing == 0 && !self.marked
    }

    /// True if a drop of the chronicle is running or planned.
    pub(super) fn is_shut(&self) -> bool {
        self.closing > 0 || self.marked
    }

    /// Ends all leases that have run out.
    pub(super) fn settle(&mut self, now: Moment) {
        if self.earliest.is_none_or(|earliest| now < earliest) {
            return;
        }
        for party in self.parties.values_mut() {
            if party.held.is_some_and(|held| held.until.is_some_and(|until| until <= now)) {
                party.lose();
            }
        }
        self.look_ahead();
        debug_assert!(self.earliest.is_none_or(|earliest| now < earliest), "an old lease counts");
    }

    /// The time at which leases must be checked next; `None` if no lease can run out.
    pub(super) fn earliest(&self) -> Option<Moment> {
        self.earliest
    }

    /// True if the holder's current claim covers the new claim. Such a renewal does not affect
    /// other holders.
    pub(super) fn is_renewal(&self, holder: HolderId, claim: &Claim) -> bool {
        let held = self.parties.get(&holder).and_then(|party| party.held);
        held.is_some_and(|held| held.claim.covers(claim))
    }

    /// Grants a claim to a holder; `time_ns` is the wall-clock time. A renewal keeps the time of
    /// the first acquisition.
    pub(super) fn grant(&mut self, now: Moment, time_ns: i64, holder: HolderId, claim: Claim) {
        debug_assert!(
            self.parties.iter().all(|(id, party)| {
                *id == holder || party.held.is_none_or(|held| !held.claim.conflicts(&claim))
            }),
            "the claims of two holders conflict"
        );
        let party = self.parties.entry(holder).or_default();
        let (since, since_ns) =
            party.held.map_or((now, time_ns), |held| (held.since, held.since_ns));
        let until = claim.lease_ns.map(|lease_ns| Moment(now.0.saturating_add(lease_ns)));
        party.held = Some(HeldClaim { claim, since, since_ns, until });
        party.is_barred = false;
        party.assert_consistent();
        self.look_ahead();
        debug_assert!(
            until.is_none_or(|until| self.earliest.is_some_and(|earliest| earliest <= until)),
            "no check comes before the end of the lease"
        );
    }

    /// Releases a holder's claim, and forgets a claim that the holder has lost. Returns true if
    /// either existed.
    pub(super) fn release(&mut self, holder: HolderId) -> bool {
        let Some(party) = self.parties.get_mut(&holder) else { return false };
        let had = party.held.take().is_some() || party.is_barred;
        party.is_barred = false;
        self.tidy(holder);
        had
    }

    /// Removes a holder that has no claim, statement or lost claim any more.
    pub(super) fn tidy(&mut self, holder: HolderId) {
        if self.parties.get(&holder).is_some_and(Party::is_gone) {
            self.parties.remove(&holder);
        }
    }

    fn look_ahead(&mut self) {
        let leases = self.parties.values().filter_map(|party| party.held?.until);
        self.earliest = leases.min();
    }

    /// Returns an error if the holder has lost its acquisition, and has neither acquired again nor
    /// released.
    pub(super) fn check(&self, chronicle: ChronicleId, holder: HolderId) -> Result<(), Refusal> {
        match self.parties.get(&holder) {
            Some(party) if party.is_barred => Err(party.refusal(chronicle, holder)),
            _ => Ok(()),
        }
    }

    /// Registers that a statement of a holder uses the chronicle.
    pub(super) fn enter(
        &mut self,
        now: Moment,
        chronicle: ChronicleId,
        holder: HolderId,
        what: Use,
    ) -> Result<StartedUse, Refusal> {
        self.check(chronicle, holder)?;
        let ticks = self.parties.get(&holder).map_or(TickRange::ALL, Party::ticks);
        if what.writes() {
            if self.is_shut() {
                return Err(Refusal::Closing);
            }
            if let Some(alone) = self.alone(chronicle, holder, what, &ticks) {
                return Err(Refusal::LockedOut(alone));
            }
        }
        let party = self.parties.entry(holder).or_default();
        if party.is_idle() {
            party.since = Some(now);
        }
        match what {
            Use::Read => party.reading = party.reading.saturating_add(1),
            Use::Write | Use::WriteOn => {
                let before = if party.writing > 0 { party.written } else { TickRange::EMPTY };
                party.written = before.hull(&ticks);
                party.writing = party.writing.saturating_add(1);
            }
        }
        debug_assert!(!party.is_idle(), "a holder is idle during a use");
        debug_assert!(
            !what.writes() || party.written.covers(&ticks),
            "the hull of the written events is too small"
        );
        party.assert_consistent();
        let since_ns = party.held.map(|held| held.since_ns);
        debug_assert!(
            since_ns.is_some() || ticks == TickRange::ALL,
            "a part is visible without an acquisition"
        );
        Ok(StartedUse { ticks, since_ns, epoch: party.epoch })
    }

    /// An acquisition or request of another holder that gives, or asks for, exclusive access to
    /// some of these events; `None` if writes are possible.
    fn alone(
        &self,
        chronicle: ChronicleId,
        holder: HolderId,
        what: Use,
        ticks: &TickRange,
    ) -> Option<Acquisition> {
        debug_assert!(what.writes(), "a reader looks for exclusive holders");
        let exclusive =
            |claim: &Claim| claim.mode == Mode::Exclusive && claim.ticks.overlaps(ticks);
        let others = self.parties.iter().filter(|(id, _)| **id != holder);
        let held = others.filter_map(|(id, party)| Some((id, party.held?)));
        let mut held = held.filter(|(_, held)| exclusive(&held.claim));
        if let Some((id, held)) = held.next() {
            return Some(held.acquisition(chronicle, *id, Standing::Held));
        }
        // The waiting requests already wait for a holder of a claim, and for a transaction with
        // writes: such writers must be able to continue.
        let holds = self.parties.get(&holder).is_some_and(|party| party.held.is_some());
        if holds || what == Use::WriteOn {
            return None;
        }
        let mut waiting = self.queue.iter().filter(|waiting| waiting.holder != holder);
        waiting
            .find(|waiting| exclusive(&waiting.claim))
            .map(|waiting| waiting.acquisition(chronicle))
    }

    /// Starts the commit of a statement's writes; refuses if the lease of the writes has run out.
    pub(super) fn commit(
        &mut self,
        chronicle: ChronicleId,
        holder: HolderId,
        epoch: u32,
    ) -> Result<(), Refusal> {
        let Some(party) = self.parties.get_mut(&holder) else { return Ok(()) };
        if party.is_barred || party.epoch != epoch {
            return Err(party.refusal(chronicle, holder));
        }
        party.committing = party.committing.saturating_add(1);
        Ok(())
    }

    /// The reason why the writes of a statement, started in epoch `epoch`, will never be committed;
    /// `None` if a commit is possible.
    pub(super) fn lost(
        &self,
        chronicle: ChronicleId,
        holder: HolderId,
        epoch: u32,
    ) -> Option<Refusal> {
        let party = self.parties.get(&holder)?;
        (party.epoch != epoch).then(|| party.refusal(chronicle, holder))
    }

    /// Holders with void writes: writes that will never be committed, by statements that still run.
    pub(super) fn void_holders(&self) -> Vec<HolderId> {
        let void = self.parties.iter().filter(|(_, party)| party.void_writes > 0);
        void.map(|(holder, _)| *holder).collect()
    }

    /// Registers the end of a holder's statement, which began in epoch `epoch`.
    pub(super) fn exit(&mut self, holder: HolderId, what: Use, epoch: u32, committing: bool) {
        debug_assert!(!committing || what.writes(), "a reader commits");
        let Some(party) = self.parties.get_mut(&holder) else { return };
        let count = match what {
            Use::Read => &mut party.reading,
            _ if committing || epoch == party.epoch => &mut party.writing,
            Use::Write | Use::WriteOn => &mut party.void_writes,
        };
        *count = count.saturating_sub(1);
        party.committing = party.committing.saturating_sub(u32::from(committing));
        party.assert_consistent();
        self.tidy(holder);
    }

    /// The acquisitions and requests that conflict with a claim. Of the waiting requests, only
    /// those before `ticket` count.
    pub(super) fn blockers(
        &self,
        chronicle: ChronicleId,
        holder: HolderId,
        claim: &Claim,
        ticket: Option<u64>,
    ) -> Vec<Acquisition> {
        let mut found = Vec::new();
        for (id, party) in self.parties.iter().filter(|(id, _)| **id != holder) {
            match party.held {
                Some(held) if held.claim.conflicts(claim) => {
                    found.push(held.acquisition(chronicle, *id, Standing::Held));
                }
                _ if claim.mode == Mode::Exclusive
                    && party.writing > 0
                    && party.written.overlaps(&claim.ticks) =>
                {
                    found.push(party.acquisition(chronicle, *id, Use::Write));
                }
                _ => {}
            }
        }
        if !self.parties.get(&holder).is_some_and(Party::is_in) {
            let before = self.queue.iter().filter(|waiting| {
                waiting.holder != holder && ticket.is_none_or(|ticket| waiting.ticket < ticket)
            });
            let before = before.filter(|waiting| waiting.claim.conflicts(claim));
            found.extend(before.map(|waiting| waiting.acquisition(chronicle)));
        }
        debug_assert!(
            found.iter().all(|other| other.holder != holder),
            "a holder is in its own way"
        );
        found
    }

    /// The acquisitions of other holders.
    pub(super) fn held_by_others(
        &self,
        chronicle: ChronicleId,
        holder: Option<HolderId>,
    ) -> Vec<Acquisition> {
        let others = self.parties.iter().filter(|(id, _)| Some(**id) != holder);
        others
            .filter_map(|(id, party)| Some(party.held?.acquisition(chronicle, *id, Standing::Held)))
            .collect()
    }

    /// Adds all acquisitions and requests of the chronicle to a list.
    pub(super) fn list(&self, chronicle: ChronicleId, into: &mut Vec<Acquisition>) {
        for (id, party) in &self.parties {
            into.extend(party.held.map(|held| held.acquisition(chronicle, *id, Standing::Held)));
            let lost = party.lost.filter(|_| party.is_barred);
            into.extend(lost.map(|lost| lost.acquisition(chronicle, *id, Standing::Lost)));
            if party.writing > 0 {
                into.push(party.acquisition(chronicle, *id, Use::Write));
            }
            if party.reading > 0 {
                into.push(party.acquisition(chronicle, *id, Use::Read));
            }
        }
        into.extend(self.queue.iter().map(|waiting| waiting.acquisition(chronicle)));
    }

    /// The number of holders, including implicit acquisitions of statements.
    pub(super) fn acquirers(&self) -> u32 {
        let parties = self.parties.values();
        let count = parties.filter(|party| party.held.is_some() || !party.is_idle()).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}

impl Party {
    /// The error for a request or statement of a holder that has lost its acquisition.
    fn refusal(&self, chronicle: ChronicleId, holder: HolderId) -> Refusal {
        self.lost.map_or(Refusal::Closing, |lost| {
            Refusal::Lost(lost.acquisition(chronicle, holder, Standing::Lost))
        })
    }

    fn acquisition(&self, chronicle: ChronicleId, holder: HolderId, what: Use) -> Acquisition {
        debug_assert!(self.since.is_some(), "a use has no begin");
        let (standing, ticks) = match what {
            Use::Read => (Standing::Reading, self.ticks()),
            Use::Write | Use::WriteOn => (Standing::Writing, self.written),
        };
        Acquisition {
            chronicle,
            holder,
            standing,
            mode: Mode::Shared,
            ticks,
            since: self.since.unwrap_or(Moment(0)),
            until: None,
        }
    }
}

impl HeldClaim {
    pub(super) fn acquisition(
        &self,
        chronicle: ChronicleId,
        holder: HolderId,
        standing: Standing,
    ) -> Acquisition {
        debug_assert!(
            matches!(standing, Standing::Held | Standing::Lost),
            "a claim is neither held nor lost"
        );
        let Claim { mode, ticks, .. } = self.claim;
        Acquisition {
            chronicle,
            holder,
            standing,
            mode,
            ticks,
            since: self.since,
            until: self.until,
        }
    }
}

impl WaitingRequest {
    pub(super) fn new(ticket: u64, holder: HolderId, claim: Claim, since: Moment) -> Self {
        Self { ticket, holder, claim, since }
    }

    fn acquisition(&self, chronicle: ChronicleId) -> Acquisition {
        let Claim { mode, ticks, .. } = self.claim;
        Acquisition {
            chronicle,
            holder: self.holder,
            standing: Standing::Waiting,
            mode,
            ticks,
            since: self.since,
            until: None,
        }
    }
}
