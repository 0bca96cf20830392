//! The builder of stories: writes row groups to a file in the spool folder, stores the file on the
//! shelf, and verifies the story there.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    datatypes::{Float32Type, Float64Type, Int64Type},
};
use parquet::{
    arrow::{ArrowWriter, arrow_writer::ArrowWriterOptions},
    basic::Encoding,
    errors::ParquetError,
    file::metadata::SortingColumn,
    schema::types::{ColumnPath, SchemaDescriptor},
};
use stratalog_model::{ColumnId, ColumnType, Disk, Error, ErrorKind, IndexKind, Result};

use crate::{
    annex::AnnexWriter,
    cells,
    decoded_columns::DecodedColumns,
    description::{AnnexPlace, BuiltStory, CellsPlace, GroupSummary},
    digest::Digest,
    encoding::{self, EncodingChoice},
    footer, form, sabotage,
    schema::{Source, StorySchema},
    settings::StorySettings,
    shelf::{Shelf, Spool, StoryId, StoryName},
    sink::Sink,
    story::Story,
    words,
};

/// Maximum bytes of a key in a group summary.
const KEY_BYTES_MAX: usize = 64 << 10;

/// Builds a story. If the builder is dropped before [`Builder::finish`], it removes its file from
/// the spool folder; after a crash, the next start removes the file.
#[derive(Debug)]
pub struct Builder {
    shelf: Arc<dyn Shelf>,
    disk: Arc<dyn Disk>,
    path: PathBuf,
    name: StoryName,
    schema: StorySchema,
    settings: StorySettings,
    /// The empty file, until the first row group determines the encodings of the columns.
    file: Option<Sink>,
    writer: Option<ArrowWriter<Sink>>,
    groups: Vec<GroupSummary>,
    /// The columns that contain NaN.
    with_nan: BTreeSet<ColumnId>,
    digest: Digest,
    cells: AnnexWriter,
    words: AnnexWriter,
}

impl Builder {
    /// Creates the file of a new story in the spool folder.
    pub(crate) fn create(
        shelf: Arc<dyn Shelf>,
        disk: Arc<dyn Disk>,
        spool: &Path,
        id: StoryId,
        schema: &StorySchema,
        settings: StorySettings,
    ) -> Result<Self> {
        schema.validate()?;
        let path = spool.join(format!("{:020}{}", id.0, crate::store::BUILDING_SUFFIX));
        let file = disk
            .create(&path)
            .map_err(|error| Error::io(format!("cannot create {}", path.display()), error))?;
        let cells = AnnexWriter::new(cells::schema_of(schema), &settings);
        let words = AnnexWriter::new(words::schema(), &settings);
        Ok(Self {
            shelf,
            disk,
            path,
            name: StoryName { chronicle: schema.chronicle, id },
            schema: schema.clone(),
            settings,
            file: Some(Sink::new(file)),
            writer: None,
            groups: Vec::new(),
            with_nan: BTreeSet::new(),
            digest: Digest::new(schema),
            cells,
            words,
        })
    }

    /// Approximate size of the file so far, in bytes.
    pub fn bytes(&self) -> u64 {
        self.writer.as_ref().map_or(0, |writer| writer.bytes_written() as u64)
    }

    /// Adds a row group with the events of one time window. The columns are the columns of
    /// [`StorySchema::arrow_schema`]; text may be dictionary-encoded. The rows must be sorted by
    /// the key columns, then by tick.
    ///
    /// # Errors
    /// `DiskFull`, `Io`; `DatetimeOverflow` for a timestamp(0) outside of Parquet's range;
    /// `Internal` if the rows contradict `summary`, or are not sorted.
    pub fn push(&mut self, rows: &RecordBatch, summary: GroupSummary) -> Result<()> {
        let rows = self.plain(rows)?;
        self.check(&rows, &summary)?;
        let batch = RecordBatch::try_new(self.schema.stored_schema(), self.stored(&rows)?)?;
        if let Some(sink) = self.file.take() {
            self.writer = Some(self.start(sink, &batch)?);
        }
        let Some(writer) = &mut self.writer else {
            return Err(Error::internal("the story has failed before"));
        };
        let written = writer.write(&batch).and_then(|()| writer.flush());
        if let Err(error) = written {
            return Err(self.failed(error));
        }
        debug_assert!(writer.flushed_row_groups().len() > self.groups.len(), "no group is written");
        self.digest.add(&rows)?;
        let group = self.groups.len() as u32;
        if let Some(cells) = cells::cells_of(&self.schema, self.settings.cell_rows, &rows)? {
            self.cells.push(group, &cells)?;
        }
        if let Some(words) = words::words_of(&self.schema, &rows)? {
            self.words.push(group, &words)?;
        }
        let columns = self.schema.columns.iter().zip(rows.columns());
        for (column, array) in columns {
            if !self.with_nan.contains(&column.id) && has_nan(array) {
                self.with_nan.insert(column.id);
            }
        }
        self.groups.push(summary);
        Ok(())
    }

