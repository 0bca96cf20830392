use datafusion::sql::sqlparser::{dialect::PostgreSqlDialect, tokenizer::Tokenizer};

use super::*;

fn of(sql: &str) -> Result<usize> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().unwrap();
    check(&tokens)
}

#[test]
fn chains_that_become_balanced_trees_are_long() {
    assert_eq!(of(&vec!["x = 1"; 2_000].join(" OR ")).unwrap(), 1_999);
    for link in [" UNION ", " UNION ALL ", " EXCEPT ", " EXCEPT ALL "] {
        assert_eq!(of(&vec!["SELECT x IS NULL"; 500].join(link)).unwrap(), 499);
    }
    assert_eq!(of(&vec!["SELECT 1"; 300].join(" INTERSECT ")).unwrap(), 299);
    let chains = format!("SELECT 1{}", " EXCEPT SELECT 1".repeat(150)).repeat(2);
    assert!(of(&chains.replacen("1SELECT", "1 UNION SELECT", 1)).is_err());
    assert!(of(&vec!["x"; 100_000].join(" AND ")).is_err());
    assert!(of(&vec!["SELECT 1"; 100_000].join(" UNION ")).is_err());
}

#[test]
fn chains_that_stay_chains_are_short() {
    for link in [
        " + ",
        " - ",
        " :: ",
        " JOIN ",
        " EXCEPT ",
        " IS NULL IS ",
        " IN (1) IN ",
        " COLLATE ",
        " UNION SELECT 1 UNION ALL ",
    ] {
        assert!(of(&vec!["1"; 100].join(link)).is_ok(), "{link}");
        assert!(of(&vec!["1"; 5_000].join(link)).is_err(), "{link}");
    }
    for open in ["(", "NOT ", "- ", "[", "CASE WHEN ", "abs(", "(SELECT ", "x[1]"] {
        assert!(of(&open.repeat(10)).is_ok(), "{open}");
        assert!(of(&open.repeat(100_000)).is_err(), "{open}");
    }
}
