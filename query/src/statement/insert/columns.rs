//! The columns to which a writing statement gives values, and the default values of the other
//! columns.

use std::{collections::HashSet, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchOptions},
    datatypes::{DataType, Schema, SchemaRef},
};
use datafusion::logical_expr::LogicalPlan;
use stratalog_model::{
    ChronicleDefinition, ColumnDefinition, ColumnType, Error, ErrorKind, Result, Subject,
    TickSource,
};

use stratalog_postgres::{
    errors::{from_arrow, from_datafusion},
    names,
    types::round_as_numerics,
};
use stratalog_text::failing_row;

use super::{cells::Cell, compute::ComputeContext, defaults::ColumnDefault};
use crate::{
    Session,
    assign::{self, Assignment},
};

/// Maximum number of columns that a hint lists.
const LISTED_MAX: usize = 8;

/// The target columns of a statement.
#[derive(Debug)]
pub struct Targets {
    /// The chronicle to write to.
    pub chronicle: Arc<ChronicleDefinition>,
    /// Positions of the columns to which the statement gives values, in the order of the statement.
    pub listed: Vec<usize>,
    /// For each column of the chronicle, the default if the statement gives no value.
    defaults: Vec<ColumnDefault>,
    schema: SchemaRef,
}

/// Rounds the columns of a query that the integer columns `names` of `chronicle` store. The plan is
/// not yet analyzed. A plan with a wrong number of columns stays unchanged.
///
/// # Errors
/// DataFusion refuses a projection.
pub fn round_for(
    chronicle: &ChronicleDefinition,
    names: &[String],
    plan: LogicalPlan,
) -> Result<LogicalPlan> {
    let width = plan.schema().fields().len();
    let Ok(listed) = Targets::positions(chronicle, names, Some(width)) else { return Ok(plan) };
    let column = |at: usize| chronicle.columns.get(*listed.get(at)?);
    let is_integer =
        |at: usize| column(at).is_some_and(|found| found.column_type.arrow_type().is_integer());
    round_as_numerics(plan, is_integer).map_err(from_datafusion)
}

impl Targets {
    /// Checks that the statement gives no values for the time column if the server sets the time.
    ///
    /// # Errors
    /// `GeneratedAlways`.
    pub fn refuse_time(&self) -> Result<()> {
        match self.time_given_by_server() {
            Some((_, column)) => Err(time_by_server(&self.chronicle, column)),
            None => Ok(()),
        }
    }

    /// True if the statement gives values for the time column.
    pub fn have_time(&self) -> bool {
        let mut listed = (0..self.listed.len()).filter_map(|at| self.column(at));
        listed.any(|column| column.id == self.chronicle.tick_column)
    }

    /// Checks that VALUES rows contain only DEFAULT for the time column if the server sets the
    /// time.
    ///
    /// # Errors
    /// `GeneratedAlways`.
    pub fn refuse_times(&self, rows: &[Vec<Cell>]) -> Result<()> {
        let Some((at, column)) = self.time_given_by_server() else { return Ok(()) };
        let given =
            |row: &Vec<Cell>| row.get(at).is_some_and(|cell| !matches!(cell, Cell::Default));
        match rows.iter().any(given) {
            true => Err(time_by_server(&self.chronicle, column)),
            false => Ok(()),
        }
    }

    /// The time column and its index in the list of the statement's columns, if the statement lists
    /// the time column and the server sets the time.
    fn time_given_by_server(&self) -> Option<(usize, &ColumnDefinition)> {
        if self.chronicle.time_source != TickSource::Server {
            return None;
        }
        let mut listed = (0..self.listed.len()).filter_map(|at| Some((at, self.column(at)?)));
        listed.find(|(_, column)| column.id == self.chronicle.tick_column)
    }

