//! Measures bytes per row and the read speed of stories for several settings (RFC 8), on data
//! similar to TSBS (cpu-only).
//! `cargo run --release -p stratalog-story --example measure -- [hosts] [hours]`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a program that measures fails as tests do, and uses the real clock"
)]

use std::{path::Path, sync::Arc, time::Instant};

use arrow::array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StringViewArray, TimestampNanosecondArray,
};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::reader::{FileReader, SerializedFileReader};
use stratalog_journal::LocalDisk;
use stratalog_model::{ChronicleId, ColumnId, ColumnType, Granularity, SchemaVersion, TickScale};
use stratalog_sim::Random;
use stratalog_story::{
    BuiltStory, GroupSummary, LocalShelf, Source, Stories, StoryColumn, StoryId, StorySchema,
    StorySettings,
};

const TAGS: [(&str, u64); 10] = [
    ("hostname", 0),
    ("region", 9),
    ("datacenter", 20),
    ("rack", 100),
    ("os", 3),
    ("arch", 2),
    ("team", 4),
    ("service", 20),
    ("service_version", 2),
    ("service_environment", 3),
];
const FIELDS: usize = 10;
const STEP_NS: i64 = 10_000_000_000;

fn schema() -> StorySchema {
    let column = |id: usize, name: &str, column_type, nullable| StoryColumn {
        id: ColumnId(id as u32),
        name: name.to_string(),
        column_type,
        nullable,
    };
    let mut columns = vec![column(0, "time", ColumnType::TimestampTz { precision: 9 }, false)];
    columns.extend(
        TAGS.iter()
            .enumerate()
            .map(|(at, (name, _))| column(at + 1, name, ColumnType::Text, false)),
    );
    columns.extend(
        (0..FIELDS).map(|at| column(at + 11, &format!("usage_{at}"), ColumnType::Double, true)),
    );
    StorySchema {
        chronicle: ChronicleId(1),
        chronicle_name: "public.cpu".to_string(),
        version: SchemaVersion(1),
        columns,
        keys: (1..=10).map(ColumnId).collect(),
        tick: ColumnId(0),
        scale: TickScale::starting_at(1_451_606_400_000_000_000, Granularity::NANOSECOND),
        indexes: Vec::new(),
    }
}

/// A step of a random walk: approximately normal with deviation 1.
fn step(random: &mut Random) -> f64 {
    (0..12).map(|_| random.below(1 << 20) as f64 / f64::from(1 << 20)).sum::<f64>() - 6.0
}

struct Hosts {
    random: Random,
    names: Vec<[String; 10]>,
    walks: Vec<[f64; FIELDS]>,
}

