//! The `\` commands of the shell.

use std::io::BufReader;

use super::{NextAction, Shell, say};
use crate::{import::quote, sql::output::Format};

/// The text of `\?`.
pub const HELP: &str = r"\? or \help        this list
\h                 SQL statements, each with an example
\l                 databases
\dn                schemas
\dt [PATTERN]      tables; * stands for any characters
\d TABLE           columns, key, options and number of rows of a table
\x                 one line per value, on or off
\timing            time of each statement, on or off
\format [FORMAT]   format of results: table, csv, json, ndjson, parquet
\o [FILE]          results into FILE; without FILE, back to the terminal
\i FILE            run the statements of FILE
\q                 quit; Ctrl-D does too
A statement ends with a semicolon. Ctrl-C cancels a running statement.";

/// The text of `\h`.
const STATEMENTS: &str = r"CREATE TABLE cpu (
  time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, usage DOUBLE PRECISION,
  PRIMARY KEY (host, time)
) WITH (granularity = '1ns', collision = 'last');
ALTER TABLE cpu ADD COLUMN region TEXT;
INSERT INTO cpu VALUES (now(), 'host_1', 12.5) ON CONFLICT DO NOTHING;
COPY cpu FROM STDIN (FORMAT csv, HEADER);
SELECT time_bucket(INTERVAL '1 hour', time) AS hour, host, max(usage)
  FROM cpu WHERE time >= now() - INTERVAL '1 day' GROUP BY 1, 2 ORDER BY 1, 2;
SELECT DISTINCT ON (host) * FROM cpu ORDER BY host, time DESC;
EXPLAIN ANALYZE SELECT count(*) FROM cpu;
DELETE FROM cpu WHERE time < TIMESTAMPTZ '2026-01-01';
DROP TABLE cpu;";

const DATABASES: &str =
    r#"SELECT datname AS "Database" FROM pg_catalog.pg_database ORDER BY datname"#;

const SCHEMAS: &str = r#"SELECT nspname AS "Schema" FROM pg_catalog.pg_namespace
WHERE nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') ORDER BY nspname"#;

impl Shell {
    /// Runs a line that begins with a backslash.
    pub(super) fn command(&mut self, line: &str) -> NextAction {
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let argument = rest.trim().trim_end_matches(';').trim_end();
        match (name, argument) {
            ("\\q" | "\\quit", _) => return NextAction::Stop,
            ("\\?" | "\\help", _) => say(HELP),
            ("\\h", _) => say(STATEMENTS),
            ("\\l", _) => return self.ask(DATABASES),
            ("\\dn", _) => return self.ask(SCHEMAS),
            ("\\dt" | "\\d", "") => return self.ask(&tables("*")),
            ("\\dt", pattern) => return self.ask(&tables(pattern)),
            ("\\d", table) => return self.describe_table(table),
            ("\\x", _) => {
                let expanded = switch(argument, self.options.table.expanded);
                self.options.table.expanded = expanded;
                say(&format!("Expanded display is {}.", on_off(expanded)));
            }
            ("\\timing", _) => {
                self.timing = switch(argument, self.timing);
                say(&format!("Timing is {}.", on_off(self.timing)));
            }
            ("\\format", "") => say(format_name(self.options.format)),
            ("\\format", form) => match form.parse::<Format>() {
                Ok(format) => {
                    let file = self.options.file.clone();
                    self.options.format = format;
                    return self.redirect(file);
                }
                Err(error) => return self.complain(&error),
            },
            ("\\o", "") => return self.redirect(None),
            ("\\o", path) => return self.redirect(Some(path.into())),
            ("\\i", path) if !path.is_empty() => return self.include(path),
            _ => return self.complain(&format!("{line} is not a command; \\? lists the commands")),
        }
        NextAction::More
    }

    fn ask(&mut self, sql: &str) -> NextAction {
        self.statement(sql, &mut std::io::empty())
    }

    fn complain(&mut self, message: &str) -> NextAction {
        eprintln!("{message}");
        self.failed = true;
        if self.interactive { NextAction::More } else { NextAction::Stop }
    }

    fn redirect(&mut self, file: Option<std::path::PathBuf>) -> NextAction {
        match self.set_output_file(file, self.options.format) {
            Ok(()) => NextAction::More,
            Err(error) => self.complain(&error.to_string()),
        }
    }

    fn include(&mut self, path: &str) -> NextAction {
        let interactive = std::mem::replace(&mut self.interactive, false);
        let result =
            std::fs::File::open(path).and_then(|file| self.script(&mut BufReader::new(file)));
        self.interactive = interactive;
        match result {
            Ok(NextAction::More) => NextAction::More,
            // An error in the file ends the file, but not an interactive shell.
            Ok(NextAction::Stop) if self.interactive => NextAction::More,
            Ok(NextAction::Stop) => NextAction::Stop,
            Err(error) => self.complain(&format!("cannot read {path}: {error}")),
        }
    }

    fn describe_table(&mut self, table: &str) -> NextAction {
        let (schema, name) = table.split_once('.').unwrap_or(("public", table));
        let (schema, name) = (folded(schema), folded(name));
        let probe = format!("SELECT * FROM {}.{} LIMIT 0", quote(&schema), quote(&name));
        let known = self.runtime.block_on(self.connection.describe(&probe));
        if let Err(error) = known {
            return self.complain(&error.render(""));
        }
        let (schema, name) = (literal(&schema), literal(&name));
        let columns = self.ask(&format!(
            r#"SELECT a.attname AS "Column", pg_catalog.format_type(a.atttypid, a.atttypmod) AS "Type",
CASE WHEN a.attnotnull THEN 'not null' ELSE '' END AS "Null",
coalesce(pg_catalog.pg_get_expr(d.adbin, d.adrelid), '') AS "Default"
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE n.nspname = {schema} AND c.relname = {name} AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum"#
        ));
        // The properties of the chronicle are only for people: other formats omit them.
        if columns == NextAction::Stop || self.options.format != Format::Table {
            return columns;
        }
        self.ask(&format!(
            r#"SELECT array_to_string(key_columns, ', ') AS "Key", tick_column AS "Tick",
native_granularity AS "Granularity", granularity AS "Index", collision AS "Collision",
time_source AS "Time from", durability AS "Durability",
rows AS "Rows" FROM stratalog.chronicles WHERE schema = {schema} AND name = {name}"#
        ))
    }
}

fn tables(pattern: &str) -> String {
    let (schema, name) = match pattern.split_once('.') {
        Some((schema, name)) => (Some(schema), name),
        None => (None, pattern),
    };
    let like = |text: &str| {
        let escaped = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
        literal(&escaped.replace('*', "%").replace('?', "_"))
    };
    let schema = schema.map(|schema| format!(" AND n.nspname LIKE {}", like(schema)));
    format!(
        r#"SELECT n.nspname AS "Schema", c.relname AS "Table"
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
AND c.relname LIKE {}{} ORDER BY 1, 2"#,
        like(name),
        schema.unwrap_or_default()
    )
}

/// A name as SQL reads it: in lower case unless quoted.
fn folded(name: &str) -> String {
    match name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => name.to_lowercase(),
    }
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn switch(argument: &str, now: bool) -> bool {
    match argument {
        "on" => true,
        "off" => false,
        _ => !now,
    }
}

fn on_off(value: bool) -> &'static str {
    if value { "on" } else { "off" }
}

fn format_name(format: Format) -> &'static str {
    match format {
        Format::Table => "table",
        Format::Csv => "csv",
        Format::Json => "json",
        Format::Ndjson => "ndjson",
        Format::Parquet => "parquet",
    }
}
