use tokio_postgres::SimpleQueryMessage;

use crate::{
    raw::{Wire, bind, error_field, execute, kinds, parse, sqlstate, sync},
    server::{Server, code, connect},
};

#[tokio::test(flavor = "multi_thread")]
async fn statements_run_in_order_up_to_the_first_that_fails() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (time timestamptz NOT NULL, n int)").await.unwrap();
    let error = client
        .simple_query(
            "INSERT INTO t VALUES ('2020-01-01', 1); SELECT nothing; INSERT INTO t VALUES ('2020-01-02', 2)",
        )
        .await
        .unwrap_err();
    assert_eq!(code(&error), "42703");
    // The statements are one transaction.
    let messages =
        client.simple_query("SELECT n FROM t; SELECT 'a' AS x WHERE false").await.unwrap();
    let tags: Vec<u64> = messages
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::CommandComplete(rows) => Some(*rows),
            _ => None,
        })
        .collect();
    assert_eq!(tags, [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_of_a_message_are_one_transaction_as_far_as_they_can_be() {
    let server = Server::start().await;
    let mut wire = Wire::ready(server.port).await;
    let mut other = Wire::ready(server.port).await;
    let insert = |n: i32| format!("INSERT INTO t VALUES ('2024-01-01', {n})");
    let (one, two, three) = (insert(1), insert(2), insert(3));
    let create = "CREATE TABLE t (time timestamptz NOT NULL, n int)";
    // A definition runs at once, and earlier statements are committed.
    let replies = wire.query(&format!("{create}; {one}; {two}; SELECT sum(n) FROM t")).await;
    assert_eq!(kinds(&replies), "CCCTDCZ");
    let mut seen = async || {
        let replies = other.query("SELECT n FROM t ORDER BY n").await;
        replies.iter().filter(|reply| reply.0 == 'D').count()
    };
    assert_eq!(seen().await, 2);
    let replies = wire.query(&format!("{three}; {three}; SELECT 1 / 0; {three}")).await;
    assert_eq!((kinds(&replies).as_str(), sqlstate(&replies).as_str()), ("CCTEZ", "22012"));
    assert_eq!(replies.last().unwrap().1[0], b'I');
    assert_eq!(seen().await, 2);
    for removes in ["DELETE FROM t", "TRUNCATE t"] {
        let replies = wire.query(&format!("{three}; {removes}; SELECT 1 / 0")).await;
        assert_eq!(kinds(&replies), "CCTEZ");
        assert_eq!(seen().await, 2);
    }
    assert_eq!(kinds(&wire.query("SELECT 1; DELETE FROM t").await), "TDCCZ");
    assert_eq!(seen().await, 0);
    // BEGIN includes the earlier statements in its transaction.
    let replies = wire.query(&format!("{one}; BEGIN; {two}; SAVEPOINT s")).await;
    assert_eq!(kinds(&replies), "CCCCZ");
    assert_eq!(replies.last().unwrap().1[0], b'T');
    assert_eq!(seen().await, 0);
    assert_eq!(kinds(&wire.query("ROLLBACK TO s; COMMIT").await), "CCZ");
    assert_eq!(seen().await, 2);
    let replies = wire.query(&format!("{one}; SAVEPOINT s")).await;
    assert_eq!(sqlstate(&replies), "25P01");
    assert_eq!(seen().await, 2);
    // A rollback is final, without BEGIN too.
    let replies = wire.query(&format!("{one}; ROLLBACK; SELECT 1")).await;
    assert_eq!(kinds(&replies), "CNCTDCZ");
    assert_eq!(seen().await, 2);
    // A gsn is known before the message ends.
    let replies = wire.query(&format!("{one}; {two} RETURNING _gsn; {three}")).await;
    assert_eq!(kinds(&replies), "CTDCCZ");
    assert_eq!(seen().await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_query() {
    let server = Server::start().await;
    let mut wire = Wire::ready(server.port).await;
    assert_eq!(kinds(&wire.query("SELECT 1 AS a, NULL AS b").await), "TDCZ");
    assert_eq!(kinds(&wire.query("").await), "IZ");
    assert_eq!(kinds(&wire.query(" ; -- nothing\n").await), "IZ");
    assert_eq!(kinds(&wire.query("SET TimeZone = 'Europe/Berlin'").await), "CSZ");
    let replies = wire.query("SELECT 1; SELECT x").await;
    assert_eq!(kinds(&replies), "TDCEZ");
    let replies = wire.query("SELECT * FROM nowhere").await;
    assert_eq!(sqlstate(&replies), "42P01");
    assert_eq!(error_field(&replies, b'S').unwrap(), "ERROR");
    let replies = wire.query("SELEC 1").await;
    assert_eq!(
        (sqlstate(&replies).as_str(), error_field(&replies, b'P').as_deref()),
        ("42601", Some("1"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_transaction_state_is_told() {
    let server = Server::start().await;
    let mut wire = Wire::ready(server.port).await;
    let mut state = async |sql: &str| {
        let replies = wire.query(sql).await;
        char::from(replies.last().unwrap().1[0])
    };
    assert_eq!(state("BEGIN").await, 'T');
    assert_eq!(state("SELECT 1").await, 'T');
    assert_eq!(state("SELECT nothing").await, 'E');
    assert_eq!(state("SELECT 1").await, 'E');
    assert_eq!(state("ROLLBACK").await, 'I');
}

#[tokio::test(flavor = "multi_thread")]
async fn start_up_tells_settings_and_refuses_unknown_databases() {
    let server = Server::start().await;
    let mut wire = Wire::open(server.port).await;
    wire.send(&crate::raw::startup(&[
        ("user", "someone"),
        ("options", "-c TimeZone=Europe/Berlin"),
        ("application_name", "it"),
    ]))
    .await;
    let replies = wire.until('Z').await;
    let told = |name: &str| {
        replies.iter().filter(|(kind, _)| *kind == 'S').find_map(|(_, body)| {
            let text = String::from_utf8(body.clone()).unwrap();
            let mut parts = text.split('\0').map(str::to_string);
            (parts.next()? == name).then(|| parts.next()).flatten()
        })
    };
    assert_eq!(told("TimeZone").as_deref(), Some("Europe/Berlin"));
    assert_eq!(told("client_encoding").as_deref(), Some("UTF8"));
    assert_eq!(told("application_name").as_deref(), Some("it"));
    assert_eq!(told("integer_datetimes").as_deref(), Some("on"));
    assert!(replies.iter().any(|(kind, body)| *kind == 'K' && body.len() == 8));

    let mut config = server.config();
    let error = connect(config.dbname("no_such_database")).await.unwrap_err();
    assert_eq!(code(&error), "3D000");
}

#[tokio::test(flavor = "multi_thread")]
async fn newer_protocol_versions_are_negotiated() {
    let server = Server::start().await;
    for (minor, expected) in [(0, "R"), (2, "R"), (9999, "v")] {
        let mut wire = Wire::open(server.port).await;
        wire.send(&crate::raw::startup_of((3 << 16) + minor, &[("user", "u")])).await;
        let replies = wire.until('Z').await;
        assert_eq!(&kinds(&replies)[..1], expected, "3.{minor}");
    }
    let mut wire = Wire::open(server.port).await;
    wire.send(&crate::raw::startup(&[("user", "u"), ("_pq_.later", "1")])).await;
    let replies = wire.until('Z').await;
    assert_eq!(replies[0], ('v', [&[0, 3, 0, 0, 0, 0, 0, 1][..], b"_pq_.later\0"].concat()));
}

#[tokio::test(flavor = "multi_thread")]
async fn large_results_stream() {
    let server = Server::start().await;
    let client = server.client().await;
    let rows = client
        .query("SELECT x, repeat('y', 100) FROM generate_series(1, 200000) AS t(x)", &[])
        .await
        .unwrap();
    assert_eq!(rows.len(), 200_000);
    let sum: i64 = rows.iter().map(|row| i64::from(row.get::<_, i32>(0))).sum();
    assert_eq!(sum, 20_000_100_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_command_has_to_say_comes_before_its_end() {
    let server = Server::start().await;
    let mut wire = Wire::ready(server.port).await;
    let replies = wire.query("DROP TABLE IF EXISTS a; SELECT 1; COMMIT").await;
    assert_eq!(kinds(&replies), "NCTDCNCZ");
    wire.send(
        &[parse("", "DROP TABLE IF EXISTS a", &[]), bind("", "", &[]), execute("", 0), sync()]
            .concat(),
    )
    .await;
    assert_eq!(kinds(&wire.until('Z').await), "12NCZ");
}

#[tokio::test(flavor = "multi_thread")]
async fn databases_of_a_new_postgresql_server_are_other_names() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("CREATE TABLE shared (time timestamptz, v int)").await.unwrap();
    for name in ["postgres", "template1"] {
        let aliased = connect(server.config().dbname(name)).await.unwrap();
        let one = async |sql: &str| -> String {
            let row = aliased.query_one(sql, &[]).await.unwrap();
            row.get(0)
        };
        assert_eq!(one("SELECT current_database()::text").await, name);
        assert_eq!(one("SELECT current_catalog::text").await, name);
        let sql = "SELECT datname::text FROM pg_stat_activity WHERE pid = pg_backend_pid()";
        assert_eq!(one(sql).await, name);
        let sql = "SELECT d.datname::text FROM pg_database d JOIN pg_stat_activity a ON a.datid = d.oid \
                   WHERE a.pid = pg_backend_pid()";
        assert_eq!(one(sql).await, name);
        let sql =
            "SELECT table_catalog::text FROM information_schema.tables WHERE table_name = 'shared'";
        assert_eq!(one(sql).await, name);
        let sql = format!("INSERT INTO {name}.public.shared VALUES (now(), 1)");
        aliased.batch_execute(&sql).await.unwrap();
        let sql = format!("SELECT count(*)::text FROM {name}.public.shared WHERE v = 1");
        aliased.query_one(sql.as_str(), &[]).await.unwrap();
    }
    let count = client.query_one("SELECT count(*) FROM shared", &[]).await.unwrap();
    assert_eq!(count.get::<_, i64>(0), 2);
    let names =
        client.query("SELECT datname::text FROM pg_database ORDER BY 1", &[]).await.unwrap();
    let names: Vec<String> = names.iter().map(|row| row.get(0)).collect();
    assert_eq!(names, ["postgres", "stratalog", "template1"]);
    let refused = async |sql: &str| code(&client.batch_execute(sql).await.unwrap_err()).to_string();
    assert_eq!(refused("CREATE DATABASE postgres").await, "42P04");
    assert_eq!(refused("DROP DATABASE postgres").await, "0A000");
    let error = connect(server.config().dbname("template2")).await.unwrap_err();
    assert_eq!(code(&error), "3D000");
}
