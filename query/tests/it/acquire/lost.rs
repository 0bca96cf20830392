//! Transaction blocks that wrote through an expired lease: their rows block no other session (F10).

use super::*;

fn pass(db: &Database, ms: i64) {
    db.clock.0.fetch_add(ms * 1_000_000, Ordering::Relaxed);
}

/// A table `cp` that keeps the first event of each time.
async fn database() -> Database {
    let db = super::database().await;
    let cp = "CREATE TABLE cp (time timestamptz NOT NULL, x int, PRIMARY KEY (time))";
    db.tag(&format!("{cp} WITH (collision = 'first')")).await;
    db
}

/// A session with a block that has written an event of one day to `cp`, through a lease of 100 ms.
async fn writing(db: &Database, day: u32, before: &str) -> Arc<Session> {
    let session = other(db);
    tag(&session, "ACQUIRE CHRONICLE cp FOR INTERVAL '100 ms'").await;
    tag(&session, "BEGIN").await;
    tag(&session, before).await;
    tag(&session, &format!("INSERT INTO cp VALUES ('2024-01-0{day}', 1)")).await;
    session
}

/// Runs a statement that must not wait for other sessions.
async fn at_once(session: &Arc<Session>, sql: &str) -> Result<Answer> {
    timeout(Duration::from_secs(20), run(session, sql)).await.expect("it waits for ever")
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_what_is_lost_are_free() {
    let db = database().await;
    let second = other(&db);
    for (day, before, between, conflict) in [
        (1, "SELECT 1", "SELECT 1", ""),
        (2, "SELECT 1", "SELECT 1", " ON CONFLICT DO NOTHING"),
        (3, "SELECT 1", "RELEASE CHRONICLE cp", ""),
        (4, "SAVEPOINT s", "SAVEPOINT r", ""),
        (5, "INSERT INTO u VALUES ('2024-01-01', 1)", "SELECT count(*) FROM t", ""),
    ] {
        let first = writing(&db, day, before).await;
        pass(&db, 100);
        tag(&first, between).await;
        tag(&second, "ACQUIRE CHRONICLE cp EXCLUSIVE").await;
        let insert = format!("INSERT INTO cp VALUES ('2024-01-0{day}', 2){conflict}");
        assert_eq!(at_once(&second, &insert).await.unwrap().tag, "INSERT 0 1", "{between}");
        // Statements on other tables go on.
        assert_eq!(rows(&first, "SELECT count(*) FROM t").await, ["0"]);
        assert_eq!(first.transaction(), TransactionState::Block);
        let told = error(&first, "COMMIT").await;
        assert_eq!(told.kind(), ErrorKind::LeaseLost, "{told}");
        assert!(told.message().starts_with("the lease on chronicle \"cp\" ran out"), "{told}");
        assert_eq!(first.transaction(), TransactionState::Idle);
        tag(&first, "INSERT INTO t VALUES ('2024-01-01', 1)").await;
        tag(&first, "DELETE FROM t").await;
        tag(&second, "RELEASE CHRONICLE cp").await;
    }
    assert_eq!(db.rows("SELECT count(*), min(x) FROM cp").await, ["5|2"]);
    assert_eq!(db.rows("SELECT count(*) FROM u").await, ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_what_is_lost_says_why() {
    let db = database().await;
    let lost = ErrorKind::LeaseLost;
    for (day, sql) in [
        (1, "INSERT INTO u VALUES ('2024-01-02', 2)"),
        (2, "SELECT count(*) FROM u"),
        (3, "SELECT count(*) FROM cp"),
        (4, "ROLLBACK TO r"),
    ] {
        let first = writing(&db, day, "INSERT INTO u VALUES ('2024-01-01', 1)").await;
        tag(&first, "SAVEPOINT r").await;
        pass(&db, 100);
        let insert = format!("INSERT INTO cp VALUES ('2024-01-0{day}', 2)");
        at_once(&db.session, &insert).await.unwrap();
        assert_eq!(kind(&first, sql).await, lost, "{sql}");
        assert_eq!(kind(&first, "SELECT 1").await, ErrorKind::FailedTransaction);
        assert_eq!(tag(&first, "COMMIT").await, "ROLLBACK");
    }
    // After a rollback of the write, the lost lease does not matter.
    let first = writing(&db, 5, "SAVEPOINT s").await;
    pass(&db, 100);
    at_once(&db.session, "INSERT INTO cp VALUES ('2024-01-05', 2)").await.unwrap();
    tag(&first, "ROLLBACK TO s").await;
    assert_eq!(tag(&first, "COMMIT").await, "COMMIT");
    assert_eq!(db.rows("SELECT count(*), min(x) FROM cp").await, ["5|2"]);
    assert_eq!(db.rows("SELECT count(*) FROM u").await, ["0"]);
}

/// A running statement of the block keeps the rows of a lost lease until the statement's end.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_while_a_statement_runs_goes_with_its_end() {
    let db = database().await;
    let (second, third) = (other(&db), other(&db));
    tag(&third, "BEGIN").await;
    tag(&third, "INSERT INTO cp VALUES ('2024-01-02', 3)").await;
    let first = writing(&db, 1, "SELECT 1").await;
    let running = begun(&first, "INSERT INTO cp VALUES ('2024-01-02', 1)").await;
    pass(&db, 100);
    let waiting = begun(&second, "INSERT INTO cp VALUES ('2024-01-01', 2)").await;
    tag(&third, "ROLLBACK").await;
    ended(running).await.unwrap();
    ended(waiting).await.unwrap();
    assert_eq!(kind(&first, "COMMIT").await, ErrorKind::LeaseLost);
    assert_eq!(db.rows("SELECT x FROM cp").await, ["2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_already_goes_on_when_a_lease_has_run_out() {
    let db = database().await;
    let first = writing(&db, 1, "SELECT 1").await;
    let waiting = begun(&db.session, "INSERT INTO cp VALUES ('2024-01-01', 2)").await;
    pass(&db, 100);
    assert_eq!(ended(waiting).await.unwrap().tag, "INSERT 0 1");
    assert_eq!(kind(&first, "COMMIT").await, ErrorKind::LeaseLost);
    assert_eq!(db.rows("SELECT x FROM cp").await, ["2"]);
}

#[tokio::test]
async fn what_is_lost_keeps_nothing_from_being_sealed() {
    let db = Database::new();
    let table = "CREATE TABLE c (time timestamptz NOT NULL, x int)";
    db.tag(&format!("{table} WITH (time_source = 'client', acceptance_window = '1s')")).await;
    let first = other(&db);
    tag(&first, "ACQUIRE CHRONICLE c FOR INTERVAL '100 ms'").await;
    tag(&first, "BEGIN").await;
    tag(&first, "INSERT INTO c (x) VALUES (0)").await;
    for x in 1..=5 {
        db.tag(&format!("INSERT INTO c (x) VALUES ({x})")).await;
    }
    pass(&db, 200_000);
    assert_eq!(db.rows("SELECT count(*) FROM c AS OF SEALED").await, ["5"]);
    assert_eq!(kind(&first, "COMMIT").await, ErrorKind::LeaseLost);
    assert_eq!(db.rows("SELECT count(*) FROM c").await, ["5"]);
}
