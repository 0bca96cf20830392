use super::{put_double, put_text};

#[test]
fn texts() {
    let mut out = String::new();
    put_text(&mut out, "a\"\\/\n\r\t\0\u{1f}é😀\u{7f}");
    assert_eq!(out, "\"a\\\"\\\\/\\n\\r\\t\\u0000\\u001fé😀\u{7f}\"");
}

#[test]
fn numbers() {
    for (value, expected) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (0.1, "0.1"),
        (1e-6, "0.000001"),
        (1.5e-7, "1.5e-7"),
        (1e20, "100000000000000000000"),
        (1e21, "1e21"),
        (f64::MAX, "1.7976931348623157e308"),
        (f64::NAN, "\"NaN\""),
        (f64::INFINITY, "\"Infinity\""),
        (f64::NEG_INFINITY, "\"-Infinity\""),
    ] {
        let mut out = String::new();
        put_double(&mut out, value);
        assert_eq!(out, expected);
    }
}
