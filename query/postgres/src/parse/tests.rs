use super::{position::Beginning, *};

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
fn a_drop_says_what_it_does_where_others_have_acquired() {
    let (released, later, anyhow) = (DropMode::IfReleased, DropMode::Async, DropMode::Force);
    for (sql, dropping, text) in [
        ("drop table t", released, "DROP TABLE t"),
        ("drop chronicle if exists s.t async", later, "DROP TABLE IF EXISTS s.t"),
        ("drop table a, b cascade force", anyhow, "DROP TABLE a, b CASCADE"),
        ("drop table \"force\" async", later, "DROP TABLE \"force\""),
        ("drop table force force", anyhow, "DROP TABLE force"),
        // Table names that are also words of a mode.
        ("drop table force", released, "DROP TABLE force"),
        ("drop table if exists async", released, "DROP TABLE IF EXISTS async"),
        ("drop table s.force", released, "DROP TABLE s.force"),
        ("drop table a, async", released, "DROP TABLE a, async"),
    ] {
        let tree = statements(sql, 1 << 20).unwrap().remove(0);
        assert_eq!((tree.dropping, tree.statement.to_string().as_str()), (dropping, text), "{sql}");
    }
    for sql in ["drop schema s force", "drop table t async force", "drop table t \"force\""] {
        assert!(statements(sql, 1 << 20).is_err(), "{sql}");
    }
}

#[test]
fn positions_are_said_in_words_that_the_parser_knows() {
    let parsed = |sql: &str| statements(sql, 1 << 20).unwrap().remove(0);
    let text = |sql: &str| parsed(sql).statement.to_string();
    assert_eq!(text("trim s.t before gsn 7 + 1"), "DELETE FROM s.t WHERE _gsn < (7 + 1)");
    assert!(matches!(parsed("trim t before gsn $1").own, Some(OwnStatement::Trim)));
    assert!(parsed("delete from t where _gsn < 7").own.is_none());
    assert_eq!(text("select trim(' x ')"), "SELECT TRIM(' x ')");
    let insert = parsed("insert into t values (1, 2) after gsn 7 returning a").statement;
    let Statement::Insert(insert) = insert else { panic!("{insert}") };
    assert_eq!(position::after(&insert).unwrap().to_string(), "7");
    assert!(insert.returning.is_some());
    assert!(parsed("insert into t values (1) after gsn 7 on conflict do nothing").own.is_none());
    assert!(parsed("insert into t values (1) after gsn 7 returning conflict").own.is_none());
    assert_eq!(text("trim before before gsn 7"), "DELETE FROM before WHERE _gsn < (7)");
    assert_eq!(text("trim t before gsn (7)"), "DELETE FROM t WHERE _gsn < ((7))");
    let insert =
        parsed("with x as (select 1) insert into t select * from x after gsn $1").statement;
    assert!(insert.to_string().contains("$1"), "{insert}");
    assert!(statements("insert into t values (1) after gsn 7 where true", 1 << 20).is_err());
    assert_eq!(
        text("insert into t select a after from gsn"),
        "INSERT INTO t SELECT a AS after FROM gsn"
    );

    let subscribes = |sql: &str| match parsed(sql).own {
        Some(OwnStatement::Subscribe(beginning)) => (Some(beginning), text(sql)),
        _ => (None, text(sql)),
    };
    let of = |beginning, text: &str| (Some(beginning), text.to_string());
    assert_eq!(subscribes("subscribe t"), of(Beginning::All, "SELECT _gsn, * FROM t"));
    assert_eq!(
        subscribes("subscribe \"from\".t live where a = 1 and live"),
        of(Beginning::Live, "SELECT _gsn, * FROM \"from\".t WHERE a = 1 AND live")
    );
    assert_eq!(subscribes("subscribe t from gsn (7 + $1) where (a) > 1").0, Some(Beginning::Gsn));
    let copied = subscribes("copy (subscribe t from timestamp '2024-01-01') to stdout");
    assert_eq!(copied.0, Some(Beginning::Time));
    assert!(copied.1.contains("CAST('2024-01-01' AS TIMESTAMPTZ) FROM t) TO STDOUT"), "{copied:?}");
    let declared = subscribes("declare c cursor with hold for subscribe t live");
    assert_eq!(declared.0, Some(Beginning::Live));
    assert_eq!(subscribes("select 1 as subscribe").0, None);
    for wrong in [
        "subscribe",
        "subscribe t from 7",
        "subscribe t from gsn",
        "subscribe t limit 1",
        "subscribe t order by v where v = 1",
        "subscribe t, u",
        "trim t",
        "trim t before 7",
        "trim before gsn 7",
        // The text after the position must not extend the condition.
        "trim t before gsn 7) or (true",
        "trim t before gsn 7)",
        "trim t before gsn )",
        "trim t before gsn 7 or (true",
        "trim t as u before gsn 7",
        "trim t where true or (v) before gsn 7",
        "subscribe t from gsn 7) or (true",
        "subscribe t from gsn 7), (8",
        "subscribe t where (v = 1) or (true))",
        "copy (subscribe t from gsn 7) or (true) to stdout",
        "insert into t values (1) after gsn 7) or (8",
        "insert into t select 1 from u join w after gsn 7 on true",
    ] {
        let error = statements(wrong, 1 << 20).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SyntaxError, "{wrong}");
    }
}

