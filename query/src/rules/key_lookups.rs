//! An optimizer rule that restricts the scan of a chronicle to the series that a join needs. If the
//! other side of the join has few rows, or only filters the chronicle's rows, the plan first
//! computes the keys on the other side, and then reads only the series with these keys (F38).
//!
//! ```text
//!   WHERE tags_id IN (SELECT id FROM tags …)
//!   HashJoinExec: RightSemi, id = tags_id              KeyLookup: column=tags_id
//!     ├─ tags                              ─►            ├─ tags
//!     └─ ChronicleScan: cpu                              └─ ChronicleScan: cpu
//!
//!   FROM tags JOIN cpu ON id = tags_id WHERE rack = '7'
//!   HashJoinExec: Inner, id = tags_id                  HashJoinExec: Inner, id = tags_id
//!     ├─ tags: rack = '7'                  ─►            ├─ tags: rack = '7'
//!     └─ ChronicleScan: cpu                              └─ KeyLookup: column=tags_id
//!                                                             ├─ tags: rack = '7'
//!                                                             └─ ChronicleScan: cpu
//! ```

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TransformedResult, TreeNode},
    common::{JoinType, NullEquality, Result},
    physical_expr::{PhysicalExpr, expressions::Column},
    physical_expr_common::physical_expr::is_volatile,
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, Partitioning,
        aggregates::AggregateExec,
        coalesce_partitions::CoalescePartitionsExec,
        coop::CooperativeExec,
        execution_plan::reset_plan_states,
        filter::FilterExec,
        joins::HashJoinExec,
        projection::ProjectionExec,
        repartition::RepartitionExec,
        replace_children_if_necessary,
        sorts::{sort::SortExec, sort_preserving_merge::SortPreservingMergeExec},
    },
};
use stratalog_model::tier::{ScanMetrics, ScanRequest};
use stratalog_postgres::rules::each_node::{EachNode, PlanRef};

use crate::table::{ChronicleScan, KeyLookup, aggregate::ChronicleAggregate, lookup::request_of};

/// Semi joins with a subquery that returns keys: a key lookup replaces the join. The rule runs
/// before the rule for aggregates computed by storage, because these aggregates can also use a key
/// lookup.
pub const SUBQUERY_KEYS: EachNode = EachNode::new("subquery_keys", semi_join);

/// Joins in which the keys of the small side restrict the large side: a key lookup is added to the
/// large side.
pub const JOINED_KEYS: EachNode = EachNode::new("joined_keys", join);

/// Maximum number of rows of the small side. The plan reads the small side twice: for the keys, and
/// for the join.
const SMALL_ROWS_MAX: u64 = 100_000;

/// Minimum ratio between the rows of the large side and of the small side.
const TIMES_LARGER: u64 = 4;

fn semi_join(node: &PlanRef) -> Result<Option<PlanRef>> {
    let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(None) };
    let [(left, right)] = join.on() else { return Ok(None) };
    let (values, value, kept, key) = match join.join_type() {
        JoinType::RightSemi => (join.left(), left, join.right(), right),
        JoinType::LeftSemi => (join.right(), right, join.left(), left),
        _ => return Ok(None),
    };
    if join.filter().is_some() || join.fetch().is_some() || nulls_are_equal(join) {
        return Ok(None);
    }
    let Some(values) = key_values(values, value)? else { return Ok(None) };
    let Some(mut looked_up) = narrowed(kept, key, &values)? else { return Ok(None) };
    if let Some(columns) = join.projection.as_ref() {
        looked_up = projected(&looked_up, columns)?;
    }
    as_distributed(looked_up, node)
}

/// The plan with only some of its columns. If the plan is a scan under a key lookup, the scan does
/// not read the other columns.
fn projected(plan: &PlanRef, columns: &[usize]) -> Result<PlanRef> {
    if let Some(lookup) = plan.downcast_ref::<KeyLookup>()
        && let Some(scan) = lookup.leaf().downcast_ref::<ChronicleScan>()
        && let Some(scan) = scan.projected(columns)
    {
        return Ok(Arc::new(lookup.with_leaf(Arc::new(scan))));
    }
    let schema = plan.schema();
    let column = |at: &usize| {
        let name = schema.field(*at).name();
        (Arc::new(Column::new(name, *at)) as Arc<dyn PhysicalExpr>, name.clone())
    };
    let columns: Vec<_> = columns.iter().map(column).collect();
    Ok(Arc::new(ProjectionExec::try_new(columns, Arc::clone(plan))?))
}

