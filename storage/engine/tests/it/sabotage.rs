//! Each fault of `sabotage.rs`, here and in the crates of tablets and stories, makes a test fail:
//! this proves that the tests detect such faults.
//!
//! The test runs this binary again, with `STRATALOG_SABOTAGE` and the name of one test.

use std::{collections::BTreeSet, process::Command};

/// Each fault, and a test that notices the fault.
const CAUGHT_BY: [(&str, &str); 36] = [
    ("dedup-off", "producers::a_retry_is_acknowledged_and_not_stored_again"),
    ("ack-before-durable", "faults::nothing_is_visible_before_it_is_durable"),
    (
        "decision-before-sync",
        "prepared::a_prepared_append_survives_a_power_cut_whatever_its_durability",
    ),
    ("decision-ignored", "prepared::a_prepared_append_counts_with_its_decision_alone"),
    ("delete-uncommitted", "deletes::a_delete_without_its_commit_frame_is_dropped"),
    ("delete-unlogged", "deletes::nothing_is_gone_before_it_is_durable"),
    ("visible-before-commit", "basics::a_large_statement_streams_and_becomes_visible_at_once"),
    ("collision-off", "model::random_statements_first"),
    ("collision-off", "model::random_statements_last"),
    ("collision-off", "model::random_statements_next"),
    ("clock-unconfirmed", "tiers::f23_retention_goes_by_the_confirmed_time"),
    ("border-off", "failpoints::a_kill_at_every_call_loses_nothing"),
    ("edit-before-tablet", POWER_CUT),
    ("fence-ignored", "failpoints::a_kill_at_every_call_loses_nothing"),
    ("horizon-ignored", "acceptance::f24_what_is_sealed_never_changes"),
    ("late-lost-in-merge", "failpoints::a_kill_at_every_call_loses_nothing"),
    ("mark-lost-in-merge", "failpoints::a_kill_at_every_call_loses_nothing"),
    ("merge-beside-delete", "merges::deletes_and_merges_of_an_event_wait_for_each_other"),
    ("merge-ignored", "merges::null_takes_the_value_of_the_earlier_event"),
    ("merge-ignored", "merges::random_merges_equal_a_map_in_every_tier"),
    ("move-before-sync", "tablets::what_moved_is_durable_whatever_its_statement_asked_for"),
    ("own-marks-lost", "model::random_statements_last"),
    ("savepoint-ignored", "model::random_statements_all"),
    ("pin-ignored", "tablets::tablets_of_dropped_chronicles_go_with_their_last_reader"),
    ("release-before-edit", POWER_CUT),
    ("release-before-edit", "failpoints::a_kill_at_every_call_loses_nothing"),
    ("rewrite-before-sync", "tablets::a_delete_beside_a_rewrite_hides_no_later_events"),
    ("sealed-early", "acceptance::f24_an_open_statement_holds_up_what_is_sealed"),
    ("story-name-unsynced", POWER_CUT),
    ("story-unsynced", POWER_CUT),
    ("story-unverified", "failpoints::a_tablet_that_reads_back_wrongly_is_not_counted_on"),
    ("tablet-name-unsynced", POWER_CUT),
    ("tablet-unsynced", POWER_CUT),
    ("tablet-unverified", "failpoints::a_tablet_that_reads_back_wrongly_is_not_counted_on"),
    ("values-too-narrow", "values::a_wanted_value_is_never_passed_over"),
    ("window-ignored", "acceptance::f24_events_outside_of_the_window_are_refused_whole"),
];

const POWER_CUT: &str = "failpoints::a_power_cut_at_every_call_loses_nothing_that_is_durable";

/// Runs a test under a fault; returns the output of a failed test as the error.
fn run(test: &str, fault: &str) -> Result<(), String> {
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args([test, "--exact"]).env("STRATALOG_SABOTAGE", fault).env("STRATALOG_SEED", "1");
    let output = again.env("RUST_BACKTRACE", "0").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("running 1 test"), "there is no test {test}");
    if output.status.success() {
        return Ok(());
    }
    let lines = told.lines().skip_while(|line| !line.contains("panicked at"));
    Err(lines.skip(1).take(2).collect::<Vec<_>>().join(" ").chars().take(200).collect())
}

#[test]
fn every_fault_is_caught() {
    let (tablets, stories) = (&stratalog_tablet::FAULTS, &stratalog_story::FAULTS);
    let faults = || stratalog_engine::FAULTS.iter().chain(tablets).chain(stories);
    for fault in faults() {
        assert!(CAUGHT_BY.iter().any(|(known, _)| known == fault), "{fault} has no test");
    }
    let tests: BTreeSet<&str> = CAUGHT_BY.iter().map(|(_, test)| *test).collect();
    for test in tests {
        run(test, "").unwrap_or_else(|told| panic!("{test} fails by itself: {told}"));
    }
    for (fault, test) in CAUGHT_BY {
        match run(test, fault) {
            Ok(()) => panic!("{test} does not notice {fault}"),
            Err(told) => println!("caught {fault}: {told}"),
        }
    }
    let known = faults().count();
    println!("{known} of {known} caught");
}
