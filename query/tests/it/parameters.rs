use datafusion::scalar::ScalarValue;
use stratalog_model::{ColumnType, ErrorKind};

use crate::harness::{Database, finish, login, run};

async fn database() -> Database {
    let db = Database::new();
    db.tag("CREATE TABLE m (time timestamptz NOT NULL, host text NOT NULL, v double precision, id uuid, PRIMARY KEY (host, time))").await;
    db
}

fn time(ns: i64) -> ScalarValue {
    ScalarValue::TimestampNanosecond(Some(ns), Some("UTC".into()))
}

fn text(text: &str) -> ScalarValue {
    ScalarValue::Utf8View(Some(text.to_string()))
}

#[tokio::test]
async fn inserts_take_parameters_of_their_columns() {
    let db = database().await;
    let parsed =
        db.session.parse("INSERT INTO m (host, time, v) VALUES ($2, $1, $3)").unwrap().remove(0);
    let prepared = db.session.prepare(&parsed, &[]).await.unwrap();
    assert_eq!(
        prepared.parameter_types(),
        [ColumnType::TimestampTz { precision: 9 }, ColumnType::Text, ColumnType::Double]
    );
    assert!(prepared.result().is_none());
    for i in 0..10 {
        let values = vec![time(i * 1_000_000_000), text("a"), ScalarValue::Float64(Some(i as f64))];
        let answer = finish(db.session.execute(&prepared, values).await.unwrap()).await.unwrap();
        assert_eq!(answer.tag, "INSERT 0 1");
    }
    let wrong = db.session.execute(&prepared, vec![time(0)]).await.unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::ProtocolViolation);
    let null = vec![time(0), ScalarValue::Utf8View(None), ScalarValue::Float64(None)];
    assert_eq!(
        db.session.execute(&prepared, null).await.unwrap_err().kind(),
        ErrorKind::NotNullViolation
    );
    assert_eq!(db.rows("SELECT count(*), sum(v) FROM m").await, ["10|45"]);
}

#[tokio::test]
async fn queries_find_their_types() {
    let db = database().await;
    db.tag("INSERT INTO m SELECT timestamptz '2024-01-01 00:00:00+00' + i * interval '1 second', 'h' || i % 5, i FROM generate_series(0, 99) AS s(i)").await;
    let parsed =
        db.session.parse("SELECT v FROM m WHERE host = $1 AND time = $2").unwrap().remove(0);
    let prepared = db.session.prepare(&parsed, &[]).await.unwrap();
    assert_eq!(
        prepared.parameter_types(),
        [ColumnType::Text, ColumnType::TimestampTz { precision: 9 }]
    );
    let at = 1_704_067_200_000_000_000 + 7_000_000_000;
    for (host, wanted) in [("h2", vec!["7"]), ("h3", vec![])] {
        let outcome = db.session.execute(&prepared, vec![text(host), time(at)]).await.unwrap();
        assert_eq!(finish(outcome).await.unwrap().lines(), wanted);
    }
    let null = vec![ScalarValue::Utf8View(None), time(at)];
    assert!(
        finish(db.session.execute(&prepared, null).await.unwrap())
            .await
            .unwrap()
            .lines()
            .is_empty()
    );

    let parsed = db
        .session
        .parse("SELECT v + $1 FROM m WHERE host IN ($2, $3) AND v > $4 ORDER BY v LIMIT $5")
        .unwrap()
        .remove(0);
    let told = [None, None, None, Some(ColumnType::Integer)];
    let prepared = db.session.prepare(&parsed, &told).await.unwrap();
    assert_eq!(
        prepared.parameter_types()[1..],
        [ColumnType::Text, ColumnType::Text, ColumnType::Integer, ColumnType::BigInt]
    );
    let outcome = db
        .session
        .execute(
            &prepared,
            vec![
                ScalarValue::Float64(Some(0.5)),
                text("h1"),
                text("h2"),
                ScalarValue::Int32(Some(10)),
                ScalarValue::Int64(Some(3)),
            ],
        )
        .await
        .unwrap();
    assert_eq!(finish(outcome).await.unwrap().lines(), ["11.5", "12.5", "16.5"]);

    let parsed = db.session.parse("SELECT $1, $2::int + 1 AS two").unwrap().remove(0);
    let prepared = db.session.prepare(&parsed, &[]).await.unwrap();
    assert_eq!(prepared.parameter_types(), [ColumnType::Text, ColumnType::Integer]);
    let outcome =
        db.session.execute(&prepared, vec![text("x"), ScalarValue::Int32(Some(4))]).await.unwrap();
    assert_eq!(finish(outcome).await.unwrap().lines(), ["x|5"]);
}

