//! Reads a piece (tablet or story): selects its visible, wanted rows, and builds batches of them.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array, new_empty_array,
    },
    datatypes::Int64Type,
};
use stratalog_model::{
    Error, Gsn, Result, Tick, TickRange, ValueFilter,
    tier::{ScanOrder, ScanRequest},
    values::ValuePredicate,
};
use stratalog_story::{CellColumn, ColumnValues, KeyValues, Source, Story};

use super::system_columns::{numbers_of, seqs_of, system_column};
use crate::{
    events::{
        column::Column,
        part_events::{ColumnSelection, PartEvents},
        runs::{Runs, SeriesKeys},
    },
    read::journal_split::SharedRequest,
    sabotage,
    version::{
        fence::Fence,
        piece::{OpenPiece, Part, is_behind},
    },
};

/// A piece, and the state to read it for one request.
pub struct PieceReader {
    piece: Arc<OpenPiece>,
    shared: Arc<SharedRequest>,
    /// The deletes that hide rows of the piece.
    fences: Vec<Fence>,
    /// True if the request excludes some gsn's of the piece.
    cut: bool,
    /// The filters on seq and gsn of events: stored column, and inclusive bounds.
    numbers: Vec<(Source, i64, i64)>,
    /// Key filters on columns of the piece: position in the shape, and the allowed values.
    key_hulls: Vec<(usize, ValuePredicate)>,
}

impl PieceReader {
    /// A reader of `piece` for a request.
    pub fn new(piece: Arc<OpenPiece>, shared: Arc<SharedRequest>) -> Self {
        let mut fences: Vec<Fence> = piece.fences_among(shared.version.fences()).copied().collect();
        if sabotage::active("fence-ignored") {
            fences.clear();
        }
        let request = &shared.request;
        let cut = !request.gsns.covers(&piece.gsns());
        let numbers = numbers_of(request, cut);
        let key_hulls = request.keys.iter().filter_map(|filter| {
            let column = request.chronicle.columns.get(filter.column)?.id;
            Some((piece.shape().position(column)?, ValuePredicate::among(&filter.values)?))
        });
        let key_hulls = key_hulls.collect();
        Self { piece, shared, fences, cut, numbers, key_hulls }
    }

    /// The filters on seq and gsn of events: stored column, and inclusive bounds.
    pub fn numbers(&self) -> &[(Source, i64, i64)] {
        &self.numbers
    }

    /// State shared by all readers of the request.
    pub fn shared(&self) -> &Arc<SharedRequest> {
        &self.shared
    }

    /// An empty array with the type of a key column. `at` is the position of the column in the key.
    ///
    /// # Errors
    /// `Internal` if the position does not exist.
    pub fn no_key(&self, at: usize) -> Result<ArrayRef> {
        let shape = self.piece.shape();
        let field = shape.keys.at.get(at).and_then(|at| shape.schema.fields().get(*at));
        let field = field.ok_or_else(|| Error::internal("a key column is none"))?;
        Ok(new_empty_array(field.data_type()))
    }

    /// The request.
    pub fn request(&self) -> &Arc<ScanRequest> {
        &self.shared.request
    }

    /// The piece.
    pub fn piece(&self) -> &Arc<OpenPiece> {
        &self.piece
    }

    /// Reads the events of a tablet block.
    pub fn read_at_hand(&self, part: &Part) -> Result<PartEvents> {
        let (events, bytes) = self.piece.read_at_hand(part, &self.column_selection(&part.hull))?;
        self.request().metrics.tablet.read(part.rows, bytes);
        Ok(events)
    }

    /// True if a tablet block may contain an event with a wanted arrival number. Reads only the
    /// arrival numbers of the block.
    pub fn may_hold_seqs(&self, part: &Part) -> Result<bool> {
        let Some((low, high)) = seqs_of(self.request()) else { return Ok(true) };
        let wanted = ColumnSelection { seqs: true, ..ColumnSelection::default() };
        let (events, bytes) = self.piece.read_at_hand(part, &wanted)?;
        self.request().metrics.tablet.read_on(0, bytes);
        debug_assert_eq!(events.seqs.len(), events.rows, "arrival numbers were not read");
        Ok(events.seqs.iter().any(|seq| low <= *seq && *seq <= high))
    }

