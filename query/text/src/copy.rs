//! COPY's text and CSV, in and out.

mod options;
mod parser;
mod record;
mod writer;

pub use self::{
    options::{
        ColumnSelection, CopyDirection, CopyFormat, CopyHeader, CopyOptionValue, CopyOptions,
    },
    parser::{CopyLimits, CopyParser},
    writer::{CopyRows, CopyWriter},
};

#[cfg(test)]
mod tests;
