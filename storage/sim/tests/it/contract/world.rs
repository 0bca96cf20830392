//! The world of a seed: the sequence of events.
//!
//! ```text
//!   queue ─► the next event, at its time ─► clients, network, server, readers, accidents
//!     ▲                                        │
//!     └────────────── later events ◄───────────┘        one thread, only the world's clock
//! ```

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use stratalog_model::{Clock, Collision, TickSource};
use stratalog_sim::{Crash, FaultyDisk, Random};
use stratalog_visor_core::ClockSettings;
use tokio::runtime::{Builder, Runtime};

use super::{
    Summary,
    client::{Client, Message, News, Reply},
    clocks::{MS, Machine, SECOND, Seen, TrueTime},
    model::Model,
    readers::{Follower, Pin},
    requests::{Statement, Unknown},
    server::{Plan, Server},
    tables::{Rules, definition},
};

/// Number of events in the phase with accidents.
const EVENTS: usize = 320;

/// Maximum number of events in the calm phase, until all work is done.
const EVENTS_CALM: usize = 6_000;

/// Steps of the wall clock up to this size are followed silently: a client with an earlier reading
/// may be wrong by this time.
const UNSAID_NS: i64 = 12 * MS as i64;

/// The last steps before a failure, for the error message.
#[derive(Debug, Clone, Default)]
pub struct Steps(Arc<Mutex<VecDeque<String>>>);

impl Steps {
    const KEPT: usize = 40;

    pub fn note(&self, step: String) {
        let mut steps = self.0.lock();
        if steps.len() == Self::KEPT {
            steps.pop_front();
        }
        steps.push_back(step);
    }

    pub fn list(&self) -> Vec<String> {
        self.0.lock().iter().cloned().collect()
    }
}

/// A scheduled event.
#[derive(Debug)]
pub enum Event {
    /// A client's timer.
    Wake(usize, u64),
    /// A message arrives at the server.
    Arrive(usize, u64, Message),
    /// A reply arrives at its client.
    Return(usize, u64, Reply),
    /// A statement is committed, or fails.
    End(u64),
    Habit(Habit),
}

/// A recurring event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Habit {
    Seal,
    Read,
    Pin,
    Follow,
    Move,
    Accident,
}

impl Habit {
    const ALL: [Habit; 6] =
        [Habit::Seal, Habit::Read, Habit::Pin, Habit::Follow, Habit::Move, Habit::Accident];

    /// Maximum milliseconds between two occurrences.
    fn most_ms(self) -> u64 {
        match self {
            Habit::Seal | Habit::Follow => 60,
            Habit::Read | Habit::Pin => 150,
            Habit::Move => 500,
            Habit::Accident => 600,
        }
    }
}

pub struct World {
    pub random: Random,
    pub steps: Steps,
    pub summary: Summary,
    pub time: TrueTime,
    queue: BTreeMap<(u64, u64), Event>,
    order: u64,
    pub rules: Vec<Rules>,
    pub model: Model,
    pub clients: Vec<Client>,
    pub sessions: BTreeMap<u64, i64>,
    pub next_session: u64,
    pub statements: BTreeMap<u64, Statement>,
    pub next_statement: u64,
    pub unknown: Option<Unknown>,
    pub pins: Vec<Pin>,
    pub followers: Vec<Follower>,
    pub plan: Plan,
    pub disk: FaultyDisk,
    /// The disk will halt at a later change.
    pub armed: bool,
    server: Option<Server>,
    /// Messages that arrived before this instant found no server.
    pub up_from: u64,
    /// The monotonic clock and the time at the last check, in this life.
    pub looked: Option<(u64, i64)>,
    given_up: Vec<(usize, u64)>,
    pub quiet: bool,
    // Dropped after the objects that use the runtime.
    pub runtime: Runtime,
}

/// Runs the complete world of a seed.
pub fn run(seed: u64, steps: &Steps) -> Summary {
    let mut world = World::new(seed, steps);
    for _ in 0..EVENTS {
        world.step();
    }
    world.calm();
    let mut left = EVENTS_CALM;
    while !world.is_settled() {
        assert!(left > 0, "clients that get no answer: {:?}", world.clients);
        left -= 1;
        world.step();
    }
    world.finish();
    world.summary
}

