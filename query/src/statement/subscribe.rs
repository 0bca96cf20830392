//! SUBSCRIBE: streams the events of a table in the order of commits, first the existing events,
//! then new events as they are committed (F104, F105).
//!
//! ```text
//!   SUBSCRIBE t FROM GSN 7 WHERE a > 1 ─► query ─► start position, and WHERE, compiled once
//!   EventStore::subscribe ─► batches by gsn ─► acquired range ─► WHERE ─► rows: _gsn, _gap, columns
//!                            gap ───────────────────────────────────────► row: _gsn, _gap, NULL …
//! ```
//! The acquired range is the session's range of ticks at the start of the SUBSCRIBE. The SUBSCRIBE
//! marks the table as in use until the end, and sends each batch only if the session may still
//! read.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, StringViewArray, new_null_array,
    },
    compute::filter_record_batch,
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef},
};
use datafusion::{
    common::{DFSchema, tree_node::TreeNode},
    datasource::source_as_provider,
    logical_expr::{
        Expr, LogicalPlan,
        utils::{conjunction, split_conjunction},
    },
    physical_expr::PhysicalExpr,
    scalar::ScalarValue,
    sql::sqlparser::ast::{
        DataType as Written, Expr::Cast, GroupByExpr, Query as Tree, SelectItem, SetExpr,
        TableFactor, TableWithJoins, TimezoneInfo,
    },
};
use futures::{StreamExt, stream};
use stratalog_functions::function::sql_name;
use stratalog_model::{
    ChronicleDefinition, ColumnType, Error, ErrorKind, Gsn, Result, Tick, TickRange,
    chronicle::SYSTEM_COLUMNS,
    subscribe::{Gap, SubscribeFrom, SubscribeRequest, Update},
};
use stratalog_postgres::{
    errors::{from_arrow, from_datafusion},
    names::NameResolver,
    parameters,
    parse::{position::Beginning, sealed},
};

use super::{
    acquire,
    column_reads::ColumnReads,
    query::{self, conform},
};
use crate::{
    Rows, RowsTag, Session,
    session::{planner::Planner, work::Work},
    table::{PolicyTable, allowed, plain_table, provider::unqualified},
};

/// Number of result columns before the table's columns: `_gsn` and `_gap`.
const OWN_COLUMNS: usize = 2;

/// A planned SUBSCRIBE.
#[derive(Debug)]
pub struct Subscribe {
    query: query::Query,
    beginning: Beginning,
    /// The schema of the result.
    pub schema: SchemaRef,
}

impl Subscribe {
    /// The chronicle and the columns that the SUBSCRIBE reads.
    pub fn reads(&self) -> &Arc<ColumnReads> {
        &self.query.reads
    }
}

/// Plans a SUBSCRIBE from the query into which the parser has rewritten the statement.
///
/// # Errors
/// `WrongObjectType` for a relation other than a table of events; `FeatureNotSupported` for AS OF
/// SEALED; `SyntaxError` for any clause other than WHERE; `DatatypeMismatch` for a position that is
/// not a whole number; any other error of the query.
pub async fn plan(
    planner: &Planner,
    tree: &Tree,
    beginning: Beginning,
    declared_types: &[Option<ColumnType>],
    mentioned: &[usize],
) -> Result<(Subscribe, Vec<Option<ColumnType>>)> {
    let mut tree = tree.clone();
    if sealed::take(&mut tree)? {
        return Err(never_sealed());
    }
    if !has_condition_only(&tree) {
        let message = "SUBSCRIBE accepts a condition, and no further clause";
        return Err(Error::new(ErrorKind::SyntaxError, message).with_hint(
            "to stop, end the subscription; COPY and cursors accept SUBSCRIBE without a LIMIT",
        ));
    }
    if let SetExpr::Select(select) = tree.body.as_mut()
        && let [TableWithJoins { relation: TableFactor::Table { name, .. }, .. }] =
            select.from.as_slice()
    {
        let chronicle = planner.table_named(&name.to_string())?;
        let is_naive = chronicle
            .tick()
            .is_some_and(|tick| matches!(tick.column_type, ColumnType::Timestamp { .. }));
        // The tick column has no time zone: compare with a timestamp without a time zone.
        if beginning == Beginning::Time
            && is_naive
            && let Some(SelectItem::UnnamedExpr(Cast { data_type, .. })) =
                select.projection.last_mut()
        {
            *data_type = Written::Timestamp(None, TimezoneInfo::None);
        }
    }
    if beginning == Beginning::Gsn {
        keep_type(&mut tree, declared_types);
    }
    let (query, types) = query::plan(planner, &tree, declared_types, mentioned).await?;
    let mut fields: Vec<Arc<Field>> = query.schema.fields().iter().cloned().collect();
    let start = if has_value(beginning) { fields.pop() } else { None };
    if beginning == Beginning::Gsn
        && let Some(start) = start.filter(|start| !start.data_type().is_integer())
    {
        return Err(no_position("SUBSCRIBE … FROM GSN", &sql_name(start.data_type())));
    }
    fields.insert(1, Arc::new(Field::new("_gap", DataType::Utf8View, true)));
    let schema = Arc::new(Schema::new(fields));
    Ok((Subscribe { query, beginning, schema }, types))
}

