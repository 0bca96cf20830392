//! The builder's cached state of a table, and the rows collected for the table.

use std::{ops::Range, sync::Arc};

use ahash::RandomState;
use hashbrown::HashTable;
use stratalog_model::{ChronicleDefinition, ColumnType, Error, ErrorKind, Result};

use crate::{
    ColumnKind, TableRows,
    column::{Column, NONE},
    fault::excerpt,
    limits::RowLimits,
    name::check_column_name,
    rows::TagValues,
    tag::{TagColumn, TagRole},
};

mod size;

use size::value_bytes;

/// The name of the time column of a new table.
pub const TIME_COLUMN: &str = "time";

/// Maximal bytes of capacity that a table reserves for a batch in advance, judging by the size of
/// the last batch.
const EXPECTED_BYTES_MAX: usize = 16 << 20;

/// Bytes of a tag value in a column, without the bytes of its text.
pub(crate) const TAG_BYTES: usize = 16;

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) measurement: Arc<str>,
    pub(crate) definition: Option<Arc<ChronicleDefinition>>,
    /// True if the table refuses tags for which it has no column.
    pub(crate) closed: bool,
    /// The number of the request in which the builder last asked for the definition.
    pub(crate) request: u64,
    pub(crate) tags: Vec<TagColumn>,
    pub(crate) columns: Vec<Column>,
    /// An index from column name to column number.
    names: HashTable<u32>,
    hasher: RandomState,
    /// The number of the column of the first field in the last row.
    pub(crate) first: u32,
    /// The names of the NOT NULL columns that are not tags.
    pub(crate) required: Vec<Box<str>>,
    /// True if the values of a tag are stored in a column outside of the key.
    pub(crate) has_text_tags: bool,
    pub(crate) ticks: Vec<i64>,
    /// For each row, the index of its series within the batch.
    pub(crate) slots: Vec<u32>,
    /// The line number of each row.
    pub(crate) lines: Vec<u32>,
    /// The number of rows without their own timestamp.
    pub(crate) undated: usize,
    /// The number of series in the batch.
    pub(crate) slots_used: u32,
    /// Bytes of one row of the batch, with NULLs and without the bytes of texts.
    pub(crate) row_bytes: usize,
    /// Bytes of the texts of all rows.
    pub(crate) text_bytes: usize,
    /// The share of this table in the builder's sum of bytes.
    pub(crate) counted_bytes: usize,
    /// The number of rows of the last batch, as an estimate for the next batch.
    expected: usize,
}

/// True if the table keeps only one of several rows with the same key and time. In such a table, no
/// tag may be stored outside of the key: rows that differ only in this tag would replace each
/// other.
pub(crate) fn loses_series(definition: &ChronicleDefinition) -> bool {
    definition.collision.replaces() || definition.collision.refuses()
}

impl Table {
    pub(crate) fn new(measurement: &str, hasher: RandomState) -> Self {
        Self {
            measurement: measurement.into(),
            definition: None,
            closed: false,
            request: 0,
            tags: Vec::new(),
            columns: Vec::new(),
            names: HashTable::new(),
            hasher,
            first: NONE,
            required: Vec::new(),
            has_text_tags: false,
            ticks: Vec::new(),
            slots: Vec::new(),
            lines: Vec::new(),
            undated: 0,
            slots_used: 0,
            row_bytes: 0,
            text_bytes: 0,
            counted_bytes: 0,
            expected: 0,
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.ticks.len()
    }

    /// Sets the value of the tag with number `tag` for the series with index `slot` of the batch.
    pub(crate) fn push_tag(&mut self, tag: u32, slot: usize, value: &str, request: u64) {
        let Some(column) = self.tags.get_mut(tag as usize) else { return };
        if column.role == TagRole::Text {
            return;
        }
        if column.role == TagRole::New && !column.is_used() {
            self.row_bytes += TAG_BYTES;
        }
        self.text_bytes += value.len();
        column.request = request;
        column.push(slot, value);
    }

    /// Sets the definition of the table for the request with number `request`. If the definition
    /// has changed, forgets cached columns, roles of tags, and new columns that nobody added to the
    /// table. The caller calls this only while no rows are collected.
    pub(crate) fn define(
        &mut self,
        request: u64,
        definition: Option<Arc<ChronicleDefinition>>,
        total: &mut usize,
    ) {
        self.request = request;
        let same = match (&self.definition, &definition) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one == other,
            (None, None) => true,
            _ => false,
        };
        self.definition = definition;
        if same && self.columns.iter().all(|column| !column.new) {
            return;
        }
        *total = total.saturating_sub(self.columns.len());
        self.columns.clear();
        self.names.clear();
        self.first = NONE;
        let mut tags = std::mem::take(&mut self.tags);
        for tag in &mut tags {
            tag.role = self.role(&tag.name);
            tag.clear();
        }
        self.has_text_tags = tags.iter().any(|tag| tag.role == TagRole::Text);
        self.tags = tags;
        self.required.clear();
        if let Some(definition) = &self.definition {
            let needed = definition.columns.iter().filter(|column| {
                let key = definition.key_columns.contains(&column.id);
                !column.nullable
                    && column.id != definition.tick_column
                    && !(key && column.column_type == ColumnType::Text)
            });
            self.required.extend(needed.map(|column| Box::from(column.name.as_str())));
        }
    }

