//! Writes without SQL: protocols pass batches of columns directly to tables.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, RecordBatch},
    datatypes::{DataType, Schema},
};
use datafusion::scalar::ScalarValue;
use stratalog_model::{
    Append, ChronicleDefinition, ChronicleId, ColumnType, Error, ErrorKind, Result, TickRange,
    TickSource,
    store::{AppendOptions, CommittedAppend, OnConflict, PushResult},
};
use stratalog_postgres::{
    errors::from_datafusion, parameters, parse::DropMode, rules::equality::float_keys::stored,
};
use stratalog_text::parse::number::exact_type;
use stratalog_visor_core::{access::Privilege, acquisition::Use, catalog::Command};

use crate::{
    Prepared, Session, TransactionState,
    assign::{self, Assignment},
    session::{acquisitions::EnteredChronicle, work::Work},
    statement::{
        ddl,
        insert::{self, Writer, columns::Targets, compute::ComputeContext},
        row_policies::AppendChecks,
        transaction,
    },
    table::projection,
};

/// A table that receives rows without SQL, and the schema of the incoming batches.
#[derive(Debug)]
pub struct Ingest {
    session: Arc<Session>,
    targets: Targets,
    incoming: Arc<Schema>,
}

/// An atomic append of a protocol without SQL, with rows of any number of tables. A drop without a
/// commit stores nothing.
pub struct ProtocolAppend {
    session: Arc<Session>,
    append: Box<dyn Append>,
    /// The chronicles that this append writes to.
    entered: Vec<(ChronicleId, EnteredChronicle)>,
    checks: AppendChecks,
    /// True after a failed push, until a rollback to a savepoint.
    failed: bool,
    work: Arc<Work>,
}

impl std::fmt::Debug for ProtocolAppend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProtocolAppend").field("work", &self.work).finish_non_exhaustive()
    }
}

/// One statement that receives its rows as batches, in a transaction block or alone.
#[derive(Debug)]
pub struct IngestStatement<'a> {
    ingest: &'a Ingest,
    writer: Writer,
    work: Arc<Work>,
}

impl Session {
    /// Finds a table by its name as stored in the catalog, without SQL quoting or case folding, in
    /// `schema` or else on the search path.
    ///
    /// # Errors
    /// `UndefinedTable`; `InsufficientPrivilege` for a system table.
    pub fn table(&self, schema: Option<&str>, name: &str) -> Result<Arc<ChronicleDefinition>> {
        self.chronicle_named(schema, name)
    }

    /// The schema and the name of each table of the database, as stored in the catalog.
    pub fn visible_tables(&self) -> Vec<(String, String)> {
        let catalog = self.catalog();
        let tables = catalog.chronicles(&self.login().database);
        tables.map(|table| (table.schema.clone(), table.name.clone())).collect()
    }

    /// The names of the database's schemas, as stored in the catalog.
    pub fn schemas(&self) -> Vec<String> {
        let catalog = self.catalog();
        catalog.schemas(&self.login().database).map(|schema| schema.name.clone()).collect()
    }

    /// The schema that receives a new table if the client gives no schema.
    ///
    /// # Errors
    /// `UndefinedSchema` if no schema of the search path exists.
    pub fn schema_for_new(&self) -> Result<String> {
        self.creation_schema()
    }

    /// Runs DDL commands for a protocol, for example to create a table for incoming rows. In a
    /// block, the objects belong to the block. `what` is the text in pg_stat_activity. Returns the
    /// notices.
    ///
    /// # Errors
    /// The errors of the equivalent statements.
    pub async fn define(&self, what: &str, commands: Vec<Command>) -> Result<Vec<String>> {
        self.check_ready()?;
        transaction::check_write(self)?;
        let work = self.start_work(what);
        let carried_out = ddl::carry_out(self, commands, DropMode::default(), &work);
        work.guard(Box::pin(carried_out)).await
    }

    /// Prepares a table for batches with the schema `incoming`; columns match by name.
    ///
    /// # Errors
    /// `UndefinedColumn`, `DuplicateColumn`; `DatatypeMismatch` for a column without a conversion
    /// to the table's type.
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

