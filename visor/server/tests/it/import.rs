//! `stratalog import`.

use std::{fmt::Write as _, process::Output, time::Duration};

use crate::support::{Bench, good, run, run_with_input, stderr, stratalog};

fn import(bench: &Bench, flags: &[&str]) -> Output {
    let port = bench.port();
    run(&[&["import", "-p", port.as_str()], flags].concat())
}

fn csv(rows: usize) -> String {
    let mut text = String::from("time,host,value\n");
    for row in 0..rows {
        let _ = writeln!(
            text,
            "2026-01-01 {:02}:{:02}:{:02}+00,h{},{}",
            row / 3600 % 24,
            row / 60 % 60,
            row % 60,
            row / 86_400,
            row as f64 / 4.0
        );
    }
    text
}

#[test]
fn each_format_makes_its_table_over_the_wire_and_in_process() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(file("in.csv"), csv(1000)).unwrap();
    let mut lines = String::new();
    for row in 0..1000 {
        let _ = writeln!(
            lines,
            "{{\"time\": \"2026-01-01T00:{:02}:{:02}Z\", \"host\": \"h0\", \"value\": {}}}",
            row / 60,
            row % 60,
            row as f64 / 4.0
        );
    }
    std::fs::write(file("in.ndjson"), lines).unwrap();

    let mut bench = Bench::new();
    let make = ["--create", "--key", "host"];
    good(&import(&bench, &[&[file("in.csv").as_str(), "-t", "c"][..], &make].concat()));
    good(&import(&bench, &[&[file("in.ndjson").as_str(), "-t", "n"][..], &make].concat()));
    good(&bench.sql(&["--format", "parquet", "-o", &file("in.parquet"), "-c", "SELECT * FROM c"]));
    good(&import(&bench, &[&[file("in.parquet").as_str(), "-t", "p"][..], &make].concat()));
    let facts = |table: &str| format!("SELECT count(*), sum(value) FROM {table}");
    for table in ["c", "n", "p"] {
        assert_eq!(bench.value(&facts(table)), "1000,124875", "{table}");
    }
    bench.server.kill().unwrap();
    let data = bench.directory.path().join("data");
    let data = data.to_str().unwrap();
    for (name, table) in [("in.csv", "c2"), ("in.ndjson", "n2"), ("in.parquet", "p2")] {
        let flags = ["import", &file(name), "-t", table, "--data-dir", data];
        let text = good(&run(&[&flags[..], &make].concat()));
        assert!(text.starts_with(&format!("1000 rows into {table} in ")), "{text}");
        let asked = run(&["sql", "--data-dir", data, "--format", "csv", "-c", &facts(table)]);
        assert_eq!(good(&asked).lines().nth(1), Some("1000,124875"), "{table}");
    }
}

#[test]
fn an_export_and_import_keep_the_ids_of_events() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).display().to_string();
    let bench = Bench::new();
    let port = bench.port();
    good(&bench.sql(&[
        "-c",
        "CREATE TABLE a (host TEXT NOT NULL, \"at time\" TIMESTAMPTZ NOT NULL, v BIGINT, PRIMARY KEY (host, \"at time\"))
         WITH (granularity = '10us', base = '1764132000000000000ns', collision = 'last')",
        "-c",
        "INSERT INTO a VALUES ('x', '2026-01-01 00:00:00.5', 1), ('y', '1999-01-01', 2), ('z', '2026-01-01', 3)",
    ]));
    let ids = |table: &str| {
        bench.value(&format!(
            "SELECT string_agg(host || _tick || ' ' || v, ' ' ORDER BY host) FROM {table}"
        ))
    };
    let tick = |table: &str| {
        bench.value(&format!(
            "SELECT base_ns || native_granularity || collision || array_to_string(key_columns, ',') || tick_column FROM stratalog.chronicles WHERE name = '{table}'"
        ))
    };
    let export = |name: &str| run(&["export", &file(name), "-t", "a", "-p", &port]);
    let output = export("a.parquet");
    good(&output);
    assert!(!stderr(&output).contains("event ids"));
    good(&import(&bench, &[&file("a.parquet"), "-t", "b", "--create"]));
    assert_eq!((ids("b"), tick("b")), (ids("a"), tick("a")));
    // Flags of the command line take precedence.
    let own = ["--with", "base=0ns", "--with", "granularity=1s"];
    good(&import(
        &bench,
        &[&[file("a.parquet").as_str(), "-t", "c", "--create"][..], &own].concat(),
    ));
    assert_eq!(tick("c"), "01slasthostat time");
    for form in ["csv", "ndjson"] {
        let output = export(&format!("a.{form}"));
        good(&output);
        let told = stderr(&output);
        let flags = told.split_once("import … ").expect("the flags are told").1.trim();
        assert_eq!(
            flags,
            "--create --time 'at time' --key host --with granularity=10us --with base=1764132000000000000ns --with collision=last"
        );
        let flags = flags.replace("'at time'", "at_time");
        let flags = flags.split(' ').map(|flag| if flag == "at_time" { "at time" } else { flag });
        let file = file(&format!("a.{form}"));
        let flags: Vec<&str> = [file.as_str(), "-t", form].into_iter().chain(flags).collect();
        good(&import(&bench, &flags));
        assert_eq!((ids(form), tick(form)), (ids("a"), tick("a")), "{form}");
    }
    // A query is not a table.
    good(&run(&["export", &file("q.parquet"), "--query", "SELECT * FROM a", "-p", &port]));
    good(&import(&bench, &[&file("q.parquet"), "-t", "q", "--create"]));
    assert_ne!(ids("q"), ids("a"));
    let wrong = import(&bench, &[&file("a.csv"), "-t", "w", "--create", "--with", "base"]);
    assert!(stderr(&wrong).contains("is not an option with a value"), "{}", stderr(&wrong));
}

