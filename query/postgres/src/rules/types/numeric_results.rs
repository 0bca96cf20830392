//! Rounding of results that are numerics in PostgreSQL and double precision here: the average of
//! integers, `stddev`, `variance`, and `sqrt`, `power` and logarithms of numerics. PostgreSQL rounds
//! a half of a numeric away from zero, and a half of a double precision to the even neighbour:
//! `round(avg(v))` of 2 and 3 is 3, `round(2.5::float8)` is 2.

use std::sync::Arc;

use arrow::{
    array::{AsArray, Float64Array},
    datatypes::{DataType, Float64Type},
};
use datafusion::{
    common::{
        DFSchema, Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    logical_expr::{
        BinaryExpr, Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs,
        ScalarUDF, ScalarUDFImpl, Signature, Volatility, expr::ScalarFunction,
        expr_rewriter::NamePreserver, utils::merge_schema,
    },
    optimizer::AnalyzerRule,
    scalar::ScalarValue,
};
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};

use crate::types::source::{ColumnSource, source, unaliased};

/// Functions that round a number to an integer: `round`, and the functions behind the casts.
const ROUNDING: [&str; 4] = ["round", "int2", "int4", "int8"];

/// Maximum depth of subqueries and expressions between a rounding call and an aggregate.
const DEPTH_MAX: usize = 200;

/// Rounds halves away from zero where the argument of a rounding function is a numeric in
/// PostgreSQL. Runs before type coercion, as long as every cast to double precision is a cast of the
/// statement.
#[derive(Debug)]
pub struct NumericResults {
    nearest: Arc<ScalarUDF>,
}

impl Default for NumericResults {
    fn default() -> Self {
        let signature = Signature::exact(vec![DataType::Float64], Volatility::Immutable);
        Self { nearest: Arc::new(ScalarUDF::new_from_impl(NearestInteger { signature })) }
    }
}

impl AnalyzerRule for NumericResults {
    fn name(&self) -> &str {
        "numeric_results"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.change_with_subqueries(|node| self.of_node(node)).map(|plan| plan.data)
    }
}

impl NumericResults {
    fn of_node(&self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let mut rounds = false;
        node.apply_expressions(|expr| {
            rounds = rounds || expr.exists(|part| Ok(rounded(part).is_some()))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        if !rounds {
            return Ok(Transformed::no(node));
        }
        let inputs: Vec<LogicalPlan> = node.inputs().into_iter().cloned().collect();
        let inputs =
            Inputs { plans: inputs.iter().collect(), schema: merge_schema(&node.inputs()) };
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let changed = expr.change_up(|expr| self.of_expression(expr, &inputs))?;
            Ok(changed.update_data(|expr| name.restore(expr)))
        })
    }

    fn of_expression(&self, expr: Expr, inputs: &Inputs<'_>) -> Result<Transformed<Expr>> {
        let is_numeric = rounded(&expr).is_some_and(|argument| {
            matches!(argument.get_type(&inputs.schema), Ok(DataType::Float64))
                && inputs.kind(argument, 0) == NumberKind::Numeric
        });
        let Expr::ScalarFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
        if !is_numeric {
            return Ok(Transformed::no(Expr::ScalarFunction(call)));
        }
        call.args = call
            .args
            .into_iter()
            .map(|argument| {
                let nearest = Arc::clone(&self.nearest);
                Expr::ScalarFunction(ScalarFunction::new_udf(nearest, vec![argument]))
            })
            .collect();
        Ok(Transformed::yes(Expr::ScalarFunction(call)))
    }
}

/// The argument of a rounding function.
fn rounded(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::ScalarFunction(call) if ROUNDING.contains(&call.name()) => match &call.args[..] {
            [argument] => Some(argument),
            _ => None,
        },
        _ => None,
    }
}

/// PostgreSQL's kind of a number. The kind of a sum or product is the greater kind of its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NumberKind {
    Integer,
    Numeric,
    Float,
}

/// The inputs of a node, whose columns the expressions of the node read.
struct Inputs<'a> {
    plans: Vec<&'a LogicalPlan>,
    schema: DFSchema,
}

