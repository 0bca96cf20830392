//! `stratalog sql`, over the wire and in process.

use crate::support::{Bench, good, run, run_with_input, stderr, stdout};

const SETUP: &str = "CREATE TABLE t (time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, n BIGINT, x DOUBLE PRECISION, d NUMERIC(10,2), ok BOOLEAN, j JSONB, a BIGINT[], u UUID, PRIMARY KEY (host, time));
INSERT INTO t VALUES
  ('2026-01-01 00:00:00+00', 'a,b', 1, 1.5, 12.34, true, '{\"k\": [1]}', '{1,NULL}', '6f1f2ad1-9b1e-4a1c-8f7e-2f7f3ad1c001'),
  ('2026-01-01 00:00:01+00', 'ü\"', -2, 'NaN', NULL, false, NULL, '{}', NULL);";

const QUERY: &str = "SELECT * FROM t ORDER BY time";

/// The flags for a database over the wire, and in process after the server's end.
fn each(mut check: impl FnMut(&[&str])) {
    let mut bench = Bench::new();
    let port = bench.port();
    good(&bench.sql(&["-c", SETUP]));
    check(&["sql", "-p", &port]);
    bench.server.kill().unwrap();
    let data = bench.directory.path().join("data");
    check(&["sql", "--data-dir", data.to_str().unwrap()]);
}

fn with<'a>(base: &[&'a str], flags: &[&'a str]) -> std::process::Output {
    run(&[base, flags].concat())
}

#[test]
fn every_form_of_output_holds_every_type() {
    each(|base| {
        let form = |form: &str| good(&with(base, &["--format", form, "-c", QUERY]));
        assert_eq!(
            form("csv"),
            "time,host,n,x,d,ok,j,a,u\n\
             2026-01-01 00:00:00+00,\"a,b\",1,1.5,12.34,t,\"{\"\"k\"\": [1]}\",\"{1,NULL}\",6f1f2ad1-9b1e-4a1c-8f7e-2f7f3ad1c001\n\
             2026-01-01 00:00:01+00,\"ü\"\"\",-2,NaN,,f,,{},\n"
        );
        let lines = form("ndjson");
        let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
        assert_eq!(first["n"], 1);
        assert_eq!(first["d"], 12.34);
        assert_eq!(first["ok"], true);
        assert_eq!(first["j"]["k"][0], 1);
        assert_eq!(first["a"][1], serde_json::Value::Null);
        let array: serde_json::Value = serde_json::from_str(&form("json")).unwrap();
        assert_eq!(array[1]["x"], "NaN");
        assert_eq!(array[1]["d"], serde_json::Value::Null);
        let table = form("table");
        assert!(table.contains("(2 rows)"), "{table}");
    });
}

#[test]
fn a_parquet_file_of_a_result_reads_back_with_its_types() {
    use arrow::datatypes::{DataType, TimeUnit};
    each(|base| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.parquet");
        good(&with(base, &["--format", "parquet", "-o", path.to_str().unwrap(), "-c", QUERY]));
        let file = std::fs::File::open(&path).unwrap();
        let reader =
            parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let schema = reader.schema().clone();
        let batch = reader.build().unwrap().next().unwrap().unwrap();
        assert_eq!(batch.num_rows(), 2);
        assert!(matches!(
            schema.field(0).data_type(),
            DataType::Timestamp(TimeUnit::Nanosecond | TimeUnit::Microsecond, Some(_))
        ));
        assert_eq!(schema.field(2).data_type(), &DataType::Int64);
        assert_eq!(schema.field(4).data_type(), &DataType::Decimal128(10, 2));
        assert_eq!(batch.column(4).null_count(), 1);
        let output = with(base, &["--format", "parquet", "-c", QUERY]);
        assert!(!output.status.success());
        assert!(stderr(&output).contains("--output FILE"));
    });
}

#[test]
fn a_result_that_parquet_cannot_take_leaves_files_as_they_were() {
    each(|base| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.parquet");
        let write = |query: &str| {
            with(base, &["--format", "parquet", "-o", path.to_str().unwrap(), "-c", query])
        };
        let files = || std::fs::read_dir(directory.path()).unwrap().count();
        let unfit = write("SELECT 1 AS n, INTERVAL '1 day' AS i");
        assert!(!unfit.status.success());
        let text = stderr(&unfit);
        assert!(
            text.contains("column \"i\" contains interval") && text.contains("::text"),
            "{text}"
        );
        assert_eq!(files(), 0);

        good(&write("SELECT 1 AS n"));
        let before = std::fs::read(&path).unwrap();
        assert!(!write("SELECT INTERVAL '1 day' AS i").status.success());
        // Rows come before the failing row.
        let late = write("SELECT 1 / (n - 60000) FROM generate_series(1, 60000) AS g(n)");
        assert!(stderr(&late).contains("22012"), "{}", stderr(&late));
        assert_eq!(std::fs::read(&path).unwrap(), before);
        assert_eq!(files(), 1);
        good(&write("SELECT 2 AS n"));
        assert_ne!(std::fs::read(&path).unwrap(), before);
        assert_eq!(files(), 1);
    });
}

