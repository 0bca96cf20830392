use super::*;

fn of(sql: &str) -> Result<Vec<String>, String> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().unwrap();
    let read = as_postgresql(tokens).map_err(|refused| refused.1.message().to_string())?;
    let read = read.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    Ok(read.map(|token| token.token.to_string()).collect())
}

#[test]
fn signs_belong_to_operands() {
    for (sql, wanted) in [
        ("x>-5", vec!["x", ">", "-", "5"]),
        ("x>=-5", vec!["x", ">=", "-", "5"]),
        ("x<=-5", vec!["x", "<=", "-", "5"]),
        ("k<>-1", vec!["k", "<>", "-", "1"]),
        ("k=-1", vec!["k", "=", "-", "1"]),
        ("k*-+1", vec!["k", "*", "-", "+", "1"]),
        ("j->-1", vec!["j", "->", "-", "1"]),
        ("j->>-1", vec!["j", "->>", "-", "1"]),
        ("a||-1", vec!["a", "||-", "1"]),
        ("a!=-1", vec!["a", "<>", "-", "1"]),
        ("+-1", vec!["+", "-", "1"]),
    ] {
        assert_eq!(of(sql).unwrap(), wanted, "{sql}");
    }
}

#[test]
fn constants_are_read_as_postgresql_does() {
    assert_eq!(of("'a'\n'b'\n  'c'").unwrap(), ["'abc'"]);
    assert_eq!(of("'a' -- more\n 'b'").unwrap(), ["'ab'"]);
    assert!(of("'a' 'b'").is_err());
    assert!(of("'a' /* \n */ 'b'").is_err());
    assert!(of("123abc").is_err());
    assert_eq!(of("123 abc").unwrap(), ["123", "abc"]);
}

#[test]
fn types_may_stand_in_quotes() {
    assert_eq!(of("x::\"jsonb\"").unwrap(), ["x", "::", "jsonb"]);
    assert_eq!(of("x::\"pg_catalog\".\"int4\"").unwrap(), ["x", "::", "pg_catalog", ".", "int4"]);
    assert_eq!(of("x AS \"a\"").unwrap(), ["x", "AS", "\"a\""]);
    assert_eq!(of("\"text\" + \"jsonb\"").unwrap(), ["\"text\"", "+", "\"jsonb\""]);
}
