//! Common types for the columns of UNION and VALUES.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::{
    common::{
        DFSchema, Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNodeRecursion},
    },
    logical_expr::{
        Cast, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection, RecursiveQuery,
        Union, Values,
    },
    optimizer::AnalyzerRule,
    scalar::ScalarValue,
};
use stratalog_functions::literal::style_of;
use stratalog_functions::plan_walk::PlanWalk;
use stratalog_model::{ColumnType, Error, ErrorKind};
use stratalog_text::TextStyle;

use super::{ValueType, common_type, in_type};
use crate::errors::to_datafusion;

/// Casts the columns of a UNION to their common types, and gives integers in VALUES PostgreSQL's
/// types. Runs before type coercion.
#[derive(Debug)]
pub struct UnionTypes;

impl AnalyzerRule for UnionTypes {
    fn name(&self) -> &str {
        "union_types"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let style = style_of(config);
        outside_recursion(plan, |node| match node.recompute_schema()? {
            LogicalPlan::Union(union) => in_one_type(union, &style),
            LogicalPlan::Values(values) => narrowed(values),
            other => Ok(Transformed::no(other)),
        })
    }
}

/// Applies `change` to the nodes of a plan, from the leaves to the root, except inside of recursive
/// queries. The planner has already cast the second term of a recursive query to the types of the
/// first term.
pub fn outside_recursion(
    plan: LogicalPlan,
    change: impl FnMut(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
) -> Result<LogicalPlan> {
    let stop = |node: LogicalPlan| {
        let recursion = match node {
            LogicalPlan::RecursiveQuery(_) => TreeNodeRecursion::Jump,
            _ => TreeNodeRecursion::Continue,
        };
        Ok(Transformed::new(node, false, recursion))
    };
    plan.transform_down_up_with_subqueries(stop, change).map(|plan| plan.data)
}

/// Refuses a recursive query if the types of its first term cannot hold the values of the second
/// term, which the planner has cast to these types. Must run on the planner's original plan, before
/// casts become functions.
///
/// # Errors
/// `DatatypeMismatch` and `FeatureNotSupported`.
pub fn check_terms(query: &RecursiveQuery) -> Result<()> {
    let (exprs, input) = columns_of(&query.recursive_term);
    for (at, (expr, field)) in exprs.iter().zip(query.static_term.schema().fields()).enumerate() {
        let Some(first) = ColumnType::from_arrow_field(field) else { continue };
        let ValueType::Typed(second, true) = ValueType::of(uncast(unaliased(expr)), input.schema())
        else {
            continue;
        };
        let what = format!("recursive query \"{}\" column {}", query.name, at + 1);
        let error = match (&first, &second) {
            (ColumnType::Numeric { scale, .. }, ColumnType::Numeric { scale: digits, .. })
                if digits > scale =>
            {
                Error::new(
                    ErrorKind::FeatureNotSupported,
                    format!("{what} has {digits} digits behind the point in the recursive term, but {scale} in the non-recursive term"),
                )
                .with_hint("cast both to one type, such as numeric(38,10)")
            }
            _ if is_wider(&first, &second) => Error::new(
                ErrorKind::DatatypeMismatch,
                format!("{what} has type {first} in non-recursive term but type {second} overall"),
            )
            .with_hint("cast the output of the non-recursive term to the correct type"),
            _ => continue,
        };
        return Err(to_datafusion(error));
    }
    Ok(())
}

/// Whether the second type has values that a cast to the first type would round or cut off.
/// Integers of different width do not count, because a cast of a too large integer fails.
fn is_wider(first: &ColumnType, second: &ColumnType) -> bool {
    use ColumnType as T;
    matches!(
        (first, second),
        (T::SmallInt | T::Integer | T::BigInt, T::Numeric { .. } | T::Real | T::Double)
            | (T::Numeric { .. }, T::Real | T::Double)
            | (T::Real, T::Double)
            | (T::Date, T::Timestamp { .. } | T::TimestampTz { .. })
            | (T::Timestamp { .. }, T::TimestampTz { .. })
    )
}

/// Casts the columns of a UNION to their common types.
pub(super) fn in_one_type(union: Union, style: &TextStyle) -> Result<Transformed<LogicalPlan>> {
    let mut inputs: Vec<(Vec<Expr>, Arc<LogicalPlan>)> =
        union.inputs.iter().map(columns_of).collect();
    let mut changed = false;
    for at in 0..union.schema.fields().len() {
        let given: Vec<ValueType> = inputs
            .iter()
            .map(|(exprs, input)| match exprs.get(at) {
                Some(expr) => ValueType::of(unaliased(expr), input.schema()),
                None => ValueType::Other,
            })
            .collect();
        let Some(wanted) = common_type("UNION", &given)? else { continue };
        for ((exprs, input), given) in inputs.iter_mut().zip(&given) {
            if let Some(expr) = exprs.get_mut(at) {
                changed |= retype(expr, given, &wanted, input.schema(), style)?;
            }
        }
    }
    if !changed {
        // The recorded types of the UNION may be outdated, because constants in its inputs were
        // narrowed to integer.
        let agree = union.inputs.iter().all(|input| {
            let fields = input.schema().fields().iter().zip(union.schema.fields());
            fields.clone().all(|(input, union)| input.data_type() == union.data_type())
        });
        if agree {
            return Ok(Transformed::no(LogicalPlan::Union(union)));
        }
        let union = Union::try_new_with_loose_types(union.inputs)?;
        return Ok(Transformed::yes(LogicalPlan::Union(union)));
    }
    let inputs = inputs
        .into_iter()
        .map(|(exprs, input)| {
            Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(exprs, input)?)))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

/// The column expressions of an input, and the plan below them.
pub fn columns_of(input: &Arc<LogicalPlan>) -> (Vec<Expr>, Arc<LogicalPlan>) {
    match input.as_ref() {
        LogicalPlan::Projection(projection) => {
            (projection.expr.clone(), Arc::clone(&projection.input))
        }
        other => (other.schema().iter().map(Expr::from).collect(), Arc::clone(input)),
    }
}

/// The expression inside of an alias.
pub fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}

