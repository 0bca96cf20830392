//! Incoming large messages with little room.

use std::time::Duration;

use stratalog_pgwire::PgwireSettings;
use tokio::{task::JoinHandle, time::timeout};

use crate::{
    raw::{Wire, bind, error_field, execute, framed, kinds, parse, sqlstate, sync},
    server::{Server, eventually},
};

/// The bytes of a message that needs most of the memory for messages.
const LARGE: usize = 900_000;

async fn small_room(inbound_wait_ms: u64) -> Server {
    let settings = PgwireSettings {
        message_bytes_max: 1 << 20,
        inbound_bytes_max: 1 << 20,
        inbound_wait_ms,
        ..Default::default()
    };
    Server::with(settings).await
}

fn sql(bytes: usize) -> String {
    format!("SELECT '{}'", "x".repeat(bytes))
}

fn query(sql: &str) -> Vec<u8> {
    framed(b'Q', &[sql.as_bytes(), b"\0"].concat())
}

/// A connection that has sent the first part of a large message, which holds the memory; and the
/// rest of the message.
async fn halfway(server: &Server) -> (Wire, Vec<u8>) {
    let mut wire = Wire::ready(server.port).await;
    let mut message = query(&sql(LARGE));
    let rest = message.split_off(LARGE / 2);
    wire.send(&message).await;
    let mut other = Wire::ready(server.port).await;
    eventually("the room is in use", async || sqlstate(&other.query(&sql(LARGE)).await) == "53200")
        .await;
    (wire, rest)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_room_fails_alone() {
    let server = small_room(500).await;
    let (mut first, rest) = halfway(&server).await;
    let mut wire = Wire::ready(server.port).await;
    let replies = wire.query(&sql(LARGE)).await;
    assert_eq!(kinds(&replies), "EZ");
    assert_eq!(error_field(&replies, b'S').unwrap(), "ERROR");
    let message = error_field(&replies, b'M').unwrap();
    assert!(message.contains("no room for a message of 9000"), "{message}");
    assert!(message.contains("of 1048576 bytes"), "{message}");
    // Small messages, and messages that fit beside it, are not affected.
    assert_eq!(kinds(&wire.query("SELECT 1").await), "TDCZ");
    assert_eq!(kinds(&wire.query(&sql(100_000)).await), "TDCZ");
    // In the extended protocol, later messages are skipped until Sync.
    let round = [parse("", &sql(LARGE), &[]), bind("", "", &[]), execute("", 0), sync()];
    wire.send(&round.concat()).await;
    let replies = wire.until('Z').await;
    assert_eq!((kinds(&replies).as_str(), sqlstate(&replies).as_str()), ("EZ", "53200"));
    // A transaction block fails like after any other error.
    wire.query("BEGIN").await;
    wire.query(&sql(LARGE)).await;
    assert_eq!(sqlstate(&wire.query("SELECT 1").await), "25P02");
    wire.query("ROLLBACK").await;
    // The first message is answered when it is complete, and then room is free.
    first.send(&rest).await;
    assert_eq!(kinds(&first.until('Z').await), "TDCZ");
    assert_eq!(kinds(&wire.query(&sql(LARGE)).await), "TDCZ");
    wire.send(&round.concat()).await;
    assert_eq!(kinds(&wire.until('Z').await), "12DCZ");
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_a_copy_needs_no_room() {
    let server = small_room(500).await;
    let mut wire = Wire::ready(server.port).await;
    wire.query("CREATE TABLE t (x text)").await;
    let (_first, _) = halfway(&server).await;
    let lines = format!("{}\n", "x".repeat(999)).repeat(LARGE / 1000);
    let data = [framed(b'd', lines.as_bytes()), framed(b'd', b"small\n")].concat();
    wire.send(&[query("COPY t (x) FROM STDIN"), data.repeat(2), framed(b'c', b"")].concat()).await;
    let replies = wire.until('Z').await;
    assert_eq!(kinds(&replies), "GCZ", "{:?}", error_field(&replies, b'M'));
    assert_eq!(replies[1].1, b"COPY 1802\0");
    // Data of a failed COPY is dropped, for any size.
    wire.send(&[query("COPY none FROM STDIN"), data.repeat(2), framed(b'c', b"")].concat()).await;
    assert_eq!(kinds(&wire.until('Z').await), "EZ");
    assert_eq!(kinds(&wire.query("SELECT 1").await), "TDCZ");
}

/// Sends a large query, which waits for memory.
fn waiting(mut wire: Wire) -> JoinHandle<String> {
    tokio::spawn(async move { kinds(&wire.query(&sql(LARGE)).await) })
}

#[tokio::test(flavor = "multi_thread")]
async fn room_is_waited_for() {
    let server = small_room(3_000).await;
    for leaves in [false, true] {
        let (mut first, rest) = halfway(&server).await;
        let mut waits = waiting(Wire::ready(server.port).await);
        assert!(timeout(Duration::from_millis(300), &mut waits).await.is_err());
        if leaves {
            // A disconnecting client frees its room.
            drop(first);
        } else {
            first.send(&rest).await;
            assert_eq!(kinds(&first.until('Z').await), "TDCZ");
        }
        assert_eq!(waits.await.unwrap(), "TDCZ");
    }
}