/// Adapts `plan` to the partitioning and the order of `like`, which `plan` replaces; `None` if this
/// is impossible.
fn as_distributed(plan: PlanRef, like: &PlanRef) -> Result<Option<PlanRef>> {
    let wanted = like.output_partitioning();
    let fits = match wanted {
        Partitioning::Hash(..) => plan.output_partitioning() == wanted,
        _ => plan.output_partitioning().partition_count() == wanted.partition_count(),
    };
    if fits
        && (like.output_ordering().is_none() || like.output_ordering() == plan.output_ordering())
    {
        return Ok(Some(plan));
    }
    let one = wanted.partition_count() == 1 && like.output_ordering().is_none();
    Ok(one.then(|| Arc::new(CoalescePartitionsExec::new(plan)) as PlanRef))
}

fn join(node: &PlanRef) -> Result<Option<PlanRef>> {
    let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(None) };
    if nulls_are_equal(join) || join.null_aware {
        return Ok(None);
    }
    // For each side: whether the join drops rows without a match on the other side.
    let (of_left, of_right) = match join.join_type() {
        JoinType::Inner => (true, true),
        JoinType::Left | JoinType::LeftAnti | JoinType::LeftMark => (false, true),
        JoinType::Right | JoinType::RightAnti | JoinType::RightMark => (true, false),
        JoinType::LeftSemi | JoinType::RightSemi => (true, true),
        JoinType::Full => return Ok(None),
    };
    for (left, right) in join.on() {
        if of_right && let Some(changed) = with_key_lookup(join.right(), right, join.left(), left)?
        {
            let children = vec![Arc::clone(join.left()), changed];
            return replace_children_if_necessary(Arc::clone(node), children).map(Some);
        }
        if of_left && let Some(changed) = with_key_lookup(join.left(), left, join.right(), right)? {
            let children = vec![changed, Arc::clone(join.right())];
            return replace_children_if_necessary(Arc::clone(node), children).map(Some);
        }
    }
    Ok(None)
}

fn nulls_are_equal(join: &HashJoinExec) -> bool {
    join.null_equality() != NullEquality::NullEqualsNothing
}

/// Restricts the large side of a join to the series whose keys the small side contains.
fn with_key_lookup(
    large: &PlanRef,
    key: &Arc<dyn PhysicalExpr>,
    small: &PlanRef,
    value: &Arc<dyn PhysicalExpr>,
) -> Result<Option<PlanRef>> {
    let (Some(rows), Some(many)) = (chosen_rows(small), leaf_rows(large)) else {
        return Ok(None);
    };
    if rows > SMALL_ROWS_MAX || many < rows.saturating_mul(TIMES_LARGER) {
        return Ok(None);
    }
    let again = plan_copy(small)?;
    let Some(values) = key_values(&again, value)? else { return Ok(None) };
    narrowed(large, key, &values)
}

/// A plan that returns only the column `value`, in a single partition.
fn key_values(plan: &PlanRef, value: &Arc<dyn PhysicalExpr>) -> Result<Option<PlanRef>> {
    if value.downcast_ref::<Column>().is_none() {
        return Ok(None);
    }
    let column = vec![(Arc::clone(value), "key".to_string())];
    let values: PlanRef = Arc::new(ProjectionExec::try_new(column, Arc::clone(plan))?);
    Ok(Some(match values.output_partitioning().partition_count() {
        1 => values,
        _ => Arc::new(CoalescePartitionsExec::new(values)),
    }))
}

/// Whether a node returns all rows of its only child unchanged, perhaps in another order or other
/// partitions.
fn hands_on(plan: &PlanRef) -> bool {
    let sort = plan.downcast_ref::<SortExec>().map(SortExec::fetch);
    let merge = plan.downcast_ref::<SortPreservingMergeExec>().map(|merge| merge.fetch());
    plan.downcast_ref::<CooperativeExec>().is_some()
        || plan.downcast_ref::<CoalescePartitionsExec>().is_some_and(|all| all.fetch().is_none())
        || plan.downcast_ref::<RepartitionExec>().is_some()
        || sort == Some(None)
        || merge == Some(None)
}

/// The maximum number of events that the leaf of a chain of nodes reads. `None` if the leaf reads a
/// whole chronicle without filters: its keys would select every series. `None` also if a second
/// read may return other events.
fn chosen_rows(plan: &PlanRef) -> Option<u64> {
    let mut chosen = false;
    let mut node = plan;
    loop {
        if let Some(scan) = node.downcast_ref::<ChronicleScan>() {
            let request = scan.request();
            chosen |= !request.keys.is_empty();
            let same = request.limit.is_none() && request.newest_of.is_none();
            return (chosen && same).then(|| rows_of(scan, request)).flatten();
        }
        if let Some(filter) = node.downcast_ref::<FilterExec>() {
            if filter.fetch().is_some() || is_volatile(filter.predicate()) {
                return None;
            }
            chosen = true;
        } else if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            if projection.expr().iter().any(|projected| is_volatile(&projected.expr)) {
                return None;
            }
        } else if !hands_on(node) {
            return None;
        }
        node = node.children().into_iter().next()?;
    }
}

