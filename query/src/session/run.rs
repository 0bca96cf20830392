//! Parsing, preparing and executing a session's statements.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, atomic::Ordering},
};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::{scalar::ScalarValue, sql::sqlparser::ast::Statement};
use stratalog_functions::governor;
use stratalog_metrics::{PlanningStep, Stopwatch};
use stratalog_model::{BoxFuture, ColumnType, Error, ErrorKind, Result};
use stratalog_postgres::{
    checks::unsupported_statements, names, parameters, parse, redact::without_secrets,
};
use stratalog_text::TextStyle;

use super::{
    Session, TransactionState,
    blocking_work::{block_on, busy},
    shapes::Shapes,
    work::Work,
};
use crate::{
    Outcome, Parsed, Prepared, RowsTag, ShareReservation, StatementKind,
    measurement::Measurement,
    service::statement_bytes,
    statement::{
        Plan, access, acquire, call, copy,
        cursor::{self, CursorPlan},
        ddl, delete, explain, insert, lock, query, setting, subscribe, transaction,
        zoned_constants,
    },
};

/// Maximum number of plans kept for repeated texts.
const CACHED_PLANS_MAX: usize = 64;

/// Longest statement text, in bytes, whose plan is cached.
const CACHED_TEXT_BYTES_MAX: usize = 8 * 1024;

/// Longest text, in bytes, that is parsed and planned without yielding to other tasks. The planning
/// of a query always yields.
const SHORT_TEXT_BYTES_MAX: usize = 4 * 1024;

/// Maximum number of characters of a statement that pg_stat_activity shows.
const SHOWN_TEXT_CHARACTERS_MAX: usize = 1024;

/// Maximum bytes of these characters in UTF-8.
const SHOWN_TEXT_BYTES_MAX: usize = 4 * SHOWN_TEXT_CHARACTERS_MAX;

/// The cached plans, by statement text and declared parameter types. A full cache drops its oldest
/// plan.
#[derive(Debug, Default)]
pub struct PlanCache {
    plans: HashMap<CacheKey, CachedPlan>,
    order: VecDeque<CacheKey>,
    pub(super) shapes: Shapes,
}

/// The error message of a prepared statement whose columns changed after the preparation.
pub const CACHED_PLAN_CHANGED: &str = "cached plan must not change result type";

type CacheKey = (String, Vec<Option<ColumnType>>);

/// A cached plan, and the reservation of its memory.
#[derive(Debug)]
struct CachedPlan {
    prepared: Arc<Prepared>,
    _held: ShareReservation,
}

impl PlanCache {
    /// Removes all plans and shapes.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn get(&self, key: &CacheKey) -> Option<Arc<Prepared>> {
        self.plans.get(key).map(|cached| Arc::clone(&cached.prepared))
    }

    fn put(&mut self, key: CacheKey, cached: CachedPlan) {
        if self.plans.insert(key.clone(), cached).is_none() {
            self.order.push_back(key);
            if self.order.len() > CACHED_PLANS_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.plans.remove(&oldest);
            }
        }
    }
}

/// What to do with a prepared statement if its result columns changed after the preparation.
#[derive(Clone, Copy)]
enum ColumnChange {
    Refuse,
    KeepReported,
}

impl Session {
    /// Parses the statements of an SQL string; an empty string has no statements.
    ///
    /// # Errors
    /// `SyntaxError` with the position, `LimitExceeded`, `StatementTooComplex`.
    pub fn parse(&self, sql: &str) -> Result<Vec<Arc<Parsed>>> {
        if let Some(known) = self.known_shape(sql) {
            return Ok(vec![Arc::new(known)]);
        }
        let most = self.settings().statement_bytes_max;
        let held = self.hold_text(sql)?;
        let trees = if sql.len() > SHORT_TEXT_BYTES_MAX {
            // A cancel request and the timeout also end a statement during a long parse.
            let work = self.start_work(sql);
            let governor = work.governor();
            let trees = busy(|| governor::within(&governor, || parse::statements(sql, most)));
            // A stopped parse may fail in any way.
            work.check().and(trees)
        } else {
            parse::statements(sql, most)
        };
        if trees.is_err() {
            self.fail_transaction();
        }
        let parsed = |tree| Arc::new(Parsed::new(tree).holding(held.clone()));
        Ok(trees?.into_iter().map(parsed).collect())
    }

