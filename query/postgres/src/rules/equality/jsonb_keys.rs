//! PostgreSQL's equality and order of jsonb: 1 equals 1.0, and 9 is before 10. Operators compare by
//! value, but DataFusion's groups, sets of distinct values, sorts, windows and joins compare the
//! text. This rule replaces the text by a *key*: equal values have equal keys, and the bytes of the
//! keys sort in the order of the values.

use std::sync::Arc;

use datafusion::{
    common::{
        DFSchema, DFSchemaRef, Result, ScalarValue,
        config::ConfigOptions,
        metadata::FieldMetadata,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    functions_aggregate::first_last::first_value,
    logical_expr::{
        Aggregate, BinaryExpr, Case, Distinct, DistinctOn, Expr, ExprSchemable, LogicalPlan,
        Operator, Projection, ScalarUDF, Subquery,
        expr::{InSubquery, ScalarFunction},
        expr_rewriter::NamePreserver,
        utils::merge_schema,
    },
    optimizer::AnalyzerRule,
};
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};
use stratalog_model::{ColumnType, Error, ErrorKind};

use super::key_rewrite::KeyRewrite;
use crate::{errors::to_datafusion, rules::subqueries::decorrelation::OUTER_KEY_PREFIX};

/// Prefix of the names of the columns that the rule adds: keys, and the values that a group
/// returns.
const NAME: &str = "__jsonb_";

/// Replaces jsonb by its key. Runs when all types are final, and before subqueries become joins.
#[derive(Debug)]
pub struct JsonbKeys {
    key: Arc<ScalarUDF>,
}

impl JsonbKeys {
    /// Creates the rule. `key` is the function that computes a key.
    pub fn new(key: Arc<ScalarUDF>) -> Self {
        Self { key }
    }
}

impl AnalyzerRule for JsonbKeys {
    fn name(&self) -> &str {
        "jsonb_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.change_with_subqueries(|node| self.of_node(node)).map(|plan| plan.data)
    }
}

fn is_jsonb(expr: &Expr, schema: &DFSchema) -> bool {
    expr.to_field(schema)
        .is_ok_and(|(_, field)| ColumnType::from_arrow_field(&field) == Some(ColumnType::Jsonb))
}

fn has_jsonb(schema: &DFSchema) -> bool {
    schema
        .fields()
        .iter()
        .any(|field| ColumnType::from_arrow_field(field) == Some(ColumnType::Jsonb))
}

/// Whether an expression is a column of an outer query. Outer columns are compared by their text,
/// because a subquery may distinguish equal values with different texts.
fn is_outside(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(column) if column.name.starts_with(OUTER_KEY_PREFIX))
}

impl KeyRewrite for JsonbKeys {
    fn replace_by_key(&self, expr: &mut Expr, schema: &DFSchema) -> bool {
        if is_outside(expr) || !is_jsonb(expr, schema) {
            return false;
        }
        *expr = self.key(std::mem::take(expr));
        true
    }
}

