use bytes::{BufMut, Bytes, BytesMut};
use proptest::prelude::*;

use std::time::Duration;

use super::{Bind, Disconnect, Frontend, InboundItem, MessageLimits, MessageReader};
use crate::budget::Budget;

fn samples() -> Vec<(u8, Vec<u8>)> {
    let mut bind = Vec::new();
    bind.extend_from_slice(b"portal\0statement\0");
    bind.extend_from_slice(&[0, 1, 0, 1]);
    bind.extend_from_slice(&[0, 2, 0, 0, 0, 3, b'a', b'b', b'c', 255, 255, 255, 255]);
    bind.extend_from_slice(&[0, 2, 0, 0, 0, 1]);
    vec![
        (b'Q', b"SELECT 1\0".to_vec()),
        (b'P', b"name\0SELECT $1\0\0\x01\0\0\0\x17".to_vec()),
        (b'B', bind),
        (b'D', b"Sname\0".to_vec()),
        (b'E', b"portal\0\0\0\0\x05".to_vec()),
        (b'C', b"Pportal\0".to_vec()),
        (b'S', vec![]),
        (b'H', vec![]),
        (b'c', vec![]),
        (b'f', b"why\0".to_vec()),
    ]
}

#[test]
fn bind_is_read_whole() {
    let (kind, body) = samples().remove(2);
    let expected = Bind {
        portal: "portal".into(),
        statement: "statement".into(),
        formats: vec![1],
        values: vec![Some(Bytes::from_static(b"abc")), None],
        result_formats: vec![0, 1],
    };
    assert_eq!(Frontend::decode(kind, body.into()).unwrap(), Frontend::Bind(expected));
}

#[test]
fn messages_cut_anywhere_are_refused() {
    for (kind, body) in samples() {
        assert!(Frontend::decode(kind, body.clone().into()).is_ok());
        for length in 0..body.len() {
            let error = Frontend::decode(kind, body[..length].to_vec().into()).unwrap_err();
            assert_eq!(error.kind().sqlstate(), "08P01", "{} cut at {length}", char::from(kind));
        }
        let mut longer = body;
        longer.push(0);
        let error = Frontend::decode(kind, longer.into()).unwrap_err();
        assert_eq!(error.kind().sqlstate(), "08P01");
    }
}

#[test]
fn lies_about_lengths_are_refused() {
    for values in [
        // A value with a length of 2 GB, a value with a negative length, and 65,535 values.
        &[0, 0, 0, 1, 0x7f, 255, 255, 255][..],
        &[0, 0, 0, 1, 255, 255, 255, 254][..],
        &[0, 0, 255, 255][..],
    ] {
        let body = [b"\0\0", values].concat();
        let error = Frontend::decode(b'B', body.into()).unwrap_err();
        assert_eq!(error.kind().sqlstate(), "08P01");
    }
}

#[test]
fn strings_must_be_utf_8() {
    let error = Frontend::decode(b'Q', Bytes::from_static(b"SELECT '\xff'\0")).unwrap_err();
    assert_eq!(error.kind().sqlstate(), "22021");
    assert_eq!(error.message(), "invalid byte sequence for encoding \"UTF8\": 0xff 0x27");
}

fn reader(bytes: &[u8], message_bytes_max: usize) -> MessageReader<&[u8]> {
    let limits = MessageLimits {
        bytes_max: message_bytes_max,
        room: Budget::new(1 << 20),
        patience: Duration::ZERO,
    };
    MessageReader::new(bytes, BytesMut::new(), limits)
}

fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.put_i32(i32::try_from(body.len()).unwrap() + 4);
    bytes.extend_from_slice(body);
    bytes
}

