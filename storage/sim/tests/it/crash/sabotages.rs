//! Servers that are built wrongly on purpose: each must be caught.
//!
//! What only a failing disk or a lost page cache shows (a sync left out, a failed one
//! ignored …) is caught in process, by `power_cut`, and by a real power cut where the
//! machine allows.

use std::time::Duration;

use super::{
    power::{self, LoopDevice},
    run::{Plan, Run, Summary},
    seed, server, skip,
};

/// Caught by killing the server.
const BY_KILL: [&str; 5] = [
    "ack-before-durable",
    "collision-off",
    "dedup-off",
    "journal-acknowledged-before-write",
    "visible-before-commit",
];
/// Caught by damaging its files.
const BY_DAMAGE: [&str; 2] = ["journal-checksum-ignored", "journal-damage-cut"];
/// Caught by cutting the power.
const BY_POWER_CUT: [&str; 1] = ["journal-no-sync"];

fn plan(sabotage: &'static str) -> Option<Plan> {
    let program = server::program()?;
    let plan = Plan::new(program, seed());
    Some(Plan { cycles: 25, time: Duration::from_secs(90), sabotage: Some(sabotage), ..plan })
}

fn must_fail<T>(sabotage: &str, outcome: Result<T, String>) {
    match outcome {
        Ok(_) => panic!("{sabotage} was not caught"),
        Err(broken) => println!("{sabotage}: {broken}"),
    }
}

#[test]
fn every_sabotage_that_a_kill_shows_is_caught() {
    for name in BY_KILL {
        let Some(plan) = plan(name) else { return skip("no stratalog program") };
        must_fail::<Summary>(name, Run::start(plan).and_then(Run::kill_and_check));
    }
}

#[test]
fn every_sabotage_that_damage_shows_is_caught() {
    for name in BY_DAMAGE {
        let Some(plan) = plan(name) else { return skip("no stratalog program") };
        must_fail(name, Run::start(plan).and_then(|run| run.damage_and_check(30)));
    }
}

#[test]
fn every_sabotage_that_a_power_cut_shows_is_caught() {
    for name in BY_POWER_CUT {
        let Some(plan) = plan(name) else { return skip("no stratalog program") };
        match LoopDevice::new() {
            Err(why) => skip(&format!("power cut on a loop device: {why}")),
            Ok(device) => must_fail(name, power::cut_and_check(plan, device)),
        }
    }
}
