//! A projection that splits batches, for rows that can be long.

use std::{fmt, sync::Arc};

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::SchemaRef,
};
use datafusion::{
    common::{Result, tree_node::TreeNodeRecursion},
    execution::{SendableRecordBatchStream, TaskContext},
    logical_expr::ColumnarValue,
    physical_expr::PhysicalExpr,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
        projection::ProjectionExec,
        replace_children_if_necessary,
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt as _, stream};
use stratalog_functions::{
    failed,
    governor::{Evaluation, SPLIT_BYTES, evaluating},
    metered::expanded,
};
use stratalog_model::{Error, ErrorKind};
use stratalog_postgres::errors::to_datafusion;

use super::{constant_list_bytes, constants, halves, is_out_of_memory, nested_bytes, rows_max};

/// A [`ProjectionExec`] that computes parts of a batch if the whole result is too large.
#[derive(Debug)]
pub struct SlicedProjection {
    projection: Arc<dyn ExecutionPlan>,
    metrics: ExecutionPlanMetricsSet,
}

impl SlicedProjection {
    /// Wraps a [`ProjectionExec`].
    pub fn new(projection: Arc<dyn ExecutionPlan>) -> Self {
        Self { projection, metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for SlicedProjection {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.projection.downcast_ref::<ProjectionExec>() {
            Some(projection) => projection.fmt_as(format, f),
            None => f.write_str(self.name()),
        }
    }
}

impl ExecutionPlan for SlicedProjection {
    fn name(&self) -> &'static str {
        "ProjectionExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.projection.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.projection.maintains_input_order()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.projection.children()
    }

    fn apply_expressions(
        &self,
        each: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.projection.apply_expressions(each)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let projection = Arc::clone(&self.projection);
        let projection = replace_children_if_necessary(projection, children)?;
        Ok(Arc::new(Self::new(projection)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let unfit = || to_datafusion(Error::internal("a sliced projection without a projection"));
        let projection = self.projection.downcast_ref::<ProjectionExec>().ok_or_else(unfit)?;
        let columns: Vec<_> =
            projection.expr().iter().map(|column| Arc::clone(&column.expr)).collect();
        let mut row_bytes = 0_usize;
        for column in &columns {
            row_bytes = row_bytes.saturating_add(constants(column)?);
            row_bytes = row_bytes.saturating_add(constant_list_bytes(column));
        }
        let schema = self.projection.schema();
        let slices = ProjectionSlices {
            input: projection.input().execute(partition, context)?,
            columns,
            schema: Arc::clone(&schema),
            pending: Vec::new(),
            rows_max: rows_max(row_bytes),
            rows_limit: rows_max(row_bytes),
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batches = stream::try_unfold((slices, metrics), |(mut slices, metrics)| async move {
            let batch = slices.next(&metrics).await?;
            Ok(batch.map(|batch| (batch, (slices, metrics))))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

struct ProjectionSlices {
    input: SendableRecordBatchStream,
    columns: Vec<Arc<dyn PhysicalExpr>>,
    schema: SchemaRef,
    /// Parts of the last batch that are not computed yet; the next part is at the end.
    pending: Vec<RecordBatch>,
    /// Maximum rows of the next part.
    rows_max: usize,
    /// Upper bound of `rows_max`.
    rows_limit: usize,
}

impl ProjectionSlices {
    async fn next(&mut self, metrics: &BaselineMetrics) -> Result<Option<RecordBatch>> {
        loop {
            let Some(batch) = self.pending.pop() else {
                match self.input.next().await {
                    Some(batch) => self.pending.push(batch?),
                    None => return Ok(None),
                }
                continue;
            };
            let rows = batch.num_rows();
            if rows > self.rows_max {
                self.pending.push(batch.slice(self.rows_max, rows - self.rows_max));
                self.pending.push(batch.slice(0, self.rows_max));
                continue;
            }
            let timer = metrics.elapsed_compute().timer();
            let evaluated = self.evaluate(&batch);
            timer.done();
            match evaluated {
                Err(error) if rows > 1 && is_out_of_memory(&error) => {
                    let [first, second] = halves(&batch);
                    self.rows_max = first.num_rows().max(1);
                    self.pending.extend([second, first]);
                }
                Err(error) => return Err(error),
                Ok(evaluated) => {
                    let is_small = evaluated.get_array_memory_size() < SPLIT_BYTES / 4;
                    if rows == self.rows_max && is_small {
                        self.rows_max = self.rows_max.saturating_mul(2).min(self.rows_limit);
                    }
                    metrics.record_output(rows);
                    return Ok(Some(evaluated));
                }
            }
        }
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        evaluating(Evaluation::Splittable, || {
            let columns = self.columns.iter().map(|column| {
                let value = column.evaluate(batch)?;
                check_constant(&value, rows)?;
                expanded(&value, rows)
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
        })
    }
}

/// Checks that a batch does not repeat a long constant in too many rows.
fn check_constant(value: &ColumnarValue, rows: usize) -> Result<()> {
    let ColumnarValue::Scalar(value) = value else { return Ok(()) };
    let text = value.try_as_str().flatten().map_or(0, str::len);
    let bytes = text.saturating_add(nested_bytes(value)).saturating_mul(rows);
    if rows > 1 && bytes > SPLIT_BYTES {
        return Err(failed(
            Error::new(ErrorKind::OutOfMemory, "out of memory")
                .with_detail(format!("a constant would take {bytes} bytes in {rows} rows")),
        ));
    }
    Ok(())
}
