//! `stratalog check`: a directory with all kinds of files, sound, damaged in every way, repaired,
//! and checked during its use.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Output,
    time::Duration,
};

use stratalog_sim::Random;
use tokio_postgres::SimpleQueryMessage;

use crate::support::{Bench, connect, good, program, run, signal, stderr, stdout};
use stratalog::demo::child::ServerProcess;

/// Makes tables with events in all tiers, with replaced and deleted events, and a dropped table.
/// The events of the table `first` never move, so the journal still has all events.
const SCRIPT: &str = "
CREATE TABLE first (time TIMESTAMPTZ NOT NULL, n BIGINT);
INSERT INTO first SELECT '2026-01-01'::timestamptz + i * interval '1 s', i
  FROM generate_series(1, 500) g(i);
CREATE TABLE a (time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, n BIGINT, note TEXT,
  PRIMARY KEY (host, time)) WITH (collision = 'last');
INSERT INTO a SELECT '2026-01-01'::timestamptz + i * interval '1 s', 'host' || (i % 7), i,
  'a note on event ' || md5(i::text) FROM generate_series(1, 12000) g(i);
CALL stratalog.compact('a');
INSERT INTO a SELECT '2026-01-01'::timestamptz + i * interval '1 s', 'host' || (i % 7), -i,
  'replaced ' || md5(i::text) FROM generate_series(8000, 8400) g(i);
INSERT INTO a SELECT '2026-01-02'::timestamptz + i * interval '1 s', 'host' || (i % 7), i,
  'later ' || md5(i::text) FROM generate_series(1, 12000) g(i);
CALL stratalog.flush('a');
DELETE FROM a WHERE time < '2026-01-01 00:10:00+00';
INSERT INTO a SELECT '2026-01-03'::timestamptz + i * interval '1 s', 'host' || (i % 7), i, NULL
  FROM generate_series(1, 300) g(i);
CREATE TABLE b (time TIMESTAMPTZ NOT NULL, n BIGINT, v DOUBLE PRECISION);
INSERT INTO b SELECT '2026-01-01'::timestamptz + i * interval '1 s', i, sqrt(i)
  FROM generate_series(1, 3000) g(i);
CALL stratalog.flush('b');
INSERT INTO b SELECT '2026-01-05'::timestamptz + i * interval '1 s', i, sqrt(i)
  FROM generate_series(1, 40) g(i);
CREATE TABLE gone (time TIMESTAMPTZ NOT NULL, n BIGINT);
INSERT INTO gone SELECT '2026-01-01'::timestamptz + i * interval '1 s', i
  FROM generate_series(1, 100) g(i);
CALL stratalog.flush('gone');
DROP TABLE gone;
";

/// A query for the contents of the tables.
const ANSWER: &str = "SELECT (SELECT count(*) || ' ' || sum(n) FROM a) || ' ' ||
  (SELECT count(*) || ' ' || sum(n) FROM b) || ' ' || (SELECT count(*) || ' ' || sum(n) FROM first)";

/// A data directory that a server has left behind.
struct Left {
    directory: tempfile::TempDir,
    answer: String,
}

impl Left {
    /// A directory with all kinds of files; the server was closed in order, or killed.
    fn new(killed: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (data, log) = (directory.path().join("data"), directory.path().join("server.log"));
        let flags = ["--free-bytes-min", "1MiB", "--segment-bytes", "17MiB"];
        let server = ServerProcess::start(&program(), &data, &log, &flags).unwrap();
        let mut bench = Bench { directory, server };
        good(&bench.sql(&["-c", SCRIPT]));
        let answer = bench.value(ANSWER);
        if killed {
            bench.server.kill().unwrap();
        } else {
            stop(&mut bench);
        }
        Self { directory: bench.directory, answer }
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn check(&self, flags: &[&str]) -> Output {
        let data = self.data();
        run(&[&["check", "--data-dir", data.to_str().unwrap()], flags].concat())
    }

    /// The contents of each file, except files that only name the process that has the directory
    /// open.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        gather(&self.data(), &mut files);
        files.retain(|path, _| !path.ends_with("LOCK") && !path.ends_with("lock"));
        files
    }

