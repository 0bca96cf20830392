//! Tests the promises of the trait [`Tier`] and of its splits.

use std::sync::Arc;

use arrow::array::StringViewArray;
use futures::StreamExt;
use stratalog_model::{
    ChronicleDefinition, Gsn, GsnRange, Tick, TickRange, TickRanges, Tier,
    tier::{KeyFilter, ScanOrder, ScanRequest},
};

use super::sample::{ReadEvent, events_of, request};

/// A tier under test, filled with events of the sample chronicle of [`super::sample`].
pub struct TierSubject<'a> {
    /// The tier.
    pub tier: &'a dyn Tier,
    /// The definition of the chronicle.
    pub definition: &'a Arc<ChronicleDefinition>,
    /// The highest gsn that the scans may return.
    pub visible: Gsn,
    /// All events that the tier must return, in any order.
    pub events: Vec<ReadEvent>,
}

/// Tests the promises of every tier.
pub async fn every_tier(subject: &TierSubject<'_>) {
    each_event_is_in_one_split(subject).await;
    ranges_of_ticks_are_applied_exactly(subject).await;
    ranges_of_gsns_are_applied_exactly(subject).await;
    keys_are_applied_exactly(subject).await;
    splits_are_ordered_both_ways(subject).await;
    facts_without_a_read_are_exact(subject).await;
}

/// Reads all splits of a request and checks each of them; returns the events of each split.
async fn read(subject: &TierSubject<'_>, request: ScanRequest) -> Vec<Vec<ReadEvent>> {
    let request = Arc::new(request);
    let is_ordered = request.order != ScanOrder::Any;
    let columns = request.projection.len() + if is_ordered { 2 } else { 0 };
    let (mut found, mut rows, mut sum_max) = (Vec::new(), 0, 0);
    for split in subject.tier.splits(&request, subject.visible).unwrap() {
        let (hull, rows_max) = (split.ticks(), split.rows_max());
        let mut events = Vec::new();
        let mut batches = split.read();
        while let Some(batch) = batches.next().await {
            let batch = batch.unwrap();
            assert_eq!(batch.num_columns(), columns);
            events.extend(events_of(&batch));
        }
        (rows, sum_max) = (rows + events.len(), sum_max + rows_max);
        for event in &events {
            assert!(hull.contains(Tick(event.tick)), "{event:?} outside of its split {hull}");
            assert!(event.gsn as u64 <= subject.visible.0, "{event:?} is not visible yet");
            assert_eq!(event.tier, subject.tier.name().to_string());
        }
        found.push(events);
    }
    assert!(rows <= sum_max, "{rows} rows, more than the maximum {sum_max}");
    found
}

async fn all(subject: &TierSubject<'_>, request: ScanRequest) -> Vec<ReadEvent> {
    sorted(read(subject, request).await.concat())
}

fn sorted(mut events: Vec<ReadEvent>) -> Vec<ReadEvent> {
    events.sort_by_key(|event| (event.tick, event.seq));
    events
}

fn expected(subject: &TierSubject<'_>, wanted: impl Fn(&ReadEvent) -> bool) -> Vec<ReadEvent> {
    sorted(subject.events.iter().filter(|event| wanted(event)).cloned().collect())
}

/// Ranges of ticks at the edges of the events, within them, and after them.
fn cuts(subject: &TierSubject<'_>) -> Vec<TickRange> {
    let ticks = subject.events.iter().map(|event| event.tick);
    let (first, last) = (ticks.clone().min().unwrap_or(0), ticks.max().unwrap_or(0));
    let middle = first + (last - first) / 2;
    let cut = |start, end| TickRange::new(Tick(start), Tick(end));
    vec![
        cut(first, first + 1),
        cut(middle, middle),
        cut(first + 1, middle),
        cut(middle, last),
        cut(last, last + 1),
        cut(last + 1, last + 1_000),
    ]
}

async fn each_event_is_in_one_split(subject: &TierSubject<'_>) {
    let found = all(subject, request(subject.definition, ScanOrder::Any)).await;
    assert_eq!(found, expected(subject, |_| true));
}

async fn ranges_of_ticks_are_applied_exactly(subject: &TierSubject<'_>) {
    let mut wanted: Vec<TickRanges> = cuts(subject).into_iter().map(TickRanges::from).collect();
    wanted.push(TickRanges::from_ranges(cuts(subject)));
    for ticks in wanted {
        for order in [ScanOrder::Any, ScanOrder::Ascending] {
            let request =
                ScanRequest { ticks: ticks.clone(), ..request(subject.definition, order) };
            let inside = |event: &ReadEvent| ticks.contains(Tick(event.tick));
            assert_eq!(all(subject, request).await, expected(subject, inside), "{ticks}");
        }
    }
}

async fn ranges_of_gsns_are_applied_exactly(subject: &TierSubject<'_>) {
    let gsns = subject.events.iter().map(|event| event.gsn as u64);
    let (first, last) = (gsns.clone().min().unwrap_or(1), gsns.max().unwrap_or(1));
    let middle = first + (last - first) / 2;
    for (start, end) in [(first, first), (first, middle), (middle, last), (last + 1, last + 9)] {
        let gsns = GsnRange::between(Gsn(start), Gsn(end));
        let request = ScanRequest { gsns, ..request(subject.definition, ScanOrder::Any) };
        let inside = |event: &ReadEvent| gsns.contains(Gsn(event.gsn as u64));
        assert_eq!(all(subject, request).await, expected(subject, inside), "{gsns}");
    }
}

async fn keys_are_applied_exactly(subject: &TierSubject<'_>) {
    for hosts in [&["a"][..], &["b", "c"], &["nowhere"]] {
        let values = Arc::new(StringViewArray::from_iter_values(hosts));
        let keys = vec![KeyFilter { column: 1, values }];
        let request = ScanRequest { keys, ..request(subject.definition, ScanOrder::Any) };
        let inside = |event: &ReadEvent| hosts.contains(&event.host.as_str());
        assert_eq!(all(subject, request).await, expected(subject, inside), "{hosts:?}");
    }
}

async fn splits_are_ordered_both_ways(subject: &TierSubject<'_>) {
    let place = |event: &ReadEvent| (event.tick, event.seq);
    for events in read(subject, request(subject.definition, ScanOrder::Ascending)).await {
        assert!(events.is_sorted_by(|a, b| place(a) < place(b)), "not ascending");
    }
    for events in read(subject, request(subject.definition, ScanOrder::Descending)).await {
        assert!(events.is_sorted_by(|a, b| place(a) > place(b)), "not descending");
    }
}

async fn facts_without_a_read_are_exact(subject: &TierSubject<'_>) {
    let all = cuts(subject).into_iter().map(TickRanges::from).chain([TickRanges::all()]);
    for ranges in all {
        let extent = subject.tier.extent(subject.definition, &ranges, subject.visible);
        let Some(extent) = extent else { continue };
        let inside = expected(subject, |event| ranges.contains(Tick(event.tick)));
        assert_eq!(extent.rows, inside.len() as u64, "{ranges}");
        let hull = inside
            .iter()
            .fold(TickRange::EMPTY, |hull, event| hull.hull(&TickRange::at(Tick(event.tick))));
        assert!(hull.is_empty() || extent.ticks == hull, "{} instead of {hull}", extent.ticks);
    }
}
