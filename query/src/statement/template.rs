//! Physical plans that are used again: a query whose parameters are in filters that scans of
//! chronicles carry out is planned once, and then gets other scans each time.
//!
//! ```text
//!   optimized plan, parameters open ─► filters of its scans ─────┐
//!   physical plan of some values ─► kept, its leaves taken out ──┤
//!                                                                ▼
//!   values, snapshot ─► ticks and keys ─► new leaves ─► the kept plan over them
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
    as_of::AsOf,
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

/// Chronicles that a query reads whose plan is kept.
const SCANS_MAX: usize = 8;

/// A query that can be planned once.
#[derive(Debug)]
pub struct Template {
    /// Each of another chronicle.
    scans: Vec<Scan>,
    constants: Constants,
    kept: Mutex<Vec<Arc<Kept>>>,
}

/// What a query reads of a chronicle.
#[derive(Debug)]
struct Scan {
    chronicle: Arc<ChronicleDefinition>,
    /// Conjuncts, without their constants.
    filters: Vec<Expr>,
}

/// A plan without its leaves.
#[derive(Debug)]
struct Kept {
    plan: Arc<dyn ExecutionPlan>,
    /// From left to right.
    leaves: Vec<KeptLeaf>,
}

/// A leaf that was taken out.
#[derive(Debug)]
struct KeptLeaf {
    leaf: Leaf,
    /// Which scan of the template it is of.
    scan: usize,
    partitions: usize,
}

/// What a leaf was.
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
        let mut found: Vec<(TableScan, Vec<Expr>)> = Vec::new();
        let walked = optimized.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                found.push((scan.clone(), Vec::new()));
                return Ok(TreeNodeRecursion::Continue);
            }
            if let LogicalPlan::Filter(filter) = node
                && let LogicalPlan::TableScan(scan) = filter.input.as_ref()
            {
                let filters = split_conjunction(&filter.predicate).into_iter().cloned();
                found.push((scan.clone(), filters.collect()));
                return Ok(TreeNodeRecursion::Jump);
            }
            Ok(match may_be_kept(node) && !has_placeholder(node)? {
                true => TreeNodeRecursion::Continue,
                false => TreeNodeRecursion::Stop,
            })
        });
        let some = !found.is_empty() && found.len() <= SCANS_MAX;
        if walked.ok()? == TreeNodeRecursion::Stop || !some {
            return None;
        }
        let mut scans: Vec<Scan> = Vec::with_capacity(found.len());
        for (scan, mut filters) in found {
            filters.extend(scan.filters.iter().cloned());
            let provider = source_as_provider(&scan.source).ok()?;
            let chronicle = Arc::clone(provider.downcast_ref::<ChronicleTable>()?.definition());
            // A leaf tells by its chronicle which scan it is.
            if scans.iter().any(|scan| scan.chronicle.id == chronicle.id) {
                return None;
            }
            scans.push(Scan { chronicle, filters });
        }
        let mut filters: Vec<&mut Expr> =
            scans.iter_mut().flat_map(|scan| &mut scan.filters).collect();
        let constants = Constants::take(planner, &mut filters)?;
        Some(Self { scans, constants, kept: Mutex::default() })
    }

    /// What each scan is asked for some values; `None` when one cannot carry all filters out.
    pub fn bind(&self, values: &[ScalarValue], now_ns: i64) -> Option<Vec<Pushed>> {
        let computed = self.constants.compute(values, now_ns)?;
        let bind = |scan: &Scan| {
            let mut bound = Vec::with_capacity(scan.filters.len());
            for filter in &scan.filters {
                let filter = constants::fill(filter, &computed)?;
                pushdown::exact(&scan.chronicle, &filter)?;
                bound.push(filter);
            }
            Some(pushdown::push(&scan.chronicle, &bound))
        };
        self.scans.iter().map(bind).collect()
    }

    /// The plan for what is asked of each scan; `None` when the query must be planned.
    ///
    /// # Errors
    /// What putting the plan together says.
    pub fn plan(
        &self,
        snapshot: &Arc<dyn Snapshot>,
        pushed: &[Pushed],
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let candidates: Vec<Arc<Kept>> = self.kept.lock().clone();
        for kept in &candidates {
            let leaves = kept.leaves.iter().map(|leaf| leaf.of(snapshot, pushed));
            if let Some(leaves) = leaves.collect::<Option<Vec<_>>>() {
                return with_leaves(&kept.plan, leaves).map(Some).map_err(from_datafusion);
            }
        }
        Ok(None)
    }

    /// Keeps a plan of the query for values that [`Self::bind`] takes, to be used again, if it can
    /// be.
    pub fn keep(&self, plan: &Arc<dyn ExecutionPlan>) {
        let mut leaves: Option<Vec<KeptLeaf>> = Some(Vec::new());
        let walked = plan.apply(|node| {
            if node.children().is_empty() {
                match (self.leaf(node), &mut leaves) {
                    (Some(leaf), Some(leaves)) => leaves.push(leaf),
                    _ => leaves = None,
                }
            }
            Ok(TreeNodeRecursion::Continue)
        });
        let (Ok(_), Some(leaves)) = (walked, leaves) else { return };
        let vacant = |node: &Arc<dyn ExecutionPlan>| -> Option<Arc<dyn ExecutionPlan>> {
            let partitions = node.output_partitioning().partition_count();
            // The snapshot must not be kept.
            let vacant = || EmptyExec::new(node.schema()).with_partitions(partitions);
            Leaf::of(node).map(|_| Arc::new(vacant()) as _)
        };
        let Ok(plan) = replaced(plan, &vacant) else { return };
        let partitions = |leaves: &[KeptLeaf]| -> Vec<usize> {
            leaves.iter().map(|leaf| leaf.partitions).collect()
        };
        let own = partitions(&leaves);
        let mut kept = self.kept.lock();
        if kept.len() < KEPT_MAX && kept.iter().all(|known| partitions(&known.leaves) != own) {
            kept.push(Arc::new(Kept { plan, leaves }));
        }
    }

    /// What a leaf is of; `None` if it cannot be made anew.
    fn leaf(&self, node: &Arc<dyn ExecutionPlan>) -> Option<KeptLeaf> {
        let leaf = Leaf::of(node).filter(|leaf| leaf.request().values.is_empty())?;
        let id = leaf.request().chronicle.id;
        let scan = self.scans.iter().position(|scan| scan.chronicle.id == id)?;
        let partitions = node.output_partitioning().partition_count();
        Some(KeptLeaf { leaf, scan, partitions })
    }
}

