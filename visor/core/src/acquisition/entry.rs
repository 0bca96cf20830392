//! One chronicle: who has acquired it, who uses it now, who waits.

use std::collections::BTreeMap;

use stratalog_model::{ChronicleId, TickRange};

use super::claim::{Acquisition, Claim, HolderId, Mode, Moment, Refusal, Standing, Use};

/// A chronicle that somebody has to do with.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) parties: BTreeMap<HolderId, Party>,
    /// Those who wait, the first first.
    pub(super) queue: Vec<Waiting>,
    /// Drops that are under way.
    pub(super) closing: u32,
    /// It goes when the last acquisition is released.
    pub(super) marked: bool,
    /// No lease runs out before this.
    earliest: Option<Moment>,
}

/// What one holder has to do with it.
#[derive(Debug)]
pub(super) struct Party {
    pub(super) held: Option<Held>,
    /// What it had until a lease ran out the last time.
    lost: Option<Held>,
    /// It has neither acquired again nor released since.
    pub(super) is_barred: bool,
    reading: u32,
    writing: u32,
    /// Of those that write: what they wrote may be durable at any moment.
    committing: u32,
    /// Those that wrote through a lease which ran out: what they wrote will never be committed.
    void: u32,
    /// Leases that ran out beneath those that write: tells them from the void ones.
    epoch: u32,
    /// Hull of the events that were open to those that write.
    written: TickRange,
    /// Since when statements of it use the chronicle without a pause.
    since: Option<Moment>,
}

/// What a statement may do that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entered {
    /// The events that it sees, and may write.
    pub(super) ticks: TickRange,
    /// When its holder acquired the chronicle, as the clock showed it; `None` for one that did not.
    pub(super) since_ns: Option<i64>,
    /// To be told with its end.
    pub(super) epoch: u32,
}

/// What was acquired.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    claim: Claim,
    since: Moment,
    /// The same, as the clock showed it: nanoseconds since 1970.
    since_ns: i64,
    until: Option<Moment>,
}

/// Who waits, and for what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
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
            void: 0,
            epoch: 0,
            written: TickRange::EMPTY,
            since: None,
        }
    }
}

impl Party {
    fn is_idle(&self) -> bool {
        self.reading == 0 && self.writing == 0 && self.void == 0
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_idle() && self.held.is_none() && !self.is_barred
    }

    /// Whether it stands in the way of whoever wants to be alone: then waiting behind that one
    /// would be waiting for itself.
    fn is_in(&self) -> bool {
        self.held.is_some() || self.writing > 0
    }

    /// Its lease has run out. What it writes and is not on its way already is written in vain:
    /// others do not wait for it.
    fn lose(&mut self) {
        self.lost = self.held.take();
        self.is_barred = true;
        let void = self.writing.saturating_sub(self.committing);
        if void > 0 {
            self.void = self.void.saturating_add(void);
            self.writing = self.committing;
            self.epoch = self.epoch.wrapping_add(1);
        }
    }

    /// The events that its statements see and may write.
    fn ticks(&self) -> TickRange {
        self.held.map_or(TickRange::ALL, |held| held.claim.ticks)
    }
}

impl Entry {
    /// What nobody has to do with any more.
    pub(super) fn is_gone(&self) -> bool {
        self.parties.is_empty() && self.queue.is_empty() && self.closing == 0 && !self.marked
    }

    /// Whether it is being dropped.
    pub(super) fn is_shut(&self) -> bool {
        self.closing > 0 || self.marked
    }

