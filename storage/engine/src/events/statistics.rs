//! The column statistics of a tablet block (F86). Little-endian format, for each column of the
//! shape:
//!
//! ```text
//!   0  u8   kind of the values: 0 nothing, 1 two i64, 2 two f64, 3 two texts, 4 two i128
//!   1  u32  number of NULL rows
//!   5  lowest and highest value; a text has a length byte and its first bytes
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use bytes::{Buf, BufMut, Bytes};
use stratalog_model::{
    Error, ErrorKind, Result,
    values::{OrderedValue, ValueSummary},
};

use crate::{events::column::Column, sabotage};

const NOTHING: u8 = 0;
const LONGS: u8 = 1;
const FLOATS: u8 = 2;
const TEXTS: u8 = 3;
const WIDE: u8 = 4;

/// Computes and encodes the statistics of columns.
pub fn of_columns(columns: &[Column]) -> Bytes {
    let mut out = Vec::new();
    for column in columns {
        let mut summary = summary(column);
        debug_assert_eq!(summary.rows, column.len() as u64, "a row is not in the statistics");
        debug_assert!(summary.nulls <= summary.rows, "more NULL rows than rows");
        if sabotage::active("values-too-narrow") {
            summary.hull = summary.hull.map(|(low, _)| (low.clone(), low));
        }
        put(&mut out, &summary);
    }
    out.into()
}

/// Verifies that the statistics match the columns of a block. Blocks of earlier builds have empty
/// statistics, which are valid.
///
/// # Errors
/// `DataCorrupted`.
pub fn check(columns: &[Column], statistics: &Bytes) -> Result<()> {
    if statistics.is_empty() || *statistics == of_columns(columns) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::DataCorrupted, "the values differ from the statistics"))
}

fn summary(column: &Column) -> ValueSummary {
    // The dictionary may have unused values: the range may then be wider than needed, but never too
    // narrow.
    let coded = |codes: &dyn Array, values: ArrayRef| ValueSummary {
        rows: codes.len() as u64,
        nulls: codes.null_count() as u64,
        ..ValueSummary::of(&values)
    };
    match column {
        Column::Plain(array) => ValueSummary::of(array),
        Column::Coded8 { codes, values } => coded(codes, Arc::new(values.clone())),
        Column::Coded16 { codes, values } => coded(codes, Arc::new(values.clone())),
    }
}

fn put(out: &mut Vec<u8>, summary: &ValueSummary) {
    let kind = out.len();
    out.put_u8(NOTHING);
    out.put_u32_le(u32::try_from(summary.nulls).unwrap_or(u32::MAX));
    let kind_of = match &summary.hull {
        Some((OrderedValue::Whole(low), OrderedValue::Whole(high))) => {
            match (i64::try_from(*low), i64::try_from(*high)) {
                (Ok(low), Ok(high)) => {
                    out.put_i64_le(low);
                    out.put_i64_le(high);
                    LONGS
                }
                _ => {
                    out.put_i128_le(*low);
                    out.put_i128_le(*high);
                    WIDE
                }
            }
        }
        Some((OrderedValue::Float(low), OrderedValue::Float(high))) => {
            out.put_f64_le(*low);
            out.put_f64_le(*high);
            FLOATS
        }
        Some((OrderedValue::Bytes(low), OrderedValue::Bytes(high))) => {
            for text in [low, high] {
                debug_assert!(u8::try_from(text.len()).is_ok(), "a bound is too long");
                out.put_u8(text.len() as u8);
                out.put_slice(text);
            }
            TEXTS
        }
        _ => NOTHING,
    };
    if let Some(kind) = out.get_mut(kind) {
        *kind = kind_of;
    }
}

/// Decodes the statistics of the column at position `at` of the shape, for a block of `rows` rows.
/// `None` if the block has no statistics of the column.
pub fn of_column(mut statistics: Bytes, at: usize, rows: u64) -> Option<ValueSummary> {
    let mut found = None;
    for _ in 0..=at {
        let kind = statistics.try_get_u8().ok()?;
        let nulls = u64::from(statistics.try_get_u32_le().ok()?);
        let hull = match kind {
            NOTHING => None,
            LONGS => Some((
                OrderedValue::Whole(statistics.try_get_i64_le().ok()?.into()),
                OrderedValue::Whole(statistics.try_get_i64_le().ok()?.into()),
            )),
            FLOATS => Some((
                OrderedValue::float(statistics.try_get_f64_le().ok()?)?,
                OrderedValue::float(statistics.try_get_f64_le().ok()?)?,
            )),
            TEXTS => {
                let mut text = || {
                    let len = usize::from(statistics.try_get_u8().ok()?);
                    (len <= statistics.len()).then(|| OrderedValue::Bytes(statistics.split_to(len)))
                };
                Some((text()?, text()?))
            }
            WIDE => Some((
                OrderedValue::Whole(statistics.try_get_i128_le().ok()?),
                OrderedValue::Whole(statistics.try_get_i128_le().ok()?),
            )),
            _ => return None,
        };
        found = Some(ValueSummary { rows, nulls, hull });
    }
    found
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        BooleanArray, Decimal128Array, Float64Array, Int64Array, StringViewArray, new_null_array,
    };
    use arrow::datatypes::DataType;

    use super::*;

    #[test]
    fn what_is_said_is_read_back() {
        let text: ArrayRef = Arc::new(StringViewArray::from_iter(
            (0..100).map(|row| (row % 7 > 0).then(|| format!("host_{}", row % 7))),
        ));
        let wide = Decimal128Array::from(vec![i128::MIN, 0, 7]);
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(5)])),
            Arc::new(Float64Array::from(vec![-1.5, 2.5])),
            Arc::new(Float64Array::from(vec![f64::NAN, 2.5])),
            new_null_array(&DataType::Utf8View, 3),
            Arc::new(BooleanArray::from(vec![true])),
            Arc::new(wide.with_precision_and_scale(38, 0).expect("38 digits are decimal")),
            text,
        ];
        let columns: Vec<Column> =
            arrays.iter().map(|array| Column::store(array).expect("a column")).collect();
        assert!(matches!(columns.last(), Some(Column::Coded8 { .. })));
        let said = of_columns(&columns);
        for (at, array) in arrays.iter().enumerate() {
            let rows = array.len() as u64;
            assert_eq!(of_column(said.clone(), at, rows), Some(ValueSummary::of(array)), "{at}");
        }
        assert_eq!(of_column(said.clone(), arrays.len(), 1), None);
        for len in 0..said.len() {
            // Cut statistics have no entry for the last column.
            let found = of_column(said.slice(..len), arrays.len() - 1, 100);
            assert_eq!(found, None, "{len}");
        }
    }
}
