//! The direct way for `SELECT columns FROM chronicle WHERE key = … AND time = …`: filters
//! that are all exact become one scan, without physical planning.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::{
    common::tree_node::{Transformed, TreeNode},
    common::{Column, DFSchema},
    datasource::source_as_provider,
    logical_expr::{Expr, LogicalPlan, TableScan, expr::Placeholder, utils::split_conjunction},
    scalar::ScalarValue,
};
use futures::{StreamExt, stream, stream::BoxStream};
use stratalog_model::{
    Result, Snapshot,
    tier::{ScanOrder, ScanRequest},
};

use super::parameters;
use crate::{
    session::planner::Planner,
    table::{ChronicleTable, pushdown},
};

/// A query that one scan answers.
#[derive(Debug)]
pub struct PointQuery {
    /// The scan without its filters.
    scan: ScanRequest,
    /// Conjuncts, parameters open.
    filters: Vec<Expr>,
}

/// Keys and ticks that a direct scan reads, at most: it reads them in one stream.
const ROWS_MAX: u64 = 32_768;

impl PointQuery {
    /// The direct way of a plan, if it has the shape for it.
    pub fn of(planner: &Planner, plan: &LogicalPlan) -> Option<Self> {
        if !matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::Filter(_)) {
            return None;
        }
        if !has_shape(plan) {
            return None;
        }
        let optimized = planner.optimize(plan).ok()?;
        let mut filters = Vec::new();
        let mut node = &optimized;
        let mut columns: Option<Vec<Column>> = None;
        loop {
            match node {
                LogicalPlan::Projection(projection) => {
                    if columns.is_some() {
                        return None;
                    }
                    columns =
                        Some(projection.expr.iter().map(plain_column).collect::<Option<Vec<_>>>()?);
                    node = &projection.input;
                }
                LogicalPlan::SubqueryAlias(alias) => node = &alias.input,
                LogicalPlan::Filter(filter) => {
                    filters.extend(split_conjunction(&filter.predicate).into_iter().cloned());
                    node = &filter.input;
                }
                LogicalPlan::TableScan(scan) => {
                    filters.extend(scan.filters.iter().cloned());
                    return Self::over(scan, columns, filters);
                }
                _ => return None,
            }
        }
    }

    fn over(scan: &TableScan, columns: Option<Vec<Column>>, filters: Vec<Expr>) -> Option<Self> {
        if filters.is_empty() {
            return None;
        }
        let provider = source_as_provider(&scan.source).ok()?;
        let table = provider.downcast_ref::<ChronicleTable>()?;
        let schema: &DFSchema = &scan.projected_schema;
        let positions: Vec<usize> = match &columns {
            Some(columns) => columns
                .iter()
                .map(|column| {
                    schema.maybe_index_of_column(column).or_else(|| {
                        schema.fields().iter().position(|field| field.name() == &column.name)
                    })
                })
                .collect::<Option<_>>()?,
            None => (0..schema.fields().len()).collect(),
        };
        let projection: Vec<usize> = match &scan.projection {
            Some(projected) => {
                positions.iter().map(|at| projected.get(*at).copied()).collect::<Option<_>>()?
            }
            None => positions,
        };
        let request = table.request(Some(&projection), &[], scan.fetch, 0, 1);
        Some(Self { scan: request, filters })
    }

    /// Runs the scan; `None` when the values make a filter inexact or the result large, so
    /// that the planner must answer.
    pub fn run(
        &self,
        snapshot: &Arc<dyn Snapshot>,
        values: &[ScalarValue],
        batch_rows_max: usize,
    ) -> Result<Option<BoxStream<'static, Result<RecordBatch>>>> {
        let mut request = self.scan.clone();
        let mut bound = Vec::with_capacity(self.filters.len());
        for filter in &self.filters {
            let Some(filter) = bind(filter, values) else { return Ok(None) };
            if pushdown::exact(&request.chronicle, &filter).is_none() {
                return Ok(None);
            }
            bound.push(filter);
        }
        let pushed = pushdown::push(&request.chronicle, &bound);
        request.ticks = pushed.ticks;
        request.keys = pushed.keys;
        request.batch_rows_max = batch_rows_max;
        request.order = ScanOrder::Any;
        // Keys find their rows by themselves; else a large result is better read in parallel.
        let large = || {
            snapshot
                .extent(&request.chronicle, &request.ticks)
                .is_none_or(|extent| extent.rows > ROWS_MAX)
        };
        if request.keys.is_empty() && large() {
            return Ok(None);
        }
        let limit = request.limit;
        let streams = snapshot.scan(request)?;
        let rows = stream::iter(streams).flatten();
        Ok(Some(match limit {
            None => rows.boxed(),
            Some(limit) => rows
                .scan(limit, |left, batch| {
                    std::future::ready(match batch {
                        Ok(_) if *left == 0 => None,
                        Ok(batch) => {
                            let batch = batch.slice(0, batch.num_rows().min(*left));
                            *left = left.saturating_sub(batch.num_rows());
                            Some(Ok(batch))
                        }
                        Err(error) => Some(Err(error)),
                    })
                })
                .boxed(),
        }))
    }
}

/// Nothing but projections of plain columns, filters, and one scan: checked before the
/// optimizer is paid for.
fn has_shape(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => {
            projection.expr.iter().all(|expr| plain_column(expr).is_some())
                && has_shape(&projection.input)
        }
        LogicalPlan::Filter(filter) => has_shape(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => has_shape(&alias.input),
        LogicalPlan::TableScan(_) => true,
        _ => false,
    }
}

fn plain_column(expr: &Expr) -> Option<Column> {
    match expr {
        Expr::Column(column) => Some(column.clone()),
        Expr::Alias(alias) => plain_column(&alias.expr),
        _ => None,
    }
}

/// The filter with its parameters filled in, casts of constants done.
fn bind(filter: &Expr, values: &[ScalarValue]) -> Option<Expr> {
    let bound = filter.clone().transform_up(|expr| match expr {
        Expr::Placeholder(Placeholder { id, field }) => {
            let value = parameters::number(&id).and_then(|number| values.get(number - 1));
            Ok(match value {
                Some(value) => Transformed::yes(Expr::Literal(value.clone(), None)),
                None => Transformed::no(Expr::Placeholder(Placeholder { id, field })),
            })
        }
        Expr::Cast(cast) => match cast.expr.as_ref() {
            Expr::Literal(value, _) => {
                Ok(Transformed::yes(Expr::Literal(value.cast_to(cast.field.data_type())?, None)))
            }
            _ => Ok(Transformed::no(Expr::Cast(cast))),
        },
        other => Ok(Transformed::no(other)),
    });
    bound.ok().map(|bound| bound.data)
}
