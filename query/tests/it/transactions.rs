use stratalog_model::ErrorKind;
use stratalog_query::{QuerySettings, TransactionState};

use crate::harness::{Database, login, run};

async fn database() -> Database {
    let db = Database::new();
    db.tag("CREATE TABLE t (time timestamptz, x int)").await;
    db.tag("CREATE TABLE u (time timestamptz, x int)").await;
    db
}

#[tokio::test]
async fn a_block_reads_one_snapshot() {
    let db = database().await;
    let other = db.service.connect(login()).unwrap();
    assert_eq!(db.tag("BEGIN").await, "BEGIN");
    assert_eq!(db.session.transaction(), TransactionState::Block);
    assert_eq!(db.rows("SELECT count(*) FROM t").await, ["0"]);
    run(&other, "INSERT INTO t VALUES ('2024-01-01', 1)").await.unwrap();
    assert_eq!(db.rows("SELECT count(*) FROM t").await, ["0"]);
    assert_eq!(db.tag("COMMIT").await, "COMMIT");
    assert_eq!(db.rows("SELECT count(*) FROM t").await, ["1"]);
}

#[tokio::test]
async fn one_write_becomes_visible_at_commit_and_not_at_rollback() {
    let db = database().await;
    let other = db.service.connect(login()).unwrap();
    db.tag("START TRANSACTION").await;
    assert_eq!(db.tag("INSERT INTO t VALUES ('2024-01-01', 1)").await, "INSERT 0 1");
    assert!(run(&other, "SELECT * FROM t").await.unwrap().lines().is_empty());
    assert_eq!(db.rows("SELECT count(*) FROM u").await, ["0"]);
    assert_eq!(db.tag("END").await, "COMMIT");
    assert_eq!(run(&other, "SELECT x FROM t").await.unwrap().lines(), ["1"]);
    db.tag("BEGIN").await;
    db.tag("INSERT INTO t VALUES ('2024-01-02', 2)").await;
    assert_eq!(db.tag("ROLLBACK").await, "ROLLBACK");
    assert_eq!(db.rows("SELECT x FROM t").await, ["1"]);
}

#[tokio::test]
async fn read_committed_reads_anew_for_each_statement_and_its_own_rows() {
    let db = database().await;
    let other = db.service.connect(login()).unwrap();
    db.tag("BEGIN ISOLATION LEVEL READ COMMITTED").await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 1)").await;
    assert_eq!(db.rows("SELECT x FROM t").await, ["1"]);
    run(&other, "INSERT INTO t VALUES ('2024-01-02', 2)").await.unwrap();
    assert_eq!(db.rows("SELECT x FROM t ORDER BY time").await, ["1", "2"]);
    assert_eq!(run(&other, "SELECT x FROM t").await.unwrap().lines(), ["2"]);
    db.tag("ROLLBACK").await;
    db.tag("SET default_transaction_isolation = 'read committed'").await;
    assert_eq!(db.rows("SHOW transaction_isolation").await, ["read committed"]);
    db.tag("BEGIN").await;
    assert_eq!(db.rows("SELECT count(*) FROM t").await, ["1"]);
    run(&other, "INSERT INTO t VALUES ('2024-01-03', 3)").await.unwrap();
    assert_eq!(db.rows("SELECT count(*) FROM t").await, ["2"]);
    db.tag("COMMIT").await;
}

#[tokio::test]
async fn a_block_commits_all_of_its_tables_or_none() {
    let db = database().await;
    let other = db.service.connect(login()).unwrap();
    let seen = async || {
        let sql = "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM u)";
        run(&other, sql).await.unwrap().lines()
    };
    for end in ["ROLLBACK", "COMMIT"] {
        db.tag("BEGIN").await;
        for n in 1..=20 {
            db.tag(&format!("INSERT INTO t VALUES ('2024-01-01', {n})")).await;
            db.tag(&format!("INSERT INTO u SELECT time, x FROM t WHERE x = {n}")).await;
            if n % 5 == 0 {
                db.tag("SAVEPOINT s").await;
                db.tag("INSERT INTO u VALUES ('2024-01-01', -1), ('2024-01-02', -2)").await;
                db.tag("ROLLBACK TO s").await;
            }
        }
        assert_eq!(db.rows("SELECT count(*), sum(x) FROM u").await, ["20|210"]);
        assert_eq!(seen().await, ["0|0"]);
        assert_eq!(db.tag(end).await, end);
    }
    assert_eq!(seen().await, ["20|20"]);
}

