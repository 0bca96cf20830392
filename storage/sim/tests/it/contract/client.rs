//! A client: compares clocks, numbers its statements, and sends each statement until the answer.
//!
//! ```text
//!   Connect ─► Sync, when due ─► Record n ─► stored            ─► Record n + 1
//!      ▲                            │  no answer: the same again
//!      └── the server does not      ├─ SL001, SL002: compare clocks, the same with new times
//!          know the session ◄───────┴─ taken in the data itself: given up
//! ```

use stratalog_model::{
    Collision, ErrorKind, TickSource,
    clock::{ClockRates, ClockReading, Estimator, RoundTrip},
};
use stratalog_sim::Random;

use super::{
    clocks::{MS, Oscillator, SECOND},
    network::Link,
    tables::{Asked, HOSTS, Rules},
};

/// Maximum error of a told time; above this error, the client restarts.
const ERROR_NS_MAX: u64 = 2 * SECOND;

/// After this number of round trips, the round trips from before a jump are forgotten.
const TRIPS_FORGOTTEN: usize = 16;

/// A message from a client.
#[derive(Debug, Clone)]
pub enum Message {
    Connect { ask: u64, sent_ns: u64 },
    Sync { ask: u64, sent_ns: u64 },
    Record(Record),
}

/// A statement.
#[derive(Debug, Clone)]
pub struct Record {
    pub session: u64,
    pub number: u64,
    pub attempt: u64,
    pub table: usize,
    pub rows: Vec<Asked>,
    pub skip: bool,
    pub round_trip_ns: u64,
}

/// A reply to a client.
#[derive(Debug, Clone)]
pub enum Reply {
    Connected { ask: u64, sent_ns: u64, session: u64, reading: ClockReading },
    Clock { ask: u64, sent_ns: u64, reading: ClockReading },
    Answer { number: u64, attempt: u64, answer: Answer },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Stored,
    Refused(ErrorKind),
    Busy,
    NoSession,
}

/// The effect of a reply on the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// The client no longer waits for this reply.
    Stale,
    /// The client has work to do now.
    Heard,
    /// The statement is stored.
    Stored(u64),
    /// The statement is given up.
    GivenUp(u64),
}

/// A statement in progress.
#[derive(Debug)]
struct Task {
    number: u64,
    attempt: u64,
    table: usize,
    hosts: Vec<usize>,
    rows: Vec<Asked>,
    skip: bool,
    /// Number of sends.
    sent: u64,
    /// The rows need new times.
    stale: bool,
}

#[derive(Debug)]
pub struct Client {
    clock: Oscillator,
    rate_ppb: i128,
    pub link: Link,
    rates: ClockRates,
    pub estimator: Estimator,
    told_ns: i64,
    /// The estimator's restarts so far, after times too far ahead.
    restarts: u64,
    /// Counts the client's lives: replies to an earlier life are ignored.
    pub life: u64,
    /// The number of the current timer.
    pub turn: u64,
    session: Option<u64>,
    ask: u64,
    asking: bool,
    compares: bool,
    task: Option<Task>,
    number: u64,
    /// After a jump of the client's clock: the number of later round trips, and the first of their
    /// questions.
    jumped: Option<(usize, u64)>,
}

impl Client {
    pub fn new(random: &mut Random, true_ns: u64) -> Self {
        let shown_ns = i128::from(random.between(1_000_000, 2_000_000) * SECOND);
        let any = random.chance(20);
        let rate_ppb = match any {
            true => random.between(400_000_000, 2_500_000_000),
            false => random.between(999_700_000, 1_000_300_000),
        };
        let rates = if any { ClockRates::ANY } else { ClockRates::MACHINES };
        let rate_ppb = i128::from(rate_ppb);
        Self {
            clock: Oscillator::new(true_ns, shown_ns, rate_ppb),
            rate_ppb,
            link: Link::random(random),
            rates,
            estimator: Estimator::new(rates),
            told_ns: i64::MIN,
            restarts: 0,
            life: 0,
            turn: 0,
            session: None,
            ask: 0,
            asking: false,
            compares: false,
            task: None,
            number: 0,
            jumped: None,
        }
    }

