//! Builds Arrow columns from texts, for COPY and for casts.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, BinaryBuilder, BooleanBuilder, FixedSizeBinaryBuilder, Int64Builder, ListArray,
        NullBufferBuilder, PrimitiveBuilder, StringViewBuilder,
    },
    buffer::{OffsetBuffer, ScalarBuffer},
    datatypes::{
        Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
        IntervalMonthDayNano, IntervalMonthDayNanoType, Time64MicrosecondType,
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
        TimestampSecondType,
    },
};
use stratalog_model::{ColumnType, Error, Result};

use crate::{
    TextStyle,
    json::append_jsonb,
    parse::{
        array::parse_array,
        binary::{parse_bytea, parse_uuid},
        datetime::{parse_date, parse_time, parse_timestamp},
        interval::parse_interval,
        number::{
            parse_bigint, parse_double, parse_integer, parse_numeric, parse_real, parse_smallint,
        },
        parse_boolean,
    },
};

/// Builds an Arrow array of one column type from texts.
#[derive(Debug)]
pub struct ColumnBuilder {
    kind: BuilderKind,
    scratch: Vec<u8>,
}

#[derive(Debug)]
enum BuilderKind {
    Boolean(BooleanBuilder),
    SmallInt(PrimitiveBuilder<Int16Type>),
    Integer(PrimitiveBuilder<Int32Type>),
    BigInt(PrimitiveBuilder<Int64Type>),
    Real(PrimitiveBuilder<Float32Type>),
    Double(PrimitiveBuilder<Float64Type>),
    Numeric {
        builder: PrimitiveBuilder<Decimal128Type>,
        precision: u8,
        scale: u8,
    },
    Text(StringViewBuilder),
    Jsonb(StringViewBuilder),
    Bytea(BinaryBuilder),
    Timestamp {
        builder: Int64Builder,
        unit_ns: i64,
        zoned: bool,
    },
    Date(PrimitiveBuilder<Date32Type>),
    Time(PrimitiveBuilder<Time64MicrosecondType>),
    Interval(PrimitiveBuilder<IntervalMonthDayNanoType>),
    Uuid(FixedSizeBinaryBuilder),
    Array {
        item: ColumnType,
        child: Box<ColumnBuilder>,
        offsets: Vec<i32>,
        nulls: NullBufferBuilder,
    },
}

impl ColumnBuilder {
    /// An empty builder with capacity for `rows` values.
    pub fn new(column_type: &ColumnType, rows: usize) -> Self {
        let kind = match column_type {
            ColumnType::Boolean => BuilderKind::Boolean(BooleanBuilder::with_capacity(rows)),
            ColumnType::SmallInt => BuilderKind::SmallInt(PrimitiveBuilder::with_capacity(rows)),
            ColumnType::Integer => BuilderKind::Integer(PrimitiveBuilder::with_capacity(rows)),
            ColumnType::BigInt => BuilderKind::BigInt(PrimitiveBuilder::with_capacity(rows)),
            ColumnType::Real => BuilderKind::Real(PrimitiveBuilder::with_capacity(rows)),
            ColumnType::Double => BuilderKind::Double(PrimitiveBuilder::with_capacity(rows)),
            ColumnType::Numeric { precision, scale } => BuilderKind::Numeric {
                builder: PrimitiveBuilder::with_capacity(rows)
                    .with_data_type(column_type.arrow_type()),
                precision: *precision,
                scale: *scale,
            },
            ColumnType::Text => BuilderKind::Text(StringViewBuilder::with_capacity(rows)),
            ColumnType::Jsonb => BuilderKind::Jsonb(StringViewBuilder::with_capacity(rows)),
            ColumnType::Bytea => BuilderKind::Bytea(BinaryBuilder::with_capacity(rows, rows * 8)),
            ColumnType::Timestamp { .. } | ColumnType::TimestampTz { .. } => {
                BuilderKind::Timestamp {
                    builder: Int64Builder::with_capacity(rows),
                    unit_ns: column_type.timestamp_unit_ns().unwrap_or(1),
                    zoned: matches!(column_type, ColumnType::TimestampTz { .. }),
                }
            }
            ColumnType::Date => BuilderKind::Date(PrimitiveBuilder::with_capacity(rows)),
            ColumnType::Time => BuilderKind::Time(PrimitiveBuilder::with_capacity(rows)),
            ColumnType::Interval => BuilderKind::Interval(PrimitiveBuilder::with_capacity(rows)),
            ColumnType::Uuid => BuilderKind::Uuid(FixedSizeBinaryBuilder::with_capacity(rows, 16)),
            ColumnType::Array(item) => BuilderKind::Array {
                item: item.as_ref().clone(),
                child: Box::new(Self::new(item, rows)),
                offsets: vec![0],
                nulls: NullBufferBuilder::new(rows),
            },
        };
        Self { kind, scratch: Vec::new() }
    }