#[test]
fn the_flags_of_an_export_take_keys_with_commas() {
    let bench = Bench::new();
    let path = bench.directory.path().join("k.csv").display().to_string();
    good(&bench.sql(&[
        "-c",
        "CREATE TABLE a (time TIMESTAMPTZ NOT NULL, \"k,2\" TEXT NOT NULL, \"K ey\" TEXT NOT NULL, v BIGINT, PRIMARY KEY (\"K ey\", \"k,2\", time))",
        "-c",
        "INSERT INTO a VALUES ('2026-01-01', 'x', 'y', 1)",
    ]));
    let output = run(&["export", &path, "-t", "a", "-p", &bench.port()]);
    good(&output);
    let told = stderr(&output);
    assert!(told.contains(" --key '\"K ey\",\"k,2\"' --with"), "{told}");
    let key = "\"K ey\",\"k,2\"";
    good(&import(&bench, &[&path, "-t", "b", "--create", "--key", key]));
    let keys =
        "SELECT array_to_string(key_columns, ';') FROM stratalog.chronicles WHERE name = 'b'";
    assert_eq!(bench.value(keys), "\"K ey;k,2\"");
    let open = import(&bench, &[&path, "-t", "c", "--create", "--key", "\"K ey"]);
    assert_eq!(open.status.code(), Some(2));
    assert!(stderr(&open).contains("ends with a double quote"), "{}", stderr(&open));
}

#[test]
fn a_failed_import_says_that_its_table_stays() {
    let bench = Bench::new();
    let path = bench.directory.path().join("late.csv").display().to_string();
    std::fs::write(&path, "time,v\n2026-01-01,1\n2026-01-02,2\n2026-01-03,x\n").unwrap();
    let few = [path.as_str(), "-t", "My", "--create", "--infer-rows", "2"];
    let said = stderr(&import(&bench, &few));
    assert!(said.contains("No row is stored; the new table \"My\" exists."), "{said}");
    assert!(said.contains("DROP TABLE \"My\"") && said.contains("--infer-rows"), "{said}");
    let again = stderr(&import(&bench, &few));
    assert!(again.contains("Nothing is stored.") && !again.contains("DROP TABLE"), "{again}");
    assert!(again.contains("--create does not change its columns"), "{again}");
    good(&bench.sql(&["-c", "DROP TABLE \"My\""]));
    good(&import(&bench, &[path.as_str(), "-t", "My", "--create"]));
    assert_eq!(bench.value("SELECT string_agg(v, '' ORDER BY time) FROM \"My\""), "12x");
}

#[test]
fn dates_become_times_of_their_midnight() {
    let bench = Bench::new();
    let path = bench.directory.path().join("days.csv");
    std::fs::write(&path, "n,date\n1,2026-01-01\n2,1969-12-31\n").unwrap();
    good(&import(&bench, &[path.to_str().unwrap(), "-t", "days", "--create"]));
    assert_eq!(
        bench.value("SELECT string_agg(date::text || ' ' || n, ', ' ORDER BY date) FROM days"),
        "\"1969-12-31 00:00:00 2, 2026-01-01 00:00:00 1\""
    );
}

