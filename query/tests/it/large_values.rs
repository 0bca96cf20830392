//! Values made by expressions are charged to the statement, and fail only the statement (CL-10).

use std::time::{Duration, Instant};

use stratalog_model::ErrorKind;
use stratalog_query::QuerySettings;

use crate::harness::Database;

fn small() -> Database {
    Database::with(QuerySettings { memory_bytes_max: 256 << 20, ..QuerySettings::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn values_past_the_limit_of_a_value_are_refused() {
    let db = small();
    for value in [
        "repeat('a', 2000000000)",
        "lpad('x', 2000000000)",
        "rpad('x', 1500000000, 'ab')",
        "replace(repeat('a', 1000000), 'a', repeat('b', 10000))",
        "array_to_string(array_fill('a'::text, array[100000]), repeat('b', 20000))",
        "concat_ws(repeat('-', 100000), array_to_string(array_fill('a'::text, array[100]), repeat('b', 20000000)))",
        "format('%2000000000s', 'x')",
    ] {
        let sql = format!("SELECT length({value})");
        assert_eq!(db.kind(&sql).await, ErrorKind::LimitExceeded, "{value}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_past_the_budget_fail_their_statement() {
    let db = small();
    let joined = vec!["repeat('x', 100000000)"; 30].join(" || ");
    let nested = vec!["repeat('x', 100000000)"; 20].join(" || (");
    for sql in [
        "SELECT length(repeat('x', 1000000000))".to_string(),
        format!("SELECT length({joined})"),
        format!("SELECT length({nested}{})", ")".repeat(19)),
        "SELECT length(regexp_replace(repeat('a', 1000000), 'a', repeat('b', 1000), 'g'))"
            .to_string(),
        "SELECT array_length(regexp_split_to_array(repeat('a', 30000000), ''), 1)".to_string(),
        "SELECT array_length(string_to_array(repeat('a', 30000000), NULL), 1)".to_string(),
        "SELECT length(string_agg(repeat('x', 1000000), ',')) FROM generate_series(1, 900) g"
            .to_string(),
        "SELECT length(string_agg(g::text, repeat('x', 1000000))) FROM generate_series(1, 900) g"
            .to_string(),
        "SELECT array_length(array_agg(repeat('x', 1000000) || g), 1) FROM generate_series(1, 900) g"
            .to_string(),
        "SELECT length(jsonb_agg(repeat('x', 1000000) || g)::text) FROM generate_series(1, 900) g"
            .to_string(),
        "WITH RECURSIVE r(s) AS (SELECT 'x'::text UNION ALL SELECT s || s FROM r WHERE length(s) < 1000000000) SELECT max(length(s)) FROM r"
            .to_string(),
        "SELECT count(*) OVER () FROM generate_series(1, 50000000) LIMIT 1".to_string(),
        "SELECT max(length(s)) FROM (VALUES (repeat('x', 90000000)), (repeat('y', 90000000)), (repeat('z', 90000000))) v(s)"
            .to_string(),
    ] {
        let kind = db.kind(&sql).await;
        assert!(
            matches!(kind, ErrorKind::OutOfMemory | ErrorKind::LimitExceeded | ErrorKind::DiskFull),
            "{sql}: {kind:?}"
        );
        // The memory of the failed statement is free again.
        let bystander = "SELECT length(repeat('x', 100000000))";
        assert_eq!(db.rows(bystander).await, ["100000000"], "{sql}");
    }
}

/// The grouping may or may not spill in time.
#[tokio::test(flavor = "multi_thread")]
async fn groups_of_long_values_give_their_memory_back() {
    let db = small();
    let sql = "SELECT count(*) FROM (SELECT g, repeat('x', 1000000) || g AS s FROM generate_series(1, 900) g) q GROUP BY s HAVING length(s) < 0";
    for _ in 0..3 {
        match db.run(sql).await {
            Ok(answer) => assert_eq!(answer.lines(), Vec::<String>::new()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}"),
        }
        assert_eq!(db.rows("SELECT length(repeat('x', 100000000))").await, ["100000000"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_values_are_made_row_by_row() {
    let db = small();
    let series = "FROM generate_series(1, 2000) AS g(i)";
    for (sql, answer) in [
        (format!("SELECT sum(length(repeat('x', 1000000))) {series}"), "2000000000"),
        (format!("SELECT sum(length(repeat('x', 1000000 + i % 2))) {series}"), "2000001000"),
        (
            format!("SELECT count(*) {series} WHERE length(repeat('x', 500000 + i)) > 500100"),
            "1900",
        ),
        (
            format!(
                "SELECT max(length(s)) FROM (SELECT repeat('x', 1000000) || i AS s {series}) q"
            ),
            "1000004",
        ),
        (
            format!(
                "SELECT count(*) FROM (SELECT repeat('x', 1000000) AS s {series}) q WHERE s <> 'y'"
            ),
            "2000",
        ),
        (
            format!(
                "SELECT count(*) FROM (SELECT CASE WHEN i > 5 THEN repeat('x', 1000000) ELSE 'y' END AS s {series}) q WHERE s <> 'y'"
            ),
            "1995",
        ),
        (
            format!("SELECT sum(length(replace('a' || i, 'a', repeat('b', 100000)))) {series}"),
            "200006893",
        ),
        (format!("SELECT sum(length(lpad(i::text, 200000, '-+'))) {series}"), "400000000"),
        ("SELECT length(repeat('x', 100000) || repeat('y', 100000))".to_string(), "200000"),
    ] {
        assert_eq!(db.rows(&sql).await, [answer], "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_of_more_than_fits_is_an_error() {
    let db = small();
    db.tag("CREATE TABLE t (time TIMESTAMPTZ PRIMARY KEY, s TEXT)").await;
    let rows = "generate_series(1, 100000) AS g(i)";
    let sql = format!(
        "INSERT INTO t SELECT timestamptz '2024-01-01' + i * interval '1 second', repeat('x', 1000000) FROM {rows}"
    );
    db.tag("SET statement_timeout = '5s'").await;
    let kind = db.kind(&sql).await;
    assert!(
        matches!(
            kind,
            ErrorKind::OutOfMemory | ErrorKind::LimitExceeded | ErrorKind::QueryCanceled
        ),
        "{kind:?}"
    );
    db.tag("SET statement_timeout = 0").await;
    assert_eq!(db.rows("SELECT count(*) FROM t").await, ["0"]);
    let few = sql.replace("100000)", "20)");
    assert_eq!(db.tag(&few).await, "INSERT 0 20");
    assert_eq!(db.rows("SELECT sum(length(s)) FROM t").await, ["20000000"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_ends_one_long_expression_or_plan() {
    let db = Database::new();
    let members: Vec<String> = (0..500_000).map(|n| n.to_string()).collect();
    let list = members.join(",");
    for sql in [
        "SELECT levenshtein(repeat('a', 100000), repeat('b', 100000))".to_string(),
        // Each `a` searches the whole remaining text for a `c`.
        "SELECT length(regexp_replace(repeat('a', 3000000), '(?=a*c)a', 'b', 'g'))".to_string(),
        "SELECT count(*) FROM regexp_split_to_table(repeat('a,b', 3000000), '(?=,),') AS s".to_string(),
        "SELECT count(*) FROM generate_series(1, 10000000) g WHERE regexp_replace('aaa' || g, '(?=1)1', 'b', 'g') = 'x'".to_string(),
        "SELECT regexp_count(repeat('ab', 2000000), '(?<=a)b(?=a[ab]*c)')".to_string(),
        "SELECT string_agg(md5(g::text), ',') FROM generate_series(1, 1000000000) g".to_string(),
        "SELECT g FROM generate_series(1, 1000000000) g ORDER BY md5(g::text) LIMIT 1".to_string(),
        "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b".to_string(),
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n".to_string(),
        "SELECT max(g) FROM generate_series(1, 100000000000) g".to_string(),
        "SELECT pg_sleep(100)".to_string(),
        // The planning takes cubic time.
        format!("SELECT {}", ["g"; 240].join(" + ")) + " FROM generate_series(1, 2) g",
        format!("SELECT {}g{} FROM generate_series(1, 2) g", "(".repeat(200), " + 1)".repeat(200)),
        format!("SELECT count(*) FROM generate_series(1, 10000000000) g WHERE g + 1 IN ({list})"),
    ] {
        db.tag("SET statement_timeout = '500ms'").await;
        let started = Instant::now();
        let error = db.error(&sql).await;
        let shown = &sql[..sql.len().min(100)];
        assert_eq!(error.kind(), ErrorKind::QueryCanceled, "{shown}: {error}");
        assert!(started.elapsed() < Duration::from_secs(20), "{shown}: {:?}", started.elapsed());
        println!("{shown}: {:?}", started.elapsed());
        db.tag("SET statement_timeout = 0").await;
    }
}