    /// Reserves capacity for a batch of the size of the last batch.
    #[cold]
    pub(crate) fn start_batch(&mut self) {
        let rows = std::mem::take(&mut self.expected);
        // A column with large values in the last batch may have small values in the next batch.
        if rows.saturating_mul(self.row_bytes) > EXPECTED_BYTES_MAX {
            self.columns.iter_mut().for_each(Column::skip_reservation);
            self.measure();
            return;
        }
        self.ticks.reserve_exact(rows);
        self.slots.reserve_exact(rows);
        self.lines.reserve_exact(rows);
        self.columns.iter_mut().for_each(Column::start_batch);
        self.measure();
    }

    /// Removes and returns the collected rows. The cache of columns and tags stays.
    pub(crate) fn take(&mut self) -> TableRows {
        self.expected = self.rows();
        (self.text_bytes, self.counted_bytes) = (0, 0);
        let slots = std::mem::take(&mut self.slots_used) as usize;
        let tags = self.tags.iter_mut().filter_map(|tag| {
            let values = tag.take(slots)?;
            Some(TagValues { name: tag.name.clone(), new: tag.role == TagRole::New, values })
        });
        let tags = tags.collect();
        let columns = self.columns.iter_mut().filter(|column| column.len() > 0);
        if self.ticks.len() < self.ticks.capacity() / 2 {
            self.ticks.shrink_to_fit();
        }
        TableRows::new(
            Arc::clone(&self.measurement),
            self.definition.clone(),
            tags,
            columns.map(Column::take).collect(),
            std::mem::take(&mut self.ticks),
            std::mem::take(&mut self.slots),
            std::mem::take(&mut self.lines),
        )
        .with_undated(std::mem::take(&mut self.undated))
    }

    /// Drops the collected rows.
    pub(crate) fn clear(&mut self) {
        self.ticks.clear();
        self.slots.clear();
        self.lines.clear();
        self.undated = 0;
        self.slots_used = 0;
        (self.text_bytes, self.counted_bytes) = (0, 0);
        self.tags.iter_mut().for_each(TagColumn::clear);
        self.columns.iter_mut().for_each(|column| column.truncate(0));
    }

