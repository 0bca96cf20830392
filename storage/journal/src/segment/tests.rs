use std::path::Path;

use super::*;

fn header() -> SegmentHeader {
    SegmentHeader {
        partition: PartitionId(3),
        number: SegmentId(7),
        first_lsn: Lsn(99),
        preallocated: 1 << 20,
        previous_checksum: 0xABCD_EF01,
    }
}

#[test]
fn what_is_encoded_is_decoded() {
    let (bytes, seed) = header().encode();
    assert_eq!(bytes.len() as u64, HEADER_BYTES);
    assert_eq!(SegmentHeader::decode(&bytes, Path::new("x")).unwrap(), (header(), seed));
}

#[test]
fn every_flipped_bit_and_every_cut_is_damage() {
    let (bytes, _) = header().encode();
    for at in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[at / 8] ^= 1 << (at % 8);
        let error = SegmentHeader::decode(&flipped, Path::new("the-file")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataCorrupted);
        assert!(error.message().contains("the-file"), "{error}");
    }
    for len in 0..bytes.len() {
        let error = SegmentHeader::decode(&bytes[..len], Path::new("x")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataCorrupted);
    }
}

#[test]
fn versions_that_are_not_known_are_told_from_damage() {
    for version in [0, FORMAT_VERSION + 1, u32::MAX] {
        let (mut bytes, _) = header().encode();
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..HEADER - 4]);
        bytes[HEADER - 4..].copy_from_slice(&checksum.to_le_bytes());
        let error = SegmentHeader::decode(&bytes, Path::new("x")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ObjectNotInPrerequisiteState);
        assert!(error.message().contains(&format!("version {version}")), "{error}");
    }
}

#[test]
fn only_our_names_are_segments() {
    assert_eq!(parse_name(&file_name(SegmentId(42))), Some(SegmentId(42)));
    for name in [
        "42.journal",
        "00000000000000000000.journal",
        "0000000000000000000a.journal",
        "00000000000000000042.journal2",
        "99999999999999999999.journal",
        SPARE_NAME,
        LOCK_NAME,
    ] {
        assert_eq!(parse_name(name), None, "{name}");
    }
}
