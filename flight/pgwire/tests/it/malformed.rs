use crate::{
    raw::{Wire, error_field, framed, kinds, sqlstate, startup},
    server::Server,
};

/// Checks that other clients are served normally.
async fn serves(server: &Server) {
    let client = server.client().await;
    let row = client.query_one("SELECT 1::int", &[]).await.unwrap();
    assert_eq!(row.get::<_, i32>(0), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn start_up_packets_that_are_none() {
    let server = Server::start().await;
    // Invalid packet lengths. The last client leaves before its start-up.
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0, 0, 0, 4][..],
        &[0x7f, 255, 255, 255, 0, 3, 0, 0][..],
        &[255, 255, 255, 255, 0, 3, 0, 0][..],
        &[b'X', 0, 0, 0, 4][..],
    ] {
        let mut wire = Wire::open(server.port).await;
        wire.send(bytes).await;
        assert_eq!(kinds(&wire.rest().await), "", "{bytes:?}");
    }
    for (bytes, state) in [
        (&[0, 0, 0, 8, 0, 2, 0, 0][..], "0A000"),
        (&[0, 0, 0, 9, 0, 3, 0, 0, 0][..], "28000"),
        (&[0, 0, 0, 14, 0, 3, 0, 0, b'u', b's', b'e', b'r', 0, b'x'][..], "08P01"),
    ] {
        let mut wire = Wire::open(server.port).await;
        wire.send(bytes).await;
        let replies = wire.rest().await;
        assert_eq!(sqlstate(&replies), state, "{bytes:?}");
        assert_eq!(error_field(&replies, b'S').unwrap(), "FATAL");
    }
    serves(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_up_cut_at_every_byte() {
    let server = Server::start().await;
    let whole = startup(&[("user", "u"), ("database", "stratalog")]);
    for length in 0..whole.len() {
        let mut wire = Wire::open(server.port).await;
        wire.send(&whole[..length]).await;
        use tokio::io::AsyncWriteExt;
        wire.0.shutdown().await.unwrap();
        assert_eq!(kinds(&wire.rest().await), "", "cut at {length}");
    }
    serves(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_whose_bodies_lie() {
    let server = Server::start().await;
    let mut wire = Wire::ready(server.port).await;
    for (message, state) in [
        (framed(b'Q', b"SELECT 1"), "08P01"),
        (framed(b'Q', b""), "08P01"),
        (framed(b'Q', b"SELECT 1\0SELECT 2\0"), "08P01"),
        (framed(b'Q', b"SELECT '\xff'\0"), "22021"),
        (framed(b'P', b"\0SELECT 1\0\xff\xff"), "08P01"),
        (framed(b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff"), "08P01"),
        (framed(b'B', b"\0\0\0\0\0\x01\xff\xff\xff\x00"), "08P01"),
        (framed(b'E', b"\0\0"), "08P01"),
        (framed(b'D', b""), "08P01"),
        (framed(b'C', b"Zx\0"), "08P01"),
        (framed(b'F', b"whatever"), "0A000"),
    ] {
        wire.send(&[message.clone(), framed(b'S', b"")].concat()).await;
        let replies = wire.until('Z').await;
        assert_eq!(sqlstate(&replies), state, "{message:?}");
        if matches!(message[0], b'Q' | b'F') {
            // A query ends its own round, and Sync ends another round.
            wire.until('Z').await;
        }
    }
    // Framing was never lost: the connection is still usable.
    assert_eq!(kinds(&wire.query("SELECT 1").await), "TDCZ");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_cut_at_every_byte() {
    let server = Server::start().await;
    let whole = [
        framed(b'P', b"s\0SELECT $1::int\0\0\x01\0\0\0\x17"),
        framed(b'B', b"\0s\0\0\0\0\x01\0\0\0\x017\0\0"),
        framed(b'E', b"\0\0\0\0\0"),
        framed(b'S', b""),
    ]
    .concat();
    for length in 0..whole.len() {
        let mut wire = Wire::ready(server.port).await;
        wire.send(&whole[..length]).await;
        use tokio::io::AsyncWriteExt;
        wire.0.shutdown().await.unwrap();
        assert!(!kinds(&wire.rest().await).contains('E'), "cut at {length}");
    }
    serves(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_framing_ends_that_connection_alone() {
    let server = Server::start().await;
    let mut other = Wire::ready(server.port).await;
    for (bytes, state) in [
        (&b"Q\0\0\0\0"[..], "08P01"),
        (&b"Q\xff\xff\xff\xff"[..], "08P01"),
        (&b"Q\x7f\xff\xff\xff"[..], "54000"),
        (&b"\x80\0\0\0\x04"[..], "08P01"),
        (&b"p\0\0\0\x08pwd\0"[..], "08P01"),
    ] {
        let mut wire = Wire::ready(server.port).await;
        wire.send(bytes).await;
        let replies = wire.rest().await;
        assert_eq!(sqlstate(&replies), state, "{bytes:?}");
        assert_eq!(error_field(&replies, b'S').unwrap(), "FATAL");
    }
    assert_eq!(kinds(&other.query("SELECT 1").await), "TDCZ");
}

#[tokio::test(flavor = "multi_thread")]
async fn noise() {
    let server = Server::start().await;
    let mut state = 1_u64;
    let mut byte = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u8::try_from(state >> 56).unwrap()
    };
    for round in 0..100 {
        let noise: Vec<u8> = (0..50).map(|_| byte()).collect();
        let mut wire = if round % 2 == 0 {
            Wire::open(server.port).await
        } else {
            Wire::ready(server.port).await
        };
        wire.send(&noise).await;
        use tokio::io::AsyncWriteExt;
        let _ = wire.0.shutdown().await;
        wire.rest().await;
    }
    serves(&server).await;
}
