use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const START: i64 = 1_700_000_000_000_000_000;

/// A master and a client with independent clocks; both advance with true time, each at its own
/// rate.
struct World {
    true_ns: u64,
    /// The client's clock and its rate.
    client_ns: f64,
    rate: f64,
    /// The master's clock: true time plus jumps.
    master_ns: i64,
    line: TimeLine,
}

impl World {
    fn new(client_ns: u64, rate: f64) -> Self {
        Self {
            true_ns: 0,
            client_ns: client_ns as f64,
            rate,
            master_ns: START,
            line: TimeLine::default(),
        }
    }

    /// True time passes; meanwhile the client's clock deviates from its rate by `off`.
    fn pass(&mut self, ns: u64, off: f64) {
        self.true_ns += ns;
        self.master_ns += ns as i64;
        self.client_ns += ns as f64 * self.rate * (1.0 + off);
    }

    fn client(&self) -> u64 {
        self.client_ns as u64
    }

    fn trip(&mut self, there_ns: u64, back_ns: u64, off: f64) -> RoundTrip {
        let sent_ns = self.client();
        self.pass(there_ns, off);
        let reading =
            ClockReading { now_ns: self.master_ns, line: self.line, ..ClockReading::default() };
        self.pass(back_ns, off);
        // A reading of a clock is rounded; the answer arrives after the request.
        RoundTrip { sent_ns, reading, received_ns: self.client() + 1 }
    }

    fn holds(&self, estimator: &Estimator) -> Result<(), TestCaseError> {
        if let Some((least, most)) = estimator.bounds_ns(self.client()) {
            // The client's clock has whole nanoseconds.
            prop_assert!(least - 8 <= self.master_ns, "{least} {}", self.master_ns);
            prop_assert!(most + 8 >= self.master_ns, "{most} {}", self.master_ns);
        }
        Ok(())
    }
}

/// Time between round trips, the latencies in both directions, and the deviation of the client's
/// clock from its rate meanwhile.
type Leg = (u64, u64, u64, f64);

fn legs() -> impl Strategy<Value = Vec<Leg>> {
    let leg = (0..20 * SECOND, 0..40 * MS, 0..40 * MS, -8e-6..8e-6);
    prop::collection::vec(leg, 1..60)
}

proptest! {
    /// Clocks of machines with any distance, slightly fast or slow, and with any latencies in both
    /// directions.
    #[test]
    fn the_masters_time_is_inside_of_the_bounds(
        legs in legs(), client in 0..u64::MAX / 4, rate in 0.9992..1.0008,
    ) {
        let mut world = World::new(client % (SECOND * 100_000), rate);
        let mut estimator = Estimator::new(ClockRates::MACHINES);
        let mut last = i64::MIN;
        for (gap, there, back, off) in legs {
            world.pass(gap / 2, off);
            world.holds(&estimator)?;
            world.pass(gap / 2, off);
            world.holds(&estimator)?;
            estimator.learn(world.trip(there, back, off));
            world.holds(&estimator)?;
            let told = estimator.tell(world.client()).unwrap();
            prop_assert!(told.time_ns > last, "{} after {last}", told.time_ns);
            prop_assert!(told.time_ns.abs_diff(world.master_ns) <= told.error_ns + 8);
            last = told.time_ns;
        }
        prop_assert_eq!(estimator.jumps(), 0);
    }

    /// The clients of Figure 6: twice the rate, and half the rate.
    #[test]
    fn also_of_clocks_that_are_much_faster_or_slower(legs in legs(), rate in 0.3..3.3) {
        let mut world = World::new(7 * SECOND, rate);
        let mut estimator = Estimator::new(ClockRates::ANY);
        for (gap, there, back, off) in legs {
            world.pass(gap, off);
            world.holds(&estimator)?;
            estimator.learn(world.trip(there, back, off));
            world.holds(&estimator)?;
        }
    }

    /// The next round trip detects a jump of either clock; from then on the bounds hold again. The
    /// told times of a client never go back, even after jumps, unless the told times were too far
    /// ahead.
    #[test]
    fn after_a_jump_one_round_trip_is_enough(
        legs in legs(),
        jumps in prop::collection::vec((0..60_usize, 2..100_000_u64, any::<bool>()), 0..6),
    ) {
        let mut world = World::new(1_000_000 * SECOND, 1.0003);
        let mut estimator = Estimator::new(ClockRates::MACHINES);
        let (mut last, mut jumped) = (i64::MIN, 0);
        for (at, (gap, there, back, off)) in legs.into_iter().enumerate() {
            world.pass(gap, off);
            for (_, seconds, of_client) in jumps.iter().filter(|jump| jump.0 == at) {
                // Successive jumps in opposite directions could cancel: all jumps have one
                // direction.
                match of_client {
                    true => world.client_ns += (seconds * SECOND) as f64,
                    false => world.master_ns -= (seconds * SECOND) as i64,
                }
                jumped += u64::from(at > 0);
            }
            let restarts = estimator.restarts();
            estimator.learn(world.trip(there, back, off));
            world.holds(&estimator)?;
            let told = estimator.tell(world.client()).unwrap();
            prop_assert!(told.time_ns > last || estimator.restarts() > restarts);
            prop_assert!(told.time_ns.abs_diff(world.master_ns) <= told.error_ns + 8);
            // With this error, events are refused for a minute at most.
            prop_assert!(told.error_ns <= AHEAD_NS_MAX + SECOND, "{}", told.error_ns);
            last = told.time_ns;
        }
        prop_assert!(estimator.jumps() <= jumped);
        prop_assert!(jumped == 0 || estimator.jumps() > 0, "a jump that nobody saw");
    }
}

