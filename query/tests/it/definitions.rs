use stratalog_model::ErrorKind;

use crate::harness::Database;

#[tokio::test]
async fn tables_are_made_changed_and_dropped() {
    let db = Database::new();
    let sql = "CREATE TABLE cpu (time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, usage DOUBLE PRECISION DEFAULT 1.5, PRIMARY KEY (host, time)) WITH (granularity = '1ns', collision = 'last')";
    assert_eq!(db.tag(sql).await, "CREATE TABLE");
    assert_eq!(db.kind(sql).await, ErrorKind::DuplicateTable);
    assert_eq!(
        db.tag("CREATE CHRONICLE IF NOT EXISTS cpu (time timestamptz)").await,
        "CREATE TABLE"
    );
    let notices = db.session.take_notices();
    assert_eq!(notices.len(), 1);
    assert_eq!(db.tag("ALTER TABLE cpu ADD COLUMN note text DEFAULT 'none'").await, "ALTER TABLE");
    assert_eq!(db.tag("ALTER TABLE cpu RENAME COLUMN note TO remark").await, "ALTER TABLE");
    assert_eq!(db.tag("ALTER TABLE cpu RENAME TO processors").await, "ALTER TABLE");
    assert_eq!(db.tag("COMMENT ON TABLE processors IS 'all of them'").await, "COMMENT");
    assert_eq!(db.tag("COMMENT ON COLUMN processors.host IS 'name'").await, "COMMENT");
    assert_eq!(db.kind("SELECT * FROM cpu").await, ErrorKind::UndefinedTable);
    assert!(db.rows("SELECT remark FROM processors").await.is_empty());
    assert_eq!(db.tag("DROP TABLE processors").await, "DROP TABLE");
    assert_eq!(db.kind("DROP TABLE processors").await, ErrorKind::UndefinedTable);
    assert_eq!(db.tag("DROP TABLE IF EXISTS processors, cpu").await, "DROP TABLE");
}

#[tokio::test]
async fn older_rows_show_the_default_of_an_added_column() {
    let db = Database::new();
    db.tag("CREATE TABLE t (time timestamptz, a int)").await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 1)").await;
    db.tag("ALTER TABLE t ADD COLUMN b numeric(5,2) DEFAULT 2.5").await;
    db.tag("INSERT INTO t (time, a) VALUES ('2024-01-02', 2)").await;
    db.tag("INSERT INTO t (time, a, b) VALUES ('2024-01-03', 3, NULL)").await;
    assert_eq!(db.rows("SELECT a, b FROM t ORDER BY a").await, ["1|2.50", "2|2.50", "3|NULL"]);
}

#[tokio::test]
async fn schemas_and_databases() {
    let db = Database::new();
    assert_eq!(db.tag("CREATE SCHEMA plant").await, "CREATE SCHEMA");
    assert_eq!(db.kind("CREATE SCHEMA plant").await, ErrorKind::DuplicateSchema);
    db.tag("CREATE TABLE plant.t (time timestamptz, x int)").await;
    db.tag("INSERT INTO plant.t VALUES ('2024-01-01', 1)").await;
    assert_eq!(db.rows("SELECT x FROM plant.t").await, ["1"]);
    assert_eq!(db.rows("SELECT t.x FROM stratalog.plant.t").await, ["1"]);
    assert_eq!(db.kind("SELECT x FROM t").await, ErrorKind::UndefinedTable);
    db.tag("SET search_path TO plant, public").await;
    assert_eq!(db.rows("SELECT x FROM t").await, ["1"]);
    db.tag("CREATE TABLE u (time timestamptz)").await;
    assert!(db.rows("SELECT * FROM plant.u").await.is_empty());
    assert_eq!(db.kind("DROP SCHEMA plant").await, ErrorKind::DependentObjects);
    assert_eq!(db.tag("DROP SCHEMA plant CASCADE").await, "DROP SCHEMA");
    assert_eq!(db.tag("CREATE DATABASE other").await, "CREATE DATABASE");
    assert_eq!(db.kind("DROP DATABASE stratalog").await, ErrorKind::ObjectInUse);
    assert_eq!(db.tag("DROP DATABASE other").await, "DROP DATABASE");
    assert_eq!(db.kind("SELECT * FROM other.public.t").await, ErrorKind::UndefinedTable);
}

