//! Groups the rows of a batch by the values of their key columns, and builds the encoded key ("key
//! bytes") of each distinct key once instead of per row.
//!
//! ```text
//!   column ─► a small code per row ─┐
//!   column ─► a small code per row ─┴► a group per row ─► key bytes of one row per group
//! ```

use ahash::RandomState;
use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{DataType, Date32Type, Int16Type, Int32Type, Int64Type},
};
use hashbrown::HashMap;
use stratalog_model::{Error, Result};

use crate::events::{column::Column, shape::KeyColumns};

/// If the product of two numbers of codes is at most this number, groups are numbered through a
/// table; otherwise through a map.
const DIRECT_MAX: usize = 1 << 16;

/// The rows of a batch, grouped by key.
#[derive(Debug, Clone, Default)]
pub struct Groups {
    /// Group number of each row; empty if there is a single group.
    pub of_row: Vec<u32>,
    /// Key bytes of each group.
    pub keys: Vec<Box<[u8]>>,
}

impl Groups {
    /// Groups `rows` rows by their key columns. Without key columns, all rows are one group.
    pub fn of(columns: &[Column], key_columns: &KeyColumns, rows: usize) -> Result<Self> {
        let keys = key_columns_of(columns, key_columns)?;
        if keys.is_empty() {
            return Ok(Self { of_row: Vec::new(), keys: vec![Box::default()] });
        }
        let (mut of_row, groups) = grouped(&keys, rows)?;
        // Some groups may have no row, because a dictionary may have entries that no row uses.
        let mut first_row: Vec<Option<u32>> = vec![None; groups];
        for (row, group) in of_row.iter().enumerate() {
            if let Some(first @ None) = first_row.get_mut(*group as usize) {
                *first = Some(row as u32);
            }
        }
        let mut dense: Vec<u32> = Vec::with_capacity(groups);
        let mut result = Self { of_row: Vec::new(), keys: Vec::with_capacity(groups) };
        let mut key = KeyBytes::new(key_columns.fixed);
        for first in &first_row {
            dense.push(result.keys.len() as u32);
            if let Some(row) = first {
                key.clear(key_columns.fixed);
                for column in &keys {
                    key.push_of(column, *row as usize)?;
                }
                result.keys.push(key.as_bytes().into());
            }
        }
        if result.keys.len() < groups {
            for group in &mut of_row {
                *group = dense.get(*group as usize).copied().unwrap_or(0);
            }
        }
        debug_assert!(rows <= of_row.len() && result.keys.len() <= of_row.len());
        result.of_row = of_row;
        Ok(result)
    }

    /// Group number of a row.
    pub fn group(&self, row: usize) -> usize {
        self.of_row.get(row).map_or(0, |group| *group as usize)
    }
}

/// Returns the group number of each row (empty without key columns), and the number of groups. A
/// group may have no row. Unlike [`Groups::of`], builds no key bytes.
///
/// # Errors
/// `Internal` if a key column is missing.
pub fn groups_of_rows(
    columns: &[Column],
    key_columns: &KeyColumns,
    rows: usize,
) -> Result<(Vec<u32>, usize)> {
    grouped(&key_columns_of(columns, key_columns)?, rows)
}

fn key_columns_of<'a>(columns: &'a [Column], key_columns: &KeyColumns) -> Result<Vec<&'a Column>> {
    let keys: Vec<&Column> = key_columns.at.iter().filter_map(|at| columns.get(*at)).collect();
    if keys.len() != key_columns.at.len() {
        return Err(Error::internal("a key column is missing in a batch"));
    }
    Ok(keys)
}

/// Like [`groups_of_rows`], for the columns `keys`.
fn grouped(keys: &[&Column], rows: usize) -> Result<(Vec<u32>, usize)> {
    let mut of_row: Vec<u32> = Vec::new();
    let mut groups = 1_usize;
    for column in keys {
        let (codes, distinct) = codes(column, rows)?;
        // True while each group has a row: a dictionary may have entries that no row uses.
        let mut each_has_rows = matches!(column, Column::Plain(_));
        if groups == 1 {
            (of_row, groups) = (codes, distinct);
        } else {
            groups = combine(&mut of_row, groups, &codes, distinct);
            each_has_rows = true;
        }
        // Each row is a group: no further column can split a group.
        if each_has_rows && groups == rows {
            break;
        }
    }
    Ok((of_row, groups))
}

