//! Evaluation of values that need a query plan: expressions in VALUES, and defaults.

use std::{fmt::Display, sync::Arc};

use arrow::{
    array::ArrayRef,
    datatypes::{FieldRef, Schema},
};
use datafusion::{
    common::tree_node::TreeNodeRecursion, logical_expr::LogicalPlan, scalar::ScalarValue,
};
use futures::TryStreamExt;
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};
use stratalog_model::{ColumnType, Error, ErrorKind, Result, Snapshot};
use stratalog_postgres::{
    dialect,
    errors::{from_arrow, from_datafusion},
    names, parameters, parse,
    types::round_as_numerics,
};
use tokio::sync::OnceCell;

use crate::{
    RowsTag, Session,
    session::work::Work,
    statement::{column_reads::ColumnReads, query},
};

/// The computed values of one expression, one value for each row.
#[derive(Debug, Clone)]
pub struct ComputedValues {
    /// The values.
    pub array: ArrayRef,
    /// The type of the values.
    pub field: FieldRef,
}

/// The context in which the expressions of one statement are evaluated. All expressions see the
/// same events.
#[derive(Debug)]
pub struct ComputeContext<'a> {
    /// The session.
    pub session: &'a Session,
    /// The work of the statement, for cancellation.
    work: Arc<Work>,
    types: &'a [ColumnType],
    values: &'a [ScalarValue],
    snapshot: OnceCell<Arc<dyn Snapshot>>,
}

impl<'a> ComputeContext<'a> {
    /// The context of a statement with the given parameters.
    pub fn new(
        session: &'a Session,
        work: &Arc<Work>,
        types: &'a [ColumnType],
        values: &'a [ScalarValue],
    ) -> Self {
        Self { session, work: Arc::clone(work), types, values, snapshot: OnceCell::new() }
    }

    /// A context without parameters, for values that no statement stores.
    pub fn constants(session: &'a Session) -> Self {
        Self::new(session, &Work::within(0, session.memory_pool()), &[], &[])
    }

    /// The value of a parameter, counted from 0, and its type.
    ///
    /// # Errors
    /// `UndefinedParameter`.
    pub fn parameter(&self, at: usize) -> Result<(&ScalarValue, &ColumnType)> {
        let value = self.values.get(at).ok_or_else(|| {
            Error::new(ErrorKind::UndefinedParameter, format!("there is no parameter ${}", at + 1))
        })?;
        Ok((value, self.types.get(at).unwrap_or(&ColumnType::Text)))
    }

    /// The snapshot that all expressions see. The first call takes the snapshot: a call before the
    /// statement stores events returns a snapshot without these events.
    ///
    /// # Errors
    /// See `Transaction::snapshot`.
    pub async fn pin(&self) -> Result<Arc<dyn Snapshot>> {
        let (session, store) = (self.session, self.session.store().as_ref());
        let transaction = &session.transaction;
        let pinned = self
            .snapshot
            .get_or_try_init(async || transaction.snapshot(store, &transaction.written()).await);
        pinned.await.cloned()
    }

    /// Runs a plan from [`plan`] or [`plan_repeated`], and returns the values of each expression.
    ///
    /// # Errors
    /// An error of the computation.
    pub async fn run(&self, plan: &LogicalPlan) -> Result<Vec<ComputedValues>> {
        let plan = if self.types.is_empty() {
            plan.clone()
        } else {
            plan.clone()
                .with_param_values(parameters::for_plan(self.types, self.values))
                .map_err(from_datafusion)?
        };
        let reads = Arc::new(ColumnReads::of(&plan)?);
        let snapshot = match reads.chronicles().is_empty() {
            true => self.session.store().snapshot(),
            false => self.pin().await?,
        };
        let pinned = self.session.pin_over(snapshot, &reads)?;
        let fields: Vec<FieldRef> = plan
            .schema()
            .fields()
            .iter()
            .map(|field| Arc::new(field.as_ref().clone().with_nullable(true)))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let rows = query::run_plan(
            self.session,
            &plan,
            Arc::clone(&schema),
            &pinned,
            query::QueryRun::now(&self.work, RowsTag::Select),
        )
        .await?;
        let batches: Vec<_> = rows.try_collect().await?;
        let batch = arrow::compute::concat_batches(&schema, &batches).map_err(from_arrow)?;
        let computed = batch.columns().iter().zip(schema.fields());
        Ok(computed
            .map(|(array, field)| ComputedValues {
                array: Arc::clone(array),
                field: Arc::clone(field),
            })
            .collect())
    }
}