    /// Completes the story: writes the footer, makes the file durable, stores it on the shelf, and
    /// reads the complete story back for verification. A manifest may name the story only after
    /// this.
    ///
    /// # Errors
    /// `DiskFull`, `Io`, `ConnectionFailure`; `DataCorrupted` if the data read back differs;
    /// `Internal` for a story without rows. After an error the story is invalid, and removed if
    /// possible; a retry needs a new builder with another number.
    pub async fn finish(mut self) -> Result<BuiltStory> {
        let built = self.write_tail()?;
        let spool =
            Spool { disk: Arc::clone(&self.disk), path: self.path.clone(), bytes: built.bytes };
        self.shelf.put(self.name, &spool).await?;
        let checked = self.check_shelf(&built).await;
        if checked.is_err()
            && let Err(error) = self.shelf.remove(self.name).await
        {
            tracing::warn!(%error, "a story that is of no use is left for the next start");
        }
        checked.map(|()| built)
    }

    async fn check_shelf(&self, built: &BuiltStory) -> Result<()> {
        if sabotage::active("story-unverified") {
            return Ok(());
        }
        let story = Arc::new(
            Story::open(Arc::clone(&self.shelf), built, Arc::new(DecodedColumns::new(0))).await?,
        );
        if story.verify().await? == self.digest {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::DataCorrupted,
            format!("story {} reads back wrongly", self.shelf.place(self.name)),
        )
        .with_hint("check the disk and the memory of the machine"))
    }

    fn write_tail(&mut self) -> Result<BuiltStory> {
        let Some(mut writer) = self.writer.take() else {
            return Err(Error::internal(format!("story {} has no rows", self.name)));
        };
        let mut built = self.totals();
        debug_assert!(!self.groups.is_empty() && built.ticks.0 <= built.ticks.1);
        debug_assert!(built.gsns.0 <= built.gsns.1);
        // The last bytes of the last row group may still be in the buffer of Parquet's writer.
        if let Err(error) = writer.sync() {
            return Err(self.failed_with(writer.inner_mut().take_failure(), error.into()));
        }
        let cells =
            put(&mut writer, &mut self.cells).map_err(|why| self.failed_with(why.0, why.1))?;
        let words =
            put(&mut writer, &mut self.words).map_err(|why| self.failed_with(why.0, why.1))?;
        let cells = cells.map(|annex| CellsPlace {
            annex,
            cell_rows: self.settings.cell_rows,
            layout: cells::LAYOUT,
        });
        let (tail_at, checksums) = writer.inner_mut().begin_tail();
        built.tail_at = tail_at;
        let parts = footer::Parts {
            groups: &self.groups,
            with_nan: &self.with_nan,
            checksums,
            cells,
            words,
        };
        let pairs = footer::encode(&self.schema, &built, &parts);
        let pairs = pairs.map_err(|error| {
            Error::internal("the columns of a story cannot be written").with_source(error)
        })?;
        for pair in pairs {
            writer.append_key_value_metadata(pair);
        }
        let finished = writer.finish().and_then(|_| Ok(writer.sync()?));
        let sink = writer.inner_mut();
        if let Err(error) = finished {
            return Err(self.failed_with(sink.take_failure(), error));
        }
        sink.sync().map_err(|error| self.cannot_write(error))?;
        built.bytes = sink.bytes();
        built.checksum = sink.tail_checksum();
        debug_assert!(built.tail_at < built.bytes, "the tail begins behind the end of the file");
        Ok(built)
    }

    /// The description of the story so far, from the sums over all row groups.
    fn totals(&self) -> BuiltStory {
        let mut built = BuiltStory {
            id: self.name.id,
            chronicle: self.name.chronicle,
            schema_version: self.schema.version,
            bytes: 0,
            tail_at: 0,
            rows: 0,
            groups: self.groups.len() as u32,
            ticks: (i64::MAX, i64::MIN),
            gsns: (u64::MAX, u64::MIN),
            checksum: 0,
        };
        for group in &self.groups {
            built.rows += group.rows;
            built.ticks = (built.ticks.0.min(group.ticks.0), built.ticks.1.max(group.ticks.1));
            built.gsns = (built.gsns.0.min(group.gsns.0), built.gsns.1.max(group.gsns.1));
        }
        built
    }

    /// Checks that the rows match the summary and are sorted.
    fn check(&self, rows: &RecordBatch, summary: &GroupSummary) -> Result<()> {
        let wrong = |what: String| Error::internal(format!("story {}: {what}", self.name));
        if rows.num_rows() == 0 || rows.num_rows() as u64 != summary.rows {
            return Err(wrong(format!(
                "a slice has {} rows, and is said to have {}",
                rows.num_rows(),
                summary.rows
            )));
        }
        if summary.keys.0.len().max(summary.keys.1.len()) > KEY_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("a key of more than {KEY_BYTES_MAX} bytes is too long for a story"),
            ));
        }
        let hull = |source: Source| -> Result<(i64, i64)> {
            let at = self.schema.position(source).and_then(|at| rows.columns().get(at));
            let numbers = at.and_then(|numbers| numbers.as_primitive_opt::<Int64Type>());
            let Some(numbers) = numbers.filter(|numbers| numbers.null_count() == 0) else {
                return Err(wrong("a slice has no numbers of its events".to_string()));
            };
            let (low, high) = (numbers.values().iter().min(), numbers.values().iter().max());
            Ok((low.copied().unwrap_or_default(), high.copied().unwrap_or_default()))
        };
        hull(Source::Seq)?;
        let gsns = hull(Source::Gsn)?;
        let gsns = (gsns.0.cast_unsigned(), gsns.1.cast_unsigned());
        if hull(Source::Tick)? != summary.ticks || gsns != summary.gsns {
            return Err(wrong("a slice has other ticks or gsn's than it is said to".to_string()));
        }
        let sorted_by = self.schema.key_positions().chain(self.schema.position(Source::Tick));
        let sorted_by: Vec<&ArrayRef> = sorted_by.filter_map(|at| rows.columns().get(at)).collect();
        match crate::order::first_out_of_order(&sorted_by)? {
            Some(row) => Err(wrong(format!("row {row} of a slice is out of order"))),
            None => Ok(()),
        }
    }

    /// Converts the rows to the column types of the schema, without dictionaries.
    fn plain(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let columns = rows.columns().iter().zip(self.types());
        let columns = columns.map(|(array, of)| form::plain(array, of)).collect::<Result<_>>()?;
        let plain = RecordBatch::try_new(self.schema.arrow_schema(), columns);
        plain.map_err(|error| {
            Error::internal(format!("a slice of story {} is none: {error}", self.name))
        })
    }

    /// Converts the columns to the types that Parquet stores.
    fn stored(&self, rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let columns = rows.columns().iter().zip(self.types());
        columns.map(|(array, of)| form::to_stored(array, of)).collect()
    }

    fn types(&self) -> impl Iterator<Item = &ColumnType> {
        let types = self.schema.columns.iter().map(|column| &column.column_type);
        types.chain([&ColumnType::BigInt; 3])
    }

    /// Chooses the encodings by the first row group, and creates Parquet's writer.
    fn start(&self, sink: Sink, batch: &RecordBatch) -> Result<ArrowWriter<Sink>> {
        let descriptor = self.schema.parquet_schema()?;
        let settings = encoding::for_width(&self.settings, batch);
        let mut properties = encoding::properties(&settings)?
            .set_created_by(format!("stratalog version {}", env!("CARGO_PKG_VERSION")))
            .set_sorting_columns(Some(self.sorting_columns(&descriptor)));
        for (path, array) in encoding::leaves(batch) {
            let choice = match array {
                Some(array) => encoding::choose(&array, &settings)?,
                None => EncodingChoice { dictionary: true, encoding: Encoding::PLAIN },
            };
            properties = choice.apply(properties, &path);
        }
        for column in &self.schema.columns {
            let keyed =
                self.schema.keys.contains(&column.id) && column.column_type != ColumnType::Boolean;
            if keyed || self.schema.is_indexed(column.id, IndexKind::Bloom) {
                let path = ColumnPath::new(vec![column.name.clone()]);
                properties = properties
                    .set_column_bloom_filter_enabled(path.clone(), true)
                    .set_column_bloom_filter_fpp(path, self.settings.bloom_false_positives);
            }
        }
        let options = ArrowWriterOptions::new()
            .with_properties(properties.build())
            .with_skip_arrow_metadata(true)
            .with_parquet_schema(descriptor);
        ArrowWriter::try_new_with_options(sink, batch.schema(), options)
            .map_err(|error| self.failed_with(None, error))
    }

    /// The sort order of the rows: key columns, then the tick.
    fn sorting_columns(&self, descriptor: &SchemaDescriptor) -> Vec<SortingColumn> {
        let keys = self.schema.key_positions().chain(self.schema.position(Source::Tick));
        let leaf = |root: usize| {
            (0..descriptor.num_columns()).find(|leaf| descriptor.get_column_root_idx(*leaf) == root)
        };
        let column = |leaf: usize| SortingColumn {
            column_idx: leaf as i32,
            descending: false,
            nulls_first: false,
        };
        keys.filter_map(leaf).map(column).collect()
    }

    /// Converts a Parquet error, whose cause is usually a disk failure. All later pushes fail.
    fn failed(&mut self, error: ParquetError) -> Error {
        let failure = self.writer.take().and_then(|mut writer| writer.inner_mut().take_failure());
        self.failed_with(failure, error)
    }

    fn failed_with(&self, failure: Option<std::io::Error>, error: ParquetError) -> Error {
        match failure {
            Some(failure) => self.cannot_write(failure),
            None => Error::internal(format!("story {} cannot be written: {error}", self.name))
                .with_source(error),
        }
    }

    fn cannot_write(&self, error: std::io::Error) -> Error {
        Error::io(format!("cannot write {}", self.path.display()), error)
    }
}

