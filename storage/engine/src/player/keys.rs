//! Key filters of a request, prepared once.

use std::sync::Arc;

use ahash::RandomState;
use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::DataType,
};
use hashbrown::HashSet;
use stratalog_model::{Error, Result, tier::ScanRequest};

use crate::{keeper::keys::integer, memtable::column::Column};

/// The values that one column may have.
#[derive(Debug, Clone)]
pub struct KeySet {
    /// Position in the definition's columns.
    pub column: usize,
    values: Values,
}

#[derive(Debug, Clone)]
enum Values {
    Bytes(HashSet<Box<[u8]>, RandomState>),
    Integers(HashSet<i64, RandomState>),
}

impl KeySet {
    /// The key filters of a request.
    ///
    /// # Errors
    /// `Internal` for a filter that does not fit its column.
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

    /// Whether row by row of `column` has one of the values.
    pub fn matches(&self, column: &Column) -> Result<Vec<bool>> {
        Ok(match column {
            Column::Plain(array) => {
                (0..array.len()).map(|row| self.has(array, row)).collect::<Result<_>>()?
            }
            Column::Coded8 { codes, values } => {
                let wanted = self.entries(values)?;
                codes.iter().map(|code| at(&wanted, code.map(usize::from))).collect()
            }
            Column::Coded16 { codes, values } => {
                let wanted = self.entries(values)?;
                codes.iter().map(|code| at(&wanted, code.map(usize::from))).collect()
            }
        })
    }

    fn entries(&self, values: &arrow::array::StringViewArray) -> Result<Vec<bool>> {
        let values: ArrayRef = Arc::new(values.clone());
        (0..values.len()).map(|row| self.has(&values, row)).collect()
    }

    fn has(&self, array: &ArrayRef, row: usize) -> Result<bool> {
        if array.is_null(row) {
            return Ok(false);
        }
        Ok(match &self.values {
            Values::Bytes(values) => values.contains(bytes(array, row)?),
            Values::Integers(values) => values.contains(&integer(array, row)?),
        })
    }
}

impl Values {
    fn of(array: &ArrayRef) -> Result<Self> {
        let rows = (0..array.len()).filter(|row| !array.is_null(*row));
        Ok(match array.data_type() {
            DataType::Utf8View | DataType::FixedSizeBinary(_) => {
                Self::Bytes(rows.map(|row| Ok(bytes(array, row)?.into())).collect::<Result<_>>()?)
            }
            _ => Self::Integers(rows.map(|row| integer(array, row)).collect::<Result<_>>()?),
        })
    }
}

fn at(wanted: &[bool], code: Option<usize>) -> bool {
    code.and_then(|code| wanted.get(code)).copied().unwrap_or(false)
}

fn bytes(array: &ArrayRef, row: usize) -> Result<&[u8]> {
    match array.data_type() {
        DataType::Utf8View => Ok(array.as_string_view().value(row).as_bytes()),
        DataType::FixedSizeBinary(_) => Ok(array.as_fixed_size_binary().value(row)),
        other => Err(Error::internal(format!("{other} is no type of a key column"))),
    }
}
