//! Stories with known rows.

use std::{
    collections::BTreeSet,
    future::Future,
    path::Path,
    sync::{Arc, LazyLock},
};

use arrow::{
    array::{
        Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringViewArray,
        TimestampNanosecondArray,
    },
    compute::concat_batches,
};
use bytes::Bytes;
use stratalog_journal::LocalDisk;
use stratalog_model::{
    ChronicleId, ColumnId, ColumnType, Disk, Granularity, Result, SchemaVersion, TickScale,
};
use stratalog_story::{
    BuiltStory, GroupSummary, LocalShelf, Shelf, Source, Stories, StoryColumn, StoryId, StoryName,
    StorySchema, StorySettings,
};
use tokio::runtime::Runtime;

pub const CHRONICLE: ChronicleId = ChronicleId(7);
pub const OPEN_BYTES: usize = 8 << 20;

/// Runs a future like the server, with threads for blocking work.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
    RUNTIME.block_on(future)
}

/// Removes the stories outside of `kept`; returns the number of removed stories.
pub fn keep_only(stories: &Stories, kept: &BTreeSet<StoryName>) -> usize {
    let files = wait(stories.files()).unwrap();
    wait(stories.keep_only(kept, &files)).unwrap()
}

pub fn column(id: u32, name: &str, column_type: ColumnType, nullable: bool) -> StoryColumn {
    StoryColumn { id: ColumnId(id), name: name.to_string(), column_type, nullable }
}

/// Columns time, host, value; key (host).
pub fn schema() -> StorySchema {
    StorySchema {
        chronicle: CHRONICLE,
        chronicle_name: "public.cpu".to_string(),
        version: SchemaVersion(3),
        columns: vec![
            column(1, "time", ColumnType::TimestampTz { precision: 9 }, false),
            column(4, "host", ColumnType::Text, false),
            column(9, "value", ColumnType::Double, true),
        ],
        keys: vec![ColumnId(4)],
        tick: ColumnId(1),
        scale: TickScale::starting_at(1_000_000, Granularity::NANOSECOND),
        indexes: Vec::new(),
    }
}

pub const EVERYTHING: [Source; 6] = [
    Source::Column(ColumnId(1)),
    Source::Column(ColumnId(4)),
    Source::Column(ColumnId(9)),
    Source::Tick,
    Source::Seq,
    Source::Gsn,
];

pub fn settings() -> StorySettings {
    StorySettings { page_rows_max: 16, ..StorySettings::default() }
}

/// Slice number `group` of story `id`: `hosts` hosts with `ticks` events each.
pub fn slice(id: u64, group: usize, hosts: usize, ticks: usize) -> (RecordBatch, GroupSummary) {
    let rows = hosts * ticks;
    let start = (group * 1000) as i64 - 500;
    let tick: Vec<i64> = (0..rows).map(|row| start + (row % ticks) as i64).collect();
    let seq: Vec<i64> =
        (0..rows).map(|row| (group * rows + row % ticks * hosts + row / ticks) as i64).collect();
    let gsn: Vec<i64> = seq.iter().map(|seq| seq * 2 + 1).collect();
    let host = (0..rows).map(|row| format!("host-{:05}", row / ticks * 10));
    let value = (0..rows).map(|row| (row % 5 != 3).then_some((row as u64 * id) as f64 / 4.0));
    let batch = RecordBatch::try_new(
        schema().arrow_schema(),
        vec![
            Arc::new(
                TimestampNanosecondArray::from_iter_values(
                    tick.iter().map(|tick| tick + 1_000_000),
                )
                .with_timezone("UTC"),
            ),
            Arc::new(StringViewArray::from_iter_values(host)),
            Arc::new(value.collect::<Float64Array>()) as ArrayRef,
            Arc::new(Int64Array::from(tick)),
            Arc::new(Int64Array::from(seq)),
            Arc::new(Int64Array::from(gsn)),
        ],
    );
    let batch = batch.unwrap();
    let summary = summary(&batch, "host-00000", &format!("host-{:05}", (hosts - 1) * 10));
    (batch, summary)
}

/// The summary of a batch from its number columns, the last three columns.
pub fn summary(batch: &RecordBatch, first: &str, last: &str) -> GroupSummary {
    let hull = |back: usize| {
        let numbers = batch.column(batch.num_columns() - back);
        let numbers = numbers.as_any().downcast_ref::<Int64Array>().unwrap().values();
        (*numbers.iter().min().unwrap(), *numbers.iter().max().unwrap())
    };
    let gsns = hull(1);
    GroupSummary {
        rows: batch.num_rows() as u64,
        ticks: hull(3),
        gsns: (gsns.0 as u64, gsns.1 as u64),
        keys: (Bytes::from(first.to_string()), Bytes::from(last.to_string())),
    }
}

pub fn on_shelf(shelf: Arc<dyn Shelf>, disk: Arc<dyn Disk>, folder: &Path) -> Result<Stories> {
    wait(Stories::open(shelf, disk, &folder.join("spool"), OPEN_BYTES, 1 << 20))
}

pub fn on_disk(disk: Arc<dyn Disk>, folder: &Path) -> Result<Stories> {
    let shelf = LocalShelf::open(Arc::clone(&disk), &folder.join("stories"))?;
    on_shelf(Arc::new(shelf), disk, folder)
}

pub fn local(folder: &Path) -> Stories {
    on_disk(Arc::new(LocalDisk), folder).unwrap()
}

/// Builds a story of `groups` groups of 5 hosts with 20 events each.
pub fn build(stories: &Stories, id: u64, groups: usize) -> Result<BuiltStory> {
    let mut builder = stories.build(StoryId(id), &schema(), settings())?;
    for group in 0..groups {
        let (batch, summary) = slice(id, group, 5, 20);
        builder.push(&batch, summary)?;
    }
    wait(builder.finish())
}

/// Reads everything, and compares the values with the written values.
pub fn check(stories: &Stories, built: &BuiltStory) -> Result<()> {
    let story = wait(stories.open_story(built))?;
    assert_eq!(story.groups().len(), built.groups as usize);
    for head in story.groups() {
        let (batch, summary) = slice(built.id.0, head.number as usize, 5, 20);
        assert_eq!(head.summary, summary);
        assert_eq!(wait(story.read(head.number, &EVERYTHING, None))?, batch);
    }
    Ok(())
}

/// All batches of an iterator as one.
pub fn joined(batches: impl Iterator<Item = Result<RecordBatch>>) -> RecordBatch {
    let batches: Vec<_> = batches.map(Result::unwrap).collect();
    concat_batches(&batches[0].schema(), &batches).unwrap()
}

/// The schema of [`noise`].
pub fn noise_schema() -> StorySchema {
    let mut schema = schema();
    schema.columns.remove(1);
    schema.keys.clear();
    schema
}

/// Incompressible values: 4 MB.
pub fn noise(seed: u64) -> (RecordBatch, GroupSummary) {
    let mut random = stratalog_sim::Random::new(seed);
    let rows = 500_000;
    let ticks: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let times = TimestampNanosecondArray::from_iter_values(0..rows).with_timezone("UTC");
    let values = Float64Array::from_iter_values((0..rows).map(|_| f64::from_bits(random.any())));
    let columns: Vec<ArrayRef> =
        vec![Arc::new(times), Arc::new(values), Arc::clone(&ticks), Arc::clone(&ticks), ticks];
    let batch = RecordBatch::try_new(noise_schema().arrow_schema(), columns).unwrap();
    let summary = summary(&batch, "", "");
    (batch, summary)
}