#[tokio::test]
async fn a_plan_follows_the_catalog() {
    let db = database().await;
    let parsed = db.session.parse("SELECT * FROM m").unwrap().remove(0);
    let prepared = db.session.prepare(&parsed, &[]).await.unwrap();
    db.tag("COMMENT ON TABLE m IS 'x'").await;
    assert!(db.session.execute(&prepared, vec![]).await.is_ok());
    db.tag("ALTER TABLE m ADD COLUMN w int").await;
    assert_eq!(
        db.session.execute(&prepared, vec![]).await.unwrap_err().kind(),
        ErrorKind::FeatureNotSupported
    );
    db.tag("DROP TABLE m").await;
    assert_eq!(
        db.session.execute(&prepared, vec![]).await.unwrap_err().kind(),
        ErrorKind::UndefinedTable
    );
}

#[tokio::test]
async fn parameters_mean_what_literals_mean() {
    let db = Database::new();
    db.tag("CREATE TABLE z (time timestamptz, v int, PRIMARY KEY (time))").await;
    db.tag("INSERT INTO z SELECT timestamptz '2026-03-31 00:00+00' + n * interval '1 hour', n FROM generate_series(0, 47) AS g(n)").await;
    db.tag("SET TimeZone = 'Europe/Berlin'").await;
    let date = ScalarValue::Date32(Some(20_544));
    for (sql, told) in [
        ("SELECT count(*) FROM z WHERE time < $1", Some(ColumnType::Date)),
        ("SELECT count(*) FROM z WHERE time < $1::date", None),
        (
            "SELECT count(*) FROM z WHERE v >= 0 AND time < date '2026-04-01' AND $1::date > '2026-01-01'",
            None,
        ),
    ] {
        let parsed = db.session.parse(sql).unwrap().remove(0);
        let prepared = db.session.prepare(&parsed, &[told]).await.unwrap();
        let outcome = db.session.execute(&prepared, vec![date.clone()]).await.unwrap();
        assert_eq!(finish(outcome).await.unwrap().lines(), ["22"], "{sql}");
    }
    let parsed = db.session.parse("DELETE FROM z WHERE time < $1").unwrap().remove(0);
    let prepared = db.session.prepare(&parsed, &[Some(ColumnType::Date)]).await.unwrap();
    let outcome = db.session.execute(&prepared, vec![date]).await.unwrap();
    assert_eq!(finish(outcome).await.unwrap().tag, "DELETE 22");
    assert_eq!(db.rows("SELECT count(*) FROM z").await, ["26"]);
}

