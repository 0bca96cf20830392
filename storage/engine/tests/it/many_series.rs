//! Many series with a few events each: the cost of a lookup depends on the number of its series,
//! not on the size of the table.

use std::sync::{Arc, atomic::Ordering};

use arrow::{
    array::{AsArray, RecordBatch},
    datatypes::{Float64Type, Int64Type},
};
use futures::StreamExt;
use stratalog_engine::{Engine, EngineSettings};
use stratalog_model::{
    ChronicleDefinition, Collision, ColumnId, EventStore, GsnRange, TierName, ValueFilter,
    aggregate::{AggregateRequest, ColumnStatistic, Statistic},
    newest::NewestOf,
    store::PieceStatus,
    tier::{KeyFilter, ScanMetrics, ScanOrder, ScanRequest, TierMetrics},
    values::{OrderedValue, ValuePredicate},
};
use stratalog_sim::Random;

use crate::{fixture::*, memory_log::MemoryLog};

/// Number of series; each has an event at each of [`TICKS`].
const SERIES: i64 = 20_000;

const TICKS: i64 = 3;

/// Rows of a page of a story.
const PAGE_ROWS: u64 = 8_192;

/// A chronicle with a second key column; its value is the same for all events of a host.
fn two_key_columns() -> Arc<ChronicleDefinition> {
    let mut definition = definition(1, Collision::Last, true);
    definition.columns[3].nullable = false;
    definition.key_columns = vec![ColumnId(2), ColumnId(4)];
    Arc::new(definition)
}

fn host(series: i64) -> String {
    format!("host_{series:06}")
}

fn rows_at(tick: i64) -> Vec<Row> {
    (0..SERIES).map(|series| row(tick, &host(series), series as f64)).collect()
}

