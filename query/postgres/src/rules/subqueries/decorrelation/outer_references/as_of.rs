//! Computes a subquery with `ORDER BY … LIMIT n` by an as-of join.

use std::{collections::HashSet, sync::Arc};

use arrow::datatypes::DataType;
use datafusion::{
    common::{Column, DFSchema, Result, tree_node::Transformed},
    logical_expr::{
        BinaryExpr, Expr, ExprSchemable, FetchType, Filter, Limit, LogicalPlan, Operator,
        Projection, SkipType, Sort, SortExpr,
        utils::{conjunction, split_conjunction},
    },
};
use stratalog_functions::plan_walk::TreeWalk;

use super::{super::is_subquery_in, OuterKeys, without_lateral_marker};
use crate::rules::subqueries::as_of::{AsOf, Until};

/// Maximum LIMIT for an as-of join. For a higher LIMIT, the rows of each key are numbered instead.
const ROWS_MAX: usize = 1_000;

/// The conditions in the WHERE of a subquery, by their role in an as-of join.
#[derive(Default)]
struct Conditions {
    of_keys: Vec<Expr>,
    of_rows: Vec<Expr>,
    on: Vec<(Expr, Expr)>,
    until: Option<Until>,
    /// Conditions that end the matches: after the first row that fails such a condition, all later
    /// rows in the sort order fail it too.
    from: Vec<Expr>,
}

impl OuterKeys<'_> {
    /// The first rows in the order of `sort` for each key, as an as-of join. `None` if the join
    /// cannot evaluate all conditions on the keys: only equalities, and bounds of the first sort
    /// column.
    pub(super) fn as_of(&self, limit: &Limit, sort: &Sort) -> Result<Option<LogicalPlan>> {
        let (SkipType::Literal(0), FetchType::Literal(Some(rows @ 1..=ROWS_MAX))) =
            (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return Ok(None);
        };
        let mut node = without_lateral_marker(&sort.input);
        let mut projection = None;
        if let LogicalPlan::Projection(selected) = node {
            projection = Some(selected);
            node = without_lateral_marker(&selected.input);
        }
        let mut predicates = Vec::new();
        while let LogicalPlan::Filter(filter) = node
            && self.references(node)
        {
            predicates.extend(split_conjunction(&filter.predicate));
            node = without_lateral_marker(&filter.input);
        }
        // Columns of a query further out must be resolved in their own plan, not below the as-of
        // join.
        if predicates.is_empty() || !node.all_out_ref_exprs().is_empty() {
            return Ok(None);
        }
        let by = |by: &SortExpr| {
            let expr = match projection {
                Some(projection) => selected(by.expr.clone(), projection)?,
                None => by.expr.clone(),
            };
            Ok(SortExpr { expr, ..*by })
        };
        let order = sort.expr.iter().map(by).collect::<Result<Vec<_>>>()?;
        if order.iter().any(|by| by.expr.contains_outer()) {
            return Ok(None);
        }
        let Some(conditions) = self.conditions(predicates, &order, node.schema())? else {
            return Ok(None);
        };
        let joined = self.as_of_join(conditions, node, order, rows)?;
        match projection {
            Some(projection) => self.projected(&projection.expr, joined).map(Some),
            None => Ok(Some(joined)),
        }
    }

    fn as_of_join(
        &self,
        mut conditions: Conditions,
        rows: &LogicalPlan,
        order: Vec<SortExpr>,
        count: usize,
    ) -> Result<LogicalPlan> {
        // NULL never matches: it neither equals nor precedes a value.
        let until = conditions.until.iter().map(|until| (&until.left, &until.right));
        for (key, row) in conditions.on.iter().map(|(key, row)| (key, row)).chain(until) {
            if key.nullable(self.rows.schema())? {
                conditions.of_keys.push(key.clone().is_not_null());
            }
            if row.nullable(rows.schema())? {
                conditions.of_rows.push(row.clone().is_not_null());
            }
        }
        let keys = with_filter(Arc::unwrap_or_clone(Arc::clone(&self.rows)), conditions.of_keys)?;
        let rows = with_filter(rows.clone(), conditions.of_rows)?;
        self.state.count(&keys)?;
        let (on, until) = (conditions.on, conditions.until);
        let joined = AsOf::try_new(keys, rows, on, until, order.clone(), count)?.into_plan();
        let joined = with_filter(joined, conditions.from)?;
        Ok(match count {
            1 => joined,
            _ => LogicalPlan::Sort(Sort { expr: order, input: Arc::new(joined), fetch: None }),
        })
    }

    /// Sorts the conditions by their role; `None` if an as-of join cannot evaluate one of them.
    fn conditions(
        &self,
        predicates: Vec<&Expr>,
        order: &[SortExpr],
        rows: &DFSchema,
    ) -> Result<Option<Conditions>> {
        let mut conditions = Conditions::default();
        for predicate in predicates {
            if is_subquery_in(predicate)? || predicate.is_volatile() {
                return Ok(None);
            }
            let predicate = self.expr(predicate.clone())?;
            if predicate.contains_outer() {
                return Ok(None);
            }
            match self.sides(&predicate) {
                (false, _) => conditions.of_rows.push(predicate),
                (true, false) => conditions.of_keys.push(predicate),
                (true, true) => {
                    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &predicate else {
                        return Ok(None);
                    };
                    let (key, op, row) = match (self.sides(left), self.sides(right)) {
                        ((true, false), (false, true)) => (left, op.swap(), right),
                        ((false, true), (true, false)) => (right, Some(*op), left),
                        _ => return Ok(None),
                    };
                    if !self.are_alike(key, row, rows)? {
                        return Ok(None);
                    }
                    let (key, row) = (key.as_ref().clone(), row.as_ref().clone());
                    let first = order.first();
                    let first = first.filter(|by| grows_with(&row, &by.expr, rows));
                    // In a descending order, an upper bound of the sort column is `until`, and a
                    // lower bound is `from`.
                    let inclusive = match (op, first.map(|by| by.asc)) {
                        (Some(Operator::Eq), _) => {
                            conditions.on.push((key, row));
                            continue;
                        }
                        (Some(Operator::LtEq), Some(false))
                        | (Some(Operator::GtEq), Some(true)) => true,
                        (Some(Operator::Lt), Some(false)) | (Some(Operator::Gt), Some(true)) => {
                            false
                        }
                        (Some(Operator::Gt | Operator::GtEq), Some(false))
                        | (Some(Operator::Lt | Operator::LtEq), Some(true)) => {
                            if row.nullable(rows)? {
                                conditions.of_rows.push(row.is_not_null());
                            }
                            conditions.from.push(predicate);
                            continue;
                        }
                        _ => return Ok(None),
                    };
                    if conditions.until.is_some() {
                        return Ok(None);
                    }
                    conditions.until = Some(Until { left: key, right: row, inclusive });
                }
            }
        }
        let Conditions { on, until, from, .. } = &conditions;
        let is_as_of = !on.is_empty() || until.is_some() || !from.is_empty();
        Ok(is_as_of.then_some(conditions))
    }

    /// Returns whether an expression names keys, and whether it names other columns.
    fn sides(&self, expr: &Expr) -> (bool, bool) {
        let columns: HashSet<&Column> = expr.column_refs();
        let is_key = |column: &&Column| {
            column.relation.is_none() && self.keys.iter().any(|key| key.name == column.name)
        };
        let keys = columns.iter().copied().filter(|column| is_key(column)).count();
        (keys > 0, keys < columns.len())
    }

    /// Whether two expressions have the same type, and values of this type sort in comparison order
    /// and are equal only if identical.
    fn are_alike(&self, key: &Expr, row: &Expr, rows: &DFSchema) -> Result<bool> {
        let (_, key) = key.to_field(self.rows.schema())?;
        let (_, row) = row.to_field(rows)?;
        let is_exact = match row.data_type() {
            data_type if data_type.is_string() => row.metadata().is_empty(),
            data_type => {
                data_type.is_integer()
                    || data_type.is_decimal()
                    || data_type.is_binary()
                    || matches!(
                        data_type,
                        DataType::Boolean | DataType::Date32 | DataType::Timestamp(..)
                    )
            }
        };
        Ok(is_exact && key.data_type() == row.data_type() && key.metadata() == row.metadata())
    }
}