impl KeptLeaf {
    /// The leaf for what is asked; `None` when it would not have the partitions that it had.
    fn of(
        &self,
        snapshot: &Arc<dyn Snapshot>,
        pushed: &[Pushed],
    ) -> Option<Arc<dyn ExecutionPlan>> {
        let pushed = pushed.get(self.scan)?;
        let request = ScanRequest {
            ticks: pushed.ticks.clone(),
            gsns: pushed.gsns,
            keys: pushed.keys.clone(),
            metrics: Arc::new(ScanMetrics::default()),
            ..self.leaf.request().clone()
        };
        let partitions = match request.order {
            ScanOrder::Any => partitions_for(snapshot.as_ref(), &request),
            ScanOrder::Ascending | ScanOrder::Descending => 1,
        };
        if partitions != self.partitions {
            return None;
        }
        let snapshot = Arc::clone(snapshot);
        Some(match &self.leaf {
            Leaf::Scan(_) => Arc::new(ChronicleScan::new(snapshot, request)),
            Leaf::Aggregate(aggregate, outputs, newest, schema) => {
                let request = AggregateRequest { scan: request, ..aggregate.clone() };
                let (outputs, schema) = (outputs.clone(), Arc::clone(schema));
                let leaf = ChronicleAggregate::new(snapshot, request, outputs, schema, partitions);
                Arc::new(leaf.newest(*newest))
            }
        })
    }
}

/// Whether the plans of such a node are the same whatever the rows below it are.
fn may_be_kept(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Extension(extension) => {
            extension.node.as_any().downcast_ref::<AsOf>().is_some()
        }
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Distinct(_) => true,
        _ => false,
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

/// The plan with leaves in the places of the vacant ones.
fn with_leaves(
    plan: &Arc<dyn ExecutionPlan>,
    leaves: Vec<Arc<dyn ExecutionPlan>>,
) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
    let leaves = Mutex::new(leaves.into_iter());
    let next = |node: &Arc<dyn ExecutionPlan>| {
        node.downcast_ref::<EmptyExec>().and_then(|_| leaves.lock().next())
    };
    let plan = replaced(plan, &next)?;
    // Nodes keep what they learned of the rows before: a sort how far down they may be.
    reset_plan_states(plan)
}

type Replace<'a> = dyn Fn(&Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> + 'a;

/// The plan with others in the place of some leaves, which are asked for from left to right.
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
