//! Planning and execution of queries: SELECT, VALUES, WITH, TABLE.

use std::{
    ops::ControlFlow,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use arrow::{
    array::RecordBatch,
    compute::{CastOptions, cast_with_options},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use datafusion::{
    common::tree_node::TreeNodeRecursion,
    datasource::source_as_provider,
    execution::TaskContext,
    logical_expr::LogicalPlan,
    physical_plan::ExecutionPlan,
    scalar::ScalarValue,
    sql::sqlparser::ast::{
        Expr, GroupByExpr, Query as Tree, Select, SelectItem, SetExpr, Statement, Value,
        ValueWithSpan,
    },
};
use futures::{StreamExt, TryStreamExt, stream};
use stratalog_functions::plan_walk::PlanWalk;
use stratalog_metrics::{PlanningStep, Stopwatch};
use stratalog_model::{
    ChronicleDefinition, ChronicleId, ColumnType, Error, ErrorKind, Result, Snapshot,
};
use stratalog_postgres::{
    checks::{ambiguous_names, complexity, ignored_clauses, recursion, unsupported_statements},
    dialect::{self, preserved_orders},
    errors::{from_arrow, from_datafusion},
    names::{self, NameResolver},
    parameters,
    parse::sealed,
    rules::calendar::times,
    walk::{self, Look},
};

use super::{
    as_of_sealed, column_reads::ColumnReads, one_row::OneRow, origin, point::PointQuery,
    system_columns, template::Template,
};
use crate::{
    Rows, RowsTag, Session,
    service::StoppablePlan,
    session::{
        acquisitions::PinnedSnapshot,
        blocking_work::block_on,
        planner::{self, Planner},
        work::Work,
    },
    table::chronicle_of,
};

/// Maximum number of parameters of a query with a reusable plan: the cost of the plan grows with
/// the square of the number.
const DIRECT_PARAMETERS_MAX: usize = 1_000;

/// A planned query.
#[derive(Debug)]
pub struct Query {
    /// The logical plan before optimization; parameters have no values yet.
    pub plan: LogicalPlan,
    /// The schema of the result, with the column names that PostgreSQL would choose.
    pub schema: SchemaRef,
    /// The direct lookup by key, if the query has the required form.
    pub point: Option<PointQuery>,
    /// The reusable physical plan, if the query allows reuse with other parameter values. For a
    /// query without parameters, the second run makes the plan.
    template: OnceLock<Option<Template>>,
    ran: AtomicBool,
    /// The direct evaluation of a query without a table; made at the same times as `template`.
    row: OnceLock<Option<OneRow>>,
    /// The chronicles and columns that the query reads.
    pub reads: Arc<ColumnReads>,
    /// All chronicles of the query if the query is AS OF SEALED; empty for other queries.
    sealed: Vec<Arc<ChronicleDefinition>>,
    /// The parameters, counted from 0, that give the number of events to `playback`, a function
    /// that reads the newest events.
    counts: Vec<usize>,
    /// The parameters whose types are guesses, counted from 0. See [`parameters::Types::guesses`].
    pub guesses: Vec<usize>,
}

impl Query {
    /// Checks the values of parameters that must not be NULL.
    ///
    /// # Errors
    /// `NullNotAllowed`.
    pub fn check(&self, values: &[ScalarValue]) -> Result<()> {
        super::replays::check_counts(&self.counts, values)
    }

    /// True if the query has a plan for reuse with other parameters.
    pub fn has_template(&self) -> bool {
        matches!(self.template.get(), Some(Some(_)))
    }

    /// Takes a snapshot of the current data of the query's chronicles.
    ///
    /// # Errors
    /// See `Session::pin`.
    pub async fn pin(&self, session: &Session) -> Result<PinnedSnapshot> {
        session.pin(&self.reads, &self.sealed).await
    }

    async fn one_row(&self, session: &Session) -> Result<Option<&OneRow>> {
        if !self.reads.chronicles().is_empty() {
            return Ok(None);
        }
        if self.row.get().is_none() && self.ran.swap(true, Ordering::Relaxed) {
            let planner = session.enter_planner(&[]).await?;
            self.row.get_or_init(|| OneRow::of(&planner, &self.plan, &[]));
        }
        Ok(self.row.get().and_then(Option::as_ref))
    }

    async fn template(&self, session: &Session) -> Result<Option<&Template>> {
        if self.template.get().is_none() && self.ran.swap(true, Ordering::Relaxed) {
            let planner = session.enter_planner(&[]).await?;
            self.template.get_or_init(|| Template::of(&planner, &self.plan, &[]));
        }
        Ok(self.template.get().and_then(Option::as_ref))
    }
}

/// The time when a query starts to execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryStart {
    /// Immediately.
    Now,
    /// When the client reads the first row.
    WhenRead,
}

/// The context of a query's execution.
#[derive(Debug, Clone, Copy)]
pub struct QueryRun<'a> {
    /// The running statement, for cancellation and memory accounting.
    pub work: &'a Arc<Work>,
    /// The form of the command tag.
    pub tag: RowsTag,
    /// The time when the query starts.
    pub start: QueryStart,
}