/// Casts an expression, without its alias, to the type `wanted`; `None` if the expression already
/// has the type.
pub(super) fn retyped(
    expr: &Expr,
    given: &ValueType,
    wanted: &ColumnType,
    schema: &DFSchema,
    style: &TextStyle,
) -> Result<Option<Expr>> {
    let typed = in_type(unaliased(expr).clone(), given, wanted, schema, style)?;
    Ok((typed != *unaliased(expr)).then_some(typed))
}

fn retype(
    expr: &mut Expr,
    given: &ValueType,
    wanted: &ColumnType,
    schema: &DFSchema,
    style: &TextStyle,
) -> Result<bool> {
    let Some(typed) = retyped(expr, given, wanted, schema, style)? else { return Ok(false) };
    let name = match &*expr {
        Expr::Column(column) => column.name.clone(),
        other => other.schema_name().to_string(),
    };
    *expr = typed.alias(name);
    Ok(true)
}

/// Makes each column of VALUES that has only integers and small constants an integer column;
/// DataFusion's constants are bigint.
pub fn narrowed(mut values: Values) -> Result<Transformed<LogicalPlan>> {
    let none = DFSchema::empty();
    let mut changed = false;
    for at in 0..values.schema.fields().len() {
        let cells = || values.values.iter().filter_map(|row| row.get(at)).map(uncast);
        let narrow = |cell: &Expr| match cell {
            Expr::Literal(ScalarValue::Int64(Some(value)), None) => i32::try_from(*value).is_ok(),
            Expr::Literal(ScalarValue::Int64(None) | ScalarValue::Null, None) => true,
            other => matches!(other.get_type(&none), Ok(DataType::Int16 | DataType::Int32)),
        };
        let integers =
            cells().any(|cell| matches!(cell, Expr::Literal(ScalarValue::Int64(Some(_)), None)));
        if !integers || !cells().all(narrow) {
            continue;
        }
        changed = true;
        for cell in values.values.iter_mut().filter_map(|row| row.get_mut(at)) {
            *cell = match uncast(cell) {
                Expr::Literal(ScalarValue::Int64(Some(value)), _) => {
                    Expr::Literal(ScalarValue::Int32(i32::try_from(*value).ok()), None)
                }
                Expr::Literal(ScalarValue::Int64(None) | ScalarValue::Null, _) => {
                    Expr::Literal(ScalarValue::Int32(None), None)
                }
                other => other.clone(),
            };
        }
    }
    if !changed {
        return Ok(Transformed::no(LogicalPlan::Values(values)));
    }
    LogicalPlanBuilder::values(values.values)?.build().map(Transformed::yes)
}

/// Casts the columns of VALUES to their common types again, because the type of an expression in a
/// cell may have changed after planning. Runs after the functions have their final types.
#[derive(Debug)]
pub struct ValuesTypes;

impl AnalyzerRule for ValuesTypes {
    fn name(&self) -> &str {
        "values_types"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let style = style_of(config);
        let mut changed = false;
        plan.change_with_subqueries(|node| {
            let node = match node {
                LogicalPlan::Values(values) => rescaled(values, &style)?,
                other => Transformed::no(other),
            };
            changed |= node.transformed;
            // The types of the nodes above have changed too.
            if changed { node.map_data(LogicalPlan::recompute_schema) } else { Ok(node) }
        })
        .map(|plan| plan.data)
    }
}

fn rescaled(mut values: Values, style: &TextStyle) -> Result<Transformed<LogicalPlan>> {
    let none = DFSchema::empty();
    let mut changed = false;
    for (at, field) in values.schema.fields().iter().enumerate() {
        let cells = || values.values.iter().filter_map(|row| row.get(at));
        let is_other = |cell: &Expr| match (uncast(cell), uncast(cell).get_type(&none)) {
            (Expr::Literal(..), Ok(given)) => cuts(field.data_type(), &given),
            (_, Ok(given)) => given != *field.data_type(),
            (_, Err(_)) => false,
        };
        if !cells().any(is_other) {
            continue;
        }
        let given: Vec<ValueType> =
            cells().map(|cell| ValueType::of(uncast(cell), &none)).collect();
        let Some(wanted) = common_type("VALUES", &given)? else { continue };
        changed = true;
        let cells = values.values.iter_mut().filter_map(|row| row.get_mut(at));
        for (cell, given) in cells.zip(&given) {
            *cell = in_type(uncast(cell).clone(), given, &wanted, &none, style)?;
        }
    }
    if !changed {
        return Ok(Transformed::no(LogicalPlan::Values(values)));
    }
    LogicalPlanBuilder::values(values.values)?.build().map(Transformed::yes)
}

/// Whether a column of the type `column` would round constants of the type `given`.
fn cuts(column: &DataType, given: &DataType) -> bool {
    match (column, given) {
        (DataType::Decimal128(_, column), DataType::Decimal128(_, given)) => column < given,
        (DataType::Decimal128(..), given) => given.is_floating(),
        _ => false,
    }
}

/// The value inside of a cast that the planner added for the type of the column. This cast carries
/// no type name; a cast of the statement does.
pub fn uncast(cell: &Expr) -> &Expr {
    match cell {
        Expr::Cast(Cast { expr, field })
            if field.name().is_empty() && field.metadata().is_empty() =>
        {
            uncast(expr)
        }
        other => other,
    }
}
