use datafusion::scalar::ScalarValue;
use stratalog_model::ColumnType;

use crate::harness::{Database, finish};

/// A parameter for a number of rows is a bigint, wherever the query stands.
#[tokio::test]
async fn numbers_of_rows_are_bigints() {
    let db = Database::new();
    db.tag("CREATE TABLE m (time timestamptz NOT NULL, v int, PRIMARY KEY (time))").await;
    db.tag("INSERT INTO m SELECT timestamptz '2023-01-01' + i * interval '1 s', i FROM generate_series(0, 9) AS s(i)").await;
    for (sql, values, expected) in [
        ("SELECT v FROM m ORDER BY v LIMIT $1 OFFSET $2", vec![2, 3], vec!["3", "4"]),
        ("SELECT v FROM m ORDER BY v LIMIT ($1)", vec![1], vec!["0"]),
        (
            "SELECT v FROM m ORDER BY v OFFSET $1 FETCH FIRST $2 ROWS ONLY",
            vec![8, 5],
            vec!["8", "9"],
        ),
        (
            "SELECT * FROM (SELECT v FROM m ORDER BY v LIMIT $1 OFFSET $2) s ORDER BY v DESC",
            vec![2, 1],
            vec!["2", "1"],
        ),
        (
            "SELECT * FROM (SELECT v FROM m ORDER BY v FETCH FIRST $1 ROWS ONLY) s",
            vec![1],
            vec!["0"],
        ),
        (
            "WITH w AS (SELECT v FROM m ORDER BY v LIMIT $1) SELECT sum(v) FROM w",
            vec![4],
            vec!["6"],
        ),
        (
            "SELECT count(*) FROM m WHERE v IN (SELECT v FROM m ORDER BY v LIMIT $1)",
            vec![3],
            vec!["3"],
        ),
        ("SELECT v FROM playback('m', $1)", vec![2], vec!["9", "8"]),
        (
            "SELECT max(v) FROM (SELECT v FROM playback('m', $1) ORDER BY v LIMIT $2) s",
            vec![4, 2],
            vec!["7"],
        ),
    ] {
        let parsed = db.session.parse(sql).unwrap().remove(0);
        let prepared = db.session.prepare(&parsed, &[]).await.unwrap();
        let bigints = vec![ColumnType::BigInt; values.len()];
        assert_eq!(prepared.parameter_types(), bigints, "{sql}");
        let values = values.into_iter().map(|value| ScalarValue::Int64(Some(value))).collect();
        let outcome = db.session.execute(&prepared, values).await.unwrap();
        assert_eq!(finish(outcome).await.unwrap().lines(), expected, "{sql}");
    }
    // A parameter type from the client is kept.
    let sql = "SELECT count(*) FROM (SELECT v FROM m LIMIT $1) s";
    let parsed = db.session.parse(sql).unwrap().remove(0);
    let prepared = db.session.prepare(&parsed, &[Some(ColumnType::Integer)]).await.unwrap();
    assert_eq!(prepared.parameter_types(), [ColumnType::Integer]);
    let outcome = db.session.execute(&prepared, vec![ScalarValue::Int32(Some(3))]).await.unwrap();
    assert_eq!(finish(outcome).await.unwrap().lines(), ["3"]);
}
