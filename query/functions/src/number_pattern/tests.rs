use super::*;

// The expected values are the results of PostgreSQL 15.
#[test]
fn numbers_take_the_form_of_a_pattern() {
    for (value, scale, pattern, wanted) in [
        (1_234_567_890, 2, "9G999G999G999D99", "    12,345,678.90"),
        (-485, 0, "999", "-485"),
        (485, 0, "999", " 485"),
        (1485, 0, "9G999", " 1,485"),
        (1_485, 1, "999D999", " 148.500"),
        (-485, 0, "999S", "485-"),
        (-485, 0, "999MI", "485-"),
        (485, 0, "FM999MI", "485"),
        (485, 0, "PL999", "+ 485"),
        (485, 0, "SG999", "+485"),
        (-485, 0, "9SG99", "4-85"),
        (-485, 0, "999PR", "<485>"),
        (485, 0, "RN", "        CDLXXXV"),
        (485, 0, "FMRN", "CDLXXXV"),
        (482, 0, "999th", " 482nd"),
        (485, 0, "\"Good number:\"999", "Good number: 485"),
        (12, 0, "99V999", " 12000"),
        (124, 1, "99V999", " 12400"),
        (1_245, 2, "99V9", " 125"),
        (12_345, 0, "99", " ##"),
        (4_859, 7, "9.99EEEE", " 4.86e-04"),
        (-1, 1, "99.99", "  -.10"),
        (-1, 1, "FM9.99", "-.1"),
        (-1, 1, "FM90.99", "-0.1"),
        (1, 1, "0.9", " 0.1"),
        (12, 0, "9990999.9", "    0012.0"),
        (12, 0, "FM9990999.9", "0012."),
        (4_858, 1, "\"Pre:\"999\" Post:\" .999", "Pre: 485 Post: .800"),
    ] {
        let pattern_read = Pattern::read(pattern).unwrap();
        assert_eq!(writing::decimal(&pattern_read, value, scale).unwrap(), wanted, "{pattern}");
    }
    let sixteen = Pattern::read("FM9999999999999999.999999").unwrap();
    assert_eq!(writing::float(&sixteen, 0.1, 15).unwrap(), ".1");
}

#[test]
fn texts_are_numbers_by_a_pattern() {
    for (text, pattern, wanted) in [
        ("-34,338,492", "99G999G999", Ok(-34_338_492_000)),
        ("-34,338,492.654,878", "99G999G999D999G999", Ok(-34_338_492_655)),
        ("<564646.654564>", "999999.999999PR", Ok(-564_646_655)),
        ("0.00001-", "9.999999S", Ok(0)),
        ("5.01-", "FM9.999999S", Ok(-5_010)),
        ("12,454.8-", "99G999D9S", Ok(-12_454_800)),
        (".01", "99.99", Ok(10)),
        (".-01", "S99.99", Ok(-10)),
        (". 0 1-", " 9 9 . 9 9 S", Ok(-1_000)),
        ("-01", "S99", Ok(-1_000)),
        ("", "999", Err(ErrorKind::InvalidTextRepresentation)),
    ] {
        let pattern_read = Pattern::read(pattern).unwrap();
        let number = reading::number(&pattern_read, text, 3).map_err(|error| error.kind());
        assert_eq!(number, wanted, "{text} {pattern}");
    }
}
