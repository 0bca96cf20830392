//! WITH queries that call volatile functions. DataFusion plans each mention of a WITH query by
//! itself; such a query is computed once, and every mention reads the same rows.
//!
//! ```text
//!   SubqueryAlias: q         SubqueryAlias: q
//!     Projection: random() ─►  Once: #0
//!                                Projection: random()
//! ```

mod execution;

use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

use datafusion::{
    common::{
        DFSchemaRef, Result,
        tree_node::{Transformed, TreeNodeRecursion},
    },
    error::DataFusionError,
    logical_expr::{Expr, Extension, LogicalPlan, SubqueryAlias, UserDefinedLogicalNodeCore},
};

pub use self::execution::{OnceExec, Shared};
use crate::statement::insert::compute::is_volatile;

/// A plan whose rows are computed once for all nodes with the same number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Once {
    pub number: usize,
    input: LogicalPlan,
}

/// The plan as the SQL planner makes it, in which volatile WITH queries with several mentions are
/// computed once.
///
/// # Errors
/// None that is known.
pub fn shared(plan: LogicalPlan) -> Result<LogicalPlan> {
    // The mentions of a WITH query share its plan.
    let mut mentions: HashMap<*const LogicalPlan, (usize, Arc<LogicalPlan>)> = HashMap::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::SubqueryAlias(alias) = node {
            let known = mentions
                .entry(Arc::as_ptr(&alias.input))
                .or_insert_with(|| (0, Arc::clone(&alias.input)));
            known.0 += 1;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    mentions.retain(|_, (count, input)| *count > 1 && is_volatile(input).unwrap_or(true));
    if mentions.is_empty() {
        return Ok(plan);
    }
    let numbers: HashMap<*const LogicalPlan, usize> =
        mentions.keys().enumerate().map(|(number, input)| (*input, number)).collect();
    plan.transform_down_with_subqueries(|node| {
        let LogicalPlan::SubqueryAlias(alias) = node else { return Ok(Transformed::no(node)) };
        let Some(number) = numbers.get(&Arc::as_ptr(&alias.input)) else {
            return Ok(Transformed::no(LogicalPlan::SubqueryAlias(alias)));
        };
        let once = Once { number: *number, input: LogicalPlan::clone(&alias.input) };
        let input = Arc::new(LogicalPlan::Extension(Extension { node: Arc::new(once) }));
        SubqueryAlias::try_new(input, alias.alias)
            .map(|alias| Transformed::yes(LogicalPlan::SubqueryAlias(alias)))
    })
    .map(|plan| plan.data)
}

impl PartialOrd for Once {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for Once {
    fn name(&self) -> &str {
        "Once"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    /// A condition of one mention must not change the rows of the others.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.input.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Once: #{}", self.number)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        match <[LogicalPlan; 1]>::try_from(inputs) {
            Ok([input]) => Ok(Self { number: self.number, input }),
            Err(_) => {
                Err(DataFusionError::Internal("a shared WITH query has one input".to_string()))
            }
        }
    }
}