    /// Starts an append outside of any block. `what` is the text in pg_stat_activity.
    ///
    /// # Errors
    /// `ActiveTransaction` in a block; `ReadOnlyTransaction`; the errors of the store.
    pub fn append(&self, what: &str, options: AppendOptions) -> Result<ProtocolAppend> {
        self.check_ready()?;
        if self.transaction() != TransactionState::Idle {
            return Err(Error::new(
                ErrorKind::ActiveTransaction,
                "separately acknowledged batches cannot be part of a transaction block",
            )
            .with_hint("COMMIT or ROLLBACK first"));
        }
        transaction::check_write(self)?;
        let (session, work) = (self.shared()?, self.start_work(what));
        let options = AppendOptions { acceptance: self.acceptance(), ..options };
        Ok(ProtocolAppend {
            session,
            append: self.store().begin(options)?,
            entered: Vec::new(),
            checks: AppendChecks::default(),
            failed: false,
            work,
        })
    }

    /// Converts each row of a batch to the parameters of a statement: column n holds parameter n.
    ///
    /// # Errors
    /// `ProtocolViolation` for a wrong number of columns; the error of an invalid value.
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

    /// The parameter types derived from the columns of a batch; `None` if the batch adds nothing to
    /// the types of the prepared statement. The caller prepares the statement again with the new
    /// types.
    pub fn types_from_batch(
        prepared: &Prepared,
        incoming: &Schema,
    ) -> Option<Vec<Option<ColumnType>>> {
        let fields = incoming.fields();
        let mut declared_types: Vec<Option<ColumnType>> = Vec::with_capacity(fields.len());
        let mut more = false;
        for (at, field) in fields.iter().enumerate() {
            let found = ColumnType::from_arrow_field(field)
                .filter(|_| prepared.is_guessed(at) && !field.data_type().is_null());
            more |= found.as_ref().is_some_and(|found| *found != ColumnType::Text);
            declared_types.push(found);
        }
        more.then_some(declared_types)
    }

    /// Opens another session of the same client, for a second transaction at the same time. This
    /// twin has the same settings and shares the acquisitions. The twin takes over the producer
    /// sequence that this session set for its next write: the store treats two writes with the same
    /// number as one write.
    ///
    /// # Errors
    /// As [`QueryService::connect`](crate::QueryService::connect).
    pub fn twin(&self) -> Result<Arc<Session>> {
        let set = self.variables().all().into_iter();
        let set = set.filter(|setting| setting.value != setting.initial);
        let mut login = self.login().clone();
        login.database = self.connected_to().to_string();
        login.settings.extend(set.map(|setting| (setting.name, setting.value)));
        let twin = self.service().connect_as(login, self.twin_owner())?;
        if insert::is_numbered(self) {
            self.variables().set("stratalog.producer_sequence", "0", false)?;
        }
        Ok(twin)
    }

    /// Checks that a client may give the times of rows. A table whose times come from the server
    /// refuses times.
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
        self.check_identity()?;
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

    /// Converts a batch to rows with all columns of the table: converts values to the table's
    /// types, and fills missing columns with defaults.
    ///
    /// # Errors
    /// `DatatypeMismatch` if the schema of the batch differs from the announced schema;
    /// `NotNullViolation`; the error of an invalid value.
    pub async fn rows(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        if batch.schema().fields() != self.incoming.fields() {
            return Err(Error::new(
                ErrorKind::DatatypeMismatch,
                "the columns of a batch differ from the columns of the previous batches",
            ));
        }
        let given = self.targets.assign(&self.session, batch)?;
        let work = Work::within(0, self.session.memory_pool());
        let computing = ComputeContext::new(&self.session, &work, &[], &[]);
        self.targets.fill(&computing, given, batch.num_rows()).await
    }

    /// Begins a statement that receives rows as batches. An open block of the session includes the
    /// statement.
    ///
    /// # Errors
    /// The errors of an INSERT into the table.
    pub fn begin(&self, what: &str) -> Result<IngestStatement<'_>> {
        transaction::check_write(&self.session)?;
        let work = self.session.start_work(what);
        let writer = Writer::begin(&self.session, &self.targets, OnConflict::Error)?;
        Ok(IngestStatement { ingest: self, writer, work })
    }
}

