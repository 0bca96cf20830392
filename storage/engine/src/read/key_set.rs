//! The key filters of a request, prepared for fast comparison with columns.

use std::sync::Arc;

use ahash::RandomState;
use arrow::{
    array::{Array, ArrayRef, AsArray, PrimitiveArray, StringViewArray},
    datatypes::{ArrowPrimitiveType, DataType},
};
use hashbrown::HashSet;
use stratalog_model::{Error, Result, tier::ScanRequest};

use crate::events::{column::Column, keys::integer};

/// The allowed values of one key column.
#[derive(Debug, Clone)]
pub struct KeySet {
    /// Position of the column in the chronicle's definition.
    pub column: usize,
    values: Values,
}

#[derive(Debug, Clone)]
enum Values {
    Texts(Texts),
    Bytes(HashSet<Box<[u8]>, RandomState>),
    Integers(HashSet<i64, RandomState>),
}

impl KeySet {
    /// Prepares the key filters of a request.
    ///
    /// # Errors
    /// `Internal` if the values of a filter do not have the type of their column.
    pub fn of(request: &ScanRequest) -> Result<Arc<[KeySet]>> {
        request
            .keys
            .iter()
            .map(|filter| {
                let declared = request.chronicle.columns.get(filter.column);
                let wanted = declared.map(|column| column.column_type.arrow_type());
                if wanted.as_ref() != Some(filter.values.data_type()) {
                    return Err(Error::internal(format!(
                        "a key filter on column {} has values of {}",
                        filter.column,
                        filter.values.data_type()
                    )));
                }
                Ok(KeySet { column: filter.column, values: Values::of(&filter.values)? })
            })
            .collect()
    }

    /// For each row of `column`, true if the value is allowed.
    pub fn matches(&self, column: &Column) -> Result<Vec<bool>> {
        let mut matches = vec![false; column.len()];
        self.each_row(column, |row| {
            if let Some(matches) = matches.get_mut(row) {
                *matches = true;
            }
        })?;
        Ok(matches)
    }

    /// The rows of `column` with an allowed value, ascending.
    pub fn rows(&self, column: &Column) -> Result<Vec<u32>> {
        let mut rows = Vec::new();
        self.each_row(column, |row| rows.push(row as u32))?;
        debug_assert!(
            rows.is_sorted_by(|a, b| a < b),
            "the rows with wanted keys are not in order"
        );
        debug_assert!(
            rows.last().is_none_or(|last| (*last as usize) < column.len()),
            "a row lies behind its column"
        );
        Ok(rows)
    }

    /// Removes the entries of `rows` whose value in `column` is not allowed.
    pub fn retain(&self, column: &Column, rows: &mut Vec<u32>) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        debug_assert!(
            rows.iter().all(|row| (*row as usize) < column.len()),
            "a row lies behind its column"
        );
        match column {
            Column::Plain(array) => {
                let mut kept = Vec::with_capacity(rows.len());
                for row in rows.iter() {
                    if self.has(array, *row as usize)? {
                        kept.push(*row);
                    }
                }
                *rows = kept;
            }
            Column::Coded8 { codes, values } => {
                let wanted = self.entries(values)?;
                rows.retain(|row| at(&wanted, codes, *row as usize));
            }
            Column::Coded16 { codes, values } => {
                let wanted = self.entries(values)?;
                rows.retain(|row| at(&wanted, codes, *row as usize));
            }
        }
        Ok(())
    }

    /// Calls `found` for each row of `column` with an allowed value, ascending.
    fn each_row(&self, column: &Column, mut found: impl FnMut(usize)) -> Result<()> {
        match (column, &self.values) {
            (Column::Plain(array), Values::Texts(texts)) => match array.as_string_view_opt() {
                Some(text) => texts.each_row(text, found),
                None => return Err(no_key(array.data_type())),
            },
            (Column::Plain(array), _) => {
                for row in 0..array.len() {
                    if self.has(array, row)? {
                        found(row);
                    }
                }
            }
            (Column::Coded8 { codes, values }, _) => {
                let wanted = self.entries(values)?;
                if wanted.contains(&true) {
                    let rows = 0..codes.len();
                    rows.filter(|row| at(&wanted, codes, *row)).for_each(&mut found);
                }
            }
            (Column::Coded16 { codes, values }, _) => {
                let wanted = self.entries(values)?;
                if wanted.contains(&true) {
                    let rows = 0..codes.len();
                    rows.filter(|row| at(&wanted, codes, *row)).for_each(&mut found);
                }
            }
        }
        Ok(())
    }

    /// For each entry of a dictionary, true if the text is allowed.
    fn entries(&self, values: &StringViewArray) -> Result<Vec<bool>> {
        let Values::Texts(texts) = &self.values else { return Err(no_key(values.data_type())) };
        let mut wanted = vec![false; values.len()];
        texts.each_row(values, |entry| {
            if let Some(wanted) = wanted.get_mut(entry) {
                *wanted = true;
            }
        });
        Ok(wanted)
    }

    fn has(&self, array: &ArrayRef, row: usize) -> Result<bool> {
        if array.is_null(row) {
            return Ok(false);
        }
        Ok(match &self.values {
            Values::Texts(texts) => {
                let text = array.as_string_view_opt().ok_or_else(|| no_key(array.data_type()))?;
                texts.all.contains(text.value(row).as_bytes())
            }
            Values::Bytes(values) => {
                let bytes = array.as_fixed_size_binary_opt();
                let bytes = bytes.ok_or_else(|| no_key(array.data_type()))?;
                values.contains(bytes.value(row))
            }
            Values::Integers(values) => values.contains(&integer(array, row)?),
        })
    }
}

