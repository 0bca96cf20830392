//! Compares the register with a simple model, which keeps flat lists and searches them completely
//! each time.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::acquisition::register::{Register, RequestState};

const HOLDERS: i32 = 4;
const CHRONICLES: u32 = 2;

#[derive(Debug, Clone)]
enum Step {
    Request { chronicle: u32, holder: i32, claim: Claim, waits: bool },
    Look(usize),
    Withdraw(usize),
    Release { chronicle: u32, holder: i32 },
    Leave(i32),
    Enter { chronicle: u32, holder: i32, what: Use },
    Commit(usize),
    Exit(usize),
    Close { chronicle: u32, holder: i32 },
    Reopen(u32),
    Forget(u32),
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let chronicle = || 0..CHRONICLES;
    let holder = || 0..HOLDERS;
    let ticks = prop_oneof![
        2 => Just(TickRange::ALL),
        1 => (0..4_i64, 1..3_i64).prop_map(|(at, long)| TickRange::new(Tick(at), Tick(at + long))),
    ];
    let mode = prop_oneof![Just(Mode::Shared), Just(Mode::Exclusive)];
    let lease = prop_oneof![Just(None), (1..8_u64).prop_map(Some)];
    let claim =
        (mode, ticks, lease).prop_map(|(mode, ticks, lease_ns)| Claim { mode, ticks, lease_ns });
    let what = prop_oneof![Just(Use::Read), Just(Use::Write), Just(Use::WriteOn)];
    prop_oneof![
        6 => (chronicle(), holder(), claim, any::<bool>()).prop_map(
            |(chronicle, holder, claim, waits)| Step::Request { chronicle, holder, claim, waits }),
        6 => any::<usize>().prop_map(Step::Look),
        1 => any::<usize>().prop_map(Step::Withdraw),
        3 => (chronicle(), holder()).prop_map(|(chronicle, holder)| Step::Release { chronicle, holder }),
        1 => holder().prop_map(Step::Leave),
        5 => (chronicle(), holder(), what).prop_map(
            |(chronicle, holder, what)| Step::Enter { chronicle, holder, what }),
        3 => any::<usize>().prop_map(Step::Commit),
        5 => any::<usize>().prop_map(Step::Exit),
        1 => (chronicle(), holder()).prop_map(|(chronicle, holder)| Step::Close { chronicle, holder }),
        2 => chronicle().prop_map(Step::Reopen),
        1 => chronicle().prop_map(Step::Forget),
        4 => (1..6_u64).prop_map(Step::Advance),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Has {
    chronicle: u32,
    holder: i32,
    claim: Claim,
    until: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Uses {
    chronicle: u32,
    holder: i32,
    what: Use,
    epoch: u32,
    committing: bool,
    void: bool,
    ticks: TickRange,
}

#[derive(Debug, Clone, Copy)]
struct Waits {
    ticket: u64,
    chronicle: u32,
    holder: i32,
    claim: Claim,
}

/// A refusal, reduced to the name of its kind, and its parameter.
type Said<T> = Result<T, &'static str>;

#[derive(Debug, Default)]
struct Naive {
    now: u64,
    has: Vec<Has>,
    lost: Vec<Has>,
    uses: Vec<Uses>,
    waits: Vec<Waits>,
    closing: Vec<u32>,
    written: BTreeMap<(u32, i32), TickRange>,
    tickets: u64,
}

impl Naive {
    fn settle(&mut self) {
        let now = self.now;
        let out = |has: &Has| has.until.is_some_and(|until| until <= now);
        for has in self.has.iter().filter(|has| out(has)) {
            let own = |used: &&mut Uses| {
                (used.chronicle, used.holder) == (has.chronicle, has.holder)
                    && used.what.writes()
                    && !used.committing
            };
            self.uses.iter_mut().filter(own).for_each(|used| used.void = true);
            self.lost.push(*has);
        }
        self.has.retain(|has| !out(has));
    }

    fn held(&self, chronicle: u32, holder: i32) -> Option<Has> {
        let mut found = self.has.iter();
        found.find(|has| (has.chronicle, has.holder) == (chronicle, holder)).copied()
    }

    fn is_lost(&self, chronicle: u32, holder: i32) -> bool {
        self.lost.iter().any(|lost| (lost.chronicle, lost.holder) == (chronicle, holder))
    }

    fn ticks(&self, chronicle: u32, holder: i32) -> TickRange {
        self.held(chronicle, holder).map_or(TickRange::ALL, |has| has.claim.ticks)
    }

    fn writing(&self, chronicle: u32, holder: i32) -> impl Iterator<Item = &Uses> {
        self.uses.iter().filter(move |used| {
            (used.chronicle, used.holder, used.what.writes()) == (chronicle, holder, true)
                && !used.void
        })
    }

    fn writes(&self, chronicle: u32, holder: i32) -> bool {
        self.writing(chronicle, holder).next().is_some()
    }

    /// The smallest range with the ticks to which the running statements of a holder may write, and
    /// also the statements that ended before without a pause between.
    fn written(&self, chronicle: u32, holder: i32) -> TickRange {
        let known =
            self.written.get(&(chronicle, holder)).filter(|_| self.writes(chronicle, holder));
        known.copied().unwrap_or(TickRange::EMPTY)
    }

    fn is_in(&self, chronicle: u32, holder: i32) -> bool {
        self.held(chronicle, holder).is_some() || self.writes(chronicle, holder)
    }

    /// The holders with which a waiting or possible request conflicts.
    fn blockers(&self, waits: &Waits) -> Vec<i32> {
        let Waits { ticket, chronicle, holder, claim } = *waits;
        let mut found = Vec::new();
        for other in (0..HOLDERS).filter(|other| *other != holder) {
            let held = self.held(chronicle, other).is_some_and(|has| has.claim.conflicts(&claim));
            let writes = claim.mode == Mode::Exclusive
                && self.writes(chronicle, other)
                && self.written(chronicle, other).overlaps(&claim.ticks);
            let before = !self.is_in(chronicle, holder)
                && self.waits.iter().any(|first| {
                    (first.chronicle, first.holder) == (chronicle, other)
                        && first.ticket < ticket
                        && first.claim.conflicts(&claim)
                });
            if held || writes || before {
                found.push(other);
            }
        }
        found
    }

    /// True if a holder waits for itself; follows all paths up to a length of the number of
    /// holders.
    fn rings(&self, first: &Waits) -> bool {
        let mut reached = self.blockers(first);
        for _ in 0..HOLDERS {
            let further: Vec<i32> = self
                .waits
                .iter()
                .filter(|waits| reached.contains(&waits.holder))
                .flat_map(|waits| self.blockers(waits))
                .collect();
            reached.extend(further);
            reached.sort_unstable();
            reached.dedup();
        }
        reached.contains(&first.holder)
    }

    fn grant(&mut self, waits: &Waits) {
        let Waits { chronicle, holder, claim, .. } = *waits;
        self.release(chronicle, holder);
        let until = claim.lease_ns.map(|lease_ns| self.now + lease_ns);
        self.has.push(Has { chronicle, holder, claim, until });
    }

    fn release(&mut self, chronicle: u32, holder: i32) -> bool {
        let before = self.has.len() + self.lost.len();
        let other = |has: &Has| (has.chronicle, has.holder) != (chronicle, holder);
        self.has.retain(other);
        self.lost.retain(other);
        self.has.len() + self.lost.len() < before
    }

    fn request(
        &mut self,
        chronicle: u32,
        holder: i32,
        claim: Claim,
        waits: bool,
    ) -> Said<Option<u64>> {
        let asked = Waits { ticket: self.tickets, chronicle, holder, claim };
        let renews = self.held(chronicle, holder).is_some_and(|has| has.claim.covers(&claim));
        if self.closing.contains(&chronicle) && !renews {
            return Err("Closing");
        }
        if self.blockers(&asked).is_empty() {
            self.grant(&asked);
            return Ok(None);
        }
        if !waits {
            return Err("Taken");
        }
        self.tickets += 1;
        self.waits.push(asked);
        if self.rings(&asked) {
            self.waits.pop();
            return Err("Deadlock");
        }
        Ok(Some(asked.ticket))
    }

    fn check_request(&mut self, ticket: u64) -> Said<RequestState> {
        let Some(at) = self.waits.iter().position(|waits| waits.ticket == ticket) else {
            return Err("Closing");
        };
        let waits = self.waits[at];
        let in_the_way = self.blockers(&waits);
        if self.closing.contains(&waits.chronicle) {
            self.waits.remove(at);
            return Err("Closing");
        }
        if in_the_way.is_empty() {
            self.waits.remove(at);
            self.grant(&waits);
            return Ok(RequestState::Granted);
        }
        if self.rings(&waits) {
            self.waits.remove(at);
            return Err("Deadlock");
        }
        let leases = self.has.iter().filter(|has| {
            has.chronicle == waits.chronicle
                && has.holder != waits.holder
                && has.claim.conflicts(&waits.claim)
        });
        Ok(RequestState::Waits(leases.filter_map(|has| has.until.map(Moment)).min()))
    }

    fn enter(&mut self, chronicle: u32, holder: i32, what: Use, epoch: u32) -> Said<TickRange> {
        if self.is_lost(chronicle, holder) {
            return Err("Lost");
        }
        let ticks = self.ticks(chronicle, holder);
        let alone = |claim: &Claim| claim.mode == Mode::Exclusive && claim.ticks.overlaps(&ticks);
        if what.writes() {
            if self.closing.contains(&chronicle) {
                return Err("Closing");
            }
            let held = self
                .has
                .iter()
                .any(|has| has.chronicle == chronicle && has.holder != holder && alone(&has.claim));
            let waits = self.waits.iter().any(|waits| {
                waits.chronicle == chronicle && waits.holder != holder && alone(&waits.claim)
            });
            let goes_on = what == Use::WriteOn || self.held(chronicle, holder).is_some();
            if held || waits && !goes_on {
                return Err("LockedOut");
            }
        }
        if what.writes() {
            let hull = self.written(chronicle, holder).hull(&ticks);
            self.written.insert((chronicle, holder), hull);
        }
        let (void, committing) = (false, false);
        self.uses.push(Uses { chronicle, holder, what, epoch, committing, void, ticks });
        Ok(ticks)
    }

    fn list(&self) -> Vec<String> {
        let mut list = Vec::new();
        let line = |chronicle: u32, holder: i32, standing, mode, ticks: TickRange| {
            format!("{chronicle} {holder} {standing:?} {mode} {ticks}")
        };
        for (of, standing) in [(&self.has, Standing::Held), (&self.lost, Standing::Lost)] {
            list.extend(of.iter().map(|has| {
                line(has.chronicle, has.holder, standing, has.claim.mode, has.claim.ticks)
            }));
        }
        for used in self.uses.iter().filter(|used| !used.void) {
            let (standing, ticks) = match used.what {
                Use::Read => (Standing::Reading, self.ticks(used.chronicle, used.holder)),
                Use::Write | Use::WriteOn => {
                    (Standing::Writing, self.written(used.chronicle, used.holder))
                }
            };
            list.push(line(used.chronicle, used.holder, standing, Mode::Shared, ticks));
        }
        list.sort();
        // All statements of one holder appear as one entry in the list.
        list.dedup();
        list.extend(self.waits.iter().map(|waits| {
            line(
                waits.chronicle,
                waits.holder,
                Standing::Waiting,
                waits.claim.mode,
                waits.claim.ticks,
            )
        }));
        list.sort();
        list
    }

    fn acquirers(&self, chronicle: u32) -> u32 {
        (0..HOLDERS)
            .filter(|holder| {
                self.held(chronicle, *holder).is_some()
                    || self
                        .uses
                        .iter()
                        .any(|used| (used.chronicle, used.holder) == (chronicle, *holder))
            })
            .count() as u32
    }

    /// Checks the invariants after every step.
    fn check(&self) {
        for (at, one) in self.has.iter().enumerate() {
            for other in
                self.has.iter().skip(at + 1).filter(|other| other.chronicle == one.chronicle)
            {
                assert!(!one.claim.conflicts(&other.claim), "{one:?} {other:?}");
            }
            let foreign = self
                .uses
                .iter()
                .filter(|used| used.chronicle == one.chronicle && used.holder != one.holder);
            for used in foreign.filter(|used| used.what.writes() && !used.void) {
                let alone = one.claim.mode == Mode::Exclusive;
                assert!(!alone || !used.ticks.overlaps(&one.claim.ticks), "{one:?} {used:?}");
            }
        }
    }
}

fn name(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Taken(_) => "Taken",
        Refusal::LockedOut(_) => "LockedOut",
        Refusal::Lost(_) => "Lost",
        Refusal::Closing => "Closing",
        Refusal::Deadlock(_) => "Deadlock",
        Refusal::TooMany(_) => "TooMany",
        Refusal::Crowded(_) => "Crowded",
    }
}

fn listed(register: &mut Register, now: Moment) -> Vec<String> {
    let list = register.list(now).into_iter().map(|of| {
        let Acquisition { chronicle, holder, standing, mode, ticks, .. } = of;
        format!("{chronicle} {} {standing:?} {mode} {ticks}", holder.0)
    });
    let mut list: Vec<String> = list.collect();
    list.sort();
    list
}

fn carry_out(step: &Step, naive: &mut Naive, register: &mut Register) {
    naive.settle();
    let now = Moment(naive.now);
    let id = |chronicle: u32| (ChronicleId(chronicle), chronicle);
    match *step {
        Step::Request { chronicle, holder, claim, waits } => {
            let (of, at) = id(chronicle);
            let said = register.request(now, 0, of, HolderId(holder), claim, waits).map_err(name);
            assert_eq!(said, naive.request(at, holder, claim, waits));
        }
        Step::Look(at) if !naive.waits.is_empty() => {
            let Waits { ticket, chronicle, .. } = naive.waits[at % naive.waits.len()];
            let said = register.check_request(now, 0, ChronicleId(chronicle), ticket).map_err(name);
            assert_eq!(said, naive.check_request(ticket));
        }
        Step::Withdraw(at) if !naive.waits.is_empty() => {
            let at = at % naive.waits.len();
            let Waits { ticket, chronicle, .. } = naive.waits.remove(at);
            register.withdraw(ChronicleId(chronicle), ticket);
        }
        Step::Release { chronicle, holder } => {
            let had = register.release(ChronicleId(chronicle), HolderId(holder));
            assert_eq!(had, naive.release(chronicle, holder));
        }
        Step::Leave(holder) => {
            register.leave(HolderId(holder));
            for chronicle in 0..CHRONICLES {
                naive.release(chronicle, holder);
            }
        }
        Step::Enter { chronicle, holder, what } => {
            let of = ChronicleId(chronicle);
            let said = register.enter(now, of, HolderId(holder), what).map_err(name);
            let epoch = said.map_or(0, |entered| entered.epoch);
            let naive = naive.enter(chronicle, holder, what, epoch);
            assert_eq!(said.map(|entered| entered.ticks), naive);
        }
        Step::Commit(at) if !naive.uses.is_empty() => {
            let at = at % naive.uses.len();
            let Uses { chronicle, holder, what, epoch, committing, void, .. } = naive.uses[at];
            if what.writes() && !committing {
                let said = register.commit(now, ChronicleId(chronicle), HolderId(holder), epoch);
                assert_eq!(said.is_err(), void || naive.is_lost(chronicle, holder));
                naive.uses[at].committing = said.is_ok();
            }
        }
        Step::Exit(at) if !naive.uses.is_empty() => {
            let at = at % naive.uses.len();
            let Uses { chronicle, holder, what, epoch, committing, .. } = naive.uses.remove(at);
            register.exit(ChronicleId(chronicle), HolderId(holder), what, epoch, committing);
        }
        Step::Close { chronicle, holder } => {
            let others = register.close(now, ChronicleId(chronicle), HolderId(holder));
            let held = naive.has.iter().filter(|has| has.chronicle == chronicle);
            assert_eq!(others.len(), held.filter(|has| has.holder != holder).count());
            naive.closing.push(chronicle);
        }
        Step::Reopen(chronicle) => {
            if let Some(at) = naive.closing.iter().position(|closing| *closing == chronicle) {
                naive.closing.remove(at);
                register.reopen(ChronicleId(chronicle));
            }
        }
        Step::Forget(chronicle) => {
            register.forget(ChronicleId(chronicle));
            naive.has.retain(|has| has.chronicle != chronicle);
            naive.lost.retain(|lost| lost.chronicle != chronicle);
            naive.uses.retain(|used| used.chronicle != chronicle);
            naive.waits.retain(|waits| waits.chronicle != chronicle);
            naive.closing.retain(|closing| *closing != chronicle);
        }
        Step::Advance(ns) => naive.now += ns,
        Step::Look(_) | Step::Withdraw(_) | Step::Commit(_) | Step::Exit(_) => {}
    }
    naive.settle();
    naive.check();
    let now = Moment(naive.now);
    assert_eq!(listed(register, now), naive.list());
    for chronicle in 0..CHRONICLES {
        assert_eq!(register.acquirers(now, ChronicleId(chronicle)), naive.acquirers(chronicle));
    }
}

/// Repeatedly lets all holders leave that do not wait; at the end, no request must wait.
fn ends(naive: &mut Naive, register: &mut Register) {
    for chronicle in 0..CHRONICLES {
        while naive.closing.contains(&chronicle) {
            carry_out(&Step::Reopen(chronicle), naive, register);
        }
    }
    while !naive.uses.is_empty() {
        carry_out(&Step::Exit(0), naive, register);
    }
    for _ in 0..=HOLDERS as usize + naive.waits.len() {
        for at in 0..naive.waits.len() {
            if at < naive.waits.len() {
                carry_out(&Step::Look(at), naive, register);
            }
        }
        for holder in 0..HOLDERS {
            if naive.waits.iter().all(|waits| waits.holder != holder) {
                carry_out(&Step::Leave(holder), naive, register);
            }
        }
    }
    assert!(naive.waits.is_empty(), "{naive:?}");
    assert_eq!(format!("{register:?}"), format!("{:?}", Register::ended(naive.tickets)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn the_register_agrees_with_lists(steps in prop::collection::vec(step(), 1..60)) {
        let (mut naive, mut register) = (Naive::default(), Register::default());
        for step in &steps {
            carry_out(step, &mut naive, &mut register);
        }
        ends(&mut naive, &mut register);
    }
}