impl<'a> QueryRun<'a> {
    /// A context for a query that starts immediately.
    pub fn now(work: &'a Arc<Work>, tag: RowsTag) -> Self {
        Self { work, tag, start: QueryStart::Now }
    }
}

/// Plans a query.
///
/// # Errors
/// An error in the query.
pub async fn plan(
    planner: &Planner,
    tree: &Tree,
    declared_types: &[Option<ColumnType>],
    mentioned: &[usize],
) -> Result<(Query, Vec<Option<ColumnType>>)> {
    plan_adjusted(planner, tree, declared_types, mentioned, &Ok).await
}

/// Like [`plan`]; `adjust` changes the plan before its analysis, and keeps the columns' names.
///
/// # Errors
/// See [`plan`]; the errors of `adjust`.
pub async fn plan_adjusted(
    planner: &Planner,
    tree: &Tree,
    declared_types: &[Option<ColumnType>],
    mentioned: &[usize],
    adjust: &(dyn Fn(LogicalPlan) -> Result<LogicalPlan> + Sync),
) -> Result<(Query, Vec<Option<ColumnType>>)> {
    let written = tree;
    let mut tree = tree.clone();
    let as_of_sealed = sealed::take(&mut tree)?;
    refuse(&tree)?;
    let count = parameters::count(&tree)?.max(declared_types.len());
    let mut declared_types = declared_types.to_vec();
    declared_types.resize(count, None);
    names::ctes::tell_apart(&mut tree);
    names::schemas::resolve(&mut tree, planner)?;
    names::row_counts::count_rows(&mut tree, planner)?;
    system_columns::hide(&mut tree, mentioned)?;
    let counts = super::replays::expand(&mut tree, planner, mentioned)?;
    // The number of events of a playback is now a LIMIT.
    if count > 0 {
        parameters::columns::cast_in_values(&mut tree, &declared_types);
    }
    parameters::cast_to_declared(&mut tree, &mut declared_types);
    complexity::check(&tree)?;
    ambiguous_names::check(&tree)?;
    ignored_clauses::check(&tree, planner)?;
    recursion::check(&tree, |name| planner.is_aggregate(name))?;
    preserved_orders::keep(&mut tree, |name| planner.is_aggregate(name));
    let names = names::name_output(&mut tree);
    let mut statement = Statement::Query(Box::new(tree));
    dialect::normalize(&mut statement, planner.style())?;
    stratalog_pg_catalog::rewrite(&mut statement);
    ambiguous_names::check_wildcards(planner.state(), &statement).await?;
    let plan = match Box::pin(planner.logical(&statement)).await {
        // A wildcard repeats a column: write out the columns of the wildcard, and plan again.
        Err(error)
            if matches!(error.kind(), ErrorKind::DuplicateColumn | ErrorKind::AmbiguousColumn) =>
        {
            let before = statement.clone();
            names::wildcards::write_out(planner.state(), &mut statement).await?;
            if statement == before {
                return Err(error);
            }
            planner.logical(&statement).await?
        }
        // An ungrouped column may depend on a primary key in GROUP BY: plan again with the keys.
        // DataFusion confuses a cast of a key column with the column, and therefore gets the keys
        // only for a statement without such casts.
        Err(error) if error.kind() == ErrorKind::GroupingError && !groups_by_cast(&statement) => {
            planner.with_keys(true);
            let planned = planner.logical(&statement).await;
            planner.with_keys(false);
            planned.map_err(|_| error)?
        }
        planned => planned?,
    };
    let plan = adjust(plan)?;
    let parameters::Types { types, guesses } = parameters::types(&plan, &declared_types, count)?;
    if types
        .iter()
        .zip(&declared_types)
        .any(|(found, declared)| declared.is_none() && found.is_some())
        && parameters::columns::is_in_nested_sets(written)
    {
        // Plan again, with the parameter types that the other branches determine.
        return Box::pin(plan_adjusted(planner, written, &types, mentioned, adjust)).await;
    }
    let tables = tables(&plan)?;
    let reads = ColumnReads::of(&plan)?;
    let no_tables = reads.chronicles().is_empty();
    if as_of_sealed {
        as_of_sealed::check(&tables)?;
    }
    let sealed = if as_of_sealed { tables } else { Vec::new() };
    let known = parameters::or_text(types.clone());
    // A statement with very many parameters rarely repeats.
    // Plans with row policies are made for each execution: policies may use functions such as
    // `current_user`.
    let direct = count <= DIRECT_PARAMETERS_MAX && !reads.has_policies();
    let point = direct.then(|| PointQuery::of(planner, &plan, &known)).flatten();
    let (template, row) = (OnceLock::new(), OnceLock::new());
    if no_tables && count > 0 {
        row.get_or_init(|| direct.then(|| OneRow::of(planner, &plan, &known)).flatten());
    }
    if point.is_some() || no_tables || !direct {
        template.get_or_init(|| None);
    } else if count > 0 {
        template.get_or_init(|| Template::of(planner, &plan, &known));
    }
    // The analysis determines the types, for example of a UNION and of literals. Without
    // parameters, execution also continues from the analyzed plan.
    let (plan, schema) = if count == 0 {
        let analyzed = planner.analyze(&plan)?;
        let schema = result_schema(analyzed.schema().as_arrow(), &names);
        (analyzed, schema)
    } else {
        let typed = parameters::typed(plan.clone(), &parameters::or_text(types.clone()))?;
        let analyzed = planner.analyze(&typed).unwrap_or(typed);
        let schema = result_schema(analyzed.schema().as_arrow(), &names);
        (plan, schema)
    };
    let schema = origin::tell(&plan, &schema);
    let ran = AtomicBool::new(false);
    let reads = Arc::new(reads);
    let query = Query { plan, schema, point, template, ran, row, reads, sealed, counts, guesses };
    Ok((query, types))
}

