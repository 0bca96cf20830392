//! The DataFusion state of a session, which plans statements and starts plans.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::Schema,
};
use chrono::{DateTime, Utc};
use datafusion::{
    catalog::TableProvider,
    common::DFSchema,
    execution::{
        SendableRecordBatchStream, TaskContext, runtime_env::RuntimeEnv,
        session_state::SessionState,
    },
    logical_expr::{
        ColumnarValue, Expr, LogicalPlan, physical_planning_context::PhysicalPlanningContext,
    },
    physical_expr::{PhysicalExpr, create_physical_expr},
    physical_plan::{ExecutionPlan, execute_stream},
    scalar::ScalarValue,
    sql::sqlparser::ast::Statement,
};
use parking_lot::Mutex;
use stratalog_functions::{
    governor::{self, Evaluation, evaluating},
    style::set_style,
};
use stratalog_model::{ChronicleDefinition, Result, Snapshot};
use stratalog_pg_catalog::table_of_regclass;
use stratalog_postgres::{
    errors::{from_arrow, from_datafusion},
    names::NameResolver,
    planning::{self, nested},
};
use stratalog_text::TextStyle;

use super::catalog::Scope;
use crate::{statement::row_policies, table::SnapshotPin};

/// Plans one statement at a time.
pub struct Planner {
    state: SessionState,
    tasks: Arc<TaskContext>,
    scope: Arc<Mutex<Scope>>,
    pin: Arc<SnapshotPin>,
    time_zone: String,
    style: TextStyle,
}

impl std::fmt::Debug for Planner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Planner").field("time_zone", &self.time_zone).finish_non_exhaustive()
    }
}

impl Planner {
    /// A planner over `state`. The catalog of `state` reads `scope`, and the tables read `pin`.
    pub fn new(state: SessionState, scope: Arc<Mutex<Scope>>, pin: Arc<SnapshotPin>) -> Self {
        let tasks = tasks_of(&state);
        Self { state, tasks, scope, pin, time_zone: String::new(), style: TextStyle::default() }
    }

    /// Prepares the planner for the next statement: `scope` resolves names, `style` defines the
    /// format of text values, and `now_ns` is the value of `now()`.
    pub fn enter(&mut self, scope: Scope, style: TextStyle, now_ns: i64) {
        let now_ns = statement_time(now_ns);
        *self.scope.lock() = scope;
        let style = TextStyle { now_ns: Some(now_ns), ..style };
        let same_style = TextStyle { now_ns: self.style.now_ns, ..style.clone() } == self.style;
        self.style = style;
        let time_zone = self.style.time_zone.arrow_name();
        if self.time_zone != time_zone || !same_style {
            self.time_zone.clone_from(&time_zone);
            let options = self.state.config_mut().options_mut();
            options.execution.time_zone = Some(time_zone);
            set_style(options, self.style.clone());
            self.tasks = tasks_of(&self.state);
        }
        let now: DateTime<Utc> = DateTime::from_timestamp_nanos(now_ns);
        let options = Arc::clone(self.state.config_options());
        let properties = self.state.execution_props_mut();
        properties.mark_start_execution(options);
        properties.query_execution_start_time = Some(now);
    }

    /// Sets whether the next statement may select ungrouped columns that depend on the primary keys
    /// in GROUP BY.
    pub fn with_keys(&self, keyed: bool) {
        self.scope.lock().keyed = keyed;
    }

    /// Makes an unqualified name refer to `table`, for the next statement.
    pub fn replace(&self, name: &str, table: Arc<dyn TableProvider>) {
        self.scope.lock().replaced.push((name.to_string(), table));
    }

    /// The logical plan of a query.
    ///
    /// # Errors
    /// The errors of the query; `FeatureNotSupported` if the statement is not a query.
    pub async fn logical(&self, statement: &Statement) -> Result<LogicalPlan> {
        let plan = planning::logical(&self.state, statement).await?;
        row_policies::settle(self, &plan).await?;
        Ok(plan)
    }

    /// Like [`Self::logical`], for the predicate of a row policy.
    ///
    /// # Errors
    /// See [`Self::logical`].
    pub async fn logical_without_policies(&self, statement: &Statement) -> Result<LogicalPlan> {
        planning::logical(&self.state, statement).await
    }

    /// Ends a replacement by [`Self::replace`].
    pub fn end_replacement(&self, name: &str) {
        self.scope.lock().replaced.retain(|(replaced, _)| replaced != name);
    }

    /// DataFusion's state.
    pub fn state(&self) -> &SessionState {
        &self.state
    }

    /// The session's format for parsing and printing values.
    pub fn style(&self) -> &TextStyle {
        &self.style
    }

    /// Runs the analysis of a logical plan, which determines the final types.
    ///
    /// # Errors
    /// Errors of types that do not match.
    pub fn analyze(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        let options = Arc::clone(self.state.config_options());
        let analyzer = self.state.analyzer();
        evaluating(Evaluation::Planning, || nested::analyzed(analyzer, plan.clone(), &options))
            .map_err(from_datafusion)
    }

