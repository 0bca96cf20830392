//! Settings from flags, environment and file.

use crate::support::{good, run, stderr, stratalog};

#[test]
fn a_flag_wins_over_the_environment_over_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("stratalog.toml");
    std::fs::write(
        &file,
        "connections_max = 7\nstatement_timeout_ms = 7\nsegment_bytes = '7GiB'\n",
    )
    .unwrap();
    let output = stratalog()
        .args(["serve", "--print-config", "--statement-timeout-ms", "9"])
        .env("STRATALOG_CONFIG", &file)
        .env("STRATALOG_STATEMENT_TIMEOUT_MS", "8")
        .env("STRATALOG_CONNECTIONS_MAX", "8")
        .output()
        .unwrap();
    let text = good(&output);
    assert!(text.contains("\nstatement_timeout_ms = 9\n"), "{text}");
    assert!(text.contains("\nconnections_max = 8\n"), "{text}");
    assert!(text.contains("\nsegment_bytes = \"7GiB\"\n"), "{text}");
    assert!(text.contains("\npg_listen = \"127.0.0.1:5433\"\n"), "{text}");
}

#[test]
fn the_printed_settings_are_a_file_that_can_be_used() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("stratalog.toml");
    let first = good(&run(&["serve", "--print-config", "--pg-listen", "off"]));
    std::fs::write(&file, &first).unwrap();
    let second = run(&["serve", "--print-config", "--config", file.to_str().unwrap()]);
    assert_eq!(good(&second), first);
}

#[test]
fn settings_that_are_unknown_or_not_yet_end_with_status_2() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("stratalog.toml");
    std::fs::write(&file, "pg_listne = 'off'\n").unwrap();
    let output = run(&["serve", "--config", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("did you mean pg_listen?"), "{}", stderr(&output));
    let output = run(&["serve", "--pg-listne", "off"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--pg-listen"), "{}", stderr(&output));
    let data = directory.path().join("data");
    let at = ["serve", "--pg-listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()];
    let output = run(&[&at[..], &["--segment-bytes", "1MB"]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("must be at least 16781568"), "{}", stderr(&output));
    let output = stratalog().args(at).env("STRATALOG_NOSUCH", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("unknown setting STRATALOG_NOSUCH"), "{}", stderr(&output));
    assert!(!data.exists(), "nothing is made");
    let output = run(&["serve", "--config", "/no/such/file.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("/no/such/file.toml"));
}
