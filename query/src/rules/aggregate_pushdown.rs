//! An optimizer rule that lets storage compute aggregates over one chronicle. Storage groups by key
//! columns and time windows, and applies the filters of the scan.
//!
//! ```text
//!   AggregateExec: partial                                    ChronicleAggregate
//!     └ ChronicleScan                              ─►
//!   AggregateExec: single                                     AggregateExec: final
//!     └ ChronicleScan                                           └ ChronicleAggregate
//! ```

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions, new_null_array},
    compute::cast,
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit},
};
use datafusion::{
    common::Result,
    physical_expr::{
        PhysicalExpr, ScalarFunctionExpr,
        aggregate::AggregateFunctionExpr,
        expressions::{CastExpr, Column, Literal},
    },
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties,
        aggregates::{AggregateExec, AggregateMode},
        coalesce_partitions::CoalescePartitionsExec,
        coop::CooperativeExec,
        projection::ProjectionExec,
        repartition::RepartitionExec,
        replace_children_if_necessary,
        sorts::sort::SortExec,
    },
    scalar::ScalarValue,
};
use stratalog_functions::time_bucket;
use stratalog_model::{
    ChronicleDefinition, Tick,
    aggregate::{AggregateRequest, ColumnStatistic, Statistic, WHOLE_SUM, Windows},
    tier::{ScanOrder, ScanRequest},
};
use stratalog_postgres::rules::each_node::EachNode;

use crate::table::{
    ChronicleScan, KeyLookup,
    aggregate::{ChronicleAggregate, Output},
};

/// Moves aggregates into storage where possible.
pub const AGGREGATE_PUSHDOWN: EachNode = EachNode::new("told_aggregates", push_down);

/// Reads only the newest windows from storage, if a LIMIT needs no other windows.
pub const NEWEST_WINDOWS: EachNode = EachNode::new("newest_windows", newest);

/// Nanoseconds of a day.
const DAY_NS: i64 = 86_400_000_000_000;

fn push_down(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(None) };
    let single = match aggregate.mode() {
        AggregateMode::Partial => false,
        AggregateMode::Single | AggregateMode::SinglePartitioned => true,
        _ => return Ok(None),
    };
    let lookup = lookup_of(aggregate.input());
    let input = lookup.map_or(aggregate.input(), KeyLookup::leaf);
    let Some(scan) = scan_of(input) else { return Ok(None) };
    if scan.request().newest_of.is_some() {
        return Ok(None);
    }
    let looked_up = |leaf: Arc<dyn ExecutionPlan>| -> Arc<dyn ExecutionPlan> {
        match lookup {
            Some(lookup) => Arc::new(lookup.with_leaf(leaf)),
            None => leaf,
        }
    };
    let partitions = aggregate.input().output_partitioning().partition_count();
    if single && partitions != 1 {
        return Ok(None);
    }
    let Some((request, outputs, fields)) = request(aggregate, scan)? else { return Ok(None) };
    if !single {
        let schema = aggregate.schema();
        let types = |schema: &Schema| -> Vec<DataType> {
            schema.fields().iter().map(|field| field.data_type().clone()).collect()
        };
        if types(&schema) != types(&fields) {
            return Ok(None);
        }
        return Ok(Some(looked_up(leaf(scan, request, outputs, schema, partitions))));
    }
    let leaf = looked_up(leaf(scan, request, outputs, fields, 1));
    let last = AggregateExec::try_new(
        AggregateMode::Final,
        aggregate.group_expr().as_final(),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        leaf,
        aggregate.input_schema(),
    )?;
    let same = last.schema().fields() == aggregate.schema().fields();
    Ok(same.then(|| Arc::new(last.with_limit_options(aggregate.limit_options())) as _))
}

fn leaf(
    scan: &ChronicleScan,
    request: AggregateRequest,
    outputs: Vec<Output>,
    schema: SchemaRef,
    partitions: usize,
) -> Arc<dyn ExecutionPlan> {
    let snapshot = Arc::clone(scan.snapshot());
    Arc::new(ChronicleAggregate::new(snapshot, request, outputs, schema, partitions))
}

/// The key lookup directly below a node, if any.
fn lookup_of(input: &Arc<dyn ExecutionPlan>) -> Option<&KeyLookup> {
    match input.downcast_ref::<CooperativeExec>() {
        Some(cooperative) => cooperative.input().downcast_ref::<KeyLookup>(),
        None => input.downcast_ref::<KeyLookup>(),
    }
}