    /// Reserves memory for a long text. A text beyond the length limit needs no memory: the parser
    /// refuses the text.
    fn hold_text(&self, sql: &str) -> Result<Option<Arc<ShareReservation>>> {
        if sql.len() <= SHORT_TEXT_BYTES_MAX || sql.len() > self.settings().statement_bytes_max {
            return Ok(None);
        }
        let held = self.share().hold(statement_bytes(sql));
        if held.is_err() {
            self.fail_transaction();
        }
        held.map(|held| Some(Arc::new(held)))
    }

    /// Like [`Session::prepare`], for a caller that retries with other types: an error does not
    /// fail the block.
    ///
    /// # Errors
    /// Errors of the statement with these types.
    pub async fn try_prepare(
        &self,
        parsed: &Arc<Parsed>,
        types: &[Option<ColumnType>],
    ) -> Result<Arc<Prepared>> {
        self.prepare_statement(parsed, types).await
    }

    /// Plans a statement: determines the types of the parameters and the schema of the result.
    /// `types` are the types declared by the client; the list may be shorter than the list of
    /// parameters.
    ///
    /// # Errors
    /// Errors of the statement. In a block, an error fails the block.
    pub async fn prepare(
        &self,
        parsed: &Arc<Parsed>,
        types: &[Option<ColumnType>],
    ) -> Result<Arc<Prepared>> {
        let prepared = self.try_prepare(parsed, types).await;
        let prepared = match prepared {
            Err(error) if error.kind() == ErrorKind::InsufficientPrivilege => {
                self.audited(parsed, Err(error)).await
            }
            prepared => prepared,
        };
        if let Err(error) = &prepared {
            self.fail_transaction();
            self.parts().metrics.queries().failed(error.kind());
        }
        prepared.map_err(|error| parsed.place(error))
    }

    /// Runs a prepared statement. `parameters` have the Arrow types of
    /// [`Prepared::parameter_types`].
    ///
    /// # Errors
    /// Errors of the statement or its values. In a block, an error fails the block.
    pub async fn execute(
        &self,
        prepared: &Arc<Prepared>,
        parameters: Vec<ScalarValue>,
    ) -> Result<Outcome> {
        self.execute_prepared(prepared, parameters, ColumnChange::Refuse).await
    }

    /// Like [`Session::execute`], for a statement whose result columns were just reported to the
    /// client: even if a table was altered since the report, the result has the reported columns.
    ///
    /// # Errors
    /// The errors of [`Session::execute`].
    pub async fn execute_with_reported_columns(
        &self,
        prepared: &Arc<Prepared>,
        parameters: Vec<ScalarValue>,
    ) -> Result<Outcome> {
        self.execute_prepared(prepared, parameters, ColumnChange::KeepReported).await
    }