#[tokio::test]
async fn own_rows_take_the_place_of_those_with_their_key() {
    let db = Database::new();
    let options = "PRIMARY KEY (host, time)) WITH (collision = 'last')";
    db.tag(&format!("CREATE TABLE l (time timestamptz, host text, x int, {options}")).await;
    let options = options.replace("last", "first");
    db.tag(&format!("CREATE TABLE f (time timestamptz, host text, x int, {options}")).await;
    let insert = |table: &str, x: i32| {
        format!("INSERT INTO {table} VALUES ('2024-01-01', 'a', {x}), ('2024-01-01', 'b', {x})")
    };
    db.tag(&insert("l", 1)).await;
    db.tag("CALL stratalog.flush('l')").await;
    db.tag("BEGIN").await;
    db.tag("INSERT INTO l VALUES ('2024-01-01', 'a', 2), ('2024-01-02', 'a', 3)").await;
    assert_eq!(db.rows("SELECT host, x FROM l ORDER BY time, host").await, ["a|2", "b|1", "a|3"]);
    db.tag("SAVEPOINT s").await;
    db.tag("INSERT INTO l VALUES ('2024-01-01', 'a', 4)").await;
    assert_eq!(db.rows("SELECT x FROM l WHERE host = 'a' ORDER BY time").await, ["4", "3"]);
    assert_eq!(db.rows("SELECT count(*) FROM l").await, ["3"]);
    db.tag("ROLLBACK TO s").await;
    assert_eq!(db.rows("SELECT x FROM l WHERE host = 'a' ORDER BY time").await, ["2", "3"]);
    db.tag("COMMIT").await;
    assert_eq!(db.rows("SELECT host, x FROM l ORDER BY time, host").await, ["a|2", "b|1", "a|3"]);

    db.tag("BEGIN").await;
    db.tag(&insert("f", 1)).await;
    db.tag("SAVEPOINT s").await;
    assert_eq!(db.kind(&insert("f", 2)).await, ErrorKind::UniqueViolation);
    db.tag("ROLLBACK TO s").await;
    let skip = format!("{} ON CONFLICT DO NOTHING", insert("f", 3));
    assert_eq!(db.tag(&skip).await, "INSERT 0 0");
    db.tag("COMMIT").await;
    assert_eq!(db.rows("SELECT x FROM f").await, ["1", "1"]);
}

#[tokio::test]
async fn what_a_block_does_not_keep_is_refused() {
    let db = database().await;
    for (first, second, kind) in [
        (
            "INSERT INTO t VALUES ('2024-01-01', 1)",
            "SELECT _gsn FROM t",
            ErrorKind::FeatureNotSupported,
        ),
        (
            "SELECT 1",
            "INSERT INTO t VALUES (now(), 1) RETURNING _gsn",
            ErrorKind::FeatureNotSupported,
        ),
        ("SELECT 1", "CREATE DATABASE v", ErrorKind::ActiveTransaction),
        (
            "ALTER TABLE t ADD COLUMN more int",
            "INSERT INTO t VALUES ('2024-01-01', 1, 2)",
            ErrorKind::FeatureNotSupported,
        ),
        ("DROP TABLE t", "SELECT * FROM t", ErrorKind::UndefinedTable),
        ("INSERT INTO t VALUES ('2024-01-01', 1)", "DROP TABLE t", ErrorKind::FeatureNotSupported),
        ("SELECT 1", "CREATE TABLE t (time timestamptz)", ErrorKind::DuplicateTable),
        ("SAVEPOINT s", "ROLLBACK TO r", ErrorKind::InvalidSavepoint),
        ("SELECT 1", "DISCARD ALL", ErrorKind::ActiveTransaction),
    ] {
        db.tag("BEGIN").await;
        db.run(first).await.unwrap();
        assert_eq!(db.kind(second).await, kind, "{second}");
        assert_eq!(db.session.transaction(), TransactionState::Failed);
        assert_eq!(db.kind("SELECT 1").await, ErrorKind::FailedTransaction);
        assert_eq!(db.tag("COMMIT").await, "ROLLBACK");
        assert_eq!(db.session.transaction(), TransactionState::Idle);
    }
    assert_eq!(db.rows("SELECT count(*) FROM t").await, ["0"]);
    assert_eq!(db.kind("BEGIN ISOLATION LEVEL SERIALIZABLE").await, ErrorKind::FeatureNotSupported);
}

