//! The rows of one table that a row builder returns.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{
        Array, ArrayRef, PrimitiveArray, RecordBatch, RecordBatchOptions, StringViewArray,
        StringViewBuilder, UInt32Array, new_null_array,
    },
    compute::take,
    datatypes::{
        ArrowTimestampType, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType, TimestampSecondType,
    },
};
use stratalog_model::{
    ChronicleDefinition, ColumnDefinition, ColumnType, Error, ErrorKind, Result,
};

use crate::{column::Column, table::loses_series};

/// The values of one tag: one value per series of the batch, NULL for a series without the tag.
#[derive(Debug)]
pub(crate) struct TagValues {
    pub(crate) name: Box<str>,
    pub(crate) new: bool,
    pub(crate) values: StringViewArray,
}

/// The rows of one table, in the order of their lines.
#[derive(Debug)]
pub struct TableRows {
    measurement: Arc<str>,
    definition: Option<Arc<ChronicleDefinition>>,
    new_tags: Vec<String>,
    new_fields: Vec<(String, ColumnType)>,
    tags: Vec<TagValues>,
    fields: Vec<Column>,
    ticks: Vec<i64>,
    /// For each row, the index of its series; an index into the values of each tag.
    slots: Vec<u32>,
    lines: Vec<u32>,
    undated: usize,
}

impl TableRows {
    pub(crate) fn new(
        measurement: Arc<str>,
        definition: Option<Arc<ChronicleDefinition>>,
        tags: Vec<TagValues>,
        fields: Vec<Column>,
        ticks: Vec<i64>,
        slots: Vec<u32>,
        lines: Vec<u32>,
    ) -> Self {
        let new_tags = tags.iter().filter(|tag| tag.new).map(|tag| tag.name.to_string());
        let new_fields = fields.iter().filter(|field| field.new);
        Self {
            new_tags: new_tags.collect(),
            new_fields: new_fields
                .map(|field| (field.name.to_string(), field.column_type.clone()))
                .collect(),
            measurement,
            definition,
            tags,
            fields,
            ticks,
            slots,
            lines,
            undated: 0,
        }
    }

    pub(crate) fn with_undated(mut self, undated: usize) -> Self {
        self.undated = undated;
        self
    }

    /// True if any row has its own timestamp; false if the caller chose the times of all rows.
    pub fn is_dated(&self) -> bool {
        self.undated < self.rows()
    }

    /// The measurement, which is also the name of the table.
    pub fn measurement(&self) -> &str {
        &self.measurement
    }

    /// The definition of the table at the time of the first row; `None` if the table did not exist.
    pub fn definition(&self) -> Option<&Arc<ChronicleDefinition>> {
        self.definition.as_ref()
    }

    /// Tags for which the table has no column. In a new table these tags become key columns of type
    /// `text`.
    pub fn new_tags(&self) -> &[String] {
        &self.new_tags
    }

    /// Fields for which the table has no column, with the kind of their values. Includes fields of
    /// earlier batches of the request, until [`refresh`](crate::LineParser::refresh).
    pub fn new_fields(&self) -> &[(String, ColumnType)] {
        &self.new_fields
    }

    /// The number of rows; never 0.
    pub fn rows(&self) -> usize {
        self.ticks.len()
    }

    /// The line number of a row. Rows count from 0, lines from 1.
    pub fn line(&self, row: usize) -> Option<u64> {
        self.lines.get(row).map(|line| u64::from(*line))
    }

    /// The line number of each row, from 1.
    pub fn lines(&self) -> &[u32] {
        &self.lines
    }

    /// The line number of the first row.
    pub fn first_line(&self) -> u64 {
        self.line(0).unwrap_or(0)
    }

    /// The line number of the last row.
    pub fn last_line(&self) -> u64 {
        self.lines.last().map_or(0, |line| u64::from(*line))
    }

    /// The time of each row, in nanoseconds since 1970.
    pub fn ticks_ns(&self) -> &[i64] {
        &self.ticks
    }

