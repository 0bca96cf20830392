use datafusion::sql::sqlparser::{dialect::PostgreSqlDialect, tokenizer::Tokenizer};

use super::*;

fn of(sql: &str) -> String {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().unwrap();
    without_repeated(tokens).iter().map(|token| token.token.to_string()).collect()
}

#[test]
fn two_are_kept() {
    for (sql, wanted) in [
        ("(1)", "(1)"),
        ("((1))", "((1))"),
        ("(((1)))", "((1))"),
        ("f(((((1, 2)))), ((2)))", "f(((1, 2)), ((2)))"),
        ("((((1)) + 1))", "((((1)) + 1))"),
        ("((((((1))) + 1)))", "((((1)) + 1))"),
        ("(((1)", "(((1)"),
        ("1)))", "1)))"),
    ] {
        assert_eq!(of(sql), wanted, "{sql}");
    }
    let deep = format!("{}1{}", "(".repeat(50_000), ")".repeat(50_000));
    assert_eq!(of(&deep), "((1))");
}
