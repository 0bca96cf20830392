//! Rights of roles, and row policies, on each path to the events.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Float64Array, RecordBatch, StringArray, TimestampMicrosecondArray},
    compute::cast,
};
use stratalog_model::{ChronicleDefinition, ErrorKind, Result, store::AppendOptions};
use stratalog_query::{Identity, Login, Session};

use crate::harness::{Answer, Database, login, run};

/// A session of a role.
fn session_of(database: &Database, role: &str) -> Result<Arc<Session>> {
    let state = database.service.parts().catalog.state();
    let id = state.access().role_named(role).unwrap().id;
    database.service.connect(Login {
        user: role.to_string(),
        identity: Identity::of_role(id),
        ..login()
    })
}

async fn lines(session: &Arc<Session>, sql: &str) -> Vec<String> {
    match run(session, sql).await {
        Ok(answer) => answer.lines(),
        Err(error) => panic!("{sql}: {} {error}", error.kind().sqlstate()),
    }
}

async fn kind(session: &Arc<Session>, sql: &str) -> ErrorKind {
    match run(session, sql).await {
        Ok(Answer { tag, .. }) => panic!("{sql}: {tag}"),
        Err(error) => error.kind(),
    }
}

async fn database() -> Database {
    let database = Database::of_small_parts();
    database.tag("CREATE TABLE t (time TIMESTAMPTZ NOT NULL, tenant TEXT NOT NULL, v DOUBLE PRECISION, secret TEXT, PRIMARY KEY (tenant, time))").await;
    database.tag("INSERT INTO t SELECT '2024-01-01'::timestamptz + i * interval '1 minute', CASE WHEN i % 3 = 0 THEN 'a' ELSE 'b' END, i, 's' || i FROM generate_series(1, 900) AS g(i)").await;
    database.tag("CREATE ROLE reader LOGIN").await;
    database
}

