//! Clients that send Terminate during their statements: a waiting statement is cancelled, all other
//! statements run to their ends.

use std::time::Duration;

use tokio_postgres::Client;

use crate::{
    raw::{Wire, bind, execute, framed, parse, sync},
    server::{Server, eventually},
};

async fn server() -> (Server, Client) {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (time timestamptz NOT NULL, v int)").await.unwrap();
    client.batch_execute("ACQUIRE CHRONICLE t").await.unwrap();
    (server, client)
}

fn simple(sql: &str) -> Vec<u8> {
    framed(b'Q', &[sql.as_bytes(), b"\0"].concat())
}

fn extended(sql: &str) -> Vec<u8> {
    [parse("", sql, &[]), bind("", "", &[]), execute("", 0)].concat()
}

fn goodbye() -> Vec<u8> {
    framed(b'X', b"")
}

fn insert(v: i32) -> String {
    format!("INSERT INTO t VALUES ('2024-01-01', {v})")
}

async fn count(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

/// The number of other sessions with a running statement.
async fn running(client: &Client) -> i64 {
    let sql =
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()";
    count(client, sql).await
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_others_and_says_goodbye_is_gone() {
    let (server, client) = server().await;
    let writer = server.client().await;
    for sql in [
        "ACQUIRE CHRONICLE t EXCLUSIVE",
        "INSERT INTO t VALUES ('2024-01-01', 7) AFTER GSN 1",
        "SELECT v FROM read_record(1, 't')",
    ] {
        for sent in [simple(sql), [extended(sql), sync()].concat()] {
            // After a while, or at once.
            let mut slow = Wire::ready(server.port).await;
            slow.send(&sent).await;
            eventually("a wait", async || running(&client).await == 1).await;
            slow.send(&goodbye()).await;
            eventually("the end of a wait", async || running(&client).await == 0).await;
            let mut fast = Wire::ready(server.port).await;
            fast.send(&[sent, goodbye()].concat()).await;
            fast.rest().await;
            eventually("the end of a wait", async || running(&client).await == 0).await;
        }
    }
    for v in 1..5 {
        writer.batch_execute(&insert(v)).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(count(&client, "SELECT count(*) FROM t").await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_before_a_goodbye_is_carried_out() {
    let (server, client) = server().await;
    let many =
        "INSERT INTO t SELECT timestamptz '2024-01-01', g FROM generate_series(1, 20000) AS s(g)";
    let mut rows = 0;
    for (sent, more) in [
        (simple(&insert(1)), 1),
        (simple(many), 20_000),
        ([extended(many), sync()].concat(), 20_000),
        ([simple(&insert(1)), simple(&insert(2))].concat(), 2),
        (simple(&format!("{}; {}", insert(1), insert(2))), 2),
        ([extended(&insert(1)), extended(&insert(2)), sync()].concat(), 2),
        ([extended(&insert(1)), sync(), extended(&insert(2)), sync()].concat(), 2),
    ] {
        let mut wire = Wire::ready(server.port).await;
        wire.send(&[sent, goodbye()].concat()).await;
        wire.rest().await;
        rows += more;
        assert_eq!(count(&client, "SELECT count(*) FROM t").await, rows);
    }
}

/// A wait continues despite a Terminate message if further statements follow the waiting statement,
/// or precede it in an implicit transaction: the client sent them for execution.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_goes_on_for_what_goes_with_it() {
    let (server, client) = server().await;
    let acquire = "ACQUIRE CHRONICLE t EXCLUSIVE";
    let mut rows = 0;
    for sent in [
        simple(&format!("{acquire}; {}", insert(1))),
        [simple(acquire), simple(&insert(1))].concat(),
        [extended(acquire), extended(&insert(1)), sync()].concat(),
    ] {
        let mut wire = Wire::ready(server.port).await;
        wire.send(&[sent, goodbye()].concat()).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(running(&client).await, 1);
        client.batch_execute("RELEASE CHRONICLE t").await.unwrap();
        wire.rest().await;
        rows += 1;
        assert_eq!(count(&client, "SELECT count(*) FROM t").await, rows);
        client.batch_execute("ACQUIRE CHRONICLE t").await.unwrap();
    }
    client.batch_execute("RELEASE CHRONICLE t").await.unwrap();
    let behind = format!("INSERT INTO t VALUES ('2024-01-01', 9) AFTER GSN {}", rows + 1);
    for (sent, waiting) in [
        (simple(&format!("{}; {behind}", insert(1))), 1),
        ([extended(&insert(1)), extended(&behind), sync()].concat(), 2),
    ] {
        let mut wire = Wire::ready(server.port).await;
        wire.send(&[sent, goodbye()].concat()).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(running(&client).await, waiting);
    }
    client.batch_execute(&insert(2)).await.unwrap();
    rows += 5;
    let all = async || count(&client, "SELECT count(*) FROM t").await == rows;
    eventually("what was sent before a goodbye", all).await;
}
