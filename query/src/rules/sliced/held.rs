//! Batches that count as long as a node holds them, for windows: these ask no memory pool.

use std::{fmt, sync::Arc};

use arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::{
    common::{Result, tree_node::TreeNodeRecursion},
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::PhysicalExpr,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
        stream::RecordBatchStreamAdapter,
    },
};
use futures::StreamExt as _;
use stratalog_functions::governor;
use stratalog_model::Error;

use crate::errors::to_datafusion;

/// Smaller columns do not count.
const COLUMN_BYTES_MIN: usize = 8 << 10;

/// The rows of a plan, whose memory counts until the last user drops it.
#[derive(Debug)]
pub struct HeldInput {
    input: Arc<dyn ExecutionPlan>,
}

impl HeldInput {
    /// `input`, whose batches count.
    pub fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        Self { input }
    }
}

impl DisplayAs for HeldInput {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeldInput")
    }
}

impl ExecutionPlan for HeldInput {
    fn name(&self) -> &'static str {
        "HeldInput"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.into_iter().next() {
            Some(input) => Ok(Arc::new(Self::new(input))),
            None => Err(to_datafusion(Error::internal("held batches have one input"))),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let schema = input.schema();
        let batches = input.map(|batch| held(&batch?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

/// The batch, charged to the statement. A window also writes its input out once more.
fn held(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(|column| {
        let bytes = governor::value_bytes(column).saturating_mul(2);
        if bytes < COLUMN_BYTES_MIN {
            return Ok(Arc::clone(column));
        }
        let charge = governor::charge(bytes).map_err(to_datafusion)?;
        governor::tied(column, charge, &[])
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}
