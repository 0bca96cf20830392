use bytes::Bytes;
use proptest::prelude::*;

use super::*;

fn any_frame() -> impl Strategy<Value = Frame> {
    let ids = (any::<u16>(), any::<u32>(), any::<u32>(), any::<u64>());
    let events = (any::<i64>(), any::<i64>(), any::<u32>(), any::<u64>());
    let producer = proptest::option::of((any::<u128>(), any::<u64>()));
    let payload = proptest::collection::vec(any::<u8>(), 0..700);
    (1_u8..5, ids, events, producer, payload).prop_map(|(kind, ids, events, producer, payload)| {
        Frame {
            kind: FrameKind::from_byte(kind).unwrap(),
            partition: PartitionId(ids.0),
            chronicle: ChronicleId(ids.1),
            schema_version: SchemaVersion(ids.2),
            statement: StatementId(ids.3),
            ticks: TickRange::new(Tick(events.0), Tick(events.1)),
            count: events.2,
            first_seq: events.3,
            producer: producer.map(|(id, sequence)| (ProducerId(id), sequence)),
            payload: Bytes::from(payload),
        }
    })
}

proptest! {
    #[test]
    fn what_is_encoded_is_parsed(frame in any_frame(), lsn in 1_u64.., durable: u64, seed: u32) {
        let checksum = payload_checksum(&frame.payload);
        let header = Header::of(&frame, checksum, Lsn(lsn), Lsn(durable));
        let mut bytes = Vec::new();
        let own = header.encode(seed, &mut bytes);
        prop_assert_eq!(bytes.len() as u64, HEADER_BYTES);
        prop_assert_eq!(Header::parse(&bytes, seed), ParsedRecord::Header(header, own));
        let back = crate::reader::frame_of(&header, frame.payload.clone());
        prop_assert_eq!(back, Some(frame));
        // A frame is valid only in its own segment: another seed makes its checksum invalid.
        prop_assert_eq!(Header::parse(&bytes, seed ^ 1), ParsedRecord::Damaged);
    }

    #[test]
    fn no_flipped_bit_of_a_header_goes_unnoticed(frame in any_frame(), at in 0_usize..1024) {
        let mut bytes = Vec::new();
        Header::of(&frame, 7, Lsn(1), Lsn(0)).encode(3, &mut bytes);
        bytes[at / 8] ^= 1 << (at % 8);
        prop_assert_eq!(Header::parse(&bytes, 3), ParsedRecord::Damaged);
    }

    #[test]
    fn any_bytes_are_parsed_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let parsed = Header::parse(&bytes, 0);
        prop_assert!(matches!(parsed, ParsedRecord::Damaged | ParsedRecord::Blank), "{:?}", parsed);
    }
}

#[test]
fn a_mark_is_no_frame() {
    let mut bytes = Vec::new();
    let mark = Header::mark(PartitionId(3), Lsn(10), Lsn(9));
    let own = mark.encode(1, &mut bytes);
    assert_eq!(Header::parse(&bytes, 1), ParsedRecord::Header(mark, own));
    assert_eq!(crate::reader::frame_of(&mark, Bytes::new()), None);
    assert_eq!(mark.extent(), HEADER_BYTES);
    // A mark has no payload; the reader compares the checksum of an empty payload.
    assert_eq!(mark.payload_checksum, payload_checksum(&[]));
}

#[test]
fn zeros_are_blank_and_short_bytes_are_not() {
    assert_eq!(Header::parse(&[0; HEADER], 9), ParsedRecord::Blank);
    assert_eq!(Header::parse(&[0; HEADER - 1], 9), ParsedRecord::Damaged);
}

#[test]
fn a_sound_header_of_a_later_kind_is_told_from_damage() {
    let frame = Header::mark(PartitionId(0), Lsn(1), Lsn(0));
    for (at, value) in [(32, 0x55), (33, 0x02)] {
        let mut bytes = Vec::new();
        frame.encode(0, &mut bytes);
        bytes[at] = value;
        let checksum = crc32c::crc32c(&bytes[8..]);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Header::parse(&bytes, 0), ParsedRecord::Unknown);
    }
}

#[test]
fn extents_are_aligned() {
    assert_eq!([0, 1, 127, 128, 129].map(extent_bytes), [128, 256, 256, 256, 384]);
    assert_eq!([0, 1, 127, 128, 129].map(padding_bytes), [0, 127, 1, 0, 127]);
}
