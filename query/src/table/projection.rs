//! Restricts a statement to ranges of ticks of chronicles: the ranges that its session has acquired
//! (F9), and for AS OF SEALED the ranges that can no longer change (F24). The statement neither
//! reads nor writes events outside of the ranges.
//!
//! The restriction is in the snapshot, because every read uses the statement's snapshot. Plans,
//! templates and results from statistics need no knowledge of the ranges.

use std::sync::Arc;

use arrow::{
    array::{AsArray, RecordBatch},
    compute::cast,
    datatypes::{DataType, Int64Type},
};
use stratalog_model::{
    ChronicleDefinition, ChronicleId, Error, ErrorKind, Gsn, GsnRange, Result, Snapshot, Tick,
    TickRange, TickRanges, TickSource,
    aggregate::AggregateRequest,
    tier::{BatchStream, Extent, ScanRequest},
};
use stratalog_postgres::errors::from_arrow;

/// A snapshot that hides the events outside of given ranges of some chronicles.
#[derive(Debug)]
struct Projection {
    whole: Arc<dyn Snapshot>,
    within: Vec<(ChronicleId, TickRange)>,
}

/// Wraps a snapshot, so that the events outside of the given ranges are invisible.
pub fn confined(
    whole: Arc<dyn Snapshot>,
    within: Vec<(ChronicleId, TickRange)>,
) -> Arc<dyn Snapshot> {
    match within.is_empty() {
        true => whole,
        false => Arc::new(Projection { whole, within }),
    }
}

impl Projection {
    fn of(&self, chronicle: ChronicleId) -> TickRange {
        let ranges = self.within.iter().filter(|(id, _)| *id == chronicle);
        let ticks = ranges.fold(TickRange::ALL, |ticks, (_, range)| ticks.intersect(range));
        if ticks.is_empty() { TickRange::EMPTY } else { ticks }
    }

    fn clipped(&self, chronicle: ChronicleId, ticks: &TickRanges) -> TickRanges {
        ticks.intersect(&self.of(chronicle).into())
    }

    fn is_whole(&self, chronicle: ChronicleId) -> bool {
        self.of(chronicle) == TickRange::ALL
    }

    fn request(&self, request: ScanRequest) -> ScanRequest {
        ScanRequest { ticks: self.clipped(request.chronicle.id, &request.ticks), ..request }
    }
}

impl Snapshot for Projection {
    fn gsn(&self) -> Gsn {
        self.whole.gsn()
    }

    fn sealed(&self, chronicle: &ChronicleDefinition) -> Option<Tick> {
        self.whole.sealed(chronicle)
    }

    fn extent(&self, chronicle: &ChronicleDefinition, ranges: &TickRanges) -> Option<Extent> {
        self.whole.extent(chronicle, &self.clipped(chronicle.id, ranges))
    }

    fn hull(&self, chronicle: &ChronicleDefinition) -> TickRange {
        let hull = self.whole.hull(chronicle).intersect(&self.of(chronicle.id));
        if hull.is_empty() { TickRange::EMPTY } else { hull }
    }

    fn within(&self, chronicle: ChronicleId) -> TickRange {
        self.of(chronicle)
    }

    fn estimate(&self, request: &ScanRequest) -> u64 {
        match self.is_whole(request.chronicle.id) {
            true => self.whole.estimate(request),
            false => self.whole.estimate(&self.request(request.clone())),
        }
    }

    fn series(&self, chronicle: &ChronicleDefinition, ranges: &TickRanges) -> u64 {
        self.whole.series(chronicle, &self.clipped(chronicle.id, ranges))
    }

    /// The gsns of deleted events are not restricted, because their ticks are unknown.
    fn deleted(&self, chronicle: &ChronicleDefinition, gsns: GsnRange) -> Option<GsnRange> {
        self.whole.deleted(chronicle, gsns)
    }

    fn aggregate(&self, request: AggregateRequest) -> Result<Option<Vec<BatchStream>>> {
        let scan = self.request(request.scan);
        self.whole.aggregate(AggregateRequest { scan, ..request })
    }

    fn scan(&self, request: ScanRequest) -> Result<Vec<BatchStream>> {
        self.whole.scan(self.request(request))
    }
}

/// Checks that the times of new rows lie in `within`, the ticks that the session may write. For
/// times from the server, [`check_ticks`] runs after the server has assigned the times.
///
/// # Errors
/// `OutsideProjection`.
pub fn check_rows(
    chronicle: &ChronicleDefinition,
    within: TickRange,
    rows: &RecordBatch,
) -> Result<()> {
    if within == TickRange::ALL || chronicle.time_source == TickSource::Server {
        return Ok(());
    }
    let at = chronicle.position(chronicle.tick_column);
    let column = at.and_then(|at| rows.columns().get(at));
    let unit_ns = chronicle.tick().and_then(|tick| tick.column_type.timestamp_unit_ns());
    let (Some(column), Some(unit_ns)) = (column, unit_ns) else {
        return Err(Error::internal("rows without a tick column"));
    };
    let times = cast(column, &DataType::Int64).map_err(from_arrow)?;
    for time in times.as_primitive::<Int64Type>().iter().flatten() {
        // A row without a valid tick fails later, at the conversion to ticks.
        let tick = time.checked_mul(unit_ns).and_then(|ns| chronicle.scale.tick_of(ns).ok());
        check(chronicle, within, tick)?;
    }
    Ok(())
}

/// Like [`check_rows`], for the ticks that the server assigned, which may differ from the times in
/// the rows.
///
/// # Errors
/// `OutsideProjection`.
pub fn check_ticks(
    chronicle: &ChronicleDefinition,
    within: TickRange,
    ticks: &[i64],
) -> Result<()> {
    if within == TickRange::ALL {
        return Ok(());
    }
    ticks.iter().try_for_each(|tick| check(chronicle, within, Some(Tick(*tick))))
}

fn check(chronicle: &ChronicleDefinition, within: TickRange, tick: Option<Tick>) -> Result<()> {
    let Some(tick) = tick.filter(|tick| !within.contains(*tick)) else { return Ok(()) };
    let message = format!(
        "new row of \"{}\" is outside of the range acquired by this session",
        chronicle.name
    );
    Err(outside_projection_error(chronicle, message)
        .with_detail(format!("The row has tick {tick}, the range has ticks {within}.")))
}

/// The error for a removal by gsn in a session that may remove only the ticks `within`.
pub fn no_positions(chronicle: &ChronicleDefinition, within: TickRange) -> Error {
    let message = format!(
        "cannot remove events of \"{}\" by position: this session has acquired a range of it",
        chronicle.name
    );
    outside_projection_error(chronicle, message).with_detail(format!(
        "Events before a position may have any tick, the range has ticks {within}."
    ))
}

fn outside_projection_error(chronicle: &ChronicleDefinition, message: String) -> Error {
    Error::new(ErrorKind::OutsideProjection, message)
        .with_hint("acquire another range or the whole chronicle, or RELEASE the chronicle")
        .with_subject(chronicle.subject())
}

#[cfg(test)]
mod tests;