/// True if a select groups by a cast of a column, also by position or by name.
fn groups_by_cast(statement: &Statement) -> bool {
    struct CastGroupSearch;
    impl Look for CastGroupSearch {
        fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
            let GroupByExpr::Expressions(groups, _) = &select.group_by else {
                return ControlFlow::Continue(());
            };
            let item = |group: &Expr| {
                let mut items = select.projection.iter();
                match group {
                    Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) => {
                        items.nth(number.parse::<usize>().ok()?.checked_sub(1)?)
                    }
                    Expr::Identifier(name) => items.find(|item| {
                        matches!(item, SelectItem::ExprWithAlias { alias, .. } if alias == name)
                    }),
                    _ => None,
                }
            };
            let is_cast = |group: &Expr| match item(group) {
                Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => {
                    is_cast_of_column(expr)
                }
                _ => is_cast_of_column(group),
            };
            match groups.iter().any(is_cast) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    walk::look(statement, &mut CastGroupSearch).is_break()
}

fn is_cast_of_column(expr: &Expr) -> bool {
    let (mut expr, mut casts) = (expr, 0);
    loop {
        match expr {
            Expr::Cast { expr: inner, .. } => (expr, casts) = (inner, casts + 1),
            Expr::Nested(inner) => expr = inner,
            other => {
                let column = matches!(other, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                return column && casts > 0;
            }
        }
    }
}

/// Refuses clauses that the planner would ignore.
fn refuse(tree: &Tree) -> Result<()> {
    if !tree.locks.is_empty() {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            "SELECT … FOR UPDATE or FOR SHARE is not supported: events never change",
        ));
    }
    match tree.body.as_ref() {
        SetExpr::Select(select) if select.into.is_some() => Err(Error::not_yet("SELECT INTO")),
        SetExpr::Update(_) => Err(unsupported_statements::update()),
        SetExpr::Delete(_) => Err(Error::not_yet("WITH … DELETE")),
        SetExpr::Merge(_) => Err(unsupported_statements::merge()),
        _ => Ok(()),
    }
}

