//! Parses the fields of a COPY record, and appends them as a row.

use stratalog_model::{Error, ErrorKind, Result};

use super::{CopyParser, LastColumn, shown_data};
use crate::{
    copy::record::{Field, Fields},
    failing_row,
};

impl CopyParser {
    /// Parses the fields of a record, and appends their values to the columns.
    ///
    /// # Errors
    /// `BadCopyFormat` for a wrong number of fields; `NotNullViolation`; the error of an invalid
    /// value, unless rows with invalid values are skipped.
    #[inline]
    pub(super) fn fields(&mut self, text: &str) -> Result<()> {
        let mut fields = Fields::new(text, &self.options);
        // The first invalid value of the record: the index of its column, the error, and the text.
        let mut unread: Option<(usize, Error, String)> = None;
        let mut missing = None;
        let last = self.columns.len().saturating_sub(1);
        for (at, column) in self.columns.iter_mut().enumerate() {
            if at == last {
                if self.last == LastColumn::Undecided {
                    self.last =
                        if fields.is_done() { LastColumn::LeftOut } else { LastColumn::Given };
                }
                if self.last == LastColumn::LeftOut {
                    column.builder.append_null();
                    break;
                }
            }
            let field = fields.next(&mut self.scratch, column.force_not_null, column.force_null);
            match field {
                // The record is skipped, but its further fields must still be well formed.
                Ok(_) if unread.is_some() => column.builder.append_null(),
                Ok(Some(Field::Value(value))) => {
                    if self.options.ignores_errors {
                        if let Err(error) = column.builder.append_text_or_null(value, &self.style) {
                            unread = Some((at, error, shown_data(value)));
                        }
                    } else if let Err(error) = column.builder.append_text(value, &self.style) {
                        return Err(error.with_context(format!(
                            "COPY {}, line {}, column {}: \"{}\"",
                            self.table,
                            self.line,
                            column.name,
                            shown_data(value)
                        )));
                    }
                }
                Ok(Some(Field::Null)) => {
                    if column.required && missing.is_none() {
                        missing = Some(at);
                    }
                    column.builder.append_null();
                }
                Ok(None) => {
                    let error = Error::new(
                        ErrorKind::BadCopyFormat,
                        format!("missing data for column \"{}\"", column.name),
                    );
                    return Err(error.with_context(self.line_context(text.as_bytes())));
                }
                Err(error) => return Err(error.with_context(self.line_context(text.as_bytes()))),
            }
        }
        // A table without columns accepts empty lines.
        if !(fields.is_done() || self.columns.is_empty() && text.is_empty()) {
            return Err(Error::new(
                ErrorKind::BadCopyFormat,
                "extra data after last expected column",
            )
            .with_context(self.line_context(text.as_bytes())));
        }
        if let Some((at, error, value)) = unread {
            return self.skip(at, error, &value);
        }
        match missing {
            Some(at) => Err(self.null_at(at).with_context(self.line_context(text.as_bytes()))),
            None => Ok(()),
        }
    }

    /// The error for a NULL in column `at` of the current row, which no NULL may contain.
    fn null_at(&mut self, at: usize) -> Error {
        let name = self.columns.get(at).map_or("", |column| column.name.as_str());
        let error = Error::not_null(name, &self.table);
        if !self.whole_rows {
            return error;
        }
        let arrays: Vec<_> =
            self.columns.iter_mut().map(|column| column.builder.finish()).collect();
        let columns = arrays.iter().zip(self.schema.fields());
        error.with_detail(failing_row(columns, self.batch_rows, &self.style))
    }

    /// Marks the current row as skipped, because `value` in column `at` is invalid.
    fn skip(&mut self, at: usize, error: Error, value: &str) -> Result<()> {
        // Only the error of an invalid value can be skipped; an internal error remains.
        if error.kind() == ErrorKind::Internal {
            return Err(error);
        }
        self.batch_skipped.push(self.batch_rows);
        let column = self.columns.get(at).map_or("", |column| column.name.as_str());
        self.skipped.add(self.options.verbose, self.line, column, value);
        Ok(())
    }

    /// Checks that the header line contains the expected column names.
    ///
    /// # Errors
    /// `BadCopyFormat` for a wrong number of names, and for a name that does not match.
    pub(super) fn check_header(&mut self, text: &str) -> Result<()> {
        let mut fields = Fields::new(text, &self.options);
        let mut names = Vec::new();
        while let Some(field) = fields.next(&mut self.scratch, false, false)? {
            names.push(match field {
                Field::Null => None,
                Field::Value(value) => Some(value.to_string()),
            });
        }
        let mismatch = |message: String| {
            Err(Error::new(ErrorKind::BadCopyFormat, message).with_context(format!(
                "COPY {}, line 1: \"{}\"",
                self.table,
                shown_data(text)
            )))
        };
        if self.last == LastColumn::Undecided {
            let given = names.len() == self.columns.len();
            self.last = if given { LastColumn::Given } else { LastColumn::LeftOut };
        }
        let left_out = usize::from(self.last == LastColumn::LeftOut);
        if names.len() + left_out != self.columns.len() {
            return mismatch(format!(
                "wrong number of fields in header line: got {}, expected {}",
                names.len(),
                self.columns.len()
            ));
        }
        for (at, (found, column)) in names.iter().zip(&self.columns).enumerate() {
            match found {
                None => {
                    return mismatch(format!(
                        "column name mismatch in header line field {}: got null value (\"{}\"), expected \"{}\"",
                        at + 1,
                        self.options.null,
                        column.name
                    ));
                }
                Some(found) if *found != column.name => {
                    return mismatch(format!(
                        "column name mismatch in header line field {}: got \"{found}\", expected \"{}\"",
                        at + 1,
                        column.name
                    ));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}
