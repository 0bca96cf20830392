//! Batches of few rows, for a node that writes long constants out in every row.

use std::{fmt, sync::Arc};

use datafusion::{
    common::{Result, tree_node::TreeNodeRecursion},
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::PhysicalExpr,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use stratalog_model::Error;

use crate::errors::to_datafusion;

/// The rows of a plan in batches of at most so many rows.
#[derive(Debug)]
pub struct SlicedInput {
    input: Arc<dyn ExecutionPlan>,
    rows_max: usize,
}

impl SlicedInput {
    /// `input`, in batches of at most so many rows.
    pub fn new(input: Arc<dyn ExecutionPlan>, rows_max: usize) -> Self {
        Self { input, rows_max }
    }
}

impl DisplayAs for SlicedInput {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlicedInput: rows_max={}", self.rows_max)
    }
}

impl ExecutionPlan for SlicedInput {
    fn name(&self) -> &'static str {
        "SlicedInput"
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
            Some(input) => Ok(Arc::new(Self::new(input, self.rows_max))),
            None => Err(to_datafusion(Error::internal("sliced batches have one input"))),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let (schema, rows_max) = (input.schema(), self.rows_max.max(1));
        let batches = input.map_ok(move |batch| {
            let starts = (0..batch.num_rows()).step_by(rows_max);
            let slices: Vec<_> = starts
                .map(|start| Ok(batch.slice(start, rows_max.min(batch.num_rows() - start))))
                .collect();
            stream::iter(slices)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.try_flatten().boxed())))
    }
}