#[tokio::test]
async fn parameters_take_the_type_of_their_place() {
    use ColumnType as T;
    let db = Database::new();
    db.tag("CREATE TABLE p (time timestamptz, at timestamp, v int, n numeric(10,2), s text, span interval, PRIMARY KEY (time))").await;
    db.tag("INSERT INTO p VALUES ('2024-01-01', '2024-01-01 10:00', 2, 2.50, 'abc', '1 day')")
        .await;
    let numeric = T::Numeric { precision: 38, scale: 10 };
    for (sql, types) in [
        ("SELECT $1 * interval '10 seconds'", vec![T::Double]),
        ("SELECT now() - $1 * interval '1 day'", vec![T::Double]),
        ("SELECT interval '1 day' * $1, interval '1 day' / $2", vec![T::Double, T::Double]),
        ("SELECT $1::int * interval '1 day'", vec![T::Integer]),
        ("SELECT time + $1, $2 + at FROM p", vec![T::Interval, T::Interval]),
        ("SELECT time - $1 FROM p", vec![T::TimestampTz { precision: 9 }]),
        ("SELECT span + $1, span = $2 FROM p", vec![T::Interval, T::Interval]),
        ("SELECT $1 + 1, 10 - $2, 10 % $3", vec![T::Integer, T::Integer, T::Integer]),
        (
            "SELECT coalesce(at, $1), nullif(v, $2), greatest(n, $3) FROM p",
            vec![T::Timestamp { precision: 9 }, T::Integer, numeric.clone()],
        ),
        (
            "SELECT CASE WHEN v = 1 THEN v ELSE $1 END, CASE v WHEN $2 THEN 1 END FROM p",
            vec![T::Integer, T::Integer],
        ),
        (
            "SELECT substr(s, $1), repeat(s, $2), left(s, $3), upper($4) FROM p",
            vec![T::Integer, T::Integer, T::Integer, T::Text],
        ),
        (
            "SELECT power(n, $1), abs($2), round(n, $3) FROM p",
            vec![numeric.clone(), T::Double, T::Integer],
        ),
        (
            "INSERT INTO p (time, v, n, s) VALUES ($1 + timestamptz '2025-01-01', $2 * 2, 2.5 * $3, 'x' || $4)",
            vec![T::Interval, T::Integer, numeric.clone(), T::Text],
        ),
    ] {
        let parsed = db.session.parse(sql).unwrap().remove(0);
        let prepared = db.session.prepare(&parsed, &[]).await.unwrap();
        assert_eq!(prepared.parameter_types(), types, "{sql}");
    }
    let days = || vec![ScalarValue::Float64(Some(1.5))];
    let day = ScalarValue::new_interval_mdn(0, 1, 0);
    let decimal = |digits, scale| vec![ScalarValue::Decimal128(Some(digits), 38, scale)];
    for (sql, values, wanted) in [
        ("SELECT $1 * interval '10 seconds'", days(), "00:00:15"),
        ("SELECT time + $1 * span FROM p", days(), "2024-01-02 12:00:00+00"),
        ("SELECT span / $1 FROM p", days(), "16:00:00"),
        ("SELECT time + $1 FROM p", vec![day.clone()], "2024-01-02 00:00:00+00"),
        ("SELECT count(*) FROM p WHERE time > now() - $1::interval * 2", vec![day], "1"),
        ("SELECT coalesce(NULL, $1, v) FROM p", vec![ScalarValue::Int32(Some(7))], "7"),
        ("SELECT substr(s, $1) FROM p", vec![ScalarValue::Int64(Some(2))], "bc"),
        ("SELECT count(*) FROM p WHERE n = $1", decimal(250_001, 5), "0"),
        ("SELECT count(*) FROM p WHERE n = $1", decimal(25, 1), "1"),
        ("SELECT count(*) FROM p WHERE n < $1", decimal(2_504, 3), "1"),
        ("SELECT count(*) FROM p WHERE n < $1", decimal(123_456_789_012, 0), "1"),
        ("SELECT 2.5 * $1 = 2500.0025", decimal(1_000_001, 3), "t"),
        (
            "INSERT INTO p (time, v, s) VALUES (now() + interval '1 day' * $1, $2 * 2, $3), (now(), -7, 'x' || $3) RETURNING v, s",
            vec![ScalarValue::Float64(Some(1.0)), ScalarValue::Int32(Some(21)), text("t")],
            "42|t\n-7|xt",
        ),
    ] {
        let parsed = db.session.parse(sql).unwrap().remove(0);
        let prepared = db.session.prepare(&parsed, &[]).await.unwrap();
        let outcome = db.session.execute(&prepared, values).await.unwrap();
        assert_eq!(finish(outcome).await.unwrap().lines().join("\n"), wanted, "{sql}");
    }
}

