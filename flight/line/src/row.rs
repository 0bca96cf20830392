//! A row under construction in a row builder.

use stratalog_model::{Error, ErrorKind, Result};

use crate::{
    FieldValue,
    builder::RowContext,
    column::{Column, NONE, Refusal},
    fault::excerpt,
    series::{Series, TagTexts},
    table::{TAG_BYTES, Table},
    tag::TagRole,
};

/// A row of one series under construction. Dropping the row before [`Self::commit`] removes its
/// values from the columns.
pub struct Row<'a> {
    table: &'a mut Table,
    series: &'a mut Series,
    texts: &'a TagTexts,
    context: RowContext<'a>,
    /// The index of the row in the table's batch.
    at: usize,
    columns_before: usize,
    /// The number of the column that received the last value.
    previous: u32,
    /// Bytes of the row's texts so far.
    text_bytes: usize,
    open: bool,
}

impl<'a> Row<'a> {
    #[inline]
    pub(crate) fn begin(
        table: &'a mut Table,
        series: &'a mut Series,
        texts: &'a TagTexts,
        context: RowContext<'a>,
    ) -> Result<Self> {
        let (at, columns_before) = (table.rows(), table.columns.len());
        let mut row = Self {
            table,
            series,
            texts,
            context,
            at,
            columns_before,
            previous: NONE,
            text_bytes: 0,
            open: true,
        };
        if row.series.batch != row.context.batch {
            row.check_tags()?;
        }
        if row.table.has_text_tags {
            row.push_text_tags()?;
        }
        Ok(row)
    }

    /// Sets the value of a field.
    ///
    /// # Errors
    /// The column cannot store the value, the row already has a value for the field, no column can
    /// have the name, or a limit is reached. After an error the caller must drop the row.
    pub fn push(&mut self, field: &str, value: FieldValue<'_>) -> Result<()> {
        self.push_labelled(field, field.as_bytes(), value)
    }

    /// Sets the value of a field. `label` is the field's name and the separator after the name, as
    /// written: `usage=`.
    pub(crate) fn push_labelled(
        &mut self,
        field: &str,
        label: &[u8],
        value: FieldValue<'_>,
    ) -> Result<()> {
        let column = match self.find(field.as_bytes()) {
            Some(column) => column,
            None => self.add(field, label, value.kind())?,
        };
        let at = self.at;
        let refused = match self.column(column) {
            Some(found) => match found.push(at, value) {
                Ok(()) => {
                    self.previous = column;
                    self.text_bytes += text_bytes(&value);
                    return Ok(());
                }
                Err(refusal) => refusal,
            },
            None => return Err(Error::internal("a column was forgotten while it was filled")),
        };
        Err(self.refusal(column, field, value, refused))
    }

    /// The column that followed the previous column in an earlier row, if `bytes` begin with its
    /// label. Returns the number of the column and the length of the label.
    #[inline]
    pub(crate) fn expected_next(&self, bytes: &[u8]) -> Option<(u32, usize)> {
        let next = match self.table.columns.get(self.previous as usize) {
            None => self.table.first,
            Some(previous) => previous.next,
        };
        let label = &*self.table.columns.get(next as usize)?.label;
        bytes.starts_with(label).then_some((next, label.len()))
    }

    /// Finds the column of a field by name. Records that this column follows the previous column,
    /// so that [`Self::expected_next`] finds it faster.
    #[inline]
    pub(crate) fn find(&mut self, field: &[u8]) -> Option<u32> {
        let column = self.table.column(field)?;
        match self.table.columns.get_mut(self.previous as usize) {
            None => self.table.first = column,
            Some(previous) => previous.next = column,
        }
        Some(column)
    }

    #[inline]
    pub(crate) fn push_float(&mut self, column: u32, value: f64) -> Option<()> {
        self.previous = column;
        let at = self.at;
        self.column(column)?.push_float(at, value).ok()
    }

