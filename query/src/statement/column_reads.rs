//! The columns that a statement reads, and the check of the right to read them.
//!
//! ```text
//!   plan right behind the SQL planner ─► columns that reach the result or an expression
//!   each execution, FETCH and batch ───► SELECT on these columns, and unchanged row policies
//! ```
//! The columns come from the plan before any optimization: PostgreSQL needs SELECT on each column
//! that a statement names, even if the result does not depend on the column.

use std::collections::BTreeSet;

use datafusion::{
    common::{Column, DFSchema, tree_node::TreeNodeRecursion},
    datasource::source_as_provider,
    logical_expr::{Distinct, Expr, LogicalPlan, TableScan},
};
use parking_lot::Mutex;
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};
use stratalog_model::{ChronicleDefinition, ChronicleId, ColumnId, Error, ErrorKind, Result};
use stratalog_postgres::errors::from_datafusion;
use stratalog_visor_core::{
    CatalogState,
    access::{Columns, Identity, Object, PolicyCommand, Privilege, RowPolicies, unknown_relation},
};

use crate::table::{PolicyTable, RecordTable, chronicle_of};

/// The chronicles and columns that a plan reads.
#[derive(Debug, Default)]
pub struct ColumnReads {
    tables: Vec<TableRead>,
    chronicles: Vec<ChronicleId>,
    /// The last successful check. An unchanged state needs no further check.
    passed: Mutex<Option<Passed>>,
}

/// The reads of one chronicle.
#[derive(Debug)]
struct TableRead {
    id: ChronicleId,
    name: String,
    /// The columns; `None` for a read of system columns, which needs the right on the whole table.
    columns: Option<Vec<ColumnId>>,
    /// The row policies in the plan, and the identity for which the plan was made; `None` without
    /// row policies.
    policies: Option<(RowPolicies, Identity)>,
}

/// A successful check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Passed {
    version: u64,
    identity: Identity,
    /// The end of the validity of the identity's token, in nanoseconds since 1970.
    expires_ns: Option<i64>,
}

impl ColumnReads {
    /// The reads of a plan that no optimizer has changed.
    ///
    /// # Errors
    /// An error in the traversal of the plan; none is known.
    pub fn of(plan: &LogicalPlan) -> Result<Self> {
        let tables = Collector::tables_of(plan, None)?;
        let chronicles = tables.iter().map(|table| table.id).collect();
        Ok(Self { tables, chronicles, passed: Mutex::default() })
    }

