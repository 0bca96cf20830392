//! A story that is open for reading.

use std::{collections::BTreeSet, ops::Range, sync::Arc};

use arrow::{
    array::{AsArray, RecordBatch},
    datatypes::Int64Type,
};
use bytes::Bytes;
use parquet::{
    arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions},
    errors::ParquetError,
    file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader},
};
use stratalog_model::{ColumnId, Error, ErrorKind, Result};

use crate::{
    block::Blocks,
    cells,
    decoded_columns::DecodedColumns,
    description::{AnnexPlace, BuiltStory, CellsPlace, GroupSummary},
    digest::Digest,
    footer,
    schema::{Source, StorySchema},
    sharing::Sharing,
    shelf::Shelf,
};

/// A row group: the events of one time window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupHead {
    /// Number in the file, from 0.
    pub number: u32,
    /// The summary of the events.
    pub summary: GroupSummary,
    /// Compressed size of the row group in the file, in bytes.
    pub bytes: u64,
}

/// The summary to start from, before any rows are counted.
const NOTHING: GroupSummary = GroupSummary {
    rows: 0,
    ticks: (i64::MAX, i64::MIN),
    gsns: (u64::MAX, u64::MIN),
    keys: (Bytes::new(), Bytes::new()),
};

/// A story that is open for reading: its columns, row groups, and their places in the file.
#[derive(Debug)]
pub struct Story {
    shelf: Arc<dyn Shelf>,
    built: BuiltStory,
    schema: StorySchema,
    heads: Vec<GroupHead>,
    with_nan: Option<BTreeSet<ColumnId>>,
    blocks: Blocks,
    metadata: ArrowReaderMetadata,
    sharing: Sharing,
    cells: Option<CellsPlace>,
    words: Option<AnnexPlace>,
    decoded: Arc<DecodedColumns>,
    /// Approximate size in memory: metadata, block checksums and group summaries.
    memory_bytes: usize,
}

impl Story {
    /// Opens a story: reads, verifies and decodes its tail.
    pub(crate) async fn open(
        shelf: Arc<dyn Shelf>,
        built: &BuiltStory,
        decoded: Arc<DecodedColumns>,
    ) -> Result<Self> {
        let name = built.name();
        let tail_range = built.tail_at..built.bytes;
        let (len, tail) = futures::join!(shelf.len(name), shelf.read(name, tail_range.clone()));
        let damaged = |what: &str| damaged(&shelf.place(name), &tail_range, what);
        let len = len?;
        if len != built.bytes {
            return Err(damaged(&format!("the file has {len} bytes instead of {}", built.bytes)));
        }
        let tail = tail?;
        if crc32c::crc32c(&tail) != built.checksum {
            return Err(damaged("the checksum of the tail does not match"));
        }
        let metadata = parse(&tail, built.bytes).map_err(|error| damaged(&error.to_string()))?;
        let pairs = metadata.file_metadata().key_value_metadata();
        let footer = footer::decode(pairs.map_or(&[], Vec::as_slice), built)
            .map_err(|what| damaged(&what))?;
        if footer.built != *built || !agrees(&metadata, built, &footer.groups) {
            return Err(damaged("the file is not the story in the manifest"));
        }
        let groups = footer.groups.into_iter().zip(metadata.row_groups());
        let heads = groups.zip(0..).map(|((summary, group), number)| GroupHead {
            number,
            summary,
            bytes: group.compressed_size().max(0).cast_unsigned(),
        });
        let heads: Vec<_> = heads.collect();
        debug_assert_eq!(heads.len(), built.groups as usize, "a group without a head");
        debug_assert_eq!(footer.blocks.end(), built.tail_at, "the blocks end before the tail");
        debug_assert!(built.tail_at < built.bytes, "a story without a tail");
        let memory_bytes = metadata.memory_size()
            + footer.blocks.memory_bytes()
            + heads.len() * size_of::<GroupHead>();
        let options = ArrowReaderOptions::new().with_schema(footer.schema.stored_schema());
        let metadata = ArrowReaderMetadata::try_new(Arc::new(metadata), options)
            .map_err(|error| damaged(&error.to_string()))?;
        Ok(Self {
            shelf: Arc::clone(&shelf),
            built: *built,
            schema: footer.schema,
            heads,
            with_nan: footer.with_nan,
            blocks: footer.blocks,
            metadata,
            sharing: Sharing::default(),
            cells: footer.cells.filter(|cells| cells.layout == cells::LAYOUT),
            words: footer.words,
            decoded,
            memory_bytes,
        })
    }

