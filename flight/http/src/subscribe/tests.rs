use super::*;

fn read(pairs: &[(&str, &str)], last: Option<&str>) -> Result<String> {
    let pairs = pairs.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    Question::read(pairs.collect(), last).map(|question| question.sql())
}

#[test]
fn a_request_is_a_statement() {
    assert_eq!(read(&[("table", "cpu")], None).unwrap(), "SUBSCRIBE \"cpu\"");
    assert_eq!(
        read(&[("table", "a\"b"), ("schema", "s"), ("gsn", "7")], None).unwrap(),
        "SUBSCRIBE \"s\".\"a\"\"b\" FROM GSN 7"
    );
    assert_eq!(
        read(&[("table", "cpu"), ("time", "it's"), ("where", "x > 1")], None).unwrap(),
        "SUBSCRIBE \"cpu\" FROM TIMESTAMP 'it''s' WHERE (x > 1\n)"
    );
    assert_eq!(
        read(&[("table", "cpu"), ("live", "true")], None).unwrap(),
        "SUBSCRIBE \"cpu\" LIVE"
    );
}

#[test]
fn who_comes_again_goes_on_behind_what_it_has() {
    let first = [("table", "cpu"), ("live", "true")];
    assert_eq!(read(&first, Some("41")).unwrap(), "SUBSCRIBE \"cpu\" FROM GSN 42");
    assert!(read(&first, Some("x")).is_err());
}

#[test]
fn what_is_not_understood_is_refused() {
    for wrong in [
        &[][..],
        &[("table", "cpu"), ("gsn", "1"), ("live", "true")],
        &[("table", "cpu"), ("gsn", "-1")],
        &[("table", "cpu"), ("live", "maybe")],
        &[("table", "cpu"), ("limit", "1")],
    ] {
        let error = read(wrong, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidParameterValue, "{wrong:?}");
        assert!(error.hint().is_some());
    }
}
