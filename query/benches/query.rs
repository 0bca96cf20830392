//! Queries in process: a point query by key and tick, single-row INSERT, TSBS's shapes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "helpers of tests and benches fail as tests do, and use real files and clocks"
)]

#[path = "../tests/it/harness.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod harness;
#[path = "../tests/it/slow_log.rs"]
mod slow_log;

use criterion::{Criterion, criterion_group, criterion_main};
use datafusion::scalar::ScalarValue;
use harness::{Database, finish};

const ROWS: &str = "INSERT INTO cpu SELECT timestamptz '2016-01-01 00:00:00+00' + i * interval '10 seconds', 'host_' || h, 'eu', (i * 7 + h * 13) % 100, i % 50, i % 30, i % 20, i % 10 FROM generate_series(0, 4319) AS a(i), generate_series(0, 99) AS b(h)";

async fn database() -> Database {
    let db = Database::new();
    db.tag("CREATE TABLE cpu (time timestamptz NOT NULL, hostname text NOT NULL, region text, usage_user double precision, usage_system double precision, usage_idle double precision, usage_nice double precision, usage_iowait double precision, PRIMARY KEY (hostname, time)) WITH (collision = 'last')").await;
    db.tag("CREATE TABLE log (time timestamptz NOT NULL, host text NOT NULL, v double precision, PRIMARY KEY (host, time)) WITH (collision = 'last', durability = 'relaxed')").await;
    db.tag(ROWS).await;
    db
}

fn benches(criterion: &mut Criterion) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let db = runtime.block_on(database());
    let ask = |sql: &str| runtime.block_on(async { db.run(sql).await.unwrap() });
    let prepared = runtime.block_on(async {
        let parsed = db
            .session
            .parse("SELECT usage_user, usage_system FROM cpu WHERE hostname = $1 AND time = $2")
            .unwrap()
            .remove(0);
        db.session.prepare(&parsed, &[]).await.unwrap()
    });
    let point = vec![
        ScalarValue::Utf8View(Some("host_42".to_string())),
        ScalarValue::TimestampNanosecond(
            Some(1_451_606_400_000_000_000 + 1_000_000_000_000),
            Some("UTC".into()),
        ),
    ];
    criterion.bench_function("point_prepared", |bencher| {
        bencher.iter(|| {
            runtime.block_on(async {
                let outcome = db.session.execute(&prepared, point.clone()).await.unwrap();
                assert_eq!(
                    finish(outcome)
                        .await
                        .unwrap()
                        .batches
                        .iter()
                        .map(|batch| batch.num_rows())
                        .sum::<usize>(),
                    1
                );
            });
        });
    });
    let mut second = 0;
    criterion.bench_function("point_text", |bencher| {
        bencher.iter(|| {
            second = (second + 10) % 40_000;
            let at = chrono::DateTime::from_timestamp(1_451_606_400 + second, 0).unwrap();
            ask(&format!(
                "SELECT usage_user FROM cpu WHERE hostname = 'host_7' AND time = '{}'",
                at.format("%Y-%m-%d %H:%M:%S+00")
            ))
        });
    });
    let insert = runtime.block_on(async {
        let parsed = db
            .session
            .parse("INSERT INTO log (time, host, v) VALUES ($1, $2, $3)")
            .unwrap()
            .remove(0);
        db.session.prepare(&parsed, &[]).await.unwrap()
    });
    let mut tick = 0;
    criterion.bench_function("insert_prepared_relaxed", |bencher| {
        bencher.iter(|| {
            tick += 1;
            let values = vec![
                ScalarValue::TimestampNanosecond(Some(tick), Some("UTC".into())),
                ScalarValue::Utf8View(Some("a".to_string())),
                ScalarValue::Float64(Some(1.0)),
            ];
            runtime.block_on(async { db.session.execute(&insert, values).await.unwrap() })
        });
    });
    let window = "time >= '2016-01-01 01:00:00 +0000' AND time < '2016-01-01 02:00:00 +0000'";
    for (name, sql) in [
        ("single_groupby_1_1_1", format!("SELECT time_bucket('60 seconds', time) AS minute, max(usage_user) FROM cpu WHERE hostname IN ('host_5') AND {window} GROUP BY minute ORDER BY minute")),
        ("single_groupby_5_8_1", format!("SELECT time_bucket('60 seconds', time) AS minute, max(usage_user), max(usage_system), max(usage_idle), max(usage_nice), max(usage_iowait) FROM cpu WHERE hostname IN ('host_1','host_2','host_3','host_4','host_5','host_6','host_7','host_8') AND {window} GROUP BY minute ORDER BY minute")),
        ("double_groupby_1", "SELECT time_bucket('3600 seconds', time) AS hour, hostname, avg(usage_user) FROM cpu GROUP BY 1, 2 ORDER BY hour, hostname".to_string()),
        ("groupby_orderby_limit", "SELECT time_bucket('60 seconds', time) AS minute, max(usage_user) FROM cpu WHERE time < '2016-01-01 06:00:00 +0000' GROUP BY minute ORDER BY minute DESC LIMIT 5".to_string()),
        ("high_cpu_all", "SELECT * FROM cpu WHERE usage_user > 90.0".to_string()),
        ("lastpoint", "SELECT DISTINCT ON (hostname) * FROM cpu ORDER BY hostname, time DESC".to_string()),
        ("newest_10", "SELECT * FROM cpu ORDER BY time DESC LIMIT 10".to_string()),
        ("count", "SELECT count(*), min(time), max(time) FROM cpu".to_string()),
    ] {
        criterion.bench_function(name, |bencher| bencher.iter(|| ask(&sql)));
    }
}

criterion_group!(group, benches);
criterion_main!(group);