impl JsonbKeys {
    fn key(&self, value: Expr) -> Expr {
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&self.key), vec![value]))
    }

    fn of_node(&self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        if matches!(node, LogicalPlan::Values(_) | LogicalPlan::TableScan(_)) {
            return Ok(Transformed::no(node));
        }
        let mut compares = false;
        node.apply_expressions(|expr| {
            compares = compares || expr.exists(|expr| Ok(may_compare(expr)))?;
            Ok(if compares { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if !compares {
            return self.node_with_keys(node);
        }
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        let calls = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let changed = expr.change_up(|expr| self.of_expression(expr, &schema))?;
            Ok(changed.update_data(|expr| name.restore(expr)))
        })?;
        let node = self.node_with_keys(calls.data)?;
        Ok(Transformed::new_transformed(node.data, calls.transformed || node.transformed))
    }

    fn node_with_keys(&self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        match node {
            node @ (LogicalPlan::Sort(_) | LogicalPlan::Distinct(Distinct::On(_))) => {
                Ok(self.order_by_keys(node))
            }
            LogicalPlan::Distinct(Distinct::All(input))
                if has_jsonb(input.schema())
                    && !input.schema().iter().any(|column| is_outside(&Expr::from(column))) =>
            {
                let values: Vec<Expr> = input.schema().iter().map(Expr::from).collect();
                let mut keys = values.clone();
                for key in &mut keys {
                    self.replace_by_key(key, input.schema());
                }
                let on = DistinctOn::try_new(keys, values, None, input)?;
                Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(on))))
            }
            LogicalPlan::Join(mut join) => {
                let mut changed = false;
                for (left, right) in &mut join.on {
                    let outside = is_outside(left) || is_outside(right);
                    let one =
                        is_jsonb(left, join.left.schema()) || is_jsonb(right, join.right.schema());
                    if one && !outside {
                        *left = self.key(std::mem::take(left));
                        *right = self.key(std::mem::take(right));
                        changed = true;
                    }
                }
                if let Some(filter) = join.filter.take() {
                    let schema = merge_schema(&[join.left.as_ref(), join.right.as_ref()]);
                    let filter = filter.change_up(|expr| self.of_equality(expr, &schema))?;
                    changed |= filter.transformed;
                    join.filter = Some(filter.data);
                }
                Ok(Transformed::new_transformed(LogicalPlan::Join(join), changed))
            }
            LogicalPlan::Aggregate(aggregate) => self.groups(aggregate),
            other => Ok(Transformed::no(other)),
        }
    }

    /// Groups by keys, and returns the first value of each group.
    fn groups(&self, aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
        let input = Arc::clone(&aggregate.input);
        let by_jsonb = |expr: &Expr| !is_outside(expr) && is_jsonb(expr, input.schema());
        if let [Expr::GroupingSet(sets)] = aggregate.group_expr.as_slice()
            && sets.distinct_expr().into_iter().any(by_jsonb)
        {
            let error = Error::not_yet("GROUPING SETS, ROLLUP or CUBE of jsonb");
            return Err(to_datafusion(error.with_hint("group by the text of the value, v::text")));
        }
        if !aggregate.group_expr.iter().any(by_jsonb) {
            return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
        }
        let groups = aggregate.group_expr.len();
        let schema: DFSchemaRef = Arc::clone(&aggregate.schema);
        let (mut keys, mut shown, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for (at, expr) in aggregate.group_expr.into_iter().enumerate() {
            if by_jsonb(&expr) {
                let name = format!("{NAME}{at}");
                shown.push(Some(Expr::Column(name.clone().into())));
                values.push(first_value(expr.clone(), Vec::new()).alias(name));
                keys.push(self.key(expr));
            } else {
                shown.push(None);
                keys.push(expr);
            }
        }
        let aggregates = aggregate.aggr_expr.into_iter().chain(values).collect();
        let grouped = Aggregate::try_new(input, keys, aggregates)?;
        let columns = schema
            .iter()
            .enumerate()
            .map(|(at, (qualifier, field))| {
                let value = shown.get(at).cloned().flatten().filter(|_| at < groups);
                match value {
                    Some(value) => value.alias_qualified_with_metadata(
                        qualifier.cloned(),
                        field.name(),
                        Some(FieldMetadata::new_from_field(field)),
                    ),
                    None => Expr::from((qualifier, field)),
                }
            })
            .collect();
        let input = Arc::new(LogicalPlan::Aggregate(grouped));
        Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(columns, input)?)))
    }

    fn of_expression(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let mut changed = false;
        Ok(match expr {
            Expr::WindowFunction(mut call) => {
                has_no_extremes(call.fun.name(), &call.params.args, schema)?;
                for by in &mut call.params.partition_by {
                    changed |= self.replace_by_key(by, schema);
                }
                changed |= self.sort_by_keys(&mut call.params.order_by, schema);
                Transformed::new_transformed(Expr::WindowFunction(call), changed)
            }
            Expr::AggregateFunction(mut call) => {
                let name = call.func.name();
                has_no_extremes(name, &call.params.args, schema)?;
                if call.params.distinct && name == "count" {
                    for argument in &mut call.params.args {
                        changed |= self.replace_by_key(argument, schema);
                    }
                }
                changed |= self.sort_by_keys(&mut call.params.order_by, schema);
                Transformed::new_transformed(Expr::AggregateFunction(call), changed)
            }
            Expr::InSubquery(set) => self.in_subquery(set, schema)?,
            Expr::Case(Case { expr: Some(base), when_then_expr, else_expr })
                if is_jsonb(&base, schema) =>
            {
                let whens = when_then_expr.into_iter();
                let whens = whens.map(|(when, then)| (Box::new(self.key(*when)), then)).collect();
                let base = Some(Box::new(self.key(*base)));
                Transformed::yes(Expr::Case(Case { expr: base, when_then_expr: whens, else_expr }))
            }
            Expr::ScalarFunction(call) if call.name() == "nullif" => match call.args.as_slice() {
                [value, other] if is_jsonb(value, schema) && !value.is_volatile() => {
                    let null = ScalarValue::try_new_null(&value.get_type(schema)?)?;
                    let equal = self.key(value.clone()).eq(self.key(other.clone()));
                    let choices = vec![(Box::new(equal), Box::new(Expr::Literal(null, None)))];
                    let value = Some(Box::new(value.clone()));
                    Transformed::yes(Expr::Case(Case::new(None, choices, value)))
                }
                _ => Transformed::no(Expr::ScalarFunction(call)),
            },
            other => Transformed::no(other),
        })
    }

    /// Uses keys in an equality that comes from the condition of a subquery. Other operators are
    /// already function calls.
    fn of_equality(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if matches!(op, Operator::Eq | Operator::NotEq | Operator::IsNotDistinctFrom)
                    && !is_outside(&left)
                    && !is_outside(&right)
                    && (is_jsonb(&left, schema) || is_jsonb(&right, schema)) =>
            {
                let (left, right) = (self.key(*left), self.key(*right));
                Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(
                    Box::new(left),
                    op,
                    Box::new(right),
                )))
            }
            other => Transformed::no(other),
        })
    }

    fn in_subquery(&self, set: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let plan = Arc::clone(&set.subquery.subquery);
        if !has_jsonb(plan.schema()) && !is_jsonb(&set.expr, schema) {
            return Ok(Transformed::no(Expr::InSubquery(set)));
        }
        let keys = plan.schema().iter().map(|column| self.key(Expr::from(column))).collect();
        let plan = LogicalPlan::Projection(Projection::try_new(keys, plan)?);
        let subquery = Subquery { subquery: Arc::new(plan), ..set.subquery };
        let expr = Box::new(self.key(*set.expr));
        Ok(Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated: set.negated })))
    }
}

/// Like in PostgreSQL, refuses `min` and `max` of jsonb.
fn has_no_extremes(name: &str, arguments: &[Expr], schema: &DFSchema) -> Result<()> {
    let of_jsonb = arguments.iter().any(|argument| is_jsonb(argument, schema));
    if !matches!(name, "min" | "max") || !of_jsonb {
        return Ok(());
    }
    let message = format!("function {name}(jsonb) does not exist");
    Err(to_datafusion(
        Error::new(ErrorKind::UndefinedFunction, message).with_hint("cast the jsonb to text"),
    ))
}

/// Whether an expression compares its operands.
fn may_compare(expr: &Expr) -> bool {
    match expr {
        Expr::WindowFunction(_) | Expr::AggregateFunction(_) | Expr::InSubquery(_) => true,
        Expr::Case(case) => case.expr.is_some(),
        Expr::ScalarFunction(call) => call.name() == "nullif",
        _ => false,
    }
}
