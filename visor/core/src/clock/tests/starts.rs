//! Tests of starts with a wrong wall clock.

use super::*;
use crate::clock::{accept, correct};

const HOUR: i64 = 3600 * SECOND;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 8766 * HOUR;

/// A clock whose server has run for a few seconds and then crashed.
fn crashed() -> (Arc<MemoryDisk>, Arc<Hands>, i64) {
    let (disk, hands) = (Arc::new(MemoryDisk::default()), Hands::at(START));
    let clock = open(&disk, &hands);
    hands.pass(5 * SECOND);
    let last = clock.now_ns();
    drop(clock);
    disk.crash();
    (disk, hands, last)
}

/// Restarts the clock after a crash.
fn restart(disk: &Arc<MemoryDisk>, hands: &Arc<Hands>) -> Arc<MasterClock> {
    disk.crash();
    open(disk, hands)
}

fn unconfirmed(clock: &MasterClock) -> i64 {
    clock.status().unconfirmed_ns as i64
}

#[test]
fn a_short_time_without_a_server_is_trusted() {
    let (disk, hands, last) = crashed();
    hands.pass(23 * HOUR);
    let clock = open(&disk, &hands);
    assert_eq!(clock.now_ns(), last + 23 * HOUR);
    assert_eq!(clock.confirmed_ns(), clock.now_ns());
    assert_eq!((unconfirmed(&clock), clock.status().alarms), (0, Vec::new()));
}

#[test]
fn a_start_far_ahead_is_followed_and_unconfirmed_until_it_is_accepted() {
    let (disk, hands, last) = crashed();
    hands.step(10 * DAY);
    let clock = open(&disk, &hands);
    assert_eq!(clock.now_ns(), last + 10 * DAY);
    // The lease counts as the end of the last run.
    let certain = clock.confirmed_ns();
    assert!(certain >= last && certain <= last + 2 * AHEAD_NS, "{}", certain - last);
    hands.pass(HOUR);
    clock.renew();
    assert_eq!(clock.confirmed_ns(), certain + HOUR, "time passes for retention, too");
    let status = clock.status();
    assert_eq!(status.held_ns, 0);
    assert!(status.alarms[0].contains("accept_clock_jump"), "{:?}", status.alarms);
    assert!(status.alarms[0].contains("stratalog clock --correct"), "{:?}", status.alarms);
    // Restarts neither forget the lead nor count it twice.
    let before = unconfirmed(&clock);
    assert!(before > 9 * DAY);
    drop(clock);
    let clock = restart(&disk, &hands);
    let again = unconfirmed(&clock);
    assert!((again - before).abs() <= 2 * AHEAD_NS, "a crash leaves the lease ahead: {again}");
    assert!(clock.confirmed_ns() < last + 2 * HOUR);
    // The lease at the time of the crash is in the past.
    hands.pass(10 * SECOND);
    let epoch = clock.reading().line.epoch;
    assert_eq!(clock.accept_jump().unwrap(), Some(again as u64));
    assert!(clock.reading().line.epoch > epoch);
    assert_eq!(clock.confirmed_ns(), clock.now_ns());
    assert_eq!((unconfirmed(&clock), clock.status().alarms), (0, Vec::new()));
    drop(clock);
    assert_eq!(unconfirmed(&restart(&disk, &hands)), 0);
}

#[test]
fn a_wrong_start_that_is_set_right_deletes_nothing_early() {
    for running in [true, false] {
        let (disk, hands, last) = crashed();
        hands.step(10 * DAY);
        hands.pass(HOUR);
        let mut clock = open(&disk, &hands);
        clock.now_ns();
        if running {
            hands.step(-10 * DAY);
            clock.renew();
        } else {
            drop(clock);
            hands.step(-10 * DAY);
            clock = restart(&disk, &hands);
        }
        let ahead = clock.now_ns();
        assert!(ahead >= last + 10 * DAY, "CL-8");
        assert_eq!(unconfirmed(&clock), 0, "{running}");
        assert_eq!(clock.confirmed_ns(), hands.wall_ns(), "{running}");
        let alarms = clock.status().alarms;
        assert!(alarms[0].contains("stratalog clock --correct"), "{alarms:?}");
    }
}