/// Removes the cast around a start position that already has a type: the cast would round a
/// fraction.
fn keep_type(tree: &mut Tree, declared_types: &[Option<ColumnType>]) {
    let SetExpr::Select(select) = tree.body.as_mut() else { return };
    let Some(SelectItem::UnnamedExpr(value)) = select.projection.last_mut() else { return };
    let Cast { expr, .. } = &*value else { return };
    // A text parameter counts as untyped: its text is parsed as a number.
    let declared_types: Vec<Option<ColumnType>> = declared_types
        .iter()
        .map(|declared| declared.clone().filter(|declared| *declared != ColumnType::Text))
        .collect();
    if !acquire::is_untyped(expr, &declared_types) {
        *value = expr.as_ref().clone();
    }
}

/// True if the query has no clause other than WHERE.
fn has_condition_only(tree: &Tree) -> bool {
    let SetExpr::Select(select) = tree.body.as_ref() else { return false };
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(groups, modifiers)
        if groups.is_empty() && modifiers.is_empty());
    !is_grouped
        && select.having.is_none()
        && select.named_window.is_empty()
        && select.qualify.is_none()
        && select.connect_by.is_empty()
        && select.cluster_by.is_empty()
        && select.distribute_by.is_empty()
        && select.sort_by.is_empty()
        && tree.order_by.is_none()
        && tree.limit_clause.is_none()
        && tree.fetch.is_none()
        && tree.locks.is_empty()
        && tree.for_clause.is_none()
        && tree.settings.is_none()
        && tree.format_clause.is_none()
        && tree.pipe_operators.is_empty()
}

/// True if the last column of the query contains the start position.
fn has_value(beginning: Beginning) -> bool {
    matches!(beginning, Beginning::Gsn | Beginning::Time)
}

