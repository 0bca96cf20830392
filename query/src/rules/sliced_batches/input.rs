//! Splits the input batches of a node: into batches with few rows for a node that writes long
//! constants in every row, or into batches with few list elements for a node that makes a row of
//! each element.

use std::{fmt, sync::Arc};

use arrow::{
    array::{Array as _, ArrayRef, AsArray as _, RecordBatch},
    datatypes::DataType,
};
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
use stratalog_postgres::errors::to_datafusion;

/// The maximum size of a batch.
#[derive(Debug, Clone)]
pub enum BatchLimit {
    /// Maximum number of rows.
    Rows(usize),
    /// Maximum number of elements in the lists of these columns; a single row may have more
    /// elements.
    Elements {
        /// Positions of the columns.
        columns: Vec<usize>,
        /// Maximum sum, over the rows of a batch, of the length of each row's longest list.
        elements_max: usize,
    },
}

impl BatchLimit {
    /// The parts into which a batch is split: the first row and the number of rows of each part.
    fn parts(&self, batch: &RecordBatch) -> Vec<(usize, usize)> {
        let rows = batch.num_rows();
        match self {
            BatchLimit::Rows(rows_max) => {
                let rows_max = (*rows_max).max(1);
                (0..rows).step_by(rows_max).map(|at| (at, rows_max.min(rows - at))).collect()
            }
            BatchLimit::Elements { columns, elements_max } => {
                let lists: Vec<&ArrayRef> =
                    columns.iter().filter_map(|at| batch.columns().get(*at)).collect();
                let (mut parts, mut start, mut elements) = (Vec::new(), 0, 0_usize);
                for row in 0..rows {
                    let longest = lists.iter().map(|list| length_at(list, row)).max();
                    let more = longest.unwrap_or(0);
                    if row > start && elements.saturating_add(more) > *elements_max {
                        parts.push((start, row - start));
                        (start, elements) = (row, 0);
                    }
                    elements = elements.saturating_add(more);
                }
                parts.push((start, rows - start));
                parts
            }
        }
    }
}

/// The number of elements of a row's list.
fn length_at(list: &ArrayRef, row: usize) -> usize {
    match list.data_type() {
        DataType::List(_) => usize::try_from(list.as_list::<i32>().value_length(row)).unwrap_or(0),
        DataType::LargeList(_) => {
            usize::try_from(list.as_list::<i64>().value_length(row)).unwrap_or(0)
        }
        DataType::FixedSizeList(_, length) => usize::try_from(*length).unwrap_or(0),
        _ => 1,
    }
}

/// The rows of a plan, in batches that stay within a limit.
#[derive(Debug)]
pub struct SlicedInput {
    input: Arc<dyn ExecutionPlan>,
    limit: BatchLimit,
}

impl SlicedInput {
    /// Splits the batches of `input` to stay within `limit`.
    pub fn new(input: Arc<dyn ExecutionPlan>, limit: BatchLimit) -> Self {
        Self { input, limit }
    }
}

impl DisplayAs for SlicedInput {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.limit {
            BatchLimit::Rows(rows_max) => write!(f, "SlicedInput: rows_max={rows_max}"),
            BatchLimit::Elements { elements_max, .. } => {
                write!(f, "SlicedInput: elements_max={elements_max}")
            }
        }
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
            Some(input) => Ok(Arc::new(Self::new(input, self.limit.clone()))),
            None => Err(to_datafusion(Error::internal("sliced batches have one input"))),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let (schema, limit) = (input.schema(), self.limit.clone());
        let batches = input.map_ok(move |batch| {
            let parts = limit.parts(&batch).into_iter();
            stream::iter(parts.map(move |(start, rows)| Ok(batch.slice(start, rows))))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.try_flatten().boxed())))
    }
}