    // A boxed future: otherwise each calling crate would compile the execution of statements again.
    fn execute_prepared<'a>(
        &'a self,
        prepared: &'a Arc<Prepared>,
        parameters: Vec<ScalarValue>,
        column_change: ColumnChange,
    ) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(async move {
            if self.transaction() == TransactionState::Idle {
                self.variables.end_statement();
            }
            // EXECUTE runs another statement, which is measured separately.
            let is_execute = matches!(prepared.parsed.statement(), Statement::Execute { .. });
            let queries = self.parts().metrics.queries();
            let measurement =
                (!is_execute).then(|| Measurement::start(queries, prepared.parsed.kind().class()));
            let work = self.start_work(prepared.parsed.text());
            let outcome = self.execute_statement(prepared, parameters, column_change, &work).await;
            let outcome = self.audited(&prepared.parsed, outcome).await;
            if outcome.is_err() {
                self.fail_transaction();
            }
            let outcome = match (outcome, measurement) {
                (Ok(outcome), Some(measurement)) => Ok(outcome.measured_by(measurement)),
                (Err(error), Some(measurement)) => {
                    measurement.fail(&error);
                    Err(error)
                }
                (outcome, None) => outcome,
            };
            outcome.map_err(|error| prepared.parsed.place(error))
        })
    }

    /// Prepares and runs a statement without parameters.
    ///
    /// # Errors
    /// The errors of [`Session::prepare`] and [`Session::execute`].
    pub async fn run(&self, parsed: &Arc<Parsed>) -> Result<Outcome> {
        let prepared = self.prepare(parsed, &[]).await?;
        if !prepared.parameter_types.is_empty() {
            self.fail_transaction();
            return Err(Error::new(ErrorKind::UndefinedParameter, "there is no parameter $1"));
        }
        self.execute(&prepared, Vec::new()).await
    }

    // A boxed future: otherwise each calling crate would compile the planner again.
    fn prepare_statement<'a>(
        &'a self,
        parsed: &'a Arc<Parsed>,
        types: &'a [Option<ColumnType>],
    ) -> BoxFuture<'a, Result<Arc<Prepared>>> {
        Box::pin(async move {
            self.check_usable(parsed)?;
            let catalog_version = self.catalog().version();
            let settings_version = self.variables().version();
            let fresh = |prepared: &Arc<Prepared>| {
                prepared.catalog_version == catalog_version
                    && prepared.settings_version == settings_version
            };
            let cacheable = parsed.text().len() <= CACHED_TEXT_BYTES_MAX
                && matches!(parsed.kind(), StatementKind::Read | StatementKind::Write);
            let key = (parsed.text().to_string(), types.to_vec());
            if cacheable && let Some(prepared) = self.cache.lock().get(&key).filter(fresh) {
                return Ok(prepared);
            }
            if cacheable
                && types.is_empty()
                && !parsed.is_endless()
                && let Some((shaped, values)) = Box::pin(self.shaped(parsed)).await
            {
                return Ok(Arc::new(Prepared {
                    parsed: Arc::clone(parsed),
                    declared_types: Vec::new(),
                    parameter_types: Vec::new(),
                    parameter_type_names: Vec::new(),
                    guessed_parameters: Vec::new(),
                    result: shaped.result.clone(),
                    catalog_version: shaped.catalog_version,
                    settings_version: shaped.settings_version,
                    zone: self.text_style().time_zone,
                    plan: Plan::Shaped(shaped, values),
                    planned_bytes: 0,
                }));
            }
            let parsed = &self.whole(parsed)?;
            let mut prepared = Prepared {
                parsed: Arc::clone(parsed),
                declared_types: types.to_vec(),
                parameter_types: Vec::new(),
                parameter_type_names: Vec::new(),
                guessed_parameters: Vec::new(),
                result: None,
                plan: Plan::Tree,
                catalog_version,
                settings_version,
                zone: self.text_style().time_zone,
                planned_bytes: 0,
            };
            let stopwatch = Stopwatch::start();
            let work = self.start_work(parsed.text());
            let planned = Box::pin(self.plan_statement(&mut prepared));
            if parsed.kind() == StatementKind::Read || parsed.text().len() > SHORT_TEXT_BYTES_MAX {
                block_on(work.guard(planned)).await?;
            } else {
                work.guard(planned).await?;
            }
            prepared.planned_bytes = work.allocated_bytes();
            if !matches!(prepared.plan, Plan::Tree) {
                self.parts().metrics.queries().planned(PlanningStep::Logical, stopwatch);
            }
            let prepared = Arc::new(prepared);
            if cacheable
                && !matches!(prepared.plan, Plan::Tree)
                && let Ok(held) = self.share().hold(prepared.memory_bytes())
            {
                self.cache
                    .lock()
                    .put(key, CachedPlan { prepared: Arc::clone(&prepared), _held: held });
            }
            Ok(prepared)
        })
    }

    async fn plan_statement(&self, prepared: &mut Prepared) -> Result<()> {
        let parsed = Arc::clone(&prepared.parsed);
        let declared_types = prepared.declared_types.clone();
        match parsed.own() {
            Some(parse::OwnStatement::Acquire(syntax)) => {
                let (plan, types) = acquire::plan(self, &parsed, syntax, &declared_types).await?;
                prepared.settle(types);
                prepared.plan = Plan::Acquire(Box::new(plan));
                return Ok(());
            }
            Some(parse::OwnStatement::Release(_) | parse::OwnStatement::Access(_)) => {
                return Ok(());
            }
            Some(parse::OwnStatement::Subscribe(_) | parse::OwnStatement::Trim) | None => {}
        }
        match parsed.statement() {
            Statement::Query(tree) => match (parsed.subscribes(), parse::body_insert(tree)) {
                (Some(beginning), _) => {
                    let mentioned = parsed.system_columns();
                    let planner = self.enter_planner(mentioned).await?;
                    let (plan, types) =
                        subscribe::plan(&planner, tree, beginning, &declared_types, mentioned)
                            .await?;
                    prepared.result = Some(Arc::clone(&plan.schema));
                    prepared.settle(types);
                    prepared.plan = Plan::Subscribe(Box::new(plan));
                }
                (None, Some(inner)) => {
                    let mut inner = inner.clone();
                    insert::adopt_with(&mut inner, tree)?;
                    let (plan, types) =
                        insert::plan(self, &parsed, &inner, &declared_types).await?;
                    prepared.result = plan.result();
                    prepared.settle(types);
                    prepared.guess(plan.guesses());
                    prepared.plan = Plan::Insert(Box::new(plan));
                }
                (None, None) => {
                    let planner = self.enter_planner(parsed.system_columns()).await?;
                    let (plan, types) =
                        query::plan(&planner, tree, &declared_types, parsed.system_columns())
                            .await?;
                    prepared.result = Some(Arc::clone(&plan.schema));
                    prepared.settle(types);
                    prepared.guess(&plan.guesses);
                    prepared.plan = Plan::Query(plan);
                }
            },
            Statement::Insert(inner) => {
                let (plan, types) = insert::plan(self, &parsed, inner, &declared_types).await?;
                prepared.result = plan.result();
                prepared.settle(types);
                prepared.guess(plan.guesses());
                prepared.plan = Plan::Insert(Box::new(plan));
            }
            statement if explain::is_of_prepared(statement) => {
                prepared.result = Some(text_schema("QUERY PLAN"));
            }
            Statement::Explain { .. } => {
                let (plan, types) = explain::plan(self, &parsed, &declared_types).await?;
                prepared.result = Some(text_schema("QUERY PLAN"));
                prepared.settle(types);
                prepared.guess(plan.guesses());
                prepared.plan = Plan::Explain(plan);
            }
            Statement::ShowVariable { variable } => {
                prepared.result = Some(setting::show_schema(self, variable)?);
            }
            Statement::Execute { name: Some(name), .. } => {
                let name = names::single(name)?;
                // A missing prepared statement is an error at execution.
                prepared.result =
                    self.prepared_statement(&name).and_then(|kept| kept.result().cloned());
            }
            Statement::Delete(tree) => {
                prepared.settle(delete::parameter_types(self, tree, &declared_types).await?);
            }
            Statement::Call(function) => {
                let (plan, types) = call::plan(self, &parsed, function, &declared_types).await?;
                prepared.result = Some(plan.schema());
                prepared.settle(types);
                prepared.plan = Plan::Call(plan);
            }
            Statement::Declare { stmts } => {
                let (_, _, tree) = cursor::declared(stmts)?;
                let planner = self.enter_planner(parsed.system_columns()).await?;
                let mentioned = parsed.system_columns();
                match parsed.subscribes() {
                    Some(beginning) => {
                        let (plan, types) =
                            subscribe::plan(&planner, tree, beginning, &declared_types, mentioned)
                                .await?;
                        prepared.settle(types);
                        prepared.plan = Plan::DeclareSubscribe(Box::new(plan));
                    }
                    None => {
                        let (plan, types) =
                            query::plan(&planner, tree, &declared_types, mentioned).await?;
                        prepared.settle(types);
                        prepared.guess(&plan.guesses);
                        prepared.plan = Plan::Declare(plan);
                    }
                }
            }
            Statement::Fetch { .. } => prepared.result = cursor::fetched(self, parsed.statement())?,
            Statement::Prepare { .. } | Statement::Copy { .. } => {}
            other => {
                let count = parameters::count(other)?;
                if count > 0 {
                    return Err(Error::new(
                        ErrorKind::UndefinedParameter,
                        "there is no parameter $1: only queries, INSERT, DELETE and CALL take parameters",
                    ));
                }
            }
        }
        Ok(())
    }

    // The futures are boxed: otherwise an idle session would reserve space for the largest future.
    async fn execute_statement(
        &self,
        prepared: &Arc<Prepared>,
        values: Vec<ScalarValue>,
        column_change: ColumnChange,
        work: &Arc<Work>,
    ) -> Result<Outcome> {
        self.check_usable(&prepared.parsed)?;
        if reads_or_writes(prepared) {
            self.transaction.note_query();
        }
        let mut prepared = self.refresh(prepared, column_change).await?;
        if let Some(exact) = prepared.exact(&values)? {
            prepared = self.prepare_statement(&prepared.parsed, &exact).await?;
        }
        let prepared = &prepared;
        let types = &prepared.parameter_types;
        let reads = matches!(
            &prepared.plan,
            Plan::Query(_) | Plan::Shaped(..) | Plan::Declare(_) | Plan::Explain(_)
        );
        let values = parameters::bind(types, values, reads)?;
        match &prepared.plan {
            Plan::Query(query) => {
                let run = query::QueryRun::now(work, RowsTag::Select);
                let rows = query::run(self, query, types, &values, run);
                let rows = work.guard(Box::pin(rows)).await?;
                Ok(Outcome::Rows(rows))
            }
            Plan::Shaped(shaped, values) => {
                let Plan::Query(query) = &shaped.plan else {
                    return Err(Error::internal("a shape is no query"));
                };
                let run = query::QueryRun::now(work, RowsTag::Select);
                let rows = query::run(self, query, &shaped.parameter_types, values, run);
                Ok(Outcome::Rows(work.guard(Box::pin(rows)).await?))
            }
            Plan::Declare(query) => {
                let declared = CursorPlan::Query(query);
                let done = cursor::declare(self, &prepared.parsed, declared, (types, &values));
                work.guard(Box::pin(done)).await
            }
            Plan::DeclareSubscribe(subscribe) => {
                let declared = CursorPlan::Subscribe(subscribe);
                let done = cursor::declare(self, &prepared.parsed, declared, (types, &values));
                work.guard(Box::pin(done)).await
            }
            Plan::Subscribe(subscribe) => {
                let rows = subscribe::run(self, subscribe, types, &values, work);
                Ok(Outcome::Rows(work.guard(Box::pin(rows)).await?))
            }
            Plan::Explain(explain) => {
                work.guard(Box::pin(explain::run(self, explain, types, &values, work))).await
            }
            Plan::Insert(insert) => {
                work.guard(Box::pin(insert::run(self, insert, types, &values, work))).await
            }
            Plan::Call(call) => {
                work.guard(Box::pin(call::run(self, call, types, &values, work))).await
            }
            Plan::Acquire(acquire) => {
                work.guard(Box::pin(acquire::run(self, acquire, types, &values, work))).await
            }
            Plan::Tree => match prepared.parsed.statement() {
                Statement::Delete(_) => {
                    let deleting = delete::run(self, &prepared.parsed, types, &values, work);
                    work.guard(Box::pin(deleting)).await
                }
                _ => Box::pin(self.execute_tree(&prepared.parsed, work)).await,
            },
        }
    }

    async fn execute_tree(&self, parsed: &Arc<Parsed>, work: &Arc<Work>) -> Result<Outcome> {
        match parsed.own() {
            Some(parse::OwnStatement::Release(name)) => return acquire::release(self, name),
            Some(parse::OwnStatement::Access(syntax)) => {
                let running = access::run(self, parsed, syntax, work);
                return work.guard(Box::pin(running)).await;
            }
            _ => {}
        }
        let statement = parsed.statement();
        match statement {
            Statement::StartTransaction { .. }
            | Statement::Commit { .. }
            | Statement::Rollback { .. }
            | Statement::Savepoint { .. }
            | Statement::ReleaseSavepoint { .. } => {
                work.guard(transaction::run(self, statement, work)).await
            }
            Statement::Set(set) => setting::set(self, set),
            Statement::Reset(reset) => setting::reset(self, reset),
            Statement::Discard { object_type } => setting::discard(self, object_type),
            Statement::ShowVariable { variable } => setting::show(self, variable),
            Statement::Prepare { .. } => work.guard(setting::prepare(self, parsed)).await,
            Statement::Deallocate { name, .. } => setting::deallocate(self, name),
            Statement::Execute { .. } => Box::pin(setting::execute(self, statement, work)).await,
            explain if explain::is_of_prepared(explain) => {
                Box::pin(setting::explain_execute(self, explain, work)).await
            }
            Statement::Fetch { .. } => work.guard(cursor::fetch(self, statement, work)).await,
            Statement::Close { cursor } => cursor::close(self, cursor),
            Statement::Lock(tree) => lock::run(self, tree),
            Statement::Truncate(tree) => work.guard(delete::truncate::run(self, tree, work)).await,
            // LISTEN does not exist, so UNLISTEN has nothing to do.
            Statement::UNLISTEN { .. } => Ok(Outcome::Done("UNLISTEN".to_string())),
            Statement::Copy { .. } => work.guard(copy::run(self, parsed, work)).await,
            other if ddl::is_definition(other) => {
                work.guard(ddl::run(self, other, parsed.dropping(), work)).await
            }
            other => Err(unsupported_statements::error(other)),
        }
    }

    /// The statement itself, or, if the catalog or the settings have changed, a new plan of the
    /// statement.
    async fn refresh(
        &self,
        prepared: &Arc<Prepared>,
        column_change: ColumnChange,
    ) -> Result<Arc<Prepared>> {
        if matches!(prepared.plan, Plan::Tree)
            || prepared.catalog_version == self.catalog().version()
                && prepared.settings_version == self.variables().version()
        {
            return Ok(Arc::clone(prepared));
        }
        let style = self.text_style();
        if prepared.zone != style.time_zone {
            let before = TextStyle { time_zone: prepared.zone, ..style.clone() };
            zoned_constants::check(self.whole(&prepared.parsed)?.statement(), &before, &style)?;
        }
        let declared_types: Vec<Option<ColumnType>> =
            prepared.parameter_types.iter().cloned().map(Some).collect();
        let declared_types = if prepared.declared_types.is_empty() && declared_types.is_empty() {
            Vec::new()
        } else {
            declared_types
        };
        let fresh = self.prepare_statement(&prepared.parsed, &declared_types).await?;
        let same = match (&fresh.result, &prepared.result) {
            (Some(fresh), Some(before)) => same_shape(fresh, before),
            (None, None) => true,
            _ => false,
        };
        match column_change {
            _ if same => Ok(fresh),
            // Keep the old columns, as for a query that was already running when the table changed.
            ColumnChange::KeepReported => Ok(Arc::clone(prepared)),
            ColumnChange::Refuse => {
                Err(Error::new(ErrorKind::FeatureNotSupported, CACHED_PLAN_CHANGED))
            }
        }
    }

    fn check_usable(&self, parsed: &Parsed) -> Result<()> {
        self.service.check_open()?;
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::ConnectionFailure, "the session is closed"));
        }
        self.check_identity()?;
        let ends_block =
            matches!(parsed.statement(), Statement::Commit { .. } | Statement::Rollback { .. });
        if self.transaction.state() == TransactionState::Failed && !ends_block {
            return Err(transaction::failed());
        }
        if !is_of_the_session(parsed.statement()) {
            clock_is_usable()?;
        }
        // A block with its own definitions also gets the new definitions of other sessions, or
        // fails on a conflict.
        let catalog = &self.parts().catalog;
        if !ends_block
            && let Some(behind) = self.transaction.definition_behind(catalog.state().version())
        {
            self.transaction.define(behind.rebased(catalog)?);
        }
        Ok(())
    }

    /// Registers a statement that starts now, so that a cancel request can stop the statement.
    pub(crate) fn start_work(&self, text: &str) -> Arc<Work> {
        let work = Work::within(self.variables.parsed().statement_timeout_ms, self.memory_pool());
        let mut running = self.running.lock();
        running.retain(|work| work.strong_count() > 0);
        running.push(Arc::downgrade(&work));
        drop(running);
        let now = self.parts().clock.now_ns();
        let mut activity = self.activity.lock();
        activity.query.clear();
        let shown = text.get(..text.floor_char_boundary(SHOWN_TEXT_BYTES_MAX)).unwrap_or(text);
        activity.query.extend(without_secrets(shown).chars().take(SHOWN_TEXT_CHARACTERS_MAX));
        activity.query_started_ns = Some(now);
        activity.changed_ns = now;
        drop(activity);
        work
    }
}

