//! A chronicle with row policies: the planner sees only the rows that the policies allow.
//!
//! ```text
//!   user's filters ─► only comparisons of the tick and of key columns with constants ─┐
//!   policies ───────► predicate, planned with the table's columns ────────────────────┤
//!   ChronicleScan (not part of the plan) ─► predicate ─► PolicyScan, a leaf of the plan
//! ```
//! No rule of the optimizer can see or replace the scan below a [`PolicyScan`]: aggregates, newest
//! rows, key lookups, statistics and limits always work on the allowed rows. Expressions of the
//! statement never run on hidden rows.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use arrow::{
    array::{AsArray, RecordBatch},
    compute::filter_record_batch,
    datatypes::SchemaRef,
};
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableProvider},
    common::{Constraints, DFSchema, Statistics},
    error::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, TaskContext},
    logical_expr::{Expr, TableProviderFilterPushDown, TableType, utils::split_conjunction},
    physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
        SortOrderPushdownResult, StatisticsArgs,
        execution_plan::{Boundedness, EmissionType},
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::StreamExt;
use stratalog_model::{ChronicleDefinition, Error};
use stratalog_postgres::errors::to_datafusion;
use stratalog_visor_core::access::{Identity, RowPolicies};

use super::{ChronicleScan, ChronicleTable, leaf::leaf_methods, pushdown, scan::orderings_of};

/// A chronicle whose row policies apply to an identity.
#[derive(Debug)]
pub struct PolicyTable {
    table: ChronicleTable,
    policies: RowPolicies,
    identity: Identity,
    /// The predicate of the policies, over the columns of the table. A scan without the predicate
    /// fails.
    predicate: OnceLock<Expr>,
}

impl PolicyTable {
    /// The rows of `table` that `policies` allow; `identity` is the identity to which they apply.
    pub fn new(table: ChronicleTable, policies: RowPolicies, identity: Identity) -> Self {
        Self { table, policies, identity, predicate: OnceLock::new() }
    }

    /// The table without policies.
    pub fn table(&self) -> &ChronicleTable {
        &self.table
    }

    /// The policies, and the identity to which they apply.
    pub fn policies(&self) -> (RowPolicies, Identity) {
        (self.policies.clone(), self.identity)
    }

    /// The predicate of the policies; `None` before [`Self::settle`].
    pub fn predicate(&self) -> Option<&Expr> {
        self.predicate.get()
    }

    /// Sets the predicate of the policies.
    pub fn settle(&self, predicate: Expr) {
        self.predicate.get_or_init(|| predicate);
    }

    /// A storage comparison that neither fails nor tells about hidden rows.
    fn is_leak_proof(&self, filter: &Expr) -> bool {
        pushdown::exact(self.table.definition(), filter).is_some()
    }
}

#[async_trait]
impl TableProvider for PolicyTable {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.table.constraints()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let push = |filter: &&Expr| match self.is_leak_proof(filter) {
            true => TableProviderFilterPushDown::Inexact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(push).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        // Policies may remove rows: the limit applies above.
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let missing = |what: &str| to_datafusion(Error::internal(what));
        let predicate = self.predicate.get();
        let predicate = predicate.ok_or_else(|| missing("a row policy was not planned"))?;
        let snapshot = self.table.snapshot();
        let snapshot =
            snapshot.ok_or_else(|| missing("a chronicle was planned without a snapshot"))?;
        let schema = self.table.schema();
        let mut columns: Vec<usize> =
            projection.cloned().unwrap_or_else(|| (0..schema.fields().len()).collect());
        let width = columns.len();
        for column in predicate.column_refs() {
            let at = schema.index_of(&column.name)?;
            if !columns.contains(&at) {
                columns.push(at);
            }
        }
        let own = split_conjunction(predicate).into_iter();
        let pushed: Vec<Expr> =
            own.chain(filters).filter(|filter| self.is_leak_proof(filter)).cloned().collect();
        let (rows_max, streams) = (state.config().batch_size(), state.config().target_partitions());
        let request = self.table.request(Some(&columns), &pushed, None, rows_max, streams);
        let scan = ChronicleScan::new(snapshot, request);
        let read = DFSchema::try_from(scan.schema())?;
        let predicate = state.create_physical_expr(predicate.clone(), &read)?;
        Ok(Arc::new(PolicyScan::new(Arc::new(scan), predicate, width)?))
    }
}

