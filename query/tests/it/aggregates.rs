//! Aggregates computed by storage, compared with aggregates over rows, with events in every tier.

use std::fmt::Write as _;

use stratalog_sim::Random;

use crate::{
    harness::{Database, figure},
    random_table::{RandomTable, conditions, over_rows, pick},
};

/// A query over `t` with as many aggregates from storage as possible.
fn query(random: &mut Random, columns: &[(&str, &str)]) -> String {
    let mut groups: Vec<String> = Vec::new();
    for key in ["host", "unit"] {
        if random.below(3) == 0 {
            groups.push(key.to_string());
        }
    }
    match random.below(4) {
        0 => groups.push(format!(
            "time_bucket('{}', time)",
            pick(random, &["7 seconds", "1 minute", "1 hour", "90 minutes", "1 day"])
        )),
        1 => groups.push(format!(
            "date_trunc('{}', time)",
            pick(random, &["second", "minute", "hour", "day", "week", "month"])
        )),
        2 => groups.push("date_bin('5 minutes', time, timestamptz '2020-01-01 00:01')".to_string()),
        _ => {}
    }
    let mut wanted = groups.clone();
    for _ in 0..random.below(4) + 1 {
        let (name, kind) = columns[random.below(columns.len() as u64) as usize];
        let function = pick(random, &["count", "min", "max", "sum", "avg"]);
        wanted.push(match (function, kind) {
            ("count", _) if random.below(2) == 0 => "count(*)".to_string(),
            ("count", _) | (_, "text") => format!("count({name})"),
            _ => format!("{function}({name})"),
        });
    }
    let conditions = conditions(random);
    let mut sql = format!("SELECT {} FROM t", wanted.join(", "));
    if !conditions.is_empty() {
        let _ = write!(sql, " WHERE {}", conditions.join(" AND "));
    }
    if !groups.is_empty() {
        let places: Vec<String> = (1..=groups.len()).map(|place| place.to_string()).collect();
        let newest = groups.last().is_some_and(|last| last.contains("time"));
        if newest && random.below(3) == 0 {
            let order: Vec<String> = places.iter().rev().map(|at| format!("{at} DESC")).collect();
            let (places, order) = (places.join(", "), order.join(", "));
            let _ =
                write!(sql, " GROUP BY {places} ORDER BY {order} LIMIT {}", random.below(12) + 1);
            return sql;
        }
        let _ = write!(sql, " GROUP BY {0} ORDER BY {0}", places.join(", "));
    }
    sql
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_storage_tells_is_what_rows_say() {
    let (mut told, mut cells) = (0, 0.0);
    for seed in 0..25 {
        let mut random = Random::new(seed);
        let mut table = RandomTable::new(&mut random).await;
        for step in 0..12 {
            table.change(&mut random).await;
            let db = &table.db;
            for _ in 0..6 {
                let sql = query(&mut random, &table.columns);
                let rows = db.rows(&over_rows(&sql)).await;
                let plan = db.plan(&over_rows(&sql)).await;
                assert!(!plan.contains("ChronicleAggregate"), "{plan}");
                for _ in 0..3 {
                    // The second run uses cached results of the first run; later runs use a cached
                    // plan.
                    assert_eq!(db.rows(&sql).await, rows, "seed {seed}, step {step}: {sql}");
                }
                let analyzed = db.rows(&format!("EXPLAIN ANALYZE {sql}")).await.join("\n");
                told += usize::from(analyzed.contains("ChronicleAggregate"));
                cells += figure(&analyzed, "story_cells_used").unwrap_or_default();
            }
        }
    }
    // The random queries reach the tested code.
    assert!(told > 300 && cells > 3_000.0, "{told} {cells}");
}

#[tokio::test]
async fn averages_of_nothing_are_null() {
    let db = Database::new();
    db.tag(
        "CREATE TABLE t (time timestamptz NOT NULL, host text NOT NULL, d double precision, \
         PRIMARY KEY (host, time))",
    )
    .await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 'a', NULL), ('2024-01-02', 'b', 1)").await;
    for step in ["SELECT 1", "CALL stratalog.flush('t')", "CALL stratalog.compact('t')"] {
        db.rows(step).await;
        let sql = "SELECT host, avg(d), sum(d), count(d) FROM t GROUP BY host ORDER BY host";
        assert!(db.plan(sql).await.contains("ChronicleAggregate"));
        assert_eq!(db.rows(sql).await, ["a|NULL|NULL|0", "b|1|1|1"], "{step}");
    }
}

#[tokio::test]
async fn windows_that_are_not_steady_are_not_told() {
    let db = Database::new();
    db.tag("CREATE TABLE t (time timestamp PRIMARY KEY, v int) WITH (granularity = '1us')").await;
    db.tag("INSERT INTO t VALUES ('2020-06-01', 2), ('2250-06-01', 2)").await;
    for (bucket, told) in [
        ("date_bin('7 days', time, timestamp '1950-01-01')", true),
        ("date_bin('7 days', time, timestamp '2020-01-01')", true),
        ("time_bucket('1 month', time)", false),
        ("date_trunc('year', time)", false),
        ("date_trunc('week', time)", true),
    ] {
        let sql = format!("SELECT {bucket}, count(*) FROM t GROUP BY 1 ORDER BY 1");
        assert_eq!(db.plan(&sql).await.contains("ChronicleAggregate"), told, "{bucket}");
        assert_eq!(db.rows(&sql).await, db.rows(&over_rows(&sql)).await, "{bucket}");
    }
}

/// A column number from a rolled-back definition, or from another session's uncommitted definition,
/// is used again.
#[tokio::test]
async fn what_is_kept_is_of_one_column() {
    let db = Database::new();
    db.tag(
        "CREATE TABLE t (time timestamptz NOT NULL, host text NOT NULL, v float8, \
         PRIMARY KEY (host, time))",
    )
    .await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 'a', 1), ('2024-01-01', 'b', 1)").await;
    db.rows("CALL stratalog.compact('t')").await;
    db.tag("BEGIN").await;
    db.tag("ALTER TABLE t ADD COLUMN a int DEFAULT 3").await;
    assert_eq!(db.rows("SELECT sum(a), max(a), sum(v) FROM t").await, ["6|3|2"]);
    db.tag("ROLLBACK").await;
    db.tag("ALTER TABLE t ADD COLUMN b double precision DEFAULT 2.5").await;
    assert_eq!(db.rows("SELECT sum(b), max(b), sum(v) FROM t").await, ["5|2.5|2"]);
    assert_eq!(db.rows("SELECT sum(v) FROM t").await, ["2"]);
    assert_eq!(db.rows("SELECT sum(v) FROM t").await, ["2"]);
}