    #[inline]
    pub(crate) fn push_integer(&mut self, column: u32, value: i64) -> Option<()> {
        self.previous = column;
        let at = self.at;
        self.column(column)?.push_integer(at, value).ok()
    }

    /// Sets the value of the row in a known column; `None` if the column cannot store the value.
    #[inline]
    pub(crate) fn push_value(&mut self, column: u32, value: FieldValue<'_>) -> Option<()> {
        self.previous = column;
        self.text_bytes += text_bytes(&value);
        let at = self.at;
        self.column(column)?.push(at, value).ok()
    }

    /// Completes the row. `tick_ns` is the time of the row in nanoseconds since 1970. `line` is any
    /// number that identifies the source of the row for the caller;
    /// [`TableRows::line`](crate::TableRows::line) returns this number.
    ///
    /// # Errors
    /// `NotNullViolation` if a NOT NULL column has no value; the row is then dropped.
    #[inline(always)]
    pub fn commit(mut self, tick_ns: i64, line: u32) -> Result<()> {
        self.complete(tick_ns, line)
    }

    #[inline(always)]
    fn complete(&mut self, tick_ns: i64, line: u32) -> Result<()> {
        if !self.table.required.is_empty() {
            self.check_required()?;
        }
        if self.series.batch != self.context.batch {
            self.assign_slot();
        }
        if self.at == 0 {
            self.context.filled.push(self.context.table);
        }
        self.table.ticks.push(tick_ns);
        self.table.slots.push(self.series.slot);
        self.table.lines.push(line);
        *self.context.rows += 1;
        self.table.text_bytes += self.text_bytes;
        let (bytes, counted) = (self.table.bytes(), self.table.counted_bytes);
        *self.context.bytes = (*self.context.bytes + bytes).saturating_sub(counted);
        self.table.counted_bytes = bytes;
        self.open = false;
        Ok(())
    }

    /// Completes a row without its own timestamp. `tick_ns` is the time that the caller chose for
    /// the row.
    ///
    /// # Errors
    /// The errors of [`Self::commit`].
    pub fn commit_undated(mut self, tick_ns: i64, line: u32) -> Result<()> {
        self.complete(tick_ns, line)?;
        self.table.undated += 1;
        Ok(())
    }

    #[inline]
    fn column(&mut self, column: u32) -> Option<&mut Column> {
        self.table.columns.get_mut(column as usize)
    }

    #[cold]
    fn add(&mut self, field: &str, label: &[u8], kind: crate::ColumnKind) -> Result<u32> {
        let request = self.context.request;
        let tag = self.table.tags.iter().position(|tag| *tag.name == *field);
        if let Some((number, tag)) = tag.and_then(|at| Some((at, self.table.tags.get(at)?)))
            && tag.role == TagRole::New
            && (tag.request == request
                || self.texts.tags(self.series).iter().any(|tag| tag.tag as usize == number))
        {
            return Err(tag_and_field(&self.table.measurement, field));
        }
        let RowContext { limits, columns_total, .. } = &mut self.context;
        self.table.add_column(field, label, kind, limits, columns_total)?;
        self.find(field.as_bytes())
            .ok_or_else(|| Error::internal("a column was forgotten when it was made"))
    }

    /// Checks that the table can store each tag of the series.
    #[cold]
    fn check_tags(&self) -> Result<()> {
        let mut new = 0;
        for tag in self.texts.tags(self.series) {
            let Some(column) = self.table.tags.get(tag.tag as usize) else { continue };
            match &column.role {
                TagRole::Refused(why) => {
                    return Err(Error::new(ErrorKind::DatatypeMismatch, why.clone()));
                }
                TagRole::New if self.table.closed => {
                    return Err(Error::new(
                        ErrorKind::InvalidTableDefinition,
                        format!(
                            "tag \"{}\" has no column in table \"{}\", and the table has no primary key for a new tag column",
                            column.name,
                            excerpt(&self.table.measurement)
                        ),
                    )
                    .with_hint("send the value as a field, or write to another measurement"));
                }
                TagRole::New if self.table.column(column.name.as_bytes()).is_some() => {
                    return Err(tag_and_field(&self.table.measurement, &column.name));
                }
                TagRole::New if !column.is_used() => new += 1,
                _ => {}
            }
        }
        match new {
            0 => Ok(()),
            new => self.table.check_growth(new * TAG_BYTES, self.context.limits),
        }
    }