fn rows_of(scan: &ChronicleScan, request: &ScanRequest) -> Option<u64> {
    Some(scan.snapshot().extent(&request.chronicle, &request.ticks)?.rows)
}

/// The estimated number of events that the only leaf of a plan reads; `None` for several leaves.
fn leaf_rows(plan: &PlanRef) -> Option<u64> {
    let mut node = plan;
    loop {
        if let Some(scan) = node.downcast_ref::<ChronicleScan>() {
            return Some(rows_of(scan, scan.request()).unwrap_or(u64::MAX));
        }
        if let Some(aggregate) = node.downcast_ref::<ChronicleAggregate>() {
            let request = &aggregate.request().scan;
            let extent = aggregate.snapshot().extent(&request.chronicle, &request.ticks);
            return Some(extent.map_or(u64::MAX, |extent| extent.rows));
        }
        let children = node.children();
        let [child] = children.as_slice() else { return None };
        node = child;
    }
}

/// A copy of a plan that [`chosen_rows`] accepts. The copy runs separately, in one partition.
fn plan_copy(plan: &PlanRef) -> Result<PlanRef> {
    let plan = Arc::clone(plan).transform_up(|node| {
        let spreads = node.downcast_ref::<RepartitionExec>().is_some()
            || node.downcast_ref::<CoalescePartitionsExec>().is_some();
        if spreads && let [child] = node.children().as_slice() {
            return Ok(Transformed::yes(Arc::clone(child)));
        }
        Ok(match node.downcast_ref::<ChronicleScan>() {
            Some(scan) => {
                let metrics = Arc::new(ScanMetrics::default());
                let request = ScanRequest { metrics, streams: 1, ..scan.request().clone() };
                Transformed::yes(Arc::new(ChronicleScan::new(Arc::clone(scan.snapshot()), request)))
            }
            None => Transformed::no(node),
        })
    });
    reset_plan_states(plan.data()?)
}

/// Replaces the leaf of a plan with a key lookup over the leaf. `None` if the join key is not a key
/// column of the chronicle, or if fewer series in the leaf would also change the results of other
/// series.
fn narrowed(
    plan: &PlanRef,
    key: &Arc<dyn PhysicalExpr>,
    values: &PlanRef,
) -> Result<Option<PlanRef>> {
    let Some(key) = key.downcast_ref::<Column>() else { return Ok(None) };
    if let Some(request) = request_of(plan) {
        let column = match plan.downcast_ref::<ChronicleAggregate>() {
            Some(aggregate) => aggregate.key_of(key.index()),
            None => request.projection.get(key.index()).copied(),
        };
        let Some(column) = column.filter(|column| may_be_looked_up(request, *column)) else {
            return Ok(None);
        };
        let aligned = values
            .schema()
            .fields()
            .first()
            .zip(request.chronicle.columns.get(column))
            .is_some_and(|(value, column)| *value.data_type() == column.column_type.arrow_type());
        let lookup = || KeyLookup::new(Arc::clone(values), Arc::clone(plan), column);
        return Ok(aligned.then(|| Arc::new(lookup()) as PlanRef));
    }
    let below: Arc<dyn PhysicalExpr> = if hands_on(plan) {
        Arc::new(key.clone())
    } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let at = match filter.projection() {
            Some(kept) => kept.get(key.index()).copied(),
            None => Some(key.index()),
        };
        let (Some(at), None) = (at, filter.fetch()) else { return Ok(None) };
        Arc::new(Column::new(key.name(), at))
    } else if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        match projection.expr().get(key.index()) {
            Some(projected) => Arc::clone(&projected.expr),
            None => return Ok(None),
        }
    } else if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let groups = aggregate.group_expr();
        match groups.expr().get(key.index()) {
            Some((group, _)) if groups.is_single() && aggregate.limit_options().is_none() => {
                Arc::clone(group)
            }
            _ => return Ok(None),
        }
    } else {
        return Ok(None);
    };
    let children = plan.children();
    let [child] = children.as_slice() else { return Ok(None) };
    match narrowed(child, &below, values)? {
        Some(child) => replace_children_if_necessary(Arc::clone(plan), vec![child]).map(Some),
        None => Ok(None),
    }
}

/// Whether a request returns the same rows for each remaining series if only series with certain
/// values of `column` are read.
fn may_be_looked_up(request: &ScanRequest, column: usize) -> bool {
    let chronicle = &request.chronicle;
    let id = chronicle.columns.get(column).map(|column| column.id);
    id.is_some_and(|id| chronicle.key_columns.contains(&id))
        && request.limit.is_none()
        && request.newest_of.as_ref().is_none_or(|of| of.keys.contains(&column))
}
