//! All acquisitions, as a state machine without clock and threads: every call receives the current
//! time, and no call waits. Leases use the monotonic clock (`now`); the wall-clock time (`time_ns`)
//! is only stored.

use std::collections::{BTreeMap, BTreeSet};

use stratalog_model::ChronicleId;

use super::{
    claim::{Acquisition, Claim, HolderId, Moment, Refusal, Standing, Use},
    entry::{Entry, StartedUse, WaitingRequest},
};

/// Maximum number of chronicles that one holder has acquired or waits for.
pub(super) const ACQUISITIONS_MAX: usize = 10_000;

/// Maximum number of requests that wait for one chronicle.
pub(super) const WAITING_MAX: usize = 1_000;

/// The acquisitions of all chronicles.
#[derive(Debug, Default)]
pub(super) struct Register {
    chronicles: BTreeMap<ChronicleId, Entry>,
    /// For each holder, the chronicles that it has acquired or lost.
    holders: BTreeMap<HolderId, BTreeSet<ChronicleId>>,
    /// For each holder, its waiting requests: ticket and chronicle.
    waiting: BTreeMap<HolderId, BTreeMap<u64, ChronicleId>>,
    tickets: u64,
}

/// The result of checking a waiting request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestState {
    /// The request is granted.
    Granted,
    /// The request still waits. If a lease that blocks the request can run out, contains the
    /// moment.
    Waits(Option<Moment>),
}

impl Register {
    /// Acquires a chronicle, or renews the acquisition. Returns `None` if the claim is granted, or
    /// the ticket of a waiting request.
    pub(super) fn request(
        &mut self,
        now: Moment,
        time_ns: i64,
        chronicle: ChronicleId,
        holder: HolderId,
        claim: Claim,
        waits: bool,
    ) -> Result<Option<u64>, Refusal> {
        claim.assert_sound();
        let listed = self.holders.get(&holder);
        if listed.is_some_and(|of| of.len() >= ACQUISITIONS_MAX && !of.contains(&chronicle)) {
            return Err(Refusal::TooMany(ACQUISITIONS_MAX));
        }
        let ticket = self.tickets;
        let entry = self.chronicles.entry(chronicle).or_default();
        entry.settle(now);
        // A holder may renew its claim during a planned drop, because the drop waits for its
        // release.
        if entry.is_shut() && !entry.is_renewal(holder, &claim) {
            return Err(Refusal::Closing);
        }
        let in_the_way = entry.blockers(chronicle, holder, &claim, None);
        if in_the_way.is_empty() {
            entry.grant(now, time_ns, holder, claim);
            self.holders.entry(holder).or_default().insert(chronicle);
            return Ok(None);
        }
        if !waits {
            return Err(Refusal::Taken(in_the_way));
        }
        if entry.queue.len() >= WAITING_MAX {
            return Err(Refusal::Crowded(WAITING_MAX));
        }
        debug_assert!(entry.queue.iter().all(|waiting| waiting.ticket < ticket));
        entry.queue.push(WaitingRequest::new(ticket, holder, claim, now));
        self.tickets += 1;
        self.waiting.entry(holder).or_default().insert(ticket, chronicle);
        if self.is_deadlocked(chronicle, ticket) {
            self.withdraw(chronicle, ticket);
            return Err(Refusal::Deadlock(in_the_way));
        }
        Ok(Some(ticket))
    }

    /// Checks whether a waiting request can be granted now.
    pub(super) fn check_request(
        &mut self,
        now: Moment,
        time_ns: i64,
        chronicle: ChronicleId,
        ticket: u64,
    ) -> Result<RequestState, Refusal> {
        debug_assert!(ticket < self.tickets, "the ticket was never handed out");
        let Some(entry) = self.chronicles.get_mut(&chronicle) else {
            return Err(Refusal::Closing);
        };
        entry.settle(now);
        let Some(waiting) = entry.queue.iter().find(|waiting| waiting.ticket == ticket).copied()
        else {
            return Err(Refusal::Closing);
        };
        if entry.is_shut() {
            self.withdraw(chronicle, ticket);
            return Err(Refusal::Closing);
        }
        let WaitingRequest { holder, claim, .. } = waiting;
        let in_the_way = entry.blockers(chronicle, holder, &claim, Some(ticket));
        if in_the_way.is_empty() {
            entry.grant(now, time_ns, holder, claim);
            self.withdraw(chronicle, ticket);
            self.holders.entry(holder).or_default().insert(chronicle);
            debug_assert!(
                self.chronicles
                    .get(&chronicle)
                    .is_some_and(|entry| entry.is_renewal(holder, &claim)),
                "a granted claim is not held"
            );
            return Ok(RequestState::Granted);
        }
        let until = in_the_way.iter().filter_map(|other| other.until).min();
        if self.is_deadlocked(chronicle, ticket) {
            self.withdraw(chronicle, ticket);
            return Err(Refusal::Deadlock(in_the_way));
        }
        Ok(RequestState::Waits(until))
    }

