//! Runs DataFusion's simplifier of expressions without the rewrites that change a result.
//!
//! Some rewrites ignore NULL, signed zeros or volatility. Each line has the rewrite, and the
//! correct result or the condition that it misses:
//!
//! ```text
//!   v NOT IN ('a') OR v NOT IN ('b')   ─►  true       must be NULL for v NULL
//!   v IN (1) AND v IN (2)              ─►  false      must be NULL for v NULL
//!   v IN (a) AND v IN (b)              ─►  false      wrong if a = b
//!   f = 0.0 OR f = 1 OR …              ─►  f IN (…)   compares bits, and misses -0.0
//!   v # v                              ─►  0          must be NULL for v NULL
//!   CASE WHEN random() < x THEN a …    ─►  (random() < x AND a) OR (NOT random() < x AND …)
//! ```
//!
//! Before each run of the simplifier, this rule wraps an operand of such a pattern in the function
//! `as_written`, which returns its argument. The pattern then no longer matches.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{
    common::{
        DFSchema, Result, ScalarValue,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    logical_expr::{
        BinaryExpr, Case, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator,
        ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        expr::{InList, ScalarFunction},
        expr_rewriter::NamePreserver,
        lit,
        utils::merge_schema,
    },
    optimizer::{
        ApplyOrder, OptimizerConfig, OptimizerRule, simplify_expressions::SimplifyExpressions,
    },
};
use stratalog_functions::plan_walk::TreeWalk;
use stratalog_model::Error;

use crate::{errors::to_datafusion, rules::equality::float_keys::FloatKeys};

mod lists;

/// The rule that protects expressions, and then runs the simplifier.
#[derive(Debug)]
pub struct GuardedSimplifier {
    inner: SimplifyExpressions,
    guard: Guard,
}

impl GuardedSimplifier {
    /// Creates the rule for DataFusion's list of rules.
    pub fn rule() -> Arc<dyn OptimizerRule + Send + Sync> {
        Arc::new(Self { inner: SimplifyExpressions::new(), guard: Guard::default() })
    }
}

impl OptimizerRule for GuardedSimplifier {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.inner.apply_order()
    }

    fn rewrite(
        &self,
        node: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let guarded = self.guard.of_node(node)?;
        let simplified = self.inner.rewrite(guarded.data, config)?;
        Ok(Transformed::new_transformed(
            simplified.data,
            guarded.transformed || simplified.transformed,
        ))
    }
}

/// Wraps operands of unsafe patterns in `as_written`.
#[derive(Debug)]
struct Guard {
    as_written: Arc<ScalarUDF>,
    float_keys: FloatKeys,
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            as_written: Arc::new(ScalarUDF::new_from_impl(SimplifierBarrier::default())),
            float_keys: FloatKeys::default(),
        }
    }
}

impl Guard {
    fn of_node(&self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let mut found = false;
        node.apply_expressions(|expr| {
            found = found || has_pattern(expr)?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if !found {
            return Ok(Transformed::no(node));
        }
        let schema = match &node {
            LogicalPlan::TableScan(scan) => {
                let schema = scan.source.schema();
                DFSchema::try_from_qualified_schema(scan.table_name.clone(), &schema)?
            }
            node => merge_schema(&node.inputs()),
        };
        // In the condition of a filter, NULL and false have the same effect.
        let is_filter = matches!(node, LogicalPlan::Filter(_) | LogicalPlan::TableScan(_));
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let lists = lists::kept_apart(expr, &schema, is_filter, self)?;
            let operands = lists.data.change_up(|expr| self.of_operator(expr, &schema))?;
            let changed = lists.transformed || operands.transformed;
            Ok(Transformed::new_transformed(name.restore(operands.data), changed))
        })
    }

    /// Wraps the expression in `as_written`.
    fn behind_barrier(&self, expr: Expr) -> Expr {
        let function = Arc::clone(&self.as_written);
        Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![expr]))
    }

    fn of_operator(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::BitwiseXor, right })
                if !(self.is_kept(&right) || is_constant(&left) || is_constant(&right)) =>
            {
                // Operands that differ now may become equal by another simplification.
                let right = Box::new(self.behind_barrier(*right));
                let op = Operator::BitwiseXor;
                Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right })))
            }
            Expr::Case(Case { expr: None, when_then_expr, else_expr })
                if when_then_expr.iter().any(|(when, _)| when.is_volatile()) =>
            {
                // The simplifier has no pattern for `CASE true WHEN …`.
                let expr = Some(Box::new(lit(true)));
                Ok(Transformed::yes(Expr::Case(Case { expr, when_then_expr, else_expr })))
            }
            Expr::InList(list) => self.of_floats(list, schema),
            other => Ok(Transformed::no(other)),
        }
    }

    fn is_kept(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::ScalarFunction(call) if call.func == self.as_written)
    }

    /// Protects an IN list of floats that may contain a zero, because the simplifier's set of
    /// values compares bits.
    fn of_floats(&self, mut list: InList, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let is_float = |expr: &Expr| {
            matches!(expr.get_type(schema), Ok(DataType::Float32 | DataType::Float64))
        };
        let may_be_zero = |value: &Expr| match value {
            Expr::Literal(value, _) => is_float_zero(value),
            _ => true,
        };
        if !is_float(&list.expr) || !list.list.iter().any(may_be_zero) {
            return Ok(Transformed::no(Expr::InList(list)));
        }
        let mut changed = false;
        for value in list.list.iter_mut().chain([list.expr.as_mut()]) {
            match value {
                Expr::Literal(literal, _) if is_float_zero(literal) => {
                    let zero = ScalarValue::new_zero(&literal.data_type())?;
                    changed |= *literal != zero;
                    *literal = zero;
                }
                Expr::Literal(..) => {}
                other if self.float_keys.is_key(other, schema) => {}
                other => {
                    *other = self.float_keys.key(std::mem::take(other));
                    changed = true;
                }
            }
        }
        Ok(Transformed::new_transformed(Expr::InList(list), changed))
    }
}

fn is_float_zero(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float32(Some(value)) => *value == 0.0,
        ScalarValue::Float64(Some(value)) => *value == 0.0,
        _ => false,
    }
}

fn is_constant(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(..))
}

/// Whether an expression may contain a pattern that needs protection.
fn has_pattern(expr: &Expr) -> Result<bool> {
    expr.exists(|expr| {
        Ok(match expr {
            Expr::InList(_) => true,
            Expr::BinaryExpr(BinaryExpr { op, .. }) => {
                matches!(op, Operator::Or | Operator::BitwiseXor)
            }
            Expr::Case(case) => case.expr.is_none(),
            Expr::Not(inner) => {
                matches!(inner.as_ref(), Expr::BinaryExpr(BinaryExpr { op: Operator::And, .. }))
            }
            _ => false,
        })
    })
}

/// The function `as_written`, which returns its argument.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SimplifierBarrier {
    signature: Signature,
}

impl Default for SimplifierBarrier {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for SimplifierBarrier {
    fn name(&self) -> &str {
        "as_written"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        arguments.first().cloned().ok_or_else(no_argument)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = arguments.arg_fields.first().ok_or_else(no_argument)?;
        Ok(Arc::new(Field::clone(field).with_name(self.name())))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        arguments.args.into_iter().next().ok_or_else(no_argument)
    }
}

fn no_argument() -> datafusion::error::DataFusionError {
    to_datafusion(Error::internal("a function of one argument was called without"))
}
