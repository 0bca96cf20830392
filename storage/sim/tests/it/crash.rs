//! The real server, killed at random instants, and compared with a ledger of its promises.
//!
//! ```text
//!   writers ─► ledger: sent (fsynced) ─► server ─► ledger: acknowledged (fsynced)
//!   kill -9 ─► start ─► every table read over SQL, compared with the ledger ─► again
//! ```
//!
//! The ledger is outside of the server's directory. The invariants (CL-1):
//! - Every row of an acknowledged statement is there once, with the sent values.
//! - A statement without an answer is there completely or not at all, and this result never
//!   changes.
//! - Nothing is there that was not sent.
//! - Later statements and rows of a writer have higher `_gsn`.
//! - The invariants hold while events move into tablets, tablets are merged, and segments of the
//!   journal are removed.
//! - The index of tablets is not needed (CL-9): the index is damaged between lives.
//! - Tables that are created, altered, truncated and dropped meanwhile have the state after the
//!   last acknowledged statement.
//!
//! `STRATALOG_BIN` names the server; the default is the server built beside this test.
//! `STRATALOG_CRASH_CYCLES` and `STRATALOG_CRASH_SECONDS` limit the run; the first limit reached
//! ends the run. `STRATALOG_POWER_CUTS` sets the number of power cuts; `STRATALOG_SEEDS=FIRST..END`
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

/// The first seed of `STRATALOG_SEEDS`, or else a different seed in every run.
fn seed() -> u64 {
    let seeds = std::env::var("STRATALOG_SEEDS").ok();
    let first = seeds.as_deref().and_then(|text| text.split_once("..")?.0.parse().ok());
    first.unwrap_or_else(|| u64::from(std::process::id()))
}

/// Reports a skipped test, past the captured output of a passing test; scripts/test repeats the
/// report at its end.
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