impl IngestStatement<'_> {
    /// Adds a batch. After an error, the statement can only be dropped.
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

    /// Commits the rows, or, in a block, leaves the rows to the block. Returns the number of rows.
    ///
    /// # Errors
    /// The errors of the commit; after an error nothing is stored.
    pub async fn finish(self) -> Result<u64> {
        let Self { ingest, writer, work } = self;
        let finished = writer.finish(&ingest.session, &work);
        Ok(work.guard(finished).await?.rows)
    }
}

impl ProtocolAppend {
    /// Adds rows with all columns of a table; returns the number of rows that the commit will
    /// store.
    ///
    /// # Errors
    /// As `Append::push`; `QueryCanceled`; `LockNotAvailable` if another session has acquired the
    /// table EXCLUSIVE; `OutsideProjection`.
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

    /// Like [`Self::push`]; `on_conflict` decides about rows whose key already exists.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub async fn push_with(
        &mut self,
        chronicle: &Arc<ChronicleDefinition>,
        rows: RecordBatch,
        on_conflict: OnConflict,
    ) -> Result<PushResult> {
        // If the caller drops this future, the push counts as failed.
        let failed_before = std::mem::replace(&mut self.failed, true);
        let pushed = self.admit(chronicle, rows, on_conflict).await;
        self.failed = failed_before || pushed.is_err();
        pushed
    }

    async fn admit(
        &mut self,
        chronicle: &Arc<ChronicleDefinition>,
        rows: RecordBatch,
        on_conflict: OnConflict,
    ) -> Result<PushResult> {
        let within = self.enter(chronicle)?;
        projection::check_rows(chronicle, within, &rows)?;
        self.checks.check(&self.session, chronicle, false, &rows).await?;
        let rows = stored(rows)?;
        let pushed = self.append.push(chronicle, rows, on_conflict);
        let admitted =
            self.work.guard(self.session.with_lost_writes_dropped(chronicle.id, pushed)).await?;
        projection::check_ticks(chronicle, within, &admitted.events.ticks)?;
        Ok(admitted)
    }

    /// Sets a savepoint.
    ///
    /// # Errors
    /// `LimitExceeded`; `FailedTransaction` after a failed push without a rollback.
    pub fn savepoint(&mut self) -> Result<usize> {
        if self.failed {
            return Err(transaction::failed());
        }
        self.append.savepoint()
    }

    /// Undoes every push after a savepoint, including a failed push.
    pub fn roll_back_to(&mut self, savepoint: usize) {
        self.append.roll_back_to(savepoint);
        self.failed = false;
    }

    /// Makes all rows durable, then visible, then returns.
    ///
    /// # Errors
    /// As `Append::commit`; `FailedTransaction` after a failed push without a rollback;
    /// `QueryCanceled` before the commit; `LeaseLost` if a lease of this append has expired.
    pub async fn commit(self) -> Result<CommittedAppend> {
        if self.failed {
            return Err(transaction::failed());
        }
        self.work.commit()?;
        let uses = self.entered.into_iter().filter_map(|(_, entered)| entered.using).collect();
        self.session.commit_task(uses, self.append.commit())?.await
    }

    /// Marks a chronicle as in use by the append. Returns the range of ticks that the append may
    /// write.
    fn enter(&mut self, chronicle: &ChronicleDefinition) -> Result<TickRange> {
        // At each push: a REVOKE acts on a long append.
        self.session.authorize_on(Privilege::Insert, chronicle.id)?;
        if let Some((_, entered)) = self.entered.iter().find(|(id, _)| *id == chronicle.id) {
            return Ok(entered.ticks);
        }
        let entered = self.session.enter(chronicle.id, Use::Write)?;
        entered.announce(self.append.as_mut(), chronicle);
        let ticks = entered.ticks;
        self.entered.push((chronicle.id, entered));
        Ok(ticks)
    }
}

/// The type of a parameter, widened from `known` where the numeric values in `array` (numbers or
/// texts) have more digits.
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
