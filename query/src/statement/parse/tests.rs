use super::*;

fn texts(sql: &str) -> Vec<String> {
    statements(sql, 1 << 20).unwrap().into_iter().map(|tree| tree.text).collect()
}

#[test]
fn a_string_is_split_at_its_own_semicolons() {
    assert_eq!(
        texts("select 1; select ';' as a ;\n-- comment ; only\n select $$;$$;;"),
        ["select 1", "select ';' as a", "select $$;$$"]
    );
    assert!(texts("").is_empty());
    assert!(texts(" ; -- ping").is_empty());
    assert_eq!(texts("select 'é', \"ü\" ; select 2"), ["select 'é', \"ü\"", "select 2"]);
}

#[test]
fn a_syntax_error_has_its_place() {
    let error = statements("select 1;\nselec 2", 1 << 20).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SyntaxError);
    assert_eq!(error.message(), "syntax error at or near \"selec\"");
    assert_eq!(error.position(), Some(11));
    let error = statements("select (1", 1 << 20).unwrap_err();
    assert_eq!(error.message(), "syntax error at end of input");
    let error = statements("select 1 from t where a = 1 limit 1 2", 1 << 20).unwrap_err();
    assert_eq!(error.message(), "syntax error at or near \"2\"");
}

#[test]
fn chronicle_is_table_where_a_kind_of_object_stands() {
    for sql in [
        "create chronicle if not exists c (time timestamptz)",
        "drop chronicle c",
        "alter chronicle c rename to d",
        "comment on chronicle c is 'x'",
    ] {
        assert!(statements(sql, 1 << 20).is_ok(), "{sql}");
    }
    let tree = statements("select chronicle from chronicle", 1 << 20).unwrap().remove(0);
    assert_eq!(tree.statement.to_string(), "SELECT chronicle FROM chronicle");
    let tree = statements("create table chronicle (chronicle text)", 1 << 20).unwrap().remove(0);
    assert_eq!(tree.statement.to_string(), "CREATE TABLE chronicle (chronicle TEXT)");
}

#[test]
fn words_of_postgresql_that_the_parser_lacks_are_understood() {
    let parsed = |sql: &str| statements(sql, 1 << 20).unwrap().remove(0).statement.to_string();
    for sql in ["abort", "ABORT WORK", "abort transaction"] {
        assert_eq!(parsed(sql), "ROLLBACK", "{sql}");
    }
    assert_eq!(
        parsed("copy t to stdout (format csv, force_quote *, header)"),
        "COPY t TO STDOUT (FORMAT csv, FORCE_QUOTE (*), HEADER)"
    );
    assert_eq!(
        parsed("copy t from stdin (format csv, force_null * , force_not_null *)"),
        "COPY t FROM STDIN (FORMAT csv, FORCE_NULL (*), FORCE_NOT_NULL (*))"
    );
    assert_eq!(parsed("copy t to stdout csv force quote *"), "COPY t TO STDOUT CSV FORCE QUOTE *");
    let product = "COPY (SELECT force_quote * 2 FROM t) TO STDOUT";
    assert_eq!(parsed(product), product);

    let error = statements("select 1; create unlogged table u (a int)", 1 << 20).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FeatureNotSupported);
    assert!(error.message().contains("unlogged"), "{error}");
    assert_eq!(error.position(), Some(18));
    assert!(statements("create table unlogged (a int)", 1 << 20).is_ok());
}

#[test]
fn too_much_is_an_error() {
    let nested = format!("select {}1{}", "(".repeat(5000), ")".repeat(5000));
    assert_eq!(statements(&nested, 1 << 20).unwrap_err().kind(), ErrorKind::StatementTooComplex);
    let shallow = format!("select {}1{}", "(".repeat(300), ")".repeat(300));
    assert_eq!(statements(&shallow, 1 << 20).unwrap_err().kind(), ErrorKind::StatementTooComplex);
    let inner = format!("({}1)", "1+".repeat(100));
    for chained in [
        format!("select 1{}", "+1".repeat(251)),
        format!("select {}1", "- ".repeat(251)),
        format!("select {inner}+{inner}+{inner}"),
        format!("select 1{}", " or x".repeat(1_001)),
        format!("select x{}", "::int".repeat(251)),
        format!("select 1{}", " union select 1".repeat(1_001)),
        format!("select {}x", "not ".repeat(1_001)),
    ] {
        let error = statements(&chained, 1 << 20).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StatementTooComplex);
    }
    let wide = format!("select {}1", "a + b, f(a, b * 2), ".repeat(2_000));
    assert!(statements(&wide, 1 << 20).is_ok());
    let pairs = format!("select 1 where {}true", "(a = 1 and b + 1 > 2) or ".repeat(300));
    assert!(statements(&pairs, 1 << 20).is_ok());
    assert_eq!(statements("select 1", 3).unwrap_err().kind(), ErrorKind::LimitExceeded);
    let values = format!("insert into t values {}(1,2)", "(1,2),".repeat(10_000));
    assert!(statements(&values, 1 << 20).is_ok());
}

#[test]
fn system_columns_are_noticed() {
    let tree = statements("select t._tick, \"_gsn\" from t", 1 << 20).unwrap().remove(0);
    assert_eq!(tree.system_columns, [0, 2]);
    let tree = statements("select '_tick' from t", 1 << 20).unwrap().remove(0);
    assert!(tree.system_columns.is_empty());
}