    /// The time of the client's clock.
    pub fn shows(&self, true_ns: u64) -> u64 {
        self.clock.at(true_ns) as u64
    }

    pub fn is_idle(&self) -> bool {
        self.task.is_none()
    }

    /// Whether the estimates from the round trips must be right.
    pub fn is_sure(&self) -> bool {
        self.jumped.is_none()
    }

    /// The client's clock is stepped, or stood still.
    pub fn jump(&mut self, ns: i128) {
        self.clock.jump(ns);
        self.jumped = Some((0, self.ask + 1));
    }

    /// The rate of the oscillator changes with the temperature.
    pub fn wobble(&mut self, random: &mut Random, true_ns: u64) {
        let off_ppb = i128::from(random.below(16_000)) - 8_000;
        self.clock.turn(true_ns, self.rate_ppb + self.rate_ppb * off_ppb / 1_000_000_000);
    }

    /// The client's program restarts, and keeps its unsent statements.
    pub fn restart(&mut self) {
        self.life += 1;
        (self.session, self.asking) = (None, false);
        self.forget();
    }

    fn forget(&mut self) {
        self.estimator = Estimator::new(self.rates);
        (self.told_ns, self.jumped, self.compares) = (i64::MIN, None, true);
        self.restarts = 0;
        // The clock may have jumped since an earlier question.
        (self.ask, self.asking) = (self.ask + 1, false);
    }

    /// The next message of the client; `None` without work.
    pub fn act(
        &mut self,
        random: &mut Random,
        true_ns: u64,
        rules: &[Rules],
        quiet: bool,
    ) -> Option<Message> {
        let at_ns = self.shows(true_ns);
        let Some(session) = self.session else {
            return Some(Message::Connect { ask: self.asks(), sent_ns: at_ns });
        };
        if self.compares || self.estimator.is_due(at_ns) {
            return Some(Message::Sync { ask: self.asks(), sent_ns: at_ns });
        }
        if self.task.is_none() && !quiet {
            self.task = Some(self.next_task(random, rules));
        }
        let stale = self.task.as_ref()?.stale;
        if stale && !self.give_times(random, at_ns, rules, quiet) {
            self.forget();
            return Some(Message::Sync { ask: self.asks(), sent_ns: at_ns });
        }
        let round_trip_ns = self.estimator.round_trip_ns();
        let task = self.task.as_mut()?;
        task.sent += 1;
        Some(Message::Record(Record {
            session,
            number: task.number,
            attempt: task.attempt,
            table: task.table,
            rows: task.rows.clone(),
            skip: task.skip,
            round_trip_ns,
        }))
    }

    fn asks(&mut self) -> u64 {
        self.ask += 1;
        self.asking = true;
        self.ask
    }

    fn next_task(&mut self, random: &mut Random, rules: &[Rules]) -> Task {
        self.number += 1;
        let table = random.below(rules.len() as u64) as usize;
        let first = rules[table].collision == Collision::First;
        let skip = first && random.chance(25);
        // Rows that arrive together get one time: two rows of one series could never be stored.
        let alone = first && !skip && rules[table].source == TickSource::Server;
        let rows = if alone || random.chance(75) { 1 } else { random.between(2, 5) };
        let hosts = (0..rows).map(|_| random.below(HOSTS.len() as u64) as usize).collect();
        let (number, rows) = (self.number, Vec::new());
        Task { number, attempt: 0, table, hosts, rows, skip, sent: 0, stale: true }
    }

