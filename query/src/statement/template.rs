//! Reusable physical plans. If a query uses parameters only in filters that scans of chronicles
//! apply, the planner plans the query once. Each execution then replaces the leaves of the plan,
//! the scans, with scans for the present values.
//!
//! ```text
//!   optimized plan with open parameters ─► filters of its scans ─────────────┐
//!   physical plan for some values ─► stored plan, whose scans read nothing ──┤
//!                                                                            ▼
//!   values, snapshot ─► ticks and keys of each scan ─► new scans ─► stored plan with the new scans
//! ```

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion},
    datasource::source_as_provider,
    logical_expr::{Expr, LogicalPlan, TableScan, utils::split_conjunction},
    physical_plan::{ExecutionPlan, ExecutionPlanProperties},
    scalar::ScalarValue,
};
use parking_lot::Mutex;
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};
use stratalog_model::{
    ChronicleDefinition, ColumnType, Error, Gsn, GsnRange, Result, Snapshot, TickRanges,
    aggregate::AggregateRequest,
    tier::{BatchStream, Extent, ScanMetrics, ScanOrder, ScanRequest},
};
use stratalog_postgres::{
    errors::{from_datafusion, to_datafusion},
    rules::subqueries::as_of::AsOf,
};

use super::point::constants::{self, Constants};
use crate::{
    session::planner::Planner,
    table::{
        ChronicleScan, ChronicleTable,
        aggregate::ChronicleAggregate,
        few_rows,
        lookup::request_of,
        pushdown::{self, PushedFilters},
        scan::partitions_for,
    },
};

/// Maximum number of physical plans stored for one query. The plans differ in the number of
/// partitions of each scan, and in whether a scan reads few or many rows.
const KEPT_MAX: usize = 4;

/// Maximum number of chronicles in a query with a reusable plan.
const SCANS_MAX: usize = 8;

/// A query with a reusable plan.
#[derive(Debug)]
pub struct Template {
    /// One scan for each chronicle.
    scans: Vec<Scan>,
    constants: Constants,
    plans: Mutex<Vec<Arc<TemplatePlan>>>,
}

/// The scan of a chronicle in a query.
#[derive(Debug)]
struct Scan {
    chronicle: Arc<ChronicleDefinition>,
    /// The conjuncts of the filter, with placeholders for the constants.
    filters: Vec<Expr>,
}

/// A stored physical plan whose leaves (scans) read no events.
#[derive(Debug)]
struct TemplatePlan {
    plan: Arc<dyn ExecutionPlan>,
    /// The leaves, from left to right.
    leaves: Vec<TemplateLeaf>,
}

/// A leaf of a stored plan.
#[derive(Debug)]
struct TemplateLeaf {
    /// A [`ChronicleScan`] or [`ChronicleAggregate`] without events.
    leaf: Arc<dyn ExecutionPlan>,
    /// The index of the leaf's scan in [`Template::scans`].
    scan: usize,
    /// True if the leaf read few rows. Plans for few rows differ from other plans.
    few: bool,
}