    /// The role of the tag `name` in this table: the kind of column that stores its values.
    fn role(&self, name: &str) -> TagRole {
        let Some(definition) = &self.definition else {
            return if name == TIME_COLUMN {
                TagRole::Refused(format!(
                    "tag \"{TIME_COLUMN}\" has the name of the column of timestamps; use another name"
                ))
            } else {
                TagRole::New
            };
        };
        let Some(column) = definition.column_named(name) else { return TagRole::New };
        let key = definition.key_columns.contains(&column.id);
        match &column.column_type {
            ColumnType::Text if key => TagRole::Key,
            ColumnType::Text if loses_series(definition) => TagRole::Refused(format!(
                "tag \"{}\" of table \"{}\": the column is not part of the key, and rows of one key and time replace each other; write a field instead, with {}=\"…\", or rename the tag",
                excerpt(name),
                self.measurement,
                excerpt(name),
            )),
            ColumnType::Text => TagRole::Text,
            other => TagRole::Refused(format!(
                "tag \"{}\" of table \"{}\": the column is of type {other}, and tags are text; {}",
                excerpt(name),
                self.measurement,
                match ColumnKind::written_for(other) {
                    Some(how) => format!("write a field instead, with {how}"),
                    None => "give the tag another name".to_string(),
                }
            )),
        }
    }

    /// The number of the tag `name`. Adds the tag if it is new. `expected` is the number to try
    /// first.
    pub(crate) fn tag(
        &mut self,
        name: &str,
        expected: usize,
        limits: &RowLimits,
        total: &mut usize,
    ) -> Result<u32> {
        let is = |tag: &TagColumn| *tag.name == *name;
        let found = match self.tags.get(expected).is_some_and(is) {
            true => Some(expected),
            false => self.tags.iter().position(is),
        };
        let found = match found {
            Some(found) => found,
            None => {
                check_column_name("tag", name)?;
                let role = self.role(name);
                if role == TagRole::New {
                    self.check_columns(limits)?;
                }
                if self.is_crowded(limits) {
                    return Err(self.too_many_columns(limits));
                }
                spend(limits, total)?;
                self.has_text_tags |= role == TagRole::Text;
                self.tags.push(TagColumn::new(name, role));
                self.tags.len() - 1
            }
        };
        Ok(u32::try_from(found).unwrap_or(NONE))
    }

    /// Removes all tags with the number `from` or higher. The caller calls this only if no row has
    /// these tags.
    pub(crate) fn remove_tags(&mut self, from: usize, total: &mut usize) {
        *total = total.saturating_sub(self.tags.len().saturating_sub(from));
        self.tags.truncate(from);
        self.has_text_tags = self.tags.iter().any(|tag| tag.role == TagRole::Text);
    }

    /// The number of the column `name`, if the column is known.
    #[inline]
    pub(crate) fn column(&self, name: &[u8]) -> Option<u32> {
        let is = |number: &u32| {
            self.columns.get(*number as usize).is_some_and(|column| column.name.as_bytes() == name)
        };
        self.names.find(self.hasher.hash_one(name), is).copied()
    }

    /// Adds a column for a new field. `label` is the field's name and `=`, as written in the line.
    pub(crate) fn add_column(
        &mut self,
        name: &str,
        label: &[u8],
        kind: ColumnKind,
        limits: &RowLimits,
        total: &mut usize,
    ) -> Result<u32> {
        check_column_name("field", name)?;
        let (column_type, new) = self.field_type(name, kind)?;
        if new {
            self.check_columns(limits)?;
            self.check_growth(value_bytes(&column_type), limits)?;
        }
        spend(limits, total)?;
        if new {
            self.row_bytes += value_bytes(&column_type);
        }
        let number = u32::try_from(self.columns.len()).unwrap_or(NONE);
        self.columns.push(Column::new(name, label, column_type, new));
        let (columns, hasher) = (&self.columns, &self.hasher);
        self.names.insert_unique(hasher.hash_one(name.as_bytes()), number, |number| {
            let name = columns.get(*number as usize).map_or(&[][..], |c| c.name.as_bytes());
            hasher.hash_one(name)
        });
        Ok(number)
    }

    /// Removes all columns with the number `from` or higher.
    pub(crate) fn remove_columns(&mut self, from: usize, total: &mut usize) {
        let gone: Range<usize> = from..self.columns.len();
        for number in gone.clone() {
            let Some(column) = self.columns.get(number) else { continue };
            let hash = self.hasher.hash_one(column.name.as_bytes());
            let is = |found: &u32| *found as usize == number;
            if let Ok(found) = self.names.find_entry(hash, is) {
                found.remove();
            }
        }
        self.columns.truncate(from);
        *total = total.saturating_sub(gone.len());
        let forget = |number: &mut u32| {
            if *number != NONE && *number as usize >= from {
                *number = NONE;
            }
        };
        forget(&mut self.first);
        self.columns.iter_mut().for_each(|column| forget(&mut column.next));
        self.measure();
    }

