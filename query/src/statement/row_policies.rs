//! Row policies: their predicates as expressions of a plan.

use std::sync::Arc;

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    common::{DFSchema, tree_node::TreeNodeRecursion},
    datasource::source_as_provider,
    logical_expr::{Expr, LogicalPlan, lit},
    physical_expr::PhysicalExpr,
    sql::sqlparser::ast::Statement,
};
use stratalog_functions::plan_walk::PlanWalk;
use stratalog_model::{
    ChronicleDefinition, ChronicleId, Error, ErrorKind, Result, TakenKeyAction, TickSource,
};
use stratalog_postgres::{
    dialect,
    errors::from_datafusion,
    names::{self, quoted},
    parse,
};
use stratalog_visor_core::access::{Identity, PolicyCommand, RowPolicies};

use super::column_reads::would_filter;
use crate::{
    Session,
    session::planner::Planner,
    table::{ChronicleTable, PolicyTable, allowed, provider::unqualified},
};

/// The name of the table in the query that plans a predicate. Statements cannot use the name,
/// because it exists only while a predicate is planned.
const POLICED: &str = "$policed";

/// Plans the row policies of all tables in a plan.
///
/// # Errors
/// An error in the predicate of a policy.
pub async fn settle(planner: &Planner, plan: &LogicalPlan) -> Result<()> {
    let mut open = Vec::new();
    plan.each_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && provider.downcast_ref::<PolicyTable>().is_some_and(|one| one.predicate().is_none())
        {
            open.push(provider);
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(from_datafusion)?;
    for provider in open {
        if let Some(table) = provider.downcast_ref::<PolicyTable>() {
            let (policies, _) = table.policies();
            let plain = table.table().of_user_columns();
            table.settle(predicate_of(planner, plain, &policies).await?);
        }
    }
    Ok(())
}

/// The predicate of policies, over the columns of a table.
async fn predicate_of(
    planner: &Planner,
    table: ChronicleTable,
    policies: &RowPolicies,
) -> Result<Expr> {
    let Some(condition) = condition_of(policies)? else { return Ok(lit(false)) };
    let name = table.definition().name.clone();
    let sql = format!("SELECT 1 FROM \"{POLICED}\" AS {} WHERE {condition}", quoted(&name));
    let tree = parse::statements(&sql, usize::MAX)?.into_iter().next();
    let Some(Statement::Query(tree)) = tree.map(|tree| tree.statement) else {
        return Err(Error::internal("the predicate of a row policy is no query"));
    };
    let mut statement = Statement::Query(tree);
    names::schemas::resolve(&mut statement, planner)?;
    dialect::normalize(&mut statement, planner.style())?;
    stratalog_pg_catalog::rewrite(&mut statement);
    planner.replace(POLICED, Arc::new(table));
    let planned = planner.logical_without_policies(&statement).await;
    planner.end_replacement(POLICED);
    let plan = planner.analyze(&planned?)?;
    let mut node = &plan;
    loop {
        match node {
            LogicalPlan::Projection(projection) => node = &projection.input,
            LogicalPlan::SubqueryAlias(alias) => node = &alias.input,
            LogicalPlan::Filter(filter) => return Ok(unqualified(filter.predicate.clone())),
            _ => {
                let message =
                    format!("a row policy of table \"{name}\" is not a condition on rows");
                return Err(Error::new(ErrorKind::FeatureNotSupported, message)
                    .with_hint("create the policy without subqueries and aggregates"));
            }
        }
    }
}

/// The SQL text of a condition for rows that policies allow; `None` if they allow no row.
fn condition_of(policies: &RowPolicies) -> Result<Option<String>> {
    // Each text is parsed alone, so that no text can change the meaning of another.
    let parsed = |text: &String| parse::expression(text).map(|expr| format!("({expr})"));
    let any = policies.any.iter().map(parsed).collect::<Result<Vec<_>>>()?;
    if any.is_empty() {
        return Ok(None);
    }
    let any = format!("({})", any.join(" OR "));
    let all = policies.all.iter().map(parsed).collect::<Result<Vec<_>>>()?;
    Ok(Some([any].into_iter().chain(all).collect::<Vec<_>>().join(" AND ")))
}

/// The checks of the rows of one append by row policies, by chronicle. A check is planned again
/// when the catalog, the role or `row_security` has changed.
#[derive(Debug, Default)]
pub struct AppendChecks(Vec<(ChronicleId, PolicyState, Option<AppendCheck>)>);

/// What a check depends on: the version of the catalog, the identity, and whether policies filter.
type PolicyState = (u64, Identity, bool);

impl AppendChecks {
    /// Checks that policies allow each row that the session appends to a chronicle; the rows have
    /// all columns. `returns` is as for [`Session::append_check`].
    ///
    /// # Errors
    /// The errors of [`Session::append_check`] and [`AppendCheck::check`].
    pub async fn check(
        &mut self,
        session: &Session,
        chronicle: &Arc<ChronicleDefinition>,
        returns: bool,
        rows: &RecordBatch,
    ) -> Result<()> {
        let now = (session.whole_catalog().version(), session.identity(), session.filters_rows());
        let is_current = self.0.iter().any(|(id, of, _)| *id == chronicle.id && *of == now);
        if !is_current {
            let check = session.append_check(chronicle, returns).await?;
            self.0.retain(|(id, ..)| *id != chronicle.id);
            self.0.push((chronicle.id, now, check));
        }
        match self.0.iter().find(|(id, ..)| *id == chronicle.id) {
            Some((.., Some(check))) => check.check(rows),
            _ => Ok(()),
        }
    }
}

/// The check of appended rows by row policies.
#[derive(Debug)]
pub struct AppendCheck {
    predicate: Arc<dyn PhysicalExpr>,
    table: String,
}

impl AppendCheck {
    /// Checks that policies allow each row; the rows have all columns of the table.
    ///
    /// # Errors
    /// `InsufficientPrivilege`; an error of the evaluation.
    pub fn check(&self, rows: &RecordBatch) -> Result<()> {
        let kept = allowed(&self.predicate, rows).map_err(from_datafusion)?;
        match kept.num_rows() == rows.num_rows() {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::InsufficientPrivilege,
                format!("new row violates row-level security policy for table \"{}\"", self.table),
            )
            .with_detail("No row of the statement was stored.")),
        }
    }
}