    /// The acquisitions that a waiting request waits for.
    pub(super) fn blockers(
        &mut self,
        now: Moment,
        chronicle: ChronicleId,
        ticket: u64,
    ) -> Vec<Acquisition> {
        debug_assert!(ticket < self.tickets, "the ticket was never handed out");
        let Some(entry) = self.chronicles.get_mut(&chronicle) else { return Vec::new() };
        entry.settle(now);
        let waiting = entry.queue.iter().find(|waiting| waiting.ticket == ticket).copied();
        waiting.map_or_else(Vec::new, |waiting| {
            entry.blockers(chronicle, waiting.holder, &waiting.claim, Some(ticket))
        })
    }

    /// Removes a request from the queue.
    pub(super) fn withdraw(&mut self, chronicle: ChronicleId, ticket: u64) {
        debug_assert!(ticket < self.tickets, "the ticket was never handed out");
        let Some(entry) = self.chronicles.get_mut(&chronicle) else { return };
        let found = entry.queue.iter().position(|waiting| waiting.ticket == ticket);
        let Some(holder) = found.map(|at| entry.queue.remove(at).holder) else { return };
        debug_assert!(entry.queue.iter().all(|waiting| waiting.ticket != ticket));
        self.waits_no_longer(holder, ticket);
        self.tidy(chronicle, holder);
    }

    /// True if a waiting request waits for itself, through a cycle of other requests.
    fn is_deadlocked(&self, chronicle: ChronicleId, ticket: u64) -> bool {
        let Some(entry) = self.chronicles.get(&chronicle) else { return false };
        let Some(first) = entry.queue.iter().find(|waiting| waiting.ticket == ticket) else {
            return false;
        };
        let mut seen = BTreeSet::new();
        let mut open = vec![(chronicle, *first)];
        while let Some((chronicle, waiting)) = open.pop() {
            let Some(entry) = self.chronicles.get(&chronicle) else { continue };
            let WaitingRequest { holder, claim, ticket, .. } = waiting;
            for other in entry.blockers(chronicle, holder, &claim, Some(ticket)) {
                // For an exclusive statement in a chronicle, a session waits as a second holder
                // with a negative number. The acquisition that blocks such a request directly
                // belongs to another session of the same client.
                let is_direct = ticket == first.ticket && other.holder != first.holder;
                if !is_direct && other.holder.session() == first.holder.session() {
                    return true;
                }
                if seen.insert(other.holder) {
                    open.extend(self.waits_of(other.holder));
                    open.extend(self.waits_of(other.holder.alone()));
                }
            }
        }
        false
    }

    /// The waiting requests of a holder.
    fn waits_of(&self, holder: HolderId) -> Vec<(ChronicleId, WaitingRequest)> {
        let listed = self.waiting.get(&holder).into_iter().flatten();
        let found = listed.filter_map(|(ticket, chronicle)| {
            let queue = &self.chronicles.get(chronicle)?.queue;
            let waiting = queue.iter().find(|waiting| waiting.ticket == *ticket)?;
            Some((*chronicle, *waiting))
        });
        let found: Vec<_> = found.collect();
        debug_assert!(
            found.iter().all(|(_, waiting)| waiting.holder == holder),
            "a request of another holder is listed"
        );
        debug_assert_eq!(
            found.len(),
            self.waiting.get(&holder).map_or(0, BTreeMap::len),
            "a listed request is in no queue"
        );
        found
    }

    fn waits_no_longer(&mut self, holder: HolderId, ticket: u64) {
        let Some(tickets) = self.waiting.get_mut(&holder) else { return };
        let removed = tickets.remove(&ticket);
        debug_assert!(removed.is_some(), "a request in a queue was not listed");
        if tickets.is_empty() {
            self.waiting.remove(&holder);
        }
    }

    /// Ends the leases on a chronicle that have run out.
    pub(super) fn settle(&mut self, now: Moment, chronicle: ChronicleId) {
        if let Some(entry) = self.chronicles.get_mut(&chronicle) {
            entry.settle(now);
        }
    }