/// A change of the wall clock in a test.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// The wall clock has changed at a start, after a crash or after an orderly shutdown.
    Crash(i64),
    End(i64),
    /// The wall clock changes while the server runs.
    Step(i64),
}

#[test]
fn a_clock_that_is_wrong_again_deletes_nothing_early() {
    use Change::{Crash, End, Step};
    let sequences: [&[Change]; 7] = [
        &[End(10 * DAY), End(-10 * DAY), End(10 * DAY)],
        &[Crash(10 * DAY), Crash(-10 * DAY), Crash(10 * DAY)],
        &[End(10 * DAY), Step(-10 * DAY), End(10 * DAY)],
        &[Crash(10 * DAY), Step(-10 * DAY), Step(10 * DAY)],
        &[End(10 * DAY), Crash(-10 * DAY), Crash(10 * DAY - 10_000 * SECOND)],
        &[End(364 * DAY), End(-364 * DAY), Step(366 * DAY), Step(-2 * DAY)],
        &[End(10 * DAY), End(-10 * DAY), End(5 * DAY), End(-5 * DAY), End(10 * DAY), Step(-DAY)],
    ];
    for sequence in sequences {
        let (disk, hands, _) = crashed();
        let mut right = hands.wall_ns();
        let mut clock = open(&disk, &hands);
        for change in sequence {
            let (Crash(step) | End(step) | Step(step)) = *change;
            match change {
                Crash(_) => {
                    drop(clock);
                    hands.step(step);
                    clock = restart(&disk, &hands);
                }
                End(_) => {
                    clock.settle().unwrap();
                    drop(clock);
                    hands.step(step);
                    clock = open(&disk, &hands);
                }
                Step(_) => hands.step(step),
            }
            for _ in 0..10 {
                clock.renew();
                let confirmed = clock.confirmed_ns();
                assert!(
                    confirmed <= right + HOUR,
                    "{sequence:?}: {} s",
                    (confirmed - right) / SECOND
                );
                hands.pass(60 * SECOND);
                right += 60 * SECOND;
            }
        }
    }
}

#[test]
fn a_confirmed_clock_is_compared_with_the_confirmed_time_at_the_next_start() {
    let (disk, hands, last) = crashed();
    hands.step(10 * DAY);
    drop(open(&disk, &hands));
    hands.step(-10 * DAY);
    hands.pass(5 * SECOND);
    let clock = restart(&disk, &hands);
    assert_eq!(clock.accept_jump().unwrap(), None, "the clock is right already");
    drop(clock);
    hands.step(10 * DAY);
    let clock = restart(&disk, &hands);
    assert!(clock.confirmed_ns() < last + HOUR);
    assert!(unconfirmed(&clock) > 9 * DAY);
    // Days later, the wall clock has reached the issued time: no lead remains.
    hands.step(-10 * DAY);
    for _ in 0..21 * 24 {
        hands.pass(HOUR);
        clock.renew();
    }
    assert_eq!((unconfirmed(&clock), clock.status().alarms), (0, Vec::new()));
    assert_eq!(clock.confirmed_ns(), hands.wall_ns());
    drop(clock);
    assert_eq!(unconfirmed(&restart(&disk, &hands)), 0);
}

#[test]
fn a_held_jump_that_is_set_right_but_for_minutes_leaves_no_lead() {
    let (disk, hands, _) = crashed();
    let clock = open(&disk, &hands);
    hands.step(10 * DAY);
    clock.renew();
    assert!(clock.status().held_ns as i64 > 9 * DAY);
    hands.step(200 * SECOND - 10 * DAY);
    clock.renew();
    assert_eq!(clock.status().held_ns, 0);
    assert_eq!((unconfirmed(&clock), clock.status().alarms), (0, Vec::new()));
    assert_eq!(clock.confirmed_ns(), hands.wall_ns());
}

