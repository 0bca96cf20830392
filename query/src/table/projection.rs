//! Parts of chronicles that a session has acquired (F9): it sees no other events, and writes no others.
//!
//! Everything that is read goes through the statement's snapshot, so that is where a part is cut out:
//! plans, templates and what storage tells without reading know nothing of it.

use std::sync::Arc;

use arrow::{
    array::{AsArray, RecordBatch},
    compute::cast,
    datatypes::{DataType, Int64Type},
};
use stratalog_model::{
    ChronicleDefinition, ChronicleId, Error, ErrorKind, Gsn, Result, Snapshot, Tick, TickRange,
    TickRanges,
    aggregate::AggregateRequest,
    tier::{BatchStream, Extent, ScanRequest},
};

use crate::errors::from_arrow;

/// A snapshot without the events outside of parts of some chronicles.
#[derive(Debug)]
struct Projection {
    whole: Arc<dyn Snapshot>,
    within: Vec<(ChronicleId, TickRange)>,
}

/// The snapshot without the events outside of these parts.
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
        let mut known = self.within.iter().filter(|(id, _)| *id == chronicle);
        known.next().map_or(TickRange::ALL, |(_, ticks)| *ticks)
    }

    fn clipped(&self, chronicle: ChronicleId, ticks: &TickRanges) -> TickRanges {
        ticks.intersect(&self.of(chronicle).into())
    }

    fn request(&self, request: ScanRequest) -> ScanRequest {
        ScanRequest { ticks: self.clipped(request.chronicle.id, &request.ticks), ..request }
    }
}

impl Snapshot for Projection {
    fn gsn(&self) -> Gsn {
        self.whole.gsn()
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
        match self.of(request.chronicle.id) {
            TickRange::ALL => self.whole.estimate(request),
            _ => self.whole.estimate(&self.request(request.clone())),
        }
    }

    fn aggregate(&self, request: AggregateRequest) -> Result<Option<Vec<BatchStream>>> {
        let scan = self.request(request.scan);
        self.whole.aggregate(AggregateRequest { scan, ..request })
    }

    fn scan(&self, request: ScanRequest) -> Result<Vec<BatchStream>> {
        self.whole.scan(self.request(request))
    }
}

/// Checks rows that are to be written by a session that may write these ticks.
///
/// # Errors
/// `OutsideProjection`.
pub fn check_rows(
    chronicle: &ChronicleDefinition,
    within: TickRange,
    rows: &RecordBatch,
) -> Result<()> {
    if within == TickRange::ALL {
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
        // What has no tick is refused where ticks are given.
        let tick = time.checked_mul(unit_ns).and_then(|ns| chronicle.scale.tick_of(ns).ok());
        check(chronicle, within, tick)?;
    }
    Ok(())
}

/// As [`check_rows`], of the ticks that rows were given: they may have moved to others.
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
    Err(Error::new(
        ErrorKind::OutsideProjection,
        format!(
            "new row of \"{}\" is outside of the part that this session has acquired",
            chronicle.name
        ),
    )
    .with_detail(format!("Its tick is {tick}, the part has ticks {within}."))
    .with_hint("acquire another part, or all of it, or RELEASE it")
    .with_subject(chronicle.subject()))
}
