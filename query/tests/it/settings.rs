use stratalog_model::ErrorKind;

use crate::harness::{Database, login, run};

#[tokio::test]
async fn set_show_reset() {
    let db = Database::new();
    assert_eq!(db.tag("SET TimeZone = 'Europe/Berlin'").await, "SET");
    assert_eq!(db.rows("SHOW timezone").await, ["Europe/Berlin"]);
    assert_eq!(db.rows("SHOW TIME ZONE").await, ["Europe/Berlin"]);
    assert_eq!(db.tag("SET TIME ZONE 'UTC'").await, "SET");
    assert_eq!(db.rows("SHOW TimeZone").await, ["UTC"]);
    assert_eq!(db.tag("RESET ALL").await, "RESET");
    assert_eq!(db.tag("SET statement_timeout TO '2s'").await, "SET");
    assert_eq!(db.rows("SHOW statement_timeout").await, ["2s"]);
    assert_eq!(db.tag("SET statement_timeout TO DEFAULT").await, "SET");
    assert_eq!(db.rows("SHOW statement_timeout").await, ["0"]);
    assert_eq!(db.tag("SET NAMES 'utf8'").await, "SET");
    assert_eq!(db.kind("SET nonsense = 1").await, ErrorKind::UndefinedObject);
    assert_eq!(db.kind("SHOW nonsense").await, ErrorKind::UndefinedObject);
    assert_eq!(db.kind("SET client_encoding = 'LATIN1'").await, ErrorKind::FeatureNotSupported);
    assert_eq!(db.kind("SET server_version = '16'").await, ErrorKind::CannotChangeNow);
    let answer = db.run("SHOW server_version_num").await.unwrap();
    assert_eq!(answer.tag, "SHOW");
    assert_eq!(answer.names(), ["server_version_num"]);
    assert_eq!(answer.lines(), ["150000"]);
    assert!(db.rows("SHOW ALL").await.len() > 20);
    assert_eq!(db.rows("SELECT current_setting('server_version_num')::int / 100").await, ["1500"]);
    assert_eq!(db.tag("DISCARD ALL").await, "DISCARD ALL");
}

#[tokio::test]
async fn the_time_zone_has_effect_and_does_not_leak() {
    let db = Database::new();
    let other = db.service.connect(login()).unwrap();
    db.tag("CREATE TABLE t (time timestamptz, x int)").await;
    db.tag("SET TimeZone = 'Europe/Berlin'").await;
    db.tag("INSERT INTO t VALUES ('2024-07-01 02:00:00', 1)").await;
    assert_eq!(
        run(&other, "SELECT time FROM t").await.unwrap().lines(),
        ["2024-07-01 00:00:00+00"]
    );
    assert_eq!(db.rows("SELECT x FROM t WHERE time = '2024-07-01 02:00:00'").await, ["1"]);
    assert!(
        run(&other, "SELECT x FROM t WHERE time = '2024-07-01 02:00:00'")
            .await
            .unwrap()
            .lines()
            .is_empty()
    );
    assert_eq!(db.rows("SELECT extract(hour FROM time) FROM t").await, ["2"]);
    assert_eq!(run(&other, "SELECT extract(hour FROM time) FROM t").await.unwrap().lines(), ["0"]);
    assert_eq!(db.rows("SELECT time::timestamp FROM t").await, ["2024-07-01 02:00:00"]);
    assert_eq!(
        db.session.text_style().time_zone,
        stratalog_text::TimeZone::named("Europe/Berlin").unwrap()
    );
}

#[tokio::test]
async fn changes_are_reported_and_local_ones_end() {
    let db = Database::new();
    db.session.take_parameter_changes();
    db.tag("SET application_name = 'x y'").await;
    assert_eq!(
        db.session.take_parameter_changes(),
        [("application_name".to_string(), "x y".to_string())]
    );
    db.tag("BEGIN").await;
    db.tag("SET LOCAL extra_float_digits = 3").await;
    assert_eq!(db.rows("SHOW extra_float_digits").await, ["3"]);
    db.tag("COMMIT").await;
    assert_eq!(db.rows("SHOW extra_float_digits").await, ["1"]);
    db.tag("SET LOCAL extra_float_digits = 3").await;
    assert_eq!(db.session.take_notices().len(), 1);
}

#[tokio::test]
async fn prepared_statements_of_sql() {
    let db = Database::new();
    db.tag("CREATE TABLE t (time timestamptz, x int, s text)").await;
    assert_eq!(
        db.tag("PREPARE ins (timestamptz, int, text) AS INSERT INTO t VALUES ($1, $2, $3)").await,
        "PREPARE"
    );
    assert_eq!(db.tag("EXECUTE ins ('2024-01-01', 5, 'a')").await, "INSERT 0 1");
    assert_eq!(db.tag("EXECUTE ins ('2024-01-02', 2 + 4, NULL)").await, "INSERT 0 1");
    db.tag("PREPARE sel AS SELECT x, s FROM t WHERE x > $1 ORDER BY x").await;
    assert_eq!(db.rows("EXECUTE sel (5)").await, ["6|NULL"]);
    assert_eq!(db.rows("EXECUTE sel (0)").await, ["5|a", "6|NULL"]);
    assert_eq!(db.kind("EXECUTE sel").await, ErrorKind::SyntaxError);
    assert_eq!(db.kind("PREPARE sel AS SELECT 1").await, ErrorKind::DuplicatePreparedStatement);
    assert_eq!(db.tag("DEALLOCATE sel").await, "DEALLOCATE");
    assert_eq!(db.kind("EXECUTE sel (1)").await, ErrorKind::UndefinedPreparedStatement);
    assert_eq!(db.tag("DEALLOCATE ALL").await, "DEALLOCATE ALL");
    assert_eq!(db.kind("DEALLOCATE ins").await, ErrorKind::UndefinedPreparedStatement);
}
