//! Cells out of their file within that of a story.

use std::{ops::Range, sync::Arc};

use arrow::array::{ArrayRef, RecordBatch};
use bytes::Bytes;
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{
            ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
        },
    },
    errors::ParquetError,
    file::{
        metadata::{PageIndexPolicy, ParquetMetaDataReader},
        reader::{ChunkReader, Length},
    },
};
use stratalog_model::{Error, ErrorKind, Result};

use super::{CellColumn, CellsPlace, build, layout};
use crate::{form, read::Verified, story::Story};

/// The file of the cells, opened.
#[derive(Debug)]
pub(crate) struct CellsFile {
    place: CellsPlace,
    metadata: ArrowReaderMetadata,
    /// The groups that have cells, ascending; each is a row group here.
    groups: Vec<u32>,
    columns: Vec<CellColumn>,
}

impl Story {
    /// Columns of the cells of a group, a row for each cell in the order of key and time, in the
    /// order in which they are asked for; `None` where there are none. They stay in memory.
    ///
    /// Cells that are damaged are none: an error is logged, and whoever asks counts rows.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure`; `Internal` for a column that the cells do not have.
    pub async fn cells(
        self: &Arc<Self>,
        group: u32,
        columns: &[CellColumn],
    ) -> Result<Option<Vec<ArrayRef>>> {
        let Some(file) = self.cells_file().await? else { return Ok(None) };
        let Ok(row_group) = file.groups.binary_search(&group) else { return Ok(None) };
        let place = |column: &CellColumn| {
            let found = file.columns.iter().position(|known| known == column);
            found.ok_or_else(|| Error::internal(format!("a story has no cells of {column:?}")))
        };
        let places = columns.iter().map(place).collect::<Result<Vec<usize>>>()?;
        let mut found: Vec<Option<ArrayRef>> =
            places.iter().map(|at| self.decoded().cell(self, group, *at)).collect();
        let lacking: Vec<usize> = places
            .iter()
            .zip(&found)
            .filter(|(_, found)| found.is_none())
            .map(|(place, _)| *place)
            .collect();
        if !lacking.is_empty() {
            let read = match self.read_cells(file, row_group, &lacking).await {
                Err(error) if error.kind() == ErrorKind::DataCorrupted => {
                    tracing::error!(%error, "cells of a story are damaged; its rows are counted");
                    return Ok(None);
                }
                read => read?,
            };
            for (place, found) in places.iter().zip(&mut found) {
                let at = lacking.iter().position(|lacks| lacks == place);
                if let Some(array) = at.and_then(|at| read.get(at)) {
                    self.decoded().keep_cell(self, group, *place, array);
                    *found = Some(Arc::clone(array));
                }
            }
        }
        Ok(found.into_iter().collect())
    }

    /// All of the cells of a group, as they were built.
    pub(crate) async fn all_cells(self: &Arc<Self>, group: u32) -> Result<Option<RecordBatch>> {
        let Some(file) = self.open_cells().await? else { return Ok(None) };
        let Ok(row_group) = file.groups.binary_search(&group) else { return Ok(None) };
        let all: Vec<usize> = (0..file.columns.len()).collect();
        let arrays = self.read_cells(&file, row_group, &all).await?;
        let batch = RecordBatch::try_new(build::schema_of(self.schema()), arrays);
        batch.map(Some).map_err(|error| self.damaged(&file.place.range(), &error.to_string()))
    }

    /// The file, opened once; `None` if there is none, or if it is damaged.
    async fn cells_file(self: &Arc<Self>) -> Result<Option<&CellsFile>> {
        let open = || async {
            match self.open_cells().await {
                Err(error) if error.kind() == ErrorKind::DataCorrupted => {
                    tracing::error!(%error, "cells of a story are damaged; its rows are counted");
                    Ok(None)
                }
                opened => opened,
            }
        };
        Ok(self.opened_cells().get_or_try_init(open).await?.as_ref())
    }

