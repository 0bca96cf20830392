//! Collects the rows of a system table in Arrow columns. The caller sets values by column name.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayBuilder, ArrayRef, BooleanBuilder, Float32Builder, Float64Builder, Int16Builder,
        Int32Builder, Int64Builder, IntervalMonthDayNanoBuilder, ListBuilder, RecordBatch,
        StringViewBuilder, TimestampMicrosecondBuilder, new_null_array,
    },
    datatypes::{DataType, IntervalMonthDayNano},
};
use stratalog_model::{ColumnType, Error, Result};

use crate::spec::{Column, Table};

/// A value in a row of a system table.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    /// NULL.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer, an oid, or a time in microseconds since 1970.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// Text.
    Text(String),
    /// An array of integers.
    Ints(Vec<i64>),
    /// An array of texts.
    Texts(Vec<String>),
    /// An interval in seconds.
    Seconds(i64),
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

macro_rules! from_integers {
    ($($integer:ty),*) => { $(
        impl From<$integer> for Value {
            fn from(value: $integer) -> Self {
                Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
            }
        }
    )* };
}

from_integers!(i16, i32, i64, u32, u64, usize);

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Double(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_string())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<&String> for Value {
    fn from(value: &String) -> Self {
        Self::Text(value.clone())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Collects the rows of one system table.
#[derive(Debug)]
pub(crate) struct Rows<'a> {
    table: &'a Table,
    builders: Vec<Builder>,
    count: usize,
}

impl<'a> Rows<'a> {
    /// Creates a collection without rows.
    pub(crate) fn new(table: &'a Table) -> Self {
        let builders =
            table.columns.iter().map(|column| Builder::new(&column.column_type)).collect();
        Self { table, builders, count: 0 }
    }

    /// Returns the first existing column of the table among these names; an empty name without any
    /// match.
    pub(crate) fn first_of(&self, names: &[&'static str]) -> &'static str {
        let has = |name: &str| self.table.columns.iter().any(|column| column.name == name);
        names.iter().copied().find(|name| has(name)).unwrap_or_default()
    }

    /// Adds a row. A column that is not in `values` becomes NULL if it is nullable, and otherwise
    /// 0, false or empty.
    ///
    /// # Errors
    /// `Internal` if `values` names an unknown column, or has a value of a wrong type.
    pub(crate) fn push(&mut self, values: &[(&str, Value)]) -> Result<()> {
        let mut named = 0_usize;
        for (column, builder) in self.table.columns.iter().zip(&mut self.builders) {
            let given = values.iter().find(|(name, _)| *name == column.name);
            named += usize::from(given.is_some());
            let done = match given {
                Some((_, value)) => builder.append(value),
                None => builder.append(&unset(column)),
            };
            if !done {
                return Err(Error::internal(format!(
                    "{}.{} does not take {given:?}",
                    self.table.name, column.name
                )));
            }
        }
        self.count += 1;
        if named == values.len() {
            return Ok(());
        }
        let unknown: Vec<&str> = values
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| self.table.columns.iter().all(|column| column.name != *name))
            .collect();
        Err(Error::internal(format!("{} has no column {unknown:?}", self.table.name)))
    }

    /// Returns the collected rows as a record batch.
    ///
    /// # Errors
    /// `Internal` if the values do not fit the schema of the table.
    pub(crate) fn finish(mut self) -> Result<RecordBatch> {
        let columns: Vec<ArrayRef> = self.builders.iter_mut().map(Builder::finish).collect();
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(self.count));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.table.arrow), columns, &options)?)
    }
}

fn unset(column: &Column) -> Value {
    if column.nullable {
        return Value::Null;
    }
    match &column.column_type {
        ColumnType::Boolean => Value::Bool(false),
        ColumnType::Text => Value::Text(String::new()),
        ColumnType::Real | ColumnType::Double => Value::Double(0.0),
        ColumnType::Array(element) if **element == ColumnType::Text => Value::Texts(Vec::new()),
        ColumnType::Array(_) => Value::Ints(Vec::new()),
        _ => Value::Int(0),
    }
}

