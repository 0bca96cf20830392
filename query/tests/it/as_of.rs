//! As-of joins, compared with a direct search.

use proptest::{
    prelude::{Strategy, prop},
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use stratalog_query::QuerySettings;

use crate::harness::Database;

/// `(seconds, key)`, sorted by seconds.
type Rows = Vec<(i64, Option<i64>)>;

async fn stored(db: &Database, table: &str, rows: &Rows) {
    db.tag(&format!("CREATE TABLE {table} (time timestamptz PRIMARY KEY, k int, n bigint)")).await;
    let values = rows.iter().map(|(seconds, key)| {
        let key = key.map_or_else(|| "NULL".to_string(), |key| key.to_string());
        format!("(to_timestamp({seconds}), {key}, {seconds})")
    });
    let values: Vec<String> = values.collect();
    for chunk in values.chunks(1_000) {
        db.tag(&format!("INSERT INTO {table} VALUES {}", chunk.join(","))).await;
    }
}

/// Up to `rows` of the last rows of `right` at or before a time.
fn last(right: &Rows, key: Option<i64>, seconds: i64, from: i64, rows: usize) -> Vec<i64> {
    let found = right
        .iter()
        .rev()
        .filter(|(at, of)| *at <= seconds && *at > from && key.is_some() && *of == key);
    found.take(rows).map(|(at, _)| *at).collect()
}

fn rows_of(count: usize, keys: i64) -> impl Strategy<Value = Rows> {
    let row = (1_i64..40, prop::option::weighted(0.9, 0..keys));
    prop::collection::vec(row, 0..count).prop_map(|rows| {
        let mut at = 0;
        let sum = |(step, key): (i64, Option<i64>)| {
            at += step;
            (at, key)
        };
        rows.into_iter().map(sum).collect()
    })
}

#[tokio::test]
async fn the_rows_before_a_time() {
    let mut runner = TestRunner::new(Config::default());
    for (batch_rows, streams) in [(8192, 1), (16, 2), (1, 2)] {
        // The right side has many more rows than the merge may hold, and the other way round.
        for (left, right, keys) in [(300, 60, 3), (20, 3_000, 2), (400, 400, 40)] {
            let left = rows_of(left, keys).new_tree(&mut runner).unwrap().current();
            let right = rows_of(right, keys).new_tree(&mut runner).unwrap().current();
            let db = Database::with(QuerySettings {
                batch_rows_max: batch_rows,
                parallel_streams_max: streams,
                ..QuerySettings::default()
            });
            stored(&db, "a", &left).await;
            stored(&db, "b", &right).await;
            for (rows, tolerance) in [(1, i64::MAX), (1, 25), (4, 200)] {
                let within = match tolerance {
                    i64::MAX => String::new(),
                    seconds => format!("AND b.time > a.time - interval '{seconds} seconds'"),
                };
                let query = format!(
                    "SELECT a.n, x.n FROM a, LATERAL (SELECT b.n FROM b WHERE b.k = a.k AND \
                     b.time <= a.time {within} ORDER BY b.time DESC LIMIT {rows}) x \
                     ORDER BY a.n, x.n DESC"
                );
                let plan = db.plan(&query).await;
                assert!(plan.contains("AsOfExec"), "{plan}");
                let expected = left.iter().flat_map(|(seconds, key)| {
                    let from = seconds.saturating_sub(tolerance);
                    let found = last(&right, *key, *seconds, from, rows);
                    found.into_iter().map(move |found| format!("{seconds}|{found}"))
                });
                let expected: Vec<String> = expected.collect();
                let answer = db.rows(&query).await;
                assert_eq!(
                    answer, expected,
                    "batches of {batch_rows}, {query}\n{left:?}\n{right:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn what_is_no_as_of_join_is_answered_too() {
    let db = Database::new();
    stored(&db, "a", &vec![(10, Some(1)), (20, Some(2))]).await;
    stored(&db, "b", &vec![(5, Some(1)), (9, Some(2)), (12, Some(1))]).await;
    for (question, as_of, answer) in [
        ("b.time < a.time ORDER BY b.time DESC LIMIT 1", true, ["10|9", "20|12"]),
        // The first of all earlier rows.
        ("b.time < a.time ORDER BY b.time LIMIT 1", true, ["10|5", "20|5"]),
        ("b.time < a.time ORDER BY b.k, b.time LIMIT 1", false, ["10|5", "20|5"]),
        ("b.k < a.k OR b.time < a.time ORDER BY b.time DESC LIMIT 1", false, ["10|9", "20|12"]),
        ("b.time < a.time ORDER BY b.time DESC OFFSET 1 LIMIT 1", false, ["10|5", "20|9"]),
        (
            "b.time < a.time AND b.time <> a.time ORDER BY b.time DESC LIMIT 1",
            false,
            ["10|9", "20|12"],
        ),
    ] {
        let query = format!("SELECT a.n, (SELECT b.n FROM b WHERE {question}) FROM a ORDER BY a.n");
        let plan = db.plan(&query).await;
        assert_eq!(plan.contains("AsOfExec"), as_of, "{query}\n{plan}");
        assert_eq!(db.rows(&query).await, answer, "{query}");
    }
}