fn wanted(hosts: &[i64]) -> KeyFilter {
    let hosts: Vec<String> = hosts.iter().map(|series| host(*series)).collect();
    host_filter(&hosts.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Runs a check with all series, in one tier after another.
async fn in_each_tier(
    definition: &Arc<ChronicleDefinition>,
    check: impl AsyncFn(&Engine, TierName),
) {
    let (log, stored) = (MemoryLog::default(), Stored::new(7));
    let find = |id| (id == definition.id).then(|| Arc::clone(definition));
    let files = Some(stored.files(definition));
    let settings = EngineSettings { tablet_rows_max: 25_000, ..EngineSettings::default() };
    let clock = Arc::new(StillClock);
    let engine = Engine::open_with(Arc::new(log), clock, settings, &find, files).unwrap();
    for tick in 0..TICKS {
        append(&engine, definition, &rows_at(tick)).await.unwrap();
    }
    check(&engine, TierName::Journal).await;
    engine.flush(definition.id).await.unwrap();
    assert!(engine.pieces().iter().all(|piece| piece.tier == TierName::Tablet));
    check(&engine, TierName::Tablet).await;
    engine.compact(definition.id).await.unwrap();
    assert!(engine.pieces().iter().all(|piece| piece.tier == TierName::Story));
    check(&engine, TierName::Story).await;
}

fn count(of: impl Fn(&TierMetrics) -> &std::sync::atomic::AtomicU64, metrics: &TierMetrics) -> u64 {
    of(metrics).load(Ordering::Relaxed)
}

/// Checks how much a lookup of one series has read.
fn check_counts(metrics: &ScanMetrics, tier: TierName, whole_key: bool) {
    let metrics = metrics.of(tier);
    let (keys, parts) = (count(|m| &m.keys, metrics), count(|m| &m.parts_read, metrics));
    match tier {
        TierName::Journal if whole_key => assert_eq!((keys, parts), (1, TICKS as u64)),
        TierName::Journal => {}
        // One block of each tablet has the key; two blocks if the key ends a block.
        TierName::Tablet => assert!(parts <= 2 * TICKS as u64, "{parts} blocks were read"),
        TierName::Story => {
            assert!(keys > 0 && keys <= 2 * PAGE_ROWS, "{keys} keys were looked at");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_series_is_found_without_the_others() {
    for (definition, whole_key) in
        [(chronicle(1, Collision::Last, true), true), (two_key_columns(), false)]
    {
        in_each_tier(&definition, async |engine, tier| {
            for (series, again) in [(0, 0), (7_777, 0), (7_777, 1), (SERIES - 1, 0)] {
                for order in [ScanOrder::Any, ScanOrder::Descending] {
                    let keys = vec![wanted(&[series])];
                    let request = ScanRequest { keys, ..request(&definition, order) };
                    let metrics = Arc::clone(&request.metrics);
                    let mut found: Vec<Row> = scan(engine.snapshot().as_ref(), request)
                        .await
                        .into_iter()
                        .map(|read| read.row)
                        .collect();
                    found.sort_by_key(|row| row.tick);
                    let expected: Vec<Row> =
                        (0..TICKS).map(|tick| row(tick, &host(series), series as f64)).collect();
                    assert_eq!(found, expected, "{tier}, {order:?}, {again}");
                    check_counts(&metrics, tier, whole_key);
                }
            }
            // A range of ticks, several series at once, an absent series.
            for (hosts, ticks, expected) in [
                (vec![5], (1, 2), vec![(1, 5)]),
                (vec![9, 19_000], (1, 3), vec![(1, 9), (1, 19_000), (2, 9), (2, 19_000)]),
                (vec![SERIES + 5], (0, 3), vec![]),
            ] {
                let (keys, ticks) = (vec![wanted(&hosts)], ranges(&[ticks]));
                let request = ScanRequest { keys, ticks, ..request(&definition, ScanOrder::Any) };
                let mut found: Vec<(i64, i64)> = scan(engine.snapshot().as_ref(), request)
                    .await
                    .into_iter()
                    .map(|read| (read.row.tick, read.row.value as i64))
                    .collect();
                found.sort_unstable();
                assert_eq!(found, expected, "{tier}");
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregate_of_one_series_looks_at_no_other() {
    let definition = two_key_columns();
    in_each_tier(&definition, async |engine, tier| {
        for series in [0, 11_111, SERIES - 1] {
            let keys = vec![wanted(&[series])];
            let scan = ScanRequest { keys, ..request(&definition, ScanOrder::Any) };
            let metrics = Arc::clone(&scan.metrics);
            let wanted = [(2, Statistic::Max), (2, Statistic::Rows)];
            let wanted = wanted.map(|(column, statistic)| ColumnStatistic { column, statistic });
            let (keys, wanted) = (vec![1], wanted.to_vec());
            let request = AggregateRequest { scan, keys, windows: None, statistics: wanted };
            let streams = engine.snapshot().aggregate(request).unwrap().unwrap();
            let (mut rows, mut most) = (0, f64::MIN);
            for batch in all(streams).await {
                let found = batch.column(1).as_primitive::<Float64Type>();
                most = found.iter().flatten().fold(most, f64::max);
                rows += batch.column(2).as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
            }
            assert_eq!((rows, most), (TICKS, series as f64), "{tier}");
            check_counts(&metrics, tier, false);
        }
    })
    .await;
}

async fn all(streams: Vec<stratalog_model::tier::BatchStream>) -> Vec<RecordBatch> {
    let mut batches = Vec::new();
    for mut stream in streams {
        while let Some(batch) = stream.next().await {
            batches.push(batch.unwrap());
        }
    }
    batches
}

/// Host, tick and value of one event of each group.
async fn newest(
    engine: &Engine,
    definition: &Arc<ChronicleDefinition>,
    (oldest, ticks): (bool, (i64, i64)),
    keys: Vec<KeyFilter>,
) -> Vec<(String, i64, i64)> {
    let newest_of = Some(NewestOf { keys: vec![1], oldest });
    let request = ScanRequest {
        projection: vec![1, 0, 2],
        newest_of,
        keys,
        ticks: ranges(&[ticks]),
        ..request(definition, ScanOrder::Any)
    };
    let mut found = Vec::new();
    for batch in all(engine.snapshot().scan(request).unwrap()).await {
        let hosts = batch.column(0).as_string_view();
        let ticks = batch.column(1).as_primitive::<arrow::datatypes::TimestampMicrosecondType>();
        let values = batch.column(2).as_primitive::<Float64Type>();
        for at in 0..batch.num_rows() {
            found.push((hosts.value(at).to_string(), ticks.value(at), values.value(at) as i64));
        }
    }
    found.sort_unstable();
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_event_of_each_series_is_found() {
    let definition = two_key_columns();
    in_each_tier(&definition, async |engine, tier| {
        let expected = |tick: i64| {
            (0..SERIES).map(|of| (host(of), tick, of)).collect::<Vec<(String, i64, i64)>>()
        };
        for round in 0..2 {
            let of = |oldest, ticks| newest(engine, &definition, (oldest, ticks), vec![]);
            assert!(of(false, (0, 99)).await == expected(TICKS - 1), "{tier}, {round}");
            assert!(of(true, (0, 99)).await == expected(0), "{tier}, {round}");
            // A range before the last event of each series.
            assert!(of(false, (0, 2)).await == expected(1), "{tier}, {round}");
            let some =
                newest(engine, &definition, (false, (0, 99)), vec![wanted(&[3, 15_000])]).await;
            let some_expected = [3, 15_000].map(|of| (host(of), TICKS - 1, of));
            assert_eq!(some, some_expected, "{tier}, {round}");
        }
        // A later event of one series.
        if tier == TierName::Story {
            append(engine, &definition, &[row(50, &host(4), 4.0)]).await.unwrap();
            let found = newest(engine, &definition, (false, (0, 99)), vec![]).await;
            assert_eq!((found.len(), found[4].1, found[5].1), (SERIES as usize, 50, TICKS - 1));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_found_by_their_numbers() {
    let definition = chronicle(1, Collision::Last, true);
    in_each_tier(&definition, async |engine, tier| {
        let numbers = read(engine.snapshot().as_ref(), &definition).await;
        for at in [0, 31_234, numbers.len() - 1] {
            let known = &numbers[at];
            for order in [ScanOrder::Any, ScanOrder::Ascending] {
                let gsns = GsnRange::at(stratalog_model::Gsn(known.gsn));
                let by_gsn = ScanRequest { gsns, ..request(&definition, order) };
                let found = scan(engine.snapshot().as_ref(), by_gsn).await;
                assert_eq!(found, std::slice::from_ref(known), "{tier}, {order:?}");
                let seq = || Some(OrderedValue::Whole(i128::from(known.seq)));
                let column = definition.columns.len() + 1;
                let wanted = ValuePredicate::Between(seq(), seq());
                let values = vec![ValueFilter { column, predicate: wanted }];
                let by_seq = ScanRequest { values, ..request(&definition, order) };
                let metrics = Arc::clone(&by_seq.metrics);
                let mut found = scan(engine.snapshot().as_ref(), by_seq).await;
                // The scan may return other rows; the filter above the scan removes them.
                let returned = found.len();
                found.retain(|read| read.seq == known.seq);
                assert_eq!(found, std::slice::from_ref(known), "{tier}, {order:?}");
                assert!(returned <= SERIES as usize, "{tier}: {returned} rows");
                if tier == TierName::Story {
                    assert_eq!(returned, 1, "rows with other numbers were decoded");
                }
                let parts = count(|m| &m.parts_read, metrics.of(tier));
                assert!(parts <= 3, "{tier}: {parts} parts");
            }
        }
    })
    .await;
}

/// Rows at ticks with more events than a tablet or a row group may have, and at ticks with few
/// events. Host names are not ordered in time, and a series may have several events at one tick.
fn crowded_rows(random: &mut Random) -> Vec<Row> {
    let mut rows = Vec::new();
    for (tick, count) in [(0, 3), (1, 700), (2, 1), (3, 90), (4, 950), (5, 40), (6, 200)] {
        for number in 0..count {
            rows.push(row(tick, &format!("host_{}", random.below(400)), f64::from(number)));
        }
    }
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticks_with_more_events_than_a_slice_are_divided() {
    for (seed, keyed) in [(1, true), (2, false), (3, true)] {
        let definition = chronicle(1, Collision::All, keyed);
        let (mut random, stored) = (Random::new(seed), Stored::new(seed));
        let find = |id| (id == definition.id).then(|| Arc::clone(&definition));
        let (log, files) = (Arc::new(MemoryLog::default()), Some(stored.files(&definition)));
        let settings = EngineSettings { move_from_percent: 90, ..small() };
        let engine = Engine::open_with(log, Arc::new(StillClock), settings, &find, files).unwrap();
        let (early, mut late) = (crowded_rows(&mut random), crowded_rows(&mut random));
        late.retain(|row| row.tick < 5);
        append(&engine, &definition, &early).await.unwrap();
        engine.flush(definition.id).await.unwrap();
        let mut expected = early;
        for compaction in 0..3 {
            engine.compact(definition.id).await.unwrap();
            let stories = engine.pieces();
            assert!(stories.iter().all(|piece| piece.tier == TierName::Story));
            let disjoint = |pair: &[PieceStatus]| pair[0].ticks.end <= pair[1].ticks.start;
            assert!(stories.windows(2).all(disjoint), "stories share a tick: {stories:?}");
            // No row group has more than two slices of 40 rows.
            let all = request(&definition, ScanOrder::Any);
            let metrics = Arc::clone(&all.metrics);
            scan(engine.snapshot().as_ref(), all).await;
            let parts = count(|metrics| &metrics.parts_read, metrics.of(TierName::Story));
            assert!(parts as usize >= expected.len() / 80, "{parts} row groups");
            check_orders(&engine, &definition, &expected).await;
            // A compaction of settled stories does nothing.
            let moved = engine.compact(definition.id).await.unwrap();
            assert_eq!(moved.pieces_added, 0, "compaction {compaction}");
            if compaction == 0 {
                append(&engine, &definition, &late).await.unwrap();
                engine.flush(definition.id).await.unwrap();
                expected.append(&mut late);
                check_orders(&engine, &definition, &expected).await;
            }
        }
    }
}

/// Reads all events in each order, and with a limit.
async fn check_orders(engine: &Engine, definition: &Arc<ChronicleDefinition>, rows: &[Row]) {
    let mut expected = rows.to_vec();
    // The order of arrival decides within a tick.
    expected.sort_by_key(|row| row.tick);
    for order in [ScanOrder::Any, ScanOrder::Ascending, ScanOrder::Descending] {
        for limit in [None, Some(1), Some(77), Some(1_000)] {
            if order == ScanOrder::Any && limit.is_some() {
                continue;
            }
            let request = ScanRequest { limit, ..request(definition, order) };
            let read = scan(engine.snapshot().as_ref(), request).await;
            let mut found: Vec<Row> = read.into_iter().map(|read| read.row).collect();
            let mut wanted = expected.clone();
            match order {
                ScanOrder::Any => {
                    let key = |row: &Row| (row.tick, format!("{row:?}"));
                    found.sort_by_key(key);
                    wanted.sort_by_key(key);
                }
                ScanOrder::Ascending => {}
                ScanOrder::Descending => wanted.reverse(),
            }
            wanted.truncate(limit.unwrap_or(usize::MAX));
            assert_eq!(found, wanted, "{order:?}, limit {limit:?}");
        }
    }
}
