//! Admission: turns pushed rows into encoded chunks whose collision keys and arrival numbers are
//! reserved.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, BooleanArray, RecordBatch},
    compute::{concat, filter_record_batch},
};
use stratalog_model::{
    Acceptance, ChronicleDefinition, Error, Result, TickSource,
    acceptance::Window,
    batch::EventBatch,
    clock::ClockReading,
    store::{OnConflict, PushResult},
};

use super::{
    INDEX_ROW_BYTES,
    admission_request::{AdmissionRefusal, AdmissionRequest},
    chronicle::Chronicle,
    chunk::Chunk,
    merge::{self, FilledColumns},
    outcome::Outcome,
    vacated_ticks::VacatedTicks,
    violation,
};
use crate::{
    events::{column::Column, keys::Groups, shape::Shape, ticks},
    ingest::keeper::Keeper,
    sabotage,
    version::compact::batch_bytes,
};

/// Maximum number of rows of a chunk. Admission looks up each row while it holds the lock of the
/// chronicle.
const CHUNK_ROWS_MAX: usize = 1 << 16;

/// Maximum number of attempts to admit a chunk under `TickSource::Server`, where each attempt sets
/// the time of the rows to the current time. Another attempt is needed only if the acceptance
/// window passes before the admission.
const ARRIVALS_MAX: usize = 100;

/// The rows of one call of `Append::push`, before their admission.
#[derive(Debug)]
pub struct Push<'a> {
    /// The chronicle's definition, as known to the sender of the rows.
    pub definition: &'a ChronicleDefinition,
    /// The keeper's state of the chronicle.
    pub chronicle: Arc<Chronicle>,
    /// Columns and types of the rows.
    pub shape: Arc<Shape>,
    /// The rows; [`Self::new`] has checked types and NULLs.
    pub rows: RecordBatch,
    /// Tick of each row, computed from the row's time.
    pub ticks: Vec<i64>,
    /// The action for a row whose collision key an earlier event has (`collision = 'first'`).
    pub on_conflict: OnConflict,
    /// The sender's rule for acceptable times.
    pub acceptance: Acceptance,
    /// Ranges of ticks that the same append has deleted earlier.
    pub vacated: Vec<VacatedTicks>,
}

/// The admitted rows of one chunk of a push.
#[derive(Debug)]
pub struct AdmittedRows {
    /// The chunk of the kept rows; `None` if admission skipped every row.
    pub chunk: Option<Chunk>,
    /// Final ticks of the kept rows.
    ticks: Vec<i64>,
    /// Final values of the tick column, one per kept row; `None` if they equal the pushed values.
    times: Option<Vec<i64>>,
    /// For each pushed row, true if admission kept the row; `None` if admission kept all rows.
    kept_mask: Option<Vec<bool>>,
    /// The columns after the merge with earlier events (`collision = 'merge'`); `None` if no row
    /// was merged.
    merged: Option<Vec<Column>>,
    rows: usize,
}

/// The results of all chunks of one push, collected for the answer to the sender.
#[derive(Debug, Default)]
pub struct PushTally {
    ticks: Vec<i64>,
    /// For each chunk, the number of kept rows, and the final values of the tick column if they
    /// differ from the pushed values.
    times: Vec<(usize, Option<Vec<i64>>)>,
    kept_mask: Vec<bool>,
    any_skipped: bool,
    /// For each chunk with merged rows: the number of kept rows before the chunk, and the merged
    /// columns. Ascending by row.
    merged: Vec<(usize, Vec<Column>)>,
}