    /// The type of the column for a field, and true if the table lacks the column.
    fn field_type(&self, name: &str, kind: ColumnKind) -> Result<(ColumnType, bool)> {
        let table = &self.measurement;
        let taken = |message: String| Err(Error::new(ErrorKind::DatatypeMismatch, message));
        let Some(definition) = &self.definition else {
            return if name == TIME_COLUMN {
                taken(format!(
                    "field \"{TIME_COLUMN}\" has the name of the column of timestamps; use another name"
                ))
            } else {
                Ok((kind.column_type(), true))
            };
        };
        let Some(column) = definition.column_named(name) else {
            return Ok((kind.column_type(), true));
        };
        if column.id == definition.tick_column {
            return taken(format!(
                "field \"{name}\" of table \"{table}\" has the name of the column of timestamps; use another name"
            ));
        }
        let key = definition.key_columns.contains(&column.id);
        if key && column.column_type == ColumnType::Text {
            return taken(format!(
                "field \"{name}\" of table \"{table}\": the column is a tag; write it behind the measurement, {},{name}=…",
                excerpt(table)
            ));
        }
        if !kind.fits(&column.column_type) {
            return Err(self.conflict(name, &column.column_type, false, kind));
        }
        Ok((column.column_type.clone(), false))
    }

    /// The error for a value of a kind that the column cannot store.
    pub(crate) fn conflict(
        &self,
        name: &str,
        column_type: &ColumnType,
        new: bool,
        kind: ColumnKind,
    ) -> Error {
        let error = Error::new(
            ErrorKind::DatatypeMismatch,
            format!(
                "field \"{name}\" of table \"{}\": the column {} of type {column_type}, and the line has {} {kind}",
                self.measurement,
                if new { "became one" } else { "is" },
                if matches!(kind, ColumnKind::Integer | ColumnKind::Unsigned) { "an" } else { "a" },
            ),
        );
        match ColumnKind::written_for(column_type) {
            Some(how) if new => error.with_hint(format!(
                "write {how}, as in the first line of the request with this field"
            )),
            Some(how) => error.with_hint(format!("write {how}")),
            None => {
                error.with_hint("no line can write to the column: use another name for the field")
            }
        }
    }

    /// Checks that another column does not exceed the limit of columns per table.
    fn check_columns(&self, limits: &RowLimits) -> Result<()> {
        let known = self.definition.as_ref().map_or(1, |definition| definition.columns.len());
        let tags = self.tags.iter();
        let tags = tags.filter(|tag| tag.role == TagRole::New && tag.request == self.request);
        let tags = tags.count();
        let columns = self.columns.iter().filter(|column| column.new).count();
        if known + tags + columns < limits.columns_max {
            return Ok(());
        }
        Err(self.too_many_columns(limits))
    }

    /// True if the cache has at least twice as many tags of this table as a table can have columns.
    /// Most of these tags come from refused lines.
    pub(crate) fn is_crowded(&self, limits: &RowLimits) -> bool {
        self.tags.len() >= 2 * limits.columns_max
    }

    fn too_many_columns(&self, limits: &RowLimits) -> Error {
        Error::new(
            ErrorKind::TooManyColumns,
            format!(
                "table \"{}\" would have more than {} columns",
                self.measurement, limits.columns_max
            ),
        )
        .with_hint("write data that differs from line to line as values, not as names")
    }
}

/// Adds one to `total`, the number of columns and tags of all tables, and checks the limit.
fn spend(limits: &RowLimits, total: &mut usize) -> Result<()> {
    if *total >= limits.columns_total_max {
        return Err(Error::new(
            ErrorKind::LimitExceeded,
            format!("a request has more than {} columns", limits.columns_total_max),
        )
        .with_hint("send the lines of fewer tables in one request"));
    }
    *total += 1;
    Ok(())
}
