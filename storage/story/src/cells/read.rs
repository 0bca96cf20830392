//! Reads the cells (stored aggregates) of a story.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use stratalog_model::{Error, ErrorKind, Result};

use super::{CellColumn, build, layout};
use crate::{
    annex::Annex,
    decoded_columns::{Finding, FindingKey},
    description::CellsPlace,
    form,
    story::Story,
};

/// The open annex with the cells, and the list of its columns.
#[derive(Debug)]
struct OpenCells {
    annex: Annex,
    columns: Vec<CellColumn>,
}

/// The cached value; `None` if the cells are damaged.
impl Finding for Option<OpenCells> {
    type Key = ();

    fn cache_key((): Self::Key) -> FindingKey {
        FindingKey::CellsAnnex
    }
}

impl OpenCells {
    /// Positions of columns in the annex.
    fn places(&self, columns: &[CellColumn]) -> Result<Vec<usize>> {
        let place = |column: &CellColumn| {
            let found = self.columns.iter().position(|known| known == column);
            found.ok_or_else(|| Error::internal(format!("a story has no cells of {column:?}")))
        };
        columns.iter().map(place).collect()
    }
}

impl Story {
    /// Reads columns of the cells of a row group, in the order of `columns`. The result has one row
    /// per cell, sorted by key and time. `None` for a row group without cells. The columns are
    /// cached.
    ///
    /// If the cells are damaged, the error is logged and the result is `None`: the caller then
    /// aggregates the rows instead.
    /// # Errors
    /// `Io`, `ConnectionFailure`; `Internal` for a column that cells do not have.
    pub async fn cells(
        self: &Arc<Self>,
        group: u32,
        columns: &[CellColumn],
    ) -> Result<Option<Vec<ArrayRef>>> {
        let Some(place) = self.cells_place() else { return Ok(None) };
        let opened = self.opened_cells(place).await?;
        let Some(opened) = opened.as_ref() else { return Ok(None) };
        let places = opened.places(columns)?;
        let mut found: Vec<Option<ArrayRef>> =
            places.iter().map(|at| self.decoded().cell(self, group, *at)).collect();
        let lacking: Vec<usize> = places
            .iter()
            .zip(&found)
            .filter(|(_, found)| found.is_none())
            .map(|(place, _)| *place)
            .collect();
        if !lacking.is_empty() {
            let read = match self.read_cells(&opened.annex, group, &lacking).await {
                Err(error) if error.kind() == ErrorKind::DataCorrupted => {
                    tracing::error!(%error, "cells of a story are damaged; aggregates are computed from rows");
                    None
                }
                read => read?,
            };
            let Some(read) = read else { return Ok(None) };
            debug_assert_eq!(read.len(), lacking.len(), "other columns were read");
            for (place, found) in places.iter().zip(&mut found) {
                let at = lacking.iter().position(|lacks| lacks == place);
                if let Some(array) = at.and_then(|at| read.get(at)) {
                    self.decoded().keep_cell(self, group, *place, array);
                    *found = Some(Arc::clone(array));
                }
            }
        }
        debug_assert!(found.iter().all(Option::is_some), "a column of the cells was not read");
        Ok(found.into_iter().collect())
    }

    /// Opens the annex of the cells; `None` without an annex.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub(crate) async fn open_cells(self: &Arc<Self>) -> Result<Option<Annex>> {
        match self.cells_place() {
            Some(place) => {
                Annex::open(self, place.annex, build::schema_of(self.schema())).await.map(Some)
            }
            None => Ok(None),
        }
    }

    /// All columns of all cells of a row group, for verification.
    pub(crate) async fn all_cells(
        self: &Arc<Self>,
        annex: &Annex,
        group: u32,
    ) -> Result<Option<RecordBatch>> {
        let schema = build::schema_of(self.schema());
        let all: Vec<usize> = (0..schema.fields().len()).collect();
        let Some(arrays) = annex.read(self, group, &all).await? else { return Ok(None) };
        let batch = RecordBatch::try_new(schema, arrays);
        batch.map(Some).map_err(|error| self.damaged(&annex.place().range(), &error.to_string()))
    }

    /// The annex with the cells, opened once and then cached; `None` if damaged.
    async fn opened_cells(self: &Arc<Self>, place: CellsPlace) -> Result<Arc<Option<OpenCells>>> {
        if let Some(known) = self.finding::<Option<OpenCells>>(()) {
            return Ok(known);
        }
        let schema = build::schema_of(self.schema());
        let opened = match Annex::open(self, place.annex, schema).await {
            Err(error) if error.kind() == ErrorKind::DataCorrupted => {
                tracing::error!(%error, "cells of a story are damaged; aggregates are computed from rows");
                None
            }
            annex => {
                let columns = layout(self.schema()).into_iter().map(|(of, _)| of).collect();
                Some(OpenCells { annex: annex?, columns })
            }
        };
        let bytes = opened.as_ref().map_or(0, |opened| opened.annex.memory_bytes());
        let opened = Arc::new(opened);
        self.note((), &opened, bytes);
        Ok(opened)
    }

    /// Reads columns of the annex by their positions, in the order of `places`.
    async fn read_cells(
        self: &Arc<Self>,
        annex: &Annex,
        group: u32,
        places: &[usize],
    ) -> Result<Option<Vec<ArrayRef>>> {
        let Some(arrays) = annex.read(self, group, places).await? else { return Ok(None) };
        let keys: Vec<usize> = self.schema().key_positions().collect();
        // The key columns are the first columns of the annex.
        let arrays = places.iter().zip(arrays).map(|(place, array)| {
            match keys.get(*place).and_then(|at| self.schema().columns.get(*at)) {
                Some(column) => form::from_stored(&array, &column.column_type),
                None => Ok(array),
            }
        });
        arrays.collect::<Result<_>>().map(Some)
    }
}