/// Starts a SUBSCRIBE: the stream of rows continues until the client stops reading.
///
/// # Errors
/// `FeatureNotSupported` for a condition that uses more than the table's columns; `UndefinedTable`;
/// `LeaseLost` when the session's lease on the table has run out, also from the stream.
pub async fn run(
    session: &Session,
    subscribe: &Subscribe,
    types: &[ColumnType],
    values: &[ScalarValue],
    work: &Arc<Work>,
) -> Result<Rows> {
    let given = bound_scan(session, subscribe, types, values).await?;
    let followed = Arc::new(session.follow(given.chronicle.id, subscribe.reads())?);
    let rights = Arc::clone(&followed);
    let given = given.within(followed.ticks())?;
    let request = SubscribeRequest {
        chronicle: Arc::clone(&given.chronicle),
        from: given.from,
        projection: given.projection.clone(),
        batch_rows_max: session.settings().batch_rows_max,
    };
    if session.transaction.catalog().is_some() {
        return Err(Error::not_yet("SUBSCRIBE in a transaction block with definitions"));
    }
    let updates = session.store().subscribe(request)?;
    let schema = Arc::clone(&subscribe.schema);
    let service = Arc::clone(session.service());
    let shape = service.subscription_batches.shape(&schema);
    let rows = updates.filter_map(move |update| {
        let update = update.and_then(|update| followed.check().map(|()| update));
        let rows = update.and_then(|update| match update {
            Update::Events(events) if given.is_plain() => {
                service.subscription_batches.get(&events, &shape, || given.rows(&events, &shape))
            }
            Update::Events(events) => given.rows(&events, &shape),
            Update::Gap(gap) => gap_row(&gap, &shape).map(Some),
        });
        std::future::ready(rows.transpose())
    });
    // The stream itself ends only with an error.
    let ended = session.service().subscriptions_end();
    let end = stream::once(session.service().subscriptions_end()).map(Err);
    let rows = rows.take_until(ended).chain(end);
    let stream = work.guard_stream(session.watch(rows.boxed(), None));
    let rows = Rows::new(schema, stream, RowsTag::Subscribe).without_end();
    Ok(rows.checked_by(Box::new(move || rights.check())))
}

/// The request to the store, and the filters that apply to the received events.
struct SubscriptionScan {
    chronicle: Arc<ChronicleDefinition>,
    projection: Vec<usize>,
    /// Index of `_gsn` in the columns that the store returns.
    gsn_at: usize,
    from: SubscribeFrom,
    condition: Option<Arc<dyn PhysicalExpr>>,
    /// The predicate of row policies, which applies before the condition.
    policy: Option<Arc<dyn PhysicalExpr>>,
    /// The visible range of ticks, and the index of `_tick` in the columns that the store returns;
    /// `None` if all ticks are visible.
    part: Option<(TickRange, usize)>,
}

impl SubscriptionScan {
    /// True if the scan filters no rows: all subscribers with the same request can share a batch.
    fn is_plain(&self) -> bool {
        self.condition.is_none() && self.part.is_none() && self.policy.is_none()
    }

    /// Restricts the visible events to `ticks`.
    fn within(mut self, ticks: TickRange) -> Result<Self> {
        if ticks == TickRange::ALL {
            return Ok(self);
        }
        let tick = SYSTEM_COLUMNS.iter().position(|name| *name == "_tick");
        let tick = tick.ok_or_else(|| Error::internal("events have no tick"))?;
        let tick = self.chronicle.columns.len() + tick;
        let known = self.projection.iter().position(|column| *column == tick);
        let at = known.unwrap_or_else(|| {
            self.projection.push(tick);
            self.projection.len() - 1
        });
        self.part = Some((ticks, at));
        Ok(self)
    }

    /// The rows of a batch within the visible ticks that meet the condition; `None` without any
    /// such rows.
    fn rows(&self, events: &RecordBatch, schema: &SchemaRef) -> Result<Option<RecordBatch>> {
        let seen = match self.part {
            None => events.clone(),
            Some((ticks, at)) => {
                let column = events.columns().get(at);
                let column = column.and_then(|column| column.as_primitive_opt::<Int64Type>());
                let column =
                    column.ok_or_else(|| Error::internal("a subscription has no _tick"))?;
                let inside = |tick: &i64| ticks.contains(Tick(*tick));
                let inside: Vec<bool> = column.values().iter().map(inside).collect();
                filter_record_batch(events, &BooleanArray::from(inside)).map_err(from_arrow)?
            }
        };
        let seen = match &self.policy {
            None => seen,
            Some(policy) => allowed(policy, &seen).map_err(from_datafusion)?,
        };
        let met = match &self.condition {
            None => seen,
            Some(condition) => {
                let value = condition.evaluate(&seen).map_err(from_datafusion)?;
                let met = value.into_array(seen.num_rows()).map_err(from_datafusion)?;
                let met = met
                    .as_boolean_opt()
                    .ok_or_else(|| Error::internal("a condition is no boolean"))?;
                filter_record_batch(&seen, met).map_err(from_arrow)?
            }
        };
        if met.num_rows() == 0 {
            return Ok(None);
        }
        let gsns = met.columns().get(self.gsn_at).cloned();
        let gsns = gsns.ok_or_else(|| Error::internal("a subscription has no _gsn"))?;
        let no_gap: ArrayRef = new_null_array(&DataType::Utf8View, met.num_rows());
        let user = self.chronicle.columns.len();
        let columns: Vec<ArrayRef> =
            [gsns, no_gap].into_iter().chain(met.columns().iter().take(user).cloned()).collect();
        shaped(columns, schema).map(Some)
    }
}

