//! Reasons for a failed start.

use std::{
    fs,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use stratalog::{
    demo::child::address_of,
    directory::{FORMAT_VERSION, format_text},
};

use crate::support::{Bench, good, run, signal, stderr, stdout, stratalog};

fn serve(directory: &std::path::Path, flags: &[&str]) -> std::process::Output {
    run(&[&["serve", "--data-dir", directory.to_str().unwrap()], flags].concat())
}

#[test]
fn two_servers_on_one_directory_do_not_happen() {
    let bench = Bench::new();
    let output = serve(&bench.directory.path().join("data"), &["--pg-listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(4));
    let text = stderr(&output);
    assert!(text.contains(&format!("is in use by process {}", bench.server.id())), "{text}");
    let local = run(&[
        "sql",
        "--data-dir",
        bench.directory.path().join("data").to_str().unwrap(),
        "-c",
        "select 1",
    ]);
    assert!(!local.status.success());
    let said = stderr(&local);
    assert!(said.contains("is in use by process"), "{said}");
    assert!(said.starts_with("ERROR:  the data directory"), "no SQLSTATE of a server: {said}");
    assert_eq!(bench.value("SELECT 1"), "1", "the first one goes on");
}

#[test]
fn a_taken_port_is_named() {
    let bench = Bench::new();
    let directory = tempfile::tempdir().unwrap();
    let address = bench.server.address().to_string();
    let output = serve(directory.path(), &["--pg-listen", &address]);
    assert_eq!(output.status.code(), Some(3));
    let text = stderr(&output);
    assert!(text.contains(&address) && text.contains("the address is in use"), "{text}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn other_machines_are_refused_without_tls_and_users() {
    let directory = tempfile::tempdir().unwrap();
    let output = serve(directory.path(), &["--pg-listen", "0.0.0.0:0"]);
    assert_eq!(output.status.code(), Some(3));
    let text = stderr(&output);
    assert!(text.contains("stratalog certificate create"), "{text}");
    assert!(text.contains("stratalog user create"), "{text}");
}

#[test]
fn foreign_and_newer_directories_are_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("photo.jpg"), "x").unwrap();
    let output = serve(directory.path(), &["--pg-listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(5));
    assert!(
        stderr(&output).contains("the directory contains \"photo.jpg\""),
        "{}",
        stderr(&output)
    );
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);

    let newer = tempfile::tempdir().unwrap();
    std::fs::write(newer.path().join("FORMAT"), format_text(FORMAT_VERSION + 1)).unwrap();
    let output = serve(newer.path(), &["--pg-listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(6));
    assert!(stderr(&output).contains(&format!("has format {}", FORMAT_VERSION + 1)));
}

/// A change to a used data directory, and the error at the next start.
type Damage = (&'static str, fn(&std::path::Path), &'static str);

const LOST: [Damage; 11] = [
    (
        "FORMAT is gone",
        |data| fs::remove_file(data.join("FORMAT")).unwrap(),
        "the file FORMAT of the data directory",
    ),
    (
        "FORMAT has a version that never was",
        |data| fs::write(data.join("FORMAT"), format_text(0)).unwrap(),
        "has format 0, which no release has written",
    ),
    ("journal/ is gone", |data| fs::remove_dir_all(data.join("journal")).unwrap(), "is missing"),
    ("journal/ is empty", |data| empty(&data.join("journal")), "has lost all of its segments"),
    ("catalog/ is gone", |data| fs::remove_dir_all(data.join("catalog")).unwrap(), "is missing"),
    ("catalog/ is empty", |data| empty(&data.join("catalog")), "has lost all of its segments"),
    ("manifest/ is gone", |data| fs::remove_dir_all(data.join("manifest")).unwrap(), "is missing"),
    ("manifest/ is empty", |data| empty(&data.join("manifest")), "has lost all of its segments"),
    ("clock/ is gone", |data| fs::remove_dir_all(data.join("clock")).unwrap(), "is missing"),
    ("clock/ is empty", |data| empty(&data.join("clock")), "is missing"),
    (
        "catalog/ is that of another directory",
        |data| {
            let other = tempfile::tempdir().unwrap();
            let (mut child, _) = spawn(other.path(), &[]);
            signal(child.id(), "TERM");
            child.wait().unwrap();
            empty(&data.join("catalog"));
            for entry in fs::read_dir(other.path().join("data/catalog")).unwrap() {
                let entry = entry.unwrap();
                fs::copy(entry.path(), data.join("catalog").join(entry.file_name())).unwrap();
            }
        },
        "events of table number 1, which is unknown to the catalog",
    ),
];

fn empty(directory: &std::path::Path) {
    for entry in fs::read_dir(directory).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// The path and the length of each file in a directory.
fn files(directory: &std::path::Path) -> Vec<(std::path::PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push((entry.path(), entry.metadata().unwrap().len())),
        }
    }
    // sled may write to its files at any time.
    let index = std::path::Path::new("index");
    found.retain(|(path, _)| {
        let kept = |part: &std::path::Path| !path.ends_with(part);
        kept("LOCK".as_ref())
            && kept("lock".as_ref())
            && path.parent().is_none_or(|folder| !folder.ends_with(index))
    });
    found.sort();
    found
}

#[test]
fn a_directory_that_has_lost_files_is_not_opened() {
    let directory = tempfile::tempdir().unwrap();
    let (mut child, port) = spawn(directory.path(), &[]);
    let port = port.to_string();
    let made = "CREATE TABLE readings (time timestamptz, v int); \
                INSERT INTO readings VALUES ('2024-01-01', 1), ('2024-01-02', 2)";
    good(&run(&["sql", "-p", &port, "-c", made]));
    child.kill().unwrap();
    child.wait().unwrap();
    let data = directory.path().join("data");
    for (what, damage, said) in LOST {
        let broken = tempfile::tempdir().unwrap();
        copy(&data, broken.path());
        damage(broken.path());
        let before = files(broken.path());
        for _ in 0..2 {
            let output = serve(broken.path(), &["--pg-listen", "127.0.0.1:0"]);
            let text = stderr(&output);
            assert_eq!(output.status.code(), Some(5), "{what}: {text}");
            assert!(text.contains(said) && text.contains("backup"), "{what}: {text}");
            assert!(text.contains(broken.path().to_str().unwrap()), "{what}: {text}");
        }
        assert_eq!(files(broken.path()), before, "{what}: something was made");
    }
    // Time may start again at the machine's clock, by an operator's decision.
    fs::write(data.join("clock/clock"), "now\n").unwrap();
    let (mut child, port) = spawn(directory.path(), &[]);
    let counted =
        good(&run(&["sql", "-p", &port.to_string(), "-c", "SELECT count(*) FROM readings"]));
    assert!(counted.contains('2'), "{counted}");
    signal(child.id(), "TERM");
    assert!(child.wait().unwrap().success());
}

/// The error names the cause: files were merged into others since the copy was made.
#[test]
fn an_older_manifest_that_was_put_back_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let run_once = |sql: &str| {
        let (mut child, port) = spawn(directory.path(), &[]);
        good(&run(&["sql", "-p", &port.to_string(), "-c", sql]));
        signal(child.id(), "TERM");
        assert!(child.wait().unwrap().success());
    };
    run_once(
        "CREATE TABLE readings (time timestamptz, v int); \
         INSERT INTO readings VALUES ('2024-01-01', 1), ('2024-01-02', 2); \
         CALL stratalog.flush('readings')",
    );
    let kept = directory.path().join("kept");
    copy(&data.join("manifest"), &kept);
    run_once("INSERT INTO readings VALUES ('2024-01-03', 3); CALL stratalog.compact('readings')");
    let newest = directory.path().join("newest");
    copy(&data.join("manifest"), &newest);
    empty(&data.join("manifest"));
    copy(&kept, &data.join("manifest"));
    let before = files(&data);
    let output = serve(&data, &["--pg-listen", "127.0.0.1:0"]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(5), "{text}");
    assert!(text.contains("an older copy of the manifest replaced the newest copy"), "{text}");
    assert!(text.contains("restore the newest manifest"), "{text}");
    assert_eq!(files(&data), before, "something was changed");
    // With the newest manifest, no data is lost.
    empty(&data.join("manifest"));
    copy(&newest, &data.join("manifest"));
    let (mut child, port) = spawn(directory.path(), &[]);
    let counted =
        good(&run(&["sql", "-p", &port.to_string(), "-c", "SELECT count(*) FROM readings"]));
    assert!(counted.contains('3'), "{counted}");
    signal(child.id(), "TERM");
    assert!(child.wait().unwrap().success());
}

/// A start would make a new manifest, and a repair would remove the stories.
#[test]
fn a_format_of_version_1_beside_a_manifest_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let (mut child, port) = spawn(directory.path(), &[]);
    let made = "CREATE TABLE readings (time timestamptz, v int); \
                INSERT INTO readings VALUES ('2024-01-01', 1), ('2024-01-02', 2); \
                CALL stratalog.compact('readings')";
    good(&run(&["sql", "-p", &port.to_string(), "-c", made]));
    signal(child.id(), "TERM");
    assert!(child.wait().unwrap().success());
    fs::write(data.join("FORMAT"), format_text(1)).unwrap();
    let before = files(&data);
    assert!(before.iter().any(|(path, _)| path.starts_with(data.join("stories"))), "{before:?}");
    let output = serve(&data, &["--pg-listen", "127.0.0.1:0"]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(5), "{text}");
    assert!(text.contains("says version 1, but the directory has a manifest"), "{text}");
    assert!(text.contains("restore the file FORMAT"), "{text}");
    for flags in [&[] as &[&str], &["--repair"]] {
        let output = run(&[&["check", "--data-dir", data.to_str().unwrap()], flags].concat());
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("says version 1, but the directory has a manifest"), "{text}");
        assert!(!text.contains("without an entry in the manifest"), "{text}");
    }
    assert_eq!(files(&data), before, "something was changed");
    fs::write(data.join("FORMAT"), format_text(FORMAT_VERSION)).unwrap();
    let (mut child, port) = spawn(directory.path(), &[]);
    let counted =
        good(&run(&["sql", "-p", &port.to_string(), "-c", "SELECT count(*) FROM readings"]));
    assert!(counted.contains('2'), "{counted}");
    signal(child.id(), "TERM");
    assert!(child.wait().unwrap().success());
}

/// A separate server for the test, after its ready line.
fn spawn(directory: &std::path::Path, flags: &[&str]) -> (Child, u16) {
    let log = std::fs::File::create(directory.join("log")).unwrap();
    let mut child = stratalog()
        .args(["serve", "--pg-listen", "127.0.0.1:0", "--data-dir"])
        .arg(directory.join("data"))
        .args(flags)
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    assert!(line.starts_with("ready: postgres 127.0.0.1:"), "{line}");
    (child, address_of(&line).unwrap().port())
}

/// A statement running for `seconds`; returns after its start.
fn sleeper(port: u16, seconds: u32) -> Child {
    let child = stratalog()
        .args(["sql", "-p", &port.to_string(), "-c", &format!("SELECT pg_sleep({seconds})")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(800));
    child
}

#[test]
fn a_signal_stops_an_idle_server_at_once_and_well() {
    for name in ["TERM", "INT"] {
        let directory = tempfile::tempdir().unwrap();
        let (mut child, _) = spawn(directory.path(), &[]);
        let start = Instant::now();
        signal(child.id(), name);
        assert!(child.wait().unwrap().success(), "SIG{name}");
        assert!(start.elapsed().as_secs() < 5, "SIG{name} took {:?}", start.elapsed());
    }
}

#[test]
fn a_running_statement_may_finish_within_the_grace_period() {
    let directory = tempfile::tempdir().unwrap();
    let (mut child, port) = spawn(directory.path(), &[]);
    let statement = sleeper(port, 2);
    signal(child.id(), "TERM");
    let output = statement.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(child.wait().unwrap().success());
}

#[test]
fn after_the_grace_period_it_is_cancelled() {
    let directory = tempfile::tempdir().unwrap();
    let (mut child, port) = spawn(directory.path(), &["--shutdown-grace-ms", "300"]);
    let statement = sleeper(port, 60);
    let start = Instant::now();
    signal(child.id(), "TERM");
    assert!(child.wait().unwrap().success());
    assert!(start.elapsed().as_secs() < 15, "{:?}", start.elapsed());
    let output = statement.wait_with_output().unwrap();
    assert!(stderr(&output).contains("57P01"), "{}", stderr(&output));
}

#[test]
fn a_second_signal_does_not_wait() {
    let directory = tempfile::tempdir().unwrap();
    let (mut child, port) = spawn(directory.path(), &["--shutdown-grace-ms", "60000"]);
    let mut statement = sleeper(port, 60);
    let start = Instant::now();
    signal(child.id(), "TERM");
    std::thread::sleep(Duration::from_millis(500));
    signal(child.id(), "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(start.elapsed().as_secs() < 15, "{:?}", start.elapsed());
    assert!(!statement.wait().unwrap().success());
    // The next start has no errors.
    let (mut again, _) = spawn(directory.path(), &[]);
    signal(again.id(), "TERM");
    assert!(again.wait().unwrap().success());
}
