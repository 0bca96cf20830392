//! Rounding of results that are numerics in PostgreSQL and double precision here: the average of
//! integers, `stddev`, `variance`, and `sqrt`, `power` and logarithms of numerics. PostgreSQL rounds
//! a half of a numeric away from zero, and a half of a double precision to the even neighbour:
//! `round(avg(v))` of 2 and 3 is 3, `round(2.5::float8)` is 2.

use std::{cell::RefCell, collections::HashMap};

use arrow::datatypes::DataType;
use datafusion::{
    common::{
        Column, DFSchema, Result,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    logical_expr::{
        BinaryExpr, Case, Cast, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder,
        expr::ScalarFunction, expr_rewriter::NamePreserver, utils::merge_schema,
    },
    scalar::ScalarValue,
};
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};

use super::cases;
use crate::types::source::{ColumnSource, source, unaliased};

mod double_functions;

use double_functions::DoubleFunction;

/// Maximum depth of subqueries and expressions between a rounding call and an aggregate.
const DEPTH_MAX: usize = 200;

/// Rounds halves away from zero where the argument of a rounding function or cast is a numeric in
/// PostgreSQL. The plan is not yet analyzed: every named cast is a cast of the statement.
///
/// # Errors
/// DataFusion refuses a changed node.
pub fn round_numerics(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.change_with_subqueries(of_node).map(|plan| plan.data)
}

