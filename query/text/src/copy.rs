//! COPY's text and CSV formats, for input and output.

mod encoding;
mod options;
mod parser;
mod record;
mod skipped_rows;
mod writer;

pub use self::{
    encoding::CopyEncoding,
    options::{
        ColumnSelection, CopyDirection, CopyFormat, CopyHeader, CopyOptionValue, CopyOptions,
    },
    parser::{CopyLimits, CopyParser},
    skipped_rows::SkippedRows,
    writer::{CopyRows, CopyWriter},
};

/// The HINT text of the error for a quote that is not closed.
pub const UNTERMINATED_HINT: &str =
    "End the value with a quote; write a quote that belongs to a value twice.";

/// The DETAIL text of the error for a quote that is not closed. It contains the first line of the
/// record, and the line of the quote.
pub fn unterminated_detail(record_line: u64, quote_line: u64) -> String {
    if record_line == quote_line {
        return format!("The quote on line {quote_line} is never closed.");
    }
    format!(
        "The quote on line {quote_line}, in the record that begins on line {record_line}, is never closed."
    )
}

#[cfg(test)]
mod tests;
