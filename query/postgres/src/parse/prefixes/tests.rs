use datafusion::sql::sqlparser::{dialect::PostgreSqlDialect, tokenizer::Tokenizer};

use super::*;
use crate::parse;

fn of(sql: &str) -> String {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().unwrap();
    let tokens = without_long_runs(tokens).into_iter();
    let tokens = tokens.filter(|token| !matches!(token.token, Token::Whitespace(_)));
    tokens.map(|token| token.token.to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn long_runs_keep_their_parity() {
    for length in [9, 300, 1_001] {
        for operator in ["NOT", "-", "~"] {
            let wanted = match length % 2 {
                0 => format!("1 {operator} {operator} {operator} {operator} x"),
                _ => format!("1 {operator} {operator} {operator} x"),
            };
            let run = format!("{operator} ").repeat(length);
            assert_eq!(of(&format!("1 {run}x")), wanted);
        }
    }
}

#[test]
fn short_and_mixed_runs_stay() {
    for run in ["NOT ".repeat(8), "- + ".repeat(20), "NOT ( ".repeat(20)] {
        let sql = format!("1 {run}x");
        assert_eq!(of(&sql), sql);
    }
}

#[test]
fn signs_are_apart_in_texts() {
    for (sql, wanted) in [
        ("- - x", "-(-x)"),
        ("~ - + x", "~(-(+x))"),
        ("1 - - 2", "1 - -2"),
        ("NOT NOT x", "NOT NOT x"),
    ] {
        assert_eq!(parse::expression(sql).unwrap().to_string(), wanted);
    }
}
