//! A small chronicle for tests, its rows, and functions to read the rows back.

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{
        ArrayRef, AsArray, Float64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray,
    },
    datatypes::{Float64Type, Int64Type},
};
use stratalog_model::{
    ChronicleDefinition, ChronicleId, Collision, ColumnDefinition, ColumnId, ColumnType,
    Durability, Granularity, GsnRange, LatePolicy, SchemaVersion, TickRanges, TickScale,
    TickSource, Tiering,
    tier::{ScanOrder, ScanRequest},
};

/// A row of the sample chronicle: tick, host, value.
pub type SampleRow = (i64, &'static str, f64);

/// Defines the chronicle `time timestamptz(6), host text, value double`, with base 0, ticks of 1
/// µs, and the key (host, time).
pub fn chronicle(id: u32, collision: Collision) -> Arc<ChronicleDefinition> {
    let column = |id: u32, name: &str, column_type: ColumnType| ColumnDefinition {
        id: ColumnId(id),
        name: name.to_string(),
        column_type,
        nullable: id == 3,
        default_sql: None,
        missing_value: None,
        comment: None,
    };
    let columns = vec![
        column(1, "time", ColumnType::TimestampTz { precision: 6 }),
        column(2, "host", ColumnType::Text),
        column(3, "value", ColumnType::Double),
    ];
    let ids = columns.iter().map(|column| column.id).collect();
    Arc::new(ChronicleDefinition {
        id: ChronicleId(id),
        database: "stratalog".to_string(),
        schema: "public".to_string(),
        name: format!("sample{id}"),
        columns,
        tick_column: ColumnId(1),
        key_columns: vec![ColumnId(2)],
        keys_added: 0,
        indexes: Vec::new(),
        indexes_made: 0,
        primary_key: true,
        scale: TickScale::starting_at(0, Granularity::from_ns(1_000).unwrap()),
        coarsened: None,
        collision,
        late: LatePolicy::Accept,
        time_source: TickSource::Column,
        acceptance_window_ms: None,
        tiering: Tiering::default(),
        durability: Durability::Disk,
        schema_version: SchemaVersion(1),
        schema_versions: BTreeMap::from([(SchemaVersion(1), ids)]),
        comment: None,
        created_ns: 0,
    })
}

/// Converts rows to the batch that an append takes.
pub fn batch(definition: &ChronicleDefinition, rows: &[SampleRow]) -> RecordBatch {
    let time = TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.0));
    let hosts: StringViewArray = rows.iter().map(|row| Some(row.1)).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(time.with_timezone("UTC")),
        Arc::new(hosts),
        Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.2))),
    ];
    RecordBatch::try_new(definition.arrow_schema(), columns).unwrap()
}

/// Rows of three series, whose ticks are not in ascending order.
pub fn shuffled(first_tick: i64, rows: i64) -> Vec<SampleRow> {
    let host = |at: i64| ["a", "b", "c"][at as usize % 3];
    (0..rows).map(|at| (first_tick + at * 37 % rows, host(at), at as f64)).collect()
}

/// An event that was read: the row with its system columns.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadEvent {
    /// Tick.
    pub tick: i64,
    /// Arrival number (`_seq`).
    pub seq: i64,
    /// Commit number (`_gsn`).
    pub gsn: i64,
    /// Key.
    pub host: String,
    /// Value.
    pub value: f64,
    /// The tier that owns the event.
    pub tier: String,
}

/// A scan request for all events, whose batches [`events_of`] can decode.
pub fn request(definition: &Arc<ChronicleDefinition>, order: ScanOrder) -> ScanRequest {
    let user = definition.columns.len();
    ScanRequest {
        chronicle: Arc::clone(definition),
        projection: vec![user, user + 1, user + 2, 1, 2, user + 5],
        ticks: TickRanges::all(),
        gsns: GsnRange::ALL,
        keys: Vec::new(),
        values: Vec::new(),
        order,
        newest_of: None,
        limit: None,
        batch_rows_max: 50,
        streams: 3,
        metrics: Arc::default(),
        memory: None,
    }
}

/// The events of a batch that a [`request`] returned.
pub fn events_of(batch: &RecordBatch) -> Vec<ReadEvent> {
    let [ticks, seqs, gsns] = [0, 1, 2].map(|at| batch.column(at).as_primitive::<Int64Type>());
    let hosts = batch.column(3).as_string_view();
    let values = batch.column(4).as_primitive::<Float64Type>();
    let tiers = batch.column(5).as_string_view();
    let event = |row: usize| ReadEvent {
        tick: ticks.value(row),
        seq: seqs.value(row),
        gsn: gsns.value(row),
        host: hosts.value(row).to_string(),
        value: values.value(row),
        tier: tiers.value(row).to_string(),
    };
    (0..batch.num_rows()).map(event).collect()
}
