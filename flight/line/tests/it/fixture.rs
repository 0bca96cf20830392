//! A catalog that creates the tables and columns that rows need.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use arrow::{array::RecordBatch, compute::concat_batches};
use stratalog_line::{
    LineLimits, LineParser, LineRequest, Outcome, Precision, TIME_COLUMN, TableRows, Tables,
};
use stratalog_model::{
    ChronicleDefinition, ChronicleId, Collision, ColumnDefinition, ColumnId, ColumnType,
    Durability, LatePolicy, SchemaVersion, TickScale, TickSource, Tiering, tick::Granularity,
};

/// The time of lines without a timestamp, in nanoseconds since 1970.
pub const NOW_NS: i64 = 1_700_000_000_000_000_000;

pub const REQUEST: LineRequest = LineRequest { precision: Precision::Nanosecond, now_ns: NOW_NS };

pub const NS: ColumnType = ColumnType::TimestampTz { precision: 9 };

#[derive(Default)]
pub struct Catalog(pub HashMap<String, Arc<ChronicleDefinition>>);

impl Tables for Catalog {
    fn table(&self, measurement: &str) -> Option<Arc<ChronicleDefinition>> {
        self.0.get(measurement).cloned()
    }
}

/// A table of these columns, all nullable except key and tick; the last key column is the tick.
pub fn table(name: &str, columns: &[(&str, ColumnType)], key: &[&str]) -> ChronicleDefinition {
    let id = |name: &str| {
        let at = columns.iter().position(|(other, _)| *other == name);
        ColumnId(u32::try_from(at.unwrap()).unwrap() + 1)
    };
    let (tick, keys) = key.split_last().unwrap();
    let columns: Vec<_> = columns
        .iter()
        .map(|(name, column_type)| ColumnDefinition {
            id: id(name),
            name: (*name).to_string(),
            column_type: column_type.clone(),
            nullable: !key.contains(name),
            default_sql: None,
            missing_value: None,
            comment: None,
        })
        .collect();
    let definition = ChronicleDefinition {
        id: ChronicleId(1),
        database: "stratalog".to_string(),
        schema: "public".to_string(),
        name: name.to_string(),
        tick_column: id(tick),
        key_columns: keys.iter().map(|name| id(name)).collect(),
        keys_added: 0,
        indexes: Vec::new(),
        indexes_made: 0,
        primary_key: true,
        scale: TickScale::starting_at(0, Granularity::default()),
        coarsened: None,
        collision: Collision::All,
        late: LatePolicy::Accept,
        time_source: TickSource::Column,
        acceptance_window_ms: None,
        tiering: Tiering::default(),
        durability: Durability::Disk,
        schema_version: SchemaVersion(1),
        schema_versions: BTreeMap::from([(
            SchemaVersion(1),
            columns.iter().map(|column| column.id).collect(),
        )]),
        columns,
        comment: None,
        created_ns: 0,
    };
    definition.validate().unwrap();
    definition
}

impl Catalog {
    pub fn with(tables: impl IntoIterator<Item = ChronicleDefinition>) -> Self {
        Self(tables.into_iter().map(|table| (table.name.clone(), Arc::new(table))).collect())
    }

    /// Creates the table for these rows, or adds the columns it lacks.
    pub fn made_for(&mut self, rows: &TableRows) -> Arc<ChronicleDefinition> {
        let known = self.0.get(rows.measurement());
        let mut columns: Vec<_> = known.map_or(vec![(TIME_COLUMN.to_string(), NS)], |known| {
            let columns = known.columns.iter();
            columns.map(|column| (column.name.clone(), column.column_type.clone())).collect()
        });
        let mut key: Vec<String> = known.map_or(Vec::new(), |known| {
            let name = |id| known.column(id).unwrap().name.clone();
            known.key_columns.iter().map(|id| name(*id)).collect()
        });
        let tick = known.map_or(TIME_COLUMN, |known| &known.tick().unwrap().name).to_string();
        // With several batches of one request, the columns of the first batch exist already.
        let is_new = |name: &str| known.is_none_or(|known| known.column_named(name).is_none());
        for tag in rows.new_tags().iter().filter(|tag| is_new(tag)) {
            columns.push((tag.clone(), ColumnType::Text));
            if known.is_none() {
                key.push(tag.clone());
            }
        }
        columns.extend(rows.new_fields().iter().filter(|(name, _)| is_new(name)).cloned());
        key.push(tick);
        let columns: Vec<_> =
            columns.iter().map(|(name, kind)| (name.as_str(), kind.clone())).collect();
        let key: Vec<_> = key.iter().map(String::as_str).collect();
        let definition = Arc::new(table(rows.measurement(), &columns, &key));
        self.0.insert(rows.measurement().to_string(), Arc::clone(&definition));
        definition
    }
}

/// Reads a request in one piece, with a new parser.
pub fn read(catalog: &Catalog, text: &str) -> Outcome {
    read_pieces(catalog, text.as_bytes(), usize::MAX, LineLimits::default())
}

pub fn read_pieces(catalog: &Catalog, text: &[u8], piece: usize, limits: LineLimits) -> Outcome {
    let mut parser = LineParser::new(limits);
    parser.begin(REQUEST);
    for piece in text.chunks(piece) {
        parser.push(piece, catalog).unwrap();
    }
    parser.finish(catalog).unwrap()
}

/// The batches of an outcome, by table; several batches of a table are concatenated.
pub fn batches(catalog: &mut Catalog, rows: Vec<TableRows>) -> BTreeMap<String, RecordBatch> {
    let mut all: BTreeMap<String, RecordBatch> = BTreeMap::new();
    for rows in rows {
        let name = rows.measurement().to_string();
        let definition = catalog.made_for(&rows);
        let batch = rows.into_batch(&definition).unwrap();
        assert_eq!(batch.schema(), definition.arrow_schema());
        let batch = match all.remove(&name) {
            Some(earlier) => {
                concat_batches(&definition.arrow_schema(), [&earlier, &batch]).unwrap()
            }
            None => batch,
        };
        all.insert(name, batch);
    }
    all
}
