use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use stratalog_model::ErrorKind;
use stratalog_query::QuerySettings;

use crate::harness::{Database, login, run};

async fn database() -> Database {
    let db = Database::new();
    db.tag("CREATE TABLE m (time timestamptz NOT NULL, host text NOT NULL, v double precision, n int DEFAULT 7, PRIMARY KEY (host, time))").await;
    db
}

#[tokio::test]
async fn values_of_every_form() {
    let db = database().await;
    assert_eq!(
        db.tag("INSERT INTO m VALUES ('2024-01-01 00:00:00+00', 'a', 1.5, 1), ('2024-01-01 00:00:01+00', 'a', -2, DEFAULT)").await,
        "INSERT 0 2"
    );
    assert_eq!(db.tag("INSERT INTO m (host, time) VALUES ('b', timestamptz '2024-01-01 00:00:00+00' + interval '1 hour')").await, "INSERT 0 1");
    assert_eq!(
        db.tag("INSERT INTO m (host, v) VALUES ('c', 1 + 2 * 3), ('d', NULL)").await,
        "INSERT 0 2"
    );
    assert_eq!(
        db.rows("SELECT host, v, n FROM m ORDER BY host, time").await,
        ["a|1.5|1", "a|-2|7", "b|NULL|7", "c|7|7", "d|NULL|7"]
    );
    assert_eq!(db.rows("SELECT count(*) FROM m WHERE time >= '2024-01-01 00:00:00+00' AND time < '2024-01-01 00:01:00+00'").await, ["4"]);
}

#[tokio::test]
async fn select_and_with_as_sources() {
    let db = database().await;
    db.tag("INSERT INTO m (time, host, v) SELECT timestamptz '2024-01-01' + g * interval '1 second', 'h' || (g % 3), g FROM generate_series(1, 1000) AS s(g)").await;
    assert_eq!(db.rows("SELECT count(*), sum(v) FROM m").await, ["1000|500500"]);
    db.tag("CREATE TABLE copy_of_m (time timestamptz NOT NULL, host text, v int)").await;
    assert_eq!(db.tag("WITH big AS (SELECT * FROM m WHERE v > 990) INSERT INTO copy_of_m SELECT time, host, v FROM big").await, "INSERT 0 10");
    assert_eq!(
        db.tag("INSERT INTO m SELECT time + interval '1 day', host, v FROM m WHERE v <= 5").await,
        "INSERT 0 5"
    );
    assert_eq!(db.rows("SELECT count(*) FROM m").await, ["1005"]);
}

#[tokio::test]
async fn conflicts() {
    let db = database().await;
    db.tag("INSERT INTO m VALUES ('2024-01-01', 'a', 1)").await;
    let error =
        db.error("INSERT INTO m VALUES ('2024-01-01', 'a', 2), ('2024-01-02', 'a', 3)").await;
    assert_eq!(error.kind(), ErrorKind::UniqueViolation);
    assert_eq!(
        db.rows("SELECT count(*) FROM m").await,
        ["1"],
        "nothing of a failed statement stays"
    );
    assert_eq!(db.tag("INSERT INTO m VALUES ('2024-01-01', 'a', 2), ('2024-01-02', 'a', 3) ON CONFLICT DO NOTHING").await, "INSERT 0 1");
    assert_eq!(
        db.tag("INSERT INTO m VALUES ('2024-01-01', 'a', 2) ON CONFLICT (host, time) DO NOTHING")
            .await,
        "INSERT 0 0"
    );
    assert_eq!(
        db.kind("INSERT INTO m VALUES ('2024-01-01', 'a', 2) ON CONFLICT (v) DO NOTHING").await,
        ErrorKind::InvalidColumnReference
    );
    assert_eq!(db.kind("INSERT INTO m VALUES ('2024-01-01', 'a', 2) ON CONFLICT (host, time) DO UPDATE SET v = 1").await, ErrorKind::FeatureNotSupported);
}

