//! The table function `read_record(gsn, 'table')`: returns the event with a given gsn, a position
//! in the order of commits (F108).
//!
//! ```text
//!   read_record($1, 'cpu') ─► (SELECT * FROM $record('cpu') WHERE "$gsn" = $1)
//!                             gsn from the filter ─► wait for the commit ─► snapshot ─► event
//! ```
//! The gsn is a filter, and may therefore be a parameter. The event may be newer than the
//! statement's snapshot. The function reads a newer snapshot, and uses the statement's snapshot
//! only for the visible times.

use std::sync::Arc;

use arrow::{
    array::RecordBatch,
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider},
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType},
    physical_plan::{
        ExecutionPlan,
        stream::RecordBatchStreamAdapter,
        streaming::{PartitionStream, StreamingTableExec},
    },
    scalar::ScalarValue,
};
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use stratalog_model::{
    ChronicleDefinition, Error, ErrorKind, EventStore, Gsn, GsnRange, Result as ModelResult,
    tier::{ScanOrder, ScanRequest},
};
use stratalog_pg_catalog::table_of_regclass;
use stratalog_postgres::{dialect::positions::RECORD_POSITION, errors::to_datafusion};

use super::{ChronicleTable, SnapshotPin};
use crate::session::{catalog::Scope, waits::Waits};

/// The maximum number of rows in a batch. The read of one event scans many rows, like any other
/// scan.
const BATCH_ROWS: usize = 8_192;

/// The context of a session's functions that read events by gsn.
#[derive(Debug)]
pub struct LogScope {
    /// The scope that resolves names.
    pub scope: Arc<Mutex<Scope>>,
    /// The store of the events.
    pub store: Arc<dyn EventStore>,
    /// The snapshot of the statement in planning.
    pub pin: Arc<SnapshotPin>,
    /// The registry of waiting statements.
    pub waits: Arc<Waits>,
}

impl LogScope {
    /// Finds the table named by the first argument of a function. The result depends on the
    /// statement's search path and on the definitions of its block.
    ///
    /// # Errors
    /// `UndefinedTable`, `UndefinedFunction` for an argument that is no name.
    pub fn table(&self, function: &str, arguments: &[Expr]) -> ModelResult<ChronicleTable> {
        let Some(Expr::Literal(value, _)) = arguments.first() else {
            return Err(no_name(function));
        };
        let name = value.try_as_str().flatten().ok_or_else(|| no_name(function))?;
        let scope = self.scope.lock();
        let path = &scope.search_path;
        let definition = table_of_regclass(&scope.state, &scope.database, path, name)?;
        if scope.row_policies(definition.id)?.is_some() {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                format!("{function} does not support tables with row policies"),
            )
            .with_hint("SELECT … FROM the table WHERE _gsn = …"));
        }
        Ok(ChronicleTable::new(definition, &scope.system_columns, false, Arc::clone(&self.pin)))
    }
}

fn no_name(function: &str) -> Error {
    Error::new(
        ErrorKind::UndefinedFunction,
        format!("{function} needs the name of a table as a constant"),
    )
    .with_hint(format!("SELECT * FROM {function}(…, 'cpu')"))
}

/// The table function `read_record`.
#[derive(Debug)]
pub struct Records(pub Arc<LogScope>);

impl TableFunctionImpl for Records {
    fn call_with_args(
        &self,
        arguments: TableFunctionArgs<'_, '_>,
    ) -> Result<Arc<dyn TableProvider>> {
        let table = self.0.table("read_record", arguments.exprs()).map_err(to_datafusion)?;
        let mut fields: Vec<Arc<Field>> = table.schema().fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(RECORD_POSITION, DataType::Int64, false)));
        Ok(Arc::new(RecordTable {
            schema: Arc::new(Schema::new(fields)),
            request: table.request(None, &[], None, BATCH_ROWS, 1),
            store: Arc::clone(&self.0.store),
            pin: Arc::clone(&self.0.pin),
            waits: Arc::clone(&self.0.waits),
        }))
    }
}

/// A table provider over the events of a chronicle; a statement reads one event by its gsn.
#[derive(Debug)]
pub struct RecordTable {
    schema: SchemaRef,
    request: ScanRequest,
    store: Arc<dyn EventStore>,
    pin: Arc<SnapshotPin>,
    waits: Arc<Waits>,
}

impl RecordTable {
    /// The chronicle of the events.
    pub fn chronicle(&self) -> &Arc<ChronicleDefinition> {
        &self.request.chronicle
    }
}