impl<'a> Push<'a> {
    /// Checks rows and assigns their ticks.
    ///
    /// # Errors
    /// `DatatypeMismatch`, `NotNullViolation`, `DatetimeOverflow`.
    pub fn new(
        definition: &'a ChronicleDefinition,
        chronicle: Arc<Chronicle>,
        rows: RecordBatch,
        on_conflict: OnConflict,
        acceptance: Acceptance,
        vacated: Vec<VacatedTicks>,
    ) -> Result<Self> {
        violation::check_rows(definition, &rows)?;
        let shape = chronicle.shape(definition, definition.schema_version)?;
        let times = match rows.columns().get(shape.tick_at) {
            Some(column) => ticks::values(column)?,
            None => Default::default(),
        };
        let ticks = ticks::assign(&times, shape.tick_unit_ns, &definition.scale)?;
        debug_assert_eq!(ticks.len(), rows.num_rows(), "a row without a tick");
        debug_assert_eq!(shape.columns.len(), rows.num_columns(), "rows of another shape");
        Ok(Self { definition, chronicle, shape, rows, ticks, on_conflict, acceptance, vacated })
    }

    /// Converts rows from row `start` onward into stored columns. Takes at most `rows_max` rows (1
    /// or more), and fewer rows if the columns exceed `bytes_max`, the maximum size of a frame. A
    /// single row is returned even if it exceeds `bytes_max`.
    pub fn store(&self, start: usize, rows_max: usize, bytes_max: usize) -> Result<Vec<Column>> {
        debug_assert!(start < self.ticks.len() && rows_max > 0, "no row to store");
        let mut len = (self.ticks.len() - start).min(CHUNK_ROWS_MAX).min(rows_max);
        loop {
            let columns = self
                .rows
                .columns()
                .iter()
                .map(|array| Column::store(&array.slice(start, len)))
                .collect::<Result<Vec<_>>>()?;
            let bytes: usize = columns.iter().map(Column::bytes).sum();
            debug_assert!(
                columns.iter().all(|column| column.len() == len),
                "a column has another number of rows"
            );
            if bytes <= bytes_max || len == 1 {
                return Ok(columns);
            }
            // 9/10 of the estimate, so that the next attempt very likely fits.
            let fitting = len as u128 * bytes_max as u128 / bytes as u128 * 9 / 10;
            len = usize::try_from(fitting).unwrap_or(1).clamp(1, len - 1);
        }
    }

