//! Summaries of column values per page, from Parquet's page index.

use bytes::Bytes;
use parquet::file::page_index::column_index::{ColumnIndexMetaData, PrimitiveColumnIndex};
use stratalog_model::{
    ColumnId, ColumnType,
    values::{OrderedValue, ValuePredicate, ValueSummary},
};

use crate::{form, story::Story};

/// A predicate on a column, used to exclude pages. The reader must filter the rows of the remaining
/// pages.
#[derive(Debug, Clone)]
pub struct ColumnValues {
    /// The column; not a list.
    pub column: ColumnId,
    /// The condition on the values.
    pub predicate: ValuePredicate,
}

/// Interprets the page index of one column.
#[derive(Debug)]
pub(crate) struct PageValues<'a> {
    column_type: &'a ColumnType,
    may_have_nan: bool,
}

impl Story {
    /// The interpreter for the page index of a column; `None` for a list or interval column, and
    /// for an unknown column.
    pub(crate) fn page_values(&self, id: ColumnId) -> Option<PageValues<'_>> {
        let column = self.schema().columns.iter().find(|column| column.id == id)?;
        let column_type = &column.column_type;
        let flat = !matches!(column_type, ColumnType::Array(_) | ColumnType::Interval);
        flat.then(|| PageValues { column_type, may_have_nan: self.may_have_nan(id) })
    }
}

impl PageValues<'_> {
    /// The summary of the values of a page. If the index has no NULL count, the summary assumes
    /// NULLs. The number of rows is not in the index: the summary has the maximum.
    pub(crate) fn summary(&self, index: &ColumnIndexMetaData, page: usize) -> ValueSummary {
        // If a page contains only NaN, Parquet writes no page index for the whole column chunk.
        if matches!(index, ColumnIndexMetaData::NONE) {
            return ValueSummary { rows: u64::MAX, nulls: 1, hull: None };
        }
        if index.is_null_page(page) {
            return ValueSummary { rows: 1, nulls: 1, hull: None };
        }
        let nulls = index.null_count(page).map_or(1, |nulls| nulls.max(0).cast_unsigned());
        ValueSummary { rows: u64::MAX, nulls, hull: self.hull(index, page) }
    }

    fn hull(
        &self,
        index: &ColumnIndexMetaData,
        page: usize,
    ) -> Option<(OrderedValue, OrderedValue)> {
        fn of<T: Copy>(
            index: &PrimitiveColumnIndex<T>,
            page: usize,
            rank: impl Fn(T) -> Option<OrderedValue>,
        ) -> Option<(OrderedValue, OrderedValue)> {
            Some((rank(*index.min_value(page)?)?, rank(*index.max_value(page)?)?))
        }
        let float = |value: f64| OrderedValue::float(value).filter(|_| !self.may_have_nan);
        let whole = |value: i64| Some(OrderedValue::Whole(self.in_own_unit(value).into()));
        match index {
            ColumnIndexMetaData::BOOLEAN(index) => {
                of(index, page, |value| Some(OrderedValue::Whole(value.into())))
            }
            ColumnIndexMetaData::INT32(index) => of(index, page, |value| whole(value.into())),
            ColumnIndexMetaData::INT64(index) => of(index, page, whole),
            ColumnIndexMetaData::FLOAT(index) => of(index, page, |value| float(value.into())),
            ColumnIndexMetaData::DOUBLE(index) => of(index, page, float),
            // Decimals are stored as bytes whose order differs from the numeric order.
            _ if matches!(self.column_type, ColumnType::Numeric { .. }) => None,
            ColumnIndexMetaData::BYTE_ARRAY(index)
            | ColumnIndexMetaData::FIXED_LEN_BYTE_ARRAY(index) => {
                let rank = |value: &[u8]| OrderedValue::Bytes(Bytes::copy_from_slice(value));
                Some((rank(index.min_value(page)?), rank(index.max_value(page)?)))
            }
            _ => None,
        }
    }

    /// Converts a stored number to the unit of the column.
    fn in_own_unit(&self, stored: i64) -> i64 {
        match self.column_type {
            ColumnType::Timestamp { precision: 0 } | ColumnType::TimestampTz { precision: 0 } => {
                form::seconds(stored)
            }
            _ => stored,
        }
    }
}