/// Replaces the columns of a projection in an expression by the projected expressions.
fn selected(expr: Expr, projection: &Projection) -> Result<Expr> {
    expr.change_up(|expr| {
        let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
        let at = projection.schema.maybe_index_of_column(column);
        Ok(match at.and_then(|at| projection.expr.get(at)) {
            Some(source) => Transformed::yes(source.clone().unalias()),
            None => Transformed::no(expr),
        })
    })
    .map(|expr| expr.data)
}

fn with_filter(rows: LogicalPlan, conditions: Vec<Expr>) -> Result<LogicalPlan> {
    match conjunction(conditions) {
        Some(predicate) => Filter::try_new(predicate, Arc::new(rows)).map(LogicalPlan::Filter),
        None => Ok(rows),
    }
}

/// Whether `expr` sorts in the same order as `by`: it is `by` itself, or a cast of `by` to a wider
/// type.
fn grows_with(expr: &Expr, by: &Expr, schema: &DFSchema) -> bool {
    if expr == by {
        return true;
    }
    let Expr::Cast(wider) = expr else { return false };
    let Ok(from) = by.get_type(schema) else { return false };
    let widens = match (&from, wider.field.data_type()) {
        (from, DataType::Int32) => matches!(from, DataType::Int16),
        (from, DataType::Int64) => matches!(from, DataType::Int16 | DataType::Int32),
        (DataType::Timestamp(from, zone), DataType::Timestamp(to, other)) => {
            from <= to && zone.is_some() == other.is_some()
        }
        _ => false,
    };
    widens && wider.expr.as_ref() == by
}
