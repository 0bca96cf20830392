use super::*;

#[test]
fn names_are_quoted_only_where_needed() {
    assert!(RESERVED.is_sorted());
    assert_eq!(quote_ident("cpu_1"), "cpu_1");
    assert_eq!(quote_ident("time"), "\"time\"");
    assert_eq!(quote_ident("Host"), "\"Host\"");
    assert_eq!(quote_ident("a\"b"), "\"a\"\"b\"");
    assert_eq!(quote_ident(""), "\"\"");
    assert_eq!(quote_ident("1st"), "\"1st\"");
}

#[test]
fn strings_are_quoted() {
    assert_eq!(quote_literal("it's"), "'it''s'");
    assert_eq!(quote_literal("a\\b"), "E'a\\\\b'");
}
