//! Writing without SQL: batches of columns straight into tables, for protocols that carry them.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, RecordBatch},
    datatypes::{DataType, Schema},
};
use datafusion::scalar::ScalarValue;
use stratalog_model::{
    Append, ChronicleDefinition, ChronicleId, ColumnType, Error, ErrorKind, Result, TickRange,
    TickSource,
    store::{Admitted, AppendOptions, Appended, OnConflict},
};
use stratalog_text::parse::number::exact_type;
use stratalog_visor_core::{acquisition::Use, catalog::Command};

use crate::{
    Prepared, Session, TransactionState,
    assign::{self, Assignment},
    errors::from_datafusion,
    rules::float_keys::stored,
    session::{acquired::Entered, work::Work},
    statement::{
        ddl,
        insert::{self, Writer, columns::Targets, compute::Computing},
        parameters,
        parse::Dropping,
        transaction,
    },
    table::projection,
};

/// A table, and which of its columns come.
#[derive(Debug)]
pub struct Ingest {
    session: Arc<Session>,
    targets: Targets,
    incoming: Arc<Schema>,
}

/// One append of a protocol that needs no SQL: rows of any tables, all of them or none.
/// Dropped uncommitted, it stores nothing.
pub struct Appending {
    session: Arc<Session>,
    append: Box<dyn Append>,
    /// The chronicles that it writes to.
    entered: Vec<(ChronicleId, Entered)>,
    work: Arc<Work>,
}

impl std::fmt::Debug for Appending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Appending").field("work", &self.work).finish_non_exhaustive()
    }
}

/// The rows of one statement that come as batches, within a block or by themselves.
#[derive(Debug)]
pub struct IngestStatement<'a> {
    ingest: &'a Ingest,
    writer: Writer,
    work: Arc<Work>,
}

impl Session {
    /// The table of a name that is not SQL: as it is stored, of a schema or of the search path.
    ///
    /// # Errors
    /// `UndefinedTable`; `InsufficientPrivilege` for a system table.
    pub fn table(&self, schema: Option<&str>, name: &str) -> Result<Arc<ChronicleDefinition>> {
        self.chronicle_named(schema, name)
    }

    /// Schema and name of each table of the database, as they are stored.
    pub fn visible_tables(&self) -> Vec<(String, String)> {
        let catalog = self.catalog();
        let tables = catalog.chronicles(&self.login().database);
        tables.map(|table| (table.schema.clone(), table.name.clone())).collect()
    }

    /// The schemas of the database, as they are stored.
    pub fn schemas(&self) -> Vec<String> {
        let catalog = self.catalog();
        catalog.schemas(&self.login().database).map(|schema| schema.name.clone()).collect()
    }

    /// The schema of a new table whose name has none.
    ///
    /// # Errors
    /// `UndefinedSchema` when none of the search path exists.
    pub fn schema_for_new(&self) -> Result<String> {
        self.creation_schema()
    }

    /// Makes what a protocol needs to be there, such as a table for its rows; in a block, for the
    /// block. Returns what there is to tell.
    ///
    /// # Errors
    /// As those of the statements that the commands stand for.
    pub async fn define(&self, what: &str, commands: Vec<Command>) -> Result<Vec<String>> {
        self.check_ready()?;
        transaction::check_write(self)?;
        let work = self.start_work(what);
        let carried_out = ddl::carry_out(self, commands, Dropping::default(), &work);
        work.guard(Box::pin(carried_out)).await
    }

    /// Prepares to take batches of the shape `incoming` into a table: columns go by name.
    ///
    /// # Errors
    /// `UndefinedColumn`, `DuplicateColumn`; `DatatypeMismatch` for a column that cannot become
    /// what the table has.
    pub async fn ingest(
        &self,
        chronicle: Arc<ChronicleDefinition>,
        incoming: Arc<Schema>,
    ) -> Result<Ingest> {
        self.check_ready()?;
        transaction::check_write(self)?;
        let names: Vec<String> =
            incoming.fields().iter().map(|field| field.name().clone()).collect();
        if names.is_empty() {
            return Err(Error::new(ErrorKind::SyntaxError, "the batches have no columns"));
        }
        let targets = Targets::new(self, chronicle, &names, None).await?;
        targets.refuse_time()?;
        targets.check_assignable(&incoming)?;
        Ok(Ingest { session: self.shared()?, targets, incoming })
    }

    /// Starts an append outside of any block. `what` tells of it in pg_stat_activity.
    ///
    /// # Errors
    /// `ActiveTransaction` in a block; `ReadOnlyTransaction`; what the store says.
    pub fn append(&self, what: &str, options: AppendOptions) -> Result<Appending> {
        self.check_ready()?;
        if self.transaction() != TransactionState::Idle {
            return Err(Error::new(
                ErrorKind::ActiveTransaction,
                "batches with an acknowledgement of their own cannot be part of a transaction block",
            )
            .with_hint("COMMIT or ROLLBACK first"));
        }
        transaction::check_write(self)?;
        let (session, work) = (self.shared()?, self.start_work(what));
        let options = AppendOptions { acceptance: self.acceptance(), ..options };
        Ok(Appending { session, append: self.store().begin(options)?, entered: Vec::new(), work })
    }