#[tokio::test]
async fn returning() {
    let db = database().await;
    let answer = db.run("INSERT INTO m (time, host, v) VALUES ('2024-01-01', 'a', 1), ('2024-01-02', 'b', 2) RETURNING host, v * 2 AS twice, _gsn, _seq").await.unwrap();
    assert_eq!(answer.names(), ["host", "twice", "_gsn", "_seq"]);
    assert_eq!(answer.lines().len(), 2);
    assert!(answer.lines()[0].starts_with("a|2|1|"), "{:?}", answer.lines());
    assert!(answer.lines()[1].starts_with("b|4|2|"), "{:?}", answer.lines());
    assert_eq!(answer.tag, "INSERT 0 2");
    let answer = db.run("INSERT INTO m AS x (time, host) VALUES ('2024-01-03', 'c') RETURNING *, x._tick IS NOT NULL").await.unwrap();
    assert_eq!(answer.names()[..4], ["time", "host", "v", "n"]);
    assert_eq!(answer.lines(), ["2024-01-03 00:00:00+00|c|NULL|7|t"]);
    let answer = db.run("INSERT INTO m (time, host) VALUES ('2024-01-03', 'c') ON CONFLICT DO NOTHING RETURNING host").await.unwrap();
    assert!(answer.lines().is_empty());
    assert_eq!(answer.tag, "INSERT 0 0");
    assert_eq!(
        db.kind("INSERT INTO m (time, host) VALUES ('2024-01-04', 'c') RETURNING nothing").await,
        ErrorKind::UndefinedColumn
    );
    assert_eq!(db.rows("SELECT count(*) FROM m WHERE time = '2024-01-04'").await, ["0"]);
}

#[tokio::test]
async fn wrong_values_are_named_and_nothing_is_stored() {
    let db = database().await;
    for (values, kind) in [
        ("('2024-01-01', NULL)", ErrorKind::NotNullViolation),
        ("(NULL, 'a')", ErrorKind::NotNullViolation),
        ("('2024-13-01', 'a')", ErrorKind::DatetimeOverflow),
        ("('yesterdayish', 'a')", ErrorKind::InvalidDatetimeFormat),
        ("('2024-01-01', 'a', 'x')", ErrorKind::InvalidTextRepresentation),
        ("('2024-01-01', 'a', 1, 3000000000)", ErrorKind::NumericOutOfRange),
        ("('2024-01-01', 'a', 1, 2147483647.5)", ErrorKind::NumericOutOfRange),
        ("('2024-01-01', 'a', true)", ErrorKind::DatatypeMismatch),
        ("(1, 'a')", ErrorKind::DatatypeMismatch),
        ("('2024-01-01', 'a', 1, 2, 3)", ErrorKind::SyntaxError),
        ("('2024-01-01', 'a', 1/0)", ErrorKind::DivisionByZero),
        ("('2024-01-01'), ('2024-01-01', 'a')", ErrorKind::SyntaxError),
        ("('2024-01-01', unknown_column)", ErrorKind::UndefinedColumn),
    ] {
        let error = db.error(&format!("INSERT INTO m VALUES {values}")).await;
        assert_eq!(error.kind(), kind, "{values}: {error}");
    }
    let error = db.error("INSERT INTO m (host) VALUES (NULL)").await;
    assert_eq!(
        error.message(),
        "null value in column \"host\" of relation \"m\" violates not-null constraint"
    );
    assert_eq!(db.kind("INSERT INTO m (nope) VALUES (1)").await, ErrorKind::UndefinedColumn);
    assert_eq!(
        db.kind("INSERT INTO m (host, host) VALUES ('a', 'b')").await,
        ErrorKind::DuplicateColumn
    );
    assert_eq!(db.kind("INSERT INTO nope VALUES (1)").await, ErrorKind::UndefinedTable);
    assert_eq!(db.rows("SELECT count(*) FROM m").await, ["0"]);
}

#[tokio::test]
async fn a_missing_tick_is_now() {
    let db = Database::new();
    db.tag("CREATE TABLE log (message text)").await;
    assert_eq!(db.tag("INSERT INTO log (message) VALUES ('x'), ('y')").await, "INSERT 0 2");
    assert_eq!(
        db.rows("SELECT message, time > '2023-12-31' FROM log ORDER BY time, _seq").await,
        ["x|t", "y|t"]
    );
    assert_eq!(db.tag("INSERT INTO log DEFAULT VALUES").await, "INSERT 0 1");
}