const REFUSED: ErrorKind = ErrorKind::InsufficientPrivilege;

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_granted_one_by_one() {
    let database = database().await;
    let reader = session_of(&database, "reader").unwrap();
    assert_eq!(kind(&reader, "SELECT 1 FROM t").await, ErrorKind::UndefinedTable);
    database.tag("GRANT SELECT (time, v) ON t TO reader").await;
    assert_eq!(lines(&reader, "SELECT count(*) FROM t").await, ["900"]);
    assert_eq!(lines(&reader, "SELECT sum(v) FROM t").await, ["405450"]);
    for sql in [
        "SELECT * FROM t",
        "SELECT secret FROM t",
        "SELECT v FROM t WHERE secret = 's1'",
        "SELECT v FROM t ORDER BY secret LIMIT 1",
        "SELECT count(*) FROM t GROUP BY tenant",
        "SELECT 1 FROM (SELECT secret FROM t) AS s",
        "SELECT (SELECT max(secret) FROM t)",
        "SELECT v FROM t AS o WHERE EXISTS (SELECT 1 FROM (VALUES ('s1')) AS x(y) WHERE y = o.secret)",
        "WITH q AS (SELECT secret FROM t) SELECT count(*) FROM q",
        "SELECT v, _tick FROM t",
        "SELECT a.v FROM t AS a JOIN t AS b ON a.secret = b.secret",
        "EXPLAIN SELECT secret FROM t",
        "EXPLAIN ANALYZE SELECT secret FROM t",
        "COPY t TO STDOUT",
        "SELECT * FROM playback('t', 1)",
        "SELECT v FROM replay('t')",
        "SELECT * FROM read_record(1, 't')",
        "SUBSCRIBE t",
        "INSERT INTO t (time, tenant, v) VALUES (now(), 'a', 1)",
        "DELETE FROM t",
        "DELETE FROM t WHERE time < '2024-01-01'",
        "TRIM t BEFORE GSN 1",
        "TRUNCATE t",
        "ACQUIRE CHRONICLE t",
        "DROP TABLE t",
        "ALTER TABLE t ADD COLUMN x INT",
        "COMMENT ON TABLE t IS 'x'",
        "CREATE INDEX ON t (secret)",
        "CALL stratalog.flush('t')",
        "CALL stratalog.compact('t')",
        "CALL stratalog.check()",
        "CALL stratalog.backup('/tmp/x')",
        "CALL stratalog.accept_clock_jump()",
        "SELECT * FROM stratalog.storage",
        "SELECT * FROM stratalog.journal",
        "COPY (SELECT 1) TO '/tmp/x'",
        "COPY t FROM PROGRAM 'id'",
    ] {
        assert_eq!(kind(&reader, sql).await, REFUSED, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoke_acts_on_prepared_statements_and_cursors() {
    let database = database().await;
    database.tag("GRANT SELECT ON t TO reader").await;
    let reader = session_of(&database, "reader").unwrap();
    lines(&reader, "PREPARE p AS SELECT count(*) FROM t WHERE v > $1").await;
    assert_eq!(lines(&reader, "EXECUTE p (0)").await, ["900"]);
    lines(&reader, "BEGIN; DECLARE c CURSOR FOR SELECT v FROM t").await;
    assert_eq!(lines(&reader, "FETCH 2 FROM c").await.len(), 2);
    database.tag("REVOKE SELECT ON t FROM reader; GRANT INSERT ON t TO reader").await;
    assert_eq!(kind(&reader, "FETCH 2 FROM c").await, REFUSED);
    lines(&reader, "ROLLBACK").await;
    assert_eq!(kind(&reader, "EXECUTE p (0)").await, REFUSED);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_role_sees_what_a_filtered_copy_contains() {
    let database = database().await;
    database.tag("CREATE TABLE copy (time TIMESTAMPTZ NOT NULL, tenant TEXT NOT NULL, v DOUBLE PRECISION, secret TEXT, PRIMARY KEY (tenant, time))").await;
    database.tag("INSERT INTO copy SELECT * FROM t WHERE tenant = 'a'").await;
    database.tag("GRANT SELECT ON t TO reader; GRANT SELECT ON copy TO reader").await;
    database.tag("CREATE POLICY mine ON t FOR SELECT USING (tenant = 'a')").await;
    database.tag("ALTER TABLE t ENABLE ROW LEVEL SECURITY").await;
    let reader = session_of(&database, "reader").unwrap();
    let queries = [
        "SELECT count(*), sum(v), min(v), max(v), avg(v) FROM {}",
        "SELECT min(time), max(time) FROM {}",
        "SELECT count(*) FROM {} WHERE tenant = 'b'",
        "SELECT v FROM {} WHERE tenant = 'b' AND time = '2024-01-01 00:01:00+00'",
        "SELECT v FROM {} WHERE tenant = 'a' AND time = '2024-01-01 00:03:00+00'",
        "SELECT time, v FROM {} ORDER BY time DESC LIMIT 4",
        "SELECT time, v FROM {} ORDER BY time LIMIT 4",
        "SELECT v FROM {} ORDER BY v DESC LIMIT 3",
        "SELECT count(*) FROM (SELECT 1 FROM {} LIMIT 400) AS s",
        "SELECT DISTINCT ON (tenant) tenant, v FROM {} ORDER BY tenant, time DESC",
        "SELECT DISTINCT tenant FROM {}",
        "SELECT date_trunc('hour', time) AS h, count(*), sum(v) FROM {} GROUP BY h ORDER BY h",
        "SELECT tenant, count(*) FROM {} GROUP BY tenant",
        "SELECT sum(v) FROM {} WHERE time >= '2024-01-01 02:00:00+00'",
        "SELECT count(*) FROM {} AS a JOIN {} AS b USING (tenant, time)",
        "SELECT count(*) FROM {} WHERE secret LIKE 's%'",
        "SELECT time, v FROM playback('{}', 2)",
        "SELECT count(*) FROM replay('{}')",
        "SELECT EXISTS (SELECT 1 FROM {} WHERE tenant = 'b')",
    ];
    for state in ["memory", "tablets", "stories"] {
        match state {
            "tablets" => drop(database.tag("CALL stratalog.flush('t')").await),
            "stories" => drop(database.tag("CALL stratalog.compact('t')").await),
            _ => {}
        }
        for query in queries {
            let mine = lines(&reader, &query.replace("{}", "t")).await;
            let copy = lines(&reader, &query.replace("{}", "copy")).await;
            assert_eq!(mine, copy, "{state}: {query}");
        }
    }
    // An expression that fails on hidden rows must not run there.
    let failing = "SELECT count(*) FROM t WHERE 1 / (CASE WHEN tenant = 'b' THEN 0 ELSE 1 END) = 1";
    assert_eq!(lines(&reader, failing).await, ["300"]);
    let plan = lines(&reader, "EXPLAIN ANALYZE SELECT count(*) FROM t").await.join("\n");
    assert!(plan.contains("PolicyScan") && !plan.contains("900"), "{plan}");
    for sql in ["DELETE FROM t", "TRUNCATE t", "ACQUIRE CHRONICLE t", "SELECT v FROM t"] {
        if sql.starts_with("SELECT") {
            lines(&reader, "SET row_security = off").await;
        }
        database.tag("GRANT DELETE, TRIM, ACQUIRE ON t TO reader").await;
        assert_eq!(kind(&reader, sql).await, REFUSED, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_check_appended_rows_and_follow_the_role() {
    let database = database().await;
    database.tag("CREATE ROLE a LOGIN; CREATE ROLE b LOGIN").await;
    database.tag("GRANT SELECT, INSERT ON t TO a, b").await;
    database.tag("CREATE POLICY own ON t USING (tenant = current_user)").await;
    database.tag("ALTER TABLE t ENABLE ROW LEVEL SECURITY").await;
    let (a, b) = (session_of(&database, "a").unwrap(), session_of(&database, "b").unwrap());
    for _ in 0..3 {
        assert_eq!(lines(&a, "SELECT count(*) FROM t").await, ["300"]);
        assert_eq!(lines(&b, "SELECT count(*) FROM t").await, ["600"]);
    }
    lines(&a, "INSERT INTO t (time, tenant, v) VALUES ('2025-01-01', 'a', 1) RETURNING v").await;
    let wrong =
        "INSERT INTO t (time, tenant, v) VALUES ('2025-01-02', 'a', 1), ('2025-01-02', 'b', 1)";
    assert_eq!(kind(&a, wrong).await, REFUSED);
    assert_eq!(lines(&a, "SELECT count(*) FROM t").await, ["301"]);
    // SET ROLE: kept plans follow the role.
    database.tag("SET ROLE a").await;
    assert_eq!(database.rows("SELECT count(*) FROM t").await, ["301"]);
    database.tag("SET ROLE b").await;
    assert_eq!(database.rows("SELECT count(*) FROM t").await, ["600"]);
    database.tag("RESET ROLE").await;
    assert_eq!(database.rows("SELECT count(*) FROM t").await, ["901"]);
}

/// One row of the table `t`, with all columns.
fn row_of(table: &ChronicleDefinition, tenant: &str, second: i64) -> RecordBatch {
    let given: [ArrayRef; 4] = [
        Arc::new(TimestampMicrosecondArray::from(vec![1_800_000_000_000_000 + second * 1_000_000])),
        Arc::new(StringArray::from(vec![tenant])),
        Arc::new(Float64Array::from(vec![1.0])),
        Arc::new(StringArray::from(vec!["s"])),
    ];
    let schema = table.arrow_schema();
    let types = schema.fields().iter().map(|field| field.data_type());
    let columns = given.iter().zip(types).map(|(array, to)| cast(array, to).unwrap());
    RecordBatch::try_new(Arc::clone(&schema), columns.collect()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_with_a_refused_row_cannot_be_committed() {
    let database = database().await;
    database.tag("CREATE ROLE a LOGIN; GRANT SELECT, INSERT ON t TO a").await;
    database.tag("CREATE POLICY own ON t USING (tenant = current_user)").await;
    database.tag("ALTER TABLE t ENABLE ROW LEVEL SECURITY").await;
    let a = session_of(&database, "a").unwrap();
    let table = a.table(None, "t").unwrap();
    let begin = || a.append("lines", AppendOptions::default()).unwrap();
    let (mine, other) = (row_of(&table, "a", 0), row_of(&table, "b", 0));
    let mut append = begin();
    append.push(&table, mine.clone()).await.unwrap();
    assert_eq!(append.push(&table, other.clone()).await.unwrap_err().kind(), REFUSED);
    assert_eq!(append.savepoint().unwrap_err().kind(), ErrorKind::FailedTransaction);
    assert_eq!(append.commit().await.unwrap_err().kind(), ErrorKind::FailedTransaction);
    assert_eq!(lines(&a, "SELECT count(*) FROM t").await, ["300"]);
    // A rollback to a savepoint before the refused row keeps the other rows.
    let mut append = begin();
    append.push(&table, mine).await.unwrap();
    let savepoint = append.savepoint().unwrap();
    assert_eq!(append.push(&table, other).await.unwrap_err().kind(), REFUSED);
    append.roll_back_to(savepoint);
    append.commit().await.unwrap();
    assert_eq!(lines(&a, "SELECT count(*) FROM t").await, ["301"]);
    // A policy that changes during an append acts on the next rows.
    let mut append = begin();
    append.push(&table, row_of(&table, "a", 1)).await.unwrap();
    database.tag("DROP POLICY own ON t").await;
    database.tag("CREATE POLICY own ON t USING (tenant = 'nobody')").await;
    let refused = append.push(&table, row_of(&table, "a", 2)).await;
    assert_eq!(refused.unwrap_err().kind(), REFUSED);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_other_roles_are_hidden_and_cannot_be_ended() {
    let database = database().await;
    database.tag("ALTER ROLE reader CONNECTION LIMIT 1").await;
    let reader = session_of(&database, "reader").unwrap();
    let error = session_of(&database, "reader").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooManyConnections);
    let founder = database.session.process_id();
    let shown =
        lines(&reader, &format!("SELECT query FROM pg_stat_activity WHERE pid = {founder}")).await;
    assert_eq!(shown, ["<insufficient privilege>"]);
    let ended = format!("SELECT pg_terminate_backend({founder})");
    assert_eq!(kind(&reader, &ended).await, REFUSED);
}
