//! A cache of decoded columns of stories, within a memory budget. Dashboards read the same rows
//! again and again.
//!
//! ```text
//!   a row group:     rows 0 … 2047 │ rows 2048 … 4095 │ …     chunks: a quarter of a page each
//!       _tick        array         │ array            │
//!       usage_user   not cached    │ array            │       key: story, group, column, chunk
//! ```
//! The cache is scan-resistant: a chunk read once does not evict a chunk that is read often.

use std::{any::Any, ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef},
    datatypes::DataType,
};
use quick_cache::{
    DefaultHashBuilder, OptionsBuilder, Weighter,
    sync::{Cache, DefaultLifecycle},
};
use stratalog_model::{Error, Result};

use crate::{runs_of_text::RunsOfText, schema::Source, select::Selection, story::Story};

mod cache_key;

use cache_key::{CacheKey, Subject};
pub use cache_key::{Finding, FindingKey, StoryEdge};

/// Number of rows in a chunk. A chunk is smaller than a page, so that after a lookup of one series
/// the cache keeps few rows of other series.
pub const CHUNK_ROWS: usize = 2_048;

/// Assumed bytes of a chunk, from which the cache estimates its number of chunks.
const CHUNK_BYTES: usize = 8 * CHUNK_ROWS;

/// Minimum size of a shard (part) of the cache; each shard has its own lock. A value larger than a
/// shard is never cached, and findings about millions of series take some tens of megabytes.
const SHARD_BYTES_MIN: u64 = 64 << 20;

/// Maximum number of shards.
const SHARDS_MAX: usize = 64;

/// Prefetching stops when the cache is filled to this percentage: more prefetching would evict
/// columns that queries have requested.
const FULL_PERCENT: u64 = 80;

/// A value of the cache.
#[derive(Debug, Clone)]
enum CacheValue {
    Values(ArrayRef),
    Texts(Arc<RunsOfText>),
    /// A [`Finding`], whose type depends on the type of its key; and its size in bytes.
    Finding(Arc<dyn Any + Send + Sync>, usize),
}

#[derive(Debug, Clone)]
struct Bytes;

impl Weighter<CacheKey, CacheValue> for Bytes {
    fn weight(&self, _: &CacheKey, kept: &CacheValue) -> u64 {
        let bytes = match kept {
            CacheValue::Values(array) => array.get_array_memory_size(),
            CacheValue::Texts(texts) => texts.bytes(),
            CacheValue::Finding(_, bytes) => *bytes,
        };
        (bytes + size_of::<CacheKey>()) as u64
    }
}

/// The cache of decoded columns of all stories of a shelf.
#[derive(Debug)]
pub(crate) struct DecodedColumns(Cache<CacheKey, CacheValue, Bytes>);

impl DecodedColumns {
    /// A cache of at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: u64) -> Self {
        let items = usize::try_from(bytes_max).unwrap_or(usize::MAX) / CHUNK_BYTES;
        let shards = usize::try_from(bytes_max / SHARD_BYTES_MIN).unwrap_or(usize::MAX);
        // Round down to a power of two here, because the cache would round the number of shards up.
        let shards = 1_usize << shards.clamp(1, SHARDS_MAX).ilog2();
        debug_assert!(
            shards == 1 || bytes_max / shards as u64 >= SHARD_BYTES_MIN,
            "the shards are too small"
        );
        let options = OptionsBuilder::new()
            .estimated_items_capacity(items.max(16))
            .weight_capacity(bytes_max)
            .shards(shards)
            .build();
        match options {
            Ok(options) => Self(Cache::with_options(
                options,
                Bytes,
                DefaultHashBuilder::default(),
                DefaultLifecycle::default(),
            )),
            // Unreachable: both capacities were given.
            Err(_) => Self(Cache::with_weighter(items.max(16), bytes_max, Bytes)),
        }
    }

    /// The column number `column` of the cells of a row group, if cached.
    pub(crate) fn cell(&self, story: &Story, group: u32, column: usize) -> Option<ArrayRef> {
        match self.0.get(&cell_key(story, group, column)) {
            Some(CacheValue::Values(array)) => Some(array),
            _ => None,
        }
    }

    /// Caches a column of the cells of a row group.
    pub(crate) fn keep_cell(&self, story: &Story, group: u32, column: usize, array: &ArrayRef) {
        self.0.insert(cell_key(story, group, column), CacheValue::Values(Arc::clone(array)));
    }

    /// Whether `bytes` more bytes fit without evicting other values.
    fn has_room(&self, bytes: u64) -> bool {
        let used = self.0.weight().saturating_add(bytes);
        used.saturating_mul(100) <= self.0.capacity().saturating_mul(FULL_PERCENT)
    }

    /// Bytes of the cached values.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.weight()
    }
}

