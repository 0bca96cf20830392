//! Filters return the same rows with and without pushdown.

use proptest::{prelude::*, test_runner::TestRunner};

use crate::harness::Database;

/// Tables of different granularity, timestamp type and index, with ticks on both sides of the base.
const TABLES: &[(&str, &str, &str, &str)] = &[
    ("fine", "timestamptz", "1ns", "1min"),
    ("coarse", "timestamptz", "10s", "10s"),
    ("millis", "timestamptz(3)", "1s", "7s"),
    ("seconds", "timestamp(0)", "1min", "5min"),
    ("plain", "timestamp(6)", "1us", "1s"),
];

async fn database() -> Database {
    let db = Database::new();
    for (name, time, granularity, index) in TABLES {
        db.tag(&format!("CREATE TABLE {name} (time {time} NOT NULL, k int NOT NULL, s text NOT NULL, v int, PRIMARY KEY (k, s, time)) WITH (collision = 'last', granularity = '{granularity}')")).await;
        let values: Vec<String> = (0..240)
            .map(|i: i64| {
                // Minutes around the base (2024-01-01), fractions of all sizes.
                let second = (i - 120) * 7;
                let fraction = [0, 500_000, 999_999, 1, 123_456][(i % 5) as usize];
                let base = 1_704_067_200 + second;
                let at = chrono::DateTime::from_timestamp(base, fraction * 1000).unwrap();
                format!(
                    "('{}', {}, 's{}', {})",
                    at.format("%Y-%m-%d %H:%M:%S%.6f+00"),
                    i % 4,
                    i % 3,
                    i
                )
            })
            .collect();
        db.tag(&format!("INSERT INTO {name} VALUES {}", values.join(", "))).await;
        db.tag(&format!("ALTER TABLE {name} SET (granularity = '{index}')")).await;
    }
    db
}

#[derive(Debug, Clone)]
struct Filter {
    sql: String,
}

fn moment() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => (-900i64..900, prop::sample::select(vec![0u32, 1, 500_000, 999_999, 123_456]))
            .prop_map(|(second, micros)| {
                let at = chrono::DateTime::from_timestamp(1_704_067_200 + second, micros * 1000).unwrap();
                at.format("'%Y-%m-%d %H:%M:%S%.6f+00'").to_string()
            }),
        1 => Just("'1700-01-01 00:00:00+00'".to_string()),
        1 => Just("'2200-01-01 00:00:00+00'".to_string()),
    ]
}

fn comparison() -> impl Strategy<Value = String> {
    let operator = prop::sample::select(vec!["=", "<>", "<", "<=", ">", ">="]);
    prop_oneof![
        (operator.clone(), moment()).prop_map(|(op, at)| format!("time {op} {at}")),
        (operator.clone(), moment()).prop_map(|(op, at)| format!("{at} {op} time")),
        (moment(), moment()).prop_map(|(a, b)| format!("time BETWEEN {a} AND {b}")),
        (moment(), moment()).prop_map(|(a, b)| format!("time NOT BETWEEN {a} AND {b}")),
        (moment(), moment()).prop_map(|(a, b)| format!("time IN ({a}, {b})")),
        (operator.clone(), moment())
            .prop_map(|(op, at)| format!("time {op} CAST({at} AS timestamptz(3))")),
        (operator, -90..90i64).prop_map(|(op, group)| format!("_group {op} {group}")),
        (-15..15i64, 0..9i64)
            .prop_map(|(group, more)| format!("_group BETWEEN {group} AND {}", group + more)),
        (-15..15i64, -90..90i64).prop_map(|(a, b)| format!("_group IN ({a}, {b})")),
        Just("time IS NOT NULL".to_string()),
        (0..6i32).prop_map(|k| format!("k = {k}")),
        (0..6i32, 0..6i32).prop_map(|(a, b)| format!("k IN ({a}, {b}, NULL)")),
        (0..4i32).prop_map(|s| format!("s = 's{s}'")),
        (0..4i32, 0..4i32).prop_map(|(a, b)| format!("s IN ('s{a}', 's{b}')")),
        (0..4i32).prop_map(|s| format!("s <> 's{s}'")),
        (0..240i32).prop_map(|v| format!("v < {v}")),
        (0..60i32).prop_map(|m| format!("extract(minute FROM time) = {m}")),
        (0..3i32).prop_map(|m| format!("extract(minute FROM time)::int % 3 = {m}")),
        (0..24i32).prop_map(|h| format!("extract(hour FROM time) IN (0, {h})")),
        (0..7i32).prop_map(|d| format!("date_part('dow', time) = {d}")),
        Just("time::date = '2024-01-01'".to_string()),
        moment().prop_map(|at| format!("date_trunc('minute', time) >= {at}")),
        Just("k = 3000000000".to_string()),
        Just("k = NULL".to_string()),
    ]
}