impl Drop for Builder {
    /// Removes the file from the spool folder, unless the shelf has moved it.
    fn drop(&mut self) {
        let there = self.disk.exists(&self.path).unwrap_or(false);
        if there && let Err(error) = self.disk.remove_file(&self.path) {
            tracing::warn!(%error, "a spool file is left for the next start");
        }
    }
}

/// Writes an annex at the current end of the file. On failure, returns the disk error, if any, and
/// the Parquet error.
fn put(
    writer: &mut ArrowWriter<Sink>,
    annex: &mut AnnexWriter,
) -> Result<Option<AnnexPlace>, (Option<std::io::Error>, ParquetError)> {
    let file = annex.finish(writer.inner().bytes());
    let file = file.map_err(|error| (None, ParquetError::External(Box::new(error))))?;
    let Some((bytes, place)) = file else { return Ok(None) };
    match writer.write_all(&bytes).and_then(|()| writer.sync()) {
        Ok(()) => Ok(Some(place)),
        Err(error) => Err((writer.inner_mut().take_failure(), error.into())),
    }
}

/// Whether a float column contains NaN. A NaN in the place of a NULL counts too; the only harm is
/// that readers cannot skip some pages.
fn has_nan(array: &ArrayRef) -> bool {
    let floats = array.as_primitive_opt::<Float64Type>();
    let singles = array.as_primitive_opt::<Float32Type>();
    floats.is_some_and(|floats| floats.values().iter().any(|float| float.is_nan()))
        || singles.is_some_and(|singles| singles.values().iter().any(|single| single.is_nan()))
}
