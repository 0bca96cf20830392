//! The plan node of an as-of join, which joins each left row with the first matching right rows in
//! a given order.
//!
//! [`decorrelation`](super::decorrelation) creates the node for a subquery with an ORDER BY and a
//! LIMIT. The query engine has the physical operator of the node.

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

/// The bound of an as-of join: a right row matches a left row only if its `right` value does not
/// pass the `left` value. In an ascending [`AsOf::order`], the `left` value is the lower bound of
/// the `right` value; in a descending order it is the upper bound.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct Until {
    /// An expression over the columns of the left side.
    pub left: Expr,
    /// An expression over the columns of the right side: the first expression of the order, or an
    /// expression that grows with it.
    pub right: Expr,
    /// True if right rows with a value equal to the bound match too.
    pub inclusive: bool,
}

/// An as-of join: joins each row of `left` with the first `rows` rows of `right` in `order` that
/// are equal in `on` and within `until`. Left rows without a match are dropped. NULL does not equal
/// NULL.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AsOf {
    /// The left side, for whose rows the join finds matches.
    pub left: LogicalPlan,
    /// The right side, whose rows are the possible matches.
    pub right: LogicalPlan,
    /// Pairs of expressions that must be equal. The first expression is over the columns of the
    /// left side, the second over the columns of the right side; both have the same type.
    pub on: Vec<(Expr, Expr)>,
    /// The bound of the matches for a left row; `None` without a bound.
    pub until: Option<Until>,
    /// The order of the matches, by expressions over the columns of the right side.
    pub order: Vec<SortExpr>,
    /// The maximum number of matches for a left row; at least 1.
    pub rows: usize,
    schema: DFSchemaRef,
}

impl AsOf {
    /// Creates the join of two plans.
    ///
    /// # Errors
    /// An error if both sides have a column with the same name.
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

    /// The same join with another left side that has the same columns.
    ///
    /// # Errors
    /// See [`Self::try_new`].
    pub fn with_left(&self, left: LogicalPlan) -> Result<Self> {
        let Self { right, on, until, order, rows, .. } = self.clone();
        Self::try_new(left, right, on, until, order, rows)
    }

    /// Wraps the join in a plan node.
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

    /// Filters stay above the join. Below the join, a filter would remove rows before the first
    /// rows are chosen.
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
