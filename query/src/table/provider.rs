//! The table provider that represents a chronicle in DataFusion's planner.

use std::{collections::HashSet, sync::Arc};

use arrow::{
    array::{BooleanArray, Int64Array, RecordBatch},
    compute::cast,
    datatypes::{Field, Schema, SchemaRef},
};
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableProvider},
    common::{
        Column, Constraint, Constraints, DFSchema,
        cast::as_boolean_array,
        tree_node::{Transformed, TreeNode},
    },
    error::Result,
    logical_expr::{Expr, TableProviderFilterPushDown, TableType, utils::conjunction},
    physical_plan::{ExecutionPlan, filter::FilterExecBuilder},
};
use parking_lot::Mutex;
use stratalog_model::{
    ChronicleDefinition, Snapshot, TickRanges,
    batch::system_column_type,
    chronicle::SYSTEM_COLUMNS,
    tier::{ScanOrder, ScanRequest},
};
use stratalog_postgres::errors::to_datafusion;

use super::{
    ChronicleScan,
    pushdown::{self, calendar},
};

/// The snapshot for the statement that is being planned. A session plans one statement at a time;
/// all tables of the statement read the same snapshot.
#[derive(Debug, Default)]
pub struct SnapshotPin(Mutex<Option<Arc<dyn Snapshot>>>);

impl SnapshotPin {
    /// Sets the snapshot of the next statement to plan.
    pub fn set(&self, snapshot: Option<Arc<dyn Snapshot>>) {
        *self.0.lock() = snapshot;
    }

    /// The snapshot of the statement that is being planned.
    pub fn get(&self) -> Option<Arc<dyn Snapshot>> {
        self.0.lock().clone()
    }
}

/// A chronicle as a table, with the system columns that the statement mentions.
#[derive(Debug)]
pub struct ChronicleTable {
    definition: Arc<ChronicleDefinition>,
    schema: SchemaRef,
    /// For each column of `schema`, its position in the numbering of [`ScanRequest::projection`].
    positions: Vec<usize>,
    constraints: Option<Constraints>,
    pin: Arc<SnapshotPin>,
    /// The filters for which this table told the planner that the plan must apply the filter again
    /// above the scan.
    inexact: Mutex<HashSet<Expr>>,
}

impl ChronicleTable {
    /// Creates the table of `definition`. `system_columns` are positions in [`SYSTEM_COLUMNS`].
    /// `keyed` is true if the planner may know the primary key.
    pub fn new(
        definition: Arc<ChronicleDefinition>,
        system_columns: &[usize],
        keyed: bool,
        pin: Arc<SnapshotPin>,
    ) -> Self {
        let user = definition.arrow_schema();
        let mut fields: Vec<Arc<Field>> = user.fields().iter().map(Arc::clone).collect();
        let mut positions: Vec<usize> = (0..fields.len()).collect();
        for at in system_columns {
            if let Some(name) = SYSTEM_COLUMNS.get(*at)
                && let Some(data_type) = system_column_type(name)
            {
                fields.push(Arc::new(Field::new(*name, data_type, false)));
                positions.push(user.fields().len().saturating_add(*at));
            }
        }
        let constraints =
            (keyed && definition.primary_key && definition.key_is_unique()).then(|| {
                let columns = definition
                    .key_columns
                    .iter()
                    .chain([&definition.tick_column])
                    .filter_map(|id| definition.position(*id))
                    .collect();
                Constraints::new_unverified(vec![Constraint::PrimaryKey(columns)])
            });
        let (schema, inexact) = (Arc::new(Schema::new(fields)), Mutex::default());
        Self { definition, schema, positions, constraints, pin, inexact }
    }

    /// The snapshot of the statement that is being planned.
    pub fn snapshot(&self) -> Option<Arc<dyn Snapshot>> {
        self.pin.get()
    }

    /// A copy of the table without system columns.
    pub fn of_user_columns(&self) -> Self {
        Self::new(Arc::clone(&self.definition), &[], false, Arc::clone(&self.pin))
    }

    /// The definition of the chronicle.
    pub fn definition(&self) -> &Arc<ChronicleDefinition> {
        &self.definition
    }

    /// Creates the request for a scan of the columns `projection` (positions in this table's
    /// schema; all columns if `None`). The scan reads only events that `filters` allow, as far as
    /// the filters can be pushed down.
    pub fn request(
        &self,
        projection: Option<&[usize]>,
        filters: &[Expr],
        limit: Option<usize>,
        batch_rows_max: usize,
        streams: usize,
    ) -> ScanRequest {
        let pushed = pushdown::push(&self.definition, filters);
        let projection = match projection {
            Some(columns) => {
                columns.iter().filter_map(|at| self.positions.get(*at).copied()).collect()
            }
            None => self.positions.clone(),
        };
        ScanRequest {
            chronicle: Arc::clone(&self.definition),
            projection,
            ticks: pushed.ticks,
            gsns: pushed.gsns,
            keys: pushed.keys,
            values: pushed.values,
            order: ScanOrder::Any,
            newest_of: None,
            limit,
            batch_rows_max,
            streams,
            metrics: Arc::default(),
            memory: None,
        }
    }
}

