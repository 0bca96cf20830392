//! Replaces aggregates that have an ORDER BY by aggregates that sort their own rows. DataFusion
//! sorts the input of an aggregation only once; it refuses aggregates with different orders, and
//! confuses orders if an aggregate has DISTINCT. DataFusion's `string_agg` also supports only a
//! constant delimiter.
//!
//! ```text
//!   Aggregate: jsonb_agg(k ORDER BY k), string_agg(s, d ORDER BY x)
//!     ─►
//!   Projection: jsonb_agg …, ordered(array_agg(row(x, s, d)))
//!     Aggregate: jsonb_agg(k ORDER BY k), array_agg(row(x, s, d))
//! ```

use std::sync::Arc;

use datafusion::{
    common::{
        Column, DFSchema, Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    functions::core::r#struct,
    logical_expr::{
        Aggregate, AggregateUDF, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, ScalarUDF,
        SortExpr, Window, WindowFunctionDefinition,
        expr::{AggregateFunction, AggregateFunctionParams, NullTreatment, ScalarFunction},
    },
    optimizer::AnalyzerRule,
};
use stratalog_functions::plan_walk::PlanWalk;
use stratalog_model::{Error, ErrorKind};

use self::ordered_aggregate::OrderedAggregate;
use crate::errors::to_datafusion;

mod ordered_aggregate;

/// Aggregates whose result depends on the order of the rows. DataFusion sorts their input.
const COLLECTING: &[&str] = &["array_agg", "string_agg"];

/// Aggregates whose result does not depend on the order of the rows.
const UNORDERED: &[&str] =
    &["bit_and", "bit_or", "bit_xor", "bool_and", "bool_or", "count", "max", "min"];

/// The aggregation without the ORDER BY clauses that do not affect a result.
fn without_orders(aggregate: Aggregate) -> Result<Aggregate> {
    let ordered = |expr: &Expr| match unaliased(expr) {
        Expr::AggregateFunction(call)
            if UNORDERED.contains(&call.func.name()) && !call.params.order_by.is_empty() =>
        {
            Some(call.clone())
        }
        _ => None,
    };
    if !aggregate.aggr_expr.iter().any(|expr| ordered(expr).is_some()) {
        return Ok(aggregate);
    }
    let calls = aggregate.aggr_expr.iter().map(|expr| match ordered(expr) {
        Some(mut call) => {
            call.params.order_by.clear();
            Expr::AggregateFunction(call).alias(expr.schema_name().to_string())
        }
        None => expr.clone(),
    });
    Aggregate::try_new(Arc::clone(&aggregate.input), aggregate.group_expr.clone(), calls.collect())
}

/// Makes aggregates sort their own rows. Runs when the keys of all ORDER BY clauses are final.
#[derive(Debug)]
pub struct AggregateOrders {
    collect: Arc<AggregateUDF>,
}

impl AggregateOrders {
    /// Creates the rule. `collect` is the function `array_agg`, which collects the rows.
    pub fn new(collect: Arc<AggregateUDF>) -> Self {
        Self { collect }
    }

    fn of_aggregate(&self, aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
        let aggregate = without_orders(aggregate)?;
        let mut sorted: Option<&[SortExpr]> = None;
        let mut changes = Vec::with_capacity(aggregate.aggr_expr.len());
        for expr in &aggregate.aggr_expr {
            let call = call_of(expr);
            let Some((name, params)) = call.map(|call| (call.func.name(), &call.params)) else {
                changes.push(false);
                continue;
            };
            let has_order = !params.order_by.is_empty();
            let sorts = match params.distinct {
                true => has_order,
                false => has_order && sorted.is_some_and(|order| order != params.order_by),
            };
            if params.distinct {
                check_distinct(params, aggregate.input.schema())?;
            }
            let changed = sorts || has_delimiters(name, &params.args);
            if has_order && !changed && sorted.is_none() {
                sorted = Some(&params.order_by);
            }
            changes.push(changed);
        }
        if !changes.contains(&true) {
            return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
        }
        let schema = aggregate.input.schema();
        let groups = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
        let mut columns: Vec<Expr> = aggregate.schema.iter().take(groups).map(Expr::from).collect();
        let mut calls = Vec::with_capacity(changes.len());
        for (expr, changed) in aggregate.aggr_expr.iter().zip(changes) {
            let name = expr.schema_name().to_string();
            let Some(call) = call_of(expr).filter(|_| changed) else {
                columns.push(Expr::Column(Column::new_unqualified(name)));
                calls.push(expr.clone());
                continue;
            };
            let (order, collected) = self.parts(call, schema)?;
            let column = collected_name(calls.len());
            calls.push(Expr::AggregateFunction(collected).alias(&column));
            columns.push(order.of(Expr::Column(Column::new_unqualified(column))).alias(name));
        }
        let over = Aggregate::try_new(aggregate.input, aggregate.group_expr, calls)?;
        LogicalPlanBuilder::from(LogicalPlan::Aggregate(over))
            .project(columns)?
            .build()
            .map(Transformed::yes)
    }

    /// Rewrites aggregates over windows whose delimiter differs from row to row. Their order is the
    /// order of the window.
    fn of_window(&self, window: Window) -> Result<Transformed<LogicalPlan>> {
        let is_changed = |expr: &Expr| match unaliased(expr) {
            Expr::WindowFunction(call) => has_delimiters(call.fun.name(), &call.params.args),
            _ => false,
        };
        if !window.window_expr.iter().any(is_changed) {
            return Ok(Transformed::no(LogicalPlan::Window(window)));
        }
        let schema = window.input.schema();
        let mut columns: Vec<Expr> = schema.iter().map(Expr::from).collect();
        let mut calls = Vec::with_capacity(window.window_expr.len());
        for expr in &window.window_expr {
            let name = expr.schema_name().to_string();
            let (Expr::WindowFunction(call), true) = (unaliased(expr), is_changed(expr)) else {
                columns.push(Expr::Column(Column::new_unqualified(name)));
                calls.push(expr.clone());
                continue;
            };
            let WindowFunctionDefinition::AggregateUDF(function) = &call.fun else {
                columns.push(Expr::Column(Column::new_unqualified(name)));
                calls.push(expr.clone());
                continue;
            };
            let plain = AggregateFunction::new_udf(
                Arc::clone(function),
                call.params.args.clone(),
                false,
                None,
                Vec::new(),
                call.params.null_treatment,
            );
            let (order, collected) = self.parts(&plain, schema)?;
            let mut call = call.clone();
            call.fun = WindowFunctionDefinition::AggregateUDF(collected.func);
            call.params.args = collected.params.args;
            call.params.null_treatment = None;
            let column = collected_name(calls.len());
            calls.push(Expr::WindowFunction(call).alias(&column));
            columns.push(order.of(Expr::Column(Column::new_unqualified(column))).alias(name));
        }
        let over = Window::try_new(calls, window.input)?;
        LogicalPlanBuilder::from(LogicalPlan::Window(over))
            .project(columns)?
            .build()
            .map(Transformed::yes)
    }

    /// Splits a call in two: the function that aggregates the collected rows, and the aggregate
    /// that collects the rows.
    fn parts(
        &self,
        call: &AggregateFunction,
        schema: &DFSchema,
    ) -> Result<(OrderedAggregate, AggregateFunction)> {
        let params = &call.params;
        let mut fields = Vec::with_capacity(params.args.len());
        for argument in &params.args {
            fields.push(argument.to_field(schema)?.1);
        }
        let result = Expr::AggregateFunction(call.clone()).to_field(schema)?.1;
        let order = OrderedAggregate::new(
            Arc::clone(&call.func),
            params.order_by.iter().map(|sort| (sort.asc, sort.nulls_first)).collect(),
            fields,
            result,
            params.distinct,
            params.null_treatment == Some(NullTreatment::IgnoreNulls),
        );
        let keys = params.order_by.iter().map(|sort| sort.expr.clone());
        let row: Vec<Expr> = keys.chain(params.args.iter().cloned()).collect();
        let row = Expr::ScalarFunction(ScalarFunction::new_udf(r#struct(), row));
        let collected = AggregateFunction {
            func: Arc::clone(&self.collect),
            params: AggregateFunctionParams {
                args: vec![row],
                distinct: params.distinct,
                filter: params.filter.clone(),
                order_by: Vec::new(),
                null_treatment: None,
            },
        };
        Ok((order, collected))
    }
}

impl OrderedAggregate {
    fn of(self, rows: Expr) -> Expr {
        let function = Arc::new(ScalarUDF::new_from_impl(self));
        Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![rows]))
    }
}

impl AnalyzerRule for AggregateOrders {
    fn name(&self) -> &str {
        "own_orders"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.change_with_subqueries(|node| match node {
            LogicalPlan::Aggregate(aggregate) => self.of_aggregate(aggregate),
            LogicalPlan::Window(window) => self.of_window(window),
            other => Ok(Transformed::no(other)),
        })
        .map(|plan| plan.data)
    }
}

/// The name of a column of collected rows. No statement can write this name.
fn collected_name(at: usize) -> String {
    format!("\u{1}collected {at}")
}

fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}