/// The scan directly below a node, if the scan has no order, no limit and no conditions on values.
pub fn scan_of(input: &Arc<dyn ExecutionPlan>) -> Option<&ChronicleScan> {
    let scan = match input.downcast_ref::<CooperativeExec>() {
        Some(cooperative) => cooperative.input().downcast_ref::<ChronicleScan>()?,
        None => input.downcast_ref::<ChronicleScan>()?,
    };
    let request = scan.request();
    (request.order == ScanOrder::Any && request.limit.is_none() && request.values.is_empty())
        .then_some(scan)
}

/// The request to storage, the output columns made from the storage result, and their schema.
type PushedAggregate = (AggregateRequest, Vec<Output>, SchemaRef);

fn request(aggregate: &AggregateExec, scan: &ChronicleScan) -> Result<Option<PushedAggregate>> {
    let groups = aggregate.group_expr();
    if !groups.is_single()
        || aggregate.filter_expr().iter().any(Option::is_some)
        || aggregate.limit_options().is_some()
    {
        return Ok(None);
    }
    let read = scan.request();
    let chronicle = &read.chronicle;
    let mut keys: Vec<usize> = Vec::new();
    let mut windows: Option<Windows> = None;
    // The place of each group expression: a key column by position, or the window (`None`).
    let mut group_places: Vec<Option<usize>> = Vec::new();
    let mut fields: Vec<Arc<Field>> = Vec::new();
    for (expr, name) in groups.expr() {
        let data_type = expr.data_type(&scan.schema())?;
        fields.push(Arc::new(Field::new(name, data_type, true)));
        if let Some(at) = column(expr, read) {
            let id = chronicle.columns.get(at).map(|column| column.id);
            if !id.is_some_and(|id| chronicle.key_columns.contains(&id)) {
                return Ok(None);
            }
            let place = keys.iter().position(|key| *key == at).unwrap_or_else(|| {
                keys.push(at);
                keys.len() - 1
            });
            group_places.push(Some(place));
            continue;
        }
        let Some(found) = windows_of(expr, scan)? else { return Ok(None) };
        if windows.is_some_and(|known| known != found) {
            return Ok(None);
        }
        windows = Some(found);
        group_places.push(None);
    }
    let mut outputs: Vec<Output> = group_places
        .into_iter()
        .map(|place| place.map_or(Output::Window(keys.len()), Output::Answer))
        .collect();
    let first = keys.len() + usize::from(windows.is_some());
    let mut wanted: Vec<ColumnStatistic> = Vec::new();
    for function in aggregate.aggr_expr() {
        let states = function.state_fields()?;
        let Some(needed) = statistics_of(function, read, &states) else { return Ok(None) };
        for one in needed {
            let place = wanted.iter().position(|known| *known == one).unwrap_or_else(|| {
                wanted.push(one);
                wanted.len() - 1
            });
            // The state of an average has two fields; the first field is the number of values.
            outputs.push(match one.statistic == Statistic::Count && states.len() == 2 {
                true => Output::NonzeroCount(first + place),
                false => Output::Answer(first + place),
            });
        }
        fields.extend(states);
    }
    let request = AggregateRequest { scan: read.clone(), keys, windows, statistics: wanted };
    Ok(Some((request, outputs, Arc::new(Schema::new(fields)))))
}

/// The position in the table of the column that an expression names; `None` for system columns and
/// other expressions.
pub fn column(expr: &Arc<dyn PhysicalExpr>, read: &ScanRequest) -> Option<usize> {
    let column = expr.downcast_ref::<Column>()?;
    let at = read.projection.get(column.index()).copied()?;
    (at < read.chronicle.columns.len()).then_some(at)
}

/// The statistics that storage must compute for the state of an aggregate function; `None` if
/// storage cannot compute the function.
fn statistics_of(
    function: &AggregateFunctionExpr,
    read: &ScanRequest,
    states: &[Arc<Field>],
) -> Option<Vec<ColumnStatistic>> {
    if function.is_distinct() || !function.order_bys().is_empty() || function.is_reversed() {
        return None;
    }
    let arguments = function.expressions();
    let [argument] = arguments.as_slice() else { return None };
    let types: Vec<&DataType> = states.iter().map(|state| state.data_type()).collect();
    if let Some(literal) = argument.downcast_ref::<Literal>() {
        let counts = function.fun().name() == "count" && !literal.value().is_null();
        return (counts && types == [&DataType::Int64])
            .then(|| vec![ColumnStatistic { column: 0, statistic: Statistic::Rows }]);
    }
    // `sum` and `avg` widen whole numbers before the addition.
    let widened = argument.downcast_ref::<CastExpr>().map(|cast| (cast.expr(), cast.cast_type()));
    let (summed, wide) = widened.map_or((argument, None), |(expr, to)| (expr, Some(to)));
    let at = column(summed, read)?;
    let definition = read.chronicle.columns.get(at)?;
    let data_type = definition.column_type.arrow_type();
    if let Some(wide) = wide {
        let adds = matches!(function.fun().name(), "sum" | "avg")
            && data_type.is_integer()
            && matches!(wide, DataType::Int32 | DataType::Int64 | DataType::Float64);
        if !adds {
            return None;
        }
    }
    let one = |statistic| ColumnStatistic { column: at, statistic };
    let needed = match (function.fun().name(), types.as_slice()) {
        ("count", [DataType::Int64]) => match definition.nullable {
            true => vec![one(Statistic::Count)],
            false => vec![ColumnStatistic { column: 0, statistic: Statistic::Rows }],
        },
        ("sum", [DataType::Float64]) if !data_type.is_integer() => vec![one(Statistic::Sum)],
        ("sum", [state]) if **state == WHOLE_SUM && data_type.is_integer() => {
            vec![one(Statistic::Sum)]
        }
        ("avg", [DataType::UInt64, DataType::Float64]) => {
            vec![one(Statistic::Count), one(Statistic::Sum)]
        }
        ("min", [state]) if **state == data_type => vec![one(Statistic::Min)],
        ("max", [state]) if **state == data_type => vec![one(Statistic::Max)],
        _ => return None,
    };
    needed.iter().all(|one| ColumnStatistic::of_type(one.statistic, &data_type)).then_some(needed)
}

