//! Prevents a wrong type of DISTINCT sums. If all DISTINCT aggregates have the same argument,
//! DataFusion groups twice: the outer groups add up the sums of the inner groups. The sum of a sum
//! may have another type than the sum.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::{
    common::{Result, tree_node::Transformed},
    logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan},
    optimizer::{
        ApplyOrder, OptimizerConfig, OptimizerRule,
        single_distinct_to_groupby::SingleDistinctToGroupBy,
    },
};

/// DataFusion's rule that groups twice, except where the type of a sum would change.
#[derive(Debug)]
pub struct DistinctSums(pub SingleDistinctToGroupBy);

impl DistinctSums {
    /// Creates the rule for DataFusion's list of rules.
    pub fn rule() -> Arc<dyn OptimizerRule + Send + Sync> {
        Arc::new(Self(SingleDistinctToGroupBy::new()))
    }
}

impl OptimizerRule for DistinctSums {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        node: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match &node {
            LogicalPlan::Aggregate(aggregate)
                if aggregate.aggr_expr.iter().any(|expr| widens(expr, aggregate)) =>
            {
                Ok(Transformed::no(node))
            }
            _ => self.0.rewrite(node, config),
        }
    }
}

/// Whether an aggregate is a sum whose type differs from the type of its argument. Sums of double
/// precision and of intervals have the type of the argument.
fn widens(expr: &Expr, aggregate: &Aggregate) -> bool {
    let Expr::AggregateFunction(call) = expr else { return false };
    let of = call.params.args.first().and_then(|of| of.get_type(aggregate.input.schema()).ok());
    let stays = |of: DataType| matches!(of, DataType::Float64 | DataType::Interval(_));
    call.func.name() == "sum" && !call.params.distinct && !of.is_some_and(stays)
}