impl ChronicleTable {
    /// The filters that neither the plan nor the scan would apply. For an earlier form of such a
    /// filter, this table answered "exact"; the planner has rewritten the filter since.
    fn left_to_us(&self, filters: &[Expr]) -> Option<Expr> {
        let inexact = self.inexact.lock();
        let left = filters
            .iter()
            .filter(|filter| pushdown::exact(&self.definition, filter).is_none())
            .map(|filter| unqualified(filter.clone()))
            .filter(|filter| !inexact.contains(filter));
        conjunction(left)
    }
}

impl ChronicleTable {
    /// Restricts the ticks to read by predicates on the calendar.
    fn narrowed(
        &self,
        state: &dyn Session,
        snapshot: &dyn Snapshot,
        filters: &[Expr],
    ) -> Option<TickRanges> {
        if !filters.iter().any(|filter| calendar::concerns(&self.definition, filter)) {
            return None;
        }
        let tick = self.definition.position(self.definition.tick_column)?;
        let field = Arc::clone(self.schema.fields().get(tick)?);
        let evaluate = |predicate: &Expr, times| answers(state, &field, predicate, times);
        let pushed = pushdown::push(&self.definition, filters).ticks;
        let within = pushed.intersect(&snapshot.hull(&self.definition).into());
        Some(calendar::narrow(&self.definition, filters, within, &evaluate))
    }
}

/// Evaluates `predicate` for each of the values `times` of `field`, the only column in the
/// predicate.
pub(super) fn answers(
    state: &dyn Session,
    field: &Arc<Field>,
    predicate: &Expr,
    times: Vec<i64>,
) -> Result<BooleanArray> {
    let schema = Arc::new(Schema::new(vec![Arc::clone(field)]));
    let times = cast(&Int64Array::from(times), field.data_type())?;
    let times = RecordBatch::try_new(Arc::clone(&schema), vec![times])?;
    let columns = DFSchema::try_from(schema)?;
    let predicate = state.create_physical_expr(unqualified(predicate.clone()), &columns)?;
    let answers = predicate.evaluate(&times)?.into_array(times.num_rows())?;
    Ok(as_boolean_array(&answers)?.clone())
}

/// Removes table names from the column names in a filter.
pub fn unqualified(filter: Expr) -> Expr {
    let plain = |expr| {
        Ok(match expr {
            Expr::Column(column) => {
                Transformed::yes(Expr::Column(Column::new_unqualified(column.name)))
            }
            other => Transformed::no(other),
        })
    };
    // The transformation never fails.
    filter.clone().transform(plain).map_or(filter, |changed| changed.data)
}

#[async_trait]
impl TableProvider for ChronicleTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.constraints.as_ref()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters
            .iter()
            .map(|filter| {
                if pushdown::exact(&self.definition, filter).is_some() {
                    TableProviderFilterPushDown::Exact
                } else if pushdown::hull(&self.definition, filter).is_all()
                    && !calendar::concerns(&self.definition, filter)
                    && pushdown::values(&self.definition, filter).is_empty()
                    && pushdown::gsns(filter).is_all()
                {
                    TableProviderFilterPushDown::Unsupported
                } else {
                    self.inexact.lock().insert(unqualified((*filter).clone()));
                    TableProviderFilterPushDown::Inexact
                }
            })
            .collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let snapshot = self.pin.get().ok_or_else(|| {
            to_datafusion(stratalog_model::Error::internal(
                "a chronicle was planned without a snapshot",
            ))
        })?;
        let (batch_rows_max, streams) =
            (state.config().batch_size(), state.config().target_partitions());
        let narrowed = self.narrowed(state, snapshot.as_ref(), filters);
        let scan = |projection: Option<&[usize]>, limit| {
            let mut request = self.request(projection, filters, limit, batch_rows_max, streams);
            if let Some(ticks) = &narrowed {
                request.ticks = request.ticks.intersect(ticks);
            }
            Arc::new(ChronicleScan::new(Arc::clone(&snapshot), request))
        };
        let Some(left) = self.left_to_us(filters) else {
            return Ok(scan(projection.map(Vec::as_slice), limit));
        };
        let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
        let predicate = state.create_physical_expr(left, &schema)?;
        let filter = FilterExecBuilder::new(predicate, scan(None, None));
        Ok(Arc::new(filter.apply_projection(projection.cloned())?.with_fetch(limit).build()?))
    }
}