#[tokio::test]
async fn volatile_defaults_differ_by_row() {
    let db = Database::new();
    db.tag("CREATE TABLE u (time timestamptz, id uuid DEFAULT gen_random_uuid(), x int)").await;
    db.tag(
        "INSERT INTO u (time, x) VALUES ('2024-01-01', 1), ('2024-01-01', 2), ('2024-01-01', 3)",
    )
    .await;
    assert_eq!(db.rows("SELECT count(DISTINCT id) FROM u").await, ["3"]);
}

#[tokio::test]
async fn a_producer_is_recognized() {
    let db = database().await;
    let numbered = "SET stratalog.producer = '00000000-0000-0000-0000-00000000002a'; SET stratalog.producer_sequence = 1;";
    assert_eq!(
        db.tag(&format!("{numbered} INSERT INTO m VALUES ('2024-01-01', 'a', 1)")).await,
        "INSERT 0 1"
    );
    assert_eq!(
        db.tag("INSERT INTO m VALUES ('2024-01-02', 'a', 1)").await,
        "INSERT 0 1",
        "the number is used up"
    );
    assert_eq!(
        db.tag(&format!("{numbered} INSERT INTO m VALUES ('2024-01-03', 'a', 1)")).await,
        "INSERT 0 0"
    );
    assert!(!db.session.take_notices().is_empty());
    assert_eq!(db.rows("SELECT count(*) FROM m").await, ["2"]);
}

/// A retry during the first try waits for the first try: a client that got the error "too old"
/// would send the rows again under another number.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_waits_for_the_first_try() {
    let late = Arc::new(AtomicU64::new(0));
    let db = Database::with_late_answers(QuerySettings::default(), Arc::clone(&late));
    db.tag("CREATE TABLE c (time timestamptz NOT NULL, v int) WITH (time_source = 'client', acceptance_window = '5s')").await;
    let again = db.service.connect(login()).unwrap();
    let numbered = "SET stratalog.producer = '00000000-0000-0000-0000-00000000002b'; SET stratalog.producer_sequence = 1; INSERT INTO c VALUES ('2024-01-01 00:00:01+00', 1)";
    late.store(2_000, Ordering::Relaxed);
    let session = Arc::clone(&db.session);
    let first = tokio::spawn(async move { run(&session, numbered).await });
    tokio::time::sleep(Duration::from_millis(700)).await;
    db.clock.0.fetch_add(60_000_000_000, Ordering::Relaxed);
    assert_eq!(run(&again, numbered).await.unwrap().tag, "INSERT 0 0");
    assert_eq!(first.await.unwrap().unwrap().tag, "INSERT 0 1");
    assert_eq!(db.rows("SELECT v FROM c").await, ["1"]);
    // A number without an earlier try is rejected.
    let third = numbered.replace("sequence = 1", "sequence = 2");
    assert_eq!(run(&again, &third).await.unwrap_err().kind(), ErrorKind::OutsideWindow);
}

/// An acceptance window does not reach beyond the start of the client's session; the start of a
/// transaction or batch does not matter, and a request has no session start.
#[tokio::test]
async fn events_are_as_old_as_their_clients_session() {
    let db = Database::new();
    db.tag("CREATE TABLE c (time timestamptz NOT NULL, v int) WITH (time_source = 'client', acceptance_window = '5s')").await;
    db.clock.0.fetch_add(2_000_000_000, Ordering::Relaxed);
    let insert = "INSERT INTO c VALUES ('2024-01-01 00:00:01+00', 1)";
    let later = db.service.connect(login()).unwrap();
    assert_eq!(run(&later, insert).await.unwrap_err().kind(), ErrorKind::OutsideWindow);
    let twin = db.session.twin().unwrap();
    assert_eq!(run(&twin, insert).await.unwrap().tag, "INSERT 0 1");
    let request = db.service.connect_for_request(login()).unwrap();
    assert_eq!(run(&request, insert).await.unwrap().tag, "INSERT 0 1");
    let old = insert.replace("00:00:01", "23:59:55").replace("2024-01-01", "2023-12-31");
    assert_eq!(run(&request, &old).await.unwrap_err().kind(), ErrorKind::OutsideWindow);
}
