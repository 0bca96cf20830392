//! The direct path for queries such as `SELECT columns FROM chronicle WHERE key = … AND time = …`:
//! exact filters become one scan, without physical planning.

pub mod constants;

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::{
    common::{Column, DFSchema},
    datasource::source_as_provider,
    logical_expr::{Expr, LogicalPlan, TableScan, utils::split_conjunction},
    scalar::ScalarValue,
};
use futures::{StreamExt, stream, stream::BoxStream};
use stratalog_model::{
    ColumnType, Result, Snapshot,
    tier::{ScanOrder, ScanRequest},
};

use self::constants::Constants;
use crate::{
    session::planner::Planner,
    table::{ChronicleTable, pushdown},
};

/// A query that runs as a single scan.
#[derive(Debug)]
pub struct PointQuery {
    /// The scan without the filters.
    scan: ScanRequest,
    /// The conjuncts of the filter, with placeholders for the constants.
    filters: Vec<Expr>,
    constants: Constants,
}

/// Maximum number of rows of a direct scan without keys: the scan uses one stream.
const ROWS_MAX: u64 = 32_768;

impl PointQuery {
    /// Creates the direct path for a plan with parameters of the given types; `None` if the plan
    /// has another form.
    pub fn of(planner: &Planner, plan: &LogicalPlan, types: &[ColumnType]) -> Option<Self> {
        if !matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::Filter(_)) {
            return None;
        }
        if !has_shape(plan) {
            return None;
        }
        let optimized = planner.optimize(&constants::open(plan.clone(), types)?).ok()?;
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
                    return Self::over(planner, scan, columns, filters);
                }
                _ => return None,
            }
        }
    }

    fn over(
        planner: &Planner,
        scan: &TableScan,
        columns: Option<Vec<Column>>,
        mut filters: Vec<Expr>,
    ) -> Option<Self> {
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
        let constants = Constants::take(planner, &mut filters.iter_mut().collect::<Vec<_>>())?;
        Some(Self { scan: request, filters, constants })
    }

    /// Runs the scan with the parameters `values` and the time `now_ns`. `None` if the values make
    /// a filter inexact or the result large: the planner must then run the query.
    pub fn run(
        &self,
        snapshot: &Arc<dyn Snapshot>,
        values: &[ScalarValue],
        now_ns: i64,
        batch_rows_max: usize,
    ) -> Result<Option<BoxStream<'static, Result<RecordBatch>>>> {
        let Some(computed) = self.constants.compute(values, now_ns) else { return Ok(None) };
        let mut request = self.scan.clone();
        let mut bound = Vec::with_capacity(self.filters.len());
        for filter in &self.filters {
            let Some(filter) = constants::fill(filter, &computed) else { return Ok(None) };
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
        // With keys, storage finds the rows directly. Without keys, a large result needs a parallel
        // scan.
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

/// True if the plan consists only of projections of plain columns, filters, and one scan. This
/// check is cheaper than the optimizer.
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