#[tokio::test]
async fn a_definition_takes_effect_at_commit_and_not_at_rollback() {
    let db = database().await;
    let other = db.service.connect(login()).unwrap();
    for end in ["ROLLBACK", "COMMIT"] {
        db.tag("BEGIN").await;
        assert_eq!(db.rows("SELECT count(*) FROM t").await, ["0"]);
        assert_eq!(db.tag("CREATE TABLE v (time timestamptz)").await, "CREATE TABLE");
        assert_eq!(
            run(&other, "SELECT * FROM v").await.unwrap_err().kind(),
            ErrorKind::UndefinedTable
        );
        assert_eq!(db.tag(end).await, end);
    }
    assert!(run(&other, "SELECT * FROM v").await.unwrap().lines().is_empty());
    db.session.take_notices();
    db.tag("BEGIN").await;
    db.tag("CREATE TABLE IF NOT EXISTS v (time timestamptz)").await;
    assert_eq!(db.session.take_notices().len(), 1);
    db.tag("COMMIT").await;
    assert!(db.session.take_notices().is_empty());
    db.tag("BEGIN").await;
    db.tag("DROP TABLE v, u").await;
    // Another session dropped the table first: COMMIT returns the error.
    run(&other, "DROP TABLE v").await.unwrap();
    assert_eq!(db.kind("COMMIT").await, ErrorKind::UndefinedTable);
    assert_eq!(db.session.transaction(), TransactionState::Idle);
}

#[tokio::test]
async fn a_table_that_another_session_drops_before_commit_fails_the_block_whole() {
    let db = database().await;
    let other = db.service.connect(login()).unwrap();
    for made in [false, true] {
        db.tag("CREATE TABLE gone (time timestamptz NOT NULL, v int)").await;
        db.tag("BEGIN").await;
        db.run("INSERT INTO gone VALUES ('2024-01-01', 1)").await.unwrap();
        db.run("INSERT INTO u VALUES ('2024-01-01', 1)").await.unwrap();
        if made {
            db.tag("CREATE TABLE made (time timestamptz NOT NULL)").await;
            db.run("INSERT INTO made VALUES ('2024-01-01')").await.unwrap();
        }
        run(&other, "DROP TABLE gone").await.unwrap();
        assert_eq!(db.kind("COMMIT").await, ErrorKind::UndefinedTable);
        assert_eq!(db.rows("SELECT count(*) FROM u").await, ["0"]);
        assert_eq!(db.kind("SELECT * FROM made").await, ErrorKind::UndefinedTable);
        // The catalog still works.
        db.tag("CREATE TABLE made (time timestamptz NOT NULL)").await;
        db.tag("DROP TABLE made").await;
    }
}

#[tokio::test]
async fn read_only_blocks_and_warnings() {
    let db = database().await;
    db.tag("BEGIN READ ONLY").await;
    assert_eq!(db.rows("SHOW transaction_read_only").await, ["on"]);
    assert_eq!(
        db.kind("INSERT INTO t VALUES ('2024-01-01', 1)").await,
        ErrorKind::ReadOnlyTransaction
    );
    db.tag("ROLLBACK").await;
    db.session.take_notices();
    assert_eq!(db.tag("COMMIT").await, "COMMIT");
    assert_eq!(db.session.take_notices()[0].sqlstate, "25P01");
    db.tag("BEGIN").await;
    db.tag("BEGIN").await;
    assert_eq!(db.session.take_notices()[0].sqlstate, "25001");
    db.tag("ROLLBACK").await;
    db.tag("SET default_transaction_read_only = on").await;
    assert_eq!(
        db.kind("INSERT INTO t VALUES ('2024-01-01', 1)").await,
        ErrorKind::ReadOnlyTransaction
    );
    assert_eq!(db.kind("CREATE TABLE w (time timestamptz)").await, ErrorKind::ReadOnlyTransaction);
}

#[tokio::test]
async fn an_error_in_the_middle_of_rows_fails_the_block() {
    let db = database().await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 0)").await;
    db.tag("BEGIN").await;
    assert_eq!(db.kind("SELECT 1 / x FROM t").await, ErrorKind::DivisionByZero);
    assert_eq!(db.session.transaction(), TransactionState::Failed);
    db.tag("ROLLBACK").await;
    db.tag("BEGIN").await;
    assert_eq!(db.kind("SELEC").await, ErrorKind::SyntaxError);
    assert_eq!(db.session.transaction(), TransactionState::Failed);
    db.tag("ROLLBACK").await;
}

#[tokio::test]
async fn a_definition_after_rows_that_were_taken_back() {
    let db = database().await;
    db.tag("BEGIN").await;
    db.tag("SAVEPOINT s").await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 1)").await;
    db.tag("ROLLBACK TO s").await;
    db.tag("CREATE TABLE v (time timestamptz)").await;
    assert_eq!(db.tag("COMMIT").await, "COMMIT");
    assert_eq!(db.rows("SELECT (SELECT count(*) FROM v), (SELECT count(*) FROM t)").await, ["0|0"]);
}