#[test]
fn explain_and_prepare_take_no_statement_of_ours() {
    for (sql, message, position) in [
        ("explain subscribe t live", "EXPLAIN of SUBSCRIBE is not supported", 9),
        ("explain analyze verbose trim t before gsn 7", "EXPLAIN of TRIM is not supported", 25),
        ("explain (analyze, verbose on) subscribe t", "EXPLAIN of SUBSCRIBE is not supported", 31),
        ("select 1; prepare p as subscribe t", "PREPARE of SUBSCRIBE is not supported", 24),
        (
            "prepare \"as\" (bigint, text[]) as subscribe t from gsn $1",
            "PREPARE of SUBSCRIBE is not supported",
            34,
        ),
        ("prepare p as acquire chronicle t", "PREPARE of ACQUIRE is not supported", 14),
        ("prepare p as release table t", "PREPARE of RELEASE is not supported", 14),
        ("prepare as as trim t before gsn $1", "PREPARE of TRIM is not supported", 15),
    ] {
        let error = statements(sql, 1 << 20).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FeatureNotSupported, "{sql}");
        assert_eq!((error.message(), error.position()), (message, Some(position)), "{sql}");
        assert!(error.hint().is_some(), "{sql}");
    }
    for sql in [
        "prepare subscribe as select 1 from acquire",
        "explain select subscribe, trim(' x ') from acquire",
        "prepare p as insert into t values (1) after gsn 7",
    ] {
        assert!(statements(sql, 1 << 20).is_ok(), "{sql}");
    }
}

#[test]
fn words_of_postgresql_that_the_parser_lacks_are_understood() {
    let parsed = |sql: &str| statements(sql, 1 << 20).unwrap().remove(0).statement.to_string();
    for sql in ["abort", "ABORT WORK", "abort transaction"] {
        assert_eq!(parsed(sql), "ROLLBACK", "{sql}");
    }
    let several = statements("begin not deferrable; select deferrable", 1 << 20).unwrap();
    let several: Vec<String> = several.iter().map(|parsed| parsed.statement.to_string()).collect();
    assert_eq!(several, ["BEGIN", "SELECT deferrable"]);
    let product = "COPY (SELECT force_quote * 2 FROM t) TO STDOUT";
    assert_eq!(parsed(product), product);

    let error = statements("select 1; create unlogged table u (a int)", 1 << 20).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FeatureNotSupported);
    assert!(error.message().contains("unlogged"), "{error}");
    assert_eq!(error.position(), Some(18));
    assert!(statements("create table unlogged (a int)", 1 << 20).is_ok());
}

/// The error for a statement. A failed test shows only the beginning of a long statement.
fn refused(sql: &str) -> Error {
    match statements(sql, 1 << 20) {
        Err(error) => error,
        Ok(_) => panic!("{} … is accepted", sql.chars().take(60).collect::<String>()),
    }
}

