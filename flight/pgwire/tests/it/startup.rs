//! Versions of the protocol, and cancel keys, byte by byte.

use tokio::io::AsyncWriteExt;

use crate::{
    raw::{Reply, Wire, framed, kinds, sqlstate, startup_of},
    server::{FOREVER, Server, eventually},
};

const V3: i32 = 3 << 16;
const CANCEL: i32 = 80_877_102;

async fn welcomed(server: &Server, version: i32, more: &[(&str, &str)]) -> (Wire, Vec<Reply>) {
    let mut wire = Wire::open(server.port).await;
    let pairs = [&[("user", "u"), ("database", "stratalog")], more].concat();
    wire.send(&startup_of(version, &pairs)).await;
    let replies = wire.until('Z').await;
    (wire, replies)
}

/// The body of BackendKeyData.
fn key(replies: &[Reply]) -> &[u8] {
    &replies.iter().find(|(kind, _)| *kind == 'K').unwrap().1
}

fn negotiated(replies: &[Reply]) -> Option<&[u8]> {
    replies.iter().find(|(kind, _)| *kind == 'v').map(|(_, body)| body.as_slice())
}

async fn cancel(server: &Server, key: &[u8]) {
    let mut wire = Wire::open(server.port).await;
    let length = i32::try_from(key.len() + 8).unwrap();
    wire.send(&[&length.to_be_bytes(), &CANCEL.to_be_bytes(), key].concat()).await;
    let _ = wire.0.shutdown().await;
    wire.rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_version_gets_what_it_speaks() {
    let server = Server::start().await;
    for (version, key_bytes) in [(V3, 8), (V3 + 1, 8), (V3 + 2, 36)] {
        let (_, replies) = welcomed(&server, version, &[]).await;
        assert_eq!(negotiated(&replies), None, "{version:x}");
        assert_eq!(key(&replies).len(), key_bytes, "{version:x}");
    }
    // A client with a newer version first gets the newest supported version.
    for version in [V3 + 3, V3 + 9999, V3 + 0xffff] {
        let (_, replies) = welcomed(&server, version, &[]).await;
        assert_eq!(replies[0], ('v', vec![0, 3, 0, 2, 0, 0, 0, 0]), "{version:x}");
        assert_eq!(key(&replies).len(), 36);
    }
    let mut wire = Wire::open(server.port).await;
    wire.send(&startup_of(4 << 16, &[("user", "u")])).await;
    assert_eq!(sqlstate(&wire.rest().await), "0A000");
}

#[tokio::test(flavor = "multi_thread")]
async fn options_of_the_protocol_that_are_unknown_are_named() {
    let server = Server::start().await;
    let options = [("_pq_.first", "1"), ("_pq_.second", "")];
    let (mut wire, replies) = welcomed(&server, V3, &options).await;
    let expected = [&[0, 3, 0, 0, 0, 0, 0, 2][..], b"_pq_.first\0_pq_.second\0"].concat();
    assert_eq!(negotiated(&replies), Some(&expected[..]));
    assert_eq!(kinds(&wire.query("SELECT 1").await), "TDCZ");
    let (_, replies) = welcomed(&server, V3 + 7, &options[..1]).await;
    let expected = [&[0, 3, 0, 2, 0, 0, 0, 1][..], b"_pq_.first\0"].concat();
    assert_eq!(negotiated(&replies), Some(&expected[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_right_key_cancels() {
    let server = Server::start().await;
    let client = server.client().await;
    for version in [V3, V3 + 2] {
        let (mut wire, replies) = welcomed(&server, version, &[]).await;
        let right = key(&replies).to_vec();
        wire.send(&framed(b'Q', &[FOREVER.as_bytes(), b"\0"].concat())).await;
        let running = async || {
            let sql = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%a.x * b.y%'
                       AND pid <> pg_backend_pid()";
            client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 1
        };
        eventually("the statement runs", running).await;
        let mut other_process = right.clone();
        other_process[3] ^= 0x40;
        let mut other_secret = right.clone();
        *other_secret.last_mut().unwrap() ^= 1;
        let longer = [&right[..], &[0; 8]].concat();
        // The short form of a long key, or only the process number, is also refused.
        for wrong in [&other_process[..], &other_secret, &longer, &right[..7], &right[..4]] {
            cancel(&server, wrong).await;
        }
        if version > V3 {
            cancel(&server, &right[..8]).await;
        }
        assert!(running().await, "a wrong key cancels nothing");
        cancel(&server, &right).await;
        assert_eq!(sqlstate(&wire.until('Z').await), "57014");
    }
}