    /// Optimizes a logical plan.
    pub fn optimize(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        evaluating(Evaluation::Planning, || nested::optimized(&self.state, plan))
            .map_err(from_datafusion)
    }

    /// Compiles an analyzed expression over `columns`; `None` if the compilation fails.
    pub fn compile(&self, expr: Expr, columns: &DFSchema) -> Option<Arc<dyn PhysicalExpr>> {
        create_physical_expr(
            &expr,
            columns,
            self.state.execution_props(),
            &PhysicalPlanningContext::default(),
        )
        .ok()
    }

    /// Evaluates an analyzed expression; `None` if the expression names columns or does not
    /// compile.
    ///
    /// # Errors
    /// Errors of the computation.
    pub fn value_of(&self, expr: &Expr) -> Result<Option<ScalarValue>> {
        if !expr.column_refs().is_empty() {
            return Ok(None);
        }
        let Some(compiled) = self.compile(expr.clone(), &DFSchema::empty()) else {
            return Ok(None);
        };
        let schema = Arc::new(Schema::empty());
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(schema, Vec::new(), &options);
        let value = compiled.evaluate(&row.map_err(from_arrow)?).map_err(from_datafusion)?;
        match value {
            ColumnarValue::Scalar(value) => Ok(Some(value)),
            ColumnarValue::Array(array) => {
                ScalarValue::try_from_array(&array, 0).map(Some).map_err(from_datafusion)
            }
        }
    }

    /// Creates the physical plan of a logical plan; its scans read `snapshot`.
    pub async fn physical(
        &self,
        plan: &LogicalPlan,
        snapshot: Arc<dyn Snapshot>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.pin.set(Some(snapshot));
        let planned = governor::planning(async {
            let plan = nested::optimized(&self.state, plan)?;
            self.state.query_planner().create_physical_plan(&plan, &self.state).await
        })
        .await;
        let planned = planned.map_err(from_datafusion);
        self.pin.set(None);
        planned
    }

    /// The DataFusion task context that starts plans.
    pub fn tasks(&self) -> Arc<TaskContext> {
        Arc::clone(&self.tasks)
    }
}

impl NameResolver for Planner {
    fn table_named(&self, name: &str) -> Result<Arc<ChronicleDefinition>> {
        let scope = self.scope.lock();
        table_of_regclass(&scope.state, &scope.database, &scope.search_path, name)
    }

    fn identity(&self, parts: &[String]) -> Option<(String, String)> {
        let (database, path) = {
            let scope = self.scope.lock();
            let implicit = "pg_catalog".to_string();
            let path: Vec<String> = match scope.search_path.contains(&implicit) {
                true => scope.search_path.clone(),
                false => [implicit].into_iter().chain(scope.search_path.iter().cloned()).collect(),
            };
            (scope.database.clone(), path)
        };
        match parts {
            [schema, table] => Some((schema.clone(), table.clone())),
            [named, schema, table] if *named == database => Some((schema.clone(), table.clone())),
            [table] => {
                let catalog = self.state.catalog_list().catalog(&database)?;
                let has_it = |schema: &String| {
                    catalog.schema(schema).is_some_and(|schema| schema.table_exist(table))
                };
                Some((path.into_iter().find(has_it)?, table.clone()))
            }
            _ => None,
        }
    }

    fn tick_column(&self, parts: &[String]) -> Option<String> {
        let (schema, table) = self.identity(parts)?;
        let scope = self.scope.lock();
        let chronicle = scope.state.chronicle(&scope.database, &schema, &table)?;
        let tick = chronicle.columns.iter().find(|column| column.id == chronicle.tick_column)?;
        Some(tick.name.clone())
    }

    fn is_database(&self, name: &str) -> bool {
        self.scope.lock().database == name
    }

    fn is_aggregate(&self, name: &str) -> bool {
        self.state.aggregate_functions().contains_key(name)
    }

    fn is_window(&self, name: &str) -> bool {
        self.state.window_functions().contains_key(name)
    }

    fn is_scalar(&self, name: &str) -> bool {
        self.state.scalar_functions().contains_key(name)
    }
}

/// The value of `now()` for a statement, in nanoseconds since 1970. The value is rounded down to
/// whole microseconds as in PostgreSQL, because clients read no more digits.
pub fn statement_time(now_ns: i64) -> i64 {
    now_ns - now_ns.rem_euclid(1_000)
}

/// Starts a physical plan and returns its stream of batches.
pub fn start(
    plan: Arc<dyn ExecutionPlan>,
    tasks: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    execute_stream(plan, tasks).map_err(from_datafusion)
}

/// A task context without the function registries, which running plans never consult.
fn tasks_of(state: &SessionState) -> Arc<TaskContext> {
    let runtime: Arc<RuntimeEnv> = Arc::clone(state.runtime_env());
    Arc::new(TaskContext::new(
        None,
        state.session_id().to_string(),
        state.config().clone(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        runtime,
    ))
}