#[test]
fn bounds_become_narrow_with_round_trips() {
    let mut world = World::new(3 * SECOND, 0.9997);
    let mut estimator = Estimator::new(ClockRates::MACHINES);
    for _ in 0..20 {
        world.pass(10 * SECOND, 0.0);
        estimator.learn(world.trip(MS, MS, 0.0));
    }
    world.pass(10 * SECOND, 0.0);
    let (least, most) = estimator.bounds_ns(world.client()).unwrap();
    // The bounds are two milliseconds of latency, plus ten seconds times twice the wander and the
    // uncertainty of the rate.
    assert!(most - least < 3 * MS as i64, "{}", most - least);
    assert!((estimator.drift() - 0.9997).abs() < 50e-6, "{}", estimator.drift());
    assert_eq!(estimator.round_trip_ns() / MS, 1);
}

#[test]
fn figure_6() {
    // The paper's figure: at master time 3, the blue client, half a unit ahead and twice as fast,
    // shows 6.5. The green client, a unit behind and half as fast, shows 0.5.
    for (name, ahead, drift) in [("blue", 0.5, 2.0), ("green", -1.0, 0.5)] {
        let unit = SECOND as f64;
        let client = |master: f64| ((master * drift + ahead + 10.0) * unit) as u64;
        let mut estimator = Estimator::new(ClockRates { between: (0.25, 4.0), wander: 0.0 });
        for master in [0.0, 1.0, 2.0] {
            let now_ns = (master * unit) as i64;
            let reading = ClockReading { now_ns, ..ClockReading::default() };
            let at_ns = client(master);
            estimator.learn(RoundTrip { sent_ns: at_ns, reading, received_ns: at_ns });
        }
        assert!((estimator.drift() - drift).abs() < 1e-9, "{name}");
        let at_ns = client(3.0);
        let distance_ns = estimator.distance_ns().unwrap() as f64;
        let by_figure = at_ns as f64 / estimator.drift() + distance_ns;
        assert!((by_figure - 3.0 * unit).abs() < 10.0, "{name}: {by_figure}");
        let told = estimator.tell(at_ns).unwrap();
        assert!(told.time_ns.abs_diff(3 * SECOND as i64) < 10, "{name}: {told:?}");
    }
}

#[test]
fn another_line_of_the_master_begins_anew() {
    let mut world = World::new(0, 1.0);
    let mut estimator = Estimator::new(ClockRates::MACHINES);
    assert!(estimator.is_due(0));
    assert_eq!(estimator.tell(0), None);
    for _ in 0..6 {
        world.pass(SECOND, 0.0);
        estimator.learn(world.trip(MS, 3 * MS, 0.0));
    }
    assert!(!estimator.is_due(world.client() + SECOND));
    let before = estimator.tell(world.client()).unwrap().time_ns;
    // An hour ahead by an operator's command: an announced jump.
    world.master_ns += 3600 * SECOND as i64;
    world.line = TimeLine { epoch: 2, steps: 0 };
    estimator.learn(world.trip(MS, MS, 0.0));
    assert_eq!(estimator.jumps(), 0);
    assert!(estimator.is_due(world.client() + SECOND));
    let told = estimator.tell(world.client()).unwrap();
    assert!(told.time_ns - before > 3599 * SECOND as i64);
    assert!(told.time_ns.abs_diff(world.master_ns) <= told.error_ns);
    // And back by a restore: the told time continues where the master may soon accept events.
    world.master_ns -= 7200 * SECOND as i64;
    world.line.epoch = 3;
    estimator.learn(world.trip(MS, MS, 0.0));
    let later = estimator.tell(world.client()).unwrap();
    assert_eq!(estimator.restarts(), 1);
    assert!(later.time_ns.abs_diff(world.master_ns) < AHEAD_NS_MAX + SECOND);
    assert!(later.time_ns.abs_diff(world.master_ns) <= later.error_ns);
}

