//! A stored column: in the declared type or, for text, dictionary-encoded ("coded").

use std::sync::Arc;

use ahash::RandomState;
use arrow::{
    array::{
        Array, ArrayRef, AsArray, BooleanArray, Int64Array, NullBufferBuilder, StringViewArray,
        StringViewBuilder, UInt8Array, UInt16Array, UInt32Array, new_null_array,
    },
    buffer::NullBuffer,
    compute::{cast, concat, filter, take},
    datatypes::{DataType, Field},
};
use hashbrown::HashMap;
use stratalog_model::{
    ColumnDefinition, Result,
    ipc::{array_bytes, view_bytes},
};

use super::constant;

/// With fewer rows than this, a dictionary never saves space.
const DICTIONARY_ROWS_MIN: usize = 16;

/// Maximum number of dictionary entries, so that the code of one more entry still fits a `u16`.
const DICTIONARY_ENTRIES_MAX: usize = (1 << 16) - 1;

/// One column of a batch.
#[derive(Debug, Clone)]
pub enum Column {
    /// Values in the declared Arrow type.
    Plain(ArrayRef),
    /// Dictionary-encoded text with at most 256 distinct values.
    Coded8 {
        /// For each row, the position of its text in `values`; NULL where the text is NULL.
        codes: UInt8Array,
        /// The dictionary: the distinct values, without NULL.
        values: StringViewArray,
    },
    /// Dictionary-encoded text with at most 65,535 distinct values.
    Coded16 {
        /// For each row, the position of its text in `values`; NULL where the text is NULL.
        codes: UInt16Array,
        /// The dictionary: the distinct values, without NULL.
        values: StringViewArray,
    },
}

impl Column {
    /// Converts `array` into a stored column. Text is dictionary-encoded if this saves at least
    /// half of the space. Text that points into larger buffers is copied.
    pub fn store(array: &ArrayRef) -> Result<Self> {
        match array.data_type() {
            DataType::Utf8View => {
                let text = array.as_string_view();
                Ok(match code(text) {
                    Some(coded) => coded,
                    None => Self::Plain(Arc::new(text.gc())),
                })
            }
            // Copies only the needed elements: `take` drops the list elements of other rows, and
            // the cast to an offset-based type and back drops the text of other rows.
            DataType::List(item) if item.data_type() == &DataType::Utf8View => {
                let flat = DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)));
                let rows = UInt32Array::from_iter_values(0..array.len() as u32);
                let own = take(array, &rows, None)?;
                Ok(Self::Plain(cast(&cast(&own, &flat)?, array.data_type())?))
            }
            _ => Ok(Self::Plain(Arc::clone(array))),
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Plain(array) => array.len(),
            Self::Coded8 { codes, .. } => codes.len(),
            Self::Coded16 { codes, .. } => codes.len(),
        }
    }

    /// The validity of the rows: set for a value, not set for NULL. `None` if no row has NULL.
    pub fn nulls(&self) -> Option<&NullBuffer> {
        let nulls = match self {
            Self::Plain(array) => array.nulls(),
            Self::Coded8 { codes, .. } => codes.nulls(),
            Self::Coded16 { codes, .. } => codes.nulls(),
        };
        nulls.filter(|nulls| nulls.null_count() > 0)
    }

    /// Returns the rows `[start, start + len)` in the declared type.
    pub fn slice(&self, start: usize, len: usize) -> Result<ArrayRef> {
        debug_assert!(
            start.checked_add(len).is_some_and(|end| end <= self.len()),
            "a slice continues behind the last row"
        );
        Ok(match self {
            Self::Plain(array) => array.slice(start, len),
            Self::Coded8 { codes, values } => take(values, &codes.slice(start, len), None)?,
            Self::Coded16 { codes, values } => take(values, &codes.slice(start, len), None)?,
        })
    }

    /// Returns the rows with the numbers `rows`, in the declared type.
    pub fn rows(&self, rows: &UInt32Array) -> Result<ArrayRef> {
        debug_assert!(
            rows.iter().flatten().all(|row| (row as usize) < self.len()),
            "a row behind the last row is read"
        );
        Ok(match self {
            Self::Plain(array) => take(array, rows, None)?,
            Self::Coded8 { codes, values } => take(values, &take(codes, rows, None)?, None)?,
            Self::Coded16 { codes, values } => take(values, &take(codes, rows, None)?, None)?,
        })
    }

    /// Returns the rows with the numbers `rows`, encoded like a result of [`Self::store`].
    pub fn pick(&self, rows: &UInt32Array) -> Result<Self> {
        let coded = match self {
            Self::Plain(_) => None,
            Self::Coded8 { codes, values } => {
                let code = |row: u32| codes.values().get(row as usize).map(|code| u32::from(*code));
                recode(rows.values(), code, codes.nulls(), values)
            }
            Self::Coded16 { codes, values } => {
                let code = |row: u32| codes.values().get(row as usize).map(|code| u32::from(*code));
                recode(rows.values(), code, codes.nulls(), values)
            }
        };
        match coded {
            Some(coded) => Ok(coded),
            None => Self::store(&self.rows(rows)?),
        }
    }

    /// Returns the rows that `mask` selects, in the same encoding.
    pub fn filter(&self, mask: &BooleanArray) -> Result<Self> {
        debug_assert_eq!(mask.len(), self.len(), "a mask of another length");
        Ok(match self {
            Self::Plain(array) => Self::Plain(filter(array, mask)?),
            Self::Coded8 { codes, values } => Self::Coded8 {
                codes: filter(codes, mask)?.as_primitive().clone(),
                values: values.clone(),
            },
            Self::Coded16 { codes, values } => Self::Coded16 {
                codes: filter(codes, mask)?.as_primitive().clone(),
                values: values.clone(),
            },
        })
    }

    /// Concatenates columns of the same declared type.
    pub fn concat(parts: &[Column]) -> Result<Self> {
        debug_assert!(!parts.is_empty(), "there is no column to concatenate");
        if let [Self::Plain(array)] = parts {
            return Self::store(array);
        }
        if let Some(coded) = concat_codes(parts) {
            return Ok(coded);
        }
        let arrays =
            parts.iter().map(|part| part.slice(0, part.len())).collect::<Result<Vec<_>>>()?;
        let views: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        let joined = Self::store(&concat(&views)?)?;
        debug_assert_eq!(
            joined.len(),
            parts.iter().map(Column::len).sum::<usize>(),
            "rows are lost in a concatenation"
        );
        Ok(joined)
    }

    /// Approximate size of the rows in bytes; exact for types without nesting.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Plain(array) => array_bytes(array),
            Self::Coded8 { codes, values } => codes.len() + view_bytes(values),
            Self::Coded16 { codes, values } => 2 * codes.len() + view_bytes(values),
        }
    }

    /// Returns the values that `rows` rows show for a column that was added after them: the missing
    /// value of the definition.
    ///
    /// # Errors
    /// `Internal` if the missing value in the definition is not a value of the type.
    pub fn missing(definition: &ColumnDefinition, rows: usize) -> Result<Self> {
        let missing = definition.missing_value.as_deref();
        Self::constant(missing, &definition.column_type.arrow_type(), rows)
    }

    /// Returns `rows` copies of a value given as text, or of NULL if `text` is `None`.
    fn constant(text: Option<&str>, data_type: &DataType, rows: usize) -> Result<Self> {
        let Some(text) = text else { return Ok(Self::Plain(new_null_array(data_type, rows))) };
        let zeros = Int64Array::from_value(0, rows);
        Ok(Self::Plain(take(&constant::value(text, data_type)?, &zeros, None)?))
    }
}