/// The time windows of a group expression, such as `date_bin` or `date_trunc`, if the windows have
/// a constant width in whole ticks.
fn windows_of(expr: &Arc<dyn PhysicalExpr>, scan: &ChronicleScan) -> Result<Option<Windows>> {
    let read = scan.request();
    let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() else { return Ok(None) };
    let Some(tick) = read.chronicle.position(read.chronicle.tick_column) else { return Ok(None) };
    let (Some(width), Some(time)) = (call.args().first(), call.args().get(1)) else {
        return Ok(None);
    };
    let Some(width) = width.downcast_ref::<Literal>() else { return Ok(None) };
    let mut more = call.args().iter().skip(2);
    let third = more.next().map(|third| third.downcast_ref::<Literal>());
    if column(time, read) != Some(tick) || third == Some(None) || more.next().is_some() {
        return Ok(None);
    }
    let third = third.flatten().map(Literal::value);
    let width_ns = match (call.fun().name(), width.value()) {
        ("time_bucket", width) => time_bucket::width_ns(width, third, call.return_type()),
        ("date_bin", ScalarValue::IntervalMonthDayNano(Some(width))) if width.months == 0 => {
            let days = i64::from(width.days).checked_mul(DAY_NS);
            days.and_then(|days| days.checked_add(width.nanoseconds))
        }
        // Only in UTC do all days have the same length.
        ("date_trunc", width) if is_utc(call) && third.is_none() => {
            width.try_as_str().flatten().and_then(truncation_ns)
        }
        _ => None,
    };
    let Some(width_ns) = width_ns.filter(|width| *width > 0) else { return Ok(None) };
    let hull = scan.snapshot().hull(&read.chronicle);
    let (first, last) = match hull.is_empty() {
        true => (Tick(0), Tick(0)),
        false => (hull.start, Tick(hull.end.0 - 1)),
    };
    let starts = (start_of(expr, scan, tick, first)?, start_of(expr, scan, tick, last)?);
    let ((Some(origin_ns), Some(end_ns)), Some(unit_ns)) = (starts, unit_of(scan, tick)) else {
        return Ok(None);
    };
    let steady = (i128::from(end_ns) - i128::from(origin_ns)) % i128::from(width_ns) == 0;
    Ok(steady.then(|| in_ticks(&read.chronicle, width_ns, origin_ns, unit_ns)).flatten())
}

fn is_utc(call: &ScalarFunctionExpr) -> bool {
    let zone = call.config_options().execution.time_zone.as_deref();
    zone.is_none_or(|zone| matches!(zone, "UTC" | "Etc/UTC" | "+00:00" | "GMT" | "Z"))
}

/// Length of a `date_trunc` unit in nanoseconds; `None` if the length of the unit varies.
fn truncation_ns(unit: &str) -> Option<i64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "second" => 1_000_000_000,
        "minute" => 60_000_000_000,
        "hour" => 3_600_000_000_000,
        "day" => DAY_NS,
        "week" => 7 * DAY_NS,
        _ => return None,
    })
}

/// Length of the tick column's time unit in nanoseconds.
fn unit_of(scan: &ChronicleScan, tick: usize) -> Option<i64> {
    scan.request().chronicle.columns.get(tick)?.column_type.timestamp_unit_ns()
}