impl Hosts {
    fn new(count: usize) -> Self {
        let mut random = Random::new(11);
        let names: Vec<[String; 10]> = (0..count)
            .map(|host| {
                std::array::from_fn(|tag| match tag {
                    0 => format!("host_{host}"),
                    _ => format!("{}-{}", TAGS[tag].0, random.below(TAGS[tag].1)),
                })
            })
            .collect();
        let walks = (0..count).map(|_| std::array::from_fn(|_| random.below(101) as f64)).collect();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|a, b| names[*a].cmp(&names[*b]));
        Self { random, names: order.iter().map(|at| names[*at].clone()).collect(), walks }
    }

    /// The events of `steps` times, starting with time `first`.
    fn slice(&mut self, first: usize, steps: usize) -> (RecordBatch, GroupSummary) {
        let hosts = self.names.len();
        // Clients send ten hosts at a time; within a time, batches arrive in any order.
        let mut arrival: Vec<Vec<i64>> = Vec::with_capacity(steps);
        for at in 0..steps {
            let mut chunks: Vec<usize> = (0..hosts.div_ceil(10)).collect();
            for chunk in (1..chunks.len()).rev() {
                chunks.swap(chunk, self.random.below(chunk as u64 + 1) as usize);
            }
            let mut order = vec![0; hosts];
            let mut next = ((first + at) * hosts) as i64;
            for chunk in chunks {
                for slot in order.iter_mut().skip(chunk * 10).take(10) {
                    *slot = next;
                    next += 1;
                }
            }
            arrival.push(order);
        }
        let (mut ticks, mut seqs) = (Vec::new(), Vec::new());
        let mut fields: Vec<Vec<f64>> = vec![Vec::new(); FIELDS];
        for host in 0..hosts {
            for (at, arrival) in arrival.iter().enumerate() {
                ticks.push((first + at) as i64 * STEP_NS);
                seqs.push(arrival[host]);
                for (walk, field) in self.walks[host].iter_mut().zip(&mut fields) {
                    *walk = (*walk + step(&mut self.random)).clamp(0.0, 100.0);
                    field.push(walk.trunc());
                }
            }
        }
        let base = schema().scale.base_ns();
        let mut columns: Vec<ArrayRef> = vec![Arc::new(
            TimestampNanosecondArray::from_iter_values(ticks.iter().map(|tick| base + tick))
                .with_timezone("UTC"),
        )];
        for tag in 0..TAGS.len() {
            let names =
                self.names.iter().flat_map(|names| std::iter::repeat_n(names[tag].as_str(), steps));
            columns.push(Arc::new(StringViewArray::from_iter_values(names)));
        }
        columns.extend(
            fields.into_iter().map(|field| Arc::new(Float64Array::from(field)) as ArrayRef),
        );
        let summary = GroupSummary {
            rows: ticks.len() as u64,
            ticks: (first as i64 * STEP_NS, (first + steps - 1) as i64 * STEP_NS),
            gsns: ((first * hosts + 1) as u64, ((first + steps) * hosts) as u64),
            ..GroupSummary::default()
        };
        let gsns = seqs.iter().map(|seq| seq + 1).collect::<Vec<_>>();
        columns.push(Arc::new(Int64Array::from(ticks)));
        columns.push(Arc::new(Int64Array::from(seqs)));
        columns.push(Arc::new(Int64Array::from(gsns)));
        (RecordBatch::try_new(schema().arrow_schema(), columns).unwrap(), summary)
    }
}

async fn build(
    folder: &Path,
    settings: &StorySettings,
    hosts: usize,
    steps: usize,
    slice: usize,
) -> (Stories, BuiltStory, f64) {
    let disk = Arc::new(LocalDisk);
    let shelf = LocalShelf::open(disk.clone(), &folder.join("stories")).unwrap();
    let stories =
        Stories::open(Arc::new(shelf), disk, &folder.join("spool"), 64 << 20, 0).await.unwrap();
    let mut builder = stories.build(StoryId(1), &schema(), settings.clone()).unwrap();
    let mut source = Hosts::new(hosts);
    let mut seconds = 0.0;
    for first in (0..steps).step_by(slice) {
        let (rows, summary) = source.slice(first, slice.min(steps - first));
        let start = Instant::now();
        builder.push(&rows, summary).unwrap();
        seconds += start.elapsed().as_secs_f64();
    }
    let start = Instant::now();
    let built = builder.finish().await.unwrap();
    seconds += start.elapsed().as_secs_f64();
    (stories, built, seconds)
}

/// Best of three, in millions of rows per second.
async fn speed(stories: &Stories, built: &BuiltStory, columns: &[Source]) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..3 {
        let start = Instant::now();
        let story = stories.open_story(built).await.unwrap();
        let mut rows = 0;
        for head in story.groups() {
            let fetched = story.fetch(head.number, columns, None).await.unwrap();
            rows +=
                fetched.decode(8192).unwrap().map(|batch| batch.unwrap().num_rows()).sum::<usize>();
        }
        assert_eq!(rows as u64, built.rows);
        best = best.min(start.elapsed().as_secs_f64());
    }
    built.rows as f64 / best / 1e6
}