    /// Releases a holder's claim. Returns true if the holder had a claim, or had lost a claim since
    /// its last release.
    pub(super) fn release(&mut self, chronicle: ChronicleId, holder: HolderId) -> bool {
        let Some(entry) = self.chronicles.get_mut(&chronicle) else { return false };
        let had = entry.release(holder);
        self.tidy(chronicle, holder);
        debug_assert!(!self.is_listed(chronicle, holder), "a released claim is still listed");
        had
    }

    /// Releases all claims of a holder. Returns the chronicles.
    pub(super) fn leave(&mut self, holder: HolderId) -> BTreeSet<ChronicleId> {
        let listed = self.holders.get(&holder).cloned().unwrap_or_default();
        for chronicle in &listed {
            self.release(*chronicle, holder);
        }
        debug_assert!(!self.holders.contains_key(&holder), "a holder leaves and keeps a claim");
        listed
    }

    /// True if the holder has acquired or lost the chronicle.
    fn is_listed(&self, chronicle: ChronicleId, holder: HolderId) -> bool {
        self.holders.get(&holder).is_some_and(|of| of.contains(&chronicle))
    }

    /// Registers that a statement uses a chronicle.
    pub(super) fn enter(
        &mut self,
        now: Moment,
        chronicle: ChronicleId,
        holder: HolderId,
        what: Use,
    ) -> Result<StartedUse, Refusal> {
        let entry = self.chronicles.entry(chronicle).or_default();
        entry.settle(now);
        let entered = entry.enter(now, chronicle, holder, what);
        if entered.is_err() {
            self.tidy(chronicle, holder);
        }
        entered
    }

    /// Checks that a holder has not lost its acquisition of a chronicle.
    pub(super) fn check(
        &mut self,
        now: Moment,
        chronicle: ChronicleId,
        holder: HolderId,
    ) -> Result<(), Refusal> {
        let Some(entry) = self.chronicles.get_mut(&chronicle) else { return Ok(()) };
        entry.settle(now);
        entry.check(chronicle, holder)
    }

    /// Starts the commit of a statement: from now on, its writes may become durable at any moment.
    pub(super) fn commit(
        &mut self,
        now: Moment,
        chronicle: ChronicleId,
        holder: HolderId,
        epoch: u32,
    ) -> Result<(), Refusal> {
        let Some(entry) = self.chronicles.get_mut(&chronicle) else { return Ok(()) };
        entry.settle(now);
        entry.commit(chronicle, holder, epoch)
    }

    /// The reason why the writes of a statement, started in epoch `epoch`, will never be committed;
    /// `None` if a commit is possible.
    pub(super) fn lost(
        &mut self,
        now: Moment,
        chronicle: ChronicleId,
        holder: HolderId,
        epoch: u32,
    ) -> Option<Refusal> {
        let entry = self.chronicles.get_mut(&chronicle)?;
        entry.settle(now);
        entry.lost(chronicle, holder, epoch)
    }

    /// Holders with void writes to a chronicle: writes that will never be committed, by statements
    /// that still run.
    pub(super) fn void_holders(&mut self, now: Moment, chronicle: ChronicleId) -> Vec<HolderId> {
        self.chronicles.get_mut(&chronicle).map_or_else(Vec::new, |entry| {
            entry.settle(now);
            entry.void_holders()
        })
    }

    /// The moment at which the next lease on a chronicle runs out.
    pub(super) fn next_end(&mut self, now: Moment, chronicle: ChronicleId) -> Option<Moment> {
        let entry = self.chronicles.get_mut(&chronicle)?;
        entry.settle(now);
        entry.earliest()
    }

    /// Ends the use of a chronicle by a statement.
    pub(super) fn exit(
        &mut self,
        chronicle: ChronicleId,
        holder: HolderId,
        what: Use,
        epoch: u32,
        committing: bool,
    ) {
        let Some(entry) = self.chronicles.get_mut(&chronicle) else { return };
        entry.exit(holder, what, epoch, committing);
        if entry.is_gone() {
            debug_assert!(!self.is_listed(chronicle, holder), "a listed claim is forgotten");
            self.chronicles.remove(&chronicle);
        }
    }

    /// Begins the drop of a chronicle: until [`Self::reopen`] or [`Self::forget`], no session can
    /// make a new acquisition of it or begin to write. Returns the acquisitions of other holders.
    pub(super) fn close(
        &mut self,
        now: Moment,
        chronicle: ChronicleId,
        holder: HolderId,
    ) -> Vec<Acquisition> {
        let entry = self.chronicles.entry(chronicle).or_default();
        entry.settle(now);
        entry.closing = entry.closing.saturating_add(1);
        let others = entry.held_by_others(chronicle, Some(holder));
        debug_assert!(
            others.iter().all(|other| other.holder != holder),
            "a holder is in its own way"
        );
        others
    }

