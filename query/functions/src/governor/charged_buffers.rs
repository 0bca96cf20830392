//! Ties the charge for an array's memory to the array's buffers: the charge ends when the array is
//! dropped. Also computes the sizes of arrays.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayData, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait, RecordBatch,
        make_array,
    },
    buffer::Buffer,
    datatypes::DataType,
};
use bytes::Bytes;
use datafusion::common::Result;

use super::Charge;

/// The charge is not tied to smaller buffers.
const TIED_BYTES_MIN: usize = 4 << 10;

/// The maximum length of a value that Arrow stores inside its view.
const INLINE_BYTES: usize = 12;

/// The size in bytes of a view of a string or binary value.
const VIEW_BYTES: usize = size_of::<u128>();

/// A buffer with a charge for its memory. Dropping the buffer ends the charge.
struct ChargedBuffer {
    buffer: Buffer,
    _charge: Arc<Charge>,
}

impl AsRef<[u8]> for ChargedBuffer {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_slice()
    }
}

/// The total size in bytes of an array's buffers, without the buffers at the addresses in `known`.
pub fn array_bytes(data: &ArrayData, known: &[usize]) -> usize {
    let own: usize = data
        .buffers()
        .iter()
        .filter(|buffer| !known.contains(&(buffer.as_ptr() as usize)))
        .map(Buffer::capacity)
        .sum();
    let children = data.child_data().iter().map(|child| array_bytes(child, known));
    children.fold(own, usize::saturating_add)
}

/// The size in bytes of the values of an array. A text that several values share counts once for
/// each value, because a copy of the array would contain it several times.
pub fn value_bytes(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8View => {
            let texts = array.as_string_view();
            texts.views().iter().map(|view| VIEW_BYTES + long_bytes(*view)).sum()
        }
        DataType::BinaryView => {
            let values = array.as_binary_view();
            values.views().iter().map(|view| VIEW_BYTES + long_bytes(*view)).sum()
        }
        DataType::List(_) => list_bytes(array.as_list::<i32>()),
        DataType::LargeList(_) => list_bytes(array.as_list::<i64>()),
        DataType::FixedSizeList(_, _) => value_bytes(array.as_fixed_size_list().values()),
        DataType::Struct(_) => {
            array.as_struct().columns().iter().map(value_bytes).fold(0, usize::saturating_add)
        }
        _ => array.to_data().get_slice_memory_size().unwrap_or(0),
    }
}

/// The size in bytes of lists: their elements and offsets.
fn list_bytes<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> usize {
    let offsets = lists.value_offsets();
    let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { return 0 };
    let (first, last) = (first.as_usize(), last.as_usize());
    let elements = lists.values().slice(first, last.saturating_sub(first));
    value_bytes(&elements).saturating_add(size_of_val(offsets))
}

/// The size in bytes of the rows of a batch. If the batch is a slice, other rows in its buffers do
/// not count.
pub fn batch_bytes(batch: &RecordBatch) -> usize {
    let columns = batch.columns().iter();
    let bytes = columns.map(|column| column.get_array_memory_size().min(value_bytes(column)));
    bytes.fold(0, usize::saturating_add)
}

/// The size in bytes of the largest list in an array; 0 for other types.
pub fn largest_list_bytes(array: &ArrayRef) -> usize {
    fn largest<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> usize {
        let rows = (0..lists.len()).filter(|row| lists.is_valid(*row));
        rows.map(|row| value_bytes(&lists.value(row))).max().unwrap_or(0)
    }
    match array.data_type() {
        DataType::List(_) => largest(array.as_list::<i32>()),
        DataType::LargeList(_) => largest(array.as_list::<i64>()),
        _ => 0,
    }
}

/// The number of bytes of a value that are stored outside of its view.
fn long_bytes(view: u128) -> usize {
    let [a, b, c, d, ..] = view.to_le_bytes();
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if length > INLINE_BYTES { length } else { 0 }
}

/// Returns an array with the same values, and ties `charge` to its buffers. The buffers at the
/// addresses in `known` belong to other arrays, and are not tied to the charge.
///
/// # Errors
/// Fails if Arrow refuses the array as invalid.
pub fn with_charge(array: &ArrayRef, charge: Charge, known: &[usize]) -> Result<ArrayRef> {
    let data = charge_buffers(array.to_data(), &Arc::new(charge), known)?;
    Ok(make_array(data))
}

fn charge_buffers(data: ArrayData, charge: &Arc<Charge>, known: &[usize]) -> Result<ArrayData> {
    let buffers = data.buffers().iter().map(|buffer| {
        if buffer.len() < TIED_BYTES_MIN || known.contains(&(buffer.as_ptr() as usize)) {
            return buffer.clone();
        }
        let tied = ChargedBuffer { buffer: buffer.clone(), _charge: Arc::clone(charge) };
        Buffer::from(Bytes::from_owner(tied))
    });
    let buffers = buffers.collect();
    let children =
        data.child_data().iter().map(|child| charge_buffers(child.clone(), charge, known));
    let children = children.collect::<Result<Vec<_>>>()?;
    Ok(data.into_builder().buffers(buffers).child_data(children).build()?)
}