#[test]
fn too_much_is_an_error() {
    // Redundant parentheses.
    for depth in [300, 5_000] {
        let redundant = format!("select {}1{}", "(".repeat(depth), ")".repeat(depth));
        assert!(statements(&redundant, 1 << 20).is_ok(), "{depth}");
    }
    for depth in [251, 300, 5_000] {
        let nested = format!("select {}1{}", "(1+".repeat(depth), ")".repeat(depth));
        assert_eq!(refused(&nested).kind(), ErrorKind::StatementTooComplex, "{depth}");
    }
    // Without the limit, the parser would try every level twice before it fails.
    for (open, close) in [("array[", "]"), ("cast(", " as int)"), ("a[", "]"), ("f(", ")")] {
        for depth in [126, 200, 1000] {
            let nested = format!("select {}1{}", open.repeat(depth), close.repeat(depth));
            let refused = refused(&nested);
            assert_eq!(refused.kind(), ErrorKind::StatementTooComplex, "{depth} of {open}");
        }
    }
    let inner = format!("({}1)", "1+".repeat(100));
    for chained in [
        format!("select 1{}", "+1".repeat(251)),
        format!("select {}1", "- + ".repeat(126)),
        format!("select {inner}+{inner}+{inner}"),
        format!("select 1{}", " or x".repeat(3_001)),
        format!("select x{}", "::int".repeat(251)),
        format!("select 1{}", " union select 1".repeat(601)),
        format!("select {}x{}", "not (".repeat(251), ")".repeat(251)),
        format!("select 1{}", " except select 1".repeat(601)),
        format!("select 1{}", " intersect select 1".repeat(301)),
        format!("select 1{}", " union select 1 except select 1".repeat(126)),
        format!("select 1{}", "+ case when 1 = 1 then 1 end".repeat(251)),
        format!("select {}1{}", "case when true then ".repeat(1_001), " end".repeat(1_001)),
    ] {
        assert_eq!(refused(&chained).kind(), ErrorKind::StatementTooComplex);
    }
    for chained in [
        format!("select 1{}", " or x".repeat(1_500)),
        format!("select 1{}", " union all select 1".repeat(300)),
        format!("select 1{}", " except select 1".repeat(600)),
        format!("select 1{}", " intersect all select 1".repeat(300)),
        format!("select {}x", "not ".repeat(5_000)),
        format!("select {}x", "- ".repeat(5_000)),
        format!("select {}1{}", "(1+".repeat(60), ")".repeat(60)),
    ] {
        assert!(statements(&chained, 1 << 20).is_ok());
    }
    let wide = format!("select {}1", "a + b, f(a, b * 2), ".repeat(2_000));
    assert!(statements(&wide, 1 << 20).is_ok());
    let pairs = format!("select 1 where {}true", "(a = 1 and b + 1 > 2) or ".repeat(300));
    assert!(statements(&pairs, 1 << 20).is_ok());
    assert_eq!(statements("select 1", 3).unwrap_err().kind(), ErrorKind::LimitExceeded);
    let arms = format!("select case {}end", "when a = 1 or b = 2 then a + b ".repeat(2_000));
    assert!(statements(&arms, 1 << 20).is_ok());
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

#[test]
fn options_of_a_copy_are_read_in_both_forms() {
    let options = |sql: &str| -> String {
        let tree = statements(sql, 1 << 20).unwrap().remove(0);
        let statement = tree.statement.to_string();
        assert!(!statement.to_uppercase().contains("FORMAT"), "{statement}");
        let shown = |(name, value): &(String, CopyOptionValue)| match value {
            CopyOptionValue::Absent => name.clone(),
            CopyOptionValue::Text(text) => format!("{name}={text}"),
            CopyOptionValue::Columns(columns) => format!("{name}={columns:?}"),
        };
        tree.copy_options.iter().map(shown).collect::<Vec<_>>().join(" ")
    };
    for (sql, expected) in [
        ("COPY t FROM STDIN", ""),
        ("COPY t FROM STDIN WITH", ""),
        (
            "copy t to stdout (Format CSV, force_quote *, header)",
            "format=csv force_quote=All header",
        ),
        (
            "COPY t (a, \"from\") FROM STDIN WITH (FORCE_NULL (a, \"B\"), HEADER match, NULL 'x', ENCODING utf8)",
            "force_null=Named([\"a\", \"B\"]) header=match null=x encoding=utf8",
        ),
        ("COPY (SELECT 1 FROM t) TO STDOUT CSV FORCE QUOTE *", "format=csv force_quote=All"),
        (
            "COPY t FROM STDIN CSV HEADER DELIMITER AS ';' NULL 'n' FORCE NOT NULL a, b FORCE NULL c",
            "format=csv header delimiter=; null=n force_not_null=Named([\"a\", \"b\"]) force_null=Named([\"c\"])",
        ),
        ("COPY t FROM STDIN USING DELIMITERS '|' WITH BINARY", "delimiter=| format=binary"),
        (
            "COPY t FROM STDIN (ON_ERROR ignore, HEADER 1, X -1.5)",
            "on_error=ignore header=1 x=-1.5",
        ),
        ("COPY t FROM PROGRAM 'cat' CSV", "format=csv"),
    ] {
        assert_eq!(options(sql), expected, "{sql}");
    }
    for (sql, position) in [
        ("COPY t FROM STDIN (FORMAT csv", Some(30)),
        ("COPY t FROM STDIN (FORMAT csv,)", Some(31)),
        ("COPY t FROM STDIN ()", Some(20)),
        ("COPY t FROM STDIN CSV FORCE a", Some(29)),
        ("COPY t FROM STDIN DELIMITER; SELECT 1", Some(28)),
        ("COPY t FROM STDIN CSV nosuch", Some(23)),
    ] {
        let error = statements(sql, 1 << 20).unwrap_err();
        assert_eq!((error.kind(), error.position()), (ErrorKind::SyntaxError, position), "{sql}");
    }
}

#[test]
fn a_statement_that_ends_too_early_is_told_where() {
    for (sql, message, position) in [
        ("SELECT 1 +", "syntax error at end of input", 11),
        ("SELECT 1 + ", "syntax error at end of input", 12),
        ("SELECT 1 +;", "syntax error at or near \";\"", 11),
        ("SELECT 1; SELECT é + ; SELECT 2", "syntax error at or near \";\"", 22),
    ] {
        let error = statements(sql, 1 << 20).unwrap_err();
        assert_eq!((error.message(), error.position()), (message, Some(position)), "{sql}");
    }
}
