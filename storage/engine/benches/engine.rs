//! The engine's own cost: over a log in memory without delays.
//!
//! Events have the shape of TSBS's cpu table: a time, ten tags, ten metrics; key: the first tag.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "helpers of tests and benches fail as tests do, and use real files and clocks"
)]

use std::{collections::BTreeMap, hint::black_box, sync::Arc};

use arrow::{
    array::{ArrayRef, Float64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray},
    datatypes::Schema,
};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use futures::{StreamExt, executor::block_on};
use parking_lot::Mutex;
use stratalog_engine::{Engine, EngineSettings};
use stratalog_model::{
    BoxFuture, ChronicleDefinition, ChronicleId, Clock, Collision, ColumnDefinition, ColumnId,
    ColumnType, Durability, EventStore, Frame, Granularity, LatePolicy, Log, Lsn, Result,
    SchemaVersion, Tick, TickRange, TickRanges, TickScale, TickSource,
    log::{Completion, LogStatus, Reservation},
    store::{AppendOptions, OnConflict},
    tier::{KeyFilter, ScanOrder, ScanRequest},
};

const HOSTS: i64 = 1000;
const BATCH_ROWS: i64 = 10_000;

#[derive(Debug, Default, Clone)]
struct BenchLog {
    frames: Arc<Mutex<Vec<Frame>>>,
    keep: bool,
}

