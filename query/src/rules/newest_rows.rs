//! An optimizer rule that reads only the first or last row of each series, if the plan needs no
//! other row. The rule applies to DISTINCT ON, `last_value` and `first_value`, `max(time)`, row
//! number 1 and LATERAL … LIMIT 1, grouped by key. Storage finds these rows directly (F28, F50).
//!
//! ```text
//!   AggregateExec: last_value(x) ORDER BY time          ProjectionExec: x
//!     └ ChronicleScan: order=any                 ─►       └ ChronicleScan: newest of each [key]
//! ```

use std::sync::Arc;

use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr, PhysicalSortExpr,
        aggregate::AggregateFunctionExpr,
        expressions::{BinaryExpr, Column, Literal},
        split_conjunction,
        window::StandardWindowExpr,
    },
    physical_plan::{
        ExecutionPlan,
        aggregates::{AggregateExec, AggregateMode},
        filter::FilterExec,
        projection::ProjectionExec,
        replace_children_if_necessary,
        windows::{BoundedWindowAggExec, WindowAggExec, WindowUDFExpr},
    },
};
use stratalog_model::{ChronicleDefinition, newest::NewestOf, tier::ScanRequest};
use stratalog_postgres::rules::each_node::EachNode;

use super::aggregate_pushdown::{column, scan_of};
use crate::{as_of::AsOfExec, table::ChronicleScan};

/// Reads only one row of each series if the plan uses no other row. The rule runs before the rules
/// that add sorts and repartitions, because the changed plan needs fewer.
pub const NEWEST_ROWS: EachNode = EachNode::new("newest_rows", newest_rows);

fn newest_rows(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        return of_aggregate(node, aggregate);
    }
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        return of_filter(node, filter);
    }
    match node.downcast_ref::<AsOfExec>() {
        Some(as_of) => of_as_of(node, as_of),
        None => Ok(None),
    }
}

// Aggregates

fn of_aggregate(
    node: &Arc<dyn ExecutionPlan>,
    aggregate: &AggregateExec,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(first) = first_stage(aggregate) else { return Ok(None) };
    let Some(scan) = scan_of(first.input()) else { return Ok(None) };
    let Some(of) = wanted_by(first, scan) else { return Ok(None) };
    // The scan returns one row of each group, so nothing remains to aggregate. Exceptions: a
    // partial aggregation, and an aggregation without groups, which returns a row even for no
    // input.
    let ends = *aggregate.mode() != AggregateMode::Partial && !of.keys.is_empty();
    if !ends {
        if scan.request().newest_of.is_some() {
            return Ok(None);
        }
        let scan = Arc::new(scan.newest_of(of));
        return replace_children_if_necessary(Arc::clone(node), vec![scan]).map(Some);
    }
    projected(aggregate, first, Arc::new(scan.newest_of(of)))
}

/// The aggregation that reads the rows: `aggregate` itself, or the partial aggregation below
/// `aggregate`.
pub fn first_stage(aggregate: &AggregateExec) -> Option<&AggregateExec> {
    match aggregate.mode() {
        AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned => {
            Some(aggregate)
        }
        AggregateMode::Final | AggregateMode::FinalPartitioned => {
            let below = aggregate.input().downcast_ref::<AggregateExec>()?;
            (*below.mode() == AggregateMode::Partial).then_some(below)
        }
        AggregateMode::PartialReduce => None,
    }
}

/// Replaces `aggregate` with a projection of `rows`, a plan that returns one row of each group.
/// `first` is the [`first_stage`] of `aggregate`.
pub fn projected(
    aggregate: &AggregateExec,
    first: &AggregateExec,
    rows: Arc<dyn ExecutionPlan>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let groups = first.group_expr().expr().iter().map(|(expr, _)| Arc::clone(expr));
    let values =
        first.aggr_expr().iter().filter_map(|function| function.expressions().first().cloned());
    let schema = aggregate.schema();
    let columns = groups.chain(values).zip(schema.fields());
    let columns: Vec<(Arc<dyn PhysicalExpr>, String)> =
        columns.map(|(expr, field)| (expr, field.name().clone())).collect();
    let projection = ProjectionExec::try_new(columns, rows)?;
    let made = projection.schema();
    let same = made.fields().len() == schema.fields().len()
        && made
            .fields()
            .iter()
            .zip(schema.fields())
            .all(|(made, wanted)| made.data_type() == wanted.data_type());
    Ok(same.then(|| Arc::new(projection) as _))
}

