//! Makes planning stoppable: before each rule, planning checks whether the statement was cancelled.

use std::sync::Arc;

use datafusion::{
    common::{DFSchema, Result, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{Expr, LogicalPlan, expr_rewriter::FunctionRewrite},
    optimizer::{AnalyzerRule, ApplyOrder, OptimizerConfig, OptimizerRule},
};
use stratalog_functions::governor;

type AnalyzerRuleRef = Arc<dyn AnalyzerRule + Send + Sync>;
type OptimizerRuleRef = Arc<dyn OptimizerRule + Send + Sync>;

/// Makes a rule of the analyzer first check for a cancelled statement.
pub fn analyzer_rule(rule: AnalyzerRuleRef) -> AnalyzerRuleRef {
    Arc::new(StoppableAnalyzerRule(rule))
}

/// Makes a rule of the optimizer first check for a cancelled statement.
pub fn optimizer_rule(rule: OptimizerRuleRef) -> OptimizerRuleRef {
    Arc::new(StoppableOptimizerRule(rule))
}

#[derive(Debug)]
struct StoppableAnalyzerRule(AnalyzerRuleRef);

impl AnalyzerRule for StoppableAnalyzerRule {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        governor::check()?;
        self.0.analyze(plan, config)
    }
}

#[derive(Debug)]
struct StoppableOptimizerRule(OptimizerRuleRef);

impl OptimizerRule for StoppableOptimizerRule {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        governor::check()?;
        self.0.rewrite(plan, config)
    }
}

/// A rewrite that checks for a cancelled statement at every expression, and changes no expression.
#[derive(Debug)]
pub struct ExpressionStopCheck;

impl FunctionRewrite for ExpressionStopCheck {
    fn name(&self) -> &str {
        "stops"
    }

    fn rewrite(&self, expr: Expr, _: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        governor::check()?;
        Ok(Transformed::no(expr))
    }
}