#[test]
fn a_lead_that_is_set_right_in_part_stays_unconfirmed() {
    let (disk, hands, last) = crashed();
    hands.step(10 * DAY);
    let clock = open(&disk, &hands);
    clock.now_ns();
    hands.step(-4 * DAY);
    clock.renew();
    let rest = unconfirmed(&clock);
    assert!(rest > 5 * DAY && rest < 6 * DAY, "{rest}");
    assert!(clock.confirmed_ns() <= last + 2 * AHEAD_NS);
}

#[test]
fn a_lead_of_years_is_held() {
    for lead in [2 * YEAR, 100 * YEAR] {
        let (disk, hands, last) = crashed();
        hands.step(lead);
        let clock = open(&disk, &hands);
        let now = clock.now_ns();
        assert!(now >= last && now <= last + 2 * AHEAD_NS, "{}", now - last);
        assert!(clock.status().held_ns as i64 > lead - HOUR);
        hands.pass(7 * SECOND);
        assert_eq!(clock.now_ns(), now + 7 * SECOND);
        // After the correction, no effect of the wrong clock remains.
        hands.step(-lead);
        clock.renew();
        assert_eq!((clock.status().held_ns, clock.status().alarms), (0, Vec::new()));
        assert!(clock.now_ns() <= last + HOUR);
    }
    // Alternatively, the clock was right.
    let (disk, hands, last) = crashed();
    hands.pass(2 * YEAR);
    let clock = open(&disk, &hands);
    assert!(clock.accept_jump().unwrap().is_some());
    assert_eq!(clock.now_ns(), last + 2 * YEAR);
}

#[test]
fn a_start_before_1970_or_at_the_end_of_time_is_refused_and_changes_nothing() {
    for (wall_ns, what) in [
        (-1, "before 1970"),
        (i64::MIN, "before 1970"),
        (i64::MAX, "after the year 2260"),
        (9_200_000_000 * SECOND, "after the year 2260"),
    ] {
        let (disk, hands, last) = crashed();
        let there = hands.wall_ns();
        hands.wall_ns.store(wall_ns, Ordering::Relaxed);
        let error = try_open(&disk, &hands).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DatetimeOverflow);
        assert!(error.message().contains(what), "{error}");
        assert!(error.hint().is_some());
        hands.wall_ns.store(there, Ordering::Relaxed);
        let now = open(&disk, &hands).now_ns();
        assert!(now >= last && now <= last + 2 * AHEAD_NS);
        // No new database is created either.
        let (disk, hands) = (Arc::default(), Hands::at(wall_ns));
        assert!(try_open(&disk, &hands).is_err());
    }
    // For a running clock, this is an ordinary step.
    let (disk, hands) = (Arc::default(), Hands::at(START));
    let clock = open(&disk, &hands);
    let now = clock.now_ns();
    hands.wall_ns.store(-YEAR, Ordering::Relaxed);
    assert!(clock.now_ns() >= now);
    assert!(clock.confirmed_ns() < 0);
}

#[test]
fn an_idle_run_is_no_lead() {
    let (disk, hands) = (Arc::new(MemoryDisk::default()), Hands::at(START));
    let clock = open(&disk, &hands);
    clock.now_ns();
    for _ in 0..30 * 24 * 2 {
        hands.pass(HOUR / 2);
        clock.renew();
    }
    drop(clock);
    let clock = restart(&disk, &hands);
    assert_eq!(unconfirmed(&clock), 0);
    // The same after an orderly shutdown.
    hands.pass(10 * DAY);
    clock.settle().unwrap();
    drop(clock);
    assert_eq!(unconfirmed(&restart(&disk, &hands)), 0);
}