/// The result row for a gap in the events: the first gsn of the gap, and a description of the
/// missing events.
fn gap_row(gap: &Gap, schema: &SchemaRef) -> Result<RecordBatch> {
    let first = i64::try_from(gap.gsns.start.0).unwrap_or(i64::MAX);
    let own_columns: [ArrayRef; OWN_COLUMNS] = [
        Arc::new(Int64Array::from(vec![first])),
        Arc::new(StringViewArray::from(vec![gap.to_string()])),
    ];
    let nothing = schema.fields().iter().skip(OWN_COLUMNS);
    let nothing = nothing.map(|field| new_null_array(field.data_type(), 1));
    shaped(own_columns.into_iter().chain(nothing).collect(), schema)
}

fn shaped(columns: Vec<ArrayRef>, schema: &SchemaRef) -> Result<RecordBatch> {
    let fields = schema.fields().iter().zip(&columns);
    let fields = fields
        .map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()));
    let read = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    conform(&RecordBatch::try_new(read, columns).map_err(from_arrow)?, schema)
}

/// Creates the scan of a SUBSCRIBE from the values of the parameters.
async fn bound_scan(
    session: &Session,
    subscribe: &Subscribe,
    types: &[ColumnType],
    values: &[ScalarValue],
) -> Result<SubscriptionScan> {
    let plan = subscribe.query.plan.clone();
    let plan = match types.is_empty() {
        true => plan,
        false => {
            plan.with_param_values(parameters::for_plan(types, values)).map_err(from_datafusion)?
        }
    };
    let planner = session.enter_planner(&[]).await?;
    let plan = planner.optimize(&plan)?;
    let mut start: Option<Expr> = None;
    let mut conditions: Vec<Expr> = Vec::new();
    let mut node = &plan;
    let scan = loop {
        match node {
            LogicalPlan::Projection(projection) => {
                if start.is_none() && has_value(subscribe.beginning) {
                    start = projection.expr.last().cloned();
                }
                node = &projection.input;
            }
            LogicalPlan::SubqueryAlias(alias) => node = &alias.input,
            LogicalPlan::Filter(filter) => {
                let all = split_conjunction(&filter.predicate).into_iter();
                conditions.extend(all.cloned().map(unqualified));
                node = &filter.input;
            }
            LogicalPlan::TableScan(scan) => break scan,
            LogicalPlan::EmptyRelation(_) => return Err(never_sealed_error()),
            _ => return Err(unsupported_query()),
        }
    };
    let provider = source_as_provider(&scan.source).map_err(from_datafusion)?;
    let table = plain_table(&provider).ok_or_else(no_table)?;
    conditions.extend(scan.filters.iter().cloned().map(unqualified));
    let schema = scan.source.schema();
    let gsn_at = schema.index_of("_gsn").map_err(from_arrow)?;
    let columns = DFSchema::try_from(schema.as_ref().clone()).map_err(from_datafusion)?;
    let condition = match conjunction(conditions) {
        None => None,
        Some(condition) if has_subquery(&condition) => return Err(unsupported_query()),
        Some(condition) => {
            Some(planner.compile(condition, &columns).ok_or_else(unsupported_query)?)
        }
    };
    let policy = match provider.downcast_ref::<PolicyTable>() {
        None => None,
        Some(secured) => {
            let predicate = secured.predicate();
            let predicate =
                predicate.ok_or_else(|| Error::internal("a row policy was not planned"))?;
            let compiled = planner.state().create_physical_expr(predicate.clone(), &columns);
            Some(compiled.map_err(from_datafusion)?)
        }
    };
    let chronicle = Arc::clone(table.definition());
    let from = match (subscribe.beginning, start) {
        (Beginning::All, _) => SubscribeFrom::Gsn(Gsn(1)),
        (Beginning::Live, _) => SubscribeFrom::Live,
        (_, Some(start)) => {
            let start = match start {
                Expr::Alias(alias) => *alias.expr,
                other => other,
            };
            start_of(&chronicle, planner.value_of(&start)?)?
        }
        (_, None) => return Err(Error::internal("a subscription has no beginning")),
    };
    let projection = table.request(None, &[], None, 1, 1).projection;
    Ok(SubscriptionScan { chronicle, projection, gsn_at, from, condition, policy, part: None })
}