    /// Admits one chunk: claims memory, waits for statements that hold keys of the rows, reserves
    /// the keys, and encodes the rows. Returns `None` if the rows and the values of their earlier
    /// events (`collision = 'merge'`) do not fit into one frame: the caller must then retry with
    /// fewer rows. `own` are the earlier chunks of the same append for this chronicle.
    ///
    /// # Errors
    /// `UniqueViolation`, `LateEvent`, `OutsideWindow`, `TickTaken`, `GeneratedAlways`,
    /// `OutOfMemory`, `DatetimeOverflow`, `DeadlockDetected`; `SerializationFailure` if an earlier
    /// event has values in columns that the sender's definition does not have; `DataCorrupted`,
    /// `Io`, `ConnectionFailure` if a read of tablets or stories fails.
    pub async fn admit(
        &self,
        start: usize,
        columns: Vec<Column>,
        first_seq: u64,
        outcome: &Arc<Outcome>,
        keeper: &Keeper,
        own: impl Iterator<Item = &Chunk>,
    ) -> Result<Option<AdmittedRows>> {
        let rows = columns.first().map_or(0, Column::len);
        debug_assert!(rows <= self.ticks.len().saturating_sub(start), "rows behind the push");
        let stored: usize = columns.iter().map(Column::bytes).sum();
        let index = if self.chronicle.indexed() { rows * INDEX_ROW_BYTES } else { 0 };
        let bytes = batch_bytes(stored, rows, columns.len()) + index;
        let claim = keeper.backpressure.claim(&keeper.budget, bytes).await?;
        let groups = if self.chronicle.indexed() {
            Groups::of(&columns, &self.shape.keys, rows)?
        } else {
            Groups::default()
        };
        let mut columns = columns;
        let incomplete = match self.chronicle.collision().takes_earlier_values() {
            true => merge::incomplete_rows(&columns, &self.shape),
            false => None,
        };
        let mut given = self.ticks.get(start..start + rows).unwrap_or(&[]).to_vec();
        let mut final_ticks = given.clone();
        let (mut known, mut arrivals) = (None, 0);
        let is_clocked = self.definition.time_source.is_clocked();
        let mut restores = is_clocked && self.acceptance.restores;
        let admission = loop {
            let now = (is_clocked && !restores).then(|| keeper.clock.reading());
            if let (Some(now), TickSource::Server) = (&now, self.definition.time_source) {
                given.fill(self.arrive(&mut columns, rows, now)?);
                known = None;
                arrivals += 1;
            }
            final_ticks.copy_from_slice(&given);
            let stored_keys = match known.take() {
                Some(stored_keys) => stored_keys,
                None => self.chronicle.stored_keys(&groups, &given).await?,
            };
            let candidates = AdmissionRequest {
                groups: &groups,
                first_seq,
                on_conflict: self.on_conflict,
                outcome,
                stored_keys: &stored_keys,
                vacated: &self.vacated,
                incomplete: incomplete.as_ref(),
                version: self.shape.version,
                late: self.definition.late,
                window: now.map(|now| self.window(&now)),
                restores,
            };
            match self.chronicle.admit(&candidates, &mut final_ticks) {
                Ok(admission) => break admission,
                Err(AdmissionRefusal::Moved) => {}
                Err(AdmissionRefusal::Begun)
                    if self.definition.time_source == TickSource::Client =>
                {
                    // The chronicle already has events: the next attempt applies the acceptance
                    // window.
                    restores = false;
                    known = Some(stored_keys);
                }
                Err(AdmissionRefusal::Begun) => return Err(violation::begun(self.definition)),
                Err(AdmissionRefusal::Early(..)) if arrivals > 0 && arrivals < ARRIVALS_MAX => {}
                Err(AdmissionRefusal::Taken(row)) => {
                    let columns = self.rows.columns();
                    return Err(violation::duplicate_key(self.definition, columns, start + row));
                }
                Err(AdmissionRefusal::Early(row, from)) => {
                    let columns = self.rows.columns();
                    return Err(violation::early(self.definition, columns, start + row, from));
                }
                Err(AdmissionRefusal::Ahead(row, until)) => {
                    let columns = self.rows.columns();
                    let moved = given.get(row).is_some_and(|given| *given <= until);
                    return Err(match moved {
                        true => violation::window_full(self.definition, until),
                        false => violation::ahead(self.definition, columns, start + row, until),
                    });
                }
                Err(AdmissionRefusal::Late(row, highest)) => {
                    let columns = self.rows.columns();
                    return Err(violation::late(self.definition, columns, start + row, highest));
                }
                Err(AdmissionRefusal::NoTickLeft) => {
                    return Err(violation::no_tick_left(self.definition));
                }
                Err(AdmissionRefusal::Pending(holder)) => {
                    keeper.wait_graph.wait(outcome.id(), &holder).await?;
                    known = Some(stored_keys);
                }
            }
        };

        if let Some(kept) = &admission.kept_mask {
            let mask = BooleanArray::from(kept.clone());
            columns = columns.iter().map(|c| c.filter(&mask)).collect::<Result<Vec<_>>>()?;
            let mut keep = kept.iter();
            final_ticks.retain(|_| keep.next().copied().unwrap_or(true));
        }
        let mut has_merged = false;
        if let Some(merges) = &admission.merges
            && !sabotage::active("merge-ignored")
        {
            let bytes_max = keeper.settings.frame_bytes_max;
            let filled = merges.fill(self.definition, &self.shape, columns, own, bytes_max).await?;
            match filled {
                FilledColumns::Complete(filled) => columns = filled,
                FilledColumns::TooLarge => return Ok(None),
            }
            has_merged = true;
        }
        let mut times = self.final_times(&mut columns, &final_ticks, admission.moved)?;
        if arrivals > 0 && times.is_none() {
            times = self.stored_times(&columns)?;
        }
        let explicit = self.ticks_need_storing(&columns, &final_ticks, admission.moved)?;
        let chunk = if final_ticks.is_empty() {
            None
        } else {
            Some(Chunk::encode(
                Arc::clone(&self.shape),
                &columns,
                final_ticks.clone(),
                explicit,
                claim,
                admission.reserved,
            )?)
        };
        if let Some(chunk) = &chunk
            && chunk.payload.len() > keeper.settings.frame_bytes_max
        {
            // A chunk that is too large has a single row. `reserve` fails here, so that this push
            // gets the error, and not the commit.
            drop(keeper.log.reserve(chunk.payload.len()).await?);
        }
        let kept_mask = admission.kept_mask;
        // The chunk's columns point into its payload: the clone copies no values.
        let merged = chunk.as_ref().filter(|_| has_merged).map(|chunk| chunk.columns.clone());
        Ok(Some(AdmittedRows { chunk, ticks: final_ticks, times, kept_mask, merged, rows }))
    }

