use stratalog_model::ErrorKind;

use super::*;

fn found<'a>(pattern: &str, text: &'a str) -> Option<Vec<Option<&'a str>>> {
    let expression = Expression::new(pattern, Flags::default()).unwrap();
    let found = expression.find(text, 0).unwrap()?;
    let all = std::iter::once(Some(found.all)).chain(found.groups);
    Some(all.map(|span| span.and_then(|(start, end)| text.get(start..end))).collect())
}

// The expected values are the results of PostgreSQL 15.
#[test]
fn the_longest_match_counts_or_the_shortest() {
    assert_eq!(found(".|...", "xyz"), Some(vec![Some("xyz")]));
    assert_eq!(found("(a|ab)(c|bcd)", "abcd"), Some(vec![Some("abcd"), Some("a"), Some("bcd")]));
    assert_eq!(found("Y*?([0-9]{1,3})", "XY1234Z"), Some(vec![Some("Y1"), Some("1")]));
    assert_eq!(found("Y*([0-9]{1,3})", "XY1234Z"), Some(vec![Some("Y123"), Some("123")]));
    let parts = |pattern: &str| found(pattern, "abc01234xyz").map(|mut found| found.split_off(1));
    let (long, short) = (["abc", "01234", "xyz"], ["abc", "0", ""]);
    for (pattern, wanted) in [
        (r"(?:(.*?)(\d+)(.*)){1,1}", long),
        (r"(?:(.*?)(\d+)(.*)){1}", short),
        (r"(.*?)(\d+)(.*)", short),
    ] {
        assert_eq!(parts(pattern), Some(wanted.map(Some).to_vec()), "{pattern}");
    }
    assert_eq!(found("a.b", "a\nb"), Some(vec![Some("a\nb")]));
}

#[test]
fn what_other_engines_spell_otherwise_is_understood() {
    assert_eq!(found(r"\mfoo\M", "a foo b"), Some(vec![Some("foo")]));
    assert_eq!(found(r"\yb", "ab b"), Some(vec![Some("b")]));
    assert_eq!(found(r"[[:<:]]b", "ab b"), Some(vec![Some("b")]));
    assert_eq!(found(r"(.)\1", "abb"), Some(vec![Some("bb"), Some("b")]));
    assert_eq!(found(r"a(?=b)", "ac ab"), Some(vec![Some("a")]));
    assert_eq!(found(r"[]a]+", "b]a"), Some(vec![Some("]a")]));
    assert_eq!(found(r"[a&&b]+", "&"), Some(vec![Some("&")]));
    assert_eq!(found(r"a{,2}", "a{,2}"), Some(vec![Some("a{,2}")]));
    assert_eq!(found("(?i)ABC", "abc"), Some(vec![Some("abc")]));
    assert_eq!(found("***=a.c", "abc a.c"), Some(vec![Some("a.c")]));
}

#[test]
fn what_is_wrong_is_refused() {
    for pattern in ["(", ")", "[", "*a", "a**", r"\", r"\q", "a{2,1}", "a{300}", r"\1", "[[:x:]]"] {
        let error = Expression::new(pattern, Flags::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRegularExpression, "{pattern}");
    }
    assert_eq!(Flags::read("z").unwrap_err().kind(), ErrorKind::InvalidParameterValue);
}

#[test]
fn trying_in_many_ways_comes_to_an_end() {
    let expression = Expression::new(r"(a*)*(a*)*\1b", Flags::default()).unwrap();
    let error = expression.is_match(&"a".repeat(60)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StatementTooComplex);
    // An expression without back-references and look-around does not backtrack.
    let expression = Expression::new("(a*)*(a*)*(a*)*b", Flags::default()).unwrap();
    assert!(!expression.is_match(&"a".repeat(10_000)).unwrap());
}

// Each of a hundred thousand start positions needs one backtracking step. Together, these steps
// exceed the limit for this text.
#[test]
fn long_texts_with_many_steps_are_searched_start_by_start() {
    let text = "ab".repeat(50_000) + "ab!";
    let expression = Expression::new("(?=ab!)(a)(b)", Flags::default()).unwrap();
    assert_eq!(found("(?=ab!)(a)(b)", &text), Some(vec![Some("ab"), Some("a"), Some("b")]));
    assert_eq!(expression.find(&text, 0).unwrap().unwrap().all, (100_000, 100_002));
    assert!(expression.find(&text, 100_001).unwrap().is_none());
    assert!(!Expression::new("(?=ab[?])ab", Flags::default()).unwrap().is_match(&text).unwrap());
    let start = Expression::new(r"\A(?=ab)a|(?<=a)b!", Flags::default()).unwrap();
    assert_eq!(start.find(&text, 1).unwrap().unwrap().all, (100_001, 100_003));
}