    /// The columns of a chronicle that a plan reads from the table `stored`, which holds rows of the
    /// chronicle; `None` for system columns.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn columns_of(
        plan: &LogicalPlan,
        stored: &str,
        chronicle: &ChronicleDefinition,
    ) -> Result<Option<Vec<ColumnId>>> {
        let tables = Collector::tables_of(plan, Some((stored, chronicle)))?;
        let found = tables.into_iter().find(|table| table.name == stored);
        Ok(found.map_or_else(|| Some(Vec::new()), |found| found.columns))
    }

    /// The chronicles, each once.
    pub fn chronicles(&self) -> &[ChronicleId] {
        &self.chronicles
    }

    /// True if row policies restrict a read.
    pub fn has_policies(&self) -> bool {
        self.tables.iter().any(|table| table.policies.is_some())
    }

    /// Checks that an identity may read the columns in a catalog state, and that the plan contains
    /// the row policies of the identity. `now_ns` is the time, in nanoseconds since 1970.
    ///
    /// # Errors
    /// `InvalidAuthorization`, `InsufficientPrivilege`; `UndefinedTable` for a chronicle that the
    /// identity may not know of; `ObjectNotInPrerequisiteState` if the row policies have changed.
    pub fn check(
        &self,
        state: &CatalogState,
        identity: Identity,
        now_ns: impl Fn() -> i64,
    ) -> Result<()> {
        if self.tables.is_empty() {
            return Ok(());
        }
        let passed = *self.passed.lock();
        if let Some(passed) = passed
            && (passed.version, passed.identity) == (state.version(), identity)
            && passed.expires_ns.is_none_or(|end| now_ns() < end)
        {
            return Ok(());
        }
        let rights = state.access().rights(&identity, now_ns())?;
        for table in &self.tables {
            if state.chronicle_by_id(table.id).is_none() && !rights.is_unlimited() {
                // A running statement may read a table that was dropped in the meantime.
                if passed.is_some_and(|passed| passed.identity == identity) {
                    continue;
                }
                return Err(unknown_relation(&table.name));
            }
            let columns = table.columns.as_deref().map_or(Columns::All, Columns::Some);
            state.check(&rights, Privilege::Select, Object::Chronicle(table.id), columns)?;
            let policies = rights.row_policies(table.id, PolicyCommand::Select);
            let is_planned = match (&table.policies, &policies) {
                (None, None) => true,
                (Some((planned, planned_for)), Some(now)) => {
                    planned == now && *planned_for == identity
                }
                _ => false,
            };
            if !is_planned {
                return Err(Error::new(
                    ErrorKind::ObjectNotInPrerequisiteState,
                    format!("the row policies of table \"{}\" changed after planning", table.name),
                )
                .with_hint("run the statement, or declare the cursor, again"));
            }
        }
        let expires_ns = match identity {
            Identity::Role(roles) => roles
                .token
                .and_then(|(id, _)| state.access().token(id))
                .and_then(|token| token.expires_ns),
            Identity::System | Identity::Trusted => None,
        };
        *self.passed.lock() = Some(Passed { version: state.version(), identity, expires_ns });
        Ok(())
    }

    /// The error for `SET row_security = off` if policies would filter rows; `None` without
    /// policies.
    pub fn filtered(&self) -> Option<Error> {
        let table = self.tables.iter().find(|table| table.policies.is_some())?;
        Some(would_filter(&table.name))
    }
}

/// The error of a statement that row policies would change, after `SET row_security = off`.
pub fn would_filter(table: &str) -> Error {
    Error::new(
        ErrorKind::InsufficientPrivilege,
        format!("query would be affected by row-level security policy for table \"{table}\""),
    )
    .with_hint("SET row_security = on, or ask for the attribute BYPASSRLS")
}

struct Collector<'a> {
    /// A table that holds rows of a chronicle, and the chronicle.
    stored: Option<(&'a str, &'a ChronicleDefinition)>,
    /// The columns of enclosing queries that subqueries name.
    outer: Vec<Column>,
    tables: Vec<TableRead>,
}

impl<'a> Collector<'a> {
    fn tables_of(
        plan: &LogicalPlan,
        stored: Option<(&'a str, &'a ChronicleDefinition)>,
    ) -> Result<Vec<TableRead>> {
        let mut collector = Self { stored, outer: outer_columns(plan)?, tables: Vec::new() };
        collector.visit(plan, all_columns(plan))?;
        Ok(collector.tables)
    }