/// Plans expressions without a table: `SELECT e1, e2 …`. `place` is the clause that contains the
/// expressions, for error messages. `is_integer` tells for each expression whether an integer
/// column stores the value.
///
/// # Errors
/// An error in an expression; the errors of [`check_one_row`].
pub async fn plan<E: Display>(
    session: &Session,
    expressions: impl IntoIterator<Item = E>,
    place: &str,
    is_integer: impl Fn(usize) -> bool,
) -> Result<LogicalPlan> {
    let list: Vec<String> = expressions
        .into_iter()
        .enumerate()
        .map(|(at, expr)| format!("{expr} AS \"{at}\""))
        .collect();
    let check = |plan: LogicalPlan| {
        check_one_row(&plan, None, place)?;
        round_as_numerics(plan, is_integer).map_err(from_datafusion)
    };
    plan_text(session, &format!("SELECT {}", list.join(", ")), check).await
}

/// Checks that each expression has one value for each row: refuses aggregates, window functions and
/// set-returning functions outside of subqueries. `plan` is not yet analyzed. `table` is the table
/// whose rows the expressions use.
///
/// # Errors
/// `GroupingError` for aggregates, `WindowingError` for window functions, `FeatureNotSupported` for
/// set-returning functions.
pub fn check_one_row(plan: &LogicalPlan, table: Option<&str>, place: &str) -> Result<()> {
    let mut refused = None;
    let _ = plan.each(|node| {
        let (kind, functions) = match node {
            LogicalPlan::Aggregate(_) => (ErrorKind::GroupingError, "aggregate functions"),
            LogicalPlan::Window(_) => (ErrorKind::WindowingError, "window functions"),
            LogicalPlan::TableScan(scan) if table == Some(scan.table_name.table()) => {
                return Ok(TreeNodeRecursion::Continue);
            }
            // DataFusion plans a set-returning function as an unnest, or as a scan of a generated
            // series.
            LogicalPlan::Unnest(_) | LogicalPlan::TableScan(_) => {
                (ErrorKind::FeatureNotSupported, "set-returning functions")
            }
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        refused = Some(Error::new(kind, format!("{functions} are not allowed in {place}")));
        Ok(TreeNodeRecursion::Stop)
    });
    refused.map_or(Ok(()), Err)
}

/// Plans one expression that is evaluated separately for each of `rows` rows.
///
/// # Errors
/// An error in the expression.
pub async fn plan_repeated(
    session: &Session,
    expression: impl Display,
    rows: usize,
) -> Result<LogicalPlan> {
    let sql = format!("SELECT {expression} AS \"0\" FROM generate_series(1, {rows}) AS \"rows\"");
    plan_text(session, &sql, Ok).await
}

async fn plan_text(
    session: &Session,
    sql: &str,
    check: impl FnOnce(LogicalPlan) -> Result<LogicalPlan>,
) -> Result<LogicalPlan> {
    let mut tree = parse::statements(sql, usize::MAX)?
        .into_iter()
        .next()
        .ok_or_else(|| Error::internal("no expressions"))?;
    let planner = session.enter_planner(&[]).await?;
    names::schemas::resolve(&mut tree.statement, &*planner)?;
    dialect::normalize(&mut tree.statement, planner.style())?;
    stratalog_pg_catalog::rewrite(&mut tree.statement);
    let plan = check(planner.logical(&tree.statement).await?)?;
    Ok(planner.analyze(&plan).unwrap_or(plan))
}

/// True if different executions of a plan may return different values.
///
/// # Errors
/// An error in the traversal of the plan; none is known.
pub fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut volatile = false;
    plan.each_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.each(|inner| {
                volatile |= inner.is_volatile_node();
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })
    .map_err(from_datafusion)?;
    Ok(volatile)
}
