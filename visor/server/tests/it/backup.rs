//! Backups by the program, with and without a server, and their use.

use std::{fs, path::Path};

use tokio_postgres::error::SqlState;

use crate::support::{Bench, connect, good, run, stderr, stdout};

const SUMS: &str = "SELECT count(*) || ' ' || sum(n) || ' ' || count(DISTINCT _tier) FROM t";

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The value that a query on a directory returns.
#[track_caller]
fn value(directory: &Path, query: &str) -> String {
    let flags = ["sql", "--data-dir", text(directory), "--format", "csv", "-c", query];
    good(&run(&flags)).lines().nth(1).unwrap_or("").to_string()
}

/// A server with events in all tiers.
fn filled() -> Bench {
    let bench = Bench::new();
    good(&bench.sql(&["-c", "CREATE TABLE t (time TIMESTAMPTZ NOT NULL, n BIGINT)"]));
    let insert = "INSERT INTO t SELECT now(), n FROM generate_series(1, 1000) g(n)";
    for call in ["CALL stratalog.compact('t')", "CALL stratalog.flush('t')", "SELECT 1"] {
        good(&bench.sql(&["-c", insert, "-c", call]));
    }
    bench
}

#[test]
fn a_backup_by_the_server_and_one_of_a_directory_restore_what_was_there() {
    let mut bench = filled();
    let (data, to) = (bench.directory.path().join("data"), bench.directory.path().join("to"));
    let said = good(&run(&["backup", "-p", &bench.port(), "--to", text(&to)]));
    assert!(said.starts_with("backup 2") && said.contains("new files"), "{said}");
    let before = bench.value(SUMS);
    assert_eq!(before, "3000 1501500 3");
    good(&bench.sql(&[
        "-c",
        "INSERT INTO t VALUES (now(), 7)",
        "-c",
        "CREATE TABLE later (n INT)",
    ]));

    // Refused while a server has the directory open.
    let refused = run(&["backup", "--data-dir", text(&data), "--to", text(&to)]);
    assert!(!refused.status.success() && stderr(&refused).contains("in use"), "{refused:?}");
    let after = bench.value(SUMS);
    bench.server.kill().unwrap();
    let url = format!("file://{}", to.display());
    good(&run(&["backup", "--data-dir", text(&data), "--to", &url]));

    let listed = good(&run(&["backups", "--from", text(&to)]));
    let names: Vec<&str> =
        listed.lines().skip(1).map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(names.len(), 2, "{listed}");
    let (old, new) = (bench.directory.path().join("old"), bench.directory.path().join("new"));
    let from = ["restore", "--from", text(&to), "--data-dir"];
    let said = good(&run(&[&from[..], &[text(&new)]].concat()));
    assert!(said.contains(names[1]), "{said}");
    good(&run(&[&from[..], &[text(&old), "--backup", names[0]]].concat()));
    assert_eq!(value(&old, SUMS), before);
    assert_eq!(value(&new, SUMS), after);
    assert_eq!(value(&new, "SELECT count(*) FROM later"), "0");
    let none = run(&["sql", "--data-dir", text(&old), "-c", "SELECT count(*) FROM later"]);
    assert!(stderr(&none).contains("42P01"), "{}", stderr(&none));
    // Time continues.
    let later = "SELECT now() > (SELECT max(time) FROM t)";
    assert_eq!(value(&new, later), "t");

    // A nonempty directory is not changed.
    let refused = run(&[&from[..], &[text(&new)]].concat());
    assert!(stderr(&refused).contains("55000"), "{}", stderr(&refused));
    assert_eq!(value(&new, SUMS), after);

    let kept = good(&run(&["backups", "--from", text(&to), "--keep", "1"]));
    assert!(kept.starts_with("removed 1 backups"), "{kept}");
    let gone = run(&[&from[..], &[text(&data.join("x")), "--backup", names[0]]].concat());
    assert!(stderr(&gone).contains("42704"), "{}", stderr(&gone));
    let again = bench.directory.path().join("again");
    good(&run(&[&from[..], &[text(&again)]].concat()));
    assert_eq!(value(&again, SUMS), after);
}

#[test]
fn a_damaged_backup_is_named_and_makes_no_database() {
    let bench = filled();
    let to = bench.directory.path().join("to");
    good(&run(&["backup", "-p", &bench.port(), "--to", text(&to)]));
    let file = fs::read_dir(to.join("files")).unwrap().map(|entry| entry.unwrap().path());
    let file = file.into_iter().find(|path| text(path).contains("story-")).unwrap();
    let mut bytes = fs::read(&file).unwrap();
    bytes[100] ^= 1;
    fs::write(&file, bytes).unwrap();
    let target = bench.directory.path().join("target");
    let failed = run(&["restore", "--from", text(&to), "--data-dir", text(&target)]);
    assert!(!failed.status.success());
    assert!(
        stderr(&failed).contains("XX001") && stderr(&failed).contains(text(&file)),
        "{failed:?}"
    );
    let refused = run(&["serve", "--data-dir", text(&target), "--pg-listen", "127.0.0.1:0"]);
    assert_eq!(refused.status.code(), Some(5), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("FORMAT.restoring"), "{}", stderr(&refused));
    assert_eq!(stdout(&refused), "");
    // The list still contains the damaged backup, after a line with the names of the columns.
    let listed = good(&run(&["backups", "--from", text(&to)]));
    assert_eq!(listed.lines().count(), 2);
}

#[tokio::test]
async fn a_call_says_what_is_wrong() {
    let bench = filled();
    let client = connect(bench.server.address().port()).await.unwrap();
    let data = bench.directory.path().join("data");
    for (url, state) in [
        ("here", SqlState::INVALID_PARAMETER_VALUE),
        ("", SqlState::INVALID_PARAMETER_VALUE),
        ("ftp://somewhere/else", SqlState::INVALID_PARAMETER_VALUE),
        (text(&data.join("tablets")), SqlState::INSUFFICIENT_PRIVILEGE),
        ("/proc/nothing/can/be/here", SqlState::INSUFFICIENT_PRIVILEGE),
        (text(&data.join("../to/../elsewhere")), SqlState::INSUFFICIENT_PRIVILEGE),
        ("s3://bucket/elsewhere", SqlState::INSUFFICIENT_PRIVILEGE),
    ] {
        let error = client.query("CALL stratalog.backup($1)", &[&url]).await.unwrap_err();
        assert_eq!(error.code(), Some(&state), "{url}: {error:?}");
    }
    let to = bench.directory.path().join("to");
    let row = client.query_one("CALL stratalog.backup($1)", &[&text(&to)]).await.unwrap();
    let names: Vec<&str> = row.columns().iter().map(|column| column.name()).collect();
    assert_eq!(names, ["backup", "files", "bytes", "stored_files", "stored_bytes"]);
    let files: i64 = row.get("files");
    assert_eq!(files, row.get::<_, i64>("stored_files"));
    assert!(row.get::<_, String>("backup").starts_with('2') && files > 5);
    let error = client.batch_execute("BEGIN; CALL stratalog.backup('/x')").await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::ACTIVE_SQL_TRANSACTION));
}