/// Converts windows to ticks; `None` if a window would start between two ticks, or between two
/// times that the column can show.
fn in_ticks(
    chronicle: &ChronicleDefinition,
    width_ns: i64,
    origin_ns: i64,
    unit_ns: i64,
) -> Option<Windows> {
    let granularity = chronicle.scale.granularity().ns();
    let from_base = origin_ns.checked_sub(chronicle.scale.time_ns_of(Tick(0))?)?;
    let whole = |of: i64| width_ns % of == 0 && of > 0;
    if !whole(granularity)
        || !whole(unit_ns)
        || from_base % granularity != 0
        || origin_ns % unit_ns != 0
    {
        return None;
    }
    Some(Windows { width: width_ns / granularity, origin: from_base / granularity })
}

/// The start of the window that contains the tick `some`, in nanoseconds since 1970, computed by
/// the SQL function itself.
fn start_of(
    expr: &Arc<dyn PhysicalExpr>,
    scan: &ChronicleScan,
    tick: usize,
    some: Tick,
) -> Result<Option<i64>> {
    let schema = scan.schema();
    let (Some(ns), Some(unit_ns)) =
        (scan.request().chronicle.scale.time_ns_of(some), unit_of(scan, tick))
    else {
        return Ok(None);
    };
    let columns = scan.request().projection.iter().zip(schema.fields());
    let row = columns.map(|(at, field)| -> Result<ArrayRef> {
        Ok(match *at == tick {
            true => cast(&Int64Array::from(vec![ns.div_euclid(unit_ns)]), field.data_type())?,
            false => new_null_array(field.data_type(), 1),
        })
    });
    let fields: Vec<Field> =
        schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(
        Arc::new(Schema::new(fields)),
        row.collect::<Result<_>>()?,
        &options,
    )?;
    // Ignore errors here: the execution reports the errors of the expression.
    let Ok(found) = expr.evaluate(&row).and_then(|found| found.into_array(1)) else {
        return Ok(None);
    };
    let DataType::Timestamp(unit, _) = found.data_type() else { return Ok(None) };
    let unit_ns = match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    };
    let found = cast(&found, &DataType::Int64)?;
    let found = found.as_primitive_opt::<Int64Type>().and_then(|found| found.iter().next());
    Ok(found.flatten().and_then(|start| start.checked_mul(unit_ns)))
}

fn newest(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(sort) = node.downcast_ref::<SortExec>() else { return Ok(None) };
    let (Some(rows), first) = (sort.fetch(), sort.expr().first()) else { return Ok(None) };
    if !first.options.descending || rows == 0 {
        return Ok(None);
    }
    let Some(input) = newest_below(sort.input(), &first.expr, rows)? else { return Ok(None) };
    replace_children_if_necessary(Arc::clone(node), vec![input]).map(Some)
}

/// Restricts `plan` to its newest `rows` windows, if `expr` is the start of the window.
fn newest_below(
    plan: &Arc<dyn ExecutionPlan>,
    expr: &Arc<dyn PhysicalExpr>,
    rows: usize,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(column) = expr.downcast_ref::<Column>() else { return Ok(None) };
    if let Some(leaf) = plan.downcast_ref::<ChronicleAggregate>() {
        let window = leaf.window_place().map(Output::Window);
        if leaf.outputs().get(column.index()).copied() != window || window.is_none() {
            return Ok(None);
        }
        return Ok(Some(Arc::new(leaf.again().newest(Some(rows)))));
    }
    if let Some(lookup) = plan.downcast_ref::<KeyLookup>() {
        let leaf = newest_below(lookup.leaf(), expr, rows)?;
        return Ok(leaf.map(|leaf| Arc::new(lookup.with_leaf(leaf)) as _));
    }
    let below: Arc<dyn PhysicalExpr> = if let Some(projection) =
        plan.downcast_ref::<ProjectionExec>()
    {
        match projection.expr().get(column.index()) {
            Some(source) => Arc::clone(&source.expr),
            None => return Ok(None),
        }
    } else if plan.downcast_ref::<AggregateExec>().is_some_and(|aggregate| {
        // The group columns come first in the output and in the input.
        aggregate.group_expr().is_single()
            && column.index() < aggregate.group_expr().expr().len()
            && matches!(aggregate.mode(), AggregateMode::Final | AggregateMode::FinalPartitioned)
    }) || plan.downcast_ref::<RepartitionExec>().is_some()
        || plan.downcast_ref::<CoalescePartitionsExec>().is_some()
        || plan.downcast_ref::<CooperativeExec>().is_some()
    {
        Arc::clone(expr)
    } else {
        return Ok(None);
    };
    let children = plan.children();
    let [child] = children.as_slice() else { return Ok(None) };
    match newest_below(child, &below, rows)? {
        Some(child) => replace_children_if_necessary(Arc::clone(plan), vec![child]).map(Some),
        None => Ok(None),
    }
}