    async fn open_cells(self: &Arc<Self>) -> Result<Option<CellsFile>> {
        let Some(place) = self.cells_place() else { return Ok(None) };
        let footer = place.range().end.saturating_sub(place.footer_bytes)..place.range().end;
        let bytes = self.verified([footer.clone()]).await?;
        let damaged = |what: String| self.damaged(&footer, &what);
        let bytes = bytes
            .get_bytes(footer.start, (footer.end - footer.start) as usize)
            .map_err(|error| damaged(error.to_string()))?;
        let mut reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Skip);
        reader.try_parse_sized(&bytes, place.bytes).map_err(|error| damaged(error.to_string()))?;
        let metadata = reader.finish().map_err(|error| damaged(error.to_string()))?;
        let pairs = metadata.file_metadata().key_value_metadata();
        let groups = pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == build::GROUPS));
        let groups = groups.and_then(|pair| serde_json::from_str(pair.value.as_deref()?).ok());
        let groups: Vec<u32> = groups.ok_or_else(|| damaged("cells of no groups".to_string()))?;
        if groups.len() != metadata.num_row_groups() {
            return Err(damaged("cells of other groups than they say".to_string()));
        }
        let options = ArrowReaderOptions::new().with_schema(build::schema_of(self.schema()));
        let metadata = ArrowReaderMetadata::try_new(Arc::new(metadata), options)
            .map_err(|error| damaged(error.to_string()))?;
        let columns = layout(self.schema()).into_iter().map(|(column, _)| column).collect();
        Ok(Some(CellsFile { place, metadata, groups, columns }))
    }

    /// Reads columns of a row group of the file, by their places in the layout, in that order.
    async fn read_cells(
        self: &Arc<Self>,
        file: &CellsFile,
        row_group: usize,
        places: &[usize],
    ) -> Result<Vec<ArrayRef>> {
        let metadata = file.metadata.metadata();
        let head = metadata.row_groups().get(row_group);
        let head = head.ok_or_else(|| Error::internal("a group of cells is missing"))?;
        let chunks = places.iter().filter_map(|at| head.columns().get(*at));
        let needed = chunks.map(|chunk| {
            let (start, len) = chunk.byte_range();
            file.place.at + start..file.place.at + start + len
        });
        let bytes = self.verified(needed).await?;
        let damaged = |what: String| self.damaged(&file.place.range(), &what);
        let shifted = Shifted { bytes, place: file.place };
        let mask = ProjectionMask::roots(file.metadata.parquet_schema(), places.iter().copied());
        let rows = usize::try_from(head.num_rows()).unwrap_or_default();
        let reader =
            ParquetRecordBatchReaderBuilder::new_with_metadata(shifted, file.metadata.clone())
                .with_row_groups(vec![row_group])
                .with_projection(mask)
                .with_batch_size(rows.max(1))
                .build();
        let mut reader = reader.map_err(|error| damaged(error.to_string()))?;
        let batch = reader.next().and_then(std::result::Result::ok);
        let batch = batch.filter(|batch| batch.num_rows() == rows);
        let batch = batch.ok_or_else(|| damaged("cells cannot be decoded".to_string()))?;
        // Parquet returns each column once, in the order of the file.
        let mut returned = places.to_vec();
        returned.sort_unstable();
        returned.dedup();
        let array = |place: &usize| -> Result<ArrayRef> {
            let at = returned.binary_search(place).ok();
            let array = at.and_then(|at| batch.columns().get(at));
            let array = array.ok_or_else(|| Error::internal("a column was not decoded"))?;
            match file.columns.get(*place) {
                Some(CellColumn::Key(key)) => {
                    let column = self.schema().key_positions().nth(*key);
                    let column = column.and_then(|at| self.schema().columns.get(at));
                    let column = column.ok_or_else(|| Error::internal("a key column is none"))?;
                    form::from_stored(array, &column.column_type)
                }
                _ => Ok(Arc::clone(array)),
            }
        };
        places.iter().map(array).collect()
    }
}

impl CellsPlace {
    fn range(&self) -> Range<u64> {
        self.at..self.at.saturating_add(self.bytes)
    }
}

/// The file of the cells, as if it lay by itself.
struct Shifted {
    bytes: Verified,
    place: CellsPlace,
}

impl Length for Shifted {
    fn len(&self) -> u64 {
        self.place.bytes
    }
}

impl ChunkReader for Shifted {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        self.bytes.get_read(self.place.at + start)
    }

    fn get_bytes(&self, start: u64, len: usize) -> Result<Bytes, ParquetError> {
        self.bytes.get_bytes(self.place.at + start, len)
    }
}