/// Maximum number of dictionary entries for a column of `rows` rows; `None` if the column has too
/// few rows for a dictionary.
fn entries_max(rows: usize) -> Option<usize> {
    // Fewer than 65,536: otherwise the code of a new entry would wrap around to the code of an old
    // entry.
    (rows >= DICTIONARY_ROWS_MIN).then(|| (rows / 4).clamp(4, DICTIONARY_ENTRIES_MAX))
}

/// Builds a dictionary-encoded column. The codes are below 65,536, and each is a position in
/// `values`.
fn coded(codes: Vec<u16>, nulls: Option<NullBuffer>, values: StringViewArray) -> Column {
    debug_assert!(values.len() <= DICTIONARY_ENTRIES_MAX, "the dictionary has too many entries");
    debug_assert!(
        codes.iter().all(|code| usize::from(*code) < values.len().max(1)),
        "a code has no entry"
    );
    debug_assert!(
        nulls.as_ref().is_none_or(|nulls| nulls.len() == codes.len()),
        "the validity has another length than the codes"
    );
    if values.len() <= 256 {
        let codes: Vec<u8> = codes.iter().map(|code| *code as u8).collect();
        return Column::Coded8 { codes: UInt8Array::new(codes.into(), nulls), values };
    }
    Column::Coded16 { codes: UInt16Array::new(codes.into(), nulls), values }
}