fn of_node(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut rounds = false;
    node.apply_expressions(|expr| {
        rounds = rounds || expr.exists(|part| Ok(rounded(part).is_some()))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !rounds {
        return Ok(Transformed::no(node));
    }
    let inputs: Vec<LogicalPlan> = node.inputs().into_iter().cloned().collect();
    let inputs = Inputs {
        plans: inputs.iter().collect(),
        schema: merge_schema(&node.inputs()),
        origins: &Origins::default(),
    };
    let names = NamePreserver::new(&node);
    node.map_expressions(|expr| {
        let name = names.save(&expr);
        let changed = expr.change_up(|expr| of_expression(expr, &inputs))?;
        Ok(changed.update_data(|expr| name.restore(expr)))
    })?
    .map_data(LogicalPlan::recompute_schema)
}

fn of_expression(expr: Expr, inputs: &Inputs<'_>) -> Result<Transformed<Expr>> {
    let is_numeric =
        rounded(&expr).is_some_and(|argument| inputs.number(argument, 0).is_numeric_double());
    if !is_numeric {
        return Ok(Transformed::no(expr));
    }
    Ok(match expr {
        Expr::Cast(Cast { expr, field }) => {
            let nearest = Box::new(DoubleFunction::Nearest.call(*expr));
            Transformed::yes(Expr::Cast(Cast { expr: nearest, field }))
        }
        Expr::ScalarFunction(call) => match (call.name(), &call.args[..]) {
            ("ceil" | "trunc", _) => {
                Transformed::yes(DoubleFunction::Unsigned.call(Expr::ScalarFunction(call)))
            }
            ("to_char", [number, pattern]) => {
                let numeric = DoubleFunction::Numeric.call(number.clone());
                let known = Box::new(numeric.clone().is_not_null());
                let text = Box::new(call.func.call(vec![numeric, pattern.clone()]));
                let otherwise = Some(Box::new(Expr::ScalarFunction(call)));
                Transformed::yes(Expr::Case(Case::new(None, vec![(known, text)], otherwise)))
            }
            _ => {
                let ScalarFunction { func, args } = call;
                let args = args.into_iter().map(|value| DoubleFunction::Nearest.call(value));
                Transformed::yes(func.call(args.collect()))
            }
        },
        other => Transformed::no(other),
    })
}

/// The number that a function or a written cast to an integer rounds, or that `to_char` writes.
fn rounded(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::ScalarFunction(call) => match (call.name(), &call.args[..]) {
            ("round" | "ceil" | "trunc" | "int2" | "int4" | "int8", [number]) => Some(number),
            ("to_char", [number, _]) => (!number.is_volatile()).then_some(number),
            _ => None,
        },
        Expr::Cast(Cast { expr, field })
            if !field.name().is_empty() && field.data_type().is_integer() =>
        {
            Some(expr)
        }
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

/// A number in PostgreSQL, and here.
#[derive(Debug, Clone, Copy)]
struct Number {
    kind: NumberKind,
    /// True for a double precision here. False for the operands of a double precision that have
    /// another type: type coercion comes later.
    is_double: bool,
}

impl Number {
    const FLOAT: Self = Self { kind: NumberKind::Float, is_double: true };

    fn and(self, other: Self) -> Self {
        Self { kind: self.kind.max(other.kind), is_double: self.is_double || other.is_double }
    }

    /// True for a numeric in PostgreSQL that is a double precision here.
    fn is_numeric_double(self) -> bool {
        self.kind == NumberKind::Numeric && self.is_double
    }
}

/// The inputs of a node, whose columns the expressions of the node read.
struct Inputs<'a> {
    plans: Vec<&'a LogicalPlan>,
    schema: DFSchema,
    origins: &'a Origins,
}

/// The columns found so far, by the address of the plan and the position of the column.
/// An expression may name a column repeatedly; each column is looked up once.
#[derive(Default)]
struct Origins {
    numbers: RefCell<HashMap<(usize, usize), Number>>,
}

impl Inputs<'_> {
    /// The value of an expression; a float where the kind is unknown.
    fn number(&self, expr: &Expr, depth: usize) -> Number {
        let expr = unaliased(expr);
        let depth = depth + 1;
        if depth > DEPTH_MAX {
            return Number::FLOAT;
        }
        match expr {
            // Only a cast in a statement has a field name.
            Expr::Cast(Cast { expr, field }) if field.name().is_empty() => self.number(expr, depth),
            Expr::Negative(value) => self.number(value, depth),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.is_numerical_operators() => {
                self.number(left, depth).and(self.number(right, depth))
            }
            Expr::Case(case) => {
                let branches = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
                self.greatest(branches.chain(case.else_expr.as_deref()), depth)
            }
            // The planner turns a constant numeric beside a double into a double. A constant double
            // of the statement still has its cast.
            Expr::Literal(ScalarValue::Float64(_), _) => {
                Number { kind: NumberKind::Numeric, is_double: true }
            }
            Expr::ScalarFunction(call) => match call.name() {
                "coalesce"
                | "greatest"
                | "least"
                | "nullif"
                | "abs"
                | DoubleFunction::NEAREST
                | DoubleFunction::UNSIGNED => self.greatest(&call.args, depth),
                // For integers, PostgreSQL prefers the functions of double precision.
                "round" | "trunc" | "ceil" | "floor" => match self.greatest(&call.args, depth) {
                    Number { kind: NumberKind::Integer, .. } => Number::FLOAT,
                    number => number,
                },
                "sqrt" | "exp" | "ln" | "log" | "log10" | "power" => {
                    match self.greatest(&call.args, depth).kind {
                        NumberKind::Numeric => {
                            Number { kind: NumberKind::Numeric, is_double: true }
                        }
                        _ => Number::FLOAT,
                    }
                }
                _ if let Some(parts) = cases::parts(call) => {
                    let branches = parts.choices.iter().map(|[_, then]| then);
                    self.greatest(branches.chain([parts.otherwise]), depth)
                }
                _ => self.leaf(expr, depth),
            },
            // A parameter without a type takes the type of the other operand.
            Expr::Placeholder(_) => Number { kind: NumberKind::Integer, is_double: false },
            Expr::Column(column) => self.column(column, depth),
            Expr::ScalarSubquery(subquery) => self.origins.number(&subquery.subquery, 0, depth),
            _ => self.leaf(expr, depth),
        }
    }

    /// The value of a column.
    fn column(&self, column: &Column, depth: usize) -> Number {
        let found = self.plans.iter().find_map(|plan| {
            let at = plan.schema().maybe_index_of_column(column)?;
            Some(self.origins.number(plan, at, depth))
        });
        found.unwrap_or(Number::FLOAT)
    }

    /// The value of an expression that is no arithmetic: the type decides, except for a double
    /// precision.
    fn leaf(&self, expr: &Expr, depth: usize) -> Number {
        match expr.get_type(&self.schema) {
            Ok(data_type) => match of_type(&data_type) {
                Some(number) => number,
                None => self.double(expr, depth),
            },
            Err(_) => Number::FLOAT,
        }
    }

    /// The value of a double precision.
    fn double(&self, expr: &Expr, depth: usize) -> Number {
        let kind = match expr {
            Expr::AggregateFunction(call) => {
                self.aggregate(call.func.name(), &call.params.args, depth)
            }
            Expr::WindowFunction(call) => self.aggregate(call.fun.name(), &call.params.args, depth),
            _ => NumberKind::Float,
        };
        Number { kind, is_double: true }
    }

    /// The kind of an aggregate or window function with a double precision as result.
    fn aggregate(&self, name: &str, arguments: &[Expr], depth: usize) -> NumberKind {
        let Some(argument) = arguments.first() else { return NumberKind::Float };
        let kind = self.number(argument, depth).kind;
        match name {
            "avg" | "stddev" | "stddev_pop" | "stddev_samp" | "var" | "var_pop" | "var_samp"
            | "variance" => kind.max(NumberKind::Numeric),
            "sum" | "min" | "max" | "first_value" | "last_value" | "nth_value" | "lag" | "lead"
            | "any_value" | "mode" => kind,
            _ => NumberKind::Float,
        }
    }

    /// The common type of several values, for example of the branches of a CASE.
    fn greatest<'e>(&self, values: impl IntoIterator<Item = &'e Expr>, depth: usize) -> Number {
        let numbers = values.into_iter().map(|value| self.number(value, depth));
        numbers.reduce(Number::and).unwrap_or(Number::FLOAT)
    }
}

