//! The chronicles of the world, and their events as sent and as read.

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{
        ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray,
    },
    datatypes::Int64Type,
};
use futures::StreamExt;
use stratalog_model::{
    ChronicleDefinition, ChronicleId, Collision, ColumnDefinition, ColumnId, ColumnType,
    Durability, Granularity, GsnRange, LatePolicy, Result, SchemaVersion, Snapshot, TickRanges,
    TickScale, TickSource,
    tier::{ScanOrder, ScanRequest},
};

use super::clocks::START_NS;

/// Series.
pub const HOSTS: [&str; 2] = ["a", "b"];

/// Maximum number of events per statement.
pub const ROWS_MAX: i64 = 8;

/// The options of a chronicle.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    pub source: TickSource,
    pub collision: Collision,
    pub granule_ns: i64,
    pub floor_ms: u64,
}

impl Rules {
    /// The tick that holds a time.
    pub fn tick_of(&self, time_ns: i64) -> i64 {
        let distance = i128::from(time_ns) - i128::from(START_NS);
        distance.div_euclid(i128::from(self.granule_ns)) as i64
    }

    /// The tick of a time in the unit of the time column.
    pub fn tick_of_us(&self, time_us: i64) -> i64 {
        self.tick_of(time_us * 1_000)
    }
}

/// `time timestamptz(6), host text, client bigint, event bigint`, key (host, time).
pub fn definition(number: u32, rules: &Rules) -> Arc<ChronicleDefinition> {
    let column = |id: u32, name: &str, column_type: ColumnType| ColumnDefinition {
        id: ColumnId(id),
        name: name.to_string(),
        column_type,
        nullable: false,
        default_sql: None,
        missing_value: None,
        comment: None,
    };
    let columns = vec![
        column(1, "time", ColumnType::TimestampTz { precision: 6 }),
        column(2, "host", ColumnType::Text),
        column(3, "client", ColumnType::BigInt),
        column(4, "event", ColumnType::BigInt),
    ];
    let ids = columns.iter().map(|column| column.id).collect();
    let definition = ChronicleDefinition {
        id: ChronicleId(number),
        database: "stratalog".to_string(),
        schema: "public".to_string(),
        name: format!("t{number}"),
        columns,
        tick_column: ColumnId(1),
        key_columns: vec![ColumnId(2)],
        keys_added: 0,
        indexes: Vec::new(),
        indexes_made: 0,
        primary_key: true,
        scale: TickScale::starting_at(START_NS, Granularity::from_ns(rules.granule_ns).unwrap()),
        coarsened: None,
        collision: rules.collision,
        late: LatePolicy::Accept,
        time_source: rules.source,
        acceptance_window_ms: rules.source.is_clocked().then_some(rules.floor_ms),
        tiering: Default::default(),
        durability: Durability::Disk,
        schema_version: SchemaVersion(1),
        schema_versions: BTreeMap::from([(SchemaVersion(1), ids)]),
        comment: None,
        created_ns: START_NS,
    };
    definition.validate().unwrap();
    Arc::new(definition)
}

/// An event in the form of its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    pub host: usize,
    pub time_us: i64,
}

/// The value of the column `event` for a row of a client's statement.
pub fn event_of(number: u64, row: usize) -> i64 {
    number as i64 * ROWS_MAX + row as i64
}

/// The number of an event's statement.
pub fn number_of(event: i64) -> u64 {
    event.div_euclid(ROWS_MAX) as u64
}

pub fn batch(
    definition: &ChronicleDefinition,
    client: usize,
    number: u64,
    rows: &[Asked],
) -> RecordBatch {
    let times = TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.time_us));
    let hosts: StringViewArray = rows.iter().map(|row| Some(HOSTS[row.host])).collect();
    let clients = Int64Array::from(vec![client as i64; rows.len()]);
    let events = (0..rows.len()).map(|row| event_of(number, row));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(times.with_timezone("UTC")),
        Arc::new(hosts),
        Arc::new(clients),
        Arc::new(Int64Array::from_iter_values(events)),
    ];
    RecordBatch::try_new(definition.arrow_schema(), columns).unwrap()
}

/// An event in the form of a read, ordered like scans.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Read {
    pub tick: i64,
    pub seq: u64,
    pub gsn: u64,
    pub host: usize,
    pub client: usize,
    pub event: i64,
}

/// The columns of a [`Read`], by position for scans and subscriptions.
pub fn projection(definition: &ChronicleDefinition) -> Vec<usize> {
    let user = definition.columns.len();
    vec![1, 2, 3, user, user + 1, user + 2]
}

/// The events of a batch with these columns.
pub fn events_of(batch: &RecordBatch) -> Vec<Read> {
    let hosts = batch.column(0).as_string_view();
    let numbers = |at: usize| batch.column(at).as_primitive::<Int64Type>();
    let (clients, events) = (numbers(1), numbers(2));
    let (ticks, seqs, gsns) = (numbers(3), numbers(4), numbers(5));
    let read = |row: usize| Read {
        tick: ticks.value(row),
        seq: seqs.value(row) as u64,
        gsn: gsns.value(row) as u64,
        host: HOSTS.iter().position(|host| *host == hosts.value(row)).unwrap(),
        client: clients.value(row) as usize,
        event: events.value(row),
    };
    (0..batch.num_rows()).map(read).collect()
}

/// All events of a snapshot with some ticks, by (tick, seq).
pub fn scan(
    snapshot: &dyn Snapshot,
    definition: &Arc<ChronicleDefinition>,
    ticks: TickRanges,
) -> Result<Vec<Read>> {
    let request = ScanRequest {
        chronicle: Arc::clone(definition),
        projection: projection(definition),
        ticks,
        gsns: GsnRange::ALL,
        keys: vec![],
        values: vec![],
        order: ScanOrder::Ascending,
        newest_of: None,
        limit: None,
        batch_rows_max: 64,
        streams: 1,
        metrics: Arc::default(),
        memory: None,
    };
    let mut found = Vec::new();
    for mut stream in snapshot.scan(request)? {
        while let Some(batch) = futures::executor::block_on(stream.next()) {
            found.extend(events_of(&batch?));
        }
    }
    Ok(found)
}
