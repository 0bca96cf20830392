//! An annex: additional data of a story, as a Parquet file inside the story's file, after the rows.
//! Other Parquet readers do not see the annex. The annex has one row group for each row group of
//! the story that has additional data.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::{DataType, SchemaRef},
};
use bytes::Bytes;
use parquet::{
    arrow::{
        ArrowWriter, ProjectionMask,
        arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder},
        arrow_writer::ArrowWriterOptions,
    },
    basic::Encoding,
    errors::ParquetError,
    file::{
        metadata::{KeyValue, PageIndexPolicy, ParquetMetaDataReader},
        properties::EnabledStatistics,
        reader::{ChunkReader, Length},
    },
    schema::types::ColumnPath,
};
use stratalog_model::{Error, Result};

use crate::{
    description::AnnexPlace,
    encoding::{self, EncodingChoice},
    read::VerifiedParts,
    settings::StorySettings,
    story::Story,
};

/// Metadata key: the numbers of the story's row groups that have a row group in the annex.
const GROUPS: &str = "stratalog.groups";

/// Builds an annex in memory.
#[derive(Debug)]
pub(crate) struct AnnexWriter {
    schema: SchemaRef,
    settings: StorySettings,
    writer: Option<ArrowWriter<Vec<u8>>>,
    groups: Vec<u32>,
}

impl AnnexWriter {
    /// A writer for an annex with the given schema.
    pub(crate) fn new(schema: SchemaRef, settings: &StorySettings) -> Self {
        Self { schema, settings: settings.clone(), writer: None, groups: Vec::new() }
    }

    /// Adds the data of the row group `group`. Group numbers must ascend.
    ///
    /// # Errors
    /// `Internal`.
    pub(crate) fn push(&mut self, group: u32, rows: &RecordBatch) -> Result<()> {
        debug_assert!(rows.num_rows() > 0, "a group of the annex without rows");
        debug_assert_eq!(rows.num_columns(), self.schema.fields().len(), "rows of another annex");
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.start()?,
        };
        writer.write(rows).and_then(|()| writer.flush()).map_err(failed)?;
        debug_assert_eq!(
            writer.flushed_row_groups().len(),
            self.groups.len() + 1,
            "a group is not one row group"
        );
        self.writer = Some(writer);
        debug_assert!(self.groups.last().is_none_or(|last| *last < group), "groups out of order");
        self.groups.push(group);
        Ok(())
    }

    /// Completes the annex. Returns its bytes, and its place if it is written at offset `at`;
    /// `None` if no rows were added.
    ///
    /// # Errors
    /// `Internal`.
    pub(crate) fn finish(&mut self, at: u64) -> Result<Option<(Vec<u8>, AnnexPlace)>> {
        let Some(mut writer) = self.writer.take() else { return Ok(None) };
        debug_assert!(!self.groups.is_empty(), "an annex was begun for no group");
        let groups = serde_json::to_string(&self.groups);
        let groups = groups.map_err(|error| Error::internal(error.to_string()))?;
        writer.append_key_value_metadata(KeyValue::new(GROUPS.to_string(), groups));
        let file = writer.into_inner().map_err(failed)?;
        // A Parquet file ends with the length of its metadata (4 bytes) and the magic "PAR1".
        let word = file.len().checked_sub(8).and_then(|at| file.get(at..)?.first_chunk::<4>());
        let word = word.ok_or_else(|| Error::internal("a Parquet file without a footer"))?;
        let footer_bytes = u64::from(u32::from_le_bytes(*word)) + 8;
        let place = AnnexPlace { at, bytes: file.len() as u64, footer_bytes };
        debug_assert!(place.footer_bytes <= place.bytes, "a footer longer than its file");
        Ok(Some((file, place)))
    }

    fn start(&self) -> Result<ArrowWriter<Vec<u8>>> {
        let mut properties =
            encoding::properties(&self.settings)?.set_statistics_enabled(EnabledStatistics::None);
        for field in self.schema.fields() {
            let encoding = match field.data_type() {
                DataType::Float32 | DataType::Float64 | DataType::Decimal128(_, _) => {
                    Encoding::BYTE_STREAM_SPLIT
                }
                DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Date32 => {
                    Encoding::DELTA_BINARY_PACKED
                }
                DataType::Utf8View => Encoding::DELTA_BYTE_ARRAY,
                DataType::Binary => Encoding::DELTA_LENGTH_BYTE_ARRAY,
                _ => Encoding::PLAIN,
            };
            let path = ColumnPath::new(vec![field.name().clone()]);
            properties = EncodingChoice { dictionary: false, encoding }.apply(properties, &path);
        }
        let options = ArrowWriterOptions::new()
            .with_properties(properties.build())
            .with_skip_arrow_metadata(true);
        ArrowWriter::try_new_with_options(Vec::new(), Arc::clone(&self.schema), options)
            .map_err(failed)
    }
}

fn failed(error: ParquetError) -> Error {
    Error::internal(format!("a part of a story cannot be written: {error}")).with_source(error)
}