#[test]
fn standard_input_and_other_delimiters_are_read() {
    let bench = Bench::new();
    good(&bench.sql(&["-c", "CREATE TABLE t (time TIMESTAMPTZ NOT NULL, a BIGINT, b TEXT)"]));
    let port = bench.port();
    let flags = [
        "import",
        "-",
        "-t",
        "t",
        "-p",
        &port,
        "--format",
        "csv",
        "--no-header",
        "--delimiter",
        "tab",
        "--null",
        "NA",
    ];
    let output = run_with_input(&flags, "2026-01-01\tNA\tx\n2026-01-02\t2\tNA\n");
    assert!(good(&output).starts_with("2 rows into t"));
    assert_eq!(
        bench.value("SELECT count(a) || ' ' || count(b) || ' ' || count(*) FROM t"),
        "1 1 2"
    );
}

#[test]
fn lines_end_as_windows_ends_them_and_the_last_may_not_end() {
    let bench = Bench::new();
    let port = bench.port();
    for (table, end) in [("windows", "\r\n"), ("unix", "\n")] {
        let text = ["time,k,v", "2026-01-01 00:00:00,a,1", "2026-01-02 00:00:00,b,2"].join(end);
        let flags = ["import", "-", "-p", &port, "-t", table, "--format", "csv", "--create"];
        assert!(good(&run_with_input(&flags, &text)).starts_with("2 rows into"), "{table}");
        let found =
            bench.value(&format!("SELECT string_agg(k || v, ',' ORDER BY time) FROM {table}"));
        assert_eq!(found.trim_matches('"'), "a1,b2");
    }
}

#[test]
fn an_error_names_the_line_of_the_file_and_what_is_stored() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bad.csv");
    let mut text = csv(25);
    text.push_str("2026-01-01 00:00:25+00,h0,oops\n");
    text.push_str("2026-01-01 00:00:26+00,h0,1\n");
    std::fs::write(&path, &text).unwrap();
    let path = path.to_str().unwrap();
    let bench = Bench::new();
    good(&bench.sql(&[
        "-c",
        "CREATE TABLE t (time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, value DOUBLE PRECISION, PRIMARY KEY (host, time))",
    ]));
    let flags = [path, "-t", "t", "--batch-rows", "10", "--producer", "mend"];
    let output = import(&bench, &flags);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("22P02"), "{said}");
    assert!(said.contains("line 27, column value"), "{said}");
    assert!(
        said.contains("Rows 1 to 20 are stored; no row of the failed batch is stored."),
        "{said}"
    );
    assert!(said.contains("run the same command again"), "{said}");
    assert_eq!(bench.value("SELECT count(*) FROM t"), "20");

    std::fs::write(path, text.replace("oops", "0")).unwrap();
    let output = good(&import(&bench, &flags));
    assert!(output.starts_with("7 rows into t"), "{output}");
    assert!(output.contains("20 rows were stored before"), "{output}");
    assert_eq!(bench.value("SELECT count(*) FROM t"), "27");
}

#[test]
fn an_import_resumes_with_batches_of_any_size() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(file("in.csv"), csv(95)).unwrap();
    let start: String =
        csv(95).lines().take(51).flat_map(|line| [line, "\n"]).collect::<String>() + "oops,h0,1\n";
    std::fs::write(file("start.csv"), start).unwrap();
    let bench = Bench::new();
    for (at, rows) in ["1", "7", "20", "33", "50", "64", "1000"].into_iter().enumerate() {
        for (table, key) in [("keyless", ""), ("keyed", ", PRIMARY KEY (host, time)")] {
            let table = format!("{table}{at}");
            good(&bench.sql(&[
                "-c",
                &format!("CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, host TEXT, value DOUBLE PRECISION{key})"),
            ]));
            let first = ["-t", &table, "--producer", &table, "--batch-rows", "10"];
            let cut = import(&bench, &[&[file("start.csv").as_str()][..], &first].concat());
            assert!(stderr(&cut).contains("Rows 1 to 50 are stored"), "{}", stderr(&cut));
            let again = ["-t", &table, "--producer", &table, "--batch-rows", rows];
            let output = good(&import(&bench, &[&[file("in.csv").as_str()][..], &again].concat()));
            assert!(output.starts_with("45 rows into"), "{rows}: {output}");
            assert!(output.contains("50 rows were stored before"), "{rows}: {output}");
            assert_eq!(
                bench.value(&format!(
                    "SELECT count(*) || ' ' || count(DISTINCT value) FROM {table}"
                )),
                "95 95",
                "{rows}"
            );
        }
    }
}

