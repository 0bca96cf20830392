use super::*;

const DOCUMENT: &str =
    r#"{"a": 1, "b": [10, "x, ]", null, {"c": "d"}], "q\"": "é\n", "nested": {"a": {"b": true}}}"#;

#[test]
fn members_are_found_by_key() {
    assert_eq!(member(DOCUMENT, "a"), Some("1"));
    assert_eq!(member(DOCUMENT, "b"), Some(r#"[10, "x, ]", null, {"c": "d"}]"#));
    assert_eq!(member(DOCUMENT, "q\""), Some(r#""é\n""#));
    assert_eq!(member(DOCUMENT, "c"), None, "only members of the object itself");
    assert_eq!(member("[1]", "a"), None);
    assert_eq!(member("{}", "a"), None);
}

#[test]
fn elements_are_found_from_both_ends() {
    let array = member(DOCUMENT, "b").unwrap();
    assert_eq!(element(array, 0), Some("10"));
    assert_eq!(element(array, 1), Some(r#""x, ]""#));
    assert_eq!(element(array, -1), Some(r#"{"c": "d"}"#));
    assert_eq!(element(array, 4), None);
    assert_eq!(element(array, -5), None);
    assert_eq!(element(array, i64::MIN), None);
    assert_eq!(array_length(array), Some(4));
    assert_eq!(array_length("[]"), Some(0));
    assert_eq!(array_length("{}"), None);
}

#[test]
fn text_of_values() {
    assert_eq!(as_text(r#""é\n\"""#).as_deref(), Some("é\n\""));
    assert_eq!(as_text("null"), None);
    assert_eq!(as_text("1.50").as_deref(), Some("1.50"));
    assert_eq!(as_text(r#"{"a": 1}"#).as_deref(), Some(r#"{"a": 1}"#));
}

#[test]
fn paths_mix_keys_and_positions() {
    let found = ["b", "3", "c"].iter().try_fold(DOCUMENT, |json, at| step(json, at));
    assert_eq!(found, Some(r#""d""#));
    assert_eq!(step(DOCUMENT, "0"), None);
    assert_eq!(step("1", "0"), None);
}

#[test]
fn containment() {
    let holds = |json, part| contains(json, part).unwrap();
    assert!(holds(DOCUMENT, r#"{"nested": {"a": {}}}"#));
    assert!(!holds(DOCUMENT, r#"{"nested": {"a": {"b": false}}}"#));
    assert!(holds("[1, 2, 3]", "[3, 1, 1]"));
    assert!(holds("[1, 2]", "1"));
    assert!(!holds("[[1]]", "1"));
    assert!(!holds("1", "[1]"));
    let deep = format!("{}{}", "[".repeat(2000), "]".repeat(2000));
    assert_eq!(contains(&deep, &deep).unwrap_err().kind(), ErrorKind::LimitExceeded);
}

#[test]
fn keys_and_strings_exist() {
    assert!(exists(DOCUMENT, "a") && exists(DOCUMENT, "q\""));
    assert!(!exists(DOCUMENT, "c"));
    assert!(exists(r#"["a", 1]"#, "a") && !exists(r#"["a", 1]"#, "1"));
}

#[test]
fn pretty_indents() {
    assert_eq!(pretty("[]"), "[\n]");
    assert_eq!(pretty(r#"{"a": [], "b": {}}"#), "{\n    \"a\": [\n    ],\n    \"b\": {\n    }\n}");
    assert_eq!(
        pretty(r#"{"a": [1, "x,y"]}"#),
        "{\n    \"a\": [\n        1,\n        \"x,y\"\n    ]\n}"
    );
}

#[test]
fn damaged_text_ends_the_scan() {
    for damaged in ["{", "{\"a", "{\"a\": [1", "[1, \"", "", "{\"a\":"] {
        let _ = (member(damaged, "a"), element(damaged, 0), element(damaged, -1), pretty(damaged));
    }
}