    /// The target columns `names` of `chronicle`; if `names` is empty, the first `width` columns,
    /// or, without `width`, all columns.
    ///
    /// # Errors
    /// `UndefinedColumn`, `DuplicateColumn`, and `SyntaxError` for more or fewer values than
    /// columns.
    pub async fn new(
        session: &Session,
        chronicle: Arc<ChronicleDefinition>,
        names: &[String],
        width: Option<usize>,
    ) -> Result<Self> {
        let listed = Self::positions(&chronicle, names, width)?;
        let mut defaults = Vec::with_capacity(chronicle.columns.len());
        for column in &chronicle.columns {
            // A listed column also needs its default: a row of VALUES may contain DEFAULT.
            let is_tick = column.id == chronicle.tick_column;
            defaults.push(ColumnDefault::of(session, column, is_tick).await?);
        }
        let schema = chronicle.arrow_schema();
        Ok(Self { chronicle, listed, defaults, schema })
    }

    /// Positions of the columns `names` in the table; if `names` is empty, of the first `width`
    /// columns, or, without `width`, of all columns.
    ///
    /// # Errors
    /// See [`Self::new`].
    pub fn positions(
        chronicle: &ChronicleDefinition,
        names: &[String],
        width: Option<usize>,
    ) -> Result<Vec<usize>> {
        let mut listed = positions(chronicle, names)?;
        if let Some(width) = width {
            if width > listed.len() {
                return Err(Error::new(
                    ErrorKind::SyntaxError,
                    "INSERT has more expressions than target columns",
                ));
            }
            if !names.is_empty() && width < listed.len() {
                return Err(Error::new(
                    ErrorKind::SyntaxError,
                    "INSERT has more target columns than expressions",
                ));
            }
            listed.truncate(width);
        }
        Ok(listed)
    }

    /// The listed column at index `at`, counted from 0.
    pub fn column(&self, at: usize) -> Option<&ColumnDefinition> {
        self.chronicle.columns.get(*self.listed.get(at)?)
    }

    /// The type of the listed column at index `at`, counted from 0.
    pub fn column_type(&self, at: usize) -> Option<&ColumnType> {
        self.column(at).map(|column| &column.column_type)
    }

    /// True if the listed column at index `at`, counted from 0, has an integer type.
    pub fn is_integer(&self, at: usize) -> bool {
        let column_type = self.column_type(at);
        column_type.is_some_and(|column_type| column_type.arrow_type().is_integer())
    }

    /// Checks, before the query runs, that the types of a query's columns can be assigned to the
    /// listed columns.
    ///
    /// # Errors
    /// `DatatypeMismatch`.
    pub fn check_assignable(&self, schema: &Schema) -> Result<()> {
        for (at, field) in schema.fields().iter().enumerate() {
            if let Some(column) = self.column(at) {
                assign::check(field, &column.column_type, &column.name)?;
            }
        }
        Ok(())
    }

    /// Converts the columns of a query's batch to the types of the listed columns.
    ///
    /// # Errors
    /// An error of the assignment of a value.
    pub fn assign(&self, session: &Session, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let style = assign::style(session);
        batch
            .columns()
            .iter()
            .zip(batch.schema().fields())
            .enumerate()
            .filter_map(|(at, (array, field))| {
                let column = self.column(at)?;
                let assignment = Assignment {
                    column_type: &column.column_type,
                    name: &column.name,
                    style: &style,
                };
                Some(assignment.convert(array, field))
            })
            .collect()
    }

    /// The values of the default of the column at `position`, for `rows` rows.
    ///
    /// # Errors
    /// An error of the evaluation of the default.
    pub async fn default_of(
        &self,
        computing: &ComputeContext<'_>,
        position: usize,
        rows: usize,
    ) -> Result<ArrayRef> {
        match (self.defaults.get(position), self.chronicle.columns.get(position)) {
            (Some(missing), Some(column)) => missing.array(computing, column, rows).await,
            _ => Err(Error::internal("a column beyond the table")),
        }
    }

