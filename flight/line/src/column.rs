//! A column under construction, which later becomes an Arrow array.

mod finish;

use std::ops::Range;

use stratalog_model::ColumnType;

use crate::{ColumnKind, FieldValue};

/// The number that means "no column" or "no series".
pub(crate) const NONE: u32 = u32::MAX;

/// Maximal bytes of the texts of one column in a batch. Arrow's offsets have 32 bits.
const TEXT_BYTES_MAX: usize = 1 << 30;

/// The reason for which a column refused a value. The column stays unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The type of the column does not accept values of this kind.
    Kind,
    /// The value is outside of the range of the column's type.
    Range,
    /// The row already has a value in this column.
    Twice,
    /// The texts of the batch have reached [`TEXT_BYTES_MAX`].
    Full,
}

/// A column under construction: a column of the table's definition, or a new column.
///
/// ```text
/// rows of the table   0   1   2   3   4   5
/// values              a   b   0   0   e          row 5 has no value, so it is NULL; the next value
/// gaps                       2 .. 4              or the end of the batch adds row 5 to the gaps
/// ```
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: Box<str>,
    pub(crate) column_type: ColumnType,
    /// True if the definition of the table lacks the column.
    pub(crate) new: bool,
    /// The field's name and the separator before the value, as written in the first row with the
    /// field: `usage=`.
    pub(crate) label: Box<[u8]>,
    /// The number of the column whose value came after this column's value in an earlier row;
    /// [`NONE`] at first.
    pub(crate) next: u32,
    values: Values,
    /// The rows that are NULL, ascending. Rows after the last value are NULL too.
    gaps: Vec<Range<usize>>,
    /// The number of values in the last batch, as an estimate for the next batch.
    expected: usize,
}

/// The values of a column, by type. A NULL is stored as an arbitrary value.
#[derive(Debug)]
enum Values {
    Float {
        values: Vec<f64>,
        /// True if the values must lie in the range of `real`.
        single: bool,
    },
    Integer {
        values: Vec<i64>,
        lowest: i64,
        highest: i64,
    },
    /// Decimal values as multiples of the last digit.
    Numeric {
        values: Vec<i128>,
        /// The number 1 in units of the last digit.
        one: i128,
        /// The largest absolute value of the type, in units of the last digit.
        highest: i128,
    },
    Text {
        /// The end of each value's text in `bytes`.
        ends: Vec<i32>,
        bytes: Vec<u8>,
    },
    Boolean(Vec<bool>),
}

impl Values {
    fn of(column_type: &ColumnType) -> Self {
        let integer = |lowest, highest| Self::Integer { values: Vec::new(), lowest, highest };
        match column_type {
            ColumnType::Real => Self::Float { values: Vec::new(), single: true },
            ColumnType::BigInt => integer(i64::MIN, i64::MAX),
            ColumnType::Integer => integer(i32::MIN.into(), i32::MAX.into()),
            ColumnType::SmallInt => integer(i16::MIN.into(), i16::MAX.into()),
            ColumnType::Numeric { precision, scale } => {
                let ten = |digits: u8| 10_i128.checked_pow(digits.into()).unwrap_or(i128::MAX);
                Self::Numeric { values: Vec::new(), one: ten(*scale), highest: ten(*precision) - 1 }
            }
            ColumnType::Text => Self::Text { ends: Vec::new(), bytes: Vec::new() },
            ColumnType::Boolean => Self::Boolean(Vec::new()),
            // Unreachable, because no kind of value fits a column of another type.
            _ => Self::Float { values: Vec::new(), single: false },
        }
    }

    #[inline]
    fn len(&self) -> usize {
        match self {
            Self::Float { values, .. } => values.len(),
            Self::Integer { values, .. } => values.len(),
            Self::Numeric { values, .. } => values.len(),
            Self::Text { ends, .. } => ends.len(),
            Self::Boolean(values) => values.len(),
        }
    }