    /// Appends NULL.
    pub fn append_null(&mut self) {
        match &mut self.kind {
            BuilderKind::Boolean(builder) => builder.append_null(),
            BuilderKind::SmallInt(builder) => builder.append_null(),
            BuilderKind::Integer(builder) => builder.append_null(),
            BuilderKind::BigInt(builder) => builder.append_null(),
            BuilderKind::Real(builder) => builder.append_null(),
            BuilderKind::Double(builder) => builder.append_null(),
            BuilderKind::Numeric { builder, .. } => builder.append_null(),
            BuilderKind::Text(builder) | BuilderKind::Jsonb(builder) => builder.append_null(),
            BuilderKind::Bytea(builder) => builder.append_null(),
            BuilderKind::Timestamp { builder, .. } => builder.append_null(),
            BuilderKind::Date(builder) => builder.append_null(),
            BuilderKind::Time(builder) => builder.append_null(),
            BuilderKind::Interval(builder) => builder.append_null(),
            BuilderKind::Uuid(builder) => builder.append_null(),
            BuilderKind::Array { offsets, nulls, .. } => {
                offsets.push(offsets.last().copied().unwrap_or(0));
                nulls.append_null();
            }
        }
    }

    /// Parses a text and appends the value. After an error the builder must be dropped, because it
    /// may contain some elements of an invalid array.
    ///
    /// # Errors
    /// PostgreSQL's error for text that is not a value of the type.
    #[inline]
    pub fn append_text(&mut self, text: &str, style: &TextStyle) -> Result<()> {
        match &mut self.kind {
            BuilderKind::Text(builder) => builder.append_value(text),
            BuilderKind::Double(builder) => builder.append_value(parse_double(text)?),
            BuilderKind::Timestamp { builder, unit_ns, zoned } => {
                builder.append_value(parse_timestamp(text, *unit_ns, *zoned, style)?);
            }
            BuilderKind::Integer(builder) => builder.append_value(parse_integer(text)?),
            BuilderKind::BigInt(builder) => builder.append_value(parse_bigint(text)?),
            BuilderKind::SmallInt(builder) => builder.append_value(parse_smallint(text)?),
            BuilderKind::Real(builder) => builder.append_value(parse_real(text)?),
            BuilderKind::Boolean(builder) => builder.append_value(parse_boolean(text)?),
            BuilderKind::Numeric { builder, precision, scale } => {
                builder.append_value(parse_numeric(text, *precision, *scale)?);
            }
            BuilderKind::Jsonb(builder) => {
                let mut normalized = String::with_capacity(text.len() + 16);
                append_jsonb(text, &mut normalized)?;
                builder.append_value(normalized);
            }
            BuilderKind::Bytea(builder) => {
                self.scratch.clear();
                parse_bytea(text, &mut self.scratch)?;
                builder.append_value(&self.scratch);
            }
            BuilderKind::Date(builder) => builder.append_value(parse_date(text, style)?),
            BuilderKind::Time(builder) => builder.append_value(parse_time(text, style)?),
            BuilderKind::Interval(builder) => {
                let interval = parse_interval(text, style.interval_style)?;
                let nanos = i64::try_from(interval.nanos)
                    .map_err(|_| Error::internal("an interval was read beyond its range"))?;
                builder.append_value(IntervalMonthDayNano::new(
                    interval.months,
                    interval.days,
                    nanos,
                ));
            }
            BuilderKind::Uuid(builder) => builder.append_value(parse_uuid(text)?)?,
            BuilderKind::Array { child, offsets, nulls, .. } => {
                parse_array(text, |element| match element {
                    Some(text) => child.append_text(text, style),
                    None => {
                        child.append_null();
                        Ok(())
                    }
                })?;
                let end = i32::try_from(child.len()).map_err(|_| {
                    Error::internal("a batch of arrays has more than 2^31 elements")
                })?;
                offsets.push(end);
                nulls.append_non_null();
            }
        }
        Ok(())
    }