impl Inputs<'_> {
    /// The kind of an expression's value in PostgreSQL; a float where the kind is unknown.
    fn kind(&self, expr: &Expr, depth: usize) -> NumberKind {
        let expr = unaliased(expr);
        let depth = depth + 1;
        match expr.get_type(&self.schema) {
            Ok(DataType::Null) => return NumberKind::Integer,
            Ok(data_type) if data_type.is_integer() => return NumberKind::Integer,
            Ok(data_type) if data_type.is_decimal() => return NumberKind::Numeric,
            Ok(DataType::Float64) if depth < DEPTH_MAX => {}
            _ => return NumberKind::Float,
        }
        let arguments = |arguments: &[Expr]| {
            self.greatest(arguments.iter(), depth).unwrap_or(NumberKind::Float)
        };
        match expr {
            Expr::Column(column) => self
                .plans
                .iter()
                .find_map(|plan| {
                    let at = plan.schema().maybe_index_of_column(column)?;
                    Some(kind_of_column(plan, at, depth))
                })
                .unwrap_or(NumberKind::Float),
            // Only a cast in a statement has a field name.
            Expr::Cast(Cast { expr, field }) if field.name().is_empty() => self.kind(expr, depth),
            Expr::Negative(value) => self.kind(value, depth),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.is_numerical_operators() => {
                self.kind(left, depth).max(self.kind(right, depth))
            }
            Expr::Case(case) => {
                let branches = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
                self.greatest(branches.chain(case.else_expr.as_deref()), depth)
                    .unwrap_or(NumberKind::Float)
            }
            Expr::ScalarSubquery(subquery) => kind_of_column(&subquery.subquery, 0, depth),
            Expr::ScalarFunction(call) => match call.name() {
                "coalesce" | "greatest" | "least" | "nullif" | "abs" | "round" | "trunc"
                | "ceil" | "floor" | "nearest_integer" => arguments(&call.args),
                // PostgreSQL prefers double precision for integers.
                "sqrt" | "exp" | "ln" | "log" | "log10" | "power" => match arguments(&call.args) {
                    NumberKind::Integer => NumberKind::Float,
                    kind => kind,
                },
                _ => NumberKind::Float,
            },
            Expr::AggregateFunction(call) => {
                self.aggregate(call.func.name(), &call.params.args, depth)
            }
            Expr::WindowFunction(call) => self.aggregate(call.fun.name(), &call.params.args, depth),
            _ => NumberKind::Float,
        }
    }

    /// The kind of an aggregate or window function.
    fn aggregate(&self, name: &str, arguments: &[Expr], depth: usize) -> NumberKind {
        let Some(argument) = arguments.first() else { return NumberKind::Float };
        let kind = self.kind(argument, depth);
        match name {
            "avg" | "stddev" | "stddev_pop" | "stddev_samp" | "var" | "var_pop" | "var_samp"
            | "variance" => kind.max(NumberKind::Numeric),
            "sum" | "min" | "max" | "first_value" | "last_value" | "nth_value" | "lag" | "lead"
            | "any_value" | "mode" => kind,
            _ => NumberKind::Float,
        }
    }

    fn greatest<'e>(
        &self,
        values: impl Iterator<Item = &'e Expr>,
        depth: usize,
    ) -> Option<NumberKind> {
        values.map(|value| self.kind(value, depth)).max()
    }
}

/// The kind of a column of a plan.
fn kind_of_column(plan: &LogicalPlan, at: usize, depth: usize) -> NumberKind {
    match source(plan, at) {
        Some((ColumnSource::Computed(input, expr), _)) => {
            let schema = DFSchema::clone(input.schema());
            Inputs { plans: vec![input], schema }.kind(expr, depth)
        }
        Some((ColumnSource::Mixed(inputs), at)) => inputs
            .into_iter()
            .map(|input| match input.schema().field(at).data_type() {
                DataType::Float64 if depth < DEPTH_MAX => kind_of_column(input, at, depth + 1),
                data_type if data_type.is_floating() => NumberKind::Float,
                _ => NumberKind::Integer,
            })
            .max()
            .unwrap_or(NumberKind::Float),
        _ => NumberKind::Float,
    }
}

/// The nearest integer as a double precision, a half away from zero.
#[derive(Debug, PartialEq, Eq, Hash)]
struct NearestInteger {
    signature: Signature,
}

impl ScalarUDFImpl for NearestInteger {
    fn name(&self) -> &str {
        "nearest_integer"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = &arguments.args[..] else {
            return datafusion::common::internal_err!("nearest_integer takes one number");
        };
        Ok(match value {
            ColumnarValue::Scalar(ScalarValue::Float64(value)) => {
                ColumnarValue::Scalar(ScalarValue::Float64(value.map(f64::round)))
            }
            value => {
                let array = value.to_array(arguments.number_rows)?;
                let rounded: Float64Array = array.as_primitive::<Float64Type>().unary(f64::round);
                ColumnarValue::Array(Arc::new(rounded))
            }
        })
    }
}