    /// True if the snapshot sees every event of a part. `hull` is the tick range of the part.
    pub fn sees_all(&self, hull: &TickRange) -> bool {
        !self.cut && !self.fenced(hull) && !self.shared.version.pieces().has_replaced()
    }

    /// True if the rows of a row group may be returned in stored order. The stored order is by key,
    /// and by (tick, seq) within a key.
    pub fn reads_as_it_lies(&self) -> bool {
        self.request().order == ScanOrder::Any || self.piece.shape().keys.at.is_empty()
    }

    /// The runs of a row group of a story: its series, and the rows of each.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub async fn runs(&self, story: &Arc<Story>, part: &Part) -> Result<Arc<Runs>> {
        if let Some(runs) = story.finding::<Runs>(part.number) {
            return Ok(runs);
        }
        let shape = self.piece.shape();
        let runs = match self.runs_of_cells(story, part).await? {
            Some(runs) => runs,
            None => {
                self.request().metrics.story.compared(part.rows);
                let wanted = ColumnSelection {
                    columns: shape.keys.at.clone(),
                    ..ColumnSelection::default()
                };
                let columns = match wanted.columns.is_empty() {
                    true => Vec::new(),
                    false => {
                        let batch = story.read(part.number, &wanted.sources(shape)?, None).await?;
                        PartEvents::of_batch(&batch, &wanted, shape)?.columns_at(&shape.keys.at)?
                    }
                };
                Runs::of(&columns, &shape.keys, part.rows as usize)?
            }
        };
        let runs = Arc::new(runs);
        self.piece.saw_series(runs.len());
        story.note(part.number, &runs, runs.bytes());
        Ok(runs)
    }

    /// True if a row group has cells, which means few series compared with its number of rows.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure`.
    pub async fn has_cells(&self, story: &Arc<Story>, part: &Part) -> Result<bool> {
        Ok(story.cells(part.number, &[CellColumn::Rows]).await?.is_some())
    }

    /// The runs of a row group, computed from its cells; `None` if it has no cells.
    async fn runs_of_cells(&self, story: &Arc<Story>, part: &Part) -> Result<Option<Runs>> {
        let key = &self.piece.shape().keys;
        if story.schema().keys.len() != key.at.len() {
            return Ok(None);
        }
        let mut wanted: Vec<CellColumn> = (0..key.at.len()).map(CellColumn::Key).collect();
        wanted.extend([CellColumn::First, CellColumn::Last, CellColumn::Rows]);
        let Some(mut columns) = story.cells(part.number, &wanted).await? else { return Ok(None) };
        let numbers = columns.split_off(key.at.len());
        let numbers: Vec<&[i64]> = numbers
            .iter()
            .filter_map(|array| Some(&**array.as_primitive_opt::<Int64Type>()?.values()))
            .collect();
        let [firsts, lasts, counts] = numbers.as_slice() else {
            return Err(Error::internal("cells have no numbers"));
        };
        let columns: Vec<Column> = columns.into_iter().map(Column::Plain).collect();
        let runs = Runs::of_cells(&columns, key, (firsts, lasts, counts))?;
        let rows = runs.len().checked_sub(1).map_or(0, |last| runs.rows(last).end);
        match rows as u64 == part.rows {
            true => Ok(Some(runs)),
            false => Err(Error::internal("cells of other rows than the group has")),
        }
    }

    /// Indexes of the series whose keys match the key filters of the request.
    ///
    /// # Errors
    /// `Internal`.
    pub fn matching(&self, keys: &SeriesKeys) -> Result<Vec<usize>> {
        let mut matching: Vec<usize> = (0..keys.len()).collect();
        for set in self.shared.keys.iter() {
            let matches = set.matches(&Column::Plain(self.key_column(keys, set.column)?))?;
            matching.retain(|at| matches.get(*at).copied().unwrap_or(false));
        }
        Ok(matching)
    }

    /// The values of a key column (position `at` in the request's definition), a row per series.
    ///
    /// # Errors
    /// `Internal` if the column is not a key column.
    pub fn key_column(&self, keys: &SeriesKeys, at: usize) -> Result<ArrayRef> {
        let shape = self.piece.shape();
        let id = self.request().chronicle.columns.get(at).map(|column| column.id);
        let place = id.and_then(|id| shape.position(id));
        let Some(place) = place else { return self.constant(at, keys.len()) };
        let key = shape.keys.at.iter().position(|key| *key == place);
        let values = key.and_then(|key| keys.values().get(key));
        values.cloned().ok_or_else(|| Error::internal("a key column is none"))
    }

    /// The source to read a column from. `at` is the position of the column in the request's
    /// definition. `None` if the piece lacks the column.
    pub fn source(&self, at: usize) -> Option<Source> {
        let id = self.request().chronicle.columns.get(at)?.id;
        self.piece.shape().position(id).map(|_| Source::Column(id))
    }

    /// The values of a column that the piece lacks: the missing value from the definition.
    ///
    /// # Errors
    /// `Internal`.
    pub fn constant(&self, at: usize, rows: usize) -> Result<ArrayRef> {
        let definition = self.request().chronicle.columns.get(at);
        let definition =
            definition.ok_or_else(|| Error::internal(format!("there is no column {at}")))?;
        Column::missing(definition, rows)?.slice(0, rows)
    }

    /// The columns and numbers (tick, seq, gsn) to read from a part with ticks in `hull`.
    pub fn column_selection(&self, hull: &TickRange) -> ColumnSelection {
        let request = self.request();
        let definitions = &request.chronicle.columns;
        let user = definitions.len();
        let ordered = request.order != ScanOrder::Any;
        let system = |number: usize| request.projection.contains(&(user + number));
        let filters = request.keys.iter().map(|filter| filter.column);
        let named = request.projection.iter().copied().chain(filters);
        let place = |at: usize| self.piece.shape().position(definitions.get(at)?.id);
        let mut columns: Vec<usize> = named.filter_map(place).collect();
        columns.sort_unstable();
        columns.dedup();
        let replaced = self.shared.version.pieces().has_replaced();
        ColumnSelection {
            columns,
            ticks: ordered
                || system(0)
                || system(6)
                || !request.ticks.covers(hull)
                || self.fenced(hull),
            seqs: ordered || system(1) || replaced,
            gsns: system(2) || system(4) || self.cut || self.fenced(hull),
        }
    }

    fn fenced(&self, hull: &TickRange) -> bool {
        self.fences.iter().any(|fence| fence.ticks.overlaps(hull))
    }

    /// Like [`Self::column_selection`], as sources for a story.
    pub fn sources(&self, hull: &TickRange) -> Result<Vec<Source>> {
        self.column_selection(hull).sources(self.piece.shape())
    }

    /// Converts a batch that a story has returned for [`Self::sources`].
    pub fn events(&self, batch: &RecordBatch, hull: &TickRange) -> Result<PartEvents> {
        PartEvents::of_batch(batch, &self.column_selection(hull), self.piece.shape())
    }

    /// The key filters on columns that the piece has, by column id.
    pub fn key_values(&self) -> Vec<KeyValues> {
        let request = self.request();
        let filters = request.keys.iter().filter_map(|filter| {
            let column = request.chronicle.columns.get(filter.column)?.id;
            self.piece.shape().position(column)?;
            Some(KeyValues { column, values: Arc::clone(&filter.values) })
        });
        filters.collect()
    }

    /// The filters on non-key columns of the piece, with their positions in the shape.
    fn values_at(&self) -> impl Iterator<Item = (usize, &ValueFilter)> {
        let request = self.request();
        request.values.iter().filter_map(|filter| {
            let column = request.chronicle.columns.get(filter.column)?.id;
            Some((self.piece.shape().position(column)?, filter))
        })
    }

    /// True if a tablet block may contain values that match the filters, by its column statistics.
    pub fn may_hold_values(&self, part: &Part) -> bool {
        let may_be_in = |at: usize, wanted: &ValuePredicate| {
            part.values(at).is_none_or(|values| wanted.may_be_in(&values))
        };
        self.key_hulls.iter().all(|(at, wanted)| may_be_in(*at, wanted))
            && self.values_at().all(|(at, filter)| may_be_in(at, &filter.predicate))
    }

    /// Like [`Self::key_values`], for the filters on columns outside of the key.
    pub fn column_values(&self) -> Vec<ColumnValues> {
        let columns = &self.piece.shape().columns;
        let values = self.values_at().filter_map(|(at, filter)| {
            Some(ColumnValues { column: *columns.get(at)?, predicate: filter.predicate.clone() })
        });
        values.collect()
    }

    /// The filters in `values` that have a list of allowed values: a Bloom filter can check them.
    pub fn indexed_values(&self, values: &[ColumnValues]) -> Vec<KeyValues> {
        let among = |values: &ColumnValues| match &values.predicate {
            ValuePredicate::Among(among) => {
                Some(KeyValues { column: values.column, values: Arc::clone(among) })
            }
            _ => None,
        };
        values.iter().filter_map(among).collect()
    }

    /// Checks that `events` has all numbers (tick, seq, gsn) that the selection of rows needs.
    fn check(&self, events: &PartEvents, hull: &TickRange) -> Result<()> {
        let wanted = self.column_selection(hull);
        let is_complete = |wanted: bool, values: &[i64]| !wanted || values.len() == events.rows;
        if is_complete(wanted.ticks, &events.ticks)
            && is_complete(wanted.seqs, &events.seqs)
            && is_complete(wanted.gsns, &events.gsns)
        {
            return Ok(());
        }
        Err(Error::internal(format!("numbers of events of {} are missing", self.piece.place())))
    }

    /// The rows that are visible and match ticks, gsn's and key filters. `None` means all rows.
    pub fn seen(&self, events: &PartEvents, hull: &TickRange) -> Result<Option<Vec<u32>>> {
        self.check(events, hull)?;
        let SharedRequest { request, keys, version, visible, .. } = self.shared.as_ref();
        let pieces = version.pieces();
        let inside = request.ticks.covers(hull);
        let fences: Vec<&Fence> =
            self.fences.iter().filter(|fence| fence.ticks.overlaps(hull)).collect();
        let seen_by_place = fences.is_empty() && !self.cut;
        if inside && seen_by_place && !pieces.has_replaced() && keys.is_empty() {
            return Ok(None);
        }
        let number = |values: &[i64], row: usize| values.get(row).copied().unwrap_or_default();
        let mut rows: Vec<u32> = (0..events.rows as u32).collect();
        if !inside {
            rows.retain(|row| request.ticks.contains(Tick(number(&events.ticks, *row as usize))));
        }
        if self.cut {
            let gsn = |row: u32| Gsn(number(&events.gsns, row as usize).cast_unsigned());
            rows.retain(|row| request.gsns.contains(gsn(*row)));
        }
        if !fences.is_empty() {
            rows.retain(|row| {
                let tick = Tick(number(&events.ticks, *row as usize));
                !is_behind(&fences, tick, number(&events.gsns, *row as usize))
            });
        }
        if pieces.has_replaced() {
            rows.retain(|row| !pieces.is_replaced(number(&events.seqs, *row as usize), *visible));
        }
        for set in keys.iter() {
            let matches = set.matches(&self.column(events, set.column)?)?;
            rows.retain(|row| matches.get(*row as usize).copied().unwrap_or(false));
        }
        Ok(Some(rows))
    }

    /// The selected rows (see [`Self::seen`]), in batches, in stored order.
    pub fn unordered(&self, events: &PartEvents, hull: &TickRange) -> Result<Vec<RecordBatch>> {
        let rows_max = self.request().batch_rows_max.max(1);
        match self.seen(events, hull)? {
            None => self.in_batches(events),
            Some(rows) => {
                let rows: Vec<(usize, u32)> = rows.into_iter().map(|row| (0, row)).collect();
                let events = std::slice::from_ref(events);
                rows.chunks(rows_max).map(|rows| self.batch(events, rows)).collect()
            }
        }
    }

    /// All events, in batches, in stored order.
    fn in_batches(&self, events: &PartEvents) -> Result<Vec<RecordBatch>> {
        let rows_max = self.request().batch_rows_max.max(1);
        let whole = self.whole(events)?;
        let starts = (0..events.rows).step_by(rows_max);
        Ok(starts.map(|at| whole.slice(at, rows_max.min(events.rows - at))).collect())
    }

    /// The selected rows of all parts in `read`, sorted in the order of the request, in batches.
    pub fn ordered(&self, read: Vec<(PartEvents, TickRange)>) -> Result<Vec<RecordBatch>> {
        let request = self.request();
        let mut order: Vec<(i64, i64, u32, u32)> = Vec::new();
        for (at, (events, hull)) in read.iter().enumerate() {
            let rows = self.seen(events, hull)?;
            let rows = rows.unwrap_or_else(|| (0..events.rows as u32).collect());
            order.extend(rows.into_iter().map(|row| {
                let of = |values: &[i64]| values.get(row as usize).copied().unwrap_or_default();
                (of(&events.ticks), of(&events.seqs), at as u32, row)
            }));
        }
        let parts: Vec<PartEvents> = read.into_iter().map(|(events, _)| events).collect();
        let whole = parts.first().filter(|events| parts.len() == 1 && events.rows == order.len());
        if let Some(events) = whole
            && request.order == ScanOrder::Ascending
            && request.limit.is_none_or(|limit| limit >= order.len())
            && order.is_sorted()
        {
            return self.in_batches(events);
        }
        order.sort_unstable();
        if request.order == ScanOrder::Descending {
            order.reverse();
        }
        order.truncate(request.limit.unwrap_or(usize::MAX));
        let rows: Vec<(usize, u32)> =
            order.into_iter().map(|(_, _, part, row)| (part as usize, row)).collect();
        rows.chunks(request.batch_rows_max.max(1)).map(|rows| self.batch(&parts, rows)).collect()
    }

    /// Positions of the columns to return: the projection, plus `_tick` and `_seq` for ordered
    /// requests, whose streams are merged.
    fn places(&self) -> Vec<usize> {
        let request = self.request();
        let user = request.chronicle.columns.len();
        let ordered = (request.order != ScanOrder::Any).then_some([user, user + 1]);
        request.projection.iter().copied().chain(ordered.into_iter().flatten()).collect()
    }

    fn of_arrays(&self, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.shared.schema);
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }

    /// Builds one batch of all events, in stored order.
    fn whole(&self, events: &PartEvents) -> Result<RecordBatch> {
        let user = self.request().chronicle.columns.len();
        let all = || (0..events.rows as u32).map(|row| (0, row)).collect::<Vec<_>>();
        let arrays = self.places().into_iter().map(|at| match at.checked_sub(user) {
            None => self.column(events, at)?.slice(0, events.rows),
            Some(system) => system_column(
                std::slice::from_ref(events),
                &all(),
                system,
                self.piece(),
                self.request(),
            ),
        });
        self.of_arrays(arrays.collect::<Result<_>>()?, events.rows)
    }

    /// A batch of selected rows. Each entry of `rows` has an index in `parts`, and a row there.
    pub fn batch(&self, parts: &[PartEvents], rows: &[(usize, u32)]) -> Result<RecordBatch> {
        let user = self.request().chronicle.columns.len();
        let arrays = self.places().into_iter().map(|at| match at.checked_sub(user) {
            None => self.stored(parts, rows, at),
            Some(system) => system_column(parts, rows, system, self.piece(), self.request()),
        });
        self.of_arrays(arrays.collect::<Result<_>>()?, rows.len())
    }

    fn stored(&self, parts: &[PartEvents], rows: &[(usize, u32)], at: usize) -> Result<ArrayRef> {
        if let [events] = parts {
            let indices = UInt32Array::from_iter_values(rows.iter().map(|(_, row)| *row));
            return self.column(events, at)?.rows(&indices);
        }
        let arrays = parts.iter().map(|events| {
            let column = self.column(events, at)?;
            column.slice(0, column.len())
        });
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        let indices: Vec<(usize, usize)> =
            rows.iter().map(|(part, row)| (*part, *row as usize)).collect();
        Ok(arrow::compute::interleave(&arrays, &indices)?)
    }

    /// The column at position `at` of the request's definition. If the piece lacks the column,
    /// every row has the missing value from the definition.
    pub fn column(&self, events: &PartEvents, at: usize) -> Result<Column> {
        let Some(definition) = self.request().chronicle.columns.get(at) else {
            return Err(Error::internal(format!("there is no column {at}")));
        };
        match self.piece.shape().position(definition.id) {
            Some(at) => {
                let column = events.columns.get(at).cloned().flatten();
                column.ok_or_else(|| Error::internal("a column was not read"))
            }
            None => Column::missing(definition, events.rows),
        }
    }
}