    /// Ends the leases that have run out.
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
    }

    /// When to look for leases that have run out.
    pub(super) fn earliest(&self) -> Option<Moment> {
        self.earliest
    }

    /// Whether a claim is of nothing but what its holder has: a renewal, which is no concern of others.
    pub(super) fn is_renewal(&self, holder: HolderId, claim: &Claim) -> bool {
        let held = self.parties.get(&holder).and_then(|party| party.held);
        held.is_some_and(|held| held.claim.covers(claim))
    }

    /// Lets a holder have what it claims, when the clock shows `time_ns`. A renewal goes on from when
    /// it was acquired.
    pub(super) fn grant(&mut self, now: Moment, time_ns: i64, holder: HolderId, claim: Claim) {
        let party = self.parties.entry(holder).or_default();
        let (since, since_ns) =
            party.held.map_or((now, time_ns), |held| (held.since, held.since_ns));
        let until = claim.lease_ns.map(|lease_ns| Moment(now.0.saturating_add(lease_ns)));
        party.held = Some(Held { claim, since, since_ns, until });
        party.is_barred = false;
        self.look_ahead();
    }

    /// Takes away what a holder has, and forgets what it had; whether there was something.
    pub(super) fn release(&mut self, holder: HolderId) -> bool {
        let Some(party) = self.parties.get_mut(&holder) else { return false };
        let had = party.held.take().is_some() || party.is_barred;
        party.is_barred = false;
        self.tidy(holder);
        had
    }

    /// Forgets a holder that has nothing to do with it any more.
    pub(super) fn tidy(&mut self, holder: HolderId) {
        if self.parties.get(&holder).is_some_and(Party::is_gone) {
            self.parties.remove(&holder);
        }
    }

    fn look_ahead(&mut self) {
        let leases = self.parties.values().filter_map(|party| party.held?.until);
        self.earliest = leases.min();
    }

    /// Whether a holder may use the chronicle: not through a lease that has run out.
    pub(super) fn check(&self, chronicle: ChronicleId, holder: HolderId) -> Result<(), Refusal> {
        match self.parties.get(&holder) {
            Some(party) if party.is_barred => Err(party.refusal(chronicle, holder)),
            _ => Ok(()),
        }
    }

    /// A statement of a holder begins to use the chronicle.
    pub(super) fn enter(
        &mut self,
        now: Moment,
        chronicle: ChronicleId,
        holder: HolderId,
        what: Use,
    ) -> Result<Entered, Refusal> {
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
        let since_ns = party.held.map(|held| held.since_ns);
        Ok(Entered { ticks, since_ns, epoch: party.epoch })
    }

    /// Who else is alone with some of these events, or waits to be.
    fn alone(
        &self,
        chronicle: ChronicleId,
        holder: HolderId,
        what: Use,
        ticks: &TickRange,
    ) -> Option<Acquisition> {
        let exclusive =
            |claim: &Claim| claim.mode == Mode::Exclusive && claim.ticks.overlaps(ticks);
        let others = self.parties.iter().filter(|(id, _)| **id != holder);
        let held = others.filter_map(|(id, party)| Some((id, party.held?)));
        let mut held = held.filter(|(_, held)| exclusive(&held.claim));
        if let Some((id, held)) = held.next() {
            return Some(held.told(chronicle, *id, Standing::Held));
        }
        // Others wait for it already.
        let holds = self.parties.get(&holder).is_some_and(|party| party.held.is_some());
        if holds || what == Use::WriteOn {
            return None;
        }
        let mut waiting = self.queue.iter().filter(|waiting| waiting.holder != holder);
        waiting.find(|waiting| exclusive(&waiting.claim)).map(|waiting| waiting.told(chronicle))
    }

    /// What a statement wrote may be durable at any moment, unless the lease has run out through
    /// which it wrote.
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

    /// Why what a statement wrote that began in that epoch will never be committed; `None` where it may be.
    pub(super) fn lost(
        &self,
        chronicle: ChronicleId,
        holder: HolderId,
        epoch: u32,
    ) -> Option<Refusal> {
        let party = self.parties.get(&holder)?;
        (party.epoch != epoch).then(|| party.refusal(chronicle, holder))
    }

    /// Those who go on with what will never be committed.
    pub(super) fn void(&self) -> Vec<HolderId> {
        let void = self.parties.iter().filter(|(_, party)| party.void > 0);
        void.map(|(holder, _)| *holder).collect()
    }

    /// A statement of a holder has ended, which began in that epoch.
    pub(super) fn exit(&mut self, holder: HolderId, what: Use, epoch: u32, committing: bool) {
        let Some(party) = self.parties.get_mut(&holder) else { return };
        let count = match what {
            Use::Read => &mut party.reading,
            _ if committing || epoch == party.epoch => &mut party.writing,
            Use::Write | Use::WriteOn => &mut party.void,
        };
        *count = count.saturating_sub(1);
        party.committing = party.committing.saturating_sub(u32::from(committing));
        self.tidy(holder);
    }

    /// Those in the way of a claim: of those who wait, the ones before `ticket`.
    pub(super) fn in_the_way(
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
                    found.push(held.told(chronicle, *id, Standing::Held));
                }
                _ if claim.mode == Mode::Exclusive
                    && party.writing > 0
                    && party.written.overlaps(&claim.ticks) =>
                {
                    found.push(party.told(chronicle, *id, Use::Write));
                }
                _ => {}
            }
        }
        if !self.parties.get(&holder).is_some_and(Party::is_in) {
            let before = self.queue.iter().filter(|waiting| {
                waiting.holder != holder && ticket.is_none_or(|ticket| waiting.ticket < ticket)
            });
            let before = before.filter(|waiting| waiting.claim.conflicts(claim));
            found.extend(before.map(|waiting| waiting.told(chronicle)));
        }
        found
    }

    /// What others have acquired.
    pub(super) fn held_by_others(
        &self,
        chronicle: ChronicleId,
        holder: Option<HolderId>,
    ) -> Vec<Acquisition> {
        let others = self.parties.iter().filter(|(id, _)| Some(**id) != holder);
        others
            .filter_map(|(id, party)| Some(party.held?.told(chronicle, *id, Standing::Held)))
            .collect()
    }

    /// Everything there is to tell.
    pub(super) fn list(&self, chronicle: ChronicleId, into: &mut Vec<Acquisition>) {
        for (id, party) in &self.parties {
            into.extend(party.held.map(|held| held.told(chronicle, *id, Standing::Held)));
            let lost = party.lost.filter(|_| party.is_barred);
            into.extend(lost.map(|lost| lost.told(chronicle, *id, Standing::Lost)));
            if party.writing > 0 {
                into.push(party.told(chronicle, *id, Use::Write));
            }
            if party.reading > 0 {
                into.push(party.told(chronicle, *id, Use::Read));
            }
        }
        into.extend(self.queue.iter().map(|waiting| waiting.told(chronicle)));
    }

    /// How many have acquired it, if only for a statement.
    pub(super) fn acquirers(&self) -> u32 {
        let parties = self.parties.values();
        let count = parties.filter(|party| party.held.is_some() || !party.is_idle()).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}

impl Party {
    /// Why it may not do what it wants to.
    fn refusal(&self, chronicle: ChronicleId, holder: HolderId) -> Refusal {
        self.lost.map_or(Refusal::Closing, |lost| {
            Refusal::Lost(lost.told(chronicle, holder, Standing::Lost))
        })
    }

    fn told(&self, chronicle: ChronicleId, holder: HolderId, what: Use) -> Acquisition {
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

impl Held {
    pub(super) fn told(
        &self,
        chronicle: ChronicleId,
        holder: HolderId,
        standing: Standing,
    ) -> Acquisition {
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

impl Waiting {
    pub(super) fn new(ticket: u64, holder: HolderId, claim: Claim, since: Moment) -> Self {
        Self { ticket, holder, claim, since }
    }

    fn told(&self, chronicle: ChronicleId) -> Acquisition {
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
