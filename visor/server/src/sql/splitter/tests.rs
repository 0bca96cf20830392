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

#[test]
fn text_comes_in_pieces_of_any_length() {
    let text = "select 'a''b;\n'; select E'\\\n;\\'' -- ;'\n, $1, $x$ ; $x \n$x$ /* ; \n/* */ ' */; /* c\n */\nselect \
                \"é;\n\", é$1$; select 1 - - 1;\n-- the end ;";
    let whole = all(text);
    assert_eq!(whole.len(), 4, "{whole:?}");
    assert!(whole.iter().all(|statement| statement.starts_with("select")), "{whole:?}");
    let characters: Vec<char> = text.chars().collect();
    for length in 1..characters.len() {
        let mut splitter = Splitter::default();
        let mut statements = Vec::new();
        for piece in characters.chunks(length) {
            statements.extend(splitter.push(&piece.iter().collect::<String>()));
        }
        statements.extend(splitter.finish());
        assert_eq!(statements, whole, "in pieces of {length}");
    }
}

#[test]
fn each_line_of_a_long_statement_is_scanned_once() {
    let mut splitter = Splitter::default();
    let start = std::time::Instant::now();
    splitter.push("INSERT INTO t VALUES\n");
    for _ in 0..200_000 {
        assert!(splitter.push("('2024-01-01', 'abcdefgh', 1),\n").is_empty());
    }
    assert_eq!(splitter.push("('2024-01-01', 'abcdefgh', 1);\n").len(), 1);
    // A scan of all text again at each line would take hours.
    assert!(start.elapsed().as_secs() < 60);
}
