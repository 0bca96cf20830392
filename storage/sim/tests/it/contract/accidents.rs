//! Accidents: clock steps, machine stops, disk halts, network changes.

use stratalog_model::{Clock, EventStore};
use stratalog_sim::Crash;

use super::{
    clocks::{MS, SECOND},
    network::Link,
    requests::producer_of,
    server::Server,
    world::World,
};

/// Steps of a wall clock: seconds, hours, ten years.
const STEPS_NS: [i128; 6] = {
    let (second, hour) = (SECOND as i128, 3_600 * SECOND as i128);
    [second, -second, hour, -hour, YEARS_NS, -YEARS_NS]
};

/// Ten years.
const YEARS_NS: i128 = 10 * 8_766 * 3_600 * SECOND as i128;

/// Maximum number of failed starts in a row.
const FAILED_STARTS_MAX: u64 = 2;

impl World {
    pub fn accident(&mut self) {
        match self.random.below(24) {
            0 => self.crash(Crash::Kill),
            1 => self.crash(Crash::PowerCut),
            2..5 => self.arm(60),
            5 if !self.armed => self.stop_and_start(),
            6..11 => {
                self.set_wall_clock();
                if self.random.chance(25) {
                    self.accept_jump();
                }
            }
            11..14 => self.of_client(|world, at| {
                let ns = STEPS_NS[world.random.below(4) as usize];
                world.clients[at].jump(ns / 10);
            }),
            14..17 => self.of_client(|world, at| {
                let now = world.time.now();
                world.clients[at].wobble(&mut world.random, now);
            }),
            17 => self.of_client(|world, at| {
                world.clients[at].restart();
                let in_ns = world.random.below(50 * MS);
                world.wake_in(at, in_ns);
            }),
            18..20 => self.of_client(|world, at| {
                world.clients[at].link = Link::random(&mut world.random);
            }),
            20..22 => self.accept_jump(),
            22 => self.rest(20 * SECOND),
            _ => self.rest(120 * SECOND),
        }
    }

    /// Nothing happens for a while, and then many events are due at once.
    fn rest(&mut self, most_ns: u64) {
        let ns = self.random.below(most_ns);
        self.time.pass(ns);
    }

    fn of_client(&mut self, what: impl FnOnce(&mut Self, usize)) {
        let at = self.random.below(self.clients.len() as u64) as usize;
        what(self, at);
    }

    /// Steps the wall clock of the server's machine.
    fn set_wall_clock(&mut self) {
        let step_ns = STEPS_NS[self.random.below(6) as usize];
        let mut wall = self.plan.machine.wall.lock();
        // With a clock before 1970 or near the end of time, no server starts.
        if !(YEARS_NS..i128::from(i64::MAX) - YEARS_NS)
            .contains(&(wall.at(self.time.now()) + step_ns))
        {
            return;
        }
        self.steps.note(format!("the wall clock goes by {step_ns} ns"));
        wall.jump(step_ns);
    }

    /// An operator accepts a clock jump, if any.
    fn accept_jump(&mut self) {
        let accepted = self.server().clock.accept_jump();
        match accepted {
            Ok(held) => self.summary.jumps += u64::from(held.is_some()),
            Err(error) => assert!(self.disk.is_halted(), "a jump is not accepted: {error}"),
        }
        self.looked = None;
    }

    /// Makes the disk halt at a later change.
    fn arm(&mut self, changes: u64) {
        let changes = self.random.between(1, changes);
        self.steps.note(format!("the disk halts in {changes} changes"));
        self.disk.halt_after(changes);
        self.armed = true;
    }

    /// Drops everything in memory, and all connections.
    fn disconnect(&mut self) {
        self.statements.clear();
        self.sessions.clear();
        self.pins.clear();
        self.followers.iter_mut().for_each(|follower| follower.disconnect());
    }

    fn stop_and_start(&mut self) {
        self.disconnect();
        self.take_server().stop();
        self.start();
    }

    /// The server's process or machine stops, and returns after a while.
    pub fn crash(&mut self, crash: Crash) {
        self.steps.note(format!("{crash:?}"));
        self.disconnect();
        self.end_life(crash);
        self.take_server().bury();
        self.start();
    }

    fn end_life(&mut self, crash: Crash) {
        self.disk = self.disk.crash(crash);
        self.armed = false;
    }

    fn start(&mut self) {
        self.summary.starts += 1;
        let most_ns = [MS, SECOND, 90 * SECOND][self.random.below(3) as usize];
        self.rest(most_ns);
        if !self.quiet && self.random.chance(30) {
            self.set_wall_clock();
        }
        let mut failed = 0;
        loop {
            if !self.quiet && failed < FAILED_STARTS_MAX && self.random.chance(20) {
                self.arm(40);
            }
            self.plan.seen.take_times();
            let opened = Server::open(&self.disk, true, &self.plan, &self.runtime);
            let halted = self.disk.is_halted();
            match opened {
                Ok(server) if !halted => {
                    self.put_server(server);
                    break;
                }
                Ok(server) => {
                    self.end_life(Crash::Kill);
                    server.bury();
                }
                Err(error) => {
                    assert!(halted, "the server does not start: {error}");
                    let cut = self.random.chance(50);
                    self.end_life(if cut { Crash::PowerCut } else { Crash::Kill });
                }
            }
            failed += 1;
        }
        self.recovered();
    }

    /// Checks the recovered state: acknowledged statements are there, refused statements are not,
    /// and a statement without an answer is there completely or not at all.
    fn recovered(&mut self) {
        let opened_ns = self.plan.seen.take_times()[0];
        self.model.restart(opened_ns);
        self.settle_lease();
        if let Some(unknown) = self.unknown.take() {
            let producers = self.server().engine.producers();
            let of = (producer_of(unknown.client), unknown.number);
            if producers.contains(&of) {
                self.summary.unknown += 1;
                let (table, client) = (unknown.table, unknown.client);
                self.model.commit_rows(unknown.placed, table, client, unknown.number);
            }
        }
        self.check_all();
    }

    /// Passes a lease that ends a few milliseconds ahead of the wall clock: meanwhile no client
    /// asks for the time.
    fn settle_lease(&mut self) {
        self.server().clock.reading();
        self.time.pass(25 * MS);
        self.server().clock.reading();
    }
}