    /// Converts the rows to a batch with exactly the schema of `definition`.
    ///
    /// Times are rounded down (towards the past) to the unit of the time column. If a series lacks
    /// the tag of a key column, the column has the value ''. No tag of a line can have the value
    /// ''. Any other column without a value is NULL, even if it has a DEFAULT.
    ///
    /// # Errors
    /// `UndefinedColumn` if the definition lacks a tag or field of the rows. `DatatypeMismatch` or
    /// `NumericOutOfRange` if a column's type has changed since the rows were collected, and the
    /// new type cannot store the values. `NotNullViolation` if a NOT NULL column was added since
    /// then.
    pub fn into_batch(self, definition: &Arc<ChronicleDefinition>) -> Result<RecordBatch> {
        let rows = self.ticks.len();
        for name in self.tags.iter().map(|tag| &tag.name) {
            self.check_column(definition, "tag", name)?;
        }
        // When the row was read, the table had no column for this tag. Since then, another session
        // has added a column of the same name outside of the key.
        let outside = self.tags.iter().filter(|tag| tag.new).find(|tag| {
            let column = definition.column_named(&tag.name);
            column.is_some_and(|column| !definition.key_columns.contains(&column.id))
        });
        if let Some(tag) = outside.filter(|_| loses_series(definition)) {
            return Err(Error::new(
                ErrorKind::DatatypeMismatch,
                format!(
                    "column \"{}\" of table \"{}\" is not part of the key, and the data has a tag of the same name",
                    tag.name, definition.name
                ),
            )
            .with_hint("the table was changed during the request: send the data again"));
        }
        for name in self.fields.iter().map(|field| &field.name) {
            self.check_column(definition, "field", name)?;
        }
        let slots = UInt32Array::from(self.slots);
        let tags: HashMap<&str, &StringViewArray> =
            self.tags.iter().map(|tag| (&*tag.name, &tag.values)).collect();
        let mut fields: HashMap<Box<str>, Column> =
            self.fields.into_iter().map(|field| (field.name.clone(), field)).collect();
        let mut ticks = Some(self.ticks);
        let mut arrays = Vec::with_capacity(definition.columns.len());
        for column in &definition.columns {
            let key = definition.key_columns.contains(&column.id);
            let array = if column.id == definition.tick_column {
                tick_array(ticks.take().unwrap_or_default(), &column.column_type)?
            } else if let Some(tag) = tags.get(column.name.as_str()) {
                tag_array(column, key, tag, &slots)?
            } else if let Some(field) = fields.remove(column.name.as_str()) {
                field.into_array(rows, &column.column_type)?
            } else if key && column.column_type == ColumnType::Text {
                let values = StringViewArray::from_iter_values([""]);
                take(&values, &UInt32Array::from(vec![0; rows]), None)?
            } else {
                new_null_array(&column.column_type.arrow_type(), rows)
            };
            if !column.nullable && array.null_count() > 0 {
                return Err(definition.not_null_violation(&column.name));
            }
            arrays.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = definition.arrow_schema();
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }

    /// Checks that the definition has a column of this name.
    fn check_column(&self, definition: &ChronicleDefinition, what: &str, name: &str) -> Result<()> {
        if definition.column_named(name).is_some() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::UndefinedColumn,
            format!("table \"{}\" has no column for {what} \"{name}\"", definition.name),
        )
        .with_hint(format!(
            "add the column: ALTER TABLE {} ADD COLUMN",
            definition.qualified_name()
        ))
        .with_subject(definition.subject()))
    }
}

/// Expands the values of a tag from one per series to one per row.
fn tag_array(
    column: &ColumnDefinition,
    key: bool,
    values: &StringViewArray,
    slots: &UInt32Array,
) -> Result<ArrayRef> {
    if column.column_type != ColumnType::Text {
        return Err(Error::new(
            ErrorKind::DatatypeMismatch,
            format!(
                "column \"{}\" is of type {}, and the data has a tag (text) of the same name",
                column.name, column.column_type
            ),
        )
        .with_hint("the table was changed during the request: send the data again"));
    }
    if !key || values.null_count() == 0 {
        // If every series has exactly one row, the values are already in the order of the rows.
        let in_place = slots.len() == values.len()
            && slots.values().iter().zip(0..).all(|(slot, row)| *slot == row);
        let array: ArrayRef = match in_place {
            true => Arc::new(values.clone()),
            false => take(values, slots, None)?,
        };
        return Ok(array);
    }
    let mut filled = StringViewBuilder::with_capacity(values.len());
    values.iter().for_each(|value| filled.append_value(value.unwrap_or_default()));
    Ok(take(&filled.finish(), slots, None)?)
}

/// Converts times in nanoseconds to the unit of the time column, rounded down.
fn tick_array(mut ticks: Vec<i64>, column_type: &ColumnType) -> Result<ArrayRef> {
    fn array<T: ArrowTimestampType>(ticks: Vec<i64>, zoned: bool) -> ArrayRef {
        let array = PrimitiveArray::<T>::new(ticks.into(), None);
        Arc::new(array.with_timezone_opt(zoned.then_some("UTC")))
    }
    let zoned = matches!(column_type, ColumnType::TimestampTz { .. });
    let unit_ns = column_type
        .timestamp_unit_ns()
        .ok_or_else(|| Error::internal("the tick column is not a timestamp"))?;
    if unit_ns > 1 {
        ticks.iter_mut().for_each(|tick| *tick = tick.div_euclid(unit_ns));
    }
    Ok(match unit_ns {
        1 => array::<TimestampNanosecondType>(ticks, zoned),
        1_000 => array::<TimestampMicrosecondType>(ticks, zoned),
        1_000_000 => array::<TimestampMillisecondType>(ticks, zoned),
        _ => array::<TimestampSecondType>(ticks, zoned),
    })
}
