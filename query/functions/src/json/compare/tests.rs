use std::cmp::Ordering::{Equal, Greater, Less};

use super::compare;

#[test]
fn values_are_in_postgresqls_order() {
    for (left, right, wanted) in [
        ("1.0", "1", Equal),
        ("-0.0", "0", Equal),
        ("10", "9", Greater),
        ("-10", "-9", Less),
        ("-1", "1", Less),
        ("0.5", "0.45", Greater),
        ("100000000000000000000.1", "100000000000000000000", Greater),
        (r#"{"a": 1.0}"#, r#"{"a": 1}"#, Equal),
        ("[1.0, 2]", "[1, 2.00]", Equal),
        ("\"a\"", "1", Less),
        ("null", "\"a\"", Less),
        ("true", "1", Greater),
        ("true", "false", Greater),
        ("[]", "null", Less),
        ("[1]", "5", Greater),
        ("5", "[]", Greater),
        ("{}", "[1, 2, 3]", Greater),
        ("[9]", "[1, 2]", Less),
        ("[[1]]", "[5]", Greater),
        (r#"{"a": 1}"#, r#"{"a": 1, "b": 0}"#, Less),
        (r#"{"b": 1}"#, r#"{"a": 2}"#, Greater),
        (r#"{"b": 1}"#, r#"{"aa": 2}"#, Greater),
        ("\"b\"", "\"aaa\"", Greater),
        (r#""\n""#, r#"" ""#, Less),
    ] {
        assert_eq!(compare(left, right), wanted, "{left} and {right}");
        assert_eq!(compare(right, left), wanted.reverse(), "{right} and {left}");
    }
}