#[test]
fn another_input_under_the_same_producer_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(file("long.csv"), csv(40)).unwrap();
    std::fs::write(file("short.csv"), csv(30)).unwrap();
    let bench = Bench::new();
    let import =
        |name: &str| import(&bench, &[&file(name), "-t", "t", "--create", "--producer", "same"]);
    good(&import("long.csv"));
    let output = good(&import("long.csv"));
    assert!(output.starts_with("0 rows into t"), "{output}");
    assert!(output.contains("all 40 rows were stored before under this --producer"), "{output}");
    let short = import("short.csv");
    assert_eq!(short.status.code(), Some(1));
    let said = stderr(&short);
    assert!(said.contains("the input ends after 30 rows, but 40 rows are stored"), "{said}");
    assert_eq!(bench.value("SELECT count(*) FROM t"), "40");
}

#[test]
fn a_producer_is_one_of_its_table() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(file("rows.csv"), csv(40)).unwrap();
    std::fs::write(file("more.csv"), csv(45)).unwrap();
    let bench = Bench::new();
    let daily = |name: &str, table: &str| {
        let flags = [&file(name), "-t", table, "--create", "--producer", "daily"];
        good(&import(&bench, &flags))
    };
    for table in ["ta", "It's \"tb\"", "public.tc"] {
        let output = daily("rows.csv", table);
        assert!(output.starts_with("40 rows into") && !output.contains("before"), "{output}");
        let output = daily("rows.csv", table);
        assert!(output.starts_with("0 rows into"), "{table}: {output}");
    }
    good(&bench.sql(&["-c", "DROP TABLE ta"]));
    let output = daily("rows.csv", "ta");
    assert!(output.starts_with("40 rows into ta"), "{output}");
    let output = daily("more.csv", "ta");
    assert!(output.starts_with("5 rows into ta"), "{output}");
    assert!(output.contains("skipped the first 40 rows of the input"), "{output}");
    assert_eq!(bench.value("SELECT count(*) FROM ta"), "45");
}

#[test]
fn mistakes_on_the_command_line_are_explained() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("in.csv");
    std::fs::write(&path, "a,b\n1,2\n").unwrap();
    let path = path.to_str().unwrap();
    let bench = Bench::new();
    for (flags, reason) in [
        (vec![path, "-t", "t", "--create"], "no column of the input contains timestamps"),
        (vec![path, "-t", "nope"], "42P01"),
        (vec!["/no/such.csv", "-t", "t"], "ERROR:  cannot read /no/such.csv"),
        (vec![path, "-t", "t", "--delimiter", "ab"], "must be one ASCII character"),
        (vec!["in.xyz", "-t", "t"], "does not tell its format"),
        (vec![path, "-t", "u"], "column \"a\" of the header is not a column of the table"),
    ] {
        if flags.contains(&"u") {
            good(&bench.sql(&["-c", "CREATE TABLE u (time TIMESTAMPTZ NOT NULL, b BIGINT)"]));
        }
        let output = import(&bench, &flags);
        assert_eq!(output.status.code(), Some(1), "{flags:?}");
        assert!(stderr(&output).contains(reason), "{flags:?}: {}", stderr(&output));
    }
}

#[test]
fn an_import_that_the_servers_end_cut_short_resumes_exactly() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("long.csv");
    let rows = 40_000;
    std::fs::write(&path, csv(rows)).unwrap();
    let path = path.to_str().unwrap();
    let mut bench = Bench::new();
    // Without a key, only the producer's numbers prevent a second store of a row.
    good(&bench.sql(&[
        "-c",
        "CREATE TABLE t (time TIMESTAMPTZ NOT NULL, host TEXT, value DOUBLE PRECISION)",
    ]));
    let flags = |port: &str| -> Vec<String> {
        ["import", path, "-t", "t", "--batch-rows", "100", "--producer", "resumed", "-p", port]
            .map(str::to_string)
            .to_vec()
    };
    let mut child = stratalog()
        .args(flags(&bench.port()))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while bench.value("SELECT count(*) FROM t").parse::<usize>().unwrap() < 500 {
        std::thread::sleep(Duration::from_millis(5));
    }
    bench.server.kill().unwrap();
    assert!(!child.wait().unwrap().success());
    bench.kill_and_restart();
    let stored: usize = bench.value("SELECT count(*) FROM t").parse().unwrap();
    assert!((500..rows).contains(&stored) && stored.is_multiple_of(100), "{stored}");
    let port = bench.port();
    let again: Vec<String> = flags(&port);
    let output = good(&stratalog().args(&again).output().unwrap());
    assert!(output.contains(&format!("{stored} rows were stored before")), "{output}");
    assert_eq!(
        bench.value("SELECT count(*) || ' ' || count(DISTINCT value) FROM t"),
        format!("{rows} {rows}")
    );
}