#[test]
fn who_leapt_ahead_unseen_comes_back_and_tells_no_accepted_time_twice() {
    for told_before in [false, true] {
        let mut world = World::new(0, 1.0);
        let mut estimator = Estimator::new(ClockRates::MACHINES);
        for _ in 0..6 {
            world.pass(SECOND, 0.0);
            estimator.learn(world.trip(MS, MS, 0.0));
        }
        let before = told_before.then(|| estimator.tell(world.client()).unwrap().time_ns);
        // Two unnoticed leaps by an hour each.
        for hours in 1..3 {
            world.client_ns += (3600 * SECOND) as f64;
            let ahead = estimator.tell(world.client()).unwrap().time_ns;
            assert!(ahead - world.master_ns > hours * 3_590 * SECOND as i64);
        }
        world.pass(SECOND, 0.0);
        estimator.learn(world.trip(MS, MS, 0.0));
        assert_eq!((estimator.jumps(), estimator.restarts()), (1, 1));
        let again = estimator.tell(world.client()).unwrap();
        assert!(before.is_none_or(|before| again.time_ns > before));
        assert!(again.error_ns < 10 * MS, "{again:?}");
        assert!(again.time_ns.abs_diff(world.master_ns) <= again.error_ns);
        // In small steps: the master has accepted some of the told times before.
        let mut last = again.time_ns;
        for _ in 0..200 {
            world.client_ns += SECOND as f64;
            let told = estimator.tell(world.client()).unwrap().time_ns;
            assert!(told > last);
            last = told;
        }
        estimator.learn(world.trip(MS, MS, 0.0));
        assert_eq!(estimator.restarts(), 2);
        let next = estimator.tell(world.client()).unwrap().time_ns;
        assert!(next < last && next - world.master_ns > 60 * SECOND as i64, "{next}");
        // Times within the accepted reach are kept; the estimator waits for the master.
        world.pass(2 * SECOND, 0.0);
        estimator.learn(world.trip(MS, MS, 0.0));
        assert_eq!(estimator.restarts(), 2);
        assert!(estimator.tell(world.client()).unwrap().time_ns > next);
    }
}

/// The request was sent before the leap, and the answer arrived after the leap: the next round trip
/// detects the leap.
#[test]
fn a_leap_in_the_middle_of_a_round_trip_is_found_out_by_the_next_one() {
    let mut world = World::new(0, 1.0);
    let mut estimator = Estimator::new(ClockRates::MACHINES);
    estimator.learn(world.trip(MS, MS, 0.0));
    let before = estimator.tell(world.client()).unwrap().time_ns;
    let asked = world.trip(MS, MS, 0.0);
    world.client_ns += (3600 * SECOND) as f64;
    assert!(estimator.tell(world.client()).unwrap().error_ns < 10 * SECOND);
    estimator.learn(RoundTrip { received_ns: world.client(), ..asked });
    world.pass(SECOND, 0.0);
    estimator.learn(world.trip(MS, MS, 0.0));
    assert_eq!(estimator.restarts(), 1);
    let again = estimator.tell(world.client()).unwrap();
    assert!(again.time_ns > before && again.error_ns < 10 * MS, "{again:?}");
}

#[test]
fn a_master_at_half_speed_says_so() {
    let mut estimator = Estimator::new(ClockRates::MACHINES);
    let reading =
        |now_ns| ClockReading { now_ns, rate_ppb: RATE_ONE_PPB / 2, ..ClockReading::default() };
    estimator.learn(RoundTrip { sent_ns: 0, reading: reading(START), received_ns: MS });
    let (least, most) = estimator.bounds_ns(10 * SECOND).unwrap();
    let half = START + 5 * SECOND as i64;
    assert!((least..=most).contains(&half), "{least} {half} {most}");
    assert!(most - least < 20 * MS as i64);
    // A round trip whose answer precedes its request is ignored.
    estimator.learn(RoundTrip { sent_ns: 2, reading: reading(0), received_ns: 1 });
    assert_eq!(estimator.bounds_ns(10 * SECOND), Some((least, most)));
}
