//! The calls of a confined snapshot on the whole snapshot.

use parking_lot::Mutex;
use stratalog_model::tier::ScanOrder;

use super::*;
use crate::table::pushdown::tests::chronicle;

/// Records the requested ticks.
#[derive(Debug, Default)]
struct Asked(Mutex<Vec<TickRanges>>);

impl Asked {
    fn note(&self, ticks: &TickRanges) {
        self.0.lock().push(ticks.clone());
    }
}

impl Snapshot for Asked {
    fn gsn(&self) -> Gsn {
        Gsn(7)
    }
    fn sealed(&self, _: &ChronicleDefinition) -> Option<Tick> {
        Some(Tick(20))
    }
    fn extent(&self, _: &ChronicleDefinition, ranges: &TickRanges) -> Option<Extent> {
        self.note(ranges);
        Some(Extent { rows: 3, ticks: ranges.hull(), bytes: 0 })
    }
    fn hull(&self, _: &ChronicleDefinition) -> TickRange {
        ticks(0, 100)
    }
    fn estimate(&self, request: &ScanRequest) -> u64 {
        self.note(&request.ticks);
        4
    }
    fn series(&self, _: &ChronicleDefinition, ranges: &TickRanges) -> u64 {
        self.note(ranges);
        5
    }
    fn deleted(&self, _: &ChronicleDefinition, gsns: GsnRange) -> Option<GsnRange> {
        Some(gsns)
    }
    fn aggregate(&self, request: AggregateRequest) -> Result<Option<Vec<BatchStream>>> {
        self.note(&request.scan.ticks);
        Ok(None)
    }
    fn scan(&self, request: ScanRequest) -> Result<Vec<BatchStream>> {
        self.note(&request.ticks);
        Ok(Vec::new())
    }
}

fn ticks(start: i64, end: i64) -> TickRange {
    TickRange::new(Tick(start), Tick(end))
}

fn request(chronicle: &ChronicleDefinition) -> ScanRequest {
    ScanRequest {
        chronicle: Arc::new(chronicle.clone()),
        projection: vec![0],
        ticks: ticks(5, 50).into(),
        gsns: GsnRange::ALL,
        keys: Vec::new(),
        values: Vec::new(),
        order: ScanOrder::Any,
        newest_of: None,
        limit: None,
        batch_rows_max: 1,
        streams: 1,
        metrics: Arc::default(),
        memory: None,
    }
}

/// Calls every read method, for ticks from 5 to 50.
fn ask(snapshot: &dyn Snapshot, of: &ChronicleDefinition) {
    let aggregate = AggregateRequest {
        scan: request(of),
        keys: Vec::new(),
        windows: None,
        statistics: Vec::new(),
    };
    assert_eq!(snapshot.extent(of, &ticks(5, 50).into()).unwrap().rows, 3);
    assert_eq!(snapshot.estimate(&request(of)), 4);
    assert_eq!(snapshot.series(of, &ticks(5, 50).into()), 5);
    assert!(snapshot.aggregate(aggregate).unwrap().is_none());
    assert!(snapshot.scan(request(of)).unwrap().is_empty());
}

#[test]
fn all_that_is_asked_is_asked_of_the_part() {
    let confined_to = chronicle("1ns", 6);
    let other = ChronicleDefinition { id: ChronicleId(2), ..confined_to.clone() };
    let whole = Arc::new(Asked::default());
    // The acquired range, and the sealed range within.
    let within = vec![(confined_to.id, ticks(10, 40)), (confined_to.id, ticks(-100, 21))];
    let seen = confined(Arc::clone(&whole) as Arc<dyn Snapshot>, within);
    assert_eq!(seen.gsn(), Gsn(7));
    assert_eq!(seen.sealed(&confined_to), Some(Tick(20)));
    assert_eq!(seen.within(confined_to.id), ticks(10, 21));
    assert_eq!(seen.hull(&confined_to), ticks(10, 21));
    assert_eq!(seen.deleted(&confined_to, GsnRange::at(Gsn(3))), Some(GsnRange::at(Gsn(3))));
    ask(seen.as_ref(), &confined_to);
    assert_eq!(*whole.0.lock(), vec![TickRanges::from(ticks(10, 21)); 5]);
    whole.0.lock().clear();
    // Other chronicles are unchanged.
    assert_eq!((seen.within(other.id), seen.hull(&other)), (TickRange::ALL, ticks(0, 100)));
    ask(seen.as_ref(), &other);
    assert_eq!(*whole.0.lock(), vec![TickRanges::from(ticks(5, 50)); 5]);
}

#[test]
fn parts_without_a_tick_in_common_have_no_events() {
    let chronicle = chronicle("1ns", 6);
    let whole = Arc::new(Asked::default());
    let within = vec![(chronicle.id, ticks(30, 40)), (chronicle.id, ticks(-100, 21))];
    let seen = confined(Arc::clone(&whole) as Arc<dyn Snapshot>, within);
    assert_eq!(
        (seen.within(chronicle.id), seen.hull(&chronicle)),
        (TickRange::EMPTY, TickRange::EMPTY)
    );
    ask(seen.as_ref(), &chronicle);
    assert_eq!(*whole.0.lock(), vec![TickRanges::none(); 5]);
    // An unconfined snapshot gets no wrapper.
    let bare = confined(Arc::clone(&whole) as Arc<dyn Snapshot>, Vec::new());
    assert!(std::ptr::addr_eq(Arc::as_ptr(&bare), Arc::as_ptr(&whole)));
}