impl Template {
    /// The template of a query with parameters of the given types; `None` if the plan uses
    /// parameters outside of the filters of scans.
    pub fn of(planner: &Planner, plan: &LogicalPlan, types: &[ColumnType]) -> Option<Self> {
        let optimized = planner.optimize(&constants::open(plan.clone(), types)?).ok()?;
        let mut found: Vec<(TableScan, Vec<Expr>)> = Vec::new();
        let walked = optimized.each_with_subqueries(|node| {
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
            // A leaf finds its scan by the id of the chronicle, so a query may scan a chronicle
            // only once.
            if scans.iter().any(|scan| scan.chronicle.id == chronicle.id) {
                return None;
            }
            scans.push(Scan { chronicle, filters });
        }
        let mut filters: Vec<&mut Expr> =
            scans.iter_mut().flat_map(|scan| &mut scan.filters).collect();
        let constants = Constants::take(planner, &mut filters)?;
        Some(Self { scans, constants, plans: Mutex::default() })
    }

    /// Computes the ticks and keys that each scan reads for the parameters `values`; `None` if a
    /// scan cannot apply all its filters.
    pub fn bind(&self, values: &[ScalarValue], now_ns: i64) -> Option<Vec<PushedFilters>> {
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

    /// Builds an executable plan from a stored plan, for the ticks and keys of each scan; `None` if
    /// no stored plan fits.
    ///
    /// # Errors
    /// An error while assembling the plan.
    pub fn plan(
        &self,
        snapshot: &Arc<dyn Snapshot>,
        pushed: &[PushedFilters],
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let candidates: Vec<Arc<TemplatePlan>> = self.plans.lock().clone();
        for kept in &candidates {
            let leaves = kept.leaves.iter().map(|leaf| leaf.of(snapshot, pushed));
            if let Some(leaves) = leaves.collect::<Option<Vec<_>>>() {
                return with_leaves(&kept.plan, leaves).map(Some).map_err(from_datafusion);
            }
        }
        Ok(None)
    }

    /// Stores a plan of the query for reuse, if possible. The plan must belong to values that
    /// [`Self::bind`] accepts.
    pub fn keep(&self, plan: &Arc<dyn ExecutionPlan>) {
        let mut leaves: Vec<TemplateLeaf> = Vec::new();
        let vacated = Arc::clone(plan).change_up(|node| {
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
        let mut kept = self.plans.lock();
        if kept.len() < KEPT_MAX && kept.iter().all(|known| kinds(&known.leaves) != own) {
            kept.push(Arc::new(TemplatePlan { plan, leaves }));
        }
    }

    /// The stored form of a leaf, without events; `None` if a later execution cannot replace the
    /// leaf.
    fn leaf(&self, node: &Arc<dyn ExecutionPlan>) -> Option<TemplateLeaf> {
        let request = request_of(node).filter(|request| request.values.is_empty())?;
        let scan = self.scans.iter().position(|scan| scan.chronicle.id == request.chronicle.id)?;
        // A stored plan must not keep the snapshot alive.
        let leaf = of_leaf(node, &(Arc::new(NoEvents) as _), request.clone())?;
        Some(TemplateLeaf { leaf, scan, few: few_rows(node) })
    }
}

/// A copy of a leaf that reads another snapshot with another request, in the same number of
/// partitions.
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

/// The properties that distinguish stored plans: for each leaf, the number of partitions, and
/// whether the leaf reads few rows.
fn kinds(leaves: &[TemplateLeaf]) -> Vec<(usize, bool)> {
    leaves.iter().map(|leaf| (leaf.partitions(), leaf.few)).collect()
}

impl TemplateLeaf {
    fn partitions(&self) -> usize {
        self.leaf.output_partitioning().partition_count()
    }

    /// Creates the leaf for an execution; `None` if the new leaf would differ in its number of
    /// partitions or in few or many rows.
    fn of(
        &self,
        snapshot: &Arc<dyn Snapshot>,
        pushed: &[PushedFilters],
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

/// True if the physical plan of the node does not depend on the rows of its inputs.
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

/// True if an expression of a node has a parameter.
fn has_placeholder(node: &LogicalPlan) -> datafusion::error::Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        expr.each(|expr| {
            found |= matches!(expr, Expr::Placeholder(_));
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

/// Replaces the leaves of a plan, from left to right. The new leaves have the properties of the old
/// leaves, so the nodes above keep their properties. The nodes lose state about the old rows: for
/// example, a sort loses its bound for further rows.
fn with_leaves(
    plan: &Arc<dyn ExecutionPlan>,
    leaves: Vec<Arc<dyn ExecutionPlan>>,
) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
    let mut leaves = leaves.into_iter();
    let replaced = Arc::clone(plan).change_up(|node| {
        let node = match node.children().is_empty() {
            true => leaves.next().unwrap_or(node),
            false => node.reset_state()?,
        };
        Ok(Transformed::yes(node))
    });
    replaced.data()
}

/// An empty snapshot for the leaves of a stored plan.
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