    /// A batch with all columns of the chronicle: `given` for the listed columns, and defaults for
    /// the other columns.
    ///
    /// # Errors
    /// `NotNullViolation`, and an error of the evaluation of a default.
    pub async fn fill(
        &self,
        computing: &ComputeContext<'_>,
        given: Vec<ArrayRef>,
        rows: usize,
    ) -> Result<RecordBatch> {
        let mut columns: Vec<Option<ArrayRef>> = vec![None; self.chronicle.columns.len()];
        for (position, array) in self.listed.iter().zip(given) {
            if let Some(slot) = columns.get_mut(*position) {
                *slot = Some(array);
            }
        }
        let mut filled = Vec::with_capacity(columns.len());
        for (position, (array, column)) in
            columns.into_iter().zip(&self.chronicle.columns).enumerate()
        {
            let array = match array {
                Some(array) => array,
                None => self.default_of(computing, position, rows).await?,
            };
            filled.push(relabelled(array, &column.column_type.arrow_type())?);
        }
        if let Some((row, column)) = self.first_null(&filled) {
            let style = computing.session.text_style();
            let columns = filled.iter().zip(self.schema.fields());
            let shown = failing_row(columns, row, &style);
            return Err(not_null(&self.chronicle, column).with_detail(shown));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), filled, &options)
            .map_err(from_arrow)
    }

    /// The index of a row with NULL in a NOT NULL column, and the column; `None` without a
    /// violation.
    fn first_null(&self, filled: &[ArrayRef]) -> Option<(usize, &ColumnDefinition)> {
        let columns = filled.iter().zip(&self.chronicle.columns);
        let required = columns.filter(|(_, column)| !column.nullable);
        let nulls = required.filter_map(|(array, column)| {
            let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0)?;
            Some((nulls.iter().position(|valid| !valid)?, column))
        });
        nulls.min_by_key(|(row, _)| *row)
    }
}

/// Casts the array to exactly `data_type`: the item field of a list may lack metadata.
fn relabelled(array: ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if array.data_type() == data_type {
        return Ok(array);
    }
    arrow::compute::cast(&array, data_type).map_err(from_arrow)
}

/// The error for a time from a client in a table whose times come from the server.
pub fn time_by_server(chronicle: &ChronicleDefinition, column: &ColumnDefinition) -> Error {
    let name = &column.name;
    let others = chronicle.columns.iter().filter(|other| other.id != column.id);
    let others: Vec<String> =
        others.map(|other| names::quoted(&other.name)).take(LISTED_MAX).collect();
    Error::new(
        ErrorKind::GeneratedAlways,
        format!("cannot insert a non-DEFAULT value into column \"{name}\""),
    )
    .with_subject(Subject { column: Some(name.clone()), ..chronicle.subject() })
    .with_detail(format!(
        "Table \"{}\" has time_source = 'server': the time of arrival is given by the server.",
        chronicle.name
    ))
    .with_hint(format!("leave the column out: {} ({})", chronicle.name, others.join(", ")))
}

/// The error for NULL in a NOT NULL column.
pub fn not_null(chronicle: &ChronicleDefinition, column: &ColumnDefinition) -> Error {
    chronicle.not_null_violation(&column.name)
}

/// Positions of the columns `names`; if `names` is empty, of all columns.
///
/// # Errors
/// `UndefinedColumn`, `DuplicateColumn`.
pub fn positions(chronicle: &ChronicleDefinition, names: &[String]) -> Result<Vec<usize>> {
    if names.is_empty() {
        return Ok((0..chronicle.columns.len()).collect());
    }
    let mut seen = HashSet::new();
    names
        .iter()
        .map(|name| {
            let position =
                chronicle.columns.iter().position(|column| column.name == *name).ok_or_else(
                    || {
                        Error::new(
                            ErrorKind::UndefinedColumn,
                            format!(
                                "column \"{name}\" of relation \"{}\" does not exist",
                                chronicle.name
                            ),
                        )
                    },
                )?;
            if seen.insert(position) {
                Ok(position)
            } else {
                Err(Error::new(
                    ErrorKind::DuplicateColumn,
                    format!("column \"{name}\" specified more than once"),
                ))
            }
        })
        .collect()
}