#[tokio::test]
async fn what_is_not_offered_is_refused() {
    let db = Database::new();
    db.tag("CREATE TABLE t (time timestamptz, x int)").await;
    for sql in [
        "CREATE TABLE u AS SELECT 1",
        "CREATE TEMP TABLE u (time timestamptz)",
        "CREATE TABLE u (time timestamptz, x int UNIQUE)",
        "CREATE TABLE u (time timestamptz, x int CHECK (x > 0))",
        "CREATE TABLE u (time timestamptz, x int REFERENCES t(x))",
        "CREATE TABLE u (time timestamptz, x varchar(10))",
        "CREATE TABLE u (time timestamptz, x json)",
        "CREATE TABLE u (time timestamptz, x serial)",
        "CREATE TABLE u (time timestamptz) WITH (tiering = 'auto')",
        "CREATE VIEW v AS SELECT 1",
        "CREATE UNIQUE INDEX i ON t (x)",
        "ALTER TABLE t DROP COLUMN x",
        "ALTER TABLE t ALTER COLUMN x SET NOT NULL",
        "UPDATE t SET x = 1",
        "TRUNCATE t",
        "MERGE INTO t USING t AS u ON t.x = u.x WHEN MATCHED THEN DELETE",
        "LISTEN c",
        "GRANT SELECT ON t TO bob",
        "SELECT * FROM t FOR UPDATE",
        "SELECT 1 INTO u",
        "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '/etc/passwd'",
    ] {
        let kind = db.kind(sql).await;
        assert!(
            matches!(kind, ErrorKind::FeatureNotSupported | ErrorKind::SyntaxError),
            "{sql}: {kind:?}"
        );
    }
    assert_eq!(db.kind("SELECT * FROM '/etc/passwd'").await, ErrorKind::UndefinedTable);
    assert_eq!(
        db.kind("CREATE TABLE u (x int, time timestamptz, PRIMARY KEY (x))").await,
        ErrorKind::InvalidTableDefinition
    );
    assert_eq!(
        db.kind("CREATE TABLE u (time timestamptz, time int)").await,
        ErrorKind::DuplicateColumn
    );
    assert_eq!(
        db.kind("CREATE TABLE u (time timestamptz) WITH (colour = 'red')").await,
        ErrorKind::InvalidParameterValue
    );
    assert_eq!(
        db.kind("CREATE TABLE u (time timestamptz, x frob)").await,
        ErrorKind::UndefinedObject
    );
    assert_eq!(
        db.kind("CREATE TABLE u (time timestamptz, x int DEFAULT 'a')").await,
        ErrorKind::InvalidTextRepresentation
    );
    assert_eq!(
        db.kind("CREATE TABLE pg_catalog.u (time timestamptz)").await,
        ErrorKind::InsufficientPrivilege
    );
}

#[tokio::test]
async fn system_tables_are_there() {
    let db = Database::new();
    db.tag("CREATE TABLE t (time timestamptz, x int)").await;
    assert_eq!(db.rows("SELECT relname FROM pg_class WHERE relname = 't'").await, ["t"]);
    assert_eq!(
        db.rows("SELECT column_name FROM information_schema.columns WHERE table_name = 't' ORDER BY ordinal_position").await,
        ["time", "x"]
    );
    assert_eq!(db.rows("SELECT count(*) FROM stratalog.chronicles").await, ["1"]);
    assert_eq!(
        db.kind("INSERT INTO pg_catalog.pg_class VALUES (1)").await,
        ErrorKind::InsufficientPrivilege
    );
}