/// An open annex.
#[derive(Debug)]
pub(crate) struct Annex {
    place: AnnexPlace,
    metadata: ArrowReaderMetadata,
    /// Numbers of the story's row groups in the annex, ascending.
    groups: Vec<u32>,
}

impl Annex {
    /// Opens an annex: reads its footer.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub(crate) async fn open(
        story: &Arc<Story>,
        place: AnnexPlace,
        schema: SchemaRef,
    ) -> Result<Self> {
        debug_assert!(place.is_before(story.blocks().end()), "the annex reaches into the tail");
        let footer = place.range().end.saturating_sub(place.footer_bytes)..place.range().end;
        let bytes = story.verified([footer.clone()]).await?;
        let damaged = |what: String| story.damaged(&footer, &what);
        let wrong = |error: ParquetError| damaged(error.to_string());
        let bytes = bytes.get_bytes(footer.start, place.footer_bytes as usize).map_err(wrong)?;
        let mut reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Skip);
        reader.try_parse_sized(&bytes, place.bytes).map_err(wrong)?;
        let metadata = reader.finish().map_err(wrong)?;
        let pairs = metadata.file_metadata().key_value_metadata();
        let groups = pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == GROUPS));
        let groups = groups.and_then(|pair| serde_json::from_str(pair.value.as_deref()?).ok());
        let groups: Vec<u32> =
            groups.ok_or_else(|| damaged("the annex names no groups".to_string()))?;
        if groups.len() != metadata.num_row_groups() {
            return Err(damaged("the groups of the annex differ from its header".to_string()));
        }
        let options = ArrowReaderOptions::new().with_schema(schema);
        let metadata = ArrowReaderMetadata::try_new(Arc::new(metadata), options).map_err(wrong)?;
        Ok(Self { place, metadata, groups })
    }

    /// Reads columns of a row group. `places` are the positions of the columns in the annex; the
    /// result has the same order. `None` if the annex has no data for the group.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub(crate) async fn read(
        &self,
        story: &Arc<Story>,
        group: u32,
        places: &[usize],
    ) -> Result<Option<Vec<ArrayRef>>> {
        debug_assert!(
            places.iter().all(|place| *place < self.metadata.schema().fields().len()),
            "a place outside of the annex"
        );
        let Ok(row_group) = self.groups.binary_search(&group) else { return Ok(None) };
        let metadata = self.metadata.metadata();
        let head = metadata.row_groups().get(row_group);
        let head = head.ok_or_else(|| Error::internal("a row group is missing"))?;
        let chunks = places.iter().filter_map(|at| head.columns().get(*at));
        let needed = chunks.map(|chunk| {
            let (start, len) = chunk.byte_range();
            self.place.at + start..self.place.at + start + len
        });
        let bytes = story.verified(needed).await?;
        let damaged = |what: String| story.damaged(&self.place.range(), &what);
        let shifted = AnnexFile { bytes, place: self.place };
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), places.iter().copied());
        let rows = usize::try_from(head.num_rows()).unwrap_or_default();
        let reader =
            ParquetRecordBatchReaderBuilder::new_with_metadata(shifted, self.metadata.clone())
                .with_row_groups(vec![row_group])
                .with_projection(mask)
                .with_batch_size(rows.max(1))
                .build();
        let mut reader = reader.map_err(|error| damaged(error.to_string()))?;
        let batch = reader.next().and_then(std::result::Result::ok);
        let batch = batch.filter(|batch| batch.num_rows() == rows);
        let batch = batch.ok_or_else(|| damaged("the annex cannot be decoded".to_string()))?;
        // Parquet returns each column once, in the order of the columns in the file.
        let mut returned = places.to_vec();
        returned.sort_unstable();
        returned.dedup();
        debug_assert_eq!(batch.num_columns(), returned.len(), "Parquet returned other columns");
        let array = |place: &usize| -> Result<ArrayRef> {
            let at = returned.binary_search(place).ok();
            let array = at.and_then(|at| batch.columns().get(at));
            array.cloned().ok_or_else(|| Error::internal("a column was not decoded"))
        };
        places.iter().map(array).collect::<Result<_>>().map(Some)
    }

    /// Approximate bytes in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.metadata.metadata().memory_size() + self.groups.len() * size_of::<u32>()
    }

    /// Where the annex is in the file of its story.
    pub(crate) fn place(&self) -> AnnexPlace {
        self.place
    }
}

/// The annex, presented to Parquet's decoder as a complete file.
struct AnnexFile {
    bytes: VerifiedParts,
    place: AnnexPlace,
}

impl Length for AnnexFile {
    fn len(&self) -> u64 {
        self.place.bytes
    }
}

impl ChunkReader for AnnexFile {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        self.bytes.get_read(self.place.at + start)
    }

    fn get_bytes(&self, start: u64, len: usize) -> Result<Bytes, ParquetError> {
        self.bytes.get_bytes(self.place.at + start, len)
    }
}
