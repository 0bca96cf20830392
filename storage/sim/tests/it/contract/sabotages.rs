//! Servers that are built wrongly on purpose: each must be caught, and none without a sabotage.
//!
//! Runs this binary again, with `STRATALOG_SABOTAGE` set and the simulator named.

use std::process::Command;

const SIMULATOR: &str = "contract::f23_f24_f25_hold_whatever_clocks_networks_and_servers_do";

/// Each fault, and what is said when it is noticed.
const CAUGHT: [(&str, &[&str]); 8] = [
    // Windows, what is sealed, collisions.
    ("window-ignored", &["OutsideWindow"]),
    ("horizon-ignored", &["OutsideWindow"]),
    ("sealed-early", &["is to come", "which is sealed", "has changed", "after it was sealed"]),
    ("collision-off", &["instead of Some(", "not to be found", "failed: statement"]),
    // What is stored, and how often.
    ("dedup-off", &["is stored again", "a duplicate is taken", "instead of None", "was committed"]),
    ("ack-before-durable", &["the head of the log", "not to be found", "statement "]),
    // Time.
    ("lease-ignored", &["CL-8 broken"]),
    ("jump-followed", &["which is not to be followed"]),
];

/// Whether the simulator holds with a fault; if not, what it says.
fn run(fault: &str, seeds: &str) -> Result<(), String> {
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args([SIMULATOR, "--exact"]).env("STRATALOG_SABOTAGE", fault);
    again.env("STRATALOG_SEEDS", seeds).env_remove("STRATALOG_SEED").env("RUST_BACKTRACE", "0");
    let output = again.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("running 1 test"), "there is no test {SIMULATOR}");
    if output.status.success() { Ok(()) } else { Err(told.into_owned()) }
}

/// The first lines of what was found.
fn first_of(told: &str) -> String {
    let lines = told.lines().skip_while(|line| !line.contains("panicked at")).skip(1);
    lines.take(3).collect::<Vec<_>>().join(" ").chars().take(400).collect()
}

#[test]
fn every_sabotage_of_the_contract_is_caught() {
    run("", "0..150").unwrap_or_else(|told| panic!("without a sabotage: {told}"));
    for (fault, words) in CAUGHT {
        // Round trips count up to ten floors, so few of the seeds have a window that reaches back
        // behind a horizon.
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
