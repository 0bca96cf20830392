//! Moving events through the extended protocol.

use tokio_postgres::{
    error::SqlState,
    types::{FromSql, Type},
};

use crate::support::{Bench, connect, good};

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
