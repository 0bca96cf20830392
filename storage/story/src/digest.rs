//! A checksum of values that does not depend on the layout of their arrays. It is used to compare
//! written rows with rows read back.

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    compute::{filter, is_not_null},
    datatypes::DataType,
};
use stratalog_model::{Error, Result};

use crate::schema::StorySchema;

/// The digest adds this number of rows at a time, column by column. With the same number
/// everywhere, the division of the rows into batches does not change the digest.
pub(crate) const CHUNK_ROWS: usize = 8192;

/// The number of rows, and a CRC32C of the values of each column in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Digest {
    rows: u64,
    columns: Vec<u32>,
}

impl Digest {
    /// The digest of zero rows.
    pub(crate) fn new(schema: &StorySchema) -> Self {
        Self { rows: 0, columns: vec![0; schema.arrow_schema().fields().len()] }
    }

    /// Adds the rows of a row group or of one of its batches. Each batch of a row group except the
    /// last must have [`CHUNK_ROWS`] rows.
    pub(crate) fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        debug_assert_eq!(self.columns.len(), rows.num_columns(), "rows with other columns");
        let before = self.rows;
        for start in (0..rows.num_rows()).step_by(CHUNK_ROWS) {
            let chunk = rows.slice(start, CHUNK_ROWS.min(rows.num_rows() - start));
            self.rows += chunk.num_rows() as u64;
            for (checksum, array) in self.columns.iter_mut().zip(chunk.columns()) {
                *checksum = add(*checksum, array)?;
            }
        }
        debug_assert_eq!(
            self.rows.checked_sub(before),
            Some(rows.num_rows() as u64),
            "the chunks are not all rows"
        );
        Ok(())
    }
}

fn add(mut checksum: u32, array: &ArrayRef) -> Result<u32> {
    if array.null_count() > 0 {
        let valid = is_not_null(array.as_ref())?;
        checksum = add_bits(checksum, &valid);
        let kept = filter(array.as_ref(), &valid)?;
        debug_assert_eq!(kept.null_count(), 0, "a NULL is left over");
        debug_assert!(kept.len() < array.len(), "the recursion stands still");
        return add(checksum, &kept);
    }
    Ok(match array.data_type() {
        DataType::Boolean => add_bits(checksum, array.as_boolean()),
        DataType::Utf8View => {
            let values = array.as_string_view().iter().flatten();
            add_texts(checksum, values.map(str::as_bytes))
        }
        DataType::Binary => add_texts(checksum, array.as_binary::<i32>().iter().flatten()),
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let (offsets, values) = (lists.offsets(), lists.values());
            checksum = offsets.lengths().fold(checksum, |checksum, len| {
                crc32c::crc32c_append(checksum, &len.to_le_bytes())
            });
            let start = offsets.first().copied().unwrap_or_default() as usize;
            let end = offsets.last().copied().unwrap_or_default() as usize;
            debug_assert!(start <= end && end <= values.len(), "lists outside of their values");
            add(checksum, &values.slice(start, end.saturating_sub(start)))?
        }
        other => {
            let width = match other {
                DataType::FixedSizeBinary(width) => usize::try_from(*width).ok(),
                other => other.primitive_width(),
            };
            let data = array.to_data();
            let bytes = width.and_then(|width| {
                let range = data.offset() * width..(data.offset() + data.len()) * width;
                data.buffers().first()?.as_slice().get(range)
            });
            match bytes {
                Some(bytes) => crc32c::crc32c_append(checksum, bytes),
                None => return Err(Error::internal(format!("{other} is no type of a column"))),
            }
        }
    })
}

fn add_bits(checksum: u32, bits: &arrow::array::BooleanArray) -> u32 {
    debug_assert_eq!(bits.null_count(), 0, "a NULL has no bit");
    let bytes: Vec<u8> = bits.values().iter().map(u8::from).collect();
    crc32c::crc32c_append(checksum, &bytes)
}

/// Adds the length and the bytes of each value.
fn add_texts<'a>(checksum: u32, values: impl Iterator<Item = &'a [u8]>) -> u32 {
    let mut bytes = Vec::new();
    for value in values {
        bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        bytes.extend_from_slice(value);
    }
    crc32c::crc32c_append(checksum, &bytes)
}

#[cfg(test)]
mod tests;
