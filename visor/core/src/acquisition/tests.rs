use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt as _;
use stratalog_model::{Tick, TickRange};

use super::*;

mod model;

const T: ChronicleId = ChronicleId(1);
const U: ChronicleId = ChronicleId(2);
const A: HolderId = HolderId(1);
const B: HolderId = HolderId(2);
const C: HolderId = HolderId(3);

/// A clock that only the test advances; the wall clock shows 1,000 ns more than the monotonic
/// clock.
#[derive(Debug, Default)]
struct HandClock(AtomicU64);

impl HandClock {
    fn advance(&self, ns: u64) {
        self.0.fetch_add(ns, Ordering::Relaxed);
    }
}

impl Clock for HandClock {
    fn now_ns(&self) -> i64 {
        self.monotonic_ns() as i64 + 1_000
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

fn acquisitions() -> (Arc<HandClock>, Arc<Acquisitions>) {
    let clock = Arc::new(HandClock::default());
    (Arc::clone(&clock), Acquisitions::new(clock))
}

fn claim(mode: Mode) -> Claim {
    Claim { mode, ticks: TickRange::ALL, lease_ns: None }
}

fn part(mode: Mode, start: i64, end: i64) -> Claim {
    Claim { ticks: TickRange::new(Tick(start), Tick(end)), ..claim(mode) }
}

fn lease(mode: Mode, lease_ns: u64) -> Claim {
    Claim { lease_ns: Some(lease_ns), ..claim(mode) }
}

#[test]
fn one_is_alone_or_all_share() {
    let (_, all) = acquisitions();
    all.acquire(T, A, claim(Mode::Shared)).unwrap();
    all.acquire(T, B, claim(Mode::Shared)).unwrap();
    assert_eq!(all.acquirers(T), 2);
    let Err(Refusal::Taken(in_the_way)) = all.acquire(T, C, claim(Mode::Exclusive)) else {
        panic!("two share it")
    };
    assert_eq!(in_the_way.iter().map(|other| other.holder).collect::<Vec<_>>(), [A, B]);
    assert!(all.release(T, A) && !all.release(T, A));
    assert!(all.release(T, B));
    all.acquire(T, C, claim(Mode::Exclusive)).unwrap();
    assert!(matches!(all.acquire(T, A, claim(Mode::Shared)), Err(Refusal::Taken(_))));
    all.acquire(U, A, claim(Mode::Exclusive)).unwrap();
    assert_eq!((all.acquirers(T), all.acquired_by(A), all.acquired_by(B)), (1, 1, 0));
}

#[test]
fn parts_that_do_not_overlap_are_not_in_each_others_way() {
    let (_, all) = acquisitions();
    all.acquire(T, A, part(Mode::Exclusive, 0, 10)).unwrap();
    all.acquire(T, B, part(Mode::Exclusive, 10, 20)).unwrap();
    assert!(all.acquire(T, C, part(Mode::Shared, 9, 10)).is_err());
    all.acquire(T, C, part(Mode::Shared, 20, 30)).unwrap();
    // A holder of a range of ticks can write in this range; a statement without an acquisition can
    // write everywhere.
    assert_eq!(all.enter(T, B, Use::Write).unwrap().ticks(), part(Mode::Shared, 10, 20).ticks);
    assert!(matches!(all.enter(T, HolderId(4), Use::Write), Err(Refusal::LockedOut(_))));
}

#[test]
fn a_writer_is_locked_out_and_a_reader_is_not() {
    let (clock, all) = acquisitions();
    all.acquire(T, A, lease(Mode::Exclusive, 50)).unwrap();
    let Err(Refusal::LockedOut(alone)) = all.enter(T, B, Use::Write) else { panic!("A is alone") };
    assert_eq!((alone.holder, alone.until), (A, Some(Moment(50))));
    assert_eq!(all.wall_ns(Moment(50)), 1_050);
    drop(all.enter(T, B, Use::Read).unwrap());
    drop(all.enter(T, A, Use::Write).unwrap());
    clock.advance(50);
    drop(all.enter(T, B, Use::Write).unwrap());
}

#[test]
fn exclusive_waits_for_those_who_write() {
    let (_, all) = acquisitions();
    let (writing, reading) =
        (all.enter(T, A, Use::Write).unwrap(), all.enter(T, C, Use::Read).unwrap());
    let mut waiting = all.ask(T, B, claim(Mode::Exclusive)).unwrap().unwrap();
    let pause = waiting.check_request().unwrap().unwrap();
    assert_eq!(waiting.blockers()[0].standing, Standing::Writing);
    // No new statement can begin to write, but a transaction that has already written continues.
    assert!(matches!(all.enter(T, C, Use::Write), Err(Refusal::LockedOut(_))));
    assert!(matches!(all.enter(T, A, Use::Write), Err(Refusal::LockedOut(_))));
    drop(all.enter(T, A, Use::WriteOn).unwrap());
    drop(writing);
    assert_eq!(pause.changed.now_or_never(), Some(Ok(())));
    assert!(
        waiting.check_request().unwrap().is_none() && waiting.check_request().unwrap().is_none()
    );
    assert_eq!(all.acquired_by(B), 1);
    drop((waiting, reading));
    assert_eq!(all.acquirers(T), 1);
}

#[test]
fn those_who_wait_have_turns() {
    let (_, all) = acquisitions();
    all.acquire(T, A, claim(Mode::Shared)).unwrap();
    let mut first = all.ask(T, B, claim(Mode::Exclusive)).unwrap().unwrap();
    let mut second = all.ask(T, C, claim(Mode::Shared)).unwrap().unwrap();
    assert!(all.acquire(T, HolderId(4), claim(Mode::Shared)).is_err());
    assert!(second.check_request().unwrap().is_some());
    all.release(T, A);
    assert!(second.check_request().unwrap().is_some() && first.check_request().unwrap().is_none());
    all.leave(B);
    assert!(second.check_request().unwrap().is_none());
    // A request that was withdrawn blocks no other request.
    let third = all.ask(T, B, claim(Mode::Exclusive)).unwrap().unwrap();
    assert!(all.acquire(T, A, claim(Mode::Shared)).is_err());
    drop(third);
    all.acquire(T, A, claim(Mode::Shared)).unwrap();
}

#[test]
fn who_waits_is_told_of_its_own_chronicle_alone() {
    let (_, all) = acquisitions();
    all.acquire(T, A, claim(Mode::Exclusive)).unwrap();
    all.acquire(U, A, claim(Mode::Exclusive)).unwrap();
    let mut of_t = all.ask(T, B, claim(Mode::Shared)).unwrap().unwrap();
    let mut of_u = all.ask(U, C, claim(Mode::Shared)).unwrap().unwrap();
    let pauses = [&mut of_t, &mut of_u].map(|waiting| waiting.check_request().unwrap().unwrap());
    let [t, u] = pauses.map(|pause| pause.changed);
    drop(all.enter(U, A, Use::Write).unwrap());
    assert_eq!((t.now_or_never(), u.now_or_never()), (None, Some(Ok(()))));
    // When a holder leaves, all its acquisitions are released.
    let pauses = [&mut of_t, &mut of_u].map(|waiting| waiting.check_request().unwrap().unwrap());
    all.leave(A);
    for pause in pauses {
        assert_eq!(pause.changed.now_or_never(), Some(Ok(())));
    }
    assert!(of_t.check_request().unwrap().is_none() && of_u.check_request().unwrap().is_none());
    assert!(all.inner.lock().listening.is_empty());
}

#[test]
fn a_lease_that_ran_out_is_lost_until_it_is_acquired_again_or_released() {
    let (clock, all) = acquisitions();
    all.acquire(T, A, lease(Mode::Exclusive, 10)).unwrap();
    let mut writing = all.enter(T, A, Use::Write).unwrap();
    let mut waiting = all.ask(T, B, claim(Mode::Exclusive)).unwrap().unwrap();
    clock.advance(4);
    all.acquire(T, A, lease(Mode::Exclusive, 10)).unwrap();
    let pause = waiting.check_request().unwrap().unwrap();
    assert_eq!(pause.at_most, Some(Duration::from_nanos(10)));
    assert_eq!((all.next_end(T), all.next_end(U)), (pause.at_most, None));
    clock.advance(9);
    assert!(waiting.check_request().unwrap().is_some());
    clock.advance(1);
    // No request waits for the void writes, because they cannot be committed.
    assert!(waiting.check_request().unwrap().is_none());
    assert_eq!((all.void_holders(T), all.next_end(T)), (vec![A], None));
    assert!(matches!(writing.lost(), Some(Refusal::Lost(lost)) if lost.until == Some(Moment(14))));
    assert!(matches!(writing.commit(), Err(Refusal::Lost(lost)) if lost.until == Some(Moment(14))));
    assert!(matches!(all.enter(T, A, Use::Read), Err(Refusal::Lost(_))));
    assert!(all.acquire(T, A, claim(Mode::Shared)).is_err());
    assert!(matches!(all.enter(T, A, Use::Write), Err(Refusal::Lost(_))));
    assert!(all.release(T, A));
    drop(all.enter(T, A, Use::Read).unwrap());
    assert!(matches!(all.enter(T, A, Use::Write), Err(Refusal::LockedOut(_))));
    // The writes stay lost even after a release.
    assert!(writing.lost().is_some());
    drop(writing);
    assert!(all.void_holders(T).is_empty());
}

#[test]
fn what_is_being_committed_is_waited_for_though_the_lease_ran_out() {
    let (clock, all) = acquisitions();
    all.acquire(T, A, lease(Mode::Exclusive, 10)).unwrap();
    let mut writing = all.enter(T, A, Use::Write).unwrap();
    writing.commit().unwrap();
    clock.advance(10);
    let mut waiting = all.ask(T, B, claim(Mode::Exclusive)).unwrap().unwrap();
    assert!(waiting.check_request().unwrap().is_some());
    assert_eq!((all.void_holders(T), writing.lost()), (Vec::new(), None));
    drop(writing);
    assert!(waiting.check_request().unwrap().is_none());
}

#[test]
fn who_goes_on_and_on_is_told_that_a_lease_ran_out() {
    let (clock, all) = acquisitions();
    let reading = all.enter(T, A, Use::Read).unwrap();
    all.acquire(T, A, lease(Mode::Shared, 10)).unwrap();
    let apart = all.enter(T, B, Use::Read).unwrap();
    reading.check().unwrap();
    clock.advance(10);
    assert!(matches!(reading.check(), Err(Refusal::Lost(_))));
    apart.check().unwrap();
    all.release(T, A);
    reading.check().unwrap();
    // The statement keeps the range of ticks that it had at its beginning.
    assert_eq!(reading.ticks(), TickRange::ALL);
    all.acquire(T, A, lease(Mode::Shared, 10)).unwrap();
    clock.advance(10);
    all.forget(T);
    reading.check().unwrap();
}

#[test]
fn a_ring_of_those_who_wait_is_refused() {
    let (_, all) = acquisitions();
    all.acquire(T, A, claim(Mode::Exclusive)).unwrap();
    all.acquire(U, B, claim(Mode::Exclusive)).unwrap();
    let mut waiting = all.ask(U, A, claim(Mode::Exclusive)).unwrap().unwrap();
    let Err(Refusal::Deadlock(others)) = all.ask(T, B, claim(Mode::Shared)) else {
        panic!("A waits for B")
    };
    assert_eq!(others[0].holder, A);
    assert!(waiting.check_request().unwrap().is_some());
    all.leave(B);
    assert!(waiting.check_request().unwrap().is_none());
    // Two holders of SHARED cannot both wait for EXCLUSIVE.
    let (_, all) = acquisitions();
    all.acquire(T, A, claim(Mode::Shared)).unwrap();
    all.acquire(T, B, claim(Mode::Shared)).unwrap();
    let mut waiting = all.ask(T, A, claim(Mode::Exclusive)).unwrap().unwrap();
    assert!(matches!(all.ask(T, B, claim(Mode::Exclusive)), Err(Refusal::Deadlock(_))));
    all.release(T, B);
    assert!(waiting.check_request().unwrap().is_none());
    // A transaction cannot request a chronicle whose holder waits for a chronicle to which the
    // transaction has written: both would wait for each other.
    let (_, all) = acquisitions();
    let _writing = all.enter(T, A, Use::Write).unwrap();
    all.acquire(U, B, claim(Mode::Exclusive)).unwrap();
    let _waiting = all.ask(T, B, claim(Mode::Exclusive)).unwrap().unwrap();
    assert!(matches!(all.ask(U, A, claim(Mode::Shared)), Err(Refusal::Deadlock(_))));
    // The writer can become exclusive on the chronicle to which it has written, although another
    // holder's request waits.
    assert!(all.ask(T, A, claim(Mode::Exclusive)).unwrap().is_none());
}

#[test]
fn a_ring_of_those_who_are_alone_is_refused() {
    // Each holder is exclusive on one table and requests the other holder's table.
    let (_, all) = acquisitions();
    let exclusive = || claim(Mode::Exclusive);
    assert!(all.ask(T, A.alone(), exclusive()).unwrap().is_none());
    assert!(all.ask(U, B.alone(), exclusive()).unwrap().is_none());
    let _waiting = all.ask(U, A.alone(), exclusive()).unwrap().unwrap();
    assert!(matches!(all.ask(T, B.alone(), exclusive()), Err(Refusal::Deadlock(_))));
    // A transaction with writes to one table waits for the holder of a request for the same table.
    let (_, all) = acquisitions();
    assert!(all.ask(T, A.alone(), exclusive()).unwrap().is_none());
    let _writing = all.enter(U, B, Use::Write).unwrap();
    let _waiting = all.ask(U, A.alone(), exclusive()).unwrap().unwrap();
    assert!(matches!(all.ask(T, B, claim(Mode::Shared)), Err(Refusal::Deadlock(_))));
    // Another session of the same client counts as a separate holder in a wait.
    let (_, all) = acquisitions();
    let writing = all.enter(T, A, Use::Write).unwrap();
    let mut waiting = all.ask(T, A.alone(), exclusive()).unwrap().unwrap();
    drop(writing);
    assert!(waiting.check_request().unwrap().is_none());
}

#[test]
fn what_is_dropped_is_shut_until_it_is_gone_or_stays() {
    let (_, all) = acquisitions();
    all.acquire(T, A, claim(Mode::Shared)).unwrap();
    all.acquire(T, B, claim(Mode::Shared)).unwrap();
    let mut waiting = all.ask(T, C, claim(Mode::Exclusive)).unwrap().unwrap();
    // `close_if_free` changes nothing while another holder exists.
    let pause = waiting.check_request().unwrap().unwrap();
    let others = all.close_if_free(T, A).unwrap_err();
    assert_eq!(others.iter().map(|other| other.holder).collect::<Vec<_>>(), [B]);
    assert_eq!(pause.changed.now_or_never(), None);
    assert!(waiting.check_request().unwrap().is_some());
    drop(all.enter(T, B, Use::Write).unwrap());
    let door = all.close(T, A);
    assert_eq!(door.others().iter().map(|other| other.holder).collect::<Vec<_>>(), [B]);
    assert!(matches!(waiting.check_request(), Err(Refusal::Closing)));
    assert!(matches!(all.acquire(T, C, claim(Mode::Shared)), Err(Refusal::Closing)));
    assert!(matches!(all.enter(T, B, Use::Write), Err(Refusal::Closing)));
    drop(all.enter(T, C, Use::Read).unwrap());
    drop(door);
    drop(all.enter(T, C, Use::Write).unwrap());
    assert!(all.mark(T, A));
    all.unmark(T);
    drop(all.enter(T, C, Use::Write).unwrap());
    all.acquire(T, A, claim(Mode::Shared)).unwrap();
    assert!(all.mark(T, A) && !all.mark(T, C));
    assert!(matches!(all.enter(T, C, Use::Write), Err(Refusal::Closing)));
    assert!(matches!(all.acquire(T, A, claim(Mode::Shared)), Err(Refusal::Closing)));
    let pause = all.until_released(T).unwrap();
    assert!(pause.at_most.is_none() && all.acquired_by(A) == 0);
    all.leave(B);
    assert_eq!(pause.changed.now_or_never(), Some(Ok(())));
    assert!(all.until_released(T).is_none());
    all.forget(T);
    assert!(all.list().is_empty());
    let door = all.close_if_free(T, A).unwrap();
    assert!(door.others().is_empty());
    assert!(matches!(all.acquire(T, C, claim(Mode::Shared)), Err(Refusal::Closing)));
}

#[test]
fn who_has_what_is_being_dropped_renews_it_and_takes_no_more() {
    let (clock, all) = acquisitions();
    let renewed = |lease_ns| Claim { lease_ns: Some(lease_ns), ..part(Mode::Shared, 0, 10) };
    all.acquire(T, A, renewed(10)).unwrap();
    all.mark(T, B);
    for _ in 0..3 {
        clock.advance(9);
        all.acquire(T, A, renewed(10)).unwrap();
        clock.advance(9);
        assert!(all.ask(T, A, renewed(10)).unwrap().is_none());
    }
    for more in [part(Mode::Exclusive, 0, 10), part(Mode::Shared, 0, 11), claim(Mode::Shared)] {
        assert!(matches!(all.acquire(T, A, more), Err(Refusal::Closing)), "{more:?}");
        assert!(matches!(all.ask(T, A, more), Err(Refusal::Closing)), "{more:?}");
    }
    let pause = all.until_released(T).unwrap();
    assert_eq!(pause.at_most, Some(std::time::Duration::from_nanos(10)));
    // An expired lease gives no rights.
    clock.advance(10);
    assert!(matches!(all.acquire(T, A, renewed(10)), Err(Refusal::Closing)));
    assert!(all.until_released(T).is_none());
}

#[test]
fn a_use_tells_since_when_its_holder_has_the_chronicle() {
    let (clock, all) = acquisitions();
    let since = |holder| all.enter(T, holder, Use::Write).unwrap().since_ns();
    clock.advance(5);
    assert_eq!(since(A), None);
    all.acquire(T, A, lease(Mode::Shared, 20)).unwrap();
    clock.advance(5);
    // The lease ran out neither since the renewal nor since the beginning of the use.
    all.acquire(T, A, lease(Mode::Shared, 20)).unwrap();
    assert_eq!((since(A), since(B)), (Some(1_005), None));
    let mut waiting = all.ask(T, B, claim(Mode::Exclusive)).unwrap().unwrap();
    clock.advance(30);
    assert!(waiting.check_request().unwrap().is_none());
    assert_eq!(since(B), Some(1_040), "not since it waited");
    all.release(T, B);
    // The lease had run out: this is a new acquisition.
    all.acquire(T, A, claim(Mode::Shared)).unwrap();
    assert_eq!(since(A), Some(1_040));
}

#[test]
fn nothing_grows_without_end() {
    let (_, all) = acquisitions();
    for at in 0..register::ACQUISITIONS_MAX {
        all.acquire(ChronicleId(at as u32), A, claim(Mode::Exclusive)).unwrap();
    }
    let more = ChronicleId(register::ACQUISITIONS_MAX as u32);
    assert!(matches!(all.acquire(more, A, claim(Mode::Shared)), Err(Refusal::TooMany(_))));
    all.acquire(T, A, claim(Mode::Exclusive)).unwrap();
    let waiting: Vec<_> = (0..register::WAITING_MAX)
        .map(|at| all.ask(T, HolderId(10 + at as i32), claim(Mode::Shared)).unwrap().unwrap())
        .collect();
    assert!(matches!(all.ask(T, B, claim(Mode::Shared)), Err(Refusal::Crowded(_))));
    drop(waiting);
    all.leave(A);
    let inner = all.inner.lock();
    assert_eq!(
        format!("{:?}", inner.register),
        format!("{:?}", register::Register::ended(inner.register.tickets()))
    );
}
