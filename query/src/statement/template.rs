//! Physical plans that are used again: a query whose parameters are in filters that the scan
//! of one chronicle carries out is planned once, and then gets another scan each time.
//!
//! ```text
//!   optimized plan, parameters open ─► filters of the one scan ─┐
//!   physical plan of some values ─► kept, its leaf taken out ───┤
//!                                                               ▼
//!   values, snapshot ─► ticks and keys ─► a new leaf ─► the kept plan over it
//! ```

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::{
    common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    datasource::source_as_provider,
    logical_expr::{Expr, LogicalPlan, TableScan, utils::split_conjunction},
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, empty::EmptyExec, execution_plan::reset_plan_states,
    },
    scalar::ScalarValue,
};
use parking_lot::Mutex;
use stratalog_model::{
    ChronicleDefinition, ColumnType, Result, Snapshot,
    aggregate::AggregateRequest,
    tier::{ScanMetrics, ScanOrder, ScanRequest},
};

use super::point::constants::{self, Constants};
use crate::{
    errors::from_datafusion,
    session::planner::Planner,
    table::{
        ChronicleScan, ChronicleTable,
        aggregate::{ChronicleAggregate, Output},
        pushdown::{self, Pushed},
        scan::partitions_for,
    },
};

/// Plans of one query that are kept: they differ in how many partitions they read.
const KEPT_MAX: usize = 4;

/// A query that can be planned once.
#[derive(Debug)]
pub struct Template {
    chronicle: Arc<ChronicleDefinition>,
    /// Conjuncts of the scan, without their constants.
    filters: Vec<Expr>,
    constants: Constants,
    kept: Mutex<Vec<Arc<Kept>>>,
}

/// A plan without its leaf.
#[derive(Debug)]
struct Kept {
    plan: Arc<dyn ExecutionPlan>,
    leaf: Leaf,
    partitions: usize,
}

/// What the leaf was.
#[derive(Debug)]
enum Leaf {
    Scan(ScanRequest),
    Aggregate(AggregateRequest, Vec<Output>, Option<usize>, SchemaRef),
}

impl Leaf {
    /// The leaf that a node is.
    fn of(node: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        if let Some(scan) = node.downcast_ref::<ChronicleScan>() {
            return Some(Self::Scan(scan.request().clone()));
        }
        let aggregate = node.downcast_ref::<ChronicleAggregate>()?;
        Some(Self::Aggregate(
            aggregate.request().clone(),
            aggregate.outputs().to_vec(),
            aggregate.newest_windows(),
            node.schema(),
        ))
    }

    fn request(&self) -> &ScanRequest {
        match self {
            Self::Scan(request) => request,
            Self::Aggregate(request, ..) => &request.scan,
        }
    }
}

