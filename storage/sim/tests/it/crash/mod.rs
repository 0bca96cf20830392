//! The real server, killed at random instants, against a ledger of what it promised.
//!
//! ```text
//!   writers ─► ledger: sent (fsynced) ─► server ─► ledger: acknowledged (fsynced)
//!   kill -9 ─► start ─► every table read over SQL, compared with the ledger ─► again
//! ```
//!
//! The ledger lies in another directory than the server's. What must hold (CL-1):
//! - every row of an acknowledged statement is there once, with the values sent;
//! - a statement whose answer never came is there as a whole or not at all, and what was
//!   found of it stays so;
//! - nothing is there that was not sent;
//! - of one writer, later statements and rows have higher `_gsn`;
//! - all that while events move into tablets, which are merged, and segments of the journal go;
//! - what the index of tablets says is not needed (CL-9): it is damaged between lives;
//! - tables that are defined, changed, emptied and dropped meanwhile are as the last
//!   acknowledged statement left them.
//!
//! `STRATALOG_BIN` names the server; without, the one that was built beside this test.
//! `STRATALOG_CRASH_CYCLES` and `STRATALOG_CRASH_SECONDS` (whichever ends first) choose how
//! long, `STRATALOG_POWER_CUTS` how often the power is cut; `STRATALOG_SEEDS=FIRST..END`
//! chooses the seed.

mod changes;
mod damage;
mod ledger;
mod moves;
mod power;
mod run;
#[cfg(feature = "sabotage")]
mod sabotages;
mod server;
mod verify;
mod writer;

use std::{io::Write, time::Duration};

use run::{Plan, Run};

/// A number from the environment.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The first of `STRATALOG_SEEDS`, or one that is different every time.
fn seed() -> u64 {
    let seeds = std::env::var("STRATALOG_SEEDS").ok();
    let first = seeds.as_deref().and_then(|text| text.split_once("..")?.0.parse().ok());
    first.unwrap_or_else(|| u64::from(std::process::id()))
}

/// Says what was not tested, past the capture of a passing test's output; scripts/test
/// repeats it at its end.
fn skip(why: &str) {
    let line = format!(
        "\nSKIPPED: power cut on a loop device: {why}; the simulated disk's (power_cut) ran\n"
    );
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

#[test]
fn kill_9_at_random_instants_loses_and_invents_nothing() {
    let (program, seed) = (server::program(), seed());
    let plan = Plan {
        cycles: setting("STRATALOG_CRASH_CYCLES", 10),
        time: Duration::from_secs(setting("STRATALOG_CRASH_SECONDS", 40)),
        ..Plan::new(program, seed)
    };
    let summary = Run::start(plan).and_then(Run::kill_and_check);
    let summary = summary.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
    println!("{summary:?}");
    assert!(
        summary.cycles >= 2 && summary.acknowledged > 100 && summary.changes > 40,
        "too little to judge by: {summary:?}"
    );
    let moved = summary.moved;
    assert!(moved.tablets > 0 && moved.released > 0, "too little has moved: {summary:?}");
}

#[test]
fn crash_and_damage_are_told_apart() {
    let (program, seed) = (server::program(), seed());
    let plan = Plan { cycles: 1, ..Plan::new(program, seed) };
    let outcome = Run::start(plan).and_then(|run| run.damage_and_check(8));
    outcome.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
}

#[test]
fn a_power_cut_loses_nothing_that_is_durable() {
    let (program, seed) = (server::program(), seed());
    match power::LoopDevice::new() {
        Err(why) => skip(&why),
        Ok(device) => {
            let cycles = setting("STRATALOG_POWER_CUTS", 2);
            let plan = Plan { cycles, ..Plan::new(program, seed) };
            let summary = power::cut_and_check(plan, device);
            let summary = summary.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
            println!("{summary:?}");
            assert!(
                summary.acknowledged > 20 && summary.moved.tablets > 0,
                "too little to judge by: {summary:?}"
            );
        }
    }
}
