use super::*;

#[test]
fn patterns_become_regular_expressions() {
    for (pattern, escape, wanted) in [
        ("a%", Some('\\'), "(?s)^(?:a.*)$"),
        ("_(b|c)+", Some('\\'), "(?s)^(?:.(?:b|c)+)$"),
        ("a.c^$", Some('\\'), r"(?s)^(?:a\.c\^\$)$"),
        (r"a\%\_\d", Some('\\'), r"(?s)^(?:a\%_\d)$"),
        ("a#%", Some('#'), r"(?s)^(?:a\%)$"),
        (r"a\c", None, r"(?s)^(?:a\\c)$"),
        ("[a-c%_&[x]{2,3}", Some('\\'), r"(?s)^(?:[a-c%_\&\[x]{2,3})$"),
        ("[^[:digit:]]", Some('\\'), "(?s)^(?:[^[:digit:]])$"),
    ] {
        assert_eq!(expression(pattern, escape), wanted, "{pattern}");
    }
}

#[test]
fn an_escape_is_at_most_one_character() {
    assert_eq!(escape_of("").unwrap(), None);
    assert_eq!(escape_of("é").unwrap(), Some('é'));
    assert_eq!(escape_of("ab").unwrap_err().kind(), ErrorKind::InvalidEscape);
}
