use super::*;

fn all(text: &str) -> Vec<String> {
    let mut splitter = Splitter::default();
    let mut statements = splitter.push(text);
    statements.extend(splitter.finish());
    statements
}

#[test]
fn semicolons_end_statements_only_outside_of_quotes_and_comments() {
    assert_eq!(all("select 1; select 2"), ["select 1", "select 2"]);
    for whole in [
        "select ';'",
        "select 'it''s; so'",
        "select E'\\';'",
        "select \"a;b\"",
        "select $$ ; $$",
        "select $f$ $$;$$ $f$",
        "select 1 /* ; /* ; */ ; */ + 1",
        "select 1 -- ; no\n + 1",
        "select a$b; $1".split("; ").next().unwrap(),
    ] {
        assert_eq!(all(&format!("{whole}; select 2;")), [whole, "select 2"], "{whole}");
    }
    assert_eq!(all(r"select 'a\'; select 2").len(), 2, "no escape without E");
    assert_eq!(all(";; ; -- nothing\n;/* */"), Vec::<String>::new());
}

#[test]
fn statements_grow_over_lines_and_the_prompt_tells_what_is_open() {
    let mut splitter = Splitter::default();
    assert_eq!(splitter.prompt_sign(), '=');
    for (line, sign) in [
        ("select 'a\n", '\''),
        ("b', \"\n", '"'),
        ("\", $x$\n", '$'),
        ("$x$ /*\n", '*'),
        ("*/ -- done\n", '-'),
    ] {
        assert!(splitter.push(line).is_empty());
        assert_eq!(splitter.prompt_sign(), sign, "{line}");
    }
    assert_eq!(splitter.push(";\n").len(), 1);
    assert!(splitter.is_empty());
}

#[test]
fn leading_words_skip_comments() {
    assert_eq!(leading_words("/* a /* b */ */ -- c\n  copy t from stdin", 2), ["COPY", "T"]);
    assert_eq!(leading_words("", 2), Vec::<String>::new());
}
