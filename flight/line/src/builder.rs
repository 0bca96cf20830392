//! Rows by table, from any protocol that writes series of fields.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashTable;
use stratalog_model::{ChronicleDefinition, Error, ErrorKind, Result};

use crate::{
    Row, RowLimits, SeriesNumber, TableRows, column::NONE, fault::shown, name::check_line,
    name::check_name, series::SeriesCache, table::Table,
};

/// Where the definitions of tables come from.
pub trait Tables {
    /// The definition of the table that a measurement is kept in; `None` when there is no such
    /// table. Asked once for each measurement that a request has rows of.
    fn table(&self, measurement: &str) -> Option<Arc<ChronicleDefinition>>;

    /// What tells these tables from others of the same names.
    fn namespace(&self) -> &str {
        ""
    }

    /// Whether rows of a table that is there may have tags that it has no column for. Where they may
    /// not, such rows are refused, each by itself.
    fn takes_new_tags(&self, _table: &ChronicleDefinition) -> bool {
        true
    }
}

/// Collects rows of many tables into columns, and remembers tables, columns and series from one
/// request to the next.
///
/// ```text
/// find(identity) ── none ──► intern(identity, measurement, tags)
///      │                          │
///      └──────► SeriesNumber ◄────┘
///                    │
///                 row(series) ─► push(field, value) … ─► commit(tick)      taken back if dropped
///                    │
///                 take() ─► TableRows of each table ─► into_batch(definition)
/// ```
#[derive(Debug)]
pub struct RowBuilder {
    limits: RowLimits,
    tables: Vec<Table>,
    by_measurement: HashTable<u32>,
    hasher: RandomState,
    pub(crate) series: SeriesCache,
    /// Counts requests, and definitions taken anew within one.
    request: u64,
    /// Counts batches: what a series has learnt of one does not hold in the next.
    batch: u64,
    /// Tables with rows.
    filled: Vec<u32>,
    /// Columns and tags of all tables.
    columns_total: usize,
    /// A table knows too many tags: all is forgotten when the next request begins.
    crowded: bool,
    rows: usize,
    bytes: usize,
    /// What the last series that was interned brought with it.
    interned: Option<Interned>,
}

#[derive(Debug)]
struct Interned {
    table: u32,
    is_new: bool,
    tags_before: usize,
}

impl RowBuilder {
    /// A builder that knows nothing yet.
    pub fn new(limits: RowLimits) -> Self {
        Self {
            tables: Vec::new(),
            by_measurement: HashTable::new(),
            hasher: RandomState::new(),
            series: SeriesCache::new(limits.series_max, limits.series_bytes_max),
            request: 1,
            batch: 1,
            filled: Vec::new(),
            columns_total: 0,
            crowded: false,
            rows: 0,
            bytes: 0,
            interned: None,
            limits,
        }
    }

    /// Begins a request: rows that were not taken are dropped, and the definition of each table
    /// is asked for again when the first row of it comes.
    pub fn begin(&mut self) {
        for number in std::mem::take(&mut self.filled) {
            if let Some(table) = self.tables.get_mut(number as usize) {
                table.clear();
            }
        }
        (self.rows, self.bytes) = (0, 0);
        self.request += 1;
        self.batch += 1;
        if self.crowded
            || self.tables.len() >= self.limits.tables_max
            || self.columns_total >= self.limits.columns_total_max
        {
            self.tables.clear();
            self.by_measurement.clear();
            self.series.clear();
            self.columns_total = 0;
            self.crowded = false;
        }
    }

    /// The rows since the last time, by table, in the order of their first rows. Kinds that new
    /// fields were found to have hold on until the request ends.
    pub fn take(&mut self) -> Vec<TableRows> {
        self.batch += 1;
        (self.rows, self.bytes) = (0, 0);
        let filled = std::mem::take(&mut self.filled);
        let mut taken = Vec::with_capacity(filled.len());
        for number in filled {
            taken.extend(self.tables.get_mut(number as usize).map(Table::take));
        }
        taken
    }

    /// After [`Self::take`], within a request: the definitions may have changed, as when the
    /// caller has made the tables and columns that were new.
    pub fn refresh(&mut self) {
        if self.rows == 0 {
            self.request += 1;
        }
    }

    /// Rows that can be taken.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// About how many bytes these rows have as batches, where each has a place in every column of its
    /// table.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A series that was interned before with the same identity.
    pub fn find(&mut self, identity: &[u8]) -> Option<SeriesNumber> {
        let number = self.series.find(identity)?;
        Some(SeriesNumber { number, generation: self.series.generation })
    }

    /// Interns a series. Its identity may be any bytes that tell it from all others of this
    /// builder, as cheap to come by as can be: the text of its tags as it was sent. A tag without
    /// a value ('') is as one that is not there.
    ///
    /// # Errors
    /// Names that no table or column can have; tags that come twice; limits.
    pub fn intern(
        &mut self,
        identity: &[u8],
        measurement: &str,
        tags: &[(&str, &str)],
    ) -> Result<SeriesNumber> {
        let tables_before = self.tables.len();
        let table = self.table(measurement)?;
        let known = self.tables.get(table as usize);
        let tags_before = known.map_or(0, |table| table.tags.len());
        self.interned =
            Some(Interned { table, is_new: self.tables.len() > tables_before, tags_before });
        match self.tags(table, tags) {
            Ok(tags) => {
                let number = self.series.add(identity, table, tags.iter().copied());
                Ok(SeriesNumber { number, generation: self.series.generation })
            }
            Err(error) => {
                self.retract_table();
                Err(error)
            }
        }
    }