#[test]
fn a_correction_continues_at_the_wall_clock_in_a_new_epoch() {
    // Neither a crash nor a damaged slot restores the earlier time.
    for damaged in [None, Some(20), Some(4096 + 20)] {
        let (disk, hands, last) = crashed();
        let folder = Path::new(DIRECTORY);
        let error = correct(disk.as_ref(), folder, hands.as_ref()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ObjectNotInPrerequisiteState);
        hands.step(10 * DAY);
        let clock = open(&disk, &hands);
        let ahead = clock.now_ns();
        let epoch = clock.reading().line.epoch;
        drop(clock);
        hands.step(-10 * DAY);
        disk.crash();
        let correction = correct(disk.as_ref(), folder, hands.as_ref()).unwrap();
        assert!(correction.from_ns >= ahead && correction.to_ns == hands.wall_ns());
        disk.crash();
        if let Some(at) = damaged {
            disk.flip(at);
        }
        let clock = open(&disk, &hands);
        assert!(clock.now_ns() <= last + 2 * AHEAD_NS, "{damaged:?}");
        assert_eq!(unconfirmed(&clock), 0, "{damaged:?}");
        assert!(clock.reading().line.epoch > epoch);
    }
}

#[test]
fn a_lead_can_be_accepted_before_the_start() {
    let (disk, hands, last) = crashed();
    let folder = Path::new(DIRECTORY);
    hands.pass(3 * YEAR);
    assert!(accept(disk.as_ref(), folder, hands.as_ref()).unwrap().is_some());
    let clock = open(&disk, &hands);
    assert_eq!(clock.now_ns(), last + 3 * YEAR);
    assert_eq!(clock.confirmed_ns(), clock.now_ns());
    assert_eq!(clock.status().alarms, Vec::<String>::new());
    drop(clock);
    let clock = restart(&disk, &hands);
    assert_eq!(clock.accept_jump().unwrap(), None);
}

#[test]
fn versions_of_the_file() {
    let record = |magic: &[u8; 8], numbers: &[u64]| {
        let mut slot = magic.to_vec();
        numbers.iter().for_each(|number| slot.extend_from_slice(&number.to_le_bytes()));
        let checksum = crc32c::crc32c(&slot);
        slot.extend_from_slice(&checksum.to_le_bytes());
        slot.resize(8192, 0);
        slot
    };
    let look = |bytes: &[u8]| {
        let disk = MemoryDisk::default();
        disk.replace(Some(bytes));
        MasterClock::look(&disk, Path::new(DIRECTORY))
    };
    let lease = START as u64;
    for (magic, numbers, marks) in [
        (b"SLCLOCK1", &[7, lease][..], (0, 0)),
        (b"SLCLOCK2", &[7, lease, 3, 11][..], (11, 0)),
        (b"SLCLOCK3", &[7, lease, 3, 11, 13][..], (11, 13)),
    ] {
        let found = look(&record(magic, numbers)).unwrap();
        assert_eq!(found.lease_ns, Some(START));
        assert_eq!((found.held_ns, found.unconfirmed_ns), marks);
    }
    for magic in [b"SLCLOCK0", b"SLCLOCK4", b"SLCLOCK9"] {
        let bytes = record(magic, &[7, lease, 3, 11, 13]);
        let error = look(&bytes).unwrap_err();
        assert!(error.message().contains("unknown to this release"), "{error}");
        let disk = Arc::new(MemoryDisk::default());
        disk.replace(Some(&bytes));
        let error = try_open(&disk, &Hands::at(START)).unwrap_err();
        assert!(error.message().contains("unknown to this release"), "{error}");
        // Also refused if the other slot is known, because the later lease cannot be determined.
        let mut both = record(b"SLCLOCK3", &[7, lease, 3, 11, 13]);
        both[4096..].copy_from_slice(&bytes[..4096]);
        assert!(look(&both).is_err());
    }
}