#[tokio::test]
async fn messages_are_cut_out_of_the_stream() {
    let stream: Vec<u8> = samples().iter().flat_map(|(kind, body)| framed(*kind, body)).collect();
    let mut reader = reader(&stream, 1000);
    for (kind, body) in samples() {
        match reader.next().await {
            InboundItem::Message(found, bytes) => {
                assert_eq!((found, bytes.to_vec()), (kind, body));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(reader.next().await, InboundItem::Closed));
}

#[tokio::test]
async fn large_messages_hold_room_until_their_last_part_is_dropped() {
    let (large, small) = (framed(b'B', &vec![7; 900_000]), framed(b'B', b"small"));
    let stream = [large.clone(), small.clone(), large.clone(), small.clone(), large].concat();
    let mut reader = reader(&stream, 1 << 20);
    let InboundItem::Message(b'B', mut first) = reader.next().await else { panic!("no message") };
    let part = first.split_off(899_999);
    drop(first);
    assert!(matches!(reader.next().await, InboundItem::Message(b'B', body) if body == "small"));
    match reader.next().await {
        InboundItem::Refused(b'B', error) => assert_eq!(error.kind().sqlstate(), "53200"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(reader.next().await, InboundItem::Message(b'B', body) if body == "small"));
    drop(part);
    assert!(
        matches!(reader.next().await, InboundItem::Message(b'B', body) if body.len() == 900_000)
    );
    assert!(matches!(reader.next().await, InboundItem::Closed));
}

#[tokio::test]
async fn large_messages_of_data_come_in_parts() {
    let data: Vec<u8> = (0..1_000_000_u32).map(|n| n.to_be_bytes()[3]).collect();
    let stream = [framed(b'd', &data), framed(b'c', b""), framed(b'd', &data)].concat();
    let mut reader = reader(&stream, 1 << 20);
    for end in [b'c', 0] {
        let mut found = Vec::new();
        while found.len() < data.len() {
            let InboundItem::Message(b'd', part) = reader.next().await else { panic!("no data") };
            assert!(part.len() < 500_000);
            found.extend_from_slice(&part);
        }
        assert!(found == data, "other data");
        match reader.next().await {
            InboundItem::Message(kind, _) => assert_eq!(kind, end),
            other => assert!(end == 0 && matches!(other, InboundItem::Closed)),
        }
    }
}

#[tokio::test]
async fn broken_framing_is_told_apart() {
    for (bytes, sqlstate) in [
        (&b"Q\0\0\0\x03"[..], "08P01"),
        (&b"Q\xff\xff\xff\xff"[..], "08P01"),
        (&b"Q\x7f\xff\xff\xff"[..], "54000"),
        (&b"Q\0\0\x03\xe9"[..], "54000"),
        (&b"?\0\0\0\x04"[..], "08P01"),
        (&b"\0\0\0\0\0"[..], "08P01"),
    ] {
        match reader(bytes, 1000).next().await {
            InboundItem::Broken(error) => {
                assert_eq!(error.kind().sqlstate(), sqlstate, "{bytes:?}")
            }
            other => panic!("{bytes:?}: {other:?}"),
        }
    }
    for cut in [&b""[..], b"Q", b"Q\0\0\0", b"Q\0\0\0\x0aSEL"] {
        assert!(matches!(reader(cut, 1000).next().await, InboundItem::Closed), "{cut:?}");
    }
}

#[tokio::test]
async fn a_client_that_sent_more_before_it_closed_has_not_left() {
    let left = |bytes: Vec<u8>| async move {
        let mut reader = reader(&bytes, 1000);
        tokio::time::timeout(Duration::from_millis(20), reader.left()).await.ok()
    };
    let message = |kind: u8| samples().into_iter().find(|(known, _)| *known == kind);
    let sent = |kind: u8| message(kind).map(|(kind, body)| framed(kind, &body)).unwrap();
    let goodbye = framed(b'X', b"");
    assert_eq!(left(Vec::new()).await, Some(Disconnect::Closed));
    assert_eq!(left(goodbye.clone()).await, Some(Disconnect::Farewell));
    for kind in *b"SHC" {
        assert_eq!(left(sent(kind)).await, None);
        assert_eq!(left([sent(kind), goodbye.clone()].concat()).await, Some(Disconnect::Farewell));
    }
    for kind in *b"QPBDE" {
        assert_eq!(left([sent(kind), goodbye.clone()].concat()).await, None);
        assert_eq!(left([sent(b'S'), sent(kind), goodbye.clone()].concat()).await, None);
    }
    // COPY data whose bytes look like a Terminate message.
    let data = framed(b'd', &vec![b'X'; 200_000]);
    let mut whole = reader(&data, 1 << 20);
    assert!(matches!(whole.next().await, InboundItem::Message(b'd', _)));
    assert!(tokio::time::timeout(Duration::from_millis(20), whole.left()).await.is_err());
    // Without a received message that needs an answer, `closed` returns.
    reader(b"X\0\0\0\x04", 1000).closed().await;
}

proptest! {
    #[test]
    fn any_body_is_a_message_or_an_error(
        kind in prop::sample::select(b"QPBDECSHdcfXFp".to_vec()),
        body in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let _ = Frontend::decode(kind, body.into());
    }
}