impl Session {
    /// The row policies of a chronicle that apply to the session's identity now; `None` if no
    /// policy applies.
    ///
    /// # Errors
    /// `InvalidAuthorization`.
    pub(crate) fn row_policies(
        &self,
        chronicle: &ChronicleDefinition,
        command: PolicyCommand,
    ) -> Result<Option<RowPolicies>> {
        let (state, identity) = (self.whole_catalog(), self.identity());
        if identity == Identity::System || !state.access().row_security(chronicle.id).enabled {
            return Ok(None);
        }
        let rights = state.access().rights(&identity, self.parts().catalog.now_ns())?;
        Ok(rights.row_policies(chronicle.id, command))
    }

    /// Refuses a statement that acts on rows which row policies may hide from the session.
    ///
    /// # Errors
    /// `InsufficientPrivilege`.
    pub(crate) fn refuse_under_policies(
        &self,
        chronicle: &ChronicleDefinition,
        statement: &str,
    ) -> Result<()> {
        if self.row_policies(chronicle, PolicyCommand::Select)?.is_none() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::InsufficientPrivilege,
            format!(
                "permission denied: {statement} on table \"{}\", whose row policies apply to the role",
                chronicle.name
            ),
        )
        .with_detail("The statement would act on rows that the policies may hide.")
        .with_hint("the owner of the table, or a role with BYPASSRLS, can run the statement"))
    }

    /// The check of rows that the session appends to a chronicle; `None` if no policy applies.
    /// `returns` is true if the statement also returns the rows: they must then be visible.
    ///
    /// # Errors
    /// `FeatureNotSupported` for policies on a time that the server sets; an error in a policy.
    pub(crate) async fn append_check(
        &self,
        chronicle: &Arc<ChronicleDefinition>,
        returns: bool,
    ) -> Result<Option<AppendCheck>> {
        let mut commands = vec![PolicyCommand::Insert];
        commands.extend(returns.then_some(PolicyCommand::Select));
        let mut predicate: Option<Expr> = None;
        for command in commands {
            let Some(policies) = self.row_policies(chronicle, command)? else { continue };
            if !self.filters_rows() {
                return Err(would_filter(&chronicle.name));
            }
            let planner = self.enter_planner(&[]).await?;
            let table = ChronicleTable::new(Arc::clone(chronicle), &[], false, Arc::default());
            let one = predicate_of(&planner, table, &policies).await?;
            predicate = Some(match predicate {
                Some(before) => before.and(one),
                None => one,
            });
        }
        let Some(predicate) = predicate else { return Ok(None) };
        let is_fixed = chronicle.time_source == TickSource::Column
            && chronicle.collision.on_taken_key() != TakenKeyAction::Move;
        let names_tick = chronicle
            .tick()
            .is_some_and(|tick| predicate.column_refs().iter().any(|one| one.name == tick.name));
        if names_tick && !is_fixed {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                format!(
                    "a row policy of table \"{}\" for appends names the time column, which the server sets",
                    chronicle.name
                ),
            )
            .with_hint("use other columns in WITH CHECK"));
        }
        let schema: SchemaRef = chronicle.arrow_schema();
        let columns = DFSchema::try_from(schema).map_err(from_datafusion)?;
        let planner = self.enter_planner(&[]).await?;
        let compiled = planner.state().create_physical_expr(predicate, &columns);
        let predicate = compiled.map_err(from_datafusion)?;
        Ok(Some(AppendCheck { predicate, table: chronicle.name.clone() }))
    }

    /// False after `SET row_security = off`: a statement then fails instead of being filtered.
    pub(crate) fn filters_rows(&self) -> bool {
        self.setting("row_security").is_none_or(|value| value != "off")
    }
}