/// The schema of a result: column names as in PostgreSQL, and all columns nullable.
pub fn result_schema(schema: &Schema, names: &names::OutputNames) -> SchemaRef {
    let names = names.resolve(schema.fields().len());
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .zip(names)
        .map(|(field, name)| {
            // Clients do not see the suffix of duplicate names.
            let name = name.unwrap_or_else(|| shown_name(field.name(), schema));
            let field = field.as_ref().clone().with_name(name).with_nullable(true);
            // DataFusion counts rows in unsigned integers; Stratalog has no unsigned SQL type.
            match field.data_type() {
                DataType::UInt64 => field.with_data_type(DataType::Int64),
                _ => field,
            }
        })
        .collect();
    Arc::new(Schema::new(fields))
}

/// A column name without the suffix that Stratalog or DataFusion adds to duplicate names (`time:1`
/// becomes `time`).
fn shown_name(name: &str, schema: &Schema) -> String {
    let name = name.split('\u{1}').next().unwrap_or_default();
    match name.rsplit_once(':') {
        Some((first, number))
            if !number.is_empty()
                && number.bytes().all(|byte| byte.is_ascii_digit())
                && schema.fields().iter().any(|field| field.name() == first) =>
        {
            first.to_string()
        }
        _ => name.to_string(),
    }
}

/// The ids of the chronicles that a plan reads.
///
/// # Errors
/// An error in the traversal of the plan; none is known.
pub fn chronicles(plan: &LogicalPlan) -> Result<Vec<ChronicleId>> {
    Ok(tables(plan)?.iter().map(|table| table.id).collect())
}

