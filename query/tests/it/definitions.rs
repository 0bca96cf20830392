use std::{sync::Arc, time::Duration};

use stratalog_model::ErrorKind;

use crate::harness::{Database, login, run};

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
        "MERGE INTO t USING t AS u ON t.x = u.x WHEN MATCHED THEN DELETE",
        "LISTEN c",
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_added_beside_those_who_write() {
    let db = Database::new();
    db.tag("CREATE TABLE t (time timestamptz NOT NULL, host text NOT NULL, v int)").await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 'a', 1)").await;
    let [writer, late] = [(); 2].map(|()| db.service.connect(login()).unwrap());
    run(&writer, "BEGIN").await.unwrap();
    run(&writer, "INSERT INTO t VALUES ('2024-01-02', 'a', 2)").await.unwrap();
    let add = "ALTER TABLE t ADD PRIMARY KEY (host, time)";
    db.tag("SET lock_timeout = '20ms'").await;
    assert_eq!(db.kind(add).await, ErrorKind::LockNotAvailable);
    db.tag("SET lock_timeout = 0").await;
    let session = Arc::clone(&db.session);
    let adding = tokio::spawn(async move { run(&session, add).await.map(|answer| answer.tag) });
    // New writers get an error from now on; writers that have already started go on.
    loop {
        run(&late, "BEGIN").await.unwrap();
        let begun = run(&late, "INSERT INTO t VALUES ('2024-01-03', 'late', 3)").await;
        run(&late, "ROLLBACK").await.unwrap();
        if let Err(error) = begun {
            assert_eq!(error.kind(), ErrorKind::LockNotAvailable, "{error}");
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(run(&late, "SELECT v FROM t").await.unwrap().lines(), ["1"]);
    run(&writer, "INSERT INTO t VALUES ('2024-01-04', 'a', 4)").await.unwrap();
    assert!(!adding.is_finished());
    run(&writer, "COMMIT").await.unwrap();
    assert_eq!(adding.await.unwrap().unwrap(), "ALTER TABLE");
    assert_eq!(db.rows("SELECT v FROM t ORDER BY v").await, ["1", "2", "4"]);
    run(&writer, "INSERT INTO t VALUES ('2024-01-05', 'a', 5)").await.unwrap();
    let twice = "INSERT INTO t VALUES ('2024-01-05', 'a', 6)";
    assert_eq!(db.kind(twice).await, ErrorKind::UniqueViolation);
    assert!(db.rows("SELECT * FROM stratalog.acquisitions").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_acknowledged_is_there_when_a_key_is_added() {
    let db = Database::new();
    db.tag("CREATE TABLE t (time timestamptz NOT NULL, host text NOT NULL, v int)").await;
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let session = db.service.connect(login()).unwrap();
            tokio::spawn(async move {
                let mut stored = Vec::new();
                for v in 0..200 {
                    let sql = format!("INSERT INTO t VALUES ('2024-01-01'::timestamptz + {v} * interval '1 s', 'w{writer}', {v})");
                    match run(&session, &sql).await {
                        Ok(_) => stored.push(format!("w{writer}|{v}")),
                        Err(error) => assert!(
                            matches!(
                                error.kind(),
                                ErrorKind::LockNotAvailable | ErrorKind::UndefinedTable
                            ),
                            "{error}"
                        ),
                    }
                }
                stored
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(30)).await;
    db.tag("ALTER TABLE t ADD PRIMARY KEY (host, time)").await;
    let mut stored = Vec::new();
    for writer in writers {
        stored.extend(writer.await.unwrap());
    }
    stored.sort();
    let mut found = db.rows("SELECT host, v FROM t").await;
    found.sort();
    assert_eq!(found, stored);
    assert_eq!(db.rows("SELECT count(*) FROM pg_constraint WHERE conname = 't_pkey'").await, ["1"]);
}

#[tokio::test]
async fn a_key_of_others_changes_is_tried_again() {
    let db = Database::new();
    db.tag("CREATE TABLE t (time timestamptz NOT NULL, host text NOT NULL)").await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 'a')").await;
    let other = db.service.connect(login()).unwrap();
    db.tag("BEGIN").await;
    db.tag("ALTER TABLE t ADD PRIMARY KEY (host, time)").await;
    let insert = "INSERT INTO t VALUES ('2024-01-02', 'a')";
    let refused = run(&other, insert).await.err().map(|error| error.kind());
    assert_eq!(refused, Some(ErrorKind::LockNotAvailable));
    run(&other, "COMMENT ON TABLE t IS 'meanwhile'").await.unwrap();
    assert_eq!(db.kind("COMMIT").await, ErrorKind::LockNotAvailable);
    run(&other, insert).await.unwrap();
    db.tag("ALTER TABLE t ADD PRIMARY KEY (host, time)").await;
    assert_eq!(db.rows("SELECT time FROM t").await.len(), 2);
    let comment = "SELECT obj_description('t'::regclass, 'pg_class')";
    assert_eq!(db.rows(comment).await, ["meanwhile"]);
}

#[tokio::test]
async fn a_long_table_gets_its_key_in_pieces() {
    let db = Database::new();
    db.tag("CREATE TABLE t (time timestamptz NOT NULL, v int, long text)").await;
    for part in 0..10 {
        let sql = format!(
            "INSERT INTO t SELECT '2024-01-01'::timestamptz + n * interval '1 s', n, repeat('x', 1000000) FROM generate_series({}, {}) AS n",
            part * 20,
            part * 20 + 19
        );
        db.tag(&sql).await;
    }
    db.tag("ALTER TABLE t ADD PRIMARY KEY (time)").await;
    let told = "SELECT count(*), sum(v), min(length(long)), count(DISTINCT time) FROM t";
    assert_eq!(db.rows(told).await, ["200|19900|1000000|200"]);
    // A duplicate key in an earlier piece.
    db.tag("CREATE TABLE u (time timestamptz NOT NULL, v int, long text)").await;
    db.tag("INSERT INTO u SELECT time, v, long FROM t").await;
    db.tag("INSERT INTO u VALUES ('2024-01-01', 0, 'again')").await;
    let error = db.error("ALTER TABLE u ADD PRIMARY KEY (time)").await;
    assert_eq!(error.kind(), ErrorKind::UniqueViolation);
    assert_eq!(error.message(), "could not create unique index \"u_pkey\"");
    assert_eq!(db.rows("SELECT count(*) FROM u").await, ["201"]);
}