    /// Parses a text and appends the value. If the text is invalid, appends NULL and returns the
    /// error; the builder remains usable.
    ///
    /// # Errors
    /// As [`Self::append_text`].
    pub fn append_text_or_null(&mut self, text: &str, style: &TextStyle) -> Result<()> {
        let read = self.append_text(text, style);
        if read.is_err() {
            match &mut self.kind {
                // The array that becomes NULL also covers the elements before the invalid element.
                BuilderKind::Array { child, offsets, nulls, .. } => {
                    let end = i32::try_from(child.len()).map_err(|_| {
                        Error::internal("a batch of arrays has more than 2^31 elements")
                    })?;
                    offsets.push(end);
                    nulls.append_null();
                }
                _ => self.append_null(),
            }
        }
        read
    }

    /// The number of appended values.
    pub fn len(&self) -> usize {
        use arrow::array::ArrayBuilder as _;
        match &self.kind {
            BuilderKind::Boolean(builder) => builder.len(),
            BuilderKind::SmallInt(builder) => builder.len(),
            BuilderKind::Integer(builder) => builder.len(),
            BuilderKind::BigInt(builder) => builder.len(),
            BuilderKind::Real(builder) => builder.len(),
            BuilderKind::Double(builder) => builder.len(),
            BuilderKind::Numeric { builder, .. } => builder.len(),
            BuilderKind::Text(builder) | BuilderKind::Jsonb(builder) => builder.len(),
            BuilderKind::Bytea(builder) => builder.len(),
            BuilderKind::Timestamp { builder, .. } => builder.len(),
            BuilderKind::Date(builder) => builder.len(),
            BuilderKind::Time(builder) => builder.len(),
            BuilderKind::Interval(builder) => builder.len(),
            BuilderKind::Uuid(builder) => builder.len(),
            BuilderKind::Array { offsets, .. } => offsets.len() - 1,
        }
    }

    /// True if no value is appended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the appended values as an array. The builder is empty afterwards.
    pub fn finish(&mut self) -> ArrayRef {
        match &mut self.kind {
            BuilderKind::Boolean(builder) => Arc::new(builder.finish()),
            BuilderKind::SmallInt(builder) => Arc::new(builder.finish()),
            BuilderKind::Integer(builder) => Arc::new(builder.finish()),
            BuilderKind::BigInt(builder) => Arc::new(builder.finish()),
            BuilderKind::Real(builder) => Arc::new(builder.finish()),
            BuilderKind::Double(builder) => Arc::new(builder.finish()),
            BuilderKind::Numeric { builder, .. } => Arc::new(builder.finish()),
            BuilderKind::Text(builder) | BuilderKind::Jsonb(builder) => Arc::new(builder.finish()),
            BuilderKind::Bytea(builder) => Arc::new(builder.finish()),
            BuilderKind::Timestamp { builder, unit_ns, zoned } => {
                let units = builder.finish();
                macro_rules! timestamps {
                    ($unit:ty) => {
                        Arc::new(
                            units
                                .reinterpret_cast::<$unit>()
                                .with_timezone_opt(zoned.then_some("UTC")),
                        )
                    };
                }
                match unit_ns {
                    1 => timestamps!(TimestampNanosecondType),
                    1_000 => timestamps!(TimestampMicrosecondType),
                    1_000_000 => timestamps!(TimestampMillisecondType),
                    _ => timestamps!(TimestampSecondType),
                }
            }
            BuilderKind::Date(builder) => Arc::new(builder.finish()),
            BuilderKind::Time(builder) => Arc::new(builder.finish()),
            BuilderKind::Interval(builder) => Arc::new(builder.finish()),
            BuilderKind::Uuid(builder) => Arc::new(builder.finish()),
            BuilderKind::Array { item, child, offsets, nulls } => {
                let offsets = std::mem::replace(offsets, vec![0]);
                // Offsets never decrease: each offset is the length of the child array at the time
                // of an append.
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                let field = Arc::new(item.arrow_field("item", true));
                Arc::new(ListArray::new(field, offsets, child.finish(), nulls.finish()))
            }
        }
    }
}

/// Parses one text to an array of length 1. The text `None` becomes NULL.
///
/// # Errors
/// PostgreSQL's error for text that is not a value of the type.
pub fn parse_value(
    text: Option<&str>,
    column_type: &ColumnType,
    style: &TextStyle,
) -> Result<ArrayRef> {
    let mut builder = ColumnBuilder::new(column_type, 1);
    match text {
        Some(text) => builder.append_text(text, style)?,
        None => builder.append_null(),
    }
    Ok(builder.finish())
}

#[cfg(test)]
mod tests;