/// The events that an aggregation needs from each group; `None` if the aggregation needs more than
/// one.
fn wanted_by(aggregate: &AggregateExec, scan: &ChronicleScan) -> Option<NewestOf> {
    let groups = aggregate.group_expr();
    if !groups.is_single()
        || aggregate.aggr_expr().is_empty()
        || aggregate.filter_expr().iter().any(Option::is_some)
        || aggregate.limit_options().is_some()
    {
        return None;
    }
    let read = scan.request();
    let keys = groups.expr().iter().map(|(expr, _)| key_column(expr, read));
    let keys: Vec<usize> = keys.collect::<Option<_>>()?;
    let mut ends = aggregate.aggr_expr().iter().map(|function| end_of(function, read, &keys));
    let oldest = ends.next()??;
    ends.all(|end| end == Some(oldest)).then(|| newest_of(keys, oldest))
}

fn newest_of(mut keys: Vec<usize>, oldest: bool) -> NewestOf {
    keys.sort_unstable();
    keys.dedup();
    NewestOf { keys, oldest }
}

/// True if a function needs only the oldest row of a group, false if only the newest row; `None` if
/// the function needs other rows.
fn end_of(function: &AggregateFunctionExpr, read: &ScanRequest, keys: &[usize]) -> Option<bool> {
    if function.is_distinct() || function.ignore_nulls() || function.is_reversed() {
        return None;
    }
    let arguments = function.expressions();
    let [argument] = arguments.as_slice() else { return None };
    let shown = column(argument, read)?;
    let is_time = is_tick(shown, &read.chronicle);
    match (function.fun().name(), function.order_bys()) {
        ("max", []) if is_time => Some(false),
        ("min", []) if is_time => Some(true),
        ("first_value", order) => first_in(order, read, keys).map(|descending| !descending),
        ("last_value", order) => first_in(order, read, keys),
        _ => None,
    }
}

/// True if the rows of a group are sorted by descending time, false for ascending time; `None` for
/// any other order.
fn first_in(order: &[PhysicalSortExpr], read: &ScanRequest, keys: &[usize]) -> Option<bool> {
    let mut rest = order.iter();
    for by in rest.by_ref() {
        let at = column(&by.expr, read)?;
        if is_tick(at, &read.chronicle) {
            // A further sort column would choose among rows with the same time.
            let same = |by: &PhysicalSortExpr| {
                column(&by.expr, read)
                    .is_some_and(|at| keys.contains(&at) || is_tick(at, &read.chronicle))
            };
            return rest.all(same).then_some(by.options.descending);
        }
        if !keys.contains(&at) {
            return None;
        }
    }
    None
}

fn is_tick(at: usize, chronicle: &ChronicleDefinition) -> bool {
    chronicle.position(chronicle.tick_column) == Some(at)
}

/// The position in the table of the key column that an expression names; `None` for other
/// expressions.
fn key_column(expr: &Arc<dyn PhysicalExpr>, read: &ScanRequest) -> Option<usize> {
    let at = column(expr, read)?;
    let id = read.chronicle.columns.get(at)?.id;
    read.chronicle.key_columns.contains(&id).then_some(at)
}

/// Whether the request reads system columns. When storage reads only the ends of series, it does
/// not know the sequence numbers of the rows.
fn reads_system_columns(read: &ScanRequest) -> bool {
    read.projection.iter().any(|at| *at >= read.chronicle.columns.len())
}

// Plans with row_number() = 1

