use super::{Part, closing_quote, name_end, unescape};

fn read(part: Part, raw: &str) -> String {
    let mut bytes = Vec::new();
    unescape(part, raw.as_bytes(), &mut bytes);
    String::from_utf8(bytes).unwrap()
}

#[test]
fn each_part_has_escapes_of_its_own() {
    for (part, raw, meant) in [
        (Part::Measurement, r"a\,b\ c\\d\=e\xé", r"a,b c\d\=e\xé"),
        (Part::Name, r"a\,b\ c\\d\=e\é", r"a,b c\d=e\é"),
        (Part::Text, r#"a\"b\\c\,d\n"#, r#"a"b\c\,d\n"#),
        (Part::Name, r"a\", r"a\"),
        (Part::Name, r"\\\\", r"\\"),
        (Part::Text, "", ""),
    ] {
        assert_eq!(read(part, raw), meant, "{raw}");
    }
}

#[test]
fn ends() {
    assert_eq!(closing_quote(br#"abc" x"#, 0), Some((3, false)));
    assert_eq!(closing_quote(br#"a\"\\" x"#, 0), Some((5, true)));
    assert_eq!(closing_quote(br#"a\""#, 0), None);
    assert_eq!(closing_quote(br"a\", 0), None);
    assert_eq!(name_end(br"a\,b,c", 0, b","), 4);
    assert_eq!(name_end(br"ab\", 0, b","), 3);
    assert_eq!(name_end(b"", 0, b","), 0);
}