    /// Cancels the drop of a chronicle.
    pub(super) fn reopen(&mut self, chronicle: ChronicleId) {
        let Some(entry) = self.chronicles.get_mut(&chronicle) else { return };
        entry.closing = entry.closing.saturating_sub(1);
        if entry.is_gone() {
            self.chronicles.remove(&chronicle);
        }
    }

    /// Plans the drop of a chronicle for the time after its last release, and releases the claim of
    /// `holder`. Returns true if the drop was not planned before.
    pub(super) fn mark(&mut self, chronicle: ChronicleId, holder: HolderId) -> bool {
        let entry = self.chronicles.entry(chronicle).or_default();
        let is_new = !std::mem::replace(&mut entry.marked, true);
        self.release(chronicle, holder);
        debug_assert!(
            self.chronicles.get(&chronicle).is_some_and(|entry| entry.marked),
            "the mark is lost with the claim"
        );
        is_new
    }

    /// Cancels the planned drop of a chronicle.
    pub(super) fn unmark(&mut self, chronicle: ChronicleId) {
        let Some(entry) = self.chronicles.get_mut(&chronicle) else { return };
        entry.marked = false;
        if entry.is_gone() {
            self.chronicles.remove(&chronicle);
        }
    }

    /// Removes all state of a dropped chronicle.
    pub(super) fn forget(&mut self, chronicle: ChronicleId) {
        let Some(entry) = self.chronicles.remove(&chronicle) else { return };
        for waiting in &entry.queue {
            self.waits_no_longer(waiting.holder, waiting.ticket);
        }
        for holder in entry.parties.keys() {
            self.tidy(chronicle, *holder);
        }
    }

    /// The acquisitions of a chronicle.
    pub(super) fn holders_of(&mut self, now: Moment, chronicle: ChronicleId) -> Vec<Acquisition> {
        self.chronicles.get_mut(&chronicle).map_or_else(Vec::new, |entry| {
            entry.settle(now);
            entry.held_by_others(chronicle, None)
        })
    }

    /// All acquisitions, sorted by chronicle.
    pub(super) fn list(&mut self, now: Moment) -> Vec<Acquisition> {
        let mut list = Vec::new();
        for (chronicle, entry) in &mut self.chronicles {
            entry.settle(now);
            entry.list(*chronicle, &mut list);
        }
        debug_assert!(
            list.is_sorted_by_key(|acquisition| acquisition.chronicle),
            "the list is not in the order of chronicles"
        );
        list
    }

    /// The number of holders of a chronicle, including implicit acquisitions of statements.
    pub(super) fn acquirers(&mut self, now: Moment, chronicle: ChronicleId) -> u32 {
        self.chronicles.get_mut(&chronicle).map_or(0, |entry| {
            entry.settle(now);
            entry.acquirers()
        })
    }

    /// The number of chronicles acquired by a holder.
    pub(super) fn acquired_by(&mut self, now: Moment, holder: HolderId) -> usize {
        let mut list = Vec::new();
        for chronicle in self.holders.get(&holder).into_iter().flatten() {
            if let Some(entry) = self.chronicles.get_mut(chronicle) {
                entry.settle(now);
                entry.list(*chronicle, &mut list);
            }
        }
        let own = list.iter().filter(|acquisition| acquisition.holder == holder);
        let count = own.filter(|acquisition| acquisition.standing == Standing::Held).count();
        debug_assert!(
            count <= self.holders.get(&holder).map_or(0, BTreeSet::len),
            "a holder has acquired more chronicles than are listed"
        );
        count
    }

    /// Removes entries that have no content any more.
    fn tidy(&mut self, chronicle: ChronicleId, holder: HolderId) {
        let mut listed = false;
        if let Some(entry) = self.chronicles.get_mut(&chronicle) {
            entry.tidy(holder);
            let party = entry.parties.get(&holder);
            listed = party.is_some_and(|party| party.held.is_some() || party.is_barred);
            if entry.is_gone() {
                self.chronicles.remove(&chronicle);
            }
        }
        if !listed && let Some(of) = self.holders.get_mut(&holder) {
            of.remove(&chronicle);
            if of.is_empty() {
                self.holders.remove(&holder);
            }
        }
    }
}

#[cfg(test)]
impl Register {
    /// A register without acquisitions, which continues the ticket numbers.
    pub(super) fn ended(tickets: u64) -> Self {
        Self { tickets, ..Self::default() }
    }

    /// The number of tickets issued so far.
    pub(super) fn tickets(&self) -> u64 {
        self.tickets
    }
}