fn cell_key(story: &Story, group: u32, column: usize) -> CacheKey {
    debug_assert!(u32::try_from(column).is_ok(), "two columns have one key");
    CacheKey::of(story, Subject::CellColumn { group, column: column as u32 })
}

/// Decoded columns of a row group, for the chunks that contain the requested rows.
#[derive(Debug, Clone)]
pub struct Columns {
    /// For each column, its chunks in ascending order, with their numbers.
    chunks: Vec<Vec<(u32, ArrayRef)>>,
    /// Bytes that had to be read from the story.
    read_bytes: u64,
}

impl Columns {
    /// Bytes read from the story; 0 if all chunks were cached.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// The chunks of a column, in ascending order: chunk number and values. `column` is the
    /// column's position in the request. Row `r` of the group is in chunk `r / CHUNK_ROWS`.
    pub fn chunks(&self, column: usize) -> &[(u32, ArrayRef)] {
        self.chunks.get(column).map_or(&[], Vec::as_slice)
    }

    /// The values of a column for the rows `rows`: one array per chunk.
    ///
    /// # Errors
    /// `Internal` for rows that were not requested.
    pub fn slices(&self, column: usize, rows: Range<usize>) -> Result<Vec<ArrayRef>> {
        let missing = || Error::internal("rows of a story that were not read");
        let chunks = self.chunks.get(column).ok_or_else(missing)?;
        let mut slices = Vec::with_capacity(1);
        let mut at = rows.start;
        while at < rows.end {
            let number = at / CHUNK_ROWS;
            let found = chunks.binary_search_by_key(&number, |(chunk, _)| *chunk as usize);
            let (_, array) = found.ok().and_then(|at| chunks.get(at)).ok_or_else(missing)?;
            let start = at - number * CHUNK_ROWS;
            let len = (rows.end - at).min(array.len().saturating_sub(start));
            if len == 0 {
                return Err(missing());
            }
            slices.push(array.slice(start, len));
            at += len;
        }
        debug_assert_eq!(
            slices.iter().map(|slice| slice.len()).sum::<usize>(),
            rows.len(),
            "the slices are not all rows"
        );
        Ok(slices)
    }
}

/// The numbers of the chunks that contain the rows of `ranges`, which are ascending and disjoint.
fn chunks_of(ranges: &[Range<usize>]) -> Vec<u32> {
    let mut chunks: Vec<u32> = Vec::new();
    for range in ranges.iter().filter(|range| !range.is_empty()) {
        let first = (range.start / CHUNK_ROWS) as u32;
        let last = ((range.end - 1) / CHUNK_ROWS) as u32;
        let next = chunks.last().map_or(first, |known| first.max(known + 1));
        chunks.extend(next..=last);
        debug_assert!(chunks.last() >= Some(&last), "the last row is in no chunk");
    }
    debug_assert!(chunks.is_sorted_by(|a, b| a < b), "chunks out of order");
    chunks
}

impl Story {
    /// The cached finding (value derived from the story) with the key `key`, if cached.
    pub fn finding<T: Finding>(&self, key: T::Key) -> Option<Arc<T>> {
        let subject = Subject::Finding(T::cache_key(key));
        match self.decoded().0.get(&CacheKey::of(self, subject)) {
            Some(CacheValue::Finding(finding, _)) => finding.downcast().ok(),
            _ => None,
        }
    }

    /// Caches a finding of size `bytes`.
    pub fn note<T: Finding>(&self, key: T::Key, finding: &Arc<T>, bytes: usize) {
        let subject = Subject::Finding(T::cache_key(key));
        let finding: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(finding);
        self.decoded().0.insert(CacheKey::of(self, subject), CacheValue::Finding(finding, bytes));
    }

    /// The cache key of a chunk. `root` is the position of the column in the file.
    fn chunk_key(&self, group: u32, root: usize, chunk: u32) -> CacheKey {
        debug_assert!(u32::try_from(root).is_ok(), "two columns have one key");
        CacheKey::of(self, Subject::Chunk { group, column: root as u32, chunk })
    }

    /// Whether the cache has some of the rows `ranges` of a column. For `ranges` see
    /// [`Self::columns`].
    pub fn is_decoded(&self, group: u32, column: Source, ranges: &[Range<usize>]) -> bool {
        let Ok(root) = self.root(column) else { return false };
        chunks_of(ranges)
            .into_iter()
            .all(|chunk| self.decoded().0.peek(&self.chunk_key(group, root, chunk)).is_some())
    }

