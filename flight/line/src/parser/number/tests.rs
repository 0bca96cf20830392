use proptest::prelude::*;

use super::{FieldValue, Number, Timestamp, digits, number, timestamp, value, word};

fn read(text: &str) -> Number {
    number(text.as_bytes(), 0)
}

#[test]
fn words() {
    assert_eq!(word(b"12345678", 0).to_le_bytes(), *b"12345678");
    assert_eq!(word(b"123", 1).to_le_bytes(), *b"23\0\0\0\0\0\0");
    assert_eq!(word(b"123", 9), 0);
    for (text, count) in [("", 0), ("/1", 0), (":1", 0), ("1:", 1), ("12345678", 8), ("1\u{b1}", 1)]
    {
        assert_eq!(digits(word(text.as_bytes(), 0)), count, "{text}");
    }
    assert_eq!(value(word(b"1234567890", 0), 3), 123);
    assert_eq!(value(word(b"99999999", 0), 8), 99_999_999);
}

#[test]
fn kinds_of_numbers() {
    for (text, expected, end) in [
        ("58i,", FieldValue::Integer(58), 3),
        ("-1i", FieldValue::Integer(-1), 3),
        ("0i", FieldValue::Integer(0), 2),
        ("-9223372036854775808i", FieldValue::Integer(i64::MIN), 21),
        ("9223372036854775807i", FieldValue::Integer(i64::MAX), 20),
        ("00000000000000000000000000000001i", FieldValue::Integer(1), 33),
        ("18446744073709551615u", FieldValue::Unsigned(u64::MAX), 21),
        ("7u", FieldValue::Unsigned(7), 2),
        ("7", FieldValue::Float(7.0), 1),
        ("12345678", FieldValue::Float(12_345_678.0), 8),
        ("0.1", FieldValue::Float(0.1), 3),
        ("-1.5e+3 ", FieldValue::Float(-1500.0), 7),
        ("1e5,", FieldValue::Float(1e5), 3),
        ("1E-5", FieldValue::Float(1e-5), 4),
        ("1e-400", FieldValue::Float(0.0), 6),
        ("123456789.123456789", FieldValue::Float(123_456_789.123_456_79), 19),
        ("9007199254740993", FieldValue::Float(9_007_199_254_740_992.0), 16),
        ("1.7976931348623157e308", FieldValue::Float(f64::MAX), 22),
        // `number` does not check the byte after the number; the caller checks this byte.
        ("-1u", FieldValue::Float(-1.0), 2),
        ("1.5.2", FieldValue::Float(1.5), 3),
        ("1x", FieldValue::Float(1.0), 1),
    ] {
        assert_eq!(read(text), Number::Is(expected, end), "{text}");
    }
    let Number::Is(FieldValue::Float(zero), 2) = read("-0") else { panic!("not a float") };
    assert!(zero == 0.0 && zero.is_sign_negative());
}

#[test]
fn what_is_no_number() {
    for text in ["", "-", "+1", ".5", "1.", "1.e5", "1e", "1e+", "1.5e-", "nan", "inf", "-i", "--1"]
    {
        assert_eq!(read(text), Number::Not, "{text}");
    }
    for text in [
        "9223372036854775808i",
        "-9223372036854775809i",
        "18446744073709551616u",
        "1e400",
        "-1e309",
    ] {
        assert_eq!(read(text), Number::OutOfRange, "{text}");
    }
}

#[test]
fn timestamps() {
    let read = |text: &str| timestamp(text.as_bytes(), 0);
    assert_eq!(read("1451606400000000000\n"), Timestamp::Is(1_451_606_400_000_000_000, 19));
    assert_eq!(read("-9223372036854775808"), Timestamp::Is(i64::MIN, 20));
    assert_eq!(read("9223372036854775808"), Timestamp::OutOfRange);
    assert_eq!(read("x"), Timestamp::Not);
    assert_eq!(read("-"), Timestamp::Not);
}

proptest! {
    #[test]
    fn floats_are_the_nearest(float in any::<f64>(), digits in 0_usize..20) {
        prop_assume!(float.is_finite());
        for text in [format!("{float:?}"), format!("{float:.digits$}"), format!("{float:.digits$e}")]
        {
            let exact: f64 = text.parse().unwrap();
            match read(&text) {
                Number::Is(FieldValue::Float(read), end) => {
                    prop_assert_eq!(end, text.len());
                    prop_assert_eq!(read.to_bits(), exact.to_bits(), "{}", text);
                }
                Number::OutOfRange => prop_assert!(exact.is_infinite()),
                other => prop_assert!(false, "{} {:?}", text, other),
            }
        }
    }

    #[test]
    fn short_decimals_are_the_nearest(whole in 0_u64..1 << 40, fraction in "[0-9]{1,25}") {
        let text = format!("{whole}.{fraction}");
        let Number::Is(FieldValue::Float(read), _) = read(&text) else { panic!("no float") };
        prop_assert_eq!(read.to_bits(), text.parse::<f64>().unwrap().to_bits());
    }

    #[test]
    fn integers_are_read_as_they_are(value in any::<i64>(), shift in 0_u32..64, tail in "[,\n x]?") {
        let value = value >> shift;
        let text = format!("{value}i{tail}");
        let end = text.len() - tail.len();
        prop_assert_eq!(read(&text), Number::Is(FieldValue::Integer(value), end));
        let stamp = timestamp(value.to_string().as_bytes(), 0);
        prop_assert_eq!(stamp, Timestamp::Is(value, end - 1));
    }
}