    /// The tags of a series of this table that have values.
    fn tags<'a>(&mut self, table: u32, tags: &[(&str, &'a str)]) -> Result<Vec<(u32, &'a str)>> {
        let table = self
            .tables
            .get_mut(table as usize)
            .ok_or_else(|| Error::internal("a table was forgotten while it was made"))?;
        let mut found: Vec<(u32, &str)> = Vec::with_capacity(tags.len());
        for (name, value) in tags {
            check_line("the value of tag", value)?;
            let after = found.last().map_or(0, |(last, _)| *last as usize + 1);
            let tag = table.tag(name, after, &self.limits, &mut self.columns_total)?;
            self.crowded |= table.is_crowded(&self.limits);
            if found.iter().any(|(other, _)| *other == tag) {
                return Err(Error::new(
                    ErrorKind::DuplicateColumn,
                    format!("tag \"{}\" is given twice", shown(name)),
                )
                .with_hint("keep one of the two"));
            }
            found.push((tag, value));
        }
        found.retain(|(_, value)| !value.is_empty());
        Ok(found)
    }

    /// Begins something that may be taken back.
    #[inline]
    pub(crate) fn mark(&mut self) {
        self.interned = None;
    }

    /// Takes back the series that was interned since the mark, and with it its tags and its table
    /// if they are new: its line was refused. No row of it may be open or complete.
    #[inline]
    pub(crate) fn retract(&mut self) {
        if self.interned.is_some() {
            self.series.remove_last();
            self.retract_table();
        }
    }

    #[cold]
    fn retract_table(&mut self) {
        let Some(Interned { table, is_new, tags_before }) = self.interned.take() else { return };
        let Some(known) = self.tables.get_mut(table as usize) else { return };
        known.remove_tags(tags_before, &mut self.columns_total);
        if is_new {
            let hash = self.hasher.hash_one(&*known.measurement);
            let is = |other: &u32| *other == table;
            if let Ok(found) = self.by_measurement.find_entry(hash, is) {
                found.remove();
            }
            self.tables.pop();
        }
    }

    /// Begins a row of a series.
    ///
    /// # Errors
    /// A tag that the table has no place for.
    #[inline]
    pub fn row(&mut self, series: SeriesNumber, tables: &dyn Tables) -> Result<Row<'_>> {
        let known = (series.generation == self.series.generation)
            .then(|| self.series.entries.get_mut(series.number as usize))
            .flatten();
        let forgotten = || Error::internal("a row of a series that was forgotten");
        let entry = known.ok_or_else(forgotten)?;
        let number = entry.table;
        let table = self.tables.get_mut(number as usize).ok_or_else(forgotten)?;
        if table.request != self.request {
            let definition = tables.table(&table.measurement);
            table.closed = definition.as_ref().is_some_and(|known| !tables.takes_new_tags(known));
            table.define(self.request, definition, &mut self.columns_total);
        }
        if table.rows() == 0 {
            table.start_batch();
        }
        Row::begin(
            table,
            entry,
            &self.series.texts,
            RowContext {
                table: number,
                request: self.request,
                batch: self.batch,
                limits: &self.limits,
                columns_total: &mut self.columns_total,
                filled: &mut self.filled,
                rows: &mut self.rows,
                bytes: &mut self.bytes,
            },
        )
    }

    /// The number of a measurement's table, which is new if need be.
    fn table(&mut self, measurement: &str) -> Result<u32> {
        let hash = self.hasher.hash_one(measurement);
        let is = |number: &u32| {
            self.tables
                .get(*number as usize)
                .is_some_and(|table| *table.measurement == *measurement)
        };
        if let Some(number) = self.by_measurement.find(hash, is) {
            return Ok(*number);
        }
        check_name("measurement", measurement)?;
        if self.tables.len() >= self.limits.tables_max {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!(
                    "measurement \"{measurement}\" is one more than the {} of which rows are kept",
                    self.limits.tables_max
                ),
            )
            .with_hint("send fewer measurements in one request"));
        }
        let number = u32::try_from(self.tables.len()).unwrap_or(NONE);
        self.tables.push(Table::new(measurement, self.hasher.clone()));
        let (tables, hasher) = (&self.tables, &self.hasher);
        self.by_measurement.insert_unique(hash, number, |number| {
            hasher.hash_one(tables.get(*number as usize).map_or("", |table| &*table.measurement))
        });
        Ok(number)
    }
}

/// What a row needs of its builder.
pub(crate) struct RowContext<'a> {
    pub(crate) table: u32,
    pub(crate) request: u64,
    pub(crate) batch: u64,
    pub(crate) limits: &'a RowLimits,
    pub(crate) columns_total: &'a mut usize,
    pub(crate) filled: &'a mut Vec<u32>,
    pub(crate) rows: &'a mut usize,
    pub(crate) bytes: &'a mut usize,
}
