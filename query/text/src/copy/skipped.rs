//! Rows that COPY … FROM leaves out under `ON_ERROR ignore`.

/// Rows that are told one by one, at most.
const TOLD_MAX: usize = 1_000;

/// The rows that were left out, since a value of theirs could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped {
    /// How many.
    pub rows: u64,
    /// What is to be told of each, with `LOG_VERBOSITY verbose`: of the first thousand.
    pub told: Vec<String>,
}

impl Skipped {
    pub(super) fn add(&mut self, verbose: bool, line: u64, column: &str, value: &str) {
        self.rows += 1;
        if verbose && self.told.len() < TOLD_MAX {
            self.told.push(format!(
                "skipping row due to data type incompatibility at line {line} for column \"{column}\": \"{value}\""
            ));
        }
    }

    /// What is told at the end; `None` when no row was left out.
    pub fn summary(&self) -> Option<String> {
        match self.rows {
            0 => None,
            1 => Some("1 row was skipped due to data type incompatibility".to_string()),
            rows => Some(format!("{rows} rows were skipped due to data type incompatibility")),
        }
    }
}