    /// Visits a node; `required` are the positions of the node's columns that a node above uses.
    fn visit(&mut self, plan: &LogicalPlan, mut required: BTreeSet<usize>) -> Result<()> {
        let schema = plan.schema();
        required
            .extend(self.outer.iter().filter_map(|column| schema.maybe_index_of_column(column)));
        plan.apply_subqueries(|subquery| {
            self.visit(subquery, all_columns(subquery))
                .map_err(|error| datafusion::error::DataFusionError::External(Box::new(error)))?;
            Ok(TreeNodeRecursion::Continue)
        })
        .map_err(from_datafusion)?;
        match plan {
            LogicalPlan::TableScan(scan) => {
                self.note(scan, &required);
                Ok(())
            }
            LogicalPlan::Projection(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Distinct(Distinct::On(_)) => self.below(plan, |_, _| BTreeSet::new()),
            LogicalPlan::Filter(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::SubqueryAlias(_) => self.below(plan, |_, width| {
                required.iter().copied().filter(|at| *at < width).collect()
            }),
            LogicalPlan::Join(join) => {
                let left = join.left.schema().fields().len();
                let right = join.right.schema().fields().len();
                let is_concatenation = schema.fields().len() == left.saturating_add(right);
                self.below(plan, |input, width| match (is_concatenation, input) {
                    (true, 0) => required.iter().copied().filter(|at| *at < left).collect(),
                    (true, _) => required.iter().filter_map(|at| at.checked_sub(left)).collect(),
                    (false, _) => (0..width).collect(),
                })
            }
            _ => self.below(plan, |_, width| (0..width).collect()),
        }
    }

    /// Visits the inputs of a node. `passed` gives the positions of an input's columns that the
    /// node passes on; the expressions of the node need further columns.
    fn below(
        &mut self,
        plan: &LogicalPlan,
        passed: impl Fn(usize, usize) -> BTreeSet<usize>,
    ) -> Result<()> {
        let inputs = plan.inputs();
        let widths = inputs.iter().map(|input| input.schema().fields().len());
        let mut wanted: Vec<BTreeSet<usize>> =
            widths.enumerate().map(|(at, width)| passed(at, width)).collect();
        plan.apply_expressions(|expr| {
            for column in expr.column_refs() {
                let mut found = false;
                for (input, wanted) in inputs.iter().zip(&mut wanted) {
                    if let Some(at) = position(input.schema(), column) {
                        wanted.insert(at);
                        found = true;
                    }
                }
                if !found {
                    // An unknown column may be any column.
                    for (input, wanted) in inputs.iter().zip(&mut wanted) {
                        wanted.extend(0..input.schema().fields().len());
                    }
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .map_err(from_datafusion)?;
        for (input, wanted) in inputs.into_iter().zip(wanted) {
            self.visit(input, wanted)?;
        }
        Ok(())
    }

    fn note(&mut self, scan: &TableScan, required: &BTreeSet<usize>) {
        let Ok(provider) = source_as_provider(&scan.source) else { return };
        let is_stored = self.stored.filter(|(name, _)| *name == scan.table_name.table());
        let (chronicle, name) = match (is_stored, chronicle_of(&provider)) {
            (Some((name, chronicle)), _) => (chronicle, name),
            (None, Some(chronicle)) => (chronicle.as_ref(), chronicle.name.as_str()),
            (None, None) => return,
        };
        let mut columns = match provider.downcast_ref::<RecordTable>() {
            Some(_) => None,
            None => Some(BTreeSet::new()),
        };
        let fields = scan.projected_schema.fields();
        let filtered = scan.filters.iter().flat_map(Expr::column_refs);
        let names = required.iter().filter_map(|at| fields.get(*at).map(|field| field.name()));
        for name in names.chain(filtered.map(|column| &column.name)) {
            match (chronicle.column_named(name), &mut columns) {
                (Some(column), Some(columns)) => {
                    columns.insert(column.id);
                }
                (None, _) => columns = None,
                (Some(_), None) => {}
            }
        }
        let columns = columns.map(|columns| columns.into_iter().collect::<Vec<_>>());
        let policies = provider.downcast_ref::<PolicyTable>().map(PolicyTable::policies);
        let is_known = |known: &&mut TableRead| known.id == chronicle.id && known.name == name;
        if let Some(known) = self.tables.iter_mut().find(is_known) {
            known.columns = match (known.columns.take(), columns) {
                (Some(mut known), Some(more)) => {
                    known.extend(more);
                    Some(known)
                }
                _ => None,
            };
            return;
        }
        let name = name.to_string();
        self.tables.push(TableRead { id: chronicle.id, name, columns, policies });
    }
}

fn position(schema: &DFSchema, column: &Column) -> Option<usize> {
    schema.maybe_index_of_column(column).or_else(|| {
        let mut fields = schema.fields().iter();
        column.relation.is_none().then(|| fields.position(|one| *one.name() == column.name))?
    })
}

fn all_columns(plan: &LogicalPlan) -> BTreeSet<usize> {
    (0..plan.schema().fields().len()).collect()
}

/// The columns of enclosing queries that the subqueries of a plan name.
fn outer_columns(plan: &LogicalPlan) -> Result<Vec<Column>> {
    let mut outer = Vec::new();
    plan.each_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.each(|inner| {
                if let Expr::OuterReferenceColumn(_, column) = inner
                    && !outer.contains(column)
                {
                    outer.push(column.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })
    .map_err(from_datafusion)?;
    Ok(outer)
}