/// Selects rows of a dictionary-encoded column, and builds a new dictionary in order of first
/// appearance. `None` if a dictionary would not save half of the space.
fn recode(
    rows: &[u32],
    code: impl Fn(u32) -> Option<u32>,
    nulls: Option<&NullBuffer>,
    values: &StringViewArray,
) -> Option<Column> {
    let entries_max = entries_max(rows.len())?;
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
    let nulls = nulls.map(|nulls| {
        let valid = |row: &u32| (*row as usize) < nulls.len() && nulls.is_valid(*row as usize);
        rows.iter().map(valid).collect::<NullBuffer>()
    });
    let mut renumbered = vec![u16::MAX; values.len()];
    let mut used = StringViewBuilder::new();
    let mut count = 0;
    let mut codes: Vec<u16> = Vec::with_capacity(rows.len());
    for (at, row) in rows.iter().enumerate() {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)) {
            codes.push(0);
            continue;
        }
        let old = code(*row)? as usize;
        let slot = renumbered.get_mut(old)?;
        if *slot == u16::MAX {
            if count >= entries_max {
                return None;
            }
            *slot = count as u16;
            count += 1;
            used.append_value(values.value(old));
        }
        codes.push(*slot);
    }
    debug_assert_eq!(codes.len(), rows.len(), "a picked row has no code");
    debug_assert!(count <= entries_max, "the dictionary has too many entries");
    Some(coded(codes, nulls, used.finish()))
}

/// Concatenates dictionary-encoded columns into one with a single dictionary. `None` if a part is
/// not dictionary-encoded, or if a dictionary would not save half of the space.
fn concat_codes(parts: &[Column]) -> Option<Column> {
    let rows = parts.iter().map(Column::len).sum();
    let entries_max = entries_max(rows)?;
    let mut by_text: HashMap<&str, u16, RandomState> = HashMap::default();
    let mut joined_values = StringViewBuilder::new();
    let mut codes: Vec<u16> = Vec::with_capacity(rows);
    let mut nulls = NullBufferBuilder::new(rows);
    for part in parts {
        let (Column::Coded8 { values, .. } | Column::Coded16 { values, .. }) = part else {
            return None;
        };
        let mut renumbered: Vec<u16> = Vec::with_capacity(values.len());
        for text in values.iter().flatten() {
            let next = by_text.len();
            let code = *by_text.entry(text).or_insert(next as u16);
            if usize::from(code) == next {
                if next >= entries_max {
                    return None;
                }
                joined_values.append_value(text);
            }
            renumbered.push(code);
        }
        let new = |old: usize| renumbered.get(old).copied().unwrap_or_default();
        let own = match part {
            Column::Coded8 { codes: old, .. } => {
                codes.extend(old.values().iter().map(|old| new(usize::from(*old))));
                old.nulls()
            }
            Column::Coded16 { codes: old, .. } => {
                codes.extend(old.values().iter().map(|old| new(usize::from(*old))));
                old.nulls()
            }
            Column::Plain(_) => return None,
        };
        match own {
            Some(own) => nulls.append_buffer(own),
            None => nulls.append_n_non_nulls(part.len()),
        }
    }
    debug_assert_eq!(codes.len(), rows, "a row has no code");
    debug_assert!(by_text.len() <= entries_max, "the dictionary has too many entries");
    Some(coded(codes, nulls.finish(), joined_values.finish()))
}

/// Dictionary-encodes `text`; `None` if this would not save half of the space.
fn code(text: &StringViewArray) -> Option<Column> {
    let rows = text.len();
    let entries_max = entries_max(rows)?;
    let mut by_text: HashMap<&[u8], u16, RandomState> = HashMap::default();
    let mut by_view: HashMap<u128, u16, RandomState> = HashMap::default();
    let mut first_rows: Vec<u32> = Vec::new();
    let mut codes: Vec<u16> = Vec::with_capacity(rows);
    let nulls = text.nulls();
    for (row, view) in text.views().iter().enumerate() {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            codes.push(0);
            continue;
        }
        let next = first_rows.len();
        // The view of a text of up to 12 bytes contains the whole text (padded with zeros): the
        // view itself is the map key.
        let code = if (*view as u32) <= 12 {
            *by_view.entry(*view).or_insert(next as u16)
        } else {
            *by_text.entry(text.value(row).as_bytes()).or_insert(next as u16)
        };
        if usize::from(code) == next {
            if next >= entries_max {
                return None;
            }
            first_rows.push(row as u32);
        }
        codes.push(code);
    }
    debug_assert_eq!(codes.len(), rows, "a row has no code");
    debug_assert_eq!(
        by_view.len() + by_text.len(),
        first_rows.len(),
        "a text has two entries in the dictionary"
    );
    let mut values = StringViewBuilder::with_capacity(first_rows.len());
    for row in &first_rows {
        values.append_value(text.value(*row as usize));
    }
    Some(coded(codes, nulls.cloned(), values.finish()))
}

#[cfg(test)]
mod tests;
