//! Finds the table column or the expression from which a column of a plan comes.

use datafusion::{
    common::Column,
    logical_expr::{Distinct, Expr, LogicalPlan, TableScan, Values},
};

/// Where a column of a plan comes from.
pub enum ColumnSource<'a> {
    /// A column of a table.
    Table(&'a TableScan),
    /// An expression over the columns of a plan.
    Computed(&'a LogicalPlan, &'a Expr),
    /// A column of VALUES.
    Rows(&'a Values),
    /// The elements of an array column of a plan, by `unnest`.
    Element(&'a LogicalPlan),
    /// A column that combines a column of several plans, for example in a UNION.
    Mixed(Vec<&'a LogicalPlan>),
}

/// Follows a column of a plan through all nodes that only pass the column on. Returns its source,
/// and the index of the column in the source.
pub fn source(mut plan: &LogicalPlan, mut at: usize) -> Option<(ColumnSource<'_>, usize)> {
    loop {
        let (input, expression) = match plan {
            LogicalPlan::Projection(projection) => (&projection.input, projection.expr.get(at)?),
            // With grouping sets, only the aggregates correspond to their expressions.
            LogicalPlan::Aggregate(aggregate)
                if aggregate.group_expr.iter().any(|by| matches!(by, Expr::GroupingSet(_))) =>
            {
                let keys =
                    aggregate.schema.fields().len().checked_sub(aggregate.aggr_expr.len())?;
                (&aggregate.input, aggregate.aggr_expr.get(at.checked_sub(keys)?)?)
            }
            LogicalPlan::Aggregate(aggregate) => {
                let mut columns = aggregate.group_expr.iter().chain(&aggregate.aggr_expr);
                (&aggregate.input, columns.nth(at)?)
            }
            LogicalPlan::Window(window) => {
                match at.checked_sub(window.input.schema().fields().len()) {
                    Some(at) => (&window.input, window.window_expr.get(at)?),
                    None => {
                        plan = &window.input;
                        continue;
                    }
                }
            }
            LogicalPlan::Distinct(Distinct::On(distinct)) => {
                (&distinct.input, distinct.select_expr.get(at)?)
            }
            LogicalPlan::Join(join) => {
                let left = join.left.schema().fields().len();
                (plan, at) = match at.checked_sub(left) {
                    None => (&join.left, at),
                    Some(at) => (&join.right, at),
                };
                continue;
            }
            LogicalPlan::Unnest(unnest) => {
                let column = *unnest.dependency_indices.get(at)?;
                if unnest.list_type_columns.iter().any(|(unnested, _)| *unnested == column) {
                    return Some((ColumnSource::Element(&unnest.input), column));
                }
                (plan, at) = (&unnest.input, column);
                continue;
            }
            LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::Distinct(Distinct::All(_)) => {
                plan = plan.inputs().first().copied()?;
                continue;
            }
            LogicalPlan::Union(union) => {
                return Some((
                    ColumnSource::Mixed(union.inputs.iter().map(AsRef::as_ref).collect()),
                    at,
                ));
            }
            LogicalPlan::RecursiveQuery(query) => {
                return Some((ColumnSource::Mixed(vec![&query.static_term]), at));
            }
            LogicalPlan::TableScan(scan) => return Some((ColumnSource::Table(scan), at)),
            LogicalPlan::Values(values) => return Some((ColumnSource::Rows(values), at)),
            _ => return None,
        };
        match unaliased(expression) {
            Expr::Column(column) => (plan, at) = (input, place(input, column, at)?),
            computed => return Some((ColumnSource::Computed(input, computed), at)),
        }
    }
}

/// An expression without aliases.
pub fn unaliased(mut expression: &Expr) -> &Expr {
    while let Expr::Alias(alias) = expression {
        expression = &alias.expr;
    }
    expression
}

/// The index of a column in the schema of a plan. Tries the index `at` first.
fn place(plan: &LogicalPlan, column: &Column, at: usize) -> Option<usize> {
    let schema = plan.schema();
    let here = (at < schema.fields().len()).then(|| schema.qualified_field(at));
    match here {
        Some((relation, field))
            if relation == column.relation.as_ref() && *field.name() == column.name =>
        {
            Some(at)
        }
        _ => schema.index_of_column(column).ok(),
    }
}
