//! Events with long values: memory during moves and reads.

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, StringViewArray};
use futures::StreamExt;
use stratalog_engine::{Engine, EngineSettings};
use stratalog_model::{
    ChronicleDefinition, Collision, EventStore, TierName,
    store::{AppendOptions, OnConflict},
    tier::{ScanOrder, ScanRequest},
};
use stratalog_sim::Random;

use crate::{fixture::*, memory_log::MemoryLog};

/// Number of events, each with a note of [`NOTE_BYTES`].
const EVENTS: usize = 1_300;
const NOTE_BYTES: usize = 32 << 10;

/// An engine with all events in stories; `slice_bytes_max` limits the row groups.
async fn wide(
    keyed: bool,
    slice_bytes_max: usize,
) -> (Stored, Arc<ChronicleDefinition>, Arc<Engine>) {
    let (log, stored) = (MemoryLog::default(), Stored::new(5));
    let cpu = chronicle(1, Collision::All, keyed);
    let find = |id| (id == cpu.id).then(|| Arc::clone(&cpu));
    let settings = EngineSettings { slice_bytes_max, ..EngineSettings::default() };
    let (clock, files) = (Arc::new(StillClock), Some(stored.files(&cpu)));
    let engine = Engine::open_with(Arc::new(log), clock, settings, &find, files).unwrap();
    let mut random = Random::new(7);
    let rows: Vec<Row> =
        (0..EVENTS).map(|at| row(at as i64, ["a", "b"][at % 2], at as f64)).collect();
    for chunk in rows.chunks(100) {
        let narrow = batch(&cpu, chunk);
        let mut columns = narrow.columns().to_vec();
        let mut note = |tick: i64| {
            let words = NOTE_BYTES / 16;
            let noise = (0..words).map(|_| format!("{:016x}", random.below(u64::MAX)));
            format!("{tick}:{}", noise.collect::<String>())
        };
        let notes: Vec<String> = chunk.iter().map(|row| note(row.tick)).collect();
        columns[3] = Arc::new(StringViewArray::from_iter_values(notes));
        let large = RecordBatch::try_new(narrow.schema(), columns).unwrap();
        let mut append = engine.begin(AppendOptions::default()).unwrap();
        append.push(&cpu, large, OnConflict::Error).await.unwrap();
        append.commit().await.unwrap();
    }
    engine.compact(cpu.id).await.unwrap();
    (stored, cpu, engine)
}

/// Runs a request, and checks the note of each event. Returns the ticks, and the number of rows of
/// the largest batch.
async fn ticks(engine: &Engine, request: ScanRequest) -> (Vec<i64>, usize) {
    let (mut found, mut largest) = (Vec::new(), 0);
    for mut stream in engine.snapshot().scan(request).unwrap() {
        while let Some(batch) = stream.next().await {
            let batch = batch.unwrap();
            largest = largest.max(batch.num_rows());
            let notes = batch.column(5).as_string_view();
            for (at, tick) in integers(&batch, 2).into_iter().enumerate() {
                assert!(notes.value(at).starts_with(&format!("{}:", tick.unwrap())));
                found.extend(tick);
            }
        }
    }
    (found, largest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wide_events_come_in_any_order_a_few_at_a_time() {
    for keyed in [false, true] {
        let (_stored, cpu, engine) = wide(keyed, usize::MAX).await;
        let parts: Vec<_> = engine.pieces();
        assert!(parts.iter().all(|piece| piece.tier == TierName::Story));
        let all: Vec<i64> = (0..EVENTS as i64).collect();
        for order in [ScanOrder::Any, ScanOrder::Ascending, ScanOrder::Descending] {
            for limit in [None, Some(1), Some(7), Some(900), Some(5000)] {
                let request = ScanRequest { limit, batch_rows_max: 8192, ..request(&cpu, order) };
                let metrics = Arc::clone(&request.metrics);
                let (mut found, largest) = ticks(&engine, request).await;
                let case = format!("{keyed} {order:?} {limit:?}");
                let count = limit.unwrap_or(EVENTS).min(EVENTS);
                match order {
                    ScanOrder::Any => {
                        assert!(found.len() >= count, "{case}");
                        found.sort_unstable();
                        found.dedup();
                        assert!(found.len() >= count, "{case}");
                    }
                    ScanOrder::Ascending => assert_eq!(found, all[..count], "{case}"),
                    ScanOrder::Descending => {
                        found.reverse();
                        assert_eq!(found, all[EVENTS - count..], "{case}");
                    }
                }
                // About 1 MiB, if the rows need no sort first.
                let sorted = order == ScanOrder::Descending || keyed && order != ScanOrder::Any;
                assert!(sorted || largest <= 40, "{case}: {largest} rows");
                if !keyed && limit.is_some_and(|limit| limit < 10) && order != ScanOrder::Any {
                    let read = metrics.story.bytes.load(std::sync::atomic::Ordering::Relaxed);
                    assert!(read < 4 << 20, "{case}: {read} bytes for a few events");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slices_of_wide_events_have_fewer_of_them() {
    let (_stored, cpu, engine) = wide(true, 4 << 20).await;
    let request = request(&cpu, ScanOrder::Ascending);
    let metrics = Arc::clone(&request.metrics);
    assert_eq!(ticks(&engine, request).await.0, (0..EVENTS as i64).collect::<Vec<_>>());
    let parts = metrics.story.parts_read.load(std::sync::atomic::Ordering::Relaxed);
    // 42 MB in all.
    assert!((8..24).contains(&parts), "{parts} row groups");
}