    /// Gives the rows of the statement their times; `false` without a reliable time.
    fn give_times(
        &mut self,
        random: &mut Random,
        at_ns: u64,
        rules: &[Rules],
        quiet: bool,
    ) -> bool {
        let Some(told) = self.estimator.tell(at_ns) else { return false };
        let anew = self.estimator.restarts() > self.restarts;
        assert!(
            anew || told.time_ns > self.told_ns,
            "told {} after {}",
            told.time_ns,
            self.told_ns
        );
        (self.told_ns, self.restarts) = (told.time_ns, self.estimator.restarts());
        if told.error_ns > ERROR_NS_MAX {
            return false;
        }
        let Some(task) = &mut self.task else { return true };
        let rules = &rules[task.table];
        let mut first_us = told.time_ns.div_euclid(1_000);
        match rules.source {
            // Some clients ignore the told time.
            TickSource::Client if random.chance(4) && !quiet => {
                first_us += random.below(4_000_000) as i64 - 2_000_000;
            }
            TickSource::Client => {}
            TickSource::Server => first_us = random.below(1 << 40) as i64,
            // Application times, some of them late.
            TickSource::Column => {
                let late_us = if random.chance(20) { 10_000_000 } else { 40_000 };
                first_us -= random.below(late_us) as i64;
            }
        }
        let granule_us = rules.granule_ns / 1_000;
        if let Some(last) = task.rows.last() {
            // A retry uses other ticks than the attempt before.
            first_us = match first_us.abs_diff(last.time_us) < granule_us.unsigned_abs() {
                true => last.time_us + granule_us,
                false => first_us,
            };
        }
        let row =
            |(host, at): (&usize, i64)| Asked { host: *host, time_us: first_us + at * granule_us };
        task.rows = task.hosts.iter().zip(0..).map(row).collect();
        task.attempt += 1;
        task.stale = false;
        true
    }

    /// A reply has arrived.
    pub fn hear(&mut self, reply: Reply, true_ns: u64, rules: &[Rules]) -> News {
        match reply {
            Reply::Connected { ask, sent_ns, session, reading } => {
                if !self.learns(ask, sent_ns, reading, true_ns) {
                    return News::Stale;
                }
                self.session = Some(session);
                News::Heard
            }
            Reply::Clock { ask, sent_ns, reading } => {
                if !self.learns(ask, sent_ns, reading, true_ns) {
                    return News::Stale;
                }
                self.compares = false;
                News::Heard
            }
            Reply::Answer { number, attempt, answer } => {
                self.hear_answer(number, attempt, answer, rules)
            }
        }
    }

    /// Learns from a round trip; `false` for an unknown question.
    fn learns(&mut self, ask: u64, sent_ns: u64, reading: ClockReading, true_ns: u64) -> bool {
        if !self.asking || ask != self.ask {
            return false;
        }
        self.asking = false;
        let trip = RoundTrip { sent_ns, reading, received_ns: self.shows(true_ns) };
        let (line, jumps) = (self.estimator.line(), self.estimator.jumps());
        self.estimator.learn(trip);
        if let Some((trips, first)) = &mut self.jumped
            && ask >= *first
        {
            *trips += 1;
            let anew = self.estimator.jumps() > jumps || line != Some(reading.line);
            if anew || *trips > TRIPS_FORGOTTEN {
                self.jumped = None;
            }
        }
        true
    }

    fn hear_answer(&mut self, number: u64, attempt: u64, answer: Answer, rules: &[Rules]) -> News {
        let Some(task) = self.task.as_mut().filter(|task| task.number == number) else {
            return News::Stale;
        };
        match answer {
            Answer::Stored => {
                self.task = None;
                return News::Stored(number);
            }
            // A reply to another attempt: the fate of this attempt stays unknown.
            _ if attempt != task.attempt => return News::Stale,
            Answer::Refused(ErrorKind::OutsideWindow | ErrorKind::TickTaken) => {
                (task.stale, self.compares) = (true, true);
            }
            Answer::Refused(ErrorKind::UniqueViolation)
                if rules[task.table].source == TickSource::Column =>
            {
                self.task = None;
                return News::GivenUp(number);
            }
            Answer::NoSession => self.session = None,
            Answer::Refused(_) | Answer::Busy => {}
        }
        News::Heard
    }

    /// No more accidents for this client.
    pub fn calm(&mut self) {
        self.link = self.link.calm();
    }

    /// The time to wait for an answer; grows with the number of sends.
    pub fn patience_ns(&self, random: &mut Random) -> u64 {
        let sent = self.task.as_ref().map_or(0, |task| task.sent.min(8));
        (self.link.patience_ns() + random.below(20 * MS)) * sent.max(1)
    }
}
