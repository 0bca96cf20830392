use std::time::{Duration, Instant};

use stratalog_pgwire::PgwireSettings;

use crate::{
    raw::{Wire, error_field, framed, kinds, sqlstate},
    server::{FOREVER, Server, code, connect, eventually},
};

#[tokio::test(flavor = "multi_thread")]
async fn too_many_connections() {
    let server = Server::with(PgwireSettings { connections_max: 3, ..Default::default() }).await;
    let clients = [server.client().await, server.client().await, server.client().await];
    let error = connect(&server.config()).await.unwrap_err();
    assert_eq!(code(&error), "53300");
    // Cancel requests are still accepted.
    let token = clients[0].cancel_token();
    token.cancel_query(tokio_postgres::NoTls).await.unwrap();
    drop(clients);
    eventually("a slot is free", async || connect(&server.config()).await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_messages() {
    let server =
        Server::with(PgwireSettings { message_bytes_max: 1 << 20, ..Default::default() }).await;
    let mut other = Wire::ready(server.port).await;
    let mut wire = Wire::ready(server.port).await;
    wire.send(&framed(b'Q', &vec![b' '; 2 << 20])[..4096]).await;
    let replies = wire.rest().await;
    assert_eq!(sqlstate(&replies), "54000");
    assert!(error_field(&replies, b'H').unwrap().contains("message_bytes_max"));
    assert_eq!(kinds(&other.query("SELECT 1").await), "TDCZ");
    let fits = format!("SELECT '{}'", "x".repeat(1 << 19));
    assert_eq!(kinds(&other.query(&fits).await), "TDCZ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_start_up_is_ended() {
    let server =
        Server::with(PgwireSettings { startup_timeout_ms: 200, ..Default::default() }).await;
    for bytes in [&b""[..], &[0, 0, 0, 20, 0, 3][..]] {
        let mut wire = Wire::open(server.port).await;
        wire.send(bytes).await;
        let start = Instant::now();
        let replies = wire.rest().await;
        assert!(start.elapsed() < Duration::from_secs(5));
        assert_eq!(error_field(&replies, b'M').unwrap(), "canceling authentication due to timeout");
    }
    // Logged-in clients have no timeout.
    let mut wire = Wire::ready(server.port).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(kinds(&wire.query("SELECT 1").await), "TDCZ");
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_say_nothing_keep_nobody_out() {
    let settings = PgwireSettings {
        connections_max: 4,
        startup_timeout_ms: 600_000,
        ..PgwireSettings::default()
    };
    let server = Server::with(settings).await;
    let mut silent = Vec::new();
    for at in 0..10_000_usize {
        let mut wire = Wire::open(server.port).await;
        // Some clients begin a start-up and never end it.
        let begun: &[u8] = &[0, 0, 0, 20, 0, 3][..at % 7];
        wire.send(begun).await;
        silent.push(wire);
        if silent.len() > 2_000 {
            // As many as the system may have open; the server has dropped the socket long before.
            assert_eq!(kinds(&silent.remove(0).rest().await), "");
        }
        if at % 1_000 == 0 {
            let client = server.client().await;
            client.query_one("SELECT 1", &[]).await.unwrap();
        }
    }
    let clients = [server.client().await, server.client().await];
    for client in &clients {
        client.query_one("SELECT 1", &[]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_and_portals_are_bounded() {
    let settings = PgwireSettings { statements_max: 3, portals_max: 2, ..Default::default() };
    let server = Server::with(settings).await;
    let mut wire = Wire::ready(server.port).await;
    for (name, state) in [("a", ""), ("b", ""), ("c", ""), ("d", "54000")] {
        let body = [name.as_bytes(), b"\0SELECT 1\0\0\0"].concat();
        wire.send(&[framed(b'P', &body), framed(b'S', b"")].concat()).await;
        assert_eq!(sqlstate(&wire.until('Z').await), state, "{name}");
    }
    let bind = |portal: &str| framed(b'B', &[portal.as_bytes(), b"\0a\0\0\0\0\0\0\0"].concat());
    wire.send(&[bind("x"), bind("y"), bind("z"), framed(b'S', b"")].concat()).await;
    assert_eq!(sqlstate(&wire.until('Z').await), "54000");
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_sessions_are_told_of_the_shutdown() {
    let server = Server::start().await;
    let mut idle = Wire::ready(server.port).await;
    server.shutdown.cancel();
    let replies = idle.rest().await;
    assert_eq!(sqlstate(&replies), "57P01");
    server.serving.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn running_statements_get_their_grace() {
    let server =
        Server::with(PgwireSettings { shutdown_grace_ms: 20_000, ..Default::default() }).await;
    let mut wire = Wire::ready(server.port).await;
    let slow = "SELECT count(*) FROM generate_series(1, 3000000) AS t(x) WHERE x % 7 = 3";
    wire.send(&framed(b'Q', &[slow.as_bytes(), b"\0"].concat())).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    server.shutdown.cancel();
    let replies = wire.rest().await;
    assert_eq!(kinds(&replies), "TDCZE");
    assert_eq!(sqlstate(&replies), "57P01");
    server.serving.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_grace_statements_are_cut_off() {
    let server =
        Server::with(PgwireSettings { shutdown_grace_ms: 200, ..Default::default() }).await;
    let mut wire = Wire::ready(server.port).await;
    wire.send(&framed(b'Q', &[FOREVER.as_bytes(), b"\0"].concat())).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let start = Instant::now();
    server.shutdown.cancel();
    assert_eq!(sqlstate(&wire.rest().await), "57P01");
    server.serving.await.unwrap().unwrap();
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_holds_nobody_up() {
    let server =
        Server::with(PgwireSettings { shutdown_grace_ms: 100, ..Default::default() }).await;
    let mut deaf = Wire::ready(server.port).await;
    deaf.send(&framed(
        b'Q',
        b"SELECT x, repeat('y', 1000) FROM generate_series(1, 100000000) AS t(x)\0",
    ))
    .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let client = server.client().await;
    client.query_one("SELECT 1", &[]).await.unwrap();
    drop(client);
    server.shutdown.cancel();
    let start = Instant::now();
    server.serving.await.unwrap().unwrap();
    assert!(start.elapsed() < Duration::from_secs(6));
}