#[tokio::test]
async fn more_expressions_than_are_planned_at_once() {
    let db = Database::new();
    db.tag("CREATE TABLE many (time TIMESTAMPTZ NOT NULL, v INT)").await;
    let rows: Vec<String> = (0..300)
        .map(|at| format!("(timestamptz '2024-01-01' + {at} * interval '1 s', $1 + {at})"))
        .collect();
    let sql = format!("INSERT INTO many VALUES {}", rows.join(", "));
    let parsed = db.session.parse(&sql).unwrap().remove(0);
    let prepared = db.session.prepare(&parsed, &[]).await.unwrap();
    assert_eq!(prepared.parameter_types(), [ColumnType::Integer]);
    for value in [0, 1000] {
        let outcome = db.session.execute(&prepared, vec![ScalarValue::Int32(Some(value))]).await;
        finish(outcome.unwrap()).await.unwrap();
    }
    assert_eq!(
        db.rows("SELECT count(*), sum(v), max(v), max(time) FROM many").await,
        ["600|389700|1299|2024-01-01 00:04:59+00"]
    );
}

#[tokio::test]
async fn now_is_the_time_of_each_execution() {
    let db = database().await;
    let text = "SELECT v FROM m WHERE host = 'a' AND time <= now() ORDER BY 1";
    let direct = "SELECT v FROM m WHERE host = 'a' AND time <= now()";
    let since = "SELECT v FROM m WHERE host = 'a' AND time > now() - interval '1 hour'";
    for count in 1..=5 {
        db.tag(&format!("INSERT INTO m VALUES (now(), 'a', {count})")).await;
        for sql in [text, direct, since] {
            assert_eq!(db.rows(sql).await.len(), count, "{sql}");
        }
    }
}

#[tokio::test]
async fn constants_are_computed_from_parameters() {
    let db = database().await;
    db.tag("INSERT INTO m SELECT timestamptz '2024-01-01 00:00:00+00' + i * interval '1 second', 'h' || i % 5, i FROM generate_series(0, 99) AS s(i)").await;
    let sql = "SELECT v FROM m WHERE host = 'h' || $1 AND time = timestamptz '2024-01-01 00:00:00+00' + $2::int * interval '1 second'";
    let prepared = db.session.prepare(&db.session.parse(sql).unwrap()[0], &[]).await.unwrap();
    let run = async |host: ScalarValue, second: Option<i32>| {
        let values = vec![host, ScalarValue::Int32(second)];
        match db.session.execute(&prepared, values).await {
            Ok(outcome) => finish(outcome).await.map(|answer| answer.lines()),
            Err(error) => Err(error),
        }
    };
    for second in 0..20 {
        let host = format!("{}", second % 5);
        assert_eq!(run(text(&host), Some(second)).await.unwrap(), [second.to_string()]);
        assert!(run(text(&host), Some(second + 1)).await.unwrap().is_empty());
    }
    assert!(run(text("1"), None).await.unwrap().is_empty());
    assert!(run(ScalarValue::Utf8View(None), Some(1)).await.unwrap().is_empty());
    // Another time zone needs another plan.
    db.tag("SET timezone = 'Asia/Tokyo'").await;
    assert_eq!(run(text("3"), Some(3)).await.unwrap(), ["3"]);

    let sql = "SELECT v FROM m WHERE host = 'h1' AND time = now() - interval '1 day' / $1::int";
    let prepared = db.session.prepare(&db.session.parse(sql).unwrap()[0], &[]).await.unwrap();
    let by_zero = db.session.execute(&prepared, vec![ScalarValue::Int32(Some(0))]).await;
    let error = match by_zero {
        Ok(outcome) => finish(outcome).await.map(|_| ()).unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.kind().sqlstate(), "22012");
}

