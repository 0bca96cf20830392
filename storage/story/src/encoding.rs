//! Chooses the encoding of each column: the encoding that makes a sample of the column smallest
//! (RFC 8).

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    datatypes::{DataType, Field, Schema},
};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, Encoding, ZstdLevel},
    file::properties::{WriterProperties, WriterPropertiesBuilder},
    schema::types::ColumnPath,
};
use stratalog_model::{Error, Result};

use crate::settings::StorySettings;

/// Maximum number of rows in the sample, which comes from the first row group.
const SAMPLE_ROWS: usize = 1 << 17;

/// Number of values that Parquet's writer encodes at a time.
const WRITE_BATCH_ROWS: usize = 1024;

/// A later candidate replaces an earlier candidate only if it is smaller by this percentage,
/// because earlier candidates are faster to read.
const MARGIN_PERCENT: u64 = 2;

/// The encoding of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EncodingChoice {
    /// Whether to use a dictionary, as long as the dictionary is small.
    pub(crate) dictionary: bool,
    /// The encoding of values that are not in a dictionary.
    pub(crate) encoding: Encoding,
}

impl EncodingChoice {
    const fn dictionary(encoding: Encoding) -> Self {
        Self { dictionary: true, encoding }
    }

    const fn only(encoding: Encoding) -> Self {
        Self { dictionary: false, encoding }
    }

    /// Sets the encoding of a column in Parquet's writer properties.
    pub(crate) fn apply(
        self,
        properties: WriterPropertiesBuilder,
        column: &ColumnPath,
    ) -> WriterPropertiesBuilder {
        properties
            .set_column_dictionary_enabled(column.clone(), self.dictionary)
            .set_column_encoding(column.clone(), self.encoding)
    }
}

/// The writer properties that apply to all columns.
pub(crate) fn properties(settings: &StorySettings) -> Result<WriterPropertiesBuilder> {
    let level = ZstdLevel::try_new(settings.zstd_level).map_err(|error| {
        Error::internal(format!("{} is no level of zstd: {error}", settings.zstd_level))
    })?;
    Ok(WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(None)
        .set_data_page_size_limit(settings.page_bytes_max)
        .set_data_page_row_count_limit(settings.page_rows_max)
        // A page can end only between two batches of values: a small batch allows small pages.
        .set_write_batch_size(settings.page_rows_max.clamp(1, WRITE_BATCH_ROWS))
        .set_dictionary_page_size_limit(settings.page_bytes_max))
}

/// The settings, with fewer rows per page if values are wide. The pages of all columns then end at
/// about the same rows as the pages of the widest column. A read of a few rows finds the rows in
/// the page index of the ticks; small tick pages keep the read of the widest column small.
pub(crate) fn for_width(settings: &StorySettings, batch: &RecordBatch) -> StorySettings {
    let widest = batch.columns().iter().map(bytes_of_values).max().unwrap_or_default();
    let rows = match widest / batch.num_rows().max(1) {
        0 => settings.page_rows_max,
        width => (settings.page_bytes_max / width).clamp(1, settings.page_rows_max.max(1)),
    };
    debug_assert!(rows <= settings.page_rows_max.max(1), "wide values have longer pages");
    StorySettings { page_rows_max: rows, ..settings.clone() }
}

fn bytes_of_values(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().lengths().map(|length| length as usize).sum(),
        _ => array.to_data().get_slice_memory_size().unwrap_or_default(),
    }
}

/// Chooses the encoding of a leaf column by encoding `sample` with all candidates.
pub(crate) fn choose(sample: &ArrayRef, settings: &StorySettings) -> Result<EncodingChoice> {
    let candidates = candidates(sample.data_type());
    debug_assert!(!candidates.is_empty(), "a type without an encoding");
    let Some((first, rest)) = candidates.split_first() else {
        return Ok(EncodingChoice::only(Encoding::PLAIN));
    };
    if rest.is_empty() {
        return Ok(*first);
    }
    let sample = sample.slice(0, sample.len().min(SAMPLE_ROWS));
    let first_bytes = bytes(&sample, *first, settings)?;
    let mut best = (*first, first_bytes);
    for candidate in rest {
        let size = bytes(&sample, *candidate, settings)?;
        if size * 100 < best.1 * (100 - MARGIN_PERCENT) {
            best = (*candidate, size);
        }
    }
    debug_assert!(best.1 <= first_bytes, "a larger encoding is preferred");
    Ok(best.0)
}

