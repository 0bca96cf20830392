//! Moving events through the extended protocol, and the bytes of the moved events.

use std::{process::Command, thread::sleep, time::Duration};

use tokio_postgres::{
    error::SqlState,
    types::{FromSql, Type},
};

use crate::support::{Bench, connect, good, stdout};

fn number<'a, T: FromSql<'a>>(row: &'a tokio_postgres::Row, name: &str) -> T {
    row.get(name)
}

#[tokio::test]
async fn a_prepared_call_takes_the_table_as_a_parameter() {
    let mut bench = Bench::new();
    good(&bench.sql(&["-c", "CREATE TABLE t (time TIMESTAMPTZ NOT NULL, n BIGINT)"]));
    good(&bench.sql(&["-c", "INSERT INTO t SELECT now(), n FROM generate_series(1, 100) g(n)"]));
    let client = connect(bench.server.address().port()).await.unwrap();
    let call = client.prepare("CALL stratalog.flush($1)").await.unwrap();
    assert_eq!(call.params(), [Type::TEXT]);
    let columns: Vec<_> =
        call.columns().iter().map(|column| (column.name(), column.type_())).collect();
    assert_eq!(
        columns,
        [("rows", &Type::INT8), ("pieces_added", &Type::INT8), ("pieces_removed", &Type::INT8)]
    );
    let row = client.query_one(&call, &[&"t"]).await.unwrap();
    assert_eq!(number::<i64>(&row, "rows"), 100);
    assert_eq!(number::<i64>(&row, "pieces_added"), 1);
    assert_eq!(number::<i64>(&row, "pieces_removed"), 0);
    let row = client.query_one(&call, &[&"public.t"]).await.unwrap();
    assert_eq!(number::<i64>(&row, "rows"), 0);
    let error = client.query_one(&call, &[&"nothing"]).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::UNDEFINED_TABLE));
    let error = client.prepare_typed("CALL stratalog.flush($1)", &[Type::INT4]).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::UNDEFINED_FUNCTION));
    let transaction = client.batch_execute("BEGIN; CALL stratalog.flush('t')").await.unwrap_err();
    assert_eq!(transaction.code(), Some(&SqlState::ACTIVE_SQL_TRANSACTION));
    client.batch_execute("ROLLBACK").await.unwrap();

    // After a kill, moved events are present in their new tier.
    drop(client);
    bench.kill_and_restart();
    let sums = "SELECT _tier || ' ' || sum(n) FROM t GROUP BY _tier";
    assert_eq!(bench.value(sums), "tablet 5050");
}

#[test]
fn the_bytes_by_kind_are_the_bytes_of_the_directory() {
    let bench = Bench::new();
    good(&bench.sql(&["-c", "CREATE TABLE t (time TIMESTAMPTZ NOT NULL, n BIGINT)"]));
    good(&bench.sql(&["-c", "INSERT INTO t SELECT now(), n FROM generate_series(1, 50000) g(n)"]));
    good(&bench.sql(&["-c", "CALL stratalog.flush('t')"]));
    let number = |query: &str| -> u64 { bench.value(query).parse().unwrap() };
    let of_kind =
        |kind| number(&format!("SELECT bytes FROM stratalog.storage WHERE kind = '{kind}'"));
    assert!(of_kind("tablets") >= number("SELECT sum(bytes) FROM stratalog.pieces"));
    assert!(of_kind("journal_preallocated") > 0);
    let directory = bench.directory.path().join("data");
    let is_equal = || {
        let used = Command::new("du").arg("-sk").arg(&directory).output().unwrap();
        let used: u64 = stdout(&used).split_whitespace().next().unwrap().parse().unwrap();
        number("SELECT (sum(bytes) / 1024)::bigint FROM stratalog.storage") == used
    };
    // Work in the background may change files between the two counts.
    let tries_max = 50;
    assert!((0..tries_max).any(|_| is_equal() || {
        sleep(Duration::from_millis(200));
        false
    }));
}