#[test]
fn a_directory_without_a_database_is_refused_and_not_made() {
    let directory = tempfile::tempdir().unwrap();
    let (typo, empty) = (directory.path().join("typo"), directory.path().join("empty"));
    std::fs::create_dir(&empty).unwrap();
    for (path, reason) in [
        (&typo, "the directory does not exist"),
        (&empty, "the file FORMAT of a data directory is missing"),
    ] {
        let data = path.to_str().unwrap();
        for flags in
            [&["sql", "-c", "SELECT 1"][..], &["import", "-", "--format", "csv", "-t", "t"]]
        {
            let output = run(&[flags, &["--data-dir", data]].concat());
            assert_eq!(output.status.code(), Some(1));
            let text = stderr(&output);
            let expected = format!("there is no Stratalog database in {data}: {reason}");
            assert!(text.contains(&expected) && text.contains("stratalog serve"), "{text}");
        }
    }
    assert!(!typo.exists());
    assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0);
}

#[test]
fn errors_tell_sqlstate_place_and_end_the_run() {
    each(|base| {
        let output =
            with(base, &["-c", "SELECT 1; SELECT nope FROM t; SELECT 2", "-c", "SELECT 3"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).starts_with("ERROR:  42703: "), "{}", stderr(&output));
        assert!(stdout(&output).contains("(1 row)") && !stdout(&output).contains('2'));
        let output = with(base, &["-c", "SELEC 1"]);
        assert!(stderr(&output).starts_with("ERROR:  42601: "), "{}", stderr(&output));
        assert!(with(base, &["-c", "\\nonsense"]).status.code() == Some(1));
    });
}

#[test]
fn scripts_come_from_files_and_pipes_with_copy_data_inside() {
    each(|base| {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("script.sql");
        let (included, copied) =
            (directory.path().join("included.sql"), directory.path().join("copied.csv"));
        std::fs::write(&included, "SELECT 'inc' || 'luded'").unwrap();
        std::fs::write(
            &script,
            format!(
                "CREATE TABLE s (time TIMESTAMPTZ NOT NULL, v TEXT);\nCOPY s FROM STDIN;\n2026-01-01\ta;b\n2026-01-02\t\\N\n\\.\nSELECT count(*),\n  count(v) FROM s;\n\\i {}\n\\format csv\n\\o {}\nSELECT v FROM s ORDER BY time;\n\\o\n\\x\nDROP TABLE s",
                included.display(),
                copied.display()
            ),
        )
        .unwrap();
        let text = good(&with(base, &["-f", script.to_str().unwrap()]));
        assert!(text.contains("COPY 2"), "{text}");
        assert!(text.contains(" 2 | "), "{text}");
        assert!(text.contains("included"), "{text}");
        assert_eq!(std::fs::read_to_string(&copied).unwrap(), "v\na;b\n\n");
        let piped = run_with_input(
            &[base, &["--format", "csv"]].concat(),
            "select 1 as one;\nselect\n2 as two",
        );
        assert_eq!(good(&piped), "one\n1\ntwo\n2\n");
        let copied = good(&with(
            base,
            &["-c", "COPY (SELECT host, n FROM t ORDER BY n) TO STDOUT (FORMAT csv, HEADER)"],
        ));
        assert!(copied.starts_with("host,n\n\"ü\"\"\",-2\n\"a,b\",1\n"), "{copied}");
    });
}

#[test]
fn backslash_commands_show_databases_schemas_and_tables() {
    each(|base| {
        let ask = |command: &str| good(&with(base, &["--format", "csv", "-c", command]));
        assert!(ask("\\l").contains("\nstratalog\n"), "{}", ask("\\l"));
        assert!(ask("\\dn").contains("\npublic\n"));
        assert!(ask("\\dt").contains("\npublic,t\n"), "{}", ask("\\dt"));
        assert!(ask("\\dt x*").lines().count() == 1);
        let described = ask("\\d t");
        assert!(described.contains("\nhost,text,not null,"), "{described}");
        assert!(described.contains("\nd,\"numeric(10,2)\",\"\","), "{described}");
        let table = good(&with(base, &["-c", "\\d t"]));
        assert!(
            table.contains(
                "\n host | time | 1ns         | 1ns   | first     | column    | disk       |    2\n"
            ),
            "{table}"
        );
        let missing = with(base, &["-c", "\\d nope"]);
        assert!(stderr(&missing).contains("42P01"), "{}", stderr(&missing));
        assert!(ask("\\?").contains("\\timing"));
        assert!(ask("\\h").contains("CREATE TABLE"));
    });
}

#[test]
fn no_server_is_said_with_what_to_do() {
    let output = run(&["sql", "-p", "1", "-c", "select 1"]);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains("cannot connect to 127.0.0.1:1"), "{text}");
    assert!(text.contains("stratalog serve"), "{text}");
    let output = run(&["sql", "--url", "nonsense://x", "-c", "select 1"]);
    assert!(stderr(&output).contains("is not a server URL"), "{}", stderr(&output));
}

#[test]
fn ctrl_c_cancels_the_running_statement() {
    each(|base| {
        let child = crate::support::stratalog()
            .args(base)
            .args(["-c", "SELECT pg_sleep(60)"])
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let start = std::time::Instant::now();
        std::thread::sleep(std::time::Duration::from_millis(1500));
        crate::support::signal(child.id(), "INT");
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains("57014"), "{}", stderr(&output));
        assert!(start.elapsed().as_secs() < 30);
    });
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let bench = Bench::new();
    let mut child = crate::support::stratalog()
        .args(["sql", "-p", &bench.port(), "--format", "csv"])
        .args(["-c", "SELECT * FROM generate_series(1, 1000000)"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && stderr(&output).is_empty(), "{}", stderr(&output));
}