    /// The result of [`ANSWER`], from a copy of the directory, because opening it changes files.
    fn answers(&self) -> String {
        let copy = tempfile::tempdir().unwrap();
        for (path, bytes) in self.files() {
            let to = copy.path().join(path.strip_prefix(self.data()).unwrap());
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::write(to, bytes).unwrap();
        }
        let data = copy.path().to_str().unwrap();
        let text = good(&run(&["sql", "--data-dir", data, "--format", "csv", "-c", ANSWER]));
        text.lines().nth(1).unwrap_or("").to_string()
    }

    fn one(&self, folder: &str, ending: &str) -> PathBuf {
        self.all(folder, ending).swap_remove(0)
    }

    /// The newest of several numbered files.
    fn last(&self, folder: &str, ending: &str) -> PathBuf {
        self.all(folder, ending).pop().unwrap()
    }

    fn all(&self, folder: &str, ending: &str) -> Vec<PathBuf> {
        let files = self.files();
        let found = files.keys().filter(|path| {
            path.starts_with(self.data().join(folder)) && path.to_str().unwrap().ends_with(ending)
        });
        found.cloned().collect()
    }
}

fn stop(bench: &mut Bench) {
    signal(bench.server.id(), "TERM");
    bench.server.wait().unwrap();
}

fn gather(folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(&path, files);
        } else {
            files.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
}

/// The files for which a check reports the given state.
fn named(output: &Output, state: &str) -> Vec<String> {
    let text = stdout(output);
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        (!line.starts_with(' ') && words.nth(1) == Some(state)).then(|| words.next())?
    });
    lines.map(|path| path.trim_end_matches(':').to_string()).collect()
}

fn told(output: &Output) -> String {
    format!("{:?}\n{}{}", output.status.code(), stdout(output), stderr(output))
}

#[test]
fn what_a_server_leaves_is_sound_and_a_check_changes_nothing() {
    for killed in [false, true] {
        let left = Left::new(killed);
        let before = left.files();
        let output = left.check(&[]);
        let text = good(&output);
        assert!(left.files() == before, "{text}");
        assert!(text.contains(" is sound"), "{text}");
        assert!(named(&output, "damaged").is_empty(), "{text}");
        for part in ["format", "clock", "catalog", "manifest", "journal", "tablets", "stories"] {
            assert!(text.lines().any(|line| line.starts_with(part)), "{part}: {text}");
        }
        assert!(text.contains("table public.first, 500 rows"), "{text}");
        assert!(text.contains("table public.b, 40 rows"), "{text}");
        assert!(text.contains("table public.b, 3000 rows"), "{text}");
        if !killed {
            assert!(named(&output, "warning").is_empty(), "{text}");
        }
        assert_eq!(left.answers(), left.answer);
    }
}