fn filter() -> impl Strategy<Value = Filter> {
    let leaf = comparison();
    leaf.prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} AND {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} OR {b})")),
            inner.prop_map(|a| format!("(NOT {a})")),
        ]
    })
    .prop_map(|sql| Filter { sql })
}

#[test]
fn pushed_filters_agree_with_plain_ones() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let db = runtime.block_on(database());
    runtime.block_on(db.tag("SET TimeZone = 'Asia/Kathmandu'"));
    let mut runner = TestRunner::new(ProptestConfig { cases: 400, ..ProptestConfig::default() });
    runner
        .run(&(filter(), 0..TABLES.len()), |(filter, table)| {
            let (name, time, _, _) = TABLES[table];
            let sql = &filter.sql;
            // Outside of a WHERE clause there is no pushdown: the comparison is evaluated for each
            // row.
            let plain = format!("SELECT v FROM (SELECT v, ({sql}) AS hit FROM {name} OFFSET 0) q WHERE hit ORDER BY v");
            let pushed = format!("SELECT v FROM {name} WHERE {sql} ORDER BY v");
            let sql_zone = time.starts_with("timestamp(") || !sql.contains("timestamptz");
            let _ = sql_zone;
            let (plain, pushed) = runtime.block_on(async { (db.rows(&plain).await, db.rows(&pushed).await) });
            prop_assert_eq!(plain, pushed);
            Ok(())
        })
        .unwrap();
}

#[tokio::test]
async fn plans_show_what_was_pushed() {
    let db = database().await;
    let plan = db
        .plan("SELECT v FROM fine WHERE time = '2024-01-01 00:00:00+00' AND k = 2 AND s = 's1'")
        .await;
    assert!(!plan.contains("FilterExec"), "{plan}");
    assert!(plan.contains("keys=k in 1 value(s)"), "{plan}");
    let plan = db.plan("SELECT v FROM fine WHERE time > '2024-01-01 00:00:00+00' AND v > 3").await;
    assert!(plan.contains("FilterExec"), "{plan}");
    assert!(plan.contains("ticks=["), "{plan}");
    let plan = db.plan("SELECT v FROM coarse WHERE time >= '2024-01-01 00:00:05+00'").await;
    assert!(!plan.contains("FilterExec"), "{plan}");
    let plan = db.plan("SELECT v FROM fine WHERE (time > '2024-01-01 00:00:00+00' AND v > 3) OR (time < '2023-12-31 23:55:00+00' AND v < 10)").await;
    assert!(plan.contains("FilterExec") && !plan.contains("ticks=all"), "{plan}");
    let analyzed =
        db.rows("EXPLAIN ANALYZE SELECT v FROM fine WHERE k = 1 AND v > 3").await.join("\n");
    assert!(analyzed.contains("output_rows=60"), "{analyzed}");
    assert!(analyzed.contains("streams="), "{analyzed}");
}

#[tokio::test]
async fn plans_show_the_ranges_of_the_calendar() {
    let db = Database::new();
    db.tag("CREATE TABLE days (time timestamptz NOT NULL, v int, PRIMARY KEY (time)) WITH (collision = 'last')").await;
    db.tag("INSERT INTO days SELECT timestamptz '2012-01-01 06:00+00' + n * interval '1 day', n FROM generate_series(0, 365) AS g(n)").await;
    let mondays = "SELECT v FROM days WHERE extract(dow FROM time) = 1";
    let plan = db.plan(mondays).await;
    assert!(plan.contains("ranges=53,") && plan.contains("FilterExec"), "{plan}");
    let march = format!("{mondays} AND extract(month FROM time) = 3");
    let plan = db.plan(&march).await;
    assert!(plan.contains("ranges=4,"), "{plan}");
    // A replaced event makes the number of events inexact, but not the first and last time.
    db.tag("CALL stratalog.flush('days')").await;
    db.tag("INSERT INTO days VALUES ('2012-03-05 06:00+00', 1000)").await;
    let plan = db.plan(mondays).await;
    assert!(plan.contains("ranges=53,"), "{plan}");
    assert_eq!(db.rows(&format!("{march} ORDER BY v")).await, ["71", "78", "85", "1000"]);
    let plan = db.plan("SELECT v FROM days WHERE extract(dow FROM time) = 1 OR v > 3").await;
    assert!(plan.contains("ticks=all"), "{plan}");
    // The table has about one event a day, and the scan returns only the events of Mondays.
    let analyzed = db.rows(&format!("EXPLAIN ANALYZE {mondays}")).await.join("\n");
    let scan = analyzed.lines().find(|line| line.contains("ChronicleScan")).unwrap();
    assert!(scan.contains("output_rows=53,"), "{scan}");
}
