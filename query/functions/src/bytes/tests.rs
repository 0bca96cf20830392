use super::*;

// The expected values are the results of PostgreSQL 15.
#[test]
fn forms_are_postgresqls() {
    assert_eq!(encoded(&[0, 97, 92, 200], "escape").unwrap(), "\\000a\\\\\\310");
    assert_eq!(decoded("\\000a\\\\\\310", "escape").unwrap(), [0, 97, 92, 200]);
    assert_eq!(encoded(&[b'x'; 70], "base64").unwrap().len(), 97);
    assert_eq!(decoded("eHh4\neA==", "base64").unwrap(), b"xxxx");
    for (text, form) in [("a", "nosuch"), ("abc", "hex"), ("zz", "hex"), ("a?", "base64")] {
        assert_eq!(decoded(text, form).unwrap_err().kind(), ErrorKind::InvalidParameterValue);
    }
}

#[test]
fn places_are_those_of_postgresql() {
    assert_eq!(slice(b"abcdef", -1, 3), b"ab");
    assert_eq!(slice(b"abcdef", 3, i64::MAX), b"cdef");
    assert_eq!(slice(b"abcdef", 9, i64::MAX), b"");
    assert_eq!(place_of(b"abcdef", b"cd"), 3);
    assert_eq!(place_of(b"abcdef", b"x"), 0);
    assert_eq!(byte_at(b"a", 1).unwrap_err().kind(), ErrorKind::ArraySubscript);
}