    /// The manifest's description of the story.
    pub fn built(&self) -> &BuiltStory {
        &self.built
    }

    /// The columns, with the names that were valid when the story was written.
    pub fn schema(&self) -> &StorySchema {
        &self.schema
    }

    /// The row groups, in the order of the file.
    pub fn groups(&self) -> &[GroupHead] {
        &self.heads
    }

    /// Path or URL of the story, for messages.
    pub fn place(&self) -> String {
        self.shelf.place(self.built.name())
    }

    /// Approximate bytes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Reads the whole story, and verifies all bytes and values.
    ///
    /// # Errors
    /// `DataCorrupted`, with file, offset and range; `Io`, `ConnectionFailure`.
    pub async fn check(self: &Arc<Self>) -> Result<()> {
        self.verify().await.map(|_| ())
    }

    /// Like [`Self::check`]; also returns the digest of all values.
    pub(crate) async fn verify(self: &Arc<Self>) -> Result<Digest> {
        let mut digest = Digest::new(&self.schema);
        let columns = self.schema.columns.iter().map(|column| Source::Column(column.id));
        let columns: Vec<_> = columns.chain([Source::Tick, Source::Seq, Source::Gsn]).collect();
        let annex = self.open_cells().await?;
        for head in &self.heads {
            let rows = self.read(head.number, &columns, None).await?;
            let mut found = GroupSummary { keys: head.summary.keys.clone(), ..NOTHING };
            self.count(&rows, &mut found)?;
            digest.add(&rows)?;
            if found != head.summary {
                return Err(self.misread(head.number, "the rows differ from the summary"));
            }
            if let (Some(annex), Some(place)) = (&annex, self.cells)
                && let Some(read) = self.all_cells(annex, head.number).await?
            {
                let counted = cells::cells_of(&self.schema, place.cell_rows, &rows)?;
                if !counted.is_some_and(|counted| cells::agree(&read, &counted)) {
                    return Err(self.misread(head.number, "the cells differ from the rows"));
                }
            }
        }
        // Also verifies bytes that decoding does not read: Bloom filters, and bytes between
        // columns.
        self.verify_blocks().await?;
        Ok(digest)
    }

    /// Updates a summary with the ticks and gsn's of a batch.
    fn count(&self, rows: &RecordBatch, summary: &mut GroupSummary) -> Result<()> {
        let hull = |source: Source| -> Option<(i64, i64)> {
            let array = rows.columns().get(self.schema.position(source)?)?;
            let values = array.as_primitive_opt::<Int64Type>()?.values();
            Some((*values.iter().min()?, *values.iter().max()?))
        };
        let (Some(ticks), Some(gsns)) = (hull(Source::Tick), hull(Source::Gsn)) else {
            return Err(Error::internal("a batch has no numbers of its events"));
        };
        let gsns = (gsns.0.cast_unsigned(), gsns.1.cast_unsigned());
        summary.rows += rows.num_rows() as u64;
        summary.ticks = (summary.ticks.0.min(ticks.0), summary.ticks.1.max(ticks.1));
        summary.gsns = (summary.gsns.0.min(gsns.0), summary.gsns.1.max(gsns.1));
        debug_assert!(summary.ticks.0 <= summary.ticks.1, "the ticks are reversed");
        Ok(())
    }