/// The candidate encodings for a type, the fastest to read first.
fn candidates(data_type: &DataType) -> Vec<EncodingChoice> {
    use Encoding as E;
    let both =
        |encoding| vec![EncodingChoice::dictionary(encoding), EncodingChoice::only(encoding)];
    let integers = || {
        vec![
            EncodingChoice::only(E::DELTA_BINARY_PACKED),
            EncodingChoice::dictionary(E::DELTA_BINARY_PACKED),
            EncodingChoice::only(E::PLAIN),
        ]
    };
    match data_type {
        DataType::Float32 | DataType::Float64 => vec![
            EncodingChoice::dictionary(E::PLAIN),
            EncodingChoice::only(E::PLAIN),
            EncodingChoice::only(E::BYTE_STREAM_SPLIT),
        ],
        DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Date32
        | DataType::Time64(_)
        | DataType::Timestamp(_, _) => integers(),
        // Decimals of up to 18 digits are stored as integers.
        DataType::Decimal128(0..=18, _) => integers(),
        DataType::Decimal128(_, _) | DataType::FixedSizeBinary(_) => both(E::PLAIN),
        DataType::Utf8 | DataType::Utf8View | DataType::Binary => vec![
            EncodingChoice::dictionary(E::DELTA_LENGTH_BYTE_ARRAY),
            EncodingChoice::only(E::DELTA_LENGTH_BYTE_ARRAY),
            EncodingChoice::only(E::DELTA_BYTE_ARRAY),
        ],
        DataType::Boolean => vec![EncodingChoice::only(E::PLAIN)],
        _ => vec![EncodingChoice::dictionary(E::PLAIN)],
    }
}

/// Size of the sample in one encoding, in bytes.
fn bytes(sample: &ArrayRef, choice: EncodingChoice, settings: &StorySettings) -> Result<u64> {
    let failed = |error| Error::internal(format!("a sample cannot be encoded: {error}"));
    let path = ColumnPath::new(vec!["sample".to_string()]);
    let properties = choice.apply(properties(settings)?, &path).build();
    let field = Field::new("sample", sample.data_type().clone(), true);
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::clone(sample)])?;
    let mut writer =
        ArrowWriter::try_new(std::io::sink(), batch.schema(), Some(properties)).map_err(failed)?;
    writer.write(&batch).map_err(failed)?;
    let metadata = writer.close().map_err(failed)?;
    debug_assert_eq!(
        metadata.file_metadata().num_rows(),
        batch.num_rows() as i64,
        "the sample is not encoded completely"
    );
    let groups = metadata.row_groups().iter();
    Ok(groups.map(|group| group.compressed_size().cast_unsigned()).sum())
}

/// The paths of the leaf columns; with the values if the column is not nested.
pub(crate) fn leaves(batch: &RecordBatch) -> Vec<(ColumnPath, Option<ArrayRef>)> {
    fn walk(path: &[String], field: &Field, leaves: &mut Vec<(ColumnPath, Option<ArrayRef>)>) {
        debug_assert!(!path.is_empty(), "a column without a name");
        let below = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_string());
            path.iter().cloned().chain(names).collect::<Vec<_>>()
        };
        match field.data_type() {
            DataType::List(element) => {
                walk(&below(&["list", element.name().as_str()]), element, leaves);
            }
            DataType::Struct(parts) => {
                for part in parts {
                    walk(&below(&[part.name().as_str()]), part, leaves);
                }
            }
            _ => leaves.push((ColumnPath::new(path.to_vec()), None)),
        }
    }
    let mut leaves = Vec::new();
    for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let path = vec![field.name().clone()];
        if field.data_type().is_nested() {
            walk(&path, field, &mut leaves);
        } else {
            leaves.push((ColumnPath::new(path), Some(Arc::clone(array))));
        }
    }
    debug_assert!(leaves.len() >= batch.num_columns(), "a column without a leaf");
    leaves
}