#[tokio::test]
async fn a_producers_number_goes_with_the_rows_that_were_taken_back() {
    let db = database().await;
    db.tag("SET stratalog.producer = '00000000-0000-0000-0000-000000000001'").await;
    db.tag("SET stratalog.producer_sequence = 5").await;
    db.tag("BEGIN").await;
    db.tag("SAVEPOINT s").await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 1)").await;
    db.tag("ROLLBACK TO s").await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 2)").await;
    assert_eq!(db.tag("COMMIT").await, "COMMIT");
    assert_eq!(db.rows("SELECT x FROM t").await, ["2"]);
    // A repeated commit under the same number gives a notice.
    db.tag("SET stratalog.producer_sequence = 5").await;
    db.session.take_notices();
    db.tag("BEGIN").await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 3)").await;
    db.tag("COMMIT").await;
    assert!(db.session.take_notices()[0].message.starts_with("already stored"));
    assert_eq!(db.rows("SELECT x FROM t").await, ["2"]);
}

#[tokio::test]
async fn subqueries_of_values_see_what_the_block_wrote() {
    for level in ["REPEATABLE READ", "READ COMMITTED"] {
        let db = database().await;
        db.tag("INSERT INTO u VALUES ('2024-01-01', 100)").await;
        db.tag(&format!("BEGIN ISOLATION LEVEL {level}")).await;
        db.tag("INSERT INTO t VALUES ('2024-01-01', 1)").await;
        db.tag("INSERT INTO t VALUES ('2024-01-02', (SELECT max(x) + 1 FROM t))").await;
        db.tag("INSERT INTO t VALUES ('2024-01-03', (SELECT max(x) FROM u)), (DEFAULT, 7)").await;
        db.tag("COMMIT").await;
        assert_eq!(db.rows("SELECT x FROM t ORDER BY x").await, ["1", "2", "7", "100"]);
    }
}