    /// Decodes the numbers, times and repetitive texts of a row group in advance, while the cache
    /// has room. Returns `false` if the cache has no room.
    ///
    /// # Errors
    /// The errors of [`Story::read`].
    pub async fn prefetch(self: &Arc<Self>, group: u32) -> Result<bool> {
        let rows = self.group(group)?.summary.rows as usize;
        let (mut columns, mut row_bytes) = (vec![Source::Tick], size_of::<i64>());
        for column in &self.schema().columns {
            let (source, of) = (Source::Column(column.id), column.column_type.arrow_type());
            match of.primitive_width() {
                Some(bytes) => row_bytes += bytes,
                None if of == DataType::Utf8View && self.is_alike(group, source).await? => {
                    row_bytes += size_of::<u32>();
                }
                None => continue,
            }
            columns.push(source);
        }
        if !self.decoded().has_room(rows.saturating_mul(row_bytes) as u64) {
            return Ok(false);
        }
        let all = 0..rows;
        self.columns(group, &columns, std::slice::from_ref(&all)).await?;
        Ok(true)
    }

    /// Whether the texts of a column repeat often, judged by the first chunk.
    async fn is_alike(self: &Arc<Self>, group: u32, column: Source) -> Result<bool> {
        let first = 0..CHUNK_ROWS.min(self.group(group)?.summary.rows as usize);
        let columns = self.columns(group, &[column], std::slice::from_ref(&first)).await?;
        match columns.chunks(0).first() {
            Some((_, texts)) => Ok(RunsOfText::of(texts)?.is_some()),
            None => Ok(false),
        }
    }

    /// Returns columns of a row group for at least the rows of `ranges`, which are ascending and
    /// disjoint. Takes the values from the cache; missing values are read and then cached.
    ///
    /// # Errors
    /// The errors of [`Story::read`].
    pub async fn columns(
        self: &Arc<Self>,
        group: u32,
        columns: &[Source],
        ranges: &[Range<usize>],
    ) -> Result<Columns> {
        let total = self.group(group)?.summary.rows as usize;
        let wanted = chunks_of(ranges);
        let roots = columns.iter().map(|source| self.root(*source)).collect::<Result<Vec<_>>>()?;
        let mut found: Vec<Vec<(u32, ArrayRef)>> = Vec::with_capacity(columns.len());
        // Columns that miss the same chunks are read together.
        let mut lacking: Vec<(Vec<u32>, Vec<usize>)> = Vec::new();
        for (at, root) in roots.iter().enumerate() {
            let mut own = Vec::with_capacity(wanted.len());
            let mut lacks = Vec::new();
            for chunk in &wanted {
                match self.decoded().0.get(&self.chunk_key(group, *root, *chunk)) {
                    Some(CacheValue::Values(array)) => own.push((*chunk, array)),
                    Some(CacheValue::Texts(texts)) => own.push((*chunk, texts.unpacked()?)),
                    Some(CacheValue::Finding(..)) | None => lacks.push(*chunk),
                }
            }
            found.push(own);
            if !lacks.is_empty() {
                match lacking.iter_mut().find(|(chunks, _)| *chunks == lacks) {
                    Some((_, columns)) => columns.push(at),
                    None => lacking.push((lacks, vec![at])),
                }
            }
        }
        let mut read_bytes = 0;
        for (chunks, lacks) in lacking {
            let sources: Vec<Source> =
                lacks.iter().filter_map(|at| columns.get(*at).copied()).collect();
            let rows = chunks.iter().map(|chunk| {
                let start = *chunk as usize * CHUNK_ROWS;
                start..(start + CHUNK_ROWS).min(total)
            });
            let selection = Selection::all(total).within(rows);
            let fetched = self.fetch(group, &sources, Some(&selection)).await?;
            read_bytes += fetched.bytes() as u64;
            let mut batches = fetched.decode(CHUNK_ROWS)?;
            for chunk in chunks {
                let missing = || Error::internal("a chunk of a story was not decoded");
                let batch = batches.next().ok_or_else(missing)??;
                let start = chunk as usize * CHUNK_ROWS;
                if batch.num_rows() != (total - start).min(CHUNK_ROWS) {
                    return Err(missing());
                }
                debug_assert_eq!(batch.num_columns(), lacks.len(), "other columns were decoded");
                for (array, at) in batch.columns().iter().zip(&lacks) {
                    if let (Some(root), Some(own)) = (roots.get(*at), found.get_mut(*at)) {
                        let kept = match RunsOfText::of(array)? {
                            Some(texts) => CacheValue::Texts(Arc::new(texts)),
                            None => CacheValue::Values(Arc::clone(array)),
                        };
                        self.decoded().0.insert(self.chunk_key(group, *root, chunk), kept);
                        own.push((chunk, Arc::clone(array)));
                    }
                }
            }
        }
        for own in &mut found {
            own.sort_unstable_by_key(|(chunk, _)| *chunk);
            debug_assert!(own.is_sorted_by(|(a, _), (b, _)| a < b), "a chunk was read twice");
            debug_assert_eq!(own.len(), wanted.len(), "a chunk was not read");
        }
        Ok(Columns { chunks: found, read_bytes })
    }
}