    /// Shortens the values to `rows`, or extends them with placeholders for NULL.
    fn resize(&mut self, rows: usize) {
        match self {
            Self::Float { values, .. } => values.resize(rows, 0.0),
            Self::Integer { values, .. } => values.resize(rows, 0),
            Self::Numeric { values, .. } => values.resize(rows, 0),
            Self::Text { ends, bytes } => {
                let end = rows.min(ends.len()).checked_sub(1).and_then(|last| ends.get(last));
                let end = end.copied().unwrap_or(0);
                ends.resize(rows, end);
                bytes.truncate(usize::try_from(end).unwrap_or(0));
            }
            Self::Boolean(values) => values.resize(rows, false),
        }
    }

    /// Frees unused capacity, which the Arrow array would otherwise keep.
    fn shrink(&mut self) {
        fn half_used<T>(values: &mut Vec<T>) {
            if values.len() < values.capacity() / 2 {
                values.shrink_to_fit();
            }
        }
        match self {
            Self::Float { values, .. } => half_used(values),
            Self::Integer { values, .. } => half_used(values),
            Self::Numeric { values, .. } => half_used(values),
            Self::Text { ends, bytes } => {
                half_used(ends);
                half_used(bytes);
            }
            Self::Boolean(values) => half_used(values),
        }
    }

    /// Reserves capacity for `rows` values. If the capacity must grow, it grows at least by a
    /// quarter. Doubling, as `Vec` does, would use more memory than the builder counts for the
    /// rows.
    fn reach(&mut self, rows: usize) {
        fn reach<T>(values: &mut Vec<T>, rows: usize) {
            if values.capacity() < rows {
                let wanted = rows.max(values.capacity() / 4 * 5);
                values.reserve_exact(wanted - values.len());
            }
        }
        match self {
            Self::Float { values, .. } => reach(values, rows),
            Self::Integer { values, .. } => reach(values, rows),
            Self::Numeric { values, .. } => reach(values, rows),
            Self::Text { ends, .. } => reach(ends, rows),
            Self::Boolean(values) => reach(values, rows),
        }
    }

    fn reserve(&mut self, rows: usize) {
        match self {
            Self::Float { values, .. } => values.reserve_exact(rows),
            Self::Integer { values, .. } => values.reserve_exact(rows),
            Self::Numeric { values, .. } => values.reserve_exact(rows),
            Self::Text { ends, .. } => ends.reserve_exact(rows),
            Self::Boolean(values) => values.reserve_exact(rows),
        }
    }
}

impl Column {
    pub(crate) fn new(name: &str, label: &[u8], column_type: ColumnType, new: bool) -> Self {
        Self {
            name: name.into(),
            label: label.into(),
            next: NONE,
            values: Values::of(&column_type),
            column_type,
            new,
            gaps: Vec::new(),
            expected: 0,
        }
    }

    /// The number of rows up to the last value.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Reserves capacity for about as many values as the last batch had.
    pub(crate) fn start_batch(&mut self) {
        let rows = std::mem::take(&mut self.expected);
        self.values.reserve(rows);
    }

    /// Makes [`Self::start_batch`] reserve no capacity for the next batch.
    pub(crate) fn skip_reservation(&mut self) {
        self.expected = 0;
    }

    /// Moves the values to a new column, and leaves this column empty.
    pub(crate) fn take(&mut self) -> Self {
        let mut taken = Self::new(&self.name, &[], self.column_type.clone(), self.new);
        std::mem::swap(&mut taken.values, &mut self.values);
        std::mem::swap(&mut taken.gaps, &mut self.gaps);
        taken.values.shrink();
        self.expected = taken.len();
        taken
    }

    /// Removes the values of `row` and of all later rows.
    pub(crate) fn truncate(&mut self, row: usize) {
        if self.values.len() <= row {
            return;
        }
        self.values.resize(row);
        while let Some(gap) = self.gaps.last_mut().filter(|gap| gap.end > row) {
            gap.end = row;
            if gap.start >= gap.end {
                self.gaps.pop();
            }
        }
    }

    /// Pads the column with NULLs for all rows before `row`.
    #[inline]
    fn reach(&mut self, row: usize) -> Result<(), Refusal> {
        if self.values.len() == row { Ok(()) } else { self.pad(row) }
    }

