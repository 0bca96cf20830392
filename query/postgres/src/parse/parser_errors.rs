//! Errors of the parser in PostgreSQL's words.

use datafusion::sql::sqlparser::parser::ParserError;
use stratalog_model::Error;

use super::depth::too_complex;
use crate::errors::syntax::syntax_error;

/// The error for the client; `sql` is the SQL string.
pub(super) fn parser_error(sql: &str, error: ParserError) -> Error {
    match error {
        ParserError::RecursionLimitExceeded => too_complex("nested"),
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => {
            syntax_error(sql, &text)
        }
    }
}