/// The chronicles that a plan reads.
fn tables(plan: &LogicalPlan) -> Result<Vec<Arc<ChronicleDefinition>>> {
    let mut found = Vec::new();
    plan.each_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let Some(chronicle) = chronicle_of(&provider)
        {
            found.push(Arc::clone(chronicle));
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(from_datafusion)?;
    Ok(found)
}

/// Runs a planned query.
///
/// # Errors
/// An error in planning with the parameters, or at the start of the execution; the stream returns
/// later errors.
pub async fn run(
    session: &Session,
    query: &Query,
    types: &[ColumnType],
    values: &[ScalarValue],
    run: QueryRun<'_>,
) -> Result<Rows> {
    let QueryRun { work, tag, .. } = run;
    query.check(values)?;
    let pinned = query.pin(session).await?;
    let snapshot = &pinned.snapshot;
    let now_ns = planner::statement_time(session.parts().clock.now_ns());
    if let Some(point) = &query.point
        && let Some(rows) =
            point.run(snapshot, values, now_ns, session.settings().batch_rows_max)?
    {
        let stream = rows.and_then({
            let schema = Arc::clone(&query.schema);
            move |batch| std::future::ready(conform(&batch, &schema))
        });
        return Ok(Rows::new(
            Arc::clone(&query.schema),
            work.guard_stream(session.watch(stream.boxed(), Some(&pinned))),
            tag,
        )
        .checked_by(session.rights_check(pinned.reads())));
    }
    if let Some(one) = query.one_row(session).await?
        && let Some(batch) = one.row(values, now_ns)?
    {
        work.check()?;
        let stream = stream::iter([conform(&batch, &query.schema)]).boxed();
        let stream = work.guard_stream(session.watch(stream, Some(&pinned)));
        let rows = Rows::new(Arc::clone(&query.schema), stream, tag);
        return Ok(rows.checked_by(session.rights_check(pinned.reads())));
    }
    let schema = Arc::clone(&query.schema);
    let template = query.template(session).await?;
    let template = template.and_then(|kept| Some((kept, kept.bind(values, now_ns)?)));
    if let Some((template, pushed)) = &template
        && let Some(physical) = template.plan(snapshot, pushed)?
    {
        let tasks = session.enter_planner(&[]).await?.tasks();
        return run_physical(session, (physical, tasks), schema, &pinned, run);
    }
    let plan = if types.is_empty() {
        query.plan.clone()
    } else {
        query
            .plan
            .clone()
            .with_param_values(parameters::for_plan(types, values))
            .map_err(from_datafusion)?
    };
    let physical = physical(session, &plan, Arc::clone(snapshot)).await?;
    if let Some((template, _)) = &template {
        template.keep(&physical.0);
    }
    run_physical(session, physical, schema, &pinned, run)
}

/// Runs a logical plan whose parameters all have values.
pub async fn run_plan(
    session: &Session,
    plan: &LogicalPlan,
    schema: SchemaRef,
    pinned: &PinnedSnapshot,
    run: QueryRun<'_>,
) -> Result<Rows> {
    let physical = physical(session, plan, Arc::clone(&pinned.snapshot)).await?;
    run_physical(session, physical, schema, pinned, run)
}

/// The physical plan of a logical plan, and the task context for the start.
async fn physical(
    session: &Session,
    plan: &LogicalPlan,
    snapshot: Arc<dyn Snapshot>,
) -> Result<(Arc<dyn ExecutionPlan>, Arc<TaskContext>)> {
    let stopwatch = Stopwatch::start();
    let planned = block_on(async {
        let planner = session.enter_planner(&[]).await?;
        planner.physical(plan, snapshot).await.map(|physical| (physical, planner.tasks()))
    });
    let planned = planned.await?;
    session.parts().metrics.queries().planned(PlanningStep::Physical, stopwatch);
    Ok(planned)
}

/// Runs a physical plan.
fn run_physical(
    session: &Session,
    (physical, tasks): (Arc<dyn ExecutionPlan>, Arc<TaskContext>),
    schema: SchemaRef,
    pinned: &PinnedSnapshot,
    run: QueryRun<'_>,
) -> Result<Rows> {
    let QueryRun { work, tag, start } = run;
    work.check()?;
    let plan = StoppablePlan::new(physical, work)?;
    let stream = match start {
        QueryStart::Now => session.execution().run(plan, tasks)?,
        QueryStart::WhenRead => {
            let service = Arc::clone(session.service());
            let started = async move { service.execution().run(plan, tasks) };
            stream::once(started).try_flatten().boxed()
        }
    };
    let shape = Arc::clone(&schema);
    let stream = stream.and_then(move |batch| std::future::ready(conform(&batch, &shape)));
    let stream = work.guard_stream(session.watch(stream.boxed(), Some(pinned)));
    Ok(Rows::new(schema, stream, tag).checked_by(session.rights_check(pinned.reads())))
}

/// Converts a batch to the schema announced to the client.
pub fn conform(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| {
            if column.data_type() == field.data_type() {
                Ok(Arc::clone(column))
            } else if matches!(column.data_type(), DataType::Duration(_)) {
                times::days_and_time(column).map_err(from_datafusion)
            } else {
                // A value out of range is an error, and not a NULL.
                let options = CastOptions { safe: false, ..CastOptions::default() };
                cast_with_options(column, field.data_type(), &options).map_err(from_arrow)
            }
        })
        .collect::<Result<Vec<_>>>()?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(from_arrow)
}