impl World {
    fn new(seed: u64, steps: &Steps) -> Self {
        let mut random = Random::new(seed);
        let time = TrueTime::starting_at(5 * SECOND);
        let rules = vec![rules(seed, &mut random), rules(random.below(15), &mut random)];
        let numbered = (1..).zip(&rules);
        let tables = numbered.map(|(number, rules)| definition(number, rules)).collect();
        let rate_ppb = i128::from(random.between(999_950_000, 1_000_050_000));
        let look_ns = [0, 0, 20_000, 300_000][random.below(4) as usize];
        let most = [Some(300), Some(300), Some(2), None][random.below(4) as usize];
        let plan = Plan {
            machine: Machine::new(&time, rate_ppb, look_ns),
            seen: Arc::new(Seen::default()),
            clock: ClockSettings {
                jump_ns_max: most.map(|seconds| seconds * SECOND as i64),
                ..ClockSettings::default()
            },
            tables,
            backlog_bytes_max: [0, 15_000][random.below(2) as usize],
        };
        let clients = (0..random.between(2, 5)).map(|_| Client::new(&mut random, time.now()));
        let clients: Vec<Client> = clients.collect();
        let followers = vec![Follower::new(0, 1), Follower::new(1, 1)];
        let disk = FaultyDisk::new(seed ^ 0xC10C);
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let server = Server::open(&disk, false, &plan, &runtime).unwrap();
        let opened_ns = plan.seen.take_times()[0];
        let mut model = Model::new(rules.iter().copied());
        model.restart(opened_ns);
        let mut world = Self {
            random,
            steps: steps.clone(),
            summary: Summary::default(),
            time,
            queue: BTreeMap::new(),
            order: 0,
            rules,
            model,
            clients,
            sessions: BTreeMap::new(),
            next_session: 1,
            statements: BTreeMap::new(),
            next_statement: 1,
            unknown: None,
            pins: Vec::new(),
            followers,
            plan,
            disk,
            armed: false,
            server: Some(server),
            up_from: 0,
            looked: None,
            given_up: Vec::new(),
            quiet: false,
            runtime,
        };
        for at in 0..world.clients.len() {
            let delay_ns = world.random.below(20 * MS);
            world.wake_in(at, delay_ns);
        }
        Habit::ALL.into_iter().for_each(|habit| world.again(habit));
        world
    }

    pub fn server(&self) -> &Server {
        self.server.as_ref().expect("the server is down")
    }

    /// Takes the server out of the world.
    pub fn take_server(&mut self) -> Server {
        self.server.take().expect("the server is down")
    }

    pub fn put_server(&mut self, server: Server) {
        self.server = Some(server);
        self.up_from = self.time.now();
        self.looked = None;
    }

    pub fn schedule(&mut self, in_ns: u64, event: Event) {
        self.order += 1;
        self.queue.insert((self.time.now() + in_ns, self.order), event);
    }

    /// Sets a client's timer; an earlier timer is cancelled.
    pub fn wake_in(&mut self, client: usize, in_ns: u64) {
        self.clients[client].turn += 1;
        let turn = self.clients[client].turn;
        self.schedule(in_ns, Event::Wake(client, turn));
    }

    fn again(&mut self, habit: Habit) {
        let in_ns = self.random.between(MS, habit.most_ms() * MS);
        self.schedule(in_ns, Event::Habit(habit));
    }

    fn step(&mut self) {
        let Some(((at, _), event)) = self.queue.pop_first() else { return };
        self.time.reach(at);
        self.steps.note(format!("{at}: {event:?}"));
        self.look();
        match event {
            Event::Wake(client, turn) => self.wake(client, turn),
            // Messages from before found no server.
            Event::Arrive(..) if at < self.up_from => {}
            Event::Arrive(client, life, message) => self.arrive(client, life, message),
            Event::Return(client, life, reply) => self.hear(client, life, reply),
            Event::End(statement) => self.end(statement),
            Event::Habit(Habit::Accident) if self.quiet => {}
            Event::Habit(habit) => {
                self.follow_habit(habit);
                self.again(habit);
            }
        }
        if self.disk.is_halted() {
            self.summary.halts += 1;
            let crash = if self.random.chance(60) { Crash::PowerCut } else { Crash::Kill };
            self.crash(crash);
        }
        self.trace(self.model.head);
        self.trace(at);
    }

    fn follow_habit(&mut self, habit: Habit) {
        match habit {
            Habit::Seal => self.seal(),
            Habit::Read => self.read(),
            Habit::Pin => self.pin(),
            Habit::Follow => self.follow_one(),
            Habit::Move => self.move_events(),
            Habit::Accident => self.accident(),
        }
    }

    /// Adds an event to the trace: the same seed gives the same trace.
    pub fn trace(&mut self, what: u64) {
        self.summary.trace = (self.summary.trace ^ what).wrapping_mul(0x0000_0100_0000_01B3);
    }

    fn wake(&mut self, client: usize, turn: u64) {
        if self.clients[client].turn != turn {
            return;
        }
        let now = self.time.now();
        let act = self.clients[client].act(&mut self.random, now, &self.rules, self.quiet);
        let Some(message) = act else { return };
        let life = self.clients[client].life;
        for delay_ns in self.clients[client].link.delays(&mut self.random) {
            self.schedule(delay_ns, Event::Arrive(client, life, message.clone()));
        }
        let patience_ns = self.clients[client].patience_ns(&mut self.random);
        self.wake_in(client, patience_ns);
    }