/// The read speed of Parquet's own reader, without checksums.
fn plain_speed(path: &Path, built: &BuiltStory, columns: &[usize]) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..3 {
        let start = Instant::now();
        let builder =
            ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(path).unwrap()).unwrap();
        let mask = ProjectionMask::roots(builder.parquet_schema(), columns.iter().copied());
        let reader = builder.with_projection(mask).with_batch_size(8192).build().unwrap();
        let rows = reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>();
        assert_eq!(rows as u64, built.rows);
        best = best.min(start.elapsed().as_secs_f64());
    }
    built.rows as f64 / best / 1e6
}

fn print_columns(path: &Path) {
    let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let rows = reader.metadata().file_metadata().num_rows() as f64;
    for at in 0..reader.metadata().file_metadata().schema_descr().num_columns() {
        let chunks = reader.metadata().row_groups().iter().map(|group| group.column(at));
        let bytes: i64 = chunks.map(|chunk| chunk.compressed_size()).sum();
        let chunk = reader.metadata().row_group(0).column(at);
        let encodings: Vec<_> = chunk.encodings().collect();
        println!(
            "    {:22} {:7.3} bytes per row  {encodings:?}",
            chunk.column_path().string(),
            bytes as f64 / rows
        );
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number =
        |default: usize| arguments.next().map_or(default, |text| text.parse().unwrap());
    let (hosts, hours) = (number(1000), number(6));
    let steps = hours * 360;
    let everything: Vec<Source> = (0..21).map(|id| Source::Column(ColumnId(id))).collect();
    println!(
        "level  slice   page rows  page bytes  bytes/row  build Mrow/s  check Mrow/s  1 column (plain)  all (plain) Mrow/s  tail, open"
    );
    let cases = [
        (1, 360, 32_768, 1 << 20),
        (2, 360, 32_768, 1 << 20),
        (3, 360, 32_768, 1 << 20),
        (4, 360, 32_768, 1 << 20),
        (5, 360, 32_768, 1 << 20),
        (6, 360, 32_768, 1 << 20),
        (9, 360, 32_768, 1 << 20),
        (3, 360, 8_192, 1 << 20),
        (3, 360, 16_384, 1 << 20),
        (3, 360, 65_536, 1 << 20),
        (3, 360, 131_072, 1 << 20),
        (3, 1080, 32_768, 1 << 20),
        (3, 90, 32_768, 1 << 20),
    ];
    for (zstd_level, slice, page_rows_max, page_bytes_max) in cases {
        let folder = tempfile::tempdir().unwrap();
        let settings =
            StorySettings { zstd_level, page_rows_max, page_bytes_max, ..StorySettings::default() };
        let (stories, built, seconds) = build(folder.path(), &settings, hosts, steps, slice).await;
        let path = folder.path().join("stories").join(built.name().to_string());
        let start = Instant::now();
        let memory = stories.open_story(&built).await.unwrap().memory_bytes();
        let open_ms = start.elapsed().as_secs_f64() * 1e3;
        let start = Instant::now();
        stories.open_story(&built).await.unwrap().check().await.unwrap();
        let check = built.rows as f64 / start.elapsed().as_secs_f64() / 1e6;
        let one = speed(&stories, &built, &[Source::Column(ColumnId(11))]).await;
        let all = speed(&stories, &built, &everything).await;
        let plain_one = plain_speed(&path, &built, &[11]);
        let plain_all = plain_speed(&path, &built, &(0..21).collect::<Vec<_>>());
        println!(
            "{zstd_level:5}  {slice:5}  {page_rows_max:9}  {page_bytes_max:10}  {:9.3}  {:12.2}  {check:12.2}  {one:7.1} ({plain_one:.1})  {all:7.2} ({plain_all:.2})  {} bytes, {open_ms:.1} ms, {memory} in memory",
            built.bytes as f64 / built.rows as f64,
            built.rows as f64 / seconds / 1e6,
            built.bytes - built.tail_at,
        );
        if (zstd_level, slice, page_rows_max) == (3, 360, 32_768) {
            print_columns(&path);
        }
    }
}