    /// The parameters of a statement for each row of a batch: columns are parameters, in order.
    ///
    /// # Errors
    /// `ProtocolViolation` for a wrong number of columns; what is wrong with a value.
    pub fn bind_rows(
        &self,
        prepared: &Prepared,
        batch: &RecordBatch,
    ) -> Result<Vec<Vec<ScalarValue>>> {
        let types = prepared.parameter_types();
        if batch.num_columns() != types.len() {
            return Err(Error::new(
                ErrorKind::ProtocolViolation,
                format!(
                    "the statement requires {} parameters, {} were supplied",
                    types.len(),
                    batch.num_columns()
                ),
            ));
        }
        let style = assign::style(self);
        let schema = batch.schema();
        let mut columns = Vec::with_capacity(types.len());
        for (at, (array, column_type)) in batch.columns().iter().zip(types).enumerate() {
            let name = format!("${}", at + 1);
            let column_type = &with_digits(array, column_type);
            let assignment = Assignment { column_type, name: &name, style: &style };
            columns.push(assignment.convert(array, schema.field(at))?);
        }
        (0..batch.num_rows())
            .map(|row| {
                let values = columns.iter().map(|column| ScalarValue::try_from_array(column, row));
                values.collect::<datafusion::error::Result<Vec<_>>>().map_err(from_datafusion)
            })
            .collect()
    }

    /// The types that a batch of parameters tells, for preparing a statement anew whose
    /// parameters nothing else tells.
    pub fn told_by(prepared: &Prepared, incoming: &Schema) -> Option<Vec<Option<ColumnType>>> {
        let fields = incoming.fields();
        let mut told: Vec<Option<ColumnType>> = Vec::with_capacity(fields.len());
        let mut more = false;
        for (at, field) in fields.iter().enumerate() {
            let found = ColumnType::from_arrow_field(field)
                .filter(|_| prepared.is_guessed(at) && !field.data_type().is_null());
            more |= found.as_ref().is_some_and(|found| *found != ColumnType::Text);
            told.push(found);
        }
        more.then_some(told)
    }

    /// Another session of the same client, with the same settings, and with what this one has acquired;
    /// for a transaction beside others. The number that this session set for its next write is the twin's from here on: two writes with
    /// one number would be taken for one.
    ///
    /// # Errors
    /// As [`QueryService::connect`](crate::QueryService::connect).
    pub fn twin(&self) -> Result<Arc<Session>> {
        let set = self.variables().all().into_iter();
        let set = set.filter(|setting| setting.value != setting.initial);
        let mut login = self.login().clone();
        login.database = self.connected_to().to_string();
        login.settings.extend(set.map(|setting| (setting.name, setting.value)));
        let twin = self.service().connect_as(login, self.whose())?;
        if insert::is_numbered(self) {
            self.variables().set("stratalog.producer_sequence", "0", false)?;
        }
        Ok(twin)
    }

    /// Refuses rows that bring times of their own into a table whose times the server gives.
    ///
    /// # Errors
    /// `GeneratedAlways`.
    pub fn check_times(&self, table: &ChronicleDefinition) -> Result<()> {
        match (table.time_source, table.tick()) {
            (TickSource::Server, Some(column)) => {
                Err(insert::columns::time_by_server(table, column))
            }
            _ => Ok(()),
        }
    }

    fn check_ready(&self) -> Result<()> {
        self.service().check_open()?;
        self.check_terminated()?;
        match self.transaction() {
            TransactionState::Failed => Err(transaction::failed()),
            TransactionState::Idle | TransactionState::Block => Ok(()),
        }
    }
}

impl Ingest {
    /// The table.
    pub fn table(&self) -> &Arc<ChronicleDefinition> {
        &self.targets.chronicle
    }

    /// A batch as all columns of the table: values in its types, defaults for those that did not
    /// come.
    ///
    /// # Errors
    /// `DatatypeMismatch` for another shape than was told; `NotNullViolation`; what is wrong with a
    /// value.
    pub async fn rows(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        if batch.schema().fields() != self.incoming.fields() {
            return Err(Error::new(
                ErrorKind::DatatypeMismatch,
                "a batch has other columns than those before it",
            ));
        }
        let given = self.targets.assign(&self.session, batch)?;
        let work = Work::within(0, self.session.memory_pool());
        let computing = Computing::new(&self.session, &work, &[], &[]);
        self.targets.fill(&computing, given, batch.num_rows()).await
    }