#[tokio::test]
async fn modes_go_back_with_a_savepoint() {
    let db = database().await;
    db.tag("BEGIN").await;
    db.tag("SAVEPOINT s").await;
    db.tag("SET LOCAL transaction_read_only = on").await;
    assert_eq!(db.rows("SHOW transaction_read_only").await, ["on"]);
    db.tag("ROLLBACK TO s").await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 1)").await;
    db.tag("COMMIT").await;
    // Many savepoints, each released before the next savepoint.
    db.tag("BEGIN").await;
    for _ in 0..300 {
        db.tag("SAVEPOINT s").await;
        db.tag("INSERT INTO t VALUES ('2024-01-02', 2)").await;
        db.tag("RELEASE s").await;
    }
    db.tag("COMMIT").await;
    assert_eq!(db.rows("SELECT sum(x) FROM t").await, ["601"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_key_goes_on_when_it_is_given_back() {
    let db = Database::new();
    let options = "PRIMARY KEY (host, time)) WITH (collision = 'first')";
    db.tag(&format!("CREATE TABLE f (time timestamptz, host text, x int, {options}")).await;
    let other = db.service.connect(login()).unwrap();
    db.tag("BEGIN").await;
    db.tag("SAVEPOINT s").await;
    db.tag("INSERT INTO f VALUES ('2024-01-01', 'a', 1)").await;
    let waiting = tokio::spawn(async move {
        run(&other, "INSERT INTO f VALUES ('2024-01-01', 'a', 2)").await.unwrap().tag
    });
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert!(!waiting.is_finished());
    db.tag("ROLLBACK TO s").await;
    assert_eq!(waiting.await.unwrap(), "INSERT 0 1");
    assert_eq!(
        db.kind("INSERT INTO f VALUES ('2024-01-01', 'a', 3)").await,
        ErrorKind::UniqueViolation
    );
    db.tag("ROLLBACK").await;
    assert_eq!(db.rows("SELECT x FROM f").await, ["2"]);
}

#[tokio::test]
async fn a_table_that_another_session_has_made_meanwhile_fails_the_block() {
    let db = Database::new();
    let other = db.service.connect(login()).unwrap();
    let create = "CREATE TABLE IF NOT EXISTS raced (time timestamptz, v int)";
    for sql in ["BEGIN", create, "INSERT INTO raced VALUES ('2024-01-01', 1)"] {
        db.tag(sql).await;
    }
    run(&other, create).await.unwrap();
    assert_eq!(db.kind("COMMIT").await, ErrorKind::DuplicateTable);
    assert_eq!(db.rows("SELECT count(*) FROM raced").await, ["0"]);
    db.tag("INSERT INTO raced VALUES ('2024-01-01', 2)").await;
    assert_eq!(db.rows("SELECT v FROM raced").await, ["2"]);
}

#[tokio::test]
async fn a_block_with_definitions_sees_what_others_define() {
    let db = database().await;
    let other = db.service.connect(login()).unwrap();
    let others = async |sql: &str| run(&other, sql).await.unwrap();
    // Columns added by both sessions are two columns.
    db.tag("BEGIN ISOLATION LEVEL READ COMMITTED").await;
    db.tag("ALTER TABLE t ADD COLUMN mine int DEFAULT 1").await;
    others("ALTER TABLE t ADD COLUMN yours text DEFAULT 'x'").await;
    others("INSERT INTO t (time, yours) VALUES ('2024-01-01', 'y')").await;
    assert_eq!(db.rows("SELECT mine, yours FROM t").await, ["1|y"]);
    db.tag("COMMIT").await;
    assert_eq!(db.rows("SELECT mine, yours FROM t").await, ["1|y"]);
    // A new table with the name of the dropped table stays.
    db.tag("BEGIN").await;
    db.tag("DROP TABLE t").await;
    others("DROP TABLE t").await;
    others("CREATE TABLE t (time timestamptz, kept int)").await;
    others("INSERT INTO t VALUES ('2024-01-01', 7)").await;
    assert_eq!(db.kind("COMMIT").await, ErrorKind::UndefinedTable);
    assert_eq!(db.rows("SELECT kept FROM t").await, ["7"]);
}

#[tokio::test]
async fn a_schema_that_a_block_drops_keeps_what_others_make_in_it() {
    let db = database().await;
    let other = db.service.connect(login()).unwrap();
    db.tag("CREATE SCHEMA s").await;
    db.tag("CREATE TABLE s.a (time timestamptz)").await;
    db.tag("BEGIN").await;
    db.tag("DROP SCHEMA s CASCADE").await;
    run(&other, "CREATE TABLE s.b (time timestamptz)").await.unwrap();
    assert_eq!(db.kind("COMMIT").await, ErrorKind::DependentObjects);
    assert!(db.rows("SELECT * FROM s.a, s.b").await.is_empty());
    db.tag("BEGIN").await;
    db.tag("DROP SCHEMA s CASCADE").await;
    assert_eq!(db.kind("SELECT * FROM s.a").await, ErrorKind::UndefinedTable);
    db.tag("ROLLBACK").await;
    db.tag("DROP SCHEMA s CASCADE").await;
}

#[tokio::test]
async fn what_defines_nothing_stands_beside_any_rows() {
    let db = database().await;
    db.tag("BEGIN").await;
    db.tag("CREATE TABLE IF NOT EXISTS t (time timestamptz)").await;
    db.tag("DROP TABLE IF EXISTS nothing").await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 1)").await;
    db.tag("CREATE TABLE IF NOT EXISTS t (time timestamptz)").await;
    db.tag("COMMIT").await;
    assert_eq!(db.rows("SELECT count(*) FROM t").await, ["1"]);
}

#[tokio::test]
async fn producers_do_not_number_blocks_that_define() {
    let db = database().await;
    db.tag("SET stratalog.producer = '00000000-0000-4000-8000-000000000001'").await;
    db.tag("BEGIN").await;
    db.tag("CREATE TABLE v (time timestamptz)").await;
    db.tag("SET stratalog.producer_sequence = 1").await;
    assert_eq!(
        db.kind("INSERT INTO v VALUES ('2024-01-01')").await,
        ErrorKind::FeatureNotSupported
    );
}

#[tokio::test]
async fn a_cursor_that_failed_does_not_go_on() {
    let settings = QuerySettings { memory_bytes_max: 16 << 20, ..QuerySettings::default() };
    let db = Database::with(settings);
    let rows = "SELECT n, repeat('x', 100) FROM generate_series(1, 1000000) AS n";
    db.tag(&format!("DECLARE c SCROLL CURSOR WITH HOLD FOR {rows}")).await;
    assert_eq!(db.rows("FETCH 1 FROM c").await.len(), 1);
    assert_eq!(db.kind("FETCH ALL FROM c").await, ErrorKind::OutOfMemory);
    assert_eq!(db.kind("FETCH ALL FROM c").await, ErrorKind::OutOfMemory);
    assert_eq!(db.tag("CLOSE c").await, "CLOSE CURSOR");
}