/// Whether PostgreSQL would take a snapshot for the statement. After the first snapshot of a block,
/// the modes of the block can hardly change.
fn reads_or_writes(prepared: &Prepared) -> bool {
    !matches!(prepared.plan, Plan::Tree) || !is_of_the_session(prepared.parsed.statement())
}

/// Whether a statement changes only the session: the statement needs no plan, no snapshot, and no
/// clock of the machine.
fn is_of_the_session(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::StartTransaction { .. }
            | Statement::Commit { .. }
            | Statement::Rollback { .. }
            | Statement::Savepoint { .. }
            | Statement::ReleaseSavepoint { .. }
            | Statement::Set(_)
            | Statement::Reset(_)
            | Statement::Discard { .. }
            | Statement::ShowVariable { .. }
            | Statement::Deallocate { .. }
            | Statement::Close { .. }
            | Statement::Lock(_)
            | Statement::UNLISTEN { .. }
    )
}

/// Checks the machine's clock: DataFusion records the start of a plan, and panics if the clock
/// shows a time before 1970.
fn clock_is_usable() -> Result<()> {
    if std::time::SystemTime::now() >= std::time::UNIX_EPOCH {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::DatetimeOverflow,
        "the machine's clock shows a time before 1970: no statement can run",
    )
    .with_hint("correct the machine's clock; nothing was changed"))
}

/// The schema of a single text column.
pub(crate) fn text_schema(name: &str) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(name, DataType::Utf8, true)]))
}

fn same_shape(left: &Schema, right: &Schema) -> bool {
    left.fields().len() == right.fields().len()
        && left.fields().iter().zip(right.fields()).all(|(left, right)| {
            left.name() == right.name() && left.data_type() == right.data_type()
        })
}