    /// Begins a statement that takes batches: part of the session's block, if one is open.
    ///
    /// # Errors
    /// As an INSERT into the table.
    pub fn begin(&self, what: &str) -> Result<IngestStatement<'_>> {
        transaction::check_write(&self.session)?;
        let work = self.session.start_work(what);
        let writer = Writer::begin(&self.session, &self.targets, OnConflict::Error)?;
        Ok(IngestStatement { ingest: self, writer, work })
    }
}

impl IngestStatement<'_> {
    /// Takes a batch. After an error the statement can only be dropped.
    ///
    /// # Errors
    /// As [`Ingest::rows`] and `Append::push`; `QueryCanceled`.
    pub async fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let work = Arc::clone(&self.work);
        work.guard(async {
            let rows = self.ingest.rows(batch).await?;
            self.writer.push(rows).await
        })
        .await
    }

    /// Commits, or leaves the rows to the block; returns how many there are.
    ///
    /// # Errors
    /// What committing says; then nothing is stored.
    pub async fn finish(self) -> Result<u64> {
        let Self { ingest, writer, work } = self;
        let finished = writer.finish(&ingest.session, &work);
        Ok(work.guard(finished).await?.rows)
    }
}

impl Appending {
    /// Takes rows with all columns of a table; how many of them will be stored.
    ///
    /// # Errors
    /// As `Append::push`; `QueryCanceled`; `LockNotAvailable` when another one has acquired the table
    /// EXCLUSIVE; `OutsideProjection`.
    pub async fn push(
        &mut self,
        chronicle: &Arc<ChronicleDefinition>,
        rows: RecordBatch,
    ) -> Result<u64> {
        if rows.num_rows() == 0 {
            return Ok(0);
        }
        let admitted = self.push_with(chronicle, rows, OnConflict::Error).await?;
        Ok(admitted.events.rows.num_rows() as u64)
    }

    /// As [`Self::push`], with a choice of what becomes of rows whose key is taken.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub async fn push_with(
        &mut self,
        chronicle: &Arc<ChronicleDefinition>,
        rows: RecordBatch,
        on_conflict: OnConflict,
    ) -> Result<Admitted> {
        let within = self.enter(chronicle)?;
        projection::check_rows(chronicle, within, &rows)?;
        let rows = stored(rows)?;
        let pushed = self.append.push(chronicle, rows, on_conflict);
        let admitted = self.work.guard(self.session.beside(chronicle.id, pushed)).await?;
        projection::check_ticks(chronicle, within, &admitted.events.ticks)?;
        Ok(admitted)
    }

    /// Marks a place to come back to.
    ///
    /// # Errors
    /// `LimitExceeded`.
    pub fn savepoint(&mut self) -> Result<usize> {
        self.append.savepoint()
    }

    /// Takes back what was pushed after a savepoint, also a push that failed.
    pub fn roll_back_to(&mut self, savepoint: usize) {
        self.append.roll_back_to(savepoint);
    }

    /// Makes all of it durable, then visible, then returns.
    ///
    /// # Errors
    /// As `Append::commit`; `QueryCanceled` before it; `LeaseLost` when a lease has
    /// run out through which it wrote.
    pub async fn commit(self) -> Result<Appended> {
        self.work.commit()?;
        let uses = self.entered.into_iter().filter_map(|(_, entered)| entered.using).collect();
        self.session.committing(uses, self.append.commit())?.await
    }

    /// The events of a chronicle that it may write; it is in use from now on.
    fn enter(&mut self, chronicle: &ChronicleDefinition) -> Result<TickRange> {
        if let Some((_, entered)) = self.entered.iter().find(|(id, _)| *id == chronicle.id) {
            return Ok(entered.ticks);
        }
        let entered = self.session.enter(chronicle.id, Use::Write)?;
        entered.tell(self.append.as_mut(), chronicle);
        let ticks = entered.ticks;
        self.entered.push((chronicle.id, entered));
        Ok(ticks)
    }
}

/// A parameter's type, with all digits of numerics in `array`: numbers, or their texts.
fn with_digits(array: &ArrayRef, known: &ColumnType) -> ColumnType {
    let with = |known: ColumnType, text: &str| exact_type(text, &known).unwrap_or(known);
    match (known, array.data_type()) {
        (ColumnType::Numeric { .. }, DataType::Decimal128(digits, own)) => {
            let own = u8::try_from(*own).unwrap_or(0);
            match parameters::holds(known, *digits, own) {
                true => known.clone(),
                false => ColumnType::Numeric { precision: *digits, scale: own },
            }
        }
        (ColumnType::Numeric { .. } | ColumnType::Array(_), DataType::Utf8) => {
            array.as_string::<i32>().iter().flatten().fold(known.clone(), with)
        }
        (ColumnType::Numeric { .. } | ColumnType::Array(_), DataType::LargeUtf8) => {
            array.as_string::<i64>().iter().flatten().fold(known.clone(), with)
        }
        (ColumnType::Numeric { .. } | ColumnType::Array(_), DataType::Utf8View) => {
            array.as_string_view().iter().flatten().fold(known.clone(), with)
        }
        _ => known.clone(),
    }
}
