//! Tests of jumps of the wall clock ahead.

use stratalog_model::clock::{RATE_ONE_PPB, TimeLine};

use super::*;

const HOUR: i64 = 3600 * SECOND;
const YEAR: i64 = 8766 * HOUR;

/// Lets time pass, and lets the clock's thread compare the clocks.
fn pass(clock: &MasterClock, hands: &Hands, ns: i64) {
    hands.pass(ns);
    clock.renew();
}

#[test]
fn a_short_jump_ahead_is_followed_at_once() {
    let (disk, hands) = (Arc::default(), Hands::at(START));
    let clock = open(&disk, &hands);
    let before = clock.reading();
    assert_eq!(before.line, TimeLine { epoch: 1, steps: 0 });
    hands.step(300 * SECOND);
    hands.pass(SECOND);
    assert_eq!(clock.now_ns(), START + 301 * SECOND);
    assert_eq!(clock.reading().line, TimeLine { epoch: 1, steps: 1 });
    assert_eq!(clock.status().alarms, Vec::<String>::new());
}

#[test]
fn a_long_jump_ahead_is_held_until_it_is_accepted() {
    for jump in [HOUR, 10 * YEAR] {
        let (disk, hands) = (Arc::default(), Hands::at(START));
        let clock = open(&disk, &hands);
        pass(&clock, &hands, SECOND);
        hands.step(jump);
        assert_eq!(clock.now_ns(), START + SECOND);
        pass(&clock, &hands, 7 * SECOND);
        assert_eq!(clock.now_ns(), START + 8 * SECOND, "time goes on at the monotonic rate");
        let status = clock.status();
        assert_eq!(status.reading.line, TimeLine { epoch: 2, steps: 0 });
        assert_eq!((status.held_ns, status.jumps_held), (jump as u64, 1));
        assert_eq!(status.wall_ns, START + jump + 8 * SECOND);
        assert!(status.alarms[0].contains("accept_clock_jump"), "{:?}", status.alarms);
        assert_eq!(clock.accept_jump().unwrap(), Some(jump as u64));
        assert_eq!(clock.now_ns(), START + jump + 8 * SECOND);
        let status = clock.status();
        assert_eq!(status.reading.line, TimeLine { epoch: 3, steps: 0 });
        assert_eq!((status.held_ns, status.alarms), (0, Vec::new()));
        assert_eq!(clock.accept_jump().unwrap(), None);
        // An accepted jump is never undone.
        drop(clock);
        disk.crash();
        hands.step(-jump);
        assert!(open(&disk, &hands).now_ns() >= START + jump + 8 * SECOND);
    }
}

#[test]
fn a_jump_that_is_set_right_leaves_no_trace_but_its_count() {
    let (disk, hands) = (Arc::default(), Hands::at(START));
    let clock = open(&disk, &hands);
    hands.step(10 * YEAR);
    pass(&clock, &hands, 5 * SECOND);
    // An operator types the time, with an error of two seconds.
    hands.step(-10 * YEAR + 2 * SECOND);
    pass(&clock, &hands, SECOND);
    assert_eq!(clock.now_ns(), START + 8 * SECOND);
    let status = clock.status();
    assert_eq!((status.held_ns, status.jumps_held, status.alarms.len()), (0, 1, 0));
    assert_eq!(status.reading.line.epoch, 3);
    // A correction by half of the jump is not enough.
    hands.step(10 * HOUR);
    pass(&clock, &hands, SECOND);
    hands.step(-5 * HOUR);
    pass(&clock, &hands, SECOND);
    assert_eq!(clock.now_ns(), START + 10 * SECOND);
    assert_eq!(clock.status().held_ns, 5 * HOUR as u64);
    // A step back beyond the old position is handled like any step back.
    hands.step(-6 * HOUR);
    pass(&clock, &hands, 4 * SECOND);
    assert_eq!(clock.now_ns(), START + 12 * SECOND);
    assert_eq!(clock.reading().rate_ppb, RATE_ONE_PPB / 2);
    assert!(clock.status().alarms[0].contains("half speed"), "{:?}", clock.status().alarms);
}

#[test]
fn a_jump_is_held_over_a_restart_and_not_when_the_clock_was_set_right() {
    for (back, held) in [(0, true), (10 * YEAR, false), (10 * YEAR - 3 * SECOND, false)] {
        let (disk, hands) = (Arc::new(MemoryDisk::default()), Hands::at(START));
        let clock = open(&disk, &hands);
        hands.step(10 * YEAR);
        pass(&clock, &hands, 5 * SECOND);
        let last = clock.now_ns();
        drop(clock);
        disk.crash();
        // The server was down for an hour.
        hands.pass(HOUR);
        hands.step(-back);
        let clock = open(&disk, &hands);
        let now = clock.now_ns();
        assert!(now >= last && now <= START + HOUR + 10 * SECOND, "{back}: {}", now - START);
        assert_eq!(clock.status().held_ns > 0, held, "{back}");
        assert_eq!(clock.reading().line.epoch, 3, "{back}");
        assert_eq!(clock.accept_jump().unwrap().is_some(), held);
    }
}

