use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, RecordBatch, StringViewArray, TimestampNanosecondArray,
};
use arrow::datatypes::{Field, Schema};
use stratalog_model::ErrorKind;
use stratalog_query::{CopyIn, Outcome, TransactionState};
use stratalog_text::copy::{CopyFormat, SkippedRows};

use crate::harness::Database;

async fn database() -> Database {
    let db = Database::new();
    db.tag("CREATE TABLE m (time timestamptz NOT NULL, host text NOT NULL, v double precision DEFAULT 3, PRIMARY KEY (host, time))").await;
    db
}

async fn copy_in(db: &Database, sql: &str) -> CopyIn {
    let parsed = db.session.parse(sql).unwrap().remove(0);
    match db.session.run(&parsed).await.unwrap() {
        Outcome::CopyIn(copy) => *copy,
        other => panic!("{other:?}"),
    }
}

fn batch(copy: &CopyIn, first: i64, rows: usize) -> RecordBatch {
    let fields: Vec<Field> =
        copy.columns.iter().map(|(name, kind)| kind.arrow_field(name, true)).collect();
    let columns: Vec<ArrayRef> = copy
        .columns
        .iter()
        .map(|(name, _)| -> ArrayRef {
            match name.as_str() {
                "time" => Arc::new(
                    TimestampNanosecondArray::from_iter_values(
                        (0..rows as i64).map(|i| (first + i) * 1_000_000_000),
                    )
                    .with_timezone("UTC"),
                ),
                "host" => Arc::new(StringViewArray::from(vec!["a"; rows])),
                _ => Arc::new(Float64Array::from(vec![1.0; rows])),
            }
        })
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

#[tokio::test]
async fn rows_go_in_together() {
    let db = database().await;
    let mut copy = copy_in(&db, "COPY m (host, time) FROM STDIN").await;
    assert_eq!(
        copy.columns.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["host", "time"]
    );
    copy.sink.push(batch(&copy, 0, 100)).await.unwrap();
    let second = batch(&copy, 100, 50);
    assert_eq!(db.rows("SELECT count(*) FROM m").await, ["0"]);
    copy.sink.push(second).await.unwrap();
    assert_eq!(copy.sink.finish(&SkippedRows::default()).await.unwrap(), 150);
    assert_eq!(db.rows("SELECT count(*), sum(v) FROM m").await, ["150|450"]);
}

#[tokio::test]
async fn a_dropped_or_failed_copy_stores_nothing() {
    let db = database().await;
    let mut copy = copy_in(&db, "COPY m FROM STDIN WITH (FORMAT csv, HEADER)").await;
    assert_eq!(copy.options.format, CopyFormat::Csv);
    copy.sink.push(batch(&copy, 0, 100)).await.unwrap();
    drop(copy);
    assert_eq!(db.rows("SELECT count(*) FROM m").await, ["0"]);
    let mut copy = copy_in(&db, "COPY m FROM STDIN").await;
    copy.sink.push(batch(&copy, 0, 10)).await.unwrap();
    let again = batch(&copy, 5, 10);
    assert_eq!(copy.sink.push(again).await.unwrap_err().kind(), ErrorKind::UniqueViolation);
    drop(copy);
    assert_eq!(db.rows("SELECT count(*) FROM m").await, ["0"]);
}

#[tokio::test]
async fn a_copy_in_a_block_waits_for_commit() {
    let db = database().await;
    db.tag("BEGIN").await;
    let mut copy = copy_in(&db, "COPY m FROM STDIN").await;
    copy.sink.push(batch(&copy, 0, 10)).await.unwrap();
    assert_eq!(copy.sink.finish(&SkippedRows::default()).await.unwrap(), 10);
    assert_eq!(db.session.transaction(), TransactionState::Block);
    db.tag("COMMIT").await;
    assert_eq!(db.rows("SELECT count(*) FROM m").await, ["10"]);
}

#[tokio::test]
async fn rows_come_out() {
    let db = database().await;
    db.tag("INSERT INTO m VALUES ('2024-01-01', 'a', 1), ('2024-01-02', 'b', NULL)").await;
    assert_eq!(db.rows("COPY m TO STDOUT").await.len(), 2);
    assert_eq!(db.rows("COPY m (host, v) TO STDOUT (FORMAT csv)").await, ["a|1", "b|NULL"]);
    assert_eq!(
        db.rows("COPY (SELECT host FROM m ORDER BY host DESC) TO STDOUT CSV HEADER").await,
        ["b", "a"]
    );
}

#[tokio::test]
async fn forced_columns_are_among_those_copied() {
    let db = database().await;
    for (sql, kind, message) in [
        (
            "COPY m TO STDOUT (FORMAT csv, FORCE_QUOTE (nope))",
            ErrorKind::UndefinedColumn,
            "column \"nope\" of relation \"m\" does not exist",
        ),
        (
            "COPY m (host) TO STDOUT (FORMAT csv, FORCE_QUOTE (host, v))",
            ErrorKind::InvalidColumnReference,
            "FORCE_QUOTE column \"v\" not referenced by COPY",
        ),
        (
            "COPY (SELECT host FROM m) TO STDOUT (FORMAT csv, FORCE_QUOTE (v))",
            ErrorKind::UndefinedColumn,
            "column \"v\" does not exist",
        ),
        (
            "COPY m (host, time) FROM STDIN (FORMAT csv, FORCE_NULL (v))",
            ErrorKind::InvalidColumnReference,
            "FORCE_NULL column \"v\" not referenced by COPY",
        ),
        (
            "COPY m FROM STDIN (FORMAT csv, FORCE_NOT_NULL (nope))",
            ErrorKind::UndefinedColumn,
            "column \"nope\" of relation \"m\" does not exist",
        ),
        (
            "COPY m FROM STDIN (FORMAT csv, FORCE_QUOTE *)",
            ErrorKind::FeatureNotSupported,
            "COPY force quote only available using COPY TO",
        ),
        (
            "COPY m TO STDOUT (FORCE_QUOTE *)",
            ErrorKind::FeatureNotSupported,
            "COPY force quote available only in CSV mode",
        ),
    ] {
        let error = db.error(sql).await;
        assert_eq!((error.kind(), error.message()), (kind, message), "{sql}");
    }
}

#[tokio::test]
async fn files_programs_and_wrong_options_are_refused() {
    let db = database().await;
    for (sql, kind) in [
        ("COPY m FROM '/etc/passwd'", ErrorKind::InsufficientPrivilege),
        ("COPY m TO '/tmp/x'", ErrorKind::InsufficientPrivilege),
        ("COPY m FROM PROGRAM 'id'", ErrorKind::InsufficientPrivilege),
        ("COPY m FROM STDIN (FORMAT binary, HEADER)", ErrorKind::FeatureNotSupported),
        ("COPY nope FROM STDIN", ErrorKind::UndefinedTable),
        ("COPY m (nope) FROM STDIN", ErrorKind::UndefinedColumn),
        ("COPY m (host, host) FROM STDIN", ErrorKind::DuplicateColumn),
        ("COPY m (nope) TO STDOUT", ErrorKind::UndefinedColumn),
        ("COPY pg_class FROM STDIN", ErrorKind::UndefinedTable),
    ] {
        assert_eq!(db.kind(sql).await, kind, "{sql}");
    }
}