    #[cold]
    fn pad(&mut self, row: usize) -> Result<(), Refusal> {
        let rows = self.values.len();
        if rows > row {
            return Err(Refusal::Twice);
        }
        self.values.reach(row + 1);
        self.values.resize(row);
        match self.gaps.last_mut().filter(|gap| gap.end == rows) {
            Some(gap) => gap.end = row,
            None => self.gaps.push(rows..row),
        }
        Ok(())
    }

    /// Sets the value of a row.
    pub(crate) fn push(&mut self, row: usize, value: FieldValue<'_>) -> Result<(), Refusal> {
        match value {
            FieldValue::Float(value) => self.push_float(row, value),
            FieldValue::Integer(value) => self.push_integer(row, value),
            FieldValue::Unsigned(value) => self.push_unsigned(row, value),
            FieldValue::Text(value) => self.push_text(row, value),
            FieldValue::Boolean(value) => self.push_boolean(row, value),
        }
    }

    #[inline]
    pub(crate) fn push_float(&mut self, row: usize, value: f64) -> Result<(), Refusal> {
        self.reach(row)?;
        let Values::Float { values, single } = &mut self.values else { return Err(Refusal::Kind) };
        if *single && !fits_single(value) {
            return Err(Refusal::Range);
        }
        values.push(value);
        Ok(())
    }

    #[inline]
    pub(crate) fn push_integer(&mut self, row: usize, value: i64) -> Result<(), Refusal> {
        self.reach(row)?;
        match &mut self.values {
            Values::Integer { values, lowest, highest } => {
                if value < *lowest || value > *highest {
                    return Err(Refusal::Range);
                }
                values.push(value);
                Ok(())
            }
            _ => self.push_numeric(value.into()),
        }
    }

    #[inline]
    pub(crate) fn push_unsigned(&mut self, row: usize, value: u64) -> Result<(), Refusal> {
        match i64::try_from(value) {
            Ok(value) => self.push_integer(row, value),
            Err(_) => {
                self.reach(row)?;
                match &self.values {
                    Values::Integer { .. } => Err(Refusal::Range),
                    _ => self.push_numeric(value.into()),
                }
            }
        }
    }

    fn push_numeric(&mut self, value: i128) -> Result<(), Refusal> {
        let Values::Numeric { values, one, highest } = &mut self.values else {
            return Err(Refusal::Kind);
        };
        let units = value.checked_mul(*one).ok_or(Refusal::Range)?;
        if units < -*highest || units > *highest {
            return Err(Refusal::Range);
        }
        values.push(units);
        Ok(())
    }

    #[inline]
    pub(crate) fn push_text(&mut self, row: usize, value: &str) -> Result<(), Refusal> {
        self.reach(row)?;
        let Values::Text { ends, bytes } = &mut self.values else { return Err(Refusal::Kind) };
        let end = bytes.len() + value.len();
        let end = i32::try_from(end).ok().filter(|_| end <= TEXT_BYTES_MAX).ok_or(Refusal::Full)?;
        bytes.extend_from_slice(value.as_bytes());
        ends.push(end);
        Ok(())
    }

    #[inline]
    pub(crate) fn push_boolean(&mut self, row: usize, value: bool) -> Result<(), Refusal> {
        self.reach(row)?;
        let Values::Boolean(values) = &mut self.values else { return Err(Refusal::Kind) };
        values.push(value);
        Ok(())
    }

    /// The kind of values that this column accepts.
    pub(crate) fn kind(&self) -> ColumnKind {
        match &self.values {
            Values::Float { .. } => ColumnKind::Float,
            Values::Integer { .. } => ColumnKind::Integer,
            Values::Numeric { .. } => ColumnKind::Unsigned,
            Values::Text { .. } => ColumnKind::Text,
            Values::Boolean(_) => ColumnKind::Boolean,
        }
    }
}

/// True if the value lies in the range of the type `real`: rounding makes no finite value infinite,
/// and no other value zero.
fn fits_single(value: f64) -> bool {
    let single = value as f32;
    (single.is_finite() || !value.is_finite()) && (single != 0.0 || value == 0.0)
}

#[cfg(test)]
mod tests;