#[tokio::test]
async fn a_session_that_rests_goes_on() {
    let db = database().await;
    db.tag("INSERT INTO m SELECT timestamptz '2024-01-01 00:00:00+00' + i * interval '1 second', 'h', i FROM generate_series(0, 9) AS s(i)").await;
    db.tag("PREPARE some AS SELECT v FROM m WHERE v > $1 ORDER BY v").await;
    db.tag("BEGIN").await;
    db.tag("DECLARE c CURSOR FOR SELECT v FROM m ORDER BY v").await;
    assert_eq!(db.rows("FETCH 2 FROM c").await, ["0", "1"]);
    db.tag("SET LOCAL timezone = 'Asia/Tokyo'").await;
    db.session.rest();
    assert_eq!(db.rows("FETCH 2 FROM c").await, ["2", "3"]);
    assert_eq!(db.rows("EXECUTE some(7)").await, ["8", "9"]);
    let first = "SELECT min(time)::text FROM m";
    assert_eq!(db.rows(first).await, ["2024-01-01 09:00:00+09"]);
    db.session.rest();
    db.tag("COMMIT").await;
    assert_eq!(db.rows(first).await, ["2024-01-01 00:00:00+00"]);
}

#[tokio::test]
async fn parameters_of_functions_have_the_types_that_the_functions_take() {
    use ColumnType as T;
    let db = database().await;
    let array = |element: T| T::Array(Box::new(element));
    for (sql, wanted) in [
        ("SELECT NOT $1", vec![T::Boolean]),
        ("SELECT CASE WHEN $1 THEN 1 END", vec![T::Boolean]),
        ("SELECT to_timestamp($1)", vec![T::Double]),
        ("SELECT make_date($1, 1, 1)", vec![T::Integer]),
        ("SELECT repeat('a', $1), left($2, 2)", vec![T::Integer, T::Text]),
        ("SELECT round(1.5, $1)", vec![T::Integer]),
        ("SELECT n FROM generate_series(1, $1) g(n)", vec![T::Integer]),
        ("SELECT 1 = ANY($1)", vec![array(T::Integer)]),
        ("SELECT array_length($1::int[], $2)", vec![array(T::Integer), T::Integer]),
        ("SELECT ARRAY[1, $1], ARRAY['a', $2]", vec![T::Integer, T::Text]),
    ] {
        let parsed = db.session.parse(sql).unwrap().remove(0);
        let prepared = db.session.prepare(&parsed, &[]).await.unwrap();
        assert_eq!(prepared.parameter_types(), wanted, "{sql}");
    }
}

/// The session reuses the plan of a statement with other values, even after a pause of the session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_are_used_again() {
    let db = database().await;
    db.tag("INSERT INTO m SELECT timestamptz '2024-01-01 00:00:00+00' + i * interval '1 second', 'h' || i % 3, (i * 7919) % 1000 FROM generate_series(0, 2999) AS s(i)").await;
    let asked = [
        "SELECT v FROM m WHERE host = $1 ORDER BY v LIMIT 2",
        "SELECT v FROM m WHERE host = $1 ORDER BY v DESC LIMIT 3",
        "SELECT time_bucket('1 minute', time), min(v) FROM m WHERE host = $1 GROUP BY 1 ORDER BY 1 DESC LIMIT 2",
        "SELECT host, count(*), avg(v) FROM m WHERE host = $1 GROUP BY 1",
        "SELECT v FROM m WHERE host = $1 AND v > 990 ORDER BY time",
        "SELECT v + 1 FROM m WHERE host = $1 OR host = 'h1' ORDER BY 1 LIMIT 4",
    ];
    for sql in asked {
        let parsed = db.session.parse(sql).unwrap().remove(0);
        let prepared = db.session.prepare(&parsed, &[]).await.unwrap();
        for round in 0..3 {
            for host in ["h0", "h2", "h1", "none", "h0", "h2"] {
                let outcome = db.session.execute(&prepared, vec![text(host)]).await.unwrap();
                let found = finish(outcome).await.unwrap().lines();
                // The same query as text, with constants in place of the parameters.
                let constant = sql.replace("$1", &format!("'{host}'"));
                assert_eq!(db.rows(&constant).await, found, "{round}: {constant}");
                let rows = constant.replace("FROM m", "FROM (SELECT * FROM m LIMIT 1000000) m");
                assert_eq!(db.rows(&rows).await, found, "{round}: {constant}");
            }
            db.session.rest();
        }
    }
}

