use super::*;

fn list() -> List {
    List {
        name: "20261122T010203.004Z".to_string(),
        time_ns: 1,
        stored_bytes: 2,
        files: vec![Entry {
            path: "FORMAT".to_string(),
            object: "format-00".to_string(),
            bytes: 3,
            checksum: 4,
            restored_bytes: 5,
        }],
    }
}

#[test]
fn a_list_is_read_as_it_was_written() {
    let text = list().encode().unwrap();
    assert!(text.starts_with("stratalog backup\nversion 1\n{"), "{text}");
    assert_eq!(List::decode(text.as_bytes(), "here").unwrap(), list());
}

#[test]
fn no_list_with_another_bit_is_read() {
    let bytes = list().encode().unwrap().into_bytes();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut other = bytes.clone();
            other[at] ^= 1 << bit;
            let error = List::decode(&other, "here").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{at} {bit}");
            assert!(error.message().contains("here"), "{error}");
        }
        assert!(List::decode(&bytes[..at], "here").is_err(), "{at}");
    }
}

#[test]
fn lists_of_formats_that_are_not_known_are_told_from_damage() {
    for version in [0, FORMAT_VERSION + 1, u32::MAX] {
        let text = list().encode().unwrap().replace("version 1", &format!("version {version}"));
        let body = text.rsplit_once("crc32c").unwrap().0;
        let text = format!("{body}crc32c {:08x}\n", crc32c::crc32c(body.as_bytes()));
        let error = List::decode(text.as_bytes(), "here").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ObjectNotInPrerequisiteState, "{version}");
    }
}
