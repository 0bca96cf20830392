use stratalog_model::ErrorKind;

use crate::harness::Database;

#[tokio::test]
async fn only_whole_ranges_of_time_are_deleted() {
    let db = Database::new();
    db.tag("CREATE TABLE t (time timestamptz, x int)").await;
    db.tag("INSERT INTO t SELECT timestamptz '2024-01-01 00:00:00+00' + i * interval '1 hour', i FROM generate_series(0, 99) AS s(i)").await;
    assert_eq!(db.tag("DELETE FROM t WHERE time < '2024-01-01 10:00:00+00'").await, "DELETE 10");
    assert_eq!(db.tag("DELETE FROM t WHERE time >= '2024-01-05 00:00:00+00'").await, "DELETE 4");
    assert_eq!(db.tag("DELETE FROM t WHERE time >= '2024-01-01 00:00:00+00' AND time < '2024-01-01 12:00:00+00'").await, "DELETE 2");
    assert_eq!(db.rows("SELECT count(*), min(x), max(x) FROM t").await, ["84|12|95"]);
    assert_eq!(
        db.tag("DELETE FROM t WHERE time > '2030-01-01' AND time < '2020-01-01'").await,
        "DELETE 0"
    );
    assert_eq!(db.tag("DELETE FROM t WHERE false").await, "DELETE 0");
    for sql in [
        "DELETE FROM t WHERE x = 3",
        "DELETE FROM t WHERE time < '2024-01-02' AND x = 3",
        "DELETE FROM t WHERE time = '2024-01-02' OR time = '2024-01-03'",
        "DELETE FROM t WHERE time > '2024-01-02' AND time < '2024-01-03'",
        "DELETE FROM t WHERE time < (SELECT max(time) FROM t)",
        "DELETE FROM t USING t AS u WHERE true",
        "DELETE FROM t WHERE time < '2024-01-02' RETURNING *",
    ] {
        assert_eq!(db.kind(sql).await, ErrorKind::FeatureNotSupported, "{sql}");
    }
    assert_eq!(db.kind("DELETE FROM nope").await, ErrorKind::UndefinedTable);
    assert_eq!(db.rows("SELECT count(*) FROM t").await, ["84"]);
    assert_eq!(db.tag("DELETE FROM t").await, "DELETE 84");
    assert_eq!(db.rows("SELECT count(*) FROM t").await, ["0"]);
}