/// The session also reuses plans with several tables, with other keys, times and table sizes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_of_several_tables_are_used_again() {
    let db = database().await;
    db.tag(
        "CREATE TABLE tags (added timestamptz, host text, rack text, PRIMARY KEY (host, added))",
    )
    .await;
    let asked = [
        "SELECT host, max(v) FROM m WHERE host IN (SELECT host FROM tags WHERE rack = $1) GROUP BY 1",
        "SELECT m.host, v, rack FROM m JOIN tags t ON t.host = m.host WHERE t.rack = $1 AND v > 990",
        "SELECT m.host, v, t.rack FROM tags t LEFT JOIN m ON t.host = m.host AND v > 990 \
         WHERE t.rack = $1",
        "SELECT t.host, count(v) FROM tags t LEFT JOIN m ON t.host = m.host WHERE m.host = $1 OR \
         m.host IS NULL GROUP BY 1",
        "SELECT m.host, v FROM m JOIN tags t ON t.host = m.host WHERE t.host = $1 AND v > 980",
        "SELECT DISTINCT ON (t.host) t.host, t.rack, l.v FROM tags t, LATERAL (SELECT * FROM m \
         WHERE m.host = t.host ORDER BY time DESC LIMIT 1) l WHERE t.rack = $1 ORDER BY t.host",
        "SELECT count(*) FROM m WHERE EXISTS (SELECT 1 FROM tags t WHERE t.host = m.host AND \
         t.rack = $1) AND v < 500",
        "SELECT rack, (SELECT max(v) FROM m WHERE m.host = t.host) FROM tags t WHERE rack = $1",
        "SELECT host, v FROM m WHERE v > 990 AND host NOT IN (SELECT host FROM tags WHERE rack = $1)",
        "SELECT max(v) FROM m WHERE host = $1 AND time > (SELECT min(added) FROM tags WHERE rack = 'r1')",
    ];
    let mut found_some = 0;
    for step in 0..4 {
        db.tag(&format!(
            "INSERT INTO m SELECT timestamptz '2024-01-0{}' + i * interval '1 second', 'h' || i % 7, \
             (i * 7919) % 1000 FROM generate_series(0, 2999) AS s(i)",
            step + 1
        ))
        .await;
        db.tag(&format!(
            "INSERT INTO tags VALUES (timestamptz '2023-01-01', 'h{step}', 'r{}'), \
             (timestamptz '2023-01-01', 'x{step}', 'r0')",
            step % 2
        ))
        .await;
        if step == 2 {
            db.rows("CALL stratalog.compact('m')").await;
        }
        for sql in asked {
            let parsed = db.session.parse(sql).unwrap().remove(0);
            let prepared = db.session.prepare(&parsed, &[]).await.unwrap();
            for value in ["r0", "h0", "r1", "none", "h1", "r0", "h3", "r1"] {
                let sorted = |mut rows: Vec<String>| {
                    rows.sort();
                    rows
                };
                let outcome = db.session.execute(&prepared, vec![text(value)]).await.unwrap();
                let found = sorted(finish(outcome).await.unwrap().lines());
                let constant = sql.replace("$1", &format!("'{value}'"));
                assert_eq!(sorted(db.rows(&constant).await), found, "{step}: {constant}");
                // A comment keeps the text's constants in the plan.
                let alone = format!("{constant} -- {step}");
                assert_eq!(sorted(db.rows(&alone).await), found, "{step}: {constant}");
                let rows = alone.replace("FROM m", "FROM (SELECT * FROM m LIMIT 1000000) m");
                assert_eq!(sorted(db.rows(&rows).await), found, "{step}: {constant}");
                found_some += usize::from(!found.is_empty());
            }
        }
    }
    assert!(found_some > 100, "{found_some}");
}