fn has_subquery(expr: &Expr) -> bool {
    let is_subquery = |expr: &Expr| {
        Ok(matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_)))
    };
    expr.exists(is_subquery).unwrap_or(true)
}

/// Converts the value of FROM to a start position.
fn start_of(chronicle: &ChronicleDefinition, value: Option<ScalarValue>) -> Result<SubscribeFrom> {
    let at = |ns: i128| SubscribeFrom::Tick(chronicle.scale.bound_at_or_after(ns));
    match value {
        Some(value) if value.is_null() => {
            Err(Error::new(ErrorKind::NullNotAllowed, "SUBSCRIBE … FROM needs a value, not NULL"))
        }
        Some(value) if value.data_type().is_integer() => {
            match value.cast_to(&DataType::Int64).map_err(from_datafusion)? {
                ScalarValue::Int64(Some(gsn)) => {
                    Ok(SubscribeFrom::Gsn(Gsn(u64::try_from(gsn).unwrap_or(0).max(1))))
                }
                _ => Err(Error::internal("a position is no number")),
            }
        }
        Some(ScalarValue::TimestampSecond(Some(value), _)) => {
            Ok(at(i128::from(value) * 1_000_000_000))
        }
        Some(ScalarValue::TimestampMillisecond(Some(value), _)) => {
            Ok(at(i128::from(value) * 1_000_000))
        }
        Some(ScalarValue::TimestampMicrosecond(Some(value), _)) => {
            Ok(at(i128::from(value) * 1_000))
        }
        Some(ScalarValue::TimestampNanosecond(Some(value), _)) => Ok(at(i128::from(value))),
        _ => Err(Error::new(
            ErrorKind::InvalidColumnReference,
            "SUBSCRIBE … FROM needs a constant or a parameter",
        )),
    }
}

/// The error for a position that is not a whole number.
pub(super) fn no_position(clause: &str, type_name: &str) -> Error {
    let message = format!("{clause} needs a whole number, not {type_name}");
    Error::new(ErrorKind::DatatypeMismatch, message)
        .with_hint("cast the number, as in 66.4::bigint")
}

fn never_sealed() -> Error {
    Error::new(ErrorKind::FeatureNotSupported, "SUBSCRIBE … AS OF SEALED is not supported")
        .with_hint(
            "events arrive in the order of commits, before their ticks are sealed; SELECT … AS OF SEALED reads sealed events",
        )
}

fn unsupported_query() -> Error {
    Error::new(
        ErrorKind::FeatureNotSupported,
        "WHERE of SUBSCRIBE accepts conditions on the columns of the table",
    )
    .with_hint("subscribe to the table, and query other tables for the received events")
}

fn never_sealed_error() -> Error {
    Error::new(ErrorKind::FeatureNotSupported, "WHERE of SUBSCRIBE is never true")
}

fn no_table() -> Error {
    Error::new(ErrorKind::WrongObjectType, "SUBSCRIBE needs a table of events")
        .with_hint("system tables are computed at each read")
}
