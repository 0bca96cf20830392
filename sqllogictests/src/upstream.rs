//! Runs DataFusion's own `.slt` test files through Stratalog's sessions.
//!
//! DataFusion's own tests cover the computations. This module checks that Stratalog's sessions,
//! types, catalog and rewrites do not change the results. The files come from the crate
//! `datafusion-sqllogictest`: `upstream/Cargo.toml` names the crate and cargo fetches it.
//! `upstream/list.txt` lists the files to run, and the skipped records with their reasons.

pub mod list;
pub mod locate;
pub mod render;
pub mod rewrite;
pub mod session;

use std::path::Path;

use sqllogictest::{
    ExpectedError, Location, Normalizer, QueryExpect, Record, Runner, StatementExpect,
    default_validator, parse_file,
};

use self::{list::List, session::UpstreamSession};
use crate::{Failure, Letter, Report, mode::in_process};

/// Runs every listed file for whose path `wanted` returns true.
///
/// # Errors
/// If the files cannot be found or the list cannot be read.
pub async fn run(wanted: impl Fn(&Path) -> bool) -> Result<Report, Failure> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("upstream");
    let list = List::read(&folder.join("list.txt"))?;
    let files = locate::test_files(&folder)?;
    let mut total = Report::default();
    for name in list.files().filter(|name| wanted(Path::new(name))) {
        match run_file(&files.join(name), name, &list).await {
            Ok(report) => total.absorb(report),
            Err(failure) => total.failures.push(format!("upstream {name}: {failure}")),
        }
    }
    total.failures.extend(list.unused(&wanted));
    Ok(total)
}

async fn run_file(path: &Path, name: &str, list: &List) -> Result<Report, Failure> {
    let records: Vec<Record<Letter>> =
        parse_file(path).map_err(|error| Failure::of_harness(error.to_string()))?;
    let directory =
        tempfile::tempdir().map_err(|error| Failure::of_harness(format!("tempdir: {error}")))?;
    let instance = in_process::InProcessInstance::open(&directory.path().join("data")).await?;
    let mut report = Report { files: 1, ..Report::default() };
    let mut runner = Runner::new(async || instance.connect().map(UpstreamSession::new));
    runner.with_normalizer(|value| without_utc(value.trim_end()));
    // Names of tables and views that do not exist, because their CREATE statements were skipped.
    let mut absent: Vec<String> = Vec::new();
    for record in records {
        let record = insert_as_statement(any_error(record));
        let (line, sql) = match &record {
            Record::Halt { .. } => break,
            Record::Statement { loc, sql, .. } | Record::Query { loc, sql, .. } => {
                (line_of(loc), sql.clone())
            }
            _ => {
                let _ = runner.run_async(record).await;
                continue;
            }
        };
        if list.skips(name, line, &sql) || absent.iter().any(|name| rewrite::mentions(&sql, name)) {
            absent.extend(rewrite::left_out_name(&sql).map(str::to_string));
            report.skipped += 1;
            continue;
        }
        runner.with_validator(if orders_rows(&sql) { default_validator } else { in_any_order });
        match runner.run_async(record).await {
            Ok(sqllogictest::RecordOutput::Nothing) => report.skipped += 1,
            Ok(_) => report.passed += 1,
            Err(error) => {
                report.failures.push(format!("upstream {name}:{line}: {}", error.display(false)));
            }
        }
    }
    drop(runner);
    instance.close().await?;
    Ok(report)
}

/// Accepts any error where DataFusion's message is expected, because Stratalog's messages follow
/// PostgreSQL.
fn any_error(mut record: Record<Letter>) -> Record<Letter> {
    match &mut record {
        Record::Statement { expected: StatementExpect::Error(error), .. }
        | Record::Query { expected: QueryExpect::Error(error), .. } => {
            *error = ExpectedError::Empty
        }
        _ => {}
    }
    record
}

/// Removes the `Z` of UTC from times: a timestamp in DataFusion is often a timestamptz in
/// Stratalog, and the comparison concerns only the instant.
fn without_utc(row: &str) -> String {
    let cut = |word: &str| match word.strip_suffix('Z') {
        Some(time) if time.contains('T') && time.contains(':') => time.to_string(),
        _ => word.to_string(),
    };
    row.split(' ').map(cut).collect::<Vec<_>>().join(" ")
}

/// Changes the expected result of an INSERT: Stratalog returns a command tag, DataFusion returns a
/// row with the count.
fn insert_as_statement(record: Record<Letter>) -> Record<Letter> {
    match record {
        Record::Query {
            loc,
            conditions,
            connection,
            sql,
            expected: QueryExpect::Results { .. },
            retry,
        } if sql.trim_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case("insert")) => {
            let expected = StatementExpect::Ok;
            Record::Statement { loc, conditions, connection, sql, expected, retry }
        }
        other => other,
    }
}

/// True if the outer query orders its rows. Some files omit `rowsort` although their query has no
/// order.
fn orders_rows(sql: &str) -> bool {
    let end = sql.rfind(')').unwrap_or(0);
    sql.get(end..).is_some_and(|end| end.to_ascii_lowercase().contains("order by"))
}

/// Compares the rows as multisets, in any order.
fn in_any_order(normalizer: Normalizer, actual: &[Vec<String>], expected: &[String]) -> bool {
    if default_validator(normalizer, actual, expected) {
        return true;
    }
    let mut actual: Vec<String> = actual.iter().map(|row| normalizer(&row.join(" "))).collect();
    let mut expected: Vec<String> = expected.iter().map(normalizer).collect();
    actual.sort_unstable();
    expected.sort_unstable();
    actual == expected
}

fn line_of(location: &Location) -> u32 {
    location.line()
}
