//! Each fault of `sabotage.rs` makes a test fail: the tests have teeth.
//!
//! Runs this binary again, with `STRATALOG_SABOTAGE` set and one test named.

use std::process::Command;

fn passes(test: &str, fault: &str) -> bool {
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args([test, "--exact"]).env("STRATALOG_SABOTAGE", fault).env("STRATALOG_SEED", "1");
    let output = again.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("running 1 test"), "there is no test {test}");
    output.status.success()
}

#[test]
fn every_fault_is_caught() {
    let caught_by = [
        ("dedup-off", "producers::a_retry_is_acknowledged_and_not_stored_again"),
        ("ack-before-durable", "faults::nothing_is_visible_before_it_is_durable"),
        ("delete-unlogged", "deletes::nothing_is_gone_before_it_is_durable"),
        ("visible-before-commit", "basics::a_large_statement_streams_and_becomes_visible_at_once"),
        ("collision-off", "model::random_statements_first"),
        ("collision-off", "model::random_statements_last"),
        ("collision-off", "model::random_statements_next"),
    ];
    for fault in stratalog_engine::FAULTS {
        assert!(caught_by.iter().any(|(known, _)| *known == fault), "{fault} has no test");
    }
    for (fault, test) in caught_by {
        assert!(passes(test, ""), "{test} fails by itself");
        assert!(!passes(test, fault), "{test} does not notice {fault}");
    }
}