#[derive(Debug)]
enum Builder {
    Bool(BooleanBuilder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    Float(Float32Builder),
    Double(Float64Builder),
    Time(TimestampMicrosecondBuilder),
    Text(StringViewBuilder),
    Texts(ListBuilder<StringViewBuilder>),
    /// Arrays of integers, which [`Builder::finish`] casts to this type.
    Ints(ListBuilder<Int64Builder>, DataType),
    Interval(IntervalMonthDayNanoBuilder),
    /// A column that contains only NULLs: the number of rows, and the type of the column.
    Nulls(usize, DataType),
}

impl Builder {
    fn new(column_type: &ColumnType) -> Self {
        match column_type {
            ColumnType::Boolean => Self::Bool(BooleanBuilder::new()),
            ColumnType::SmallInt => Self::Int16(Int16Builder::new()),
            ColumnType::Integer => Self::Int32(Int32Builder::new()),
            ColumnType::BigInt => Self::Int64(Int64Builder::new()),
            ColumnType::Real => Self::Float(Float32Builder::new()),
            ColumnType::Double => Self::Double(Float64Builder::new()),
            ColumnType::TimestampTz { .. } => {
                Self::Time(TimestampMicrosecondBuilder::new().with_timezone("UTC"))
            }
            ColumnType::Array(element) if **element == ColumnType::Text => {
                Self::Texts(ListBuilder::new(StringViewBuilder::new()))
            }
            ColumnType::Array(_) => {
                Self::Ints(ListBuilder::new(Int64Builder::new()), column_type.arrow_type())
            }
            ColumnType::Text => Self::Text(StringViewBuilder::new()),
            ColumnType::Interval => Self::Interval(IntervalMonthDayNanoBuilder::new()),
            other => Self::Nulls(0, other.arrow_type()),
        }
    }

    /// Appends a value; returns false if the value does not fit the type of the column.
    fn append(&mut self, value: &Value) -> bool {
        match (self, value) {
            (Self::Bool(builder), Value::Bool(value)) => builder.append_value(*value),
            (Self::Bool(builder), Value::Null) => builder.append_null(),
            (Self::Int16(builder), Value::Int(value)) => {
                builder.append_value(i16::try_from(*value).unwrap_or(i16::MAX));
            }
            (Self::Int16(builder), Value::Null) => builder.append_null(),
            (Self::Int32(builder), Value::Int(value)) => {
                builder.append_value(i32::try_from(*value).unwrap_or(i32::MAX));
            }
            (Self::Int32(builder), Value::Null) => builder.append_null(),
            (Self::Int64(builder), Value::Int(value)) => builder.append_value(*value),
            (Self::Int64(builder), Value::Null) => builder.append_null(),
            #[expect(clippy::cast_possible_truncation, reason = "estimates of row counts")]
            (Self::Float(builder), Value::Double(value)) => builder.append_value(*value as f32),
            (Self::Float(builder), Value::Null) => builder.append_null(),
            (Self::Double(builder), Value::Double(value)) => builder.append_value(*value),
            (Self::Double(builder), Value::Null) => builder.append_null(),
            (Self::Time(builder), Value::Int(value)) => builder.append_value(*value),
            (Self::Time(builder), Value::Null) => builder.append_null(),
            (Self::Text(builder), Value::Text(value)) => builder.append_value(value),
            (Self::Text(builder), Value::Null) => builder.append_null(),
            (Self::Texts(builder), Value::Texts(values)) => {
                for value in values {
                    builder.values().append_value(value);
                }
                builder.append(true);
            }
            (Self::Texts(builder), Value::Null) => builder.append(false),
            (Self::Ints(builder, _), Value::Ints(values)) => {
                builder.values().append_slice(values);
                builder.append(true);
            }
            (Self::Ints(builder, _), Value::Null) => builder.append(false),
            (Self::Interval(builder), Value::Seconds(seconds)) => {
                let nanoseconds = seconds.saturating_mul(1_000_000_000);
                builder.append_value(IntervalMonthDayNano::new(0, 0, nanoseconds));
            }
            (Self::Interval(builder), Value::Null) => builder.append_null(),
            (Self::Nulls(count, _), Value::Null) => *count += 1,
            _ => return false,
        }
        true
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Bool(builder) => Arc::new(builder.finish()),
            Self::Int16(builder) => Arc::new(builder.finish()),
            Self::Int32(builder) => Arc::new(builder.finish()),
            Self::Int64(builder) => Arc::new(builder.finish()),
            Self::Float(builder) => Arc::new(builder.finish()),
            Self::Double(builder) => Arc::new(builder.finish()),
            Self::Time(builder) => ArrayBuilder::finish(builder),
            Self::Text(builder) => Arc::new(builder.finish()),
            Self::Texts(builder) => Arc::new(builder.finish()),
            Self::Interval(builder) => Arc::new(builder.finish()),
            Self::Nulls(count, data_type) => new_null_array(data_type, *count),
            Self::Ints(builder, data_type) => {
                let array: ArrayRef = Arc::new(builder.finish());
                // The integers fit the type, because the caller made them for a column of this
                // type.
                arrow::compute::cast(&array, data_type).unwrap_or(array)
            }
        }
    }
}