    fn misread(&self, group: u32, what: &str) -> Error {
        let place = self.place();
        Error::new(
            ErrorKind::DataCorrupted,
            format!("group {group} of story {place} reads back wrongly: {what}"),
        )
        .with_hint("check the disk and the memory of the machine")
    }

    /// The row group with the number `number`.
    pub(crate) fn group(&self, number: u32) -> Result<&GroupHead> {
        let head = self.heads.get(number as usize).ok_or_else(|| {
            Error::internal(format!("story {} has no group {number}", self.built.name()))
        })?;
        debug_assert_eq!(head.number, number, "groups out of order");
        Ok(head)
    }

    /// Whether a column may contain NaN.
    pub(crate) fn may_have_nan(&self, column: ColumnId) -> bool {
        self.with_nan.as_ref().is_none_or(|with_nan| with_nan.contains(&column))
    }

    pub(crate) fn metadata(&self) -> &Arc<ParquetMetaData> {
        self.metadata.metadata()
    }

    pub(crate) fn reader_metadata(&self) -> &ArrowReaderMetadata {
        &self.metadata
    }

    pub(crate) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    pub(crate) fn sharing(&self) -> &Sharing {
        &self.sharing
    }

    /// Where the cells (precomputed aggregates) are in the file; `None` without cells.
    pub(crate) fn cells_place(&self) -> Option<CellsPlace> {
        self.cells
    }

    /// Where the inverted indexes are in the file; `None` without inverted indexes.
    pub(crate) fn words_place(&self) -> Option<AnnexPlace> {
        self.words
    }

    pub(crate) fn decoded(&self) -> &DecodedColumns {
        &self.decoded
    }

    pub(crate) fn shelf(&self) -> &dyn Shelf {
        self.shelf.as_ref()
    }

    /// Position of a column among the top-level columns of the file.
    pub(crate) fn root(&self, source: Source) -> Result<usize> {
        self.schema.position(source).ok_or_else(|| {
            Error::internal(format!("story {} has no {source:?}", self.built.name()))
        })
    }

    /// Position of a column that is not nested among the leaf columns of the file.
    pub(crate) fn leaf(&self, source: Source) -> Result<usize> {
        let root = self.root(source)?;
        let schema = self.metadata.parquet_schema();
        let mut leaves = 0..schema.num_columns();
        let leaf = leaves.find(|leaf| schema.get_column_root_idx(*leaf) == root);
        debug_assert!(leaf.is_none_or(|leaf| leaf >= root), "a column before has no values");
        leaf.ok_or_else(|| Error::internal("a column has no values".to_string()))
    }

    pub(crate) fn damaged(&self, range: &Range<u64>, what: &str) -> Error {
        damaged(&self.place(), range, what)
    }
}

/// Parses the Parquet metadata of a verified tail.
fn parse(tail: &Bytes, bytes: u64) -> Result<ParquetMetaData, ParquetError> {
    let mut reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Required);
    reader.try_parse_sized(tail, bytes)?;
    reader.finish()
}

/// Whether the row counts in Parquet's metadata agree with the footer.
fn agrees(metadata: &ParquetMetaData, built: &BuiltStory, groups: &[GroupSummary]) -> bool {
    let rows = metadata.row_groups().iter().map(|group| group.num_rows().max(0).cast_unsigned());
    metadata.file_metadata().num_rows().max(0).cast_unsigned() == built.rows
        && rows.eq(groups.iter().map(|group| group.rows))
}

fn damaged(place: &str, range: &Range<u64>, what: &str) -> Error {
    Error::new(
        ErrorKind::DataCorrupted,
        format!("story {place} is damaged at offset {}: {what}", range.start),
    )
    .with_detail(format!("bytes {}..{}", range.start, range.end))
    .with_hint("restore the file from a backup")
}