/// Builds the encoded key (key bytes) of a row, value by value.
#[derive(Debug, Clone)]
pub struct KeyBytes {
    bytes: Vec<u8>,
    /// Number of columns still to come that were in the key from the beginning.
    fixed: usize,
    /// Length of the key without trailing empty values of added columns.
    end: usize,
}

impl KeyBytes {
    /// An empty key. `fixed` is the number of columns that were in the key from the beginning.
    pub fn new(fixed: usize) -> Self {
        Self { bytes: Vec::with_capacity(24), fixed, end: 0 }
    }

    /// Begins another key in the same buffer.
    pub fn clear(&mut self, fixed: usize) {
        self.bytes.clear();
        (self.fixed, self.end) = (fixed, 0);
    }

    /// Adds the value of the next key column.
    pub fn push(&mut self, array: &ArrayRef, row: usize) -> Result<()> {
        let start = self.bytes.len();
        key_part(array, row, &mut self.bytes)?;
        self.end_part(start);
        Ok(())
    }

    /// Adds the value of the next key column, from a stored column.
    pub fn push_of(&mut self, column: &Column, row: usize) -> Result<()> {
        let coded = match column {
            Column::Plain(array) => return self.push(array, row),
            Column::Coded8 { codes, values } => {
                codes.values().get(row).map(|code| (values, usize::from(*code)))
            }
            Column::Coded16 { codes, values } => {
                codes.values().get(row).map(|code| (values, usize::from(*code)))
            }
        };
        let coded = coded.filter(|(values, code)| *code < values.len());
        let (values, code) = coded.ok_or_else(|| Error::internal("a key has no text"))?;
        let start = self.bytes.len();
        text_part(values.value(code), &mut self.bytes);
        self.end_part(start);
        Ok(())
    }

    /// Completes the value that begins at `start`.
    fn end_part(&mut self, start: usize) {
        debug_assert!(start < self.bytes.len(), "a key value has no bytes");
        debug_assert!(self.end <= start, "a key value lies before the end of the key");
        let is_empty = self.fixed == 0 && self.bytes.get(start..) == Some(&EMPTY_TEXT[..]);
        self.fixed = self.fixed.saturating_sub(1);
        if !is_empty {
            self.end = self.bytes.len();
        }
    }

    /// The key so far, in the form of [`Self::finish`].
    pub fn as_bytes(&self) -> &[u8] {
        debug_assert!(self.end <= self.bytes.len(), "the key ends behind its bytes");
        self.bytes.get(..self.end).unwrap_or_default()
    }

    /// Returns the key, without trailing empty values of columns that were added to the key later.
    pub fn finish(mut self) -> Vec<u8> {
        debug_assert!(self.end <= self.bytes.len(), "the key ends behind its bytes");
        self.bytes.truncate(self.end);
        self.bytes
    }
}

/// The encoding of the text ''.
const EMPTY_TEXT: [u8; 2] = [0, 0];

/// Appends the encoding of one key value. Equal values have equal encodings, and the encodings sort
/// like the values. No encoding is a prefix of another.
fn key_part(array: &ArrayRef, row: usize, key: &mut Vec<u8>) -> Result<()> {
    match array.data_type() {
        DataType::Utf8View => text_part(array.as_string_view().value(row), key),
        DataType::FixedSizeBinary(_) => key.extend(array.as_fixed_size_binary().value(row)),
        _ => key.extend((integer(array, row)? ^ i64::MIN).to_be_bytes()),
    }
    Ok(())
}