impl Values {
    fn of(array: &ArrayRef) -> Result<Self> {
        let rows = (0..array.len()).filter(|row| !array.is_null(*row));
        Ok(match array.data_type() {
            DataType::Utf8View => Self::Texts(Texts::of(array.as_string_view())),
            DataType::FixedSizeBinary(_) => {
                let bytes = array.as_fixed_size_binary();
                Self::Bytes(rows.map(|row| bytes.value(row).into()).collect())
            }
            _ => Self::Integers(rows.map(|row| integer(array, row)).collect::<Result<_>>()?),
        })
    }
}

/// The allowed texts. A comparison of the length and the first four bytes rejects most rows before
/// their text is read.
#[derive(Debug, Clone, Default)]
struct Texts {
    all: HashSet<Box<[u8]>, RandomState>,
    /// For each allowed text, the lower half of its string view: length, and first four bytes.
    heads: HashSet<u64, RandomState>,
}

impl Texts {
    fn of(text: &StringViewArray) -> Self {
        let mut texts = Self::default();
        for (row, view) in text.views().iter().enumerate() {
            if text.is_valid(row) {
                texts.heads.insert(head(*view));
                texts.all.insert(text.value(row).as_bytes().into());
            }
        }
        debug_assert!(texts.heads.len() <= texts.all.len(), "a head belongs to no text");
        texts
    }

    /// Calls `found` for each row of `text` with an allowed text, ascending.
    fn each_row(&self, text: &StringViewArray, mut found: impl FnMut(usize)) {
        let mut check = |row: usize| {
            if text.is_valid(row) && self.all.contains(text.value(row).as_bytes()) {
                found(row);
            }
        };
        let views = text.views().iter().enumerate();
        let mut heads = self.heads.iter();
        match (heads.next(), heads.next()) {
            (None, _) => {}
            (Some(only), None) => {
                views.filter(|(_, view)| head(**view) == *only).for_each(|(row, _)| check(row));
            }
            _ => views
                .filter(|(_, view)| self.heads.contains(&head(**view)))
                .for_each(|(row, _)| check(row)),
        }
    }
}

fn head(view: u128) -> u64 {
    view as u64
}

/// True if the dictionary code of row `row` is allowed. NULL is never allowed.
fn at<T: ArrowPrimitiveType<Native: Into<usize>>>(
    wanted: &[bool],
    codes: &PrimitiveArray<T>,
    row: usize,
) -> bool {
    let code = codes.values().get(row).map(|code| (*code).into());
    code.and_then(|code: usize| wanted.get(code)).copied().unwrap_or(false) && codes.is_valid(row)
}

fn no_key(data_type: &DataType) -> Error {
    Error::internal(format!("{data_type} is no type of a key column"))
}