    /// Sets the values of the tags that are stored in columns outside of the key.
    #[cold]
    fn push_text_tags(&mut self) -> Result<()> {
        let texts = self.texts;
        for tag in texts.tags(self.series) {
            let name = match self.table.tags.get(tag.tag as usize) {
                Some(column) if column.role == TagRole::Text => column.name.clone(),
                _ => continue,
            };
            let mut label = name.as_bytes().to_vec();
            label.push(b'=');
            self.push_labelled(&name, &label, FieldValue::Text(texts.value(*tag)))?;
        }
        self.previous = NONE;
        Ok(())
    }

    /// Assigns the series its index within the batch, at the first row of the series.
    #[cold]
    fn assign_slot(&mut self) {
        let slot = self.table.slots_used;
        self.table.slots_used += 1;
        for tag in self.texts.tags(self.series) {
            let value = self.texts.value(*tag);
            self.table.push_tag(tag.tag, slot as usize, value, self.context.request);
        }
        self.series.slot = slot;
        self.series.batch = self.context.batch;
    }

    #[cold]
    fn check_required(&self) -> Result<()> {
        for name in &self.table.required {
            let column = self.table.column(name.as_bytes());
            let column = column.and_then(|column| self.table.columns.get(column as usize));
            if column.is_none_or(|column| column.len() <= self.at) {
                let error = match &self.table.definition {
                    Some(definition) => definition.not_null_violation(name),
                    None => Error::not_null(name, &self.table.measurement),
                };
                return Err(error.with_hint("write a value in every line"));
            }
        }
        Ok(())
    }

    /// The error for a value that a column refused for the reason `refusal`.
    fn refusal(&self, column: u32, field: &str, value: FieldValue<'_>, refusal: Refusal) -> Error {
        let Some(column) = self.table.columns.get(column as usize) else {
            return Error::internal("a column was forgotten while it was filled");
        };
        let table = &self.table.measurement;
        let field = excerpt(field);
        match refusal {
            Refusal::Kind => {
                self.table.conflict(&field, &column.column_type, column.new, value.kind())
            }
            Refusal::Twice => Error::new(
                ErrorKind::DuplicateColumn,
                format!("field \"{field}\" of table \"{table}\" has two values in the line"),
            )
            .with_hint("remove one of the two"),
            Refusal::Range => Error::new(
                ErrorKind::NumericOutOfRange,
                format!(
                    "field \"{field}\" of table \"{table}\": the value is out of range for type {}",
                    column.column_type
                ),
            )
            .with_hint("write a value within the range, or write to another field"),
            Refusal::Full => Error::new(
                ErrorKind::LimitExceeded,
                format!("field \"{field}\" of table \"{table}\" has too much text in one batch"),
            )
            .with_hint("send the lines in several requests"),
        }
    }

    #[cold]
    fn take_back(&mut self) {
        if self.table.columns.len() > self.columns_before {
            self.table.remove_columns(self.columns_before, self.context.columns_total);
        }
        self.table.columns.iter_mut().for_each(|column| column.truncate(self.at));
    }
}

impl Drop for Row<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.open {
            self.take_back();
        }
    }
}

impl std::fmt::Debug for Row<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Row")
            .field("table", &self.table.measurement)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

fn text_bytes(value: &FieldValue<'_>) -> usize {
    match value {
        FieldValue::Text(text) => text.len(),
        _ => 0,
    }
}

fn tag_and_field(table: &str, name: &str) -> Error {
    Error::new(
        ErrorKind::DuplicateColumn,
        format!("\"{}\" is both a tag and a field of table \"{table}\"", excerpt(name)),
    )
    .with_hint("rename one of the two")
}
