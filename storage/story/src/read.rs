//! Reads rows of a story in two steps: `fetch` reads and verifies bytes; `decode` decodes the
//! values on the caller's thread.

use std::{fmt, iter::once, ops::Range, sync::Arc};

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::{Field, Schema, SchemaRef},
};
use bytes::{Buf, Bytes};
use futures::{FutureExt, StreamExt, TryStreamExt};
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{
            ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelectionPolicy,
        },
    },
    errors::ParquetError,
    file::reader::{ChunkReader, Length},
};
use stratalog_model::{ColumnType, Error, ErrorKind, Result};

use crate::{
    form,
    key::{KeyValues, StoredValues},
    plan,
    schema::Source,
    select::{Selection, page_rows},
    story::Story,
};

/// Target size of a batch, in bytes: small enough for the processor's caches.
const BATCH_BYTES: usize = 1 << 20;

/// The verified, but not decoded bytes of some columns of a row group.
#[derive(Debug)]
pub struct FetchedColumns {
    story: Arc<Story>,
    group: u32,
    columns: Vec<Source>,
    selection: Option<Selection>,
    bytes: VerifiedParts,
}

impl Story {
    /// Whether a row group may contain events with the key values, according to its Bloom filters.
    /// Each filter costs a read, so callers exclude groups by the page index first.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`; `Internal` for an unknown column or group, or
    /// values of a wrong type.
    pub async fn may_hold(self: &Arc<Self>, group: u32, keys: &[KeyValues]) -> Result<bool> {
        self.group(group)?;
        for key in keys {
            let leaf = self.leaf(Source::Column(key.column))?;
            let values = StoredValues::of(&key.values)?;
            let Some(range) = self.filter_range(group, leaf) else { continue };
            let bytes = self.verified([range.clone()]).await?;
            let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(
                bytes,
                self.reader_metadata().clone(),
            );
            let filter = reader.get_row_group_column_bloom_filter(group as usize, leaf);
            let filter = filter.map_err(|error| self.damaged(&range, &error.to_string()))?;
            if filter.is_some_and(|filter| !values.may_be_known_to(&filter)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads columns of a row group as one batch: the rows of `selection`, or all rows. The fields
    /// have the column names that were valid when the story was written.
    ///
    /// # Errors
    /// `DataCorrupted`, with file, offset and range of the damage; `Io`, `ConnectionFailure`;
    /// `Internal` for an unknown column or group.
    pub async fn read(
        self: &Arc<Self>,
        group: u32,
        columns: &[Source],
        selection: Option<&Selection>,
    ) -> Result<RecordBatch> {
        self.fetch(group, columns, selection).await?.decode_all()
    }

    /// Reads and verifies the bytes of columns of a row group, like [`Self::read`], but does not
    /// decode them.
    ///
    /// # Errors
    /// The errors of [`Self::read`].
    pub async fn fetch(
        self: &Arc<Self>,
        group: u32,
        columns: &[Source],
        selection: Option<&Selection>,
    ) -> Result<FetchedColumns> {
        let head = self.group(group)?;
        debug_assert!(selection.is_none_or(|rows| rows.is_of(head)), "rows of another group");
        let roots = columns.iter().map(|source| self.root(*source)).collect::<Result<Vec<_>>>()?;
        let needed = self.needed(group, &roots, selection);
        let bytes = self.verified(needed).await?;
        let selection = selection.filter(|selection| !selection.is_all()).cloned();
        Ok(FetchedColumns {
            story: Arc::clone(self),
            group,
            columns: columns.to_vec(),
            selection,
            bytes,
        })
    }

    /// If all selected rows of a row group would take too much memory: splits the rows into
    /// windows, to be read one after another. Windows end at page borders of the widest column.
    ///
    /// # Errors
    /// `Internal` for an unknown column or group.
    pub fn windows(
        &self,
        group: u32,
        columns: &[Source],
        selection: Selection,
    ) -> Result<Vec<Selection>> {
        let head = self.group(group)?;
        debug_assert!(selection.is_of(head), "rows of another group");
        let shape = self.shelf().shape();
        let bytes_max = shape.request_bytes.saturating_mul(shape.at_once as u64);
        let roots = columns.iter().map(|source| self.root(*source)).collect::<Result<Vec<_>>>()?;
        let all: u64 = self
            .needed(group, &roots, Some(&selection))
            .into_iter()
            .map(|range| range.end.saturating_sub(range.start))
            .sum();
        let parts = usize::try_from(all / bytes_max.max(1)).unwrap_or(usize::MAX);
        let pages = self.widest_pages(group, &roots);
        if parts < 2 || pages.len() < 2 {
            return Ok(vec![selection]);
        }
        let rows = selection.rows();
        let mut windows: Vec<Selection> = Vec::with_capacity(parts);
        let (mut start, mut counted) = (0, 0);
        for (at, page) in pages.iter().enumerate() {
            let window = selection.within(once(start..page.end));
            // The window has its share of the rows, or no pages remain.
            let due = rows * (windows.len() + 1) / parts;
            if counted + window.rows() >= due || at + 1 == pages.len() {
                counted += window.rows();
                start = page.end;
                windows.extend(Some(window).filter(|window| window.rows() > 0));
            }
        }
        debug_assert_eq!(windows.iter().map(Selection::rows).sum::<usize>(), rows);
        Ok(windows)
    }

    /// Splits the selected rows of a row group in two selections: the edge, and the remaining rows.
    /// The edge has at least `wanted` rows: the first rows, or the last rows if `last` is true.
    /// Both parts end at page borders of the widest column.
    ///
    /// # Errors
    /// `Internal` for an unknown column or group.
    pub fn edge(
        &self,
        group: u32,
        columns: &[Source],
        selection: &Selection,
        wanted: usize,
        last: bool,
    ) -> Result<(Selection, Selection)> {
        let head = self.group(group)?;
        debug_assert!(selection.is_of(head), "rows of another group");
        let roots = columns.iter().map(|source| self.root(*source)).collect::<Result<Vec<_>>>()?;
        let pages = self.widest_pages(group, &roots);
        let total = head.summary.rows as usize;
        let parts = |at: usize| {
            let (before, behind) =
                (selection.within(once(0..at)), selection.within(once(at..total)));
            if last { (behind, before) } else { (before, behind) }
        };
        let mut ends: Vec<usize> = pages.iter().map(|page| page.end).collect();
        if last {
            ends = pages.iter().rev().map(|page| page.start).collect();
        }
        let found = ends.into_iter().map(parts).find(|(edge, _)| edge.rows() >= wanted.max(1));
        let (edge, rest) = found.unwrap_or_else(|| (selection.clone(), selection.within([])));
        debug_assert_eq!(edge.rows() + rest.rows(), selection.rows());
        debug_assert!(edge.rows() >= wanted.min(selection.rows()), "the edge has too few rows");
        Ok((edge, rest))
    }

    /// The row ranges of the pages of the widest column among `roots`.
    fn widest_pages(&self, group: u32, roots: &[usize]) -> Vec<Range<usize>> {
        let schema = self.reader_metadata().parquet_schema();
        let Some(head) = self.metadata().row_groups().get(group as usize) else {
            return Vec::new();
        };
        let leaves = head.columns().iter().enumerate();
        let wanted = leaves.filter(|(leaf, _)| roots.contains(&schema.get_column_root_idx(*leaf)));
        let widest = wanted.max_by_key(|(_, chunk)| chunk.compressed_size());
        let total = head.num_rows().max(0).cast_unsigned() as usize;
        let pages = widest.and_then(|(leaf, _)| page_rows(self.metadata(), group, leaf, total));
        pages.map(|(_, pages)| pages).unwrap_or_default()
    }

    /// The byte ranges of the file that a read of the columns needs: dictionaries, and pages with
    /// selected rows.
    fn needed(
        &self,
        group: u32,
        roots: &[usize],
        selection: Option<&Selection>,
    ) -> Vec<Range<u64>> {
        let metadata = self.metadata();
        let schema = self.reader_metadata().parquet_schema();
        let rows = selection.and_then(Selection::to_parquet);
        let Some(row_group) = metadata.row_groups().get(group as usize) else { return Vec::new() };
        let index = metadata.offset_index().and_then(|index| index.get(group as usize));
        let mut needed = Vec::new();
        for (leaf, chunk) in row_group.columns().iter().enumerate() {
            if !roots.contains(&schema.get_column_root_idx(leaf)) {
                continue;
            }
            let (start, len) = chunk.byte_range();
            let pages = index.and_then(|index| index.get(leaf)).map(|index| index.page_locations());
            match (&rows, pages) {
                (Some(rows), Some(pages)) => {
                    let first = pages.first().map_or(start, |page| page.offset.cast_unsigned());
                    needed.push(start..first);
                    needed.extend(rows.scan_ranges(pages));
                }
                _ => needed.push(start..start + len),
            }
        }
        needed
    }

    /// The byte range of a column's Bloom filter in a row group; `None` without a filter.
    fn filter_range(&self, group: u32, leaf: usize) -> Option<Range<u64>> {
        let chunk = self.metadata().row_groups().get(group as usize)?.columns().get(leaf)?;
        let start = u64::try_from(chunk.bloom_filter_offset()?).ok()?;
        let len = u64::try_from(chunk.bloom_filter_length()?).ok()?;
        Some(start..start.checked_add(len)?)
    }

    /// Reads the blocks that contain the byte ranges, and verifies their checksums (CL-6).
    pub(crate) async fn verified(
        self: &Arc<Self>,
        needed: impl IntoIterator<Item = Range<u64>>,
    ) -> Result<VerifiedParts> {
        let shape = self.shelf().shape();
        let requests = plan::requests(needed, self.blocks(), shape);
        let reads = requests.into_iter().map(|range| async move {
            let read = || Arc::clone(self).read_blocks(range.clone()).boxed();
            let bytes = self.sharing().read(range.clone(), read).await?;
            Ok::<_, Error>((range.start, bytes))
        });
        let parts = futures::stream::iter(reads).buffered(shape.at_once).try_collect().await?;
        Ok(VerifiedParts { parts: Arc::new(parts), len: self.built().bytes })
    }

    /// Reads the blocks of a byte range; the range begins and ends at block borders.
    async fn read_blocks(self: Arc<Self>, range: Range<u64>) -> Result<Bytes> {
        let bytes = self.shelf().read(self.built().name(), range.clone()).await?;
        debug_assert_eq!(bytes.len() as u64, range.end - range.start, "bytes of another range");
        let verified = self.blocks().verify(range.start, &bytes);
        verified.map_err(|block| self.damaged(&block, "the checksum of a block does not match"))?;
        Ok(bytes)
    }

    /// Reads and verifies all bytes of the story before its tail, using limited memory. The tail
    /// was already verified when the story was opened.
    ///
    /// # Errors
    /// `DataCorrupted`, with file, offset and range; `Io`, `ConnectionFailure`.
    pub async fn verify_blocks(self: &Arc<Self>) -> Result<()> {
        let step = self.shelf().shape().request_bytes.max(1);
        let mut at = 0;
        while at < self.blocks().end() {
            let range = self.blocks().around(&(at..(at + step).min(self.blocks().end())));
            debug_assert!(at < range.end, "the verification stands still at {at}");
            at = range.end;
            self.verified([range]).await?;
        }
        Ok(())
    }
}

impl FetchedColumns {
    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.bytes.parts.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    /// Number of rows that decoding returns.
    pub fn rows(&self) -> usize {
        match &self.selection {
            Some(selection) => selection.rows(),
            None => self.story.group(self.group).map_or(0, |head| head.summary.rows as usize),
        }
    }

    /// The best number of rows per batch, at most `rows_max`: fewer rows if rows are wide.
    pub fn batch_rows(&self, rows_max: usize) -> usize {
        (BATCH_BYTES / self.row_bytes()).clamp(1, rows_max.max(1))
    }

    /// Approximate uncompressed bytes per row of the fetched columns.
    fn row_bytes(&self) -> usize {
        let schema = self.story.reader_metadata().parquet_schema();
        let head = self.story.metadata().row_groups().get(self.group as usize);
        let roots = self.columns.iter().filter_map(|source| self.story.schema().position(*source));
        let roots: Vec<usize> = roots.collect();
        let bytes = head.map_or(0, |head| {
            let leaves = head.columns().iter().enumerate();
            let wanted =
                leaves.filter(|(leaf, _)| roots.contains(&schema.get_column_root_idx(*leaf)));
            wanted.map(|(_, chunk)| chunk.uncompressed_size().max(0)).sum()
        });
        let rows = head.map_or(1, |head| head.num_rows().max(1));
        usize::try_from(bytes / rows).unwrap_or(0).max(1)
    }

    /// Decodes the rows, at most `batch_rows_max` per batch.
    ///
    /// # Errors
    /// `DataCorrupted` if the metadata is damaged; each batch of the result may fail with the same
    /// error.
    pub fn decode(self, batch_rows_max: usize) -> Result<Rows> {
        let outcome = ResultShape::new(&self.story, &self.columns)?;
        let schema = self.story.reader_metadata().parquet_schema();
        let roots = self.columns.iter().filter_map(|source| self.story.schema().position(*source));
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(
            self.bytes,
            self.story.reader_metadata().clone(),
        )
        .with_row_groups(vec![self.group as usize])
        .with_projection(ProjectionMask::roots(schema, roots))
        .with_batch_size(batch_rows_max.max(1));
        if let Some(rows) = self.selection.as_ref().and_then(Selection::to_parquet) {
            // A mask (the other policy) would also read pages that were not fetched.
            builder = builder
                .with_row_selection(rows)
                .with_row_selection_policy(RowSelectionPolicy::Selectors);
        }
        let reader = builder.build();
        let reader =
            reader.map_err(|error| undecodable(&self.story, self.group, &error.to_string()))?;
        Ok(Rows { story: self.story, group: self.group, outcome, reader })
    }

    /// Decodes all rows into one batch.
    pub(crate) fn decode_all(self) -> Result<RecordBatch> {
        let (story, group, rows) = (Arc::clone(&self.story), self.group, self.rows());
        let mut batches = self.decode(rows.max(1))?;
        let schema = batches.schema();
        let batch = batches.next().unwrap_or_else(|| Ok(RecordBatch::new_empty(schema)))?;
        match (batches.next(), batch.num_rows() == rows) {
            (None, true) => Ok(batch),
            _ => Err(undecodable(&story, group, "the number of rows is wrong")),
        }
    }
}

/// The decoded rows of a row group, as an iterator of batches.
pub struct Rows {
    story: Arc<Story>,
    group: u32,
    outcome: ResultShape,
    reader: ParquetRecordBatchReader,
}

impl Rows {
    /// The schema of the batches.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.outcome.schema)
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.reader.next()?;
        let batch = batch.map_err(|error| undecodable(&self.story, self.group, &error.to_string()));
        Some(batch.and_then(|batch| self.outcome.shape(&batch)))
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rows of group {} of {}", self.group, self.story.place())
    }
}

fn undecodable(story: &Story, group: u32, what: &str) -> Error {
    let place = story.place();
    Error::new(
        ErrorKind::DataCorrupted,
        format!("group {group} of story {place} cannot be decoded: {what}"),
    )
    .with_hint("restore the file from a backup")
}

/// The columns of a result: their order, and their types in the chronicle.
#[derive(Debug)]
struct ResultShape {
    schema: SchemaRef,
    /// For each result column: its position in the batch that Parquet returns, and its type.
    columns: Vec<(usize, ColumnType)>,
}

impl ResultShape {
    fn new(story: &Story, wanted: &[Source]) -> Result<Self> {
        let roots = wanted.iter().map(|source| story.root(*source)).collect::<Result<Vec<_>>>()?;
        // Parquet returns each column once, in the order of the columns in the file.
        let mut returned = roots.clone();
        returned.sort_unstable();
        returned.dedup();
        let mut fields: Vec<Field> = Vec::with_capacity(roots.len());
        let mut columns = Vec::with_capacity(roots.len());
        for root in roots {
            let field = story.schema().field(root);
            fields.extend(field);
            let column = story.schema().columns.get(root);
            let column_type =
                column.map_or(ColumnType::BigInt, |column| column.column_type.clone());
            columns.push((returned.partition_point(|other| *other < root), column_type));
        }
        debug_assert_eq!(fields.len(), columns.len(), "a column without a field");
        Ok(Self { schema: Arc::new(Schema::new(fields)), columns })
    }

    fn shape(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.columns.iter().map(|(at, column_type)| {
            let Some(array) = batch.columns().get(*at) else {
                return Err(Error::internal("a column was not decoded"));
            };
            form::from_stored(array, column_type)
        });
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// Verified byte ranges of a file. Parquet's decoder reads from them as from a complete file.
#[derive(Debug, Clone)]
pub(crate) struct VerifiedParts {
    /// The offset and the bytes of each range, in ascending order.
    parts: Arc<Vec<(u64, Bytes)>>,
    /// Length of the file.
    len: u64,
}

impl VerifiedParts {
    /// The bytes from offset `start` to the end of the byte range that contains `start`.
    fn from(&self, start: u64) -> Option<Bytes> {
        let after = self.parts.partition_point(|(at, _)| *at <= start);
        let (at, bytes) = self.parts.get(after.checked_sub(1)?)?;
        let skip = usize::try_from(start - at).ok()?;
        (skip < bytes.len()).then(|| bytes.slice(skip..))
    }
}

impl Length for VerifiedParts {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for VerifiedParts {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let found = self.from(start).map(Bytes::reader);
        found.ok_or_else(|| ParquetError::General(format!("offset {start} was not fetched")))
    }

    fn get_bytes(&self, start: u64, len: usize) -> Result<Bytes, ParquetError> {
        if len == 0 {
            return Ok(Bytes::new());
        }
        let missing = || ParquetError::General(format!("{len} bytes at {start} were not fetched"));
        let first = self.from(start).ok_or_else(missing)?;
        if len <= first.len() {
            return Ok(first.slice(..len));
        }
        // The requested bytes span several of the verified ranges.
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(&first);
        while bytes.len() < len {
            let next = self.from(start + bytes.len() as u64).ok_or_else(missing)?;
            let part = next.slice(..next.len().min(len - bytes.len()));
            debug_assert!(!part.is_empty(), "the copy stands still");
            bytes.extend_from_slice(&part);
        }
        debug_assert_eq!(bytes.len(), len, "too many bytes");
        Ok(bytes.into())
    }
}