/// The session does not parse a text of a known shape again; the meaning and the errors stay the
/// same, even if the table has changed in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_of_a_known_shape() {
    let db = database().await;
    db.tag("INSERT INTO m SELECT timestamptz '2024-01-01 00:00:00+00' + i * interval '1 second', 'h' || i % 3, i FROM generate_series(0, 2999) AS s(i)").await;
    let asked = |host: &str, from: &str| {
        format!(
            "SELECT host, count(*) AS n, max(v) FROM m WHERE host = '{host}' AND time >= '{from}' GROUP BY host;  "
        )
    };
    let whole = "2024-01-01 00:00:00+00";
    for _ in 0..3 {
        assert_eq!(db.rows(&asked("h1", whole)).await, ["h1|1000|2998"]);
        assert!(db.rows(&asked("it''s", whole)).await.is_empty());
    }
    // Parsed before the change of the table, and executed after the change.
    let parsed = db.session.parse(&asked("h2", whole)).unwrap().remove(0);
    assert_eq!(parsed.text(), asked("h2", whole).trim_end().trim_end_matches(';'));
    let prepared = db.session.prepare(&parsed, &[]).await.unwrap();
    db.tag("ALTER TABLE m ADD COLUMN w bigint").await;
    for _ in 0..2 {
        let fresh = db.session.prepare(&parsed, &[]).await.unwrap();
        for prepared in [&prepared, &fresh] {
            let outcome = db.session.execute(prepared, Vec::new()).await.unwrap();
            assert_eq!(finish(outcome).await.unwrap().lines(), ["h2|1000|2999"]);
        }
    }
    let parsed = db.session.parse(&asked("h2", "2024-01-01 00:49:50+00")).unwrap().remove(0);
    db.tag("ALTER TABLE m RENAME COLUMN v TO value").await;
    let error = db.session.run(&parsed).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::UndefinedColumn, "{error}");
    db.tag("ALTER TABLE m RENAME COLUMN value TO v").await;
    let outcome = db.session.run(&parsed).await.unwrap();
    assert_eq!(finish(outcome).await.unwrap().lines(), ["h2|4|2999"]);
    // An invalid constant gives the same error as in a session that has not seen the shape.
    let wrong = asked("h2", "not a time");
    let other = db.service.connect(login()).unwrap();
    let [here, there] = [db.error(&wrong).await, run(&other, &wrong).await.err().unwrap()];
    assert_eq!(here.to_string(), there.to_string());
    assert_eq!(here.position(), there.position());
    assert_eq!(here.kind(), ErrorKind::InvalidDatetimeFormat, "{here}");
}

/// A few series have few rows: the scan uses one stream once the number of series is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_rows_are_one_stream() {
    let db = database().await;
    db.tag("INSERT INTO m SELECT timestamptz '2024-01-01 00:00:00+00' + i * interval '1 second', 'h' || i % 100, i FROM generate_series(0, 99999) AS s(i)").await;
    let sql = |hosts: &str| {
        format!(
            "SELECT time_bucket('1 hour', time), count(*), max(v) FROM m WHERE {hosts} GROUP BY 1 ORDER BY 1 LIMIT 2"
        )
    };
    for compacted in [false, true] {
        if compacted {
            db.rows("CALL stratalog.compact('m')").await;
        }
        for (hosts, streams) in [("host = 'h7'", 1), ("host IN ('h7', 'h8')", 1), ("v >= 0", 2)] {
            let first = db.rows(&sql(hosts)).await;
            let plan = db.plan(&sql(hosts)).await;
            assert_eq!(plan.contains("RepartitionExec"), streams > 1, "{hosts}: {plan}");
            for _ in 0..3 {
                assert_eq!(db.rows(&sql(hosts)).await, first, "{hosts}");
            }
        }
    }
}
