//! As-of joins: to each row on the left, the rows on the right that come last before it.
//!
//! A plan node of our own for the question that time series ask most: of each trade the quote
//! of that moment, of each alarm the last state of its machine. In SQL it is a subquery with
//! an ORDER BY and a LIMIT ([`unnested`](crate::rules::unnested) finds it).
//!
//! ```text
//!   left  (key a, time 10:05)        ─►  the row a 10:04
//!   right (a 10:01) (a 10:04) (a 10:07) (b 10:05)
//! ```
//!
//! Both sides come sorted by what they are joined on and then by time, so one pass over both
//! is enough, and no more rows are in memory than one answer has. Joining first and numbering
//! after, as SQL says it, makes as many rows as there are pairs.

mod execution;
mod merge;
mod planner;

use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

use datafusion::{
    common::{DFSchema, DFSchemaRef, Result},
    logical_expr::{Expr, Extension, LogicalPlan, SortExpr, UserDefinedLogicalNodeCore},
};

pub use self::{execution::AsOfExec, planner::WithAsOf};

/// How far the rows on the right go that one on the left takes: those whose `right` is not
/// behind its `left` in the order that is the reverse of [`AsOf::order`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct Until {
    /// Of the left side's columns.
    pub left: Expr,
    /// Of the right side's columns: the first expression of the order, or one that grows with it.
    pub right: Expr,
    /// Whether those are taken that are equal.
    pub inclusive: bool,
}

/// To each row of `left` the first `rows` rows of `right` in `order` that are equal to it in
/// `on` and within `until`. Rows without any are left out. NULL is equal to nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AsOf {
    pub left: LogicalPlan,
    pub right: LogicalPlan,
    /// Pairs of one type that are equal; of the left side's columns, and of the right side's.
    pub on: Vec<(Expr, Expr)>,
    pub until: Option<Until>,
    /// Of the right side's columns.
    pub order: Vec<SortExpr>,
    /// At least one.
    pub rows: usize,
    schema: DFSchemaRef,
}

impl AsOf {
    /// # Errors
    /// Columns of both sides with one name.
    pub fn try_new(
        left: LogicalPlan,
        right: LogicalPlan,
        on: Vec<(Expr, Expr)>,
        until: Option<Until>,
        order: Vec<SortExpr>,
        rows: usize,
    ) -> Result<Self> {
        let fields = left.schema().iter().chain(right.schema().iter());
        let fields = fields.map(|(table, field)| (table.cloned(), Arc::clone(field))).collect();
        let schema = Arc::new(DFSchema::new_with_metadata(fields, HashMap::new())?);
        Ok(Self { left, right, on, until, order, rows, schema })
    }

    /// The same with other rows on the left, which have its columns.
    ///
    /// # Errors
    /// As [`Self::try_new`].
    pub fn with_left(&self, left: LogicalPlan) -> Result<Self> {
        let Self { right, on, until, order, rows, .. } = self.clone();
        Self::try_new(left, right, on, until, order, rows)
    }

    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }
}

impl PartialOrd for AsOf {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for AsOf {
    fn name(&self) -> &str {
        "AsOf"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let on = self.on.iter().flat_map(|(left, right)| [left, right]);
        let until = self.until.iter().flat_map(|until| [&until.left, &until.right]);
        on.chain(until).chain(self.order.iter().map(|by| &by.expr)).cloned().collect()
    }

    /// No condition may go below: it would change which rows come last.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsOf: rows={}", self.rows)?;
        for (left, right) in &self.on {
            write!(f, ", {left} = {right}")?;
        }
        if let Some(until) = &self.until {
            write!(f, ", until={}{}", until.left, if until.inclusive { "" } else { " exclusive" })?;
        }
        let order: Vec<String> = self.order.iter().map(ToString::to_string).collect();
        write!(f, ", order=[{}]", order.join(", "))
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let (Ok([left, right]), mut exprs) =
            (<[LogicalPlan; 2]>::try_from(inputs), exprs.into_iter())
        else {
            return Err(datafusion::error::DataFusionError::Internal(
                "an as-of join has two inputs".to_string(),
            ));
        };
        let mut next = |old: &Expr| exprs.next().unwrap_or_else(|| old.clone());
        let on = self.on.iter().map(|(left, right)| (next(left), next(right))).collect();
        let until = self.until.as_ref().map(|until| Until {
            left: next(&until.left),
            right: next(&until.right),
            inclusive: until.inclusive,
        });
        let order = self.order.iter().map(|by| SortExpr { expr: next(&by.expr), ..*by }).collect();
        Self::try_new(left, right, on, until, order, self.rows)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let of_left = self.left.schema().fields().len();
        let (left, right): (Vec<usize>, Vec<usize>) =
            output_columns.iter().partition(|column| **column < of_left);
        Some(vec![left, right.into_iter().map(|column| column - of_left).collect()])
    }
}
