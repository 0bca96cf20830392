//! Servers with deliberate defects: the simulator must detect each defect, and must pass without a
//! defect.
//!
//! Runs this binary again for the simulator alone, with `STRATALOG_SABOTAGE` set.

use std::process::Command;

const SIMULATOR: &str = "contract::f23_f24_f25_hold_whatever_clocks_networks_and_servers_do";

/// Each fault, with the messages of its detection.
const CAUGHT: [(&str, &[&str]); 8] = [
    // Windows, seals, collisions.
    ("window-ignored", &["OutsideWindow"]),
    ("horizon-ignored", &["OutsideWindow"]),
    ("sealed-early", &["is to come", "which is sealed", "has changed", "after it was sealed"]),
    ("collision-off", &["instead of Some(", "not to be found", "failed: statement"]),
    // Stored statements, and repeated statements.
    ("dedup-off", &["is stored again", "a duplicate is taken", "instead of None", "was committed"]),
    ("ack-before-durable", &["the head of the log", "not to be found", "statement "]),
    // Time.
    ("lease-ignored", &["CL-8 broken"]),
    ("jump-followed", &["which is not to be followed"]),
];

/// Runs the simulator with a fault; the error contains the simulator's message.
fn run(fault: &str, seeds: &str) -> Result<(), String> {
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args([SIMULATOR, "--exact"]).env("STRATALOG_SABOTAGE", fault);
    again.env("STRATALOG_SEEDS", seeds).env_remove("STRATALOG_SEED").env("RUST_BACKTRACE", "0");
    let output = again.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("running 1 test"), "there is no test {SIMULATOR}");
    if output.status.success() { Ok(()) } else { Err(told.into_owned()) }
}

/// The first lines of a failure.
fn first_of(told: &str) -> String {
    let lines = told.lines().skip_while(|line| !line.contains("panicked at")).skip(1);
    lines.take(3).collect::<Vec<_>>().join(" ").chars().take(400).collect()
}

#[test]
fn every_sabotage_of_the_contract_is_caught() {
    run("", "0..150").unwrap_or_else(|told| panic!("without a sabotage: {told}"));
    for (fault, words) in CAUGHT {
        // Round trips count up to ten floors: only few seeds have a window that reaches back behind
        // a horizon.
        let told = match run(fault, "0..6000") {
            Ok(()) => panic!("{fault} was not caught"),
            Err(told) => told,
        };
        let found = first_of(&told);
        let noticed = words.iter().any(|word| found.contains(word));
        assert!(noticed, "{fault} makes something else fail: {told}");
        println!("caught {fault}: {found}");
    }
}