    /// The acceptance window of the sender at the time `now`.
    fn window(&self, now: &ClockReading) -> Window {
        let Self { definition, acceptance, .. } = self;
        Window::of(&definition.scale, definition.window_ns(), acceptance, now)
    }

    /// Sets the tick column of all rows of a chunk to the time `now`; returns the tick of this
    /// time.
    fn arrive(&self, columns: &mut [Column], rows: usize, now: &ClockReading) -> Result<i64> {
        let Some(Column::Plain(array)) = columns.get_mut(self.shape.tick_at) else {
            return Err(Error::internal("the tick column is missing"));
        };
        // Rounded down to the column's unit, so that the stored time yields the same tick when read
        // again.
        let value = now.now_ns.div_euclid(self.shape.tick_unit_ns);
        *array = ticks::column(vec![value; rows], array.data_type())?;
        let tick = ticks::assign(&[value], self.shape.tick_unit_ns, &self.definition.scale)?;
        tick.first().copied().ok_or_else(|| Error::internal("a time without a tick"))
    }

    /// The values of the tick column, as the log will store them.
    fn stored_times(&self, columns: &[Column]) -> Result<Option<Vec<i64>>> {
        match columns.get(self.shape.tick_at) {
            Some(Column::Plain(array)) => Ok(Some(ticks::values(array)?.to_vec())),
            _ => Ok(None),
        }
    }

    /// Sets each value of the tick column to the time at which its tick starts. Returns the new
    /// values; `None` if nothing changed.
    fn final_times(
        &self,
        columns: &mut [Column],
        final_ticks: &[i64],
        moved: bool,
    ) -> Result<Option<Vec<i64>>> {
        let scale = &self.definition.scale;
        if !moved && scale.granularity().ns() == 1 {
            return Ok(None);
        }
        let Some(column) = columns.get_mut(self.shape.tick_at) else { return Ok(None) };
        let Column::Plain(array) = column else { return Ok(None) };
        debug_assert_eq!(array.len(), final_ticks.len(), "a time without a tick");
        let starts = ticks::starts(final_ticks, self.shape.tick_unit_ns, scale)?;
        if ticks::values(array)?.as_ref() == starts.as_slice() {
            return Ok(None);
        }
        *column = Column::Plain(ticks::column(starts.clone(), array.data_type())?);
        Ok(Some(starts))
    }

    /// True if the log must store the ticks separately, because the stored times do not yield the
    /// same ticks again. This happens if the column's unit is coarser than the granularity, and
    /// events were moved to other ticks or the unit is not a multiple of the granularity.
    fn ticks_need_storing(
        &self,
        columns: &[Column],
        final_ticks: &[i64],
        moved: bool,
    ) -> Result<bool> {
        let scale = &self.definition.scale;
        if !moved && scale.granularity().ns() == 1 {
            return Ok(false);
        }
        let Some(Column::Plain(array)) = columns.get(self.shape.tick_at) else {
            return Ok(true);
        };
        debug_assert_eq!(array.len(), final_ticks.len(), "a time without a tick");
        let again = ticks::assign(&ticks::values(array)?, self.shape.tick_unit_ns, scale).ok();
        Ok(again.as_deref() != Some(final_ticks))
    }