impl Template {
    /// The template of a query whose parameters have these types; `None` where its plan depends
    /// on them otherwise.
    pub fn of(planner: &Planner, plan: &LogicalPlan, types: &[ColumnType]) -> Option<Self> {
        let optimized = planner.optimize(&constants::open(plan.clone(), types)?).ok()?;
        let mut scans = 0;
        let mut found: Option<(TableScan, Vec<Expr>)> = None;
        let walked = optimized.apply_with_subqueries(|node| {
            Ok(match node {
                LogicalPlan::Filter(filter) => match filter.input.as_ref() {
                    LogicalPlan::TableScan(scan) => {
                        scans += 1;
                        let filters = split_conjunction(&filter.predicate).into_iter().cloned();
                        found = Some((scan.clone(), filters.collect()));
                        TreeNodeRecursion::Jump
                    }
                    _ => TreeNodeRecursion::Stop,
                },
                LogicalPlan::TableScan(scan) => {
                    scans += 1;
                    found = Some((scan.clone(), Vec::new()));
                    TreeNodeRecursion::Continue
                }
                LogicalPlan::Projection(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::Aggregate(_)
                | LogicalPlan::Sort(_)
                | LogicalPlan::Limit(_)
                | LogicalPlan::Distinct(_) => match has_placeholder(node)? {
                    true => TreeNodeRecursion::Stop,
                    false => TreeNodeRecursion::Continue,
                },
                _ => TreeNodeRecursion::Stop,
            })
        });
        if walked.ok()? == TreeNodeRecursion::Stop || scans != 1 {
            return None;
        }
        let (scan, mut filters) = found?;
        filters.extend(scan.filters.iter().cloned());
        let provider = source_as_provider(&scan.source).ok()?;
        let chronicle = Arc::clone(provider.downcast_ref::<ChronicleTable>()?.definition());
        let constants = Constants::take(planner, &mut filters)?;
        Some(Self { chronicle, filters, constants, kept: Mutex::default() })
    }

    /// What the scan is asked for some values; `None` when it cannot carry all filters out.
    pub fn bind(&self, values: &[ScalarValue], now_ns: i64) -> Option<Pushed> {
        let computed = self.constants.compute(values, now_ns)?;
        let mut bound = Vec::with_capacity(self.filters.len());
        for filter in &self.filters {
            let filter = constants::fill(filter, &computed)?;
            pushdown::exact(&self.chronicle, &filter)?;
            bound.push(filter);
        }
        Some(pushdown::push(&self.chronicle, &bound))
    }

    /// The plan for what is asked; `None` when the query must be planned.
    ///
    /// # Errors
    /// What putting the plan together says.
    pub fn plan(
        &self,
        snapshot: &Arc<dyn Snapshot>,
        pushed: &Pushed,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let candidates: Vec<Arc<Kept>> = self.kept.lock().clone();
        for kept in &candidates {
            let request = ScanRequest {
                ticks: pushed.ticks.clone(),
                keys: pushed.keys.clone(),
                metrics: Arc::new(ScanMetrics::default()),
                ..kept.leaf.request().clone()
            };
            let partitions = match request.order {
                ScanOrder::Any => partitions_for(snapshot.as_ref(), &request),
                ScanOrder::Ascending | ScanOrder::Descending => 1,
            };
            if partitions != kept.partitions {
                continue;
            }
            let snapshot = Arc::clone(snapshot);
            let leaf: Arc<dyn ExecutionPlan> = match &kept.leaf {
                Leaf::Scan(_) => Arc::new(ChronicleScan::new(snapshot, request)),
                Leaf::Aggregate(aggregate, outputs, newest, schema) => {
                    let request = AggregateRequest { scan: request, ..aggregate.clone() };
                    let (outputs, schema) = (outputs.clone(), Arc::clone(schema));
                    let leaf = ChronicleAggregate::new(
                        snapshot,
                        request,
                        outputs,
                        schema,
                        kept.partitions,
                    );
                    Arc::new(leaf.newest(*newest))
                }
            };
            return with_leaf(&kept.plan, &leaf).map(Some).map_err(from_datafusion);
        }
        Ok(None)
    }

    /// Keeps a plan of the query for values that [`Self::bind`] takes, to be used again, if it can
    /// be.
    pub fn keep(&self, plan: &Arc<dyn ExecutionPlan>) {
        let mut found: Option<(Leaf, Arc<dyn ExecutionPlan>)> = None;
        let mut leaves = 0;
        let walked = plan.apply(|node| {
            if node.children().is_empty() {
                leaves += 1;
                found = Leaf::of(node).map(|leaf| (leaf, Arc::clone(node)));
            }
            Ok(TreeNodeRecursion::Continue)
        });
        let (Ok(_), 1, Some((leaf, node))) = (walked, leaves, found) else { return };
        if !leaf.request().values.is_empty() {
            return;
        }
        let partitions = node.output_partitioning().partition_count();
        // The snapshot must not be kept.
        let vacant: Arc<dyn ExecutionPlan> =
            Arc::new(EmptyExec::new(node.schema()).with_partitions(partitions));
        let Ok(plan) = replaced(plan, &|node| Leaf::of(node).map(|_| Arc::clone(&vacant))) else {
            return;
        };
        let mut kept = self.kept.lock();
        if kept.len() < KEPT_MAX && kept.iter().all(|known| known.partitions != partitions) {
            kept.push(Arc::new(Kept { plan, leaf, partitions }));
        }
    }
}

/// Whether an expression of a node has a parameter in it.
fn has_placeholder(node: &LogicalPlan) -> datafusion::error::Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        expr.apply(|expr| {
            found |= matches!(expr, Expr::Placeholder(_));
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

/// The plan with a leaf in the place of the vacant one.
fn with_leaf(
    plan: &Arc<dyn ExecutionPlan>,
    leaf: &Arc<dyn ExecutionPlan>,
) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
    let plan = replaced(plan, &|node| node.downcast_ref::<EmptyExec>().map(|_| Arc::clone(leaf)))?;
    // Nodes keep what they learned of the rows before: a sort how far down they may be.
    reset_plan_states(plan)
}

type Replace<'a> = dyn Fn(&Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> + 'a;

fn replaced(
    plan: &Arc<dyn ExecutionPlan>,
    leaf: &Replace<'_>,
) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
    Arc::clone(plan)
        .transform_up(|node| {
            Ok(match leaf(&node) {
                Some(other) => Transformed::yes(other),
                None => Transformed::no(node),
            })
        })
        .data()
}
