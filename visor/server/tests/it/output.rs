//! Output for people, at 80 columns.

use stratalog::sql::output::display_width;

use crate::support::{Bench, good, run};

/// Compares with a file beside the tests; `STRATALOG_TEST_BLESS=1` writes the file.
#[track_caller]
fn same_as(name: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/expected")
        .join(format!("{name}.txt"));
    if std::env::var_os("STRATALOG_TEST_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == expected, "{name} differs from {}:\n{text}", path.display());
    for line in text.lines() {
        assert!(display_width(line) <= 80, "{name}: longer than 80 columns: {line}");
    }
}

#[test]
fn help_fits_and_stays_what_it_is() {
    same_as("help", &good(&run(&["--help"])));
    let commands = [
        "serve", "sql", "import", "export", "check", "clock", "backup", "backups", "restore",
        "demo",
    ];
    for command in commands {
        same_as(&format!("help_{command}"), &good(&run(&[command, "--help"])));
    }
    let actions = [
        ("user", "create"),
        ("user", "alter"),
        ("user", "drop"),
        ("user", "list"),
        ("token", "create"),
        ("token", "list"),
        ("token", "revoke"),
        ("certificate", "create"),
    ];
    for (command, action) in actions {
        let shown = good(&run(&[command, action, "--help"]));
        same_as(&format!("help_{command}_{action}"), &shown);
    }
}

#[test]
fn tables_fit_and_stay_what_they_are() {
    let bench = Bench::new();
    let ask = |sql: &str, flags: &[&str]| good(&bench.sql(&[&["-c", sql], flags].concat()));
    let wide = "SELECT 1 AS one, repeat('x', 100) AS long, 'short' AS short, NULL AS nothing, -1.5 AS number";
    same_as("table_wide", &ask(wide, &[]));
    same_as("table_expanded", &ask("SELECT 1 AS one, 'a' || chr(10) || 'b' AS lines", &["-x"]));
    let many: Vec<String> = (0..30).map(|n| format!("{n} AS column_{n}")).collect();
    same_as("table_many_columns", &ask(&format!("SELECT {}", many.join(", ")), &[]));
    same_as("table_empty", &ask("SELECT 1 AS a WHERE false", &[]));
    same_as("help_backslash", &ask("\\?", &[]));
}

#[test]
fn commands_of_later_parts_do_not_exist() {
    let output = run(&["bench"]);
    assert_eq!(output.status.code(), Some(2));
}