    /// Returns the answer to the sender: the stored rows, and the number of skipped rows.
    pub fn admitted(self, first_seq: u64, tally: PushTally) -> Result<PushResult> {
        let given = self.rows.num_rows();
        debug_assert_eq!(tally.kept_mask.len(), given, "a row is neither kept nor skipped");
        let mut rows = self.rows;
        if tally.any_skipped {
            rows = filter_record_batch(&rows, &BooleanArray::from(tally.kept_mask))?;
        }
        if !tally.merged.is_empty() {
            rows = with_merged(&rows, &tally.merged)?;
        }
        if tally.times.iter().any(|(_, times)| times.is_some()) {
            let mut columns: Vec<ArrayRef> = rows.columns().to_vec();
            if let Some(column) = columns.get_mut(self.shape.tick_at) {
                let given = ticks::values(column)?;
                let mut times = Vec::with_capacity(given.len());
                for (kept, changed) in tally.times {
                    match changed {
                        Some(changed) => times.extend(changed),
                        None => times.extend(given.iter().skip(times.len()).take(kept)),
                    }
                }
                debug_assert_eq!(times.len(), given.len(), "a row without a time");
                *column = ticks::column(times, column.data_type())?;
            }
            rows = RecordBatch::try_new(rows.schema(), columns)?;
        }
        debug_assert_eq!(tally.ticks.len(), rows.num_rows(), "a tick without a row");
        debug_assert!(rows.num_rows() <= given, "more rows are stored than given");
        let skipped = (given - rows.num_rows()) as u64;
        let events = EventBatch {
            schema_version: self.shape.version,
            ticks: tally.ticks.into(),
            rows,
            first_seq,
        };
        Ok(PushResult { events, skipped })
    }
}

/// Returns `rows` with the merged columns in place of the pushed columns. Each entry of `merged`
/// has the first row of a chunk, and the columns of the chunk.
fn with_merged(rows: &RecordBatch, merged: &[(usize, Vec<Column>)]) -> Result<RecordBatch> {
    debug_assert!(
        merged.is_sorted_by(|before, after| before.0 < after.0),
        "the chunks are out of order"
    );
    let column = |at: usize, given: &ArrayRef| -> Result<ArrayRef> {
        let mut parts: Vec<ArrayRef> = Vec::with_capacity(2 * merged.len() + 1);
        let mut next = 0;
        for (start, columns) in merged {
            debug_assert!(next <= *start, "the chunks overlap");
            parts.push(given.slice(next, start - next));
            let Some(filled) = columns.get(at) else { continue };
            next = start + filled.len();
            parts.push(filled.slice(0, filled.len())?);
        }
        parts.push(given.slice(next, given.len() - next));
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        Ok(concat(&parts)?)
    };
    let columns = rows.columns().iter().enumerate().map(|(at, given)| column(at, given));
    Ok(RecordBatch::try_new(rows.schema(), columns.collect::<Result<Vec<_>>>()?)?)
}

impl PushTally {
    /// Adds the result of the next chunk of the push.
    pub fn add(&mut self, admitted: &mut AdmittedRows) {
        debug_assert!(
            admitted.kept_mask.as_ref().is_none_or(|kept| kept.len() == admitted.rows),
            "the mask does not cover the rows"
        );
        debug_assert!(
            admitted.times.as_ref().is_none_or(|times| times.len() == admitted.ticks.len()),
            "a time without a tick"
        );
        self.merged.extend(admitted.merged.take().map(|columns| (self.ticks.len(), columns)));
        self.times.push((admitted.ticks.len(), admitted.times.take()));
        self.ticks.append(&mut admitted.ticks);
        match admitted.kept_mask.take() {
            Some(kept) => {
                self.kept_mask.extend(kept);
                self.any_skipped = true;
            }
            None => self.kept_mask.resize(self.kept_mask.len() + admitted.rows, true),
        }
        debug_assert!(self.ticks.len() <= self.kept_mask.len());
    }
}
