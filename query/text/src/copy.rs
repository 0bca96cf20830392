//! COPY's text and CSV, in and out.

mod encoding;
mod options;
mod parser;
mod record;
mod skipped;
mod writer;

pub use self::{
    encoding::CopyEncoding,
    options::{
        ColumnSelection, CopyDirection, CopyFormat, CopyHeader, CopyOptionValue, CopyOptions,
    },
    parser::{CopyLimits, CopyParser},
    skipped::Skipped,
    writer::{CopyRows, CopyWriter},
};

/// What to do about a quote that nothing closes.
pub const UNTERMINATED_HINT: &str =
    "End the value with a quote; write a quote that belongs to a value twice.";

/// Where a quote stands that nothing closes: the line on which its record begins, and its own.
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