/// The plan leaf that reads the rows of a chronicle that row policies allow.
pub struct PolicyScan {
    /// The [`ChronicleScan`]: the columns of the result, then further columns of the predicate.
    scan: Arc<dyn ExecutionPlan>,
    predicate: Arc<dyn PhysicalExpr>,
    chronicle: Arc<ChronicleDefinition>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl fmt::Debug for PolicyScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyScan").field("table", &self.chronicle.name).finish_non_exhaustive()
    }
}

impl PolicyScan {
    /// The rows of `scan` for which `predicate` is true, with the first `width` columns.
    fn new(
        scan: Arc<dyn ExecutionPlan>,
        predicate: Arc<dyn PhysicalExpr>,
        width: usize,
    ) -> Result<Self> {
        let inner = scan.downcast_ref::<ChronicleScan>();
        let inner = inner.ok_or_else(|| {
            to_datafusion(Error::internal("row policies need a chronicle's scan"))
        })?;
        let schema = Arc::new(scan.schema().project(&(0..width).collect::<Vec<_>>())?);
        let mut equivalences = EquivalenceProperties::new(Arc::clone(&schema));
        for ordering in orderings_of(inner.request(), &schema) {
            equivalences.add_ordering(ordering);
        }
        let properties = Arc::new(PlanProperties::new(
            equivalences,
            scan.output_partitioning().clone(),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        let chronicle = Arc::clone(&inner.request().chronicle);
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Self { scan, predicate, chronicle, schema, properties, metrics })
    }

    fn on(&self, scan: Arc<dyn ExecutionPlan>) -> Result<Self> {
        Self::new(scan, Arc::clone(&self.predicate), self.schema.fields().len())
    }
}

/// The rows of a batch for which a predicate is true.
///
/// # Errors
/// An error of the evaluation.
pub fn allowed(predicate: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<RecordBatch> {
    let value = predicate.evaluate(batch)?.into_array(batch.num_rows())?;
    let is_allowed = value.as_boolean_opt().ok_or_else(|| {
        to_datafusion(Error::internal("the predicate of a row policy is no boolean"))
    })?;
    Ok(filter_record_batch(batch, is_allowed)?)
}

impl DisplayAs for PolicyScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.schema.fields().iter();
        let columns: Vec<&str> = fields.map(|field| field.name().as_str()).collect();
        write!(
            f,
            "PolicyScan: table={}, columns=[{}]",
            self.chronicle.qualified_name(),
            columns.join(", ")
        )
    }
}

impl ExecutionPlan for PolicyScan {
    fn name(&self) -> &'static str {
        "PolicyScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    leaf_methods!();

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.on(Arc::clone(&self.scan).reset_state()?)?))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let batches = self.scan.execute(partition, context)?;
        let predicate = Arc::clone(&self.predicate);
        let columns: Vec<usize> = (0..self.schema.fields().len()).collect();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let rows = batches.map(move |batch| {
            let batch = allowed(&predicate, &batch?)?.project(&columns)?;
            metrics.record_output(batch.num_rows());
            Ok::<_, DataFusionError>(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        // Statistics of the storage also count hidden rows.
        Ok(Arc::new(Statistics::new_unknown(&self.schema)))
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        Ok(match self.scan.try_pushdown_sort(order)? {
            SortOrderPushdownResult::Exact { inner } => {
                SortOrderPushdownResult::Exact { inner: Arc::new(self.on(inner)?) }
            }
            _ => SortOrderPushdownResult::Unsupported,
        })
    }
}
