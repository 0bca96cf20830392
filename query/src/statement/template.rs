//! Physical plans that are used again: a query whose parameters are in filters that scans of
//! chronicles carry out is planned once, and then gets other scans each time.
//!
//! ```text
//!   optimized plan, parameters open ─► filters of its scans ─────┐
//!   physical plan of some values ─► kept, its leaves of nothing ─┤
//!                                                                ▼
//!   values, snapshot ─► ticks and keys ─► new leaves ─► the kept plan over them
//! ```

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    datasource::source_as_provider,
    logical_expr::{Expr, LogicalPlan, TableScan, utils::split_conjunction},
    physical_plan::{ExecutionPlan, ExecutionPlanProperties},
    scalar::ScalarValue,
};
use parking_lot::Mutex;
use stratalog_model::{
    ChronicleDefinition, ColumnType, Error, Gsn, GsnRange, Result, Snapshot, TickRanges,
    aggregate::AggregateRequest,
    tier::{BatchStream, Extent, ScanMetrics, ScanOrder, ScanRequest},
};

use super::point::constants::{self, Constants};
use crate::{
    as_of::AsOf,
    errors::{from_datafusion, to_datafusion},
    session::planner::Planner,
    table::{
        ChronicleScan, ChronicleTable,
        aggregate::ChronicleAggregate,
        few_rows,
        lookup::request_of,
        pushdown::{self, Pushed},
        scan::partitions_for,
    },
};

/// Plans of one query that are kept: they differ in how many partitions they read, and rows.
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

/// A plan whose leaves read nothing.
#[derive(Debug)]
struct Kept {
    plan: Arc<dyn ExecutionPlan>,
    /// From left to right.
    leaves: Vec<KeptLeaf>,
}

/// A leaf of a kept plan.
#[derive(Debug)]
struct KeptLeaf {
    /// A [`ChronicleScan`] or [`ChronicleAggregate`], of nothing.
    leaf: Arc<dyn ExecutionPlan>,
    /// Which scan of the template it is of.
    scan: usize,
    /// Whether it looked at few rows, of which plans are others.
    few: bool,
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
        let mut leaves: Vec<KeptLeaf> = Vec::new();
        let vacated = Arc::clone(plan).transform_up(|node| {
            if !node.children().is_empty() {
                return Ok(Transformed::no(node));
            }
            let Some(kept) = self.leaf(&node) else {
                return Err(to_datafusion(Error::internal("a leaf that cannot be made anew")));
            };
            let leaf = Arc::clone(&kept.leaf);
            leaves.push(kept);
            Ok(Transformed::yes(leaf))
        });
        let Ok(plan) = vacated.data() else { return };
        let own = kinds(&leaves);
        let mut kept = self.kept.lock();
        if kept.len() < KEPT_MAX && kept.iter().all(|known| kinds(&known.leaves) != own) {
            kept.push(Arc::new(Kept { plan, leaves }));
        }
    }

    /// What a leaf is of; `None` if it cannot be made anew.
    fn leaf(&self, node: &Arc<dyn ExecutionPlan>) -> Option<KeptLeaf> {
        let request = request_of(node).filter(|request| request.values.is_empty())?;
        let scan = self.scans.iter().position(|scan| scan.chronicle.id == request.chronicle.id)?;
        // The snapshot must not be kept.
        let leaf = of_leaf(node, &(Arc::new(NoEvents) as _), request.clone())?;
        Some(KeptLeaf { leaf, scan, few: few_rows(node) })
    }
}

/// The leaf of other events, in as many partitions.
fn of_leaf(
    leaf: &Arc<dyn ExecutionPlan>,
    snapshot: &Arc<dyn Snapshot>,
    request: ScanRequest,
) -> Option<Arc<dyn ExecutionPlan>> {
    let snapshot = Arc::clone(snapshot);
    Some(match leaf.downcast_ref::<ChronicleScan>() {
        Some(scan) => Arc::new(scan.on(snapshot, request)),
        None => Arc::new(leaf.downcast_ref::<ChronicleAggregate>()?.on(snapshot, request)),
    })
}

/// What plans with such leaves differ by.
fn kinds(leaves: &[KeptLeaf]) -> Vec<(usize, bool)> {
    leaves.iter().map(|leaf| (leaf.partitions(), leaf.few)).collect()
}

impl KeptLeaf {
    fn partitions(&self) -> usize {
        self.leaf.output_partitioning().partition_count()
    }

    /// The leaf for what is asked; `None` when it would not be of the kind that it was.
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
            ..request_of(&self.leaf)?.clone()
        };
        let partitions = match request.order {
            ScanOrder::Any => partitions_for(snapshot.as_ref(), &request),
            ScanOrder::Ascending | ScanOrder::Descending => 1,
        };
        if partitions != self.partitions() {
            return None;
        }
        of_leaf(&self.leaf, snapshot, request).filter(|leaf| few_rows(leaf) == self.few)
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

/// The plan with other leaves. These have the properties of those before, so that the nodes above
/// need not find out anew what they are; and what nodes learned of the rows before is forgotten: a
/// sort how far down they may be.
fn with_leaves(
    plan: &Arc<dyn ExecutionPlan>,
    leaves: Vec<Arc<dyn ExecutionPlan>>,
) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
    let mut leaves = leaves.into_iter();
    let replaced = Arc::clone(plan).transform_up(|node| {
        let node = match node.children().is_empty() {
            true => leaves.next().unwrap_or(node),
            false => node.reset_state()?,
        };
        Ok(Transformed::yes(node))
    });
    replaced.data()
}

/// What a kept plan reads.
#[derive(Debug)]
struct NoEvents;

impl Snapshot for NoEvents {
    fn gsn(&self) -> Gsn {
        Gsn::default()
    }
    fn extent(&self, _: &ChronicleDefinition, _: &TickRanges) -> Option<Extent> {
        Some(Extent::EMPTY)
    }
    fn deleted(&self, _: &ChronicleDefinition, _: GsnRange) -> Option<GsnRange> {
        None
    }
    fn aggregate(&self, _: AggregateRequest) -> Result<Option<Vec<BatchStream>>> {
        Ok(None)
    }
    fn scan(&self, _: ScanRequest) -> Result<Vec<BatchStream>> {
        Ok(Vec::new())
    }
}