#[test]
fn nothing_is_held_where_every_jump_is_followed() {
    let (disk, hands) = (Arc::new(MemoryDisk::default()), Hands::at(START));
    let follow = || {
        let (disk, hands) = (Arc::clone(&disk) as Arc<_>, Arc::clone(&hands) as Arc<_>);
        let settings = ClockSettings { jump_ns_max: None, start_lead_ns_max: None };
        MasterClock::open(disk, Path::new(DIRECTORY), hands, settings).unwrap()
    };
    let clock = open(&disk, &hands);
    hands.step(HOUR);
    pass(&clock, &hands, SECOND);
    assert_eq!(clock.now_ns(), START + SECOND);
    drop(clock);
    let clock = follow();
    assert_eq!(clock.now_ns(), START + HOUR + SECOND);
    hands.step(10 * YEAR);
    assert_eq!(clock.now_ns(), START + 10 * YEAR + HOUR + SECOND);
}

#[test]
fn jumps_back_of_any_length_never_take_time_back() {
    for jump in [SECOND, HOUR, 10 * YEAR] {
        let (disk, hands) = (Arc::default(), Hands::at(START));
        let clock = open(&disk, &hands);
        let before = clock.reading();
        hands.step(-jump);
        pass(&clock, &hands, SECOND / 2);
        let after = clock.reading();
        assert_eq!(after.now_ns, START + SECOND / 4);
        assert_eq!(after.rate_ppb, RATE_ONE_PPB / 2);
        assert_ne!(after.line, before.line, "those who go by the old rate are told");
        hands.step(jump);
        pass(&clock, &hands, SECOND);
        // After the correction, a step ahead to the right time is not a jump, because the issued
        // time was already catching up to it.
        let after = clock.reading();
        assert_eq!(after.now_ns, START + SECOND / 2 + SECOND, "{jump}");
        assert_eq!(after.rate_ppb, RATE_ONE_PPB);
        assert_eq!(clock.status().jumps_held, 0);
    }
}

#[test]
fn a_lease_of_the_first_version_is_read() {
    let (disk, hands) = (Arc::new(MemoryDisk::default()), Hands::at(START));
    let mut file = vec![0; 8192];
    for (offset, sequence, lease_ns) in [(0, 2_u64, START + HOUR), (4096, 1, START)] {
        let mut record = b"SLCLOCK1".to_vec();
        record.extend_from_slice(&sequence.to_le_bytes());
        record.extend_from_slice(&lease_ns.to_le_bytes());
        let checksum = crc32c::crc32c(&record);
        record.extend_from_slice(&checksum.to_le_bytes());
        file[offset..offset + record.len()].copy_from_slice(&record);
    }
    disk.replace(Some(&file));
    assert_eq!(
        MasterClock::look(disk.as_ref(), Path::new(DIRECTORY)).unwrap().lease_ns,
        Some(START + HOUR)
    );
    let clock = open(&disk, &hands);
    assert_eq!(clock.reading().now_ns, START + HOUR);
    assert_eq!(clock.reading().line.epoch, 1);
    // From now on the other slot has the current version.
    disk.crash();
    assert_eq!(open(&disk, &hands).reading().line.epoch, 2);
    disk.flip(8);
    disk.flip(4096 + 8);
    assert_eq!(try_open(&disk, &hands).unwrap_err().kind(), ErrorKind::DataCorrupted);
}

#[test]
fn looks_that_are_not_sure_follow_a_jump_no_farther_than_one() {
    /// Clocks that run slowly.
    #[derive(Debug)]
    struct Slow(Arc<Hands>);
    impl TimeSource for Slow {
        fn wall_ns(&self) -> i64 {
            self.0.pass(2_000_000);
            self.0.wall_ns()
        }

        fn monotonic_ns(&self) -> u64 {
            self.0.monotonic_ns()
        }
    }
    let (disk, hands) = (Arc::new(MemoryDisk::default()), Hands::at(START));
    let source = Arc::new(Slow(Arc::clone(&hands)));
    let clock =
        MasterClock::open(disk, Path::new(DIRECTORY), source, ClockSettings::default()).unwrap();
    hands.step(10 * YEAR);
    for _ in 0..100 {
        let now = clock.now_ns();
        assert!(now < START + 310 * SECOND, "{} s", (now - START) / SECOND);
    }
}

#[test]
fn a_process_that_was_put_aside_between_two_readings_sees_no_jump() {
    /// Clocks with an occasional long delay between the two readings.
    #[derive(Debug)]
    struct Aside(Arc<Hands>, AtomicU64);
    impl TimeSource for Aside {
        fn wall_ns(&self) -> i64 {
            let wall_ns = self.0.wall_ns();
            if self.1.load(Ordering::Relaxed) > 0 {
                self.1.fetch_sub(1, Ordering::Relaxed);
                self.0.pass(HOUR);
            }
            wall_ns
        }

        fn monotonic_ns(&self) -> u64 {
            self.0.monotonic_ns()
        }
    }
    for times in [1, 3, 8, 9] {
        let (disk, hands) = (Arc::new(MemoryDisk::default()), Hands::at(START));
        let source = Arc::new(Aside(Arc::clone(&hands), AtomicU64::new(0)));
        let (disk, settings) = (Arc::clone(&disk) as Arc<_>, ClockSettings::default());
        let clock =
            MasterClock::open(disk, Path::new(DIRECTORY), Arc::clone(&source) as Arc<_>, settings)
                .unwrap();
        source.1.store(times, Ordering::Relaxed);
        let mut last = clock.now_ns();
        for _ in 0..3 {
            hands.pass(SECOND);
            let now = clock.now_ns();
            assert!(now >= last);
            last = now;
        }
        assert_eq!(clock.status().jumps_held, 0, "{times}");
        assert_eq!(last, hands.wall_ns(), "{times}");
    }
}
