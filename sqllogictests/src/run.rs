//! Runs the records (statements and queries) of a test file.

use std::{fmt, path::Path};

use sqllogictest::{Record, Runner, parse_file};

use crate::{Connection, Failure, Letter, Mode, letter::letters_match};

/// The results of the records of one or more files.
#[derive(Debug, Default)]
pub struct Report {
    /// Number of files that ran.
    pub files: usize,
    /// Number of statements and queries with the expected result.
    pub passed: usize,
    /// Number of statements and queries skipped by a condition or a skip list.
    pub skipped: usize,
    /// The differences from the expected results, each with its file, line and SQL.
    pub failures: Vec<String>,
}

impl Report {
    /// Adds another report's counts and failures.
    pub fn absorb(&mut self, other: Report) {
        self.files += other.files;
        self.passed += other.passed;
        self.skipped += other.skipped;
        self.failures.extend(other.failures);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} files, {} records passed, {} skipped, {} failed",
            self.files,
            self.passed,
            self.skipped,
            self.failures.len()
        )
    }
}

/// Runs a file in a mode, with a new database directory. The run continues after a failed record,
/// because the later records give further information.
///
/// # Errors
/// If the file cannot be read or the database does not open or close.
pub async fn run_file(path: &Path, mode: Mode) -> Result<Report, Failure> {
    let records: Vec<Record<Letter>> = parse_file(path)
        .map_err(|error| Failure::of_harness(format!("{}: {error}", path.display())))?;
    let directory =
        tempfile::tempdir().map_err(|error| Failure::of_harness(format!("tempdir: {error}")))?;
    let database = mode.open(&directory.path().join("data")).await?;
    let mut report = run_records(records, mode, || database.connect()).await;
    if let Some(seed) = mode.seed() {
        for failure in &mut report.failures {
            failure.push_str(&format!("\nto see it again: seed={seed}"));
        }
    }
    database.close().await?;
    Ok(report)
}

/// Runs records over connections that `connect` opens.
async fn run_records<F>(
    records: Vec<Record<Letter>>,
    mode: Mode,
    connect: impl FnMut() -> F,
) -> Report
where
    F: Future<Output = Result<Connection, Failure>>,
{
    let mut report = Report { files: 1, ..Report::default() };
    let label = mode.label();
    let mut runner = Runner::new(connect);
    runner.add_label(label);
    if label != mode.tier() {
        runner.add_label(mode.tier());
    }
    runner.with_column_validator(letters_match);
    for record in records {
        if matches!(record, Record::Halt { .. }) {
            break;
        }
        let counted = matches!(record, Record::Statement { .. } | Record::Query { .. });
        match runner.run_async(record).await {
            Ok(sqllogictest::RecordOutput::Nothing) if counted => report.skipped += 1,
            Ok(_) if counted => report.passed += 1,
            Ok(_) => {}
            Err(error) => report.failures.push(format!("{label}: {}", error.display(false))),
        }
    }
    runner.shutdown_async().await;
    report
}