fn of_filter(
    node: &Arc<dyn ExecutionPlan>,
    filter: &FilterExec,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let first = split_conjunction(filter.predicate()).into_iter().find_map(first_of);
    let Some(number) = first else { return Ok(None) };
    let Some(window) = below(filter.input(), number)? else { return Ok(None) };
    replace_children_if_necessary(Arc::clone(node), vec![window]).map(Some)
}

/// The column that a condition compares with 1, for conditions that only 1 satisfies.
fn first_of(condition: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    let compared = condition.downcast_ref::<BinaryExpr>()?;
    let (left, right) = (compared.left(), compared.right());
    let number = |expr: &Arc<dyn PhysicalExpr>| -> Option<i64> {
        match expr.downcast_ref::<Literal>()?.value() {
            ScalarValue::UInt64(Some(number)) => i64::try_from(*number).ok(),
            ScalarValue::Int64(Some(number)) => Some(*number),
            ScalarValue::Int32(Some(number)) => Some(i64::from(*number)),
            _ => None,
        }
    };
    let column = |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<Column>().map(Column::index);
    match compared.op() {
        Operator::Eq | Operator::LtEq if number(right) == Some(1) => column(left),
        Operator::Lt if number(right) == Some(2) => column(left),
        Operator::Eq | Operator::GtEq if number(left) == Some(1) => column(right),
        _ => None,
    }
}

/// Changes the plan so that the scan returns only rows with the value 1 in the column `number`;
/// `None` if impossible.
fn below(plan: &Arc<dyn ExecutionPlan>, number: usize) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let source = projection.expr().get(number).map(|projected| &projected.expr);
        let Some(source) = source.and_then(|source| source.downcast_ref::<Column>()) else {
            return Ok(None);
        };
        let Some(input) = below(projection.input(), source.index())? else { return Ok(None) };
        return replace_children_if_necessary(Arc::clone(plan), vec![input]).map(Some);
    }
    let (windows, input) = if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
        (window.window_expr(), window.input())
    } else if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        (window.window_expr(), window.input())
    } else {
        return Ok(None);
    };
    let ([window], Some(scan)) = (windows, scan_of(input)) else { return Ok(None) };
    let read = scan.request();
    let other = read.newest_of.is_some() || reads_system_columns(read);
    if number != input.schema().fields().len() || other {
        return Ok(None);
    }
    let function = window.as_any().downcast_ref::<StandardWindowExpr>().and_then(|window| {
        window.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>()
    });
    if function.is_none_or(|function| function.fun().name() != "row_number") {
        return Ok(None);
    }
    let keys = window.partition_by().iter().map(|expr| key_column(expr, read));
    let Some(keys) = keys.collect::<Option<Vec<usize>>>() else { return Ok(None) };
    let Some(descending) = first_in(window.order_by(), read, &keys) else { return Ok(None) };
    let scan = Arc::new(scan.newest_of(newest_of(keys, !descending)));
    replace_children_if_necessary(Arc::clone(plan), vec![scan]).map(Some)
}

// Plans of LATERAL … LIMIT 1

fn of_as_of(
    node: &Arc<dyn ExecutionPlan>,
    as_of: &AsOfExec,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let sides = as_of.sides();
    let Some(scan) = scan_of(as_of.right()) else { return Ok(None) };
    let read = scan.request();
    let other = read.newest_of.is_some() || reads_system_columns(read);
    if sides.rows != 1 || sides.until.is_some() || other {
        return Ok(None);
    }
    let keys = sides.on.iter().map(|(_, right)| key_column(right, read));
    let Some(keys) = keys.collect::<Option<Vec<usize>>>() else { return Ok(None) };
    // In this order, the wanted row comes last.
    let Some(oldest) = first_in(&sides.reversed, read, &keys) else { return Ok(None) };
    let scan: Arc<dyn ExecutionPlan> = Arc::new(scan.newest_of(newest_of(keys, oldest)));
    let children = vec![Arc::clone(as_of.left()), scan];
    replace_children_if_necessary(Arc::clone(node), children).map(Some)
}