impl Log for BenchLog {
    fn reserve(&self, _: usize) -> BoxFuture<'_, Result<Reservation>> {
        Box::pin(async { Ok(Box::new(()) as Reservation) })
    }

    fn submit(&self, frame: Frame, _: Reservation, _: Durability, done: Completion) {
        if self.keep {
            self.frames.lock().push(frame);
        }
        done(Ok(Lsn(1)));
    }

    fn replay(&self, visit: &mut dyn FnMut(Lsn, Frame) -> Result<()>) -> Result<()> {
        let frames = self.frames.lock();
        frames.iter().zip(1..).try_for_each(|(frame, lsn)| visit(Lsn(lsn), frame.clone()))
    }

    fn status(&self) -> LogStatus {
        LogStatus::default()
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct StillClock;

impl Clock for StillClock {
    fn now_ns(&self) -> i64 {
        0
    }
    fn monotonic_ns(&self) -> u64 {
        0
    }
}

fn cpu() -> Arc<ChronicleDefinition> {
    let column = |id: u32, name: String, column_type: ColumnType| ColumnDefinition {
        id: ColumnId(id),
        name,
        nullable: id > 2,
        column_type,
        default_sql: None,
        missing_value: None,
        comment: None,
    };
    let mut columns = vec![column(1, "time".into(), ColumnType::TimestampTz { precision: 6 })];
    columns.extend((0..10).map(|at| column(2 + at, format!("tag{at}"), ColumnType::Text)));
    columns.extend((0..10).map(|at| column(12 + at, format!("metric{at}"), ColumnType::Double)));
    let ids = columns.iter().map(|column| column.id).collect();
    Arc::new(ChronicleDefinition {
        id: ChronicleId(1),
        database: "stratalog".into(),
        schema: "public".into(),
        name: "cpu".into(),
        columns,
        tick_column: ColumnId(1),
        key_columns: vec![ColumnId(2)],
        keys_added: 0,
        indexes: Vec::new(),
        indexes_made: 0,
        primary_key: true,
        scale: TickScale::starting_at(0, Granularity::NANOSECOND),
        coarsened: None,
        collision: Collision::First,
        late: LatePolicy::Accept,
        time_source: TickSource::Column,
        acceptance_window_ms: None,
        tiering: Default::default(),
        durability: Durability::Disk,
        schema_version: SchemaVersion(1),
        schema_versions: BTreeMap::from([(SchemaVersion(1), ids)]),
        comment: None,
        created_ns: 0,
    })
}

/// Rows `[first, first + rows)` of the series of all hosts, at intervals of ten seconds.
fn batch(schema: &Arc<Schema>, first: i64, rows: i64) -> RecordBatch {
    let times = (first..first + rows).map(|row| row / HOSTS * 10_000_000);
    let mut columns: Vec<ArrayRef> =
        vec![Arc::new(TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC"))];
    for tag in 0..10 {
        let distinct = [HOSTS, 9, 30, 100, 3, 5, 20, 2, 4, 7].get(tag).copied().unwrap_or(1);
        let text = (first..first + rows).map(|row| Some(format!("tag_{}", row % HOSTS % distinct)));
        columns.push(Arc::new(text.collect::<StringViewArray>()));
    }
    for metric in 0..10 {
        let values = (first..first + rows).map(|row| ((row * 31 + metric) % 10_007) as f64 / 100.0);
        columns.push(Arc::new(Float64Array::from_iter_values(values)));
    }
    RecordBatch::try_new(Arc::clone(schema), columns).unwrap()
}

fn engine(log: &BenchLog, cpu: &Arc<ChronicleDefinition>) -> Arc<Engine> {
    let settings = EngineSettings { memory_bytes_max: 16 << 30, ..EngineSettings::default() };
    let find = |_: ChronicleId| Some(Arc::clone(cpu));
    Engine::open(Arc::new(log.clone()), Arc::new(StillClock), settings, &find).unwrap()
}

fn append(engine: &Engine, cpu: &Arc<ChronicleDefinition>, rows: RecordBatch) {
    block_on(async {
        let mut append = engine.begin(AppendOptions::default()).unwrap();
        append.push(cpu, rows, OnConflict::Error).await.unwrap();
        append.commit().await.unwrap();
    });
}

fn appends(criterion: &mut Criterion) {
    let cpu = cpu();
    let schema = cpu.arrow_schema();
    let mut group = criterion.benchmark_group("append");
    let batches: Vec<RecordBatch> =
        (0..20).map(|at| batch(&schema, at * BATCH_ROWS, BATCH_ROWS)).collect();
    group.sample_size(20);
    group.throughput(Throughput::Elements(20 * BATCH_ROWS as u64));
    group.bench_function("20 batches of 10k rows", |bencher| {
        bencher.iter_batched(
            || (engine(&BenchLog::default(), &cpu), batches.clone()),
            |(engine, batches)| {
                batches.into_iter().for_each(|batch| append(&engine, &cpu, batch));
                engine
            },
            BatchSize::PerIteration,
        );
    });
    let singles: Vec<RecordBatch> = (0..5000).map(|at| batch(&schema, at, 1)).collect();
    group.throughput(Throughput::Elements(5000));
    group.bench_function("5000 single rows", |bencher| {
        bencher.iter_batched(
            || (engine(&BenchLog::default(), &cpu), singles.clone()),
            |(engine, singles)| {
                singles.into_iter().for_each(|batch| append(&engine, &cpu, batch));
                engine
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

fn recovery(criterion: &mut Criterion) {
    let cpu = cpu();
    let schema = cpu.arrow_schema();
    let mut group = criterion.benchmark_group("recovery");
    group.sample_size(10);
    for (name, frames, rows) in [("10k-row frames", 300, BATCH_ROWS), ("one-row frames", 50_000, 1)]
    {
        let log = BenchLog { keep: true, ..BenchLog::default() };
        let filled = engine(&log, &cpu);
        for at in 0..frames {
            append(&filled, &cpu, batch(&schema, at * rows, rows));
        }
        drop(filled);
        let bytes: usize = log.frames.lock().iter().map(|frame| frame.payload.len() + 128).sum();
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(name, |bencher| {
            bencher.iter_with_large_drop(|| engine(&log, &cpu));
        });
    }
    group.finish();
}

fn reads(criterion: &mut Criterion) {
    let cpu = cpu();
    let schema = cpu.arrow_schema();
    let engine = engine(&BenchLog::default(), &cpu);
    let batches = 200;
    for at in 0..batches {
        append(&engine, &cpu, batch(&schema, at * BATCH_ROWS, BATCH_ROWS));
    }
    let request = |ticks: TickRanges, host: Option<&str>, order: ScanOrder| ScanRequest {
        chronicle: Arc::clone(&cpu),
        projection: (0..cpu.columns.len()).collect(),
        ticks,
        gsns: stratalog_model::GsnRange::ALL,
        keys: host
            .map(|host| KeyFilter {
                column: 1,
                values: Arc::new(StringViewArray::from_iter_values([host])),
            })
            .into_iter()
            .collect(),
        values: vec![],
        order,
        newest_of: None,
        limit: None,
        batch_rows_max: 8192,
        streams: 2,
        metrics: Arc::default(),
        memory: None,
    };
    let read = |request: ScanRequest| {
        let streams = engine.snapshot().scan(request).unwrap();
        block_on(async {
            let mut rows = 0;
            for mut stream in streams {
                while let Some(batch) = stream.next().await {
                    rows += black_box(batch.unwrap()).num_rows();
                }
            }
            rows
        })
    };
    let mut group = criterion.benchmark_group("read");
    let at = TickRanges::from(TickRange::at(Tick(1_000 * 10_000_000_000)));
    assert_eq!(read(request(at.clone(), Some("tag_77"), ScanOrder::Any)), 1);
    group.bench_function("one event by key and tick", |bencher| {
        bencher.iter(|| read(request(at.clone(), Some("tag_77"), ScanOrder::Any)));
    });
    group.bench_function("last event of a key", |bencher| {
        bencher.iter(|| {
            let mut wanted = request(TickRanges::all(), Some("tag_77"), ScanOrder::Descending);
            wanted.limit = Some(1);
            read(wanted)
        });
    });
    group.bench_function("one series of 2000 events", |bencher| {
        bencher.iter(|| read(request(TickRanges::all(), Some("tag_77"), ScanOrder::Ascending)));
    });
    group.sample_size(10);
    group.throughput(Throughput::Elements((batches * BATCH_ROWS) as u64));
    for order in [ScanOrder::Any, ScanOrder::Ascending, ScanOrder::Descending] {
        group.bench_function(format!("all events, {order:?}"), |bencher| {
            bencher.iter(|| read(request(TickRanges::all(), None, order)));
        });
    }
    group.finish();
}

criterion_group!(benches, appends, recovery, reads);
criterion_main!(benches);