    /// Sends a reply to a client.
    pub fn reply(&mut self, client: usize, life: u64, reply: Reply) {
        for delay_ns in self.clients[client].link.delays(&mut self.random) {
            self.schedule(delay_ns, Event::Return(client, life, reply.clone()));
        }
    }

    fn hear(&mut self, client: usize, life: u64, reply: Reply) {
        if self.clients[client].life != life {
            return;
        }
        let now = self.time.now();
        match self.clients[client].hear(reply, now, &self.rules) {
            News::Stale => return,
            News::Heard => {}
            News::Stored(number) => {
                self.summary.acknowledged += 1;
                let stored = self.model.has(client, number);
                assert!(
                    stored,
                    "statement {number} of client {client} is acknowledged, not stored"
                );
            }
            News::GivenUp(number) => self.given_up.push((client, number)),
        }
        let rest_ns = self.random.below(15 * MS);
        self.wake_in(client, rest_ns);
    }

    /// Checks that the server's clock advances without standing still or jumping, and agrees with
    /// the clients.
    pub fn look(&mut self) {
        let from = self.time.now();
        let server = self.server.as_ref().expect("the server is down");
        let before = server.clock.monotonic_ns();
        let reading = server.clock.reading();
        let after = server.clock.monotonic_ns();
        let failed = server.clock.master.failure().is_some();
        let until = self.time.now();
        self.plan.seen.take_readings();
        if failed {
            // The disk has halted: time stands still until the server ends.
            return;
        }
        if let Some((looked, last_ns)) = self.looked {
            let least = (before - looked) as i64 / 2 - 2;
            assert!(reading.now_ns - last_ns >= least, "time stands still at {last_ns}");
            if let Some(jump_ns_max) = self.plan.clock.jump_ns_max {
                let passed = (after - looked) as i64;
                let most = passed + passed / 1_000 + jump_ns_max + UNSAID_NS;
                let by = reading.now_ns - last_ns;
                assert!(by <= most, "time jumped by {by} ns, which is not to be followed");
            }
        }
        self.looked = Some((after, reading.now_ns));
        self.trace(reading.now_ns as u64);
        for (at, client) in self.clients.iter().enumerate() {
            if !client.is_sure() || client.estimator.line() != Some(reading.line) {
                continue;
            }
            let bounds = |true_ns: u64| client.estimator.bounds_ns(client.shows(true_ns));
            let (Some((least, _)), Some((_, most))) = (bounds(from), bounds(until)) else {
                continue;
            };
            let now_ns = reading.now_ns;
            assert!(
                least - UNSAID_NS <= now_ns && now_ns <= most + UNSAID_NS,
                "client {at} has {least} to {most} for {now_ns}"
            );
        }
    }

    /// Whether every client is done, and every statement has ended.
    fn is_settled(&self) -> bool {
        self.clients.iter().all(Client::is_idle) && self.statements.is_empty()
    }

    /// No more accidents from here on.
    fn calm(&mut self) {
        self.quiet = true;
        self.clients.iter_mut().for_each(Client::calm);
        if self.armed {
            self.crash(Crash::Kill);
        }
    }

    /// Checks that all promises hold, also after a final power cut.
    fn finish(&mut self) {
        self.check_all();
        self.crash(Crash::PowerCut);
        self.check_all();
        for (client, number) in &self.given_up {
            let stored = self.model.has(*client, *number);
            assert!(!stored, "statement {number} of client {client} was refused, and is stored");
        }
        for at in 0..self.followers.len() {
            self.follow(at);
        }
        let summary = &mut self.summary;
        summary.seeds = 1;
        summary.events = self.model.head;
        summary.replaced = self.model.chronicles.iter().map(|chronicle| chronicle.replaced()).sum();
        let server = self.take_server();
        self.followers.clear();
        self.pins.clear();
        server.stop();
    }
}

/// One of the fifteen kinds of chronicles, by a number.
fn rules(kind: u64, random: &mut Random) -> Rules {
    let sources = [TickSource::Client, TickSource::Server, TickSource::Column];
    let collisions =
        [Collision::All, Collision::Last, Collision::First, Collision::Next, Collision::Merge];
    Rules {
        source: sources[(kind % 3) as usize],
        collision: collisions[(kind / 3 % 5) as usize],
        granule_ns: [1, 5, 20][random.below(3) as usize] * MS as i64,
        floor_ms: [100, 300, 1_000][random.below(3) as usize],
    }
}
