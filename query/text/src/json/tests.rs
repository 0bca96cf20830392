use super::{DEPTH_MAX, normalize_jsonb};

#[test]
fn documents_are_normalized_as_jsonb() {
    // The expected values are the results of PostgreSQL 15.
    for (text, expected) in [
        (" { \"aa\" : [ 1 , 2 ] , \"b\" : null } ", "{\"b\": null, \"aa\": [1, 2]}"),
        ("{\"a\":1,\"b\":2,\"a\":3}", "{\"a\": 3, \"b\": 2}"),
        ("1e3", "1000"),
        ("1.50", "1.50"),
        ("1.5e2", "150"),
        ("1e-3", "0.001"),
        ("120e-1", "12.0"),
        ("-0.0", "0.0"),
        ("0e10", "0"),
        ("\"\\u00e9\\ud83d\\ude00\\/\"", "\"é😀/\""),
        ("\"\\u0001\\n\"", "\"\\u0001\\n\""),
        ("[]", "[]"),
        ("{\"é\":1,\"z\":2}", "{\"z\": 2, \"é\": 1}"),
    ] {
        assert_eq!(normalize_jsonb(text).unwrap(), expected, "{text}");
    }
}

#[test]
fn normalizing_twice_changes_nothing() {
    let once = normalize_jsonb("{\"b\":[1.0,{\"\":\"\\\"\"}],\"a\":1E2}").unwrap();
    assert_eq!(normalize_jsonb(&once).unwrap(), once);
}

#[test]
fn mistakes_are_named() {
    for (text, detail) in [
        ("nul", "Token \"nul\" is invalid."),
        ("", "The input string ended unexpectedly."),
        ("[1,", "The input string ended unexpectedly."),
        ("{\"a\"}", "Expected \":\", but found \"}\"."),
        ("[1 2]", "Token \"2\" is invalid."),
        ("01", "Token \"01\" is invalid."),
        ("\"\\x\"", "Escape sequence \"\\x\" is invalid."),
        ("\"\t\"", "Character with value 0x09 must be escaped."),
        ("\"\\u0000\"", "\\u0000 cannot be converted to text."),
        ("\"\\ud83d\"", "Unicode low surrogate must follow a high surrogate."),
    ] {
        let error = normalize_jsonb(text).unwrap_err();
        assert_eq!(error.detail(), Some(detail), "{text}");
    }
}

#[test]
fn nesting_is_bounded() {
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(normalize_jsonb(&deep(DEPTH_MAX)).is_ok());
    assert_eq!(normalize_jsonb(&deep(DEPTH_MAX + 1)).unwrap_err().kind().sqlstate(), "54000");
}