/// The number of a type; `None` for double precision, whose kind depends on its origin.
fn of_type(data_type: &DataType) -> Option<Number> {
    let exact = |kind| Some(Number { kind, is_double: false });
    match data_type {
        DataType::Float64 => None,
        DataType::Null => exact(NumberKind::Integer),
        data_type if data_type.is_integer() => exact(NumberKind::Integer),
        data_type if data_type.is_decimal() => exact(NumberKind::Numeric),
        _ => Some(Number::FLOAT),
    }
}

impl Origins {
    /// The value of a column of a plan.
    fn number(&self, plan: &LogicalPlan, at: usize, depth: usize) -> Number {
        let key = (std::ptr::from_ref(plan).addr(), at);
        if let Some(number) = self.numbers.borrow().get(&key) {
            return *number;
        }
        let all = |numbers: &mut dyn Iterator<Item = Number>| {
            numbers.reduce(Number::and).unwrap_or(Number::FLOAT)
        };
        let number = match source(plan, at) {
            _ if depth > DEPTH_MAX => Number::FLOAT,
            Some((ColumnSource::Computed(input, expr), _)) => {
                let schema = DFSchema::clone(input.schema());
                Inputs { plans: vec![input], schema, origins: self }.number(expr, depth)
            }
            Some((ColumnSource::Mixed(inputs), at)) => {
                all(&mut inputs.into_iter().map(|input| self.number(input, at, depth + 1)))
            }
            Some((ColumnSource::Rows(values), at)) => {
                let inputs = Inputs { plans: Vec::new(), schema: DFSchema::empty(), origins: self };
                let cells = values.values.iter().filter_map(|row| row.get(at));
                all(&mut cells.map(|cell| inputs.number(cell, depth)))
            }
            Some((ColumnSource::Table(_) | ColumnSource::Element(_), _)) | None => {
                let column = plan.schema().fields().get(at);
                column.and_then(|field| of_type(field.data_type())).unwrap_or(Number::FLOAT)
            }
        };
        self.numbers.borrow_mut().insert(key, number);
        number
    }
}

/// Rounds the columns of a query that an INSERT stores as integers: `is_integer` tells for each
/// column whether its target is an integer. The plan is not yet analyzed.
///
/// # Errors
/// DataFusion refuses the projection.
pub fn round_as_numerics(
    plan: LogicalPlan,
    is_integer: impl Fn(usize) -> bool,
) -> Result<LogicalPlan> {
    let origins = Origins::default();
    let rounds = |at: usize| is_integer(at) && origins.number(&plan, at, 0).is_numeric_double();
    let rounded: Vec<bool> = (0..plan.schema().fields().len()).map(rounds).collect();
    if !rounded.contains(&true) {
        return Ok(plan);
    }
    let columns = plan.schema().columns().into_iter().zip(rounded).map(|(column, rounded)| {
        let (relation, name) = (column.relation.clone(), column.name.clone());
        match rounded {
            true => {
                DoubleFunction::Nearest.call(Expr::Column(column)).alias_qualified(relation, name)
            }
            false => Expr::Column(column),
        }
    });
    let columns: Vec<Expr> = columns.collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}
