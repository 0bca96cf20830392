//! The row builder: collects rows by table, for every protocol whose rows belong to series and have
//! fields.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashTable;
use stratalog_model::{ChronicleDefinition, Error, ErrorKind, Result};

use crate::{
    Row, RowLimits, SeriesNumber, TableRows, column::NONE, fault::excerpt, name::check_line,
    name::check_name, series::SeriesCache, table::Table,
};

/// Access to the definitions of existing tables; the caller of a builder implements this trait.
pub trait Tables {
    /// The definition of the table with the name of a measurement; `None` if the table does not
    /// exist. The builder calls this method once per request for each measurement that has rows.
    fn table(&self, measurement: &str) -> Option<Arc<ChronicleDefinition>>;

    /// A name, for example of a schema, that distinguishes these tables from tables of the same
    /// names elsewhere.
    fn namespace(&self) -> &str {
        ""
    }

    /// True if new tags may become columns of an existing table. If false, the builder refuses a
    /// row with an unknown tag.
    fn takes_new_tags(&self, _table: &ChronicleDefinition) -> bool {
        true
    }
}

/// Collects rows of many tables in columns. Keeps a cache of tables, columns and series from one
/// request to the next.
///
/// ```text
/// find(identity) ── none ──► intern(identity, measurement, tags)
///      │                          │
///      └──────► SeriesNumber ◄────┘
///                    │
///                 row(series) ─► push(field, value) … ─► commit(tick)      removed if dropped
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
    /// The number of requests so far, plus the number of calls of [`Self::refresh`].
    request: u64,
    /// The number of the current batch. The index of a series within the batch is valid only if the
    /// series has this batch number.
    batch: u64,
    /// The numbers of the tables that have rows.
    filled: Vec<u32>,
    /// The number of columns and tags of all cached tables.
    columns_total: usize,
    /// True if a cached table has too many tags: the next request begins with an empty cache.
    crowded: bool,
    rows: usize,
    bytes: usize,
    /// The entries that the last interned series added to the cache.
    interned: Option<InternedSeries>,
}

#[derive(Debug)]
struct InternedSeries {
    table: u32,
    is_new: bool,
    tags_before: usize,
}

impl RowBuilder {
    /// Creates a builder with an empty cache.
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

    /// Begins a request, and drops rows that the caller has not taken. The builder then asks for
    /// the definition of each table again, at the table's first row.
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

    /// Removes and returns the rows collected since the last call, grouped by table, in the order
    /// of the tables' first rows. The types chosen for new fields stay valid until the request
    /// ends.
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

    /// Makes the builder ask for all definitions again within a request, for example after the
    /// caller has created tables and columns. Call this method directly after [`Self::take`]; while
    /// rows are collected it has no effect.
    pub fn refresh(&mut self) {
        if self.rows == 0 {
            self.request += 1;
        }
    }

    /// The number of complete rows that are not taken yet.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The approximate bytes, in the form of batches, of the complete rows that the caller has not
    /// yet taken. Every row takes space in every column of its table.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Finds the series that was interned with the given identity; `None` if the cache does not
    /// contain the series.
    pub fn find(&mut self, identity: &[u8]) -> Option<SeriesNumber> {
        let number = self.series.find(identity)?;
        Some(SeriesNumber { number, generation: self.series.generation })
    }

    /// Adds a series to the cache. The identity is a byte string that differs for each series and
    /// is cheap to obtain, for example the tags as the client sent them. A tag with the value ''
    /// counts as missing.
    ///
    /// # Errors
    /// Errors for a name that no table or column can have, for a tag given twice, and for exceeded
    /// limits.
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
            Some(InternedSeries { table, is_new: self.tables.len() > tables_before, tags_before });
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

    /// Converts the tags of a series from names to the table's tag numbers. Omits tags with an
    /// empty value.
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
                    format!("tag \"{}\" is given twice", excerpt(name)),
                )
                .with_hint("remove one of the two"));
            }
            found.push((tag, value));
        }
        found.retain(|(_, value)| !value.is_empty());
        Ok(found)
    }

    /// Marks the present state of the cache, to which [`Self::retract`] returns.
    #[inline]
    pub(crate) fn mark(&mut self) {
        self.interned = None;
    }

    /// Removes the series interned since [`Self::mark`], together with the tags and the table that
    /// came with it. The parser calls this for a refused line, so the series has no row.
    #[inline]
    pub(crate) fn retract(&mut self) {
        if self.interned.is_some() {
            self.series.remove_last();
            self.retract_table();
        }
    }

    #[cold]
    fn retract_table(&mut self) {
        let Some(InternedSeries { table, is_new, tags_before }) = self.interned.take() else {
            return;
        };
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
    /// An error for a tag that the table cannot store.
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

    /// The number of the table for a measurement; adds the table to the cache if it is new.
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
                    "measurement \"{measurement}\" exceeds the limit of {} measurements with rows in one request",
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

/// The parts of the builder that a row under construction borrows.
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
