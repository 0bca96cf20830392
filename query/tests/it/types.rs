use stratalog_model::ErrorKind;

use crate::harness::Database;

#[tokio::test]
async fn every_type_goes_in_and_comes_out() {
    let db = Database::new();
    db.tag("CREATE TABLE a (time timestamptz, b boolean, i2 smallint, i4 int, i8 bigint, r real, d double precision, n numeric(12,4), t text, y bytea, ts timestamp(3), tz timestamptz(6), da date, ti time, iv interval, u uuid, j jsonb, ia int[], ta text[])").await;
    db.tag(r#"INSERT INTO a VALUES ('2024-01-01', true, -1, 2, 3, 1.5, -2.25, 12345678.12345, 'é', '\x00ff', '2024-01-01 12:00:00.5', '2024-01-01 12:00:00+02', '1969-12-31', '23:59:59.999', '1 mon 2 days 03:04:05', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', '{"b": 1, "a": [true, null]}', '{1,NULL,3}', '{"x y",z}')"#).await;
    db.tag("INSERT INTO a (time) VALUES ('2024-01-02')").await;
    let rows = db.rows("SELECT * FROM a ORDER BY time").await;
    assert_eq!(
        rows[0],
        r#"2024-01-01 00:00:00+00|t|-1|2|3|1.5|-2.25|12345678.1235|é|\x00ff|2024-01-01 12:00:00.5|2024-01-01 10:00:00+00|1969-12-31|23:59:59.999|1 mon 2 days 03:04:05|a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11|{"a": [true, null], "b": 1}|{1,NULL,3}|{"x y",z}"#
    );
    assert_eq!(rows[1], format!("2024-01-02 00:00:00+00{}", "|NULL".repeat(18)));
    assert_eq!(
        db.rows("SELECT count(*) FROM a WHERE u = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'").await,
        ["1"]
    );
    assert_eq!(db.rows("SELECT j -> 'b', j ->> 'b' FROM a WHERE j IS NOT NULL").await, ["1|1"]);
    assert_eq!(
        db.rows("SELECT n + 1, n * 2 FROM a WHERE n IS NOT NULL").await[0]
            .split('|')
            .next()
            .unwrap(),
        "12345679.1235"
    );
    assert_eq!(
        db.rows("SELECT ia[1], ta[2], iv * 2 FROM a WHERE ia IS NOT NULL").await[0]
            .split('|')
            .take(2)
            .collect::<Vec<_>>(),
        ["1", "z"]
    );
    assert_eq!(
        db.rows(
            "SELECT 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid = u FROM a WHERE u IS NOT NULL"
        )
        .await,
        ["t"]
    );
}

#[tokio::test]
async fn assignments_between_types() {
    let db = Database::new();
    db.tag("CREATE TABLE a (time timestamptz, i2 smallint, i8 bigint, n numeric(6,2), t text, d date, ts timestamp(0))").await;
    db.tag("INSERT INTO a (time, i2, i8, n, t, d, ts) SELECT timestamptz '2024-01-01 00:00:00+00', 2.5::numeric(3,1), 3.5::float8, 1.005::numeric(8,3), 42, timestamptz '2024-01-01 23:00:00+00', timestamp '2024-01-01 00:00:00.6'").await;
    assert_eq!(
        db.rows("SELECT i2, i8, n, t, d, ts FROM a").await,
        ["3|4|1.01|42|2024-01-01|2024-01-01 00:00:01"]
    );
    for (sql, kind) in [
        ("INSERT INTO a (time, i2) SELECT now(), 40000", ErrorKind::NumericOutOfRange),
        ("INSERT INTO a (time, n) VALUES (now(), 12345.6)", ErrorKind::NumericOutOfRange),
        ("INSERT INTO a (time, d) SELECT now(), 5", ErrorKind::DatatypeMismatch),
        ("INSERT INTO a (time, i2) SELECT now(), true", ErrorKind::DatatypeMismatch),
        (
            "INSERT INTO a (time, i8) VALUES (now(), 9223372036854775808)",
            ErrorKind::NumericOutOfRange,
        ),
    ] {
        assert_eq!(db.kind(sql).await, kind, "{sql}");
    }
    assert_eq!(db.rows("SELECT count(*) FROM a").await, ["1"]);
}

#[tokio::test]
async fn literals_meet_columns_as_their_own_type() {
    let db = Database::new();
    db.tag("CREATE TABLE a (time timestamptz, i int, b boolean, d date, j jsonb)").await;
    db.tag("INSERT INTO a VALUES ('2024-01-01', 10, true, '2024-02-03', '[1]')").await;
    for filter in [
        "i = '10'",
        "b = 'yes'",
        "d = '2024-02-03'",
        "d > '2024-01-31'",
        "time = '2024-01-01 00:00:00 +0000'",
        "time < '2024-01-01 01:00:00+00:30'",
        "i BETWEEN '9' AND '11'",
        "i IN ('10', '11')",
    ] {
        assert_eq!(
            db.rows(&format!("SELECT count(*) FROM a WHERE {filter}")).await,
            ["1"],
            "{filter}"
        );
    }
    assert_eq!(
        db.rows("SELECT 0.1 + 0.2 = 0.3, 1 / 2, 7 % 3, 1.0 / 4").await[0]
            .split('|')
            .take(3)
            .collect::<Vec<_>>(),
        ["t", "0", "1"]
    );
    assert_eq!(
        db.rows("SELECT '1'::int + 1, 't'::boolean, '2024-01-01'::date + 1").await,
        ["2|t|2024-01-02"]
    );
}

#[tokio::test]
async fn integers_fail_instead_of_wrapping() {
    let db = Database::new();
    db.tag("CREATE TABLE a (time timestamptz, i int, b bigint)").await;
    db.tag("INSERT INTO a VALUES ('2024-01-01', 2147483647, 9223372036854775807)").await;
    for sql in [
        "SELECT i + i FROM a",
        "SELECT i * i FROM a",
        "SELECT -i - i FROM a",
        "SELECT b + 1 FROM a",
        "SELECT 9223372036854775807 + 1",
        "SELECT count(*) FROM a WHERE b + 1 > 0",
        "SELECT b::int FROM a",
        "SELECT 3000000000::int",
    ] {
        assert_eq!(db.kind(sql).await, ErrorKind::NumericOutOfRange, "{sql}");
    }
    for sql in ["SELECT i + 1 FROM a", "SELECT 2147483647 + 1"] {
        assert_eq!(db.kind(sql).await, ErrorKind::NumericOutOfRange, "{sql}");
    }
    assert_eq!(
        db.rows("SELECT i::bigint + 1, i - 1, 2147483648 + 1 FROM a").await,
        ["2147483648|2147483646|2147483649"]
    );
    let answer = db.run("SELECT 1, 2147483648, 1 + 1").await.unwrap();
    let types: Vec<String> = answer
        .schema
        .as_ref()
        .unwrap()
        .fields()
        .iter()
        .map(|field| field.data_type().to_string())
        .collect();
    assert_eq!(types, ["Int32", "Int64", "Int32"]);
}
