//! The node of an as-of join: each left row is joined with the first rows of the right side, in an
//! order.
//!
//! [`decorrelation`](super::decorrelation) makes the node of a subquery with an ORDER BY and a LIMIT.
//! The executor of the node is part of the query engine.

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

/// The upper bound of a left row: the row matches the right rows with a `right` value not behind
/// the row's `left` value, in the reverse of [`AsOf::order`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct Until {
    /// An expression over the left side's columns.
    pub left: Expr,
    /// An expression over the right side's columns: the first expression of the order, or an
    /// expression that grows with the first one.
    pub right: Expr,
    /// True if right rows with an equal value match too.
    pub inclusive: bool,
}

/// For each row of `left`, the first `rows` rows of `right` in `order` that are equal in `on` and
/// within `until`. The join drops left rows without a match. NULL equals nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AsOf {
    /// The rows that look for a match.
    pub left: LogicalPlan,
    /// The rows that match.
    pub right: LogicalPlan,
    /// Pairs of equal expressions of one type: the first over the left side's columns, the second
    /// over the right side's columns.
    pub on: Vec<(Expr, Expr)>,
    /// The bound of the matches of a left row.
    pub until: Option<Until>,
    /// Expressions over the right side's columns.
    pub order: Vec<SortExpr>,
    /// At least one.
    pub rows: usize,
    schema: DFSchemaRef,
}

impl AsOf {
    /// Joins two plans.
    ///
    /// # Errors
    /// Both sides have a column with the same name.
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

    /// The same join with another left plan that has the same columns.
    ///
    /// # Errors
    /// As [`Self::try_new`].
    pub fn with_left(&self, left: LogicalPlan) -> Result<Self> {
        let Self { right, on, until, order, rows, .. } = self.clone();
        Self::try_new(left, right, on, until, order, rows)
    }

    /// The join as a node of a plan.
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

    /// Predicates stay above the join: below the join, a predicate would change which rows come
    /// last.
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