/// The gsn in a filter `"$gsn" = constant`.
fn position(filter: &Expr) -> Option<i64> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = filter else {
        return None;
    };
    match (left.as_ref(), right.as_ref()) {
        (Expr::Column(column), Expr::Literal(ScalarValue::Int64(Some(gsn)), _))
        | (Expr::Literal(ScalarValue::Int64(Some(gsn)), _), Expr::Column(column))
            if column.name == RECORD_POSITION =>
        {
            Some(*gsn)
        }
        _ => None,
    }
}

#[async_trait]
impl TableProvider for RecordTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let push = |filter: &&Expr| match position(filter) {
            Some(_) => TableProviderFilterPushDown::Exact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(push).collect())
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut gsns = filters.iter().filter_map(position);
        let Some(gsn) = gsns.next() else {
            let error = Error::new(
                ErrorKind::FeatureNotSupported,
                "the position of read_record must be a constant or a parameter",
            )
            .with_hint("SELECT * FROM read_record(42, 'cpu')");
            return Err(to_datafusion(error));
        };
        let snapshot = self.pin.get().ok_or_else(|| {
            to_datafusion(Error::internal("a record was planned without a snapshot"))
        })?;
        let ticks = snapshot.within(self.request.chronicle.id).into();
        // The last column `$gsn` exists only for the filter; the scan does not return the column.
        let columns = self.request.projection.len();
        let all = || (0..columns).collect();
        let wanted: Vec<usize> = projection.cloned().unwrap_or_else(all);
        let wanted: Vec<usize> = wanted.into_iter().filter(|at| *at < columns).collect();
        let places = wanted.iter().filter_map(|at| self.request.projection.get(*at).copied());
        let schema = Arc::new(self.schema.project(&wanted)?);
        let record = Record {
            schema: Arc::clone(&schema),
            request: ScanRequest { ticks, projection: places.collect(), ..self.request.clone() },
            store: Arc::clone(&self.store),
            waits: Arc::clone(&self.waits),
            gsn,
        };
        let record: Arc<dyn PartitionStream> = Arc::new(record);
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![record], None, [], false, None)?))
    }
}

/// An execution plan that waits until a gsn is committed, and returns the event with this gsn.
#[derive(Debug)]
struct Record {
    schema: SchemaRef,
    request: ScanRequest,
    store: Arc<dyn EventStore>,
    waits: Arc<Waits>,
    gsn: i64,
}

impl PartitionStream for Record {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (store, waits) = (Arc::clone(&self.store), Arc::clone(&self.waits));
        let request = self.request.clone();
        let gsn = u64::try_from(self.gsn).ok().filter(|gsn| *gsn > 0).map(Gsn);
        let read = async move {
            let Some(gsn) = gsn else { return Ok(Vec::new()) };
            waits.wait(store.reached(gsn)).await.map_err(to_datafusion)?;
            read(store, request, gsn).await.map_err(to_datafusion)
        };
        let batches =
            stream::once(read).map_ok(|batches| stream::iter(batches.into_iter().map(Ok)));
        let schema = Arc::clone(&self.schema);
        Box::pin(RecordBatchStreamAdapter::new(schema, batches.try_flatten().boxed()))
    }
}

/// Reads the event with a committed gsn; returns no row if the event belongs to another table.
async fn read(
    store: Arc<dyn EventStore>,
    request: ScanRequest,
    gsn: Gsn,
) -> ModelResult<Vec<RecordBatch>> {
    // Take the snapshot only after the gsn is committed: otherwise the answer "no event" could
    // contradict another session that has already seen the event (F108).
    let snapshot = store.snapshot();
    let gsns = GsnRange::at(gsn);
    let chronicle = Arc::clone(&request.chronicle);
    let order = ScanOrder::Any;
    let request = ScanRequest { gsns, order, metrics: Arc::default(), ..request };
    let mut found = Vec::new();
    for events in snapshot.scan(request)? {
        found.extend(events.try_collect::<Vec<RecordBatch>>().await?);
    }
    found.retain(|batch| batch.num_rows() > 0);
    if found.is_empty() && snapshot.deleted(&chronicle, gsns).is_some() {
        return Err(deleted(&chronicle, gsn));
    }
    Ok(found)
}

fn deleted(chronicle: &ChronicleDefinition, gsn: Gsn) -> Error {
    Error::new(
        ErrorKind::EventsDeleted,
        format!("events of \"{}\" with gsn {gsn} or near gsn {gsn} were deleted", chronicle.name),
    )
    .with_detail("by DELETE, by TRIM, or by the retention of the table")
}