#[test]
fn a_flipped_bit_of_any_file_is_told_with_the_file() {
    let left = Left::new(false);
    let seed = std::env::var("STRATALOG_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| u64::from(std::process::id()));
    let mut random = Random::new(seed);
    let (mut silent, mut findings) = (0, BTreeMap::<String, u32>::new());
    for (path, bytes) in left.files() {
        let Some(last) = bytes.iter().rposition(|byte| *byte != 0) else { continue };
        let name = path.strip_prefix(left.data()).unwrap().to_str().unwrap().to_string();
        for _ in 0..6 {
            let at = random.below(last as u64 + 1) as usize;
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << random.below(8);
            std::fs::write(&path, &flipped).unwrap();
            let output = left.check(&[]);
            let what = format!("seed {seed}, {name} at {at}: {}", told(&output));
            assert!(std::fs::read(&path).unwrap() == flipped, "{what}");
            let (damaged, warned) = (named(&output, "damaged"), named(&output, "warning"));
            if name.starts_with("index") {
                assert_eq!(output.status.code(), Some(0), "{what}");
                assert!(warned.iter().all(|path| path == "index"), "{what}");
            } else if output.status.code() == Some(0) {
                // Padding, a copy of the lease, or a mark without a use.
                assert!(damaged.is_empty(), "{what}");
                assert!(warned.iter().all(|path| *path == name), "{what}");
                silent += 1;
                assert_eq!(left.answers(), left.answer, "{what}");
            } else {
                assert_eq!(output.status.code(), Some(1), "{what}");
                assert!(!damaged.is_empty() && damaged.iter().all(|path| *path == name), "{what}");
                let kind = name.split('/').next().unwrap_or(&name).to_string();
                *findings.entry(kind).or_default() += 1;
            }
        }
        std::fs::write(&path, &bytes).unwrap();
    }
    println!("{silent} flips without consequence; {findings:?}");
    for kind in ["FORMAT", "catalog", "journal", "manifest", "stories", "tablets"] {
        assert!(findings.get(kind).is_some_and(|found| *found > 0), "{kind}: {findings:?}");
    }
    good(&left.check(&[]));
}

#[test]
fn files_that_are_cut_or_missing_or_others_are_told() {
    let left = Left::new(false);
    let before = left.files();
    for (path, bytes) in &before {
        let name = path.strip_prefix(left.data()).unwrap().to_str().unwrap().to_string();
        // The server makes these files again.
        if name.starts_with("index") || name.contains("spare") || name == "SECRET" {
            continue;
        }
        let wrong = |what: &str| {
            let output = left.check(&[]);
            let damaged = named(&output, "damaged");
            let what = format!("{name} {what}: {}", told(&output));
            assert_eq!(output.status.code(), Some(1), "{what}");
            assert!(damaged.contains(&name), "{what}");
            assert!(damaged.iter().all(|path| *path == name || path == "manifest"), "{what}");
        };
        std::fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        wrong("cut");
        std::fs::remove_file(path).unwrap();
        if !name.contains(".journal") && name != "clock/clock" {
            wrong("missing");
        } else {
            assert_eq!(left.check(&[]).status.code(), Some(1), "{name}");
        }
        std::fs::write(path, bytes).unwrap();
    }
    // Two tablets with exchanged names.
    let tablets: Vec<_> = before.keys().filter(|path| path.ends_with_tablet()).collect();
    let [one, other] = [tablets[0], tablets[1]];
    std::fs::write(one, &before[other]).unwrap();
    std::fs::write(other, &before[one]).unwrap();
    let damaged = named(&left.check(&[]), "damaged");
    assert_eq!(damaged.len(), 2, "{damaged:?}");
    std::fs::write(one, &before[one]).unwrap();
    std::fs::write(other, &before[other]).unwrap();
    assert!(left.files() == before);
    good(&left.check(&[]));
}

trait EndsWithTablet {
    fn ends_with_tablet(&self) -> bool;
}

impl EndsWithTablet for PathBuf {
    fn ends_with_tablet(&self) -> bool {
        self.extension().is_some_and(|ending| ending == "tablet")
    }
}

#[test]
fn a_finding_says_what_it_means() {
    let left = Left::new(false);
    let path = left.one("stories", ".parquet");
    let bytes = std::fs::read(&path).unwrap();
    let mut flipped = bytes.clone();
    flipped[100] ^= 1;
    std::fs::write(&path, flipped).unwrap();
    let text = stdout(&left.check(&[]));
    for part in
        ["table public.a", "12000 rows", "2026-01-01T00:00:01Z", "offset 0", "from a backup"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    // No copy exists.
    let before = left.files();
    let output = left.check(&["--repair"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(
        stdout(&output).contains("no damage can be repaired from a second copy"),
        "{}",
        told(&output)
    );
    assert!(left.files() == before);
}

#[test]
fn repair_makes_a_tablet_from_the_journal_and_puts_the_damaged_one_aside() {
    let left = Left::new(false);
    let tablets: Vec<PathBuf> =
        left.files().into_keys().filter(|path| path.ends_with_tablet()).collect();
    assert!(tablets.len() >= 2, "{tablets:?}");
    let mut mended = 0;
    for path in tablets {
        let bytes = std::fs::read(&path).unwrap();
        let mut flipped = bytes.clone();
        let at = flipped.len() - 100;
        flipped[at] ^= 16;
        std::fs::write(&path, &flipped).unwrap();
        assert_eq!(left.check(&[]).status.code(), Some(1));
        let output = left.check(&["--repair"]);
        if output.status.code() == Some(0) {
            assert!(std::fs::read(&path).unwrap() == bytes, "{}", told(&output));
            let aside = path.with_extension("tablet.damaged");
            assert!(std::fs::read(aside).unwrap() == flipped);
            assert!(stdout(&output).contains("rebuilt from the journal"), "{}", told(&output));
            mended += 1;
        } else {
            // The tablet of the dropped table: its columns are unknown now.
            assert!(std::fs::read(&path).unwrap() == flipped, "{}", told(&output));
            std::fs::write(&path, &bytes).unwrap();
        }
    }
    assert!(mended >= 2, "{mended}");
    assert!(!left.data().join("repair").exists());
    good(&left.check(&[]));
    assert_eq!(left.answers(), left.answer);
}

#[test]
fn repair_removes_what_nothing_needs_and_nothing_else() {
    let left = Left::new(false);
    let before = left.files();
    let strangers = [
        left.data().join("tablets/00000000000000009999.building"),
        left.data().join("tablets/00000000000000009998.tablet"),
        left.data().join("spool/00000000000000009997.building"),
        left.data().join("spill/some"),
    ];
    for path in &strangers {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "something").unwrap();
    }
    // A damaged index too.
    let index = left.one("index", "db");
    let mut bytes = std::fs::read(&index).unwrap();
    bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
    std::fs::write(&index, bytes).unwrap();
    let output = left.check(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert_eq!(named(&output, "warning").len(), 5, "{}", told(&output));
    let output = left.check(&["--repair"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let mut after = left.files();
    let mut expected = before;
    expected.retain(|path, _| !path.starts_with(left.data().join("index")));
    after.retain(|path, _| !path.starts_with(left.data().join("index")));
    assert!(after == expected, "{}", told(&output));
    assert_eq!(left.answers(), left.answer);
}

#[test]
fn a_torn_tail_is_a_warning_that_repair_cuts() {
    let left = Left::new(true);
    let path = left.last("journal", ".journal");
    let mut bytes = std::fs::read(&path).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    // The beginning of a frame without its rest.
    let at = used.next_multiple_of(128) + 1024;
    bytes[at..at + 40].fill(7);
    std::fs::write(&path, &bytes).unwrap();
    let output = left.check(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(stdout(&output).contains("torn tail"), "{}", told(&output));
    assert!(std::fs::read(&path).unwrap() == bytes);
    let output = left.check(&["--repair"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(stdout(&output).contains("cut the torn tail of the journal"), "{}", told(&output));
    assert!(std::fs::read(&path).unwrap()[at..at + 40].iter().all(|byte| *byte == 0));
    assert_eq!(left.answers(), left.answer);
}

/// After a kill, no record proves the last frames: a damaged frame may look torn, although its
/// events have moved.
#[test]
fn a_journal_that_ends_before_its_pieces_is_explained() {
    let left = Left::new(true);
    let path = left.last("journal", ".journal");
    let mut bytes = std::fs::read(&path).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    bytes[4096 + 100_000..used].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    let output = left.check(&["--repair"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(text.contains("the journal ends at gsn"), "{text}");
    assert!(text.contains("public.a") && text.contains("are safe in pieces"), "{text}");
    assert!(std::fs::read(&path).unwrap() == bytes);
}

#[test]
fn directories_that_cannot_be_checked_say_why() {
    let bench = Bench::new();
    let data = bench.directory.path().join("data");
    let output = run(&["check", "--data-dir", data.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(4), "{}", told(&output));
    assert!(stderr(&output).contains("CALL stratalog.check()"), "{}", told(&output));
    let nothing = bench.directory.path().join("nothing");
    let output = run(&["check", "--data-dir", nothing.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(5), "{}", told(&output));
    assert!(!nothing.exists());
    let output = run(&["check", "--data-dir", "x", "--config", "/nowhere.toml"]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_checked_while_it_takes_events_and_moves_them() {
    let bench = Bench::new();
    let port = bench.server.address().port();
    good(&bench.sql(&["-c", SCRIPT]));
    let appending = tokio::spawn(async move {
        let client = connect(port).await.unwrap();
        for round in 0..30 {
            let insert = format!(
                "INSERT INTO b SELECT '2027-01-01'::timestamptz + (i + {round} * 1000) * \
                 interval '1 s', i, 1.5 FROM generate_series(1, 500) g(i)"
            );
            client.batch_execute(&insert).await.unwrap();
            if round % 5 == 4 {
                client.batch_execute("CALL stratalog.flush('b')").await.unwrap();
            }
            if round % 13 == 12 {
                client.batch_execute("CALL stratalog.compact('b')").await.unwrap();
            }
        }
    });
    let client = connect(port).await.unwrap();
    let mut checks = 0;
    loop {
        let last = appending.is_finished();
        for row in client.query("CALL stratalog.check()", &[]).await.unwrap() {
            let (state, detail): (String, String) = (row.get("state"), row.get("detail"));
            let path: String = row.get("path");
            assert!(state != "damaged" && state != "unchecked", "{path}: {detail}");
        }
        checks += 1;
        if last {
            break;
        }
    }
    appending.await.unwrap();
    assert!(checks > 2, "{checks}");

    // Damage is a row, even for data read before and cached in memory.
    let mut files = BTreeMap::new();
    gather(&bench.directory.path().join("data/stories"), &mut files);
    let (path, bytes) = files.into_iter().next().unwrap();
    let mut flipped = bytes.clone();
    *flipped.last_mut().unwrap() ^= 1;
    std::fs::write(&path, flipped).unwrap();
    let rows = client.query("CALL stratalog.check()", &[]).await.unwrap();
    let damaged: Vec<_> =
        rows.iter().filter(|row| row.get::<_, &str>("state") == "damaged").collect();
    assert_eq!(damaged.len(), 1);
    let shown: &str = damaged[0].get("path");
    assert!(path.ends_with(shown) && shown.starts_with("stories/"), "{shown}");
    std::fs::write(&path, bytes).unwrap();
}

#[tokio::test]
async fn a_check_is_cancelled_and_refused_like_other_calls() {
    let bench = Bench::new();
    let client = connect(bench.server.address().port()).await.unwrap();
    let rows = client.simple_query("CALL stratalog.check()").await.unwrap();
    assert!(rows.iter().any(|row| matches!(row, SimpleQueryMessage::Row(_))));
    let error = client.batch_execute("CALL stratalog.check('t')").await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "42883");
    let error = client.batch_execute("BEGIN; CALL stratalog.check()").await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "25001");
    client.batch_execute("ROLLBACK").await.unwrap();
    client.batch_execute("CREATE TABLE t (time TIMESTAMPTZ NOT NULL, n BIGINT)").await.unwrap();
    let insert = "INSERT INTO t SELECT '2026-01-01'::timestamptz + i * interval '1 ms', i \
                  FROM generate_series(1, 400000) g(i)";
    client.batch_execute(insert).await.unwrap();
    client.batch_execute("CALL stratalog.flush('t')").await.unwrap();
    let begun = std::time::Instant::now();
    let slow = "SET statement_timeout = '1ms'; CALL stratalog.check()";
    let error = client.batch_execute(slow).await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "57014");
    assert!(begun.elapsed() < Duration::from_secs(5));
    client.batch_execute("SET statement_timeout = 0; CALL stratalog.check()").await.unwrap();
}
