//! Rows that COPY … FROM skips because of `ON_ERROR ignore`.

/// The maximum number of messages about skipped rows.
const MESSAGES_MAX: usize = 1_000;

/// Counts the rows that COPY skips because of invalid values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkippedRows {
    /// The number of skipped rows.
    pub rows: u64,
    /// The messages about the first thousand skipped rows, for `LOG_VERBOSITY verbose`.
    pub messages: Vec<String>,
}

impl SkippedRows {
    pub(super) fn add(&mut self, verbose: bool, line: u64, column: &str, value: &str) {
        self.rows += 1;
        if verbose && self.messages.len() < MESSAGES_MAX {
            self.messages.push(format!(
                "skipping row due to data type incompatibility at line {line} for column \"{column}\": \"{value}\""
            ));
        }
    }

    /// The message at the end of the COPY; `None` if no row was skipped.
    pub fn summary(&self) -> Option<String> {
        match self.rows {
            0 => None,
            1 => Some("1 row was skipped due to data type incompatibility".to_string()),
            rows => Some(format!("{rows} rows were skipped due to data type incompatibility")),
        }
    }
}
