//! Servers with deliberate defects: the tests must detect each defect.
//!
//! Some defects show only with a failing disk or a lost page cache (an ignored sync failure, a
//! missing directory sync …): the in-process test `power_cut` detects these defects. A real power
//! cut also detects a missing sync, if the machine allows power cuts.
//!
//! Each test first runs the same server without a defect, which must pass: only then a failure is
//! meaningful.

use std::time::Duration;

use super::{
    power::{self, LoopDevice},
    run::{Plan, Run, Summary},
    seed, server, skip,
};

/// Detected by killing the server.
const BY_KILL: [&str; 9] = [
    "ack-before-durable",
    "border-off",
    "collision-off",
    "dedup-off",
    "journal-acknowledged-before-write",
    "late-lost-in-merge",
    "mark-lost-in-merge",
    "merge-ignored",
    "visible-before-commit",
];
/// Detected by killing the server while tables are changed and nothing else is written.
const BY_KILL_AMID_CHANGES: [&str; 3] =
    ["delete-unlogged", "fence-ignored", "journal-acknowledged-before-write"];
/// Detected by damaging files.
const BY_DAMAGE: [&str; 2] = ["journal-checksum-ignored", "journal-damage-cut"];
/// Detected by cutting the power.
const BY_POWER_CUT: [&str; 2] = ["journal-no-sync", "tablet-unsynced"];

/// Messages of broken promises. Any other error is a fault of the test.
const BROKEN_PROMISES: [&str; 13] = [
    "CL-1 broken",
    "a statement in part",
    "acknowledged, and lost",
    "after a bit flip at",
    "are lost",
    "does not exist",
    "has a wrong payload",
    "is damaged at",
    "is missing",
    "is there twice",
    "not those that were acknowledged",
    "the journal ends at gsn",
    "their gsn's are",
];

fn plan(sabotage: Option<&'static str>, cycles: u64) -> Plan {
    let time = Duration::from_secs(90);
    Plan { cycles, time, sabotage, ..Plan::new(server::program(), seed()) }
}

fn must_hold<T>(outcome: Result<T, String>) {
    if let Err(broken) = outcome {
        panic!("seed {}, without a sabotage: {broken}", seed());
    }
}

fn must_fail<T>(sabotage: &str, outcome: Result<T, String>) {
    match outcome {
        Ok(_) => panic!("seed {}: {sabotage} was not caught", seed()),
        Err(broken) => {
            let caught = BROKEN_PROMISES.iter().any(|promise| broken.contains(promise));
            assert!(caught, "seed {}: {sabotage}: {broken}", seed());
            println!("caught {sabotage}: {broken}");
        }
    }
}

#[test]
fn every_sabotage_that_a_kill_shows_is_caught() {
    let kill = |plan: Plan| -> Result<Summary, String> { Run::start(plan)?.kill_and_check() };
    must_hold(kill(plan(None, 4)));
    for name in BY_KILL {
        must_fail(name, kill(plan(Some(name), 25)));
    }
    for name in BY_KILL_AMID_CHANGES {
        must_fail(name, kill(Plan { writers: 0, ..plan(Some(name), 25) }));
    }
}

#[test]
fn every_sabotage_that_damage_shows_is_caught() {
    let damage = |plan: Plan| Run::start(plan)?.damage_and_check(30);
    must_hold(damage(plan(None, 1)));
    for name in BY_DAMAGE {
        must_fail(name, damage(plan(Some(name), 1)));
    }
}

#[test]
fn every_sabotage_that_a_power_cut_shows_is_caught() {
    let cut = |plan: Plan| match LoopDevice::new() {
        Err(why) => Err(why),
        Ok(device) => Ok(power::cut_and_check(plan, device)),
    };
    match cut(plan(None, 2)) {
        Err(why) => return skip(&why),
        Ok(outcome) => must_hold(outcome),
    }
    for name in BY_POWER_CUT {
        match cut(plan(Some(name), 25)) {
            Err(why) => panic!("no second loop device: {why}"),
            Ok(outcome) => must_fail(name, outcome),
        }
    }
}
