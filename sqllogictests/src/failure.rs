//! Failures of statements.

use std::fmt;

/// The error of a failed statement, displayed as `SQLSTATE: message`.
#[derive(Debug, Clone)]
pub struct Failure {
    sqlstate: String,
    message: String,
}

impl Failure {
    /// A failure of the test driver: a server that does not start, a record that takes too long.
    pub fn of_harness(message: impl Into<String>) -> Self {
        Self { sqlstate: "-----".to_string(), message: message.into() }
    }

    /// The five-character SQLSTATE; `-----` if the server did not answer.
    pub fn sqlstate(&self) -> &str {
        &self.sqlstate
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.sqlstate, self.message)
    }
}

impl std::error::Error for Failure {}

impl From<stratalog_model::Error> for Failure {
    fn from(error: stratalog_model::Error) -> Self {
        Self { sqlstate: error.kind().sqlstate().to_string(), message: error.to_string() }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(error_of_server) => Self {
                sqlstate: error_of_server.code().code().to_string(),
                message: error_of_server.message().to_string(),
            },
            None => Self::of_harness(error.to_string()),
        }
    }
}
