//! Converts columns to Arrow arrays.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{
        ArrayRef, ArrowPrimitiveType, BooleanArray, BooleanBufferBuilder, Decimal128Array,
        PrimitiveArray, StringArray, StringViewArray,
    },
    buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer},
    datatypes::{Float32Type, Float64Type, Int16Type, Int32Type, Int64Type},
};
use stratalog_model::{ColumnType, Error, ErrorKind, Result};

use super::{Column, Refusal, Values};
use crate::FieldValue;

impl Column {
    /// Converts the column to an array of `rows` rows and of type `column_type`. This type may
    /// differ from the type of the collected values, because the table may have changed in the
    /// meantime.
    ///
    /// # Errors
    /// `DatatypeMismatch` or `NumericOutOfRange` if `column_type` cannot hold the values.
    pub(crate) fn into_array(mut self, rows: usize, column_type: &ColumnType) -> Result<ArrayRef> {
        if *column_type != self.column_type {
            self = self.converted(column_type)?;
        }
        if self.len() < rows {
            self.gaps.push(self.len()..rows);
            self.values.resize(rows);
        }
        let nulls = nulls(&self.gaps, rows);
        Ok(match self.values {
            Values::Float { values, single: false } => primitive::<Float64Type>(values, nulls),
            Values::Float { values, single: true } => {
                let singles = values.into_iter().map(|value| value as f32).collect();
                primitive::<Float32Type>(singles, nulls)
            }
            // The casts lose no digits, because `push` has checked each value against the range of
            // the type.
            Values::Integer { values, .. } => match column_type {
                ColumnType::SmallInt => {
                    let small = values.into_iter().map(|value| value as i16).collect();
                    primitive::<Int16Type>(small, nulls)
                }
                ColumnType::Integer => {
                    let small = values.into_iter().map(|value| value as i32).collect();
                    primitive::<Int32Type>(small, nulls)
                }
                _ => primitive::<Int64Type>(values, nulls),
            },
            Values::Numeric { values, .. } => Arc::new(
                Decimal128Array::new(values.into(), nulls).with_data_type(column_type.arrow_type()),
            ),
            Values::Text { ends, bytes } => {
                let mut offsets = Vec::with_capacity(ends.len() + 1);
                offsets.push(0);
                offsets.extend_from_slice(&ends);
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                let texts = StringArray::try_new(offsets, Buffer::from(bytes), nulls)?;
                Arc::new(StringViewArray::from(&texts))
            }
            Values::Boolean(values) => {
                Arc::new(BooleanArray::new(BooleanBuffer::from(values.as_slice()), nulls))
            }
        })
    }

    /// Converts the values to a column of another type.
    fn converted(self, column_type: &ColumnType) -> Result<Self> {
        let mut other = Self::new(&self.name, &[], column_type.clone(), self.new);
        let refused = |refusal| match refusal {
            Refusal::Range => Error::new(
                ErrorKind::NumericOutOfRange,
                format!("a value of column \"{}\" is out of range for {column_type}", self.name),
            )
            .with_hint("the table was changed during the request: send the data again"),
            _ => Error::new(
                ErrorKind::DatatypeMismatch,
                format!(
                    "column \"{}\" is of type {column_type}, and the data was read as {}",
                    self.name, self.column_type
                ),
            )
            .with_hint("the table was changed during the request: send the data again"),
        };
        if !self.kind().fits(column_type) {
            return Err(refused(Refusal::Kind));
        }
        let mut gaps = self.gaps.iter().peekable();
        for row in 0..self.len() {
            while gaps.next_if(|gap| gap.end <= row).is_some() {}
            if gaps.peek().is_some_and(|gap| gap.contains(&row)) {
                continue;
            }
            let value = self.value(row).ok_or_else(|| refused(Refusal::Range))?;
            other.push(row, value).map_err(refused)?;
        }
        Ok(other)
    }

    /// The value of a row that is not NULL; `None` for a decimal that no [`FieldValue`] can
    /// express.
    fn value(&self, row: usize) -> Option<FieldValue<'_>> {
        Some(match &self.values {
            Values::Float { values, .. } => FieldValue::Float(*values.get(row)?),
            Values::Integer { values, .. } => FieldValue::Integer(*values.get(row)?),
            Values::Numeric { values, one, .. } => {
                let whole = values.get(row)?.checked_div(*one)?;
                match u64::try_from(whole) {
                    Ok(value) => FieldValue::Unsigned(value),
                    Err(_) => FieldValue::Integer(i64::try_from(whole).ok()?),
                }
            }
            Values::Text { ends, bytes } => {
                let start = row.checked_sub(1).and_then(|row| ends.get(row)).copied();
                let start = usize::try_from(start.unwrap_or(0)).ok()?;
                let end = usize::try_from(*ends.get(row)?).ok()?;
                FieldValue::Text(std::str::from_utf8(bytes.get(start..end)?).ok()?)
            }
            Values::Boolean(values) => FieldValue::Boolean(*values.get(row)?),
        })
    }
}

fn primitive<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls))
}

/// The null buffer of `rows` rows: the rows of `gaps` are NULL.
fn nulls(gaps: &[Range<usize>], rows: usize) -> Option<NullBuffer> {
    gaps.first()?;
    let mut valid = BooleanBufferBuilder::new(rows);
    for gap in gaps {
        valid.append_n(gap.start.saturating_sub(valid.len()), true);
        valid.append_n(gap.len(), false);
    }
    valid.append_n(rows.saturating_sub(valid.len()), true);
    Some(NullBuffer::new(valid.finish()))
}