/// Appends the encoding of a text. A zero byte in the text is followed by 255; the end of the text
/// is a zero byte followed by 0.
fn text_part(text: &str, key: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    if bytes.contains(&0) {
        for part in bytes.split_inclusive(|byte| *byte == 0) {
            key.extend_from_slice(part);
            if part.last() == Some(&0) {
                key.push(255);
            }
        }
    } else {
        key.extend_from_slice(bytes);
    }
    key.extend_from_slice(&EMPTY_TEXT);
}

/// Returns a key value of an integer-like type as i64.
pub fn integer(array: &ArrayRef, row: usize) -> Result<i64> {
    Ok(match array.data_type() {
        DataType::Boolean => i64::from(array.as_boolean().value(row)),
        DataType::Int16 => i64::from(array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => i64::from(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row),
        DataType::Date32 => i64::from(array.as_primitive::<Date32Type>().value(row)),
        other => return Err(Error::internal(format!("{other} is no type of a key column"))),
    })
}

/// Returns a code for each row, and the number of codes. Rows have equal codes if and only if they
/// have equal values.
fn codes(column: &Column, rows: usize) -> Result<(Vec<u32>, usize)> {
    debug_assert!(rows <= column.len(), "a key column lacks rows");
    Ok(match column {
        Column::Coded8 { codes, values } => {
            (codes.values().iter().map(|code| u32::from(*code)).collect(), values.len())
        }
        Column::Coded16 { codes, values } => {
            (codes.values().iter().map(|code| u32::from(*code)).collect(), values.len())
        }
        Column::Plain(array) => match array.data_type() {
            DataType::Utf8View => {
                let text = array.as_string_view();
                number((0..rows).map(|row| text.value(row)))
            }
            DataType::FixedSizeBinary(_) => {
                let bytes = array.as_fixed_size_binary();
                number((0..rows).map(|row| bytes.value(row)))
            }
            DataType::Int64 => number(array.as_primitive::<Int64Type>().values().iter()),
            DataType::Int32 => number(array.as_primitive::<Int32Type>().values().iter()),
            _ => {
                let values = (0..rows).map(|row| integer(array, row));
                number(values.collect::<Result<Vec<_>>>()?.iter())
            }
        },
    })
}

fn number<T: std::hash::Hash + Eq>(values: impl Iterator<Item = T>) -> (Vec<u32>, usize) {
    let rows = values.size_hint().0;
    let mut codes: HashMap<T, u32, RandomState> =
        HashMap::with_capacity_and_hasher(rows / 2, RandomState::default());
    let numbered: Vec<u32> = values
        .map(|value| {
            let next = codes.len() as u32;
            *codes.entry(value).or_insert(next)
        })
        .collect();
    debug_assert!(codes.len() <= numbered.len(), "more distinct values than values");
    (numbered, codes.len())
}

/// Splits each group by the codes of a further column; returns the new number of groups.
fn combine(of_row: &mut [u32], groups: usize, codes: &[u32], distinct: usize) -> usize {
    debug_assert_eq!(of_row.len(), codes.len());
    if let Some(product) = groups.checked_mul(distinct).filter(|n| *n <= DIRECT_MAX) {
        let mut table: Vec<u32> = vec![u32::MAX; product];
        let mut next = 0;
        for (group, code) in of_row.iter_mut().zip(codes) {
            let at = *group as usize * distinct + *code as usize;
            if let Some(slot) = table.get_mut(at) {
                if *slot == u32::MAX {
                    *slot = next;
                    next += 1;
                }
                *group = *slot;
            }
        }
        debug_assert!(next as usize <= of_row.len(), "more groups than rows");
        return next as usize;
    }
    let mut table: HashMap<(u32, u32), u32, RandomState> =
        HashMap::with_capacity_and_hasher(of_row.len() / 2, RandomState::default());
    for (group, code) in of_row.iter_mut().zip(codes) {
        let next = table.len() as u32;
        *group = *table.entry((*group, *code)).or_insert(next);
    }
    debug_assert!(table.len() <= of_row.len(), "more groups than rows");
    table.len()
}

#[cfg(test)]
mod tests;