fn call_of(expr: &Expr) -> Option<&AggregateFunction> {
    match unaliased(expr) {
        Expr::AggregateFunction(call) if COLLECTING.contains(&call.func.name()) => Some(call),
        _ => None,
    }
}

/// Whether a call is a `string_agg` whose delimiter may differ from row to row.
fn has_delimiters(name: &str, arguments: &[Expr]) -> bool {
    let [_, delimiter] = arguments else { return false };
    name == "string_agg" && (!delimiter.column_refs().is_empty() || delimiter.is_volatile())
}

/// With DISTINCT, refuses an ORDER BY key that is not an argument: only the distinct values are
/// known.
fn check_distinct(params: &AggregateFunctionParams, schema: &DFSchema) -> Result<()> {
    let filter = params.filter.as_deref();
    let tells = |sort: &SortExpr| {
        let key = value_of_key(&sort.expr, filter, schema);
        params.args.iter().any(|argument| {
            let argument = value_of_key(argument, filter, schema);
            argument == key || is_json_of(argument, key, filter, schema)
        })
    };
    if params.order_by.iter().all(tells) {
        return Ok(());
    }
    Err(to_datafusion(Error::new(
        ErrorKind::InvalidColumnReference,
        "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list",
    )))
}

/// The original value inside of the wrappers that rules add: the comparison key, casts that keep
/// the value, and the CASE of the FILTER.
fn value_of_key<'a>(expr: &'a Expr, filter: Option<&Expr>, schema: &DFSchema) -> &'a Expr {
    match expr {
        Expr::Alias(alias) => value_of_key(&alias.expr, filter, schema),
        Expr::Case(case) => match case.when_then_expr.as_slice() {
            [(guard, value)] if case.else_expr.is_none() && filter == Some(guard.as_ref()) => {
                value_of_key(value, filter, schema)
            }
            _ => expr,
        },
        Expr::Cast(cast) => {
            let wanted = cast.field.data_type();
            let keeps = cast
                .expr
                .get_type(schema)
                .is_ok_and(|of| of == *wanted || (of.is_string() && wanted.is_string()));
            if keeps { value_of_key(&cast.expr, filter, schema) } else { expr }
        }
        Expr::ScalarFunction(call) if call.name().ends_with("_key") => match call.args.as_slice() {
            [value] => value_of_key(value, filter, schema),
            _ => expr,
        },
        other => other,
    }
}

/// Whether an argument is the JSON that `jsonb_agg` makes of `value`.
fn is_json_of(argument: &Expr, value: &Expr, filter: Option<&Expr>, schema: &DFSchema) -> bool {
    let makes = |expr: &Expr| match expr {
        Expr::ScalarFunction(call) => {
            matches!(call.name(), "to_jsonb" | "jsonb_build_object")
                && call.args.iter().any(|part| value_of_key(part, filter, schema) == value)
        }
        _ => false,
    };
    argument.exists(|expr| Ok(makes(expr))).unwrap_or(false)
}
