//! Key predicates, converted for Parquet's statistics and Bloom filters.

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{DataType, Date32Type, Int16Type, Int32Type, Int64Type},
};
use parquet::{
    bloom_filter::Sbbf,
    file::page_index::column_index::{ColumnIndexMetaData, PrimitiveColumnIndex},
};
use stratalog_model::{ColumnId, Error, Result};

/// A predicate: the key column has one of the values.
#[derive(Debug, Clone)]
pub struct KeyValues {
    /// A key column.
    pub column: ColumnId,
    /// The values, in the column's Arrow type, without NULL.
    pub values: ArrayRef,
}

/// Key values in the types that Parquet stores, in ascending order.
#[derive(Debug)]
pub(crate) enum StoredValues {
    Boolean(Vec<bool>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Bytes(Vec<Vec<u8>>),
}

impl StoredValues {
    /// Converts an array with the type of a key column.
    pub(crate) fn of(array: &ArrayRef) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Boolean => Self::Boolean(sorted(array.as_boolean().iter().flatten())),
            DataType::Int16 => Self::Int32(sorted(
                array.as_primitive::<Int16Type>().iter().flatten().map(i32::from),
            )),
            DataType::Int32 => {
                Self::Int32(sorted(array.as_primitive::<Int32Type>().iter().flatten()))
            }
            DataType::Date32 => {
                Self::Int32(sorted(array.as_primitive::<Date32Type>().iter().flatten()))
            }
            DataType::Int64 => {
                Self::Int64(sorted(array.as_primitive::<Int64Type>().iter().flatten()))
            }
            DataType::Utf8View => {
                let values = array.as_string_view().iter().flatten();
                Self::Bytes(sorted(values.map(|value| value.as_bytes().to_vec())))
            }
            DataType::FixedSizeBinary(_) => {
                let values = array.as_fixed_size_binary().iter().flatten();
                Self::Bytes(sorted(values.map(<[u8]>::to_vec)))
            }
            other => return Err(Error::internal(format!("{other} is no type of a key column"))),
        })
    }

    /// Whether a page may contain one of the values, according to the page index.
    pub(crate) fn may_be_in_page(&self, index: &ColumnIndexMetaData, page: usize) -> bool {
        fn within<T: Ord + Copy>(
            values: &[T],
            index: &PrimitiveColumnIndex<T>,
            page: usize,
        ) -> bool {
            match (index.min_value(page), index.max_value(page)) {
                (Some(low), Some(high)) => any_within(values, low, high),
                _ => true,
            }
        }
        match (self, index) {
            (Self::Boolean(values), ColumnIndexMetaData::BOOLEAN(index)) => {
                within(values, index, page)
            }
            (Self::Int32(values), ColumnIndexMetaData::INT32(index)) => within(values, index, page),
            (Self::Int64(values), ColumnIndexMetaData::INT64(index)) => within(values, index, page),
            (
                Self::Bytes(values),
                ColumnIndexMetaData::BYTE_ARRAY(index)
                | ColumnIndexMetaData::FIXED_LEN_BYTE_ARRAY(index),
            ) => match (index.min_value(page), index.max_value(page)) {
                (Some(low), Some(high)) => {
                    let at = values.partition_point(|value| value.as_slice() < low);
                    values.get(at).is_some_and(|value| value.as_slice() <= high)
                }
                _ => true,
            },
            _ => true,
        }
    }

    /// Whether a Bloom filter may contain one of the values.
    pub(crate) fn may_be_known_to(&self, filter: &Sbbf) -> bool {
        match self {
            Self::Boolean(_) => true,
            Self::Int32(values) => values.iter().any(|value| filter.check(value)),
            Self::Int64(values) => values.iter().any(|value| filter.check(value)),
            Self::Bytes(values) => values.iter().any(|value| filter.check(value.as_slice())),
        }
    }
}

fn sorted<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// Whether one of the ascending values lies between two bounds, both included.
fn any_within<T: Ord>(values: &[T], low: &T, high: &T) -> bool {
    let at = values.partition_point(|value| value < low);
    values.get(at).is_some_and(|value| value <= high)
}
