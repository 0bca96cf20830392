//! Charges the memory of input batches that a plan node keeps.
//!
//! Window operators request no memory from the pool, neither for input nor for results. A join
//! requests memory for the left side, and then copies the left side into a single batch without a
//! request.

use std::{fmt, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions},
    datatypes::DataType,
};
use datafusion::{
    common::{Result, tree_node::TreeNodeRecursion},
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
    },
    physical_expr::PhysicalExpr,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
        stream::RecordBatchStreamAdapter,
    },
};
use futures::StreamExt as _;
use stratalog_functions::governor::{self, Charge, Governor};
use stratalog_model::Error;
use stratalog_postgres::errors::{from_datafusion, to_datafusion};

/// Minimum bytes of a column to charge; smaller columns are free.
const COLUMN_BYTES_MIN: usize = 8 << 10;

/// The rule by which the memory of batches is charged.
#[derive(Debug, Clone, Copy)]
pub enum ChargeRule {
    /// Charge each batch until its release: the node releases earlier batches.
    Window,
    /// Like `Window`; additionally charge this number of bytes for each row until the end, because
    /// the node computes values for all rows at once.
    WholeWindow(usize),
    /// Charge a copy of each batch.
    Copy,
}

/// The rows of a plan; each batch carries a memory charge until its last user drops the batch.
#[derive(Debug)]
pub struct HeldInput {
    input: Arc<dyn ExecutionPlan>,
    count: ChargeRule,
}

impl HeldInput {
    /// Charges the batches of `input` by the rule `count`.
    pub fn new(input: Arc<dyn ExecutionPlan>, count: ChargeRule) -> Self {
        Self { input, count }
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
            Some(input) => Ok(Arc::new(Self::new(input, self.count))),
            None => Err(to_datafusion(Error::internal("held batches have one input"))),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let pool = Arc::new(Pool(match self.count {
            ChargeRule::Copy => {
                let consumer = MemoryConsumer::new(format!("copy of a join's rows[{partition}]"));
                Some(consumer.register(context.memory_pool()))
            }
            ChargeRule::Window | ChargeRule::WholeWindow(_) => None,
        })) as Arc<dyn Governor>;
        let input = self.input.execute(partition, context)?;
        let (schema, count) = (input.schema(), self.count);
        let (mut rows, mut computed) = (0_usize, None::<Charge>);
        let batches = input.map(move |batch| {
            let batch = batch?;
            match count {
                ChargeRule::Window => charged_batch(&batch),
                ChargeRule::WholeWindow(row_bytes) => {
                    rows = rows.saturating_add(batch.num_rows());
                    let bytes = rows.saturating_mul(row_bytes);
                    match &mut computed {
                        Some(charge) => charge.resize(bytes).map_err(to_datafusion)?,
                        None => computed = Some(governor::charge(bytes).map_err(to_datafusion)?),
                    }
                    charged_batch(&batch)
                }
                ChargeRule::Copy => charged_copy(&batch, &pool),
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

/// Requests memory directly from the pool, without the limit of the statement.
#[derive(Debug)]
struct Pool(Option<MemoryReservation>);

impl Governor for Pool {
    fn check(&self) -> stratalog_model::Result<()> {
        Ok(())
    }

    fn grow(&self, bytes: usize) -> stratalog_model::Result<()> {
        let grown = self.0.as_ref().map_or(Ok(()), |pool| pool.try_grow(bytes));
        grown.map_err(from_datafusion)
    }

    fn shrink(&self, bytes: usize) {
        if let Some(pool) = &self.0 {
            pool.shrink(bytes);
        }
    }
}

/// Charges a batch to the statement. The charge is double, because a window operator also copies
/// its input to the output.
fn charged_batch(batch: &RecordBatch) -> Result<RecordBatch> {
    with_charge(batch, |column| {
        let bytes = governor::value_bytes(column).saturating_mul(2);
        (bytes >= COLUMN_BYTES_MIN)
            .then(|| governor::charge(bytes).map_err(to_datafusion))
            .transpose()
    })
}

/// Charges a copy of a batch. The copy shares the texts of view columns, so view columns are free.
fn charged_copy(batch: &RecordBatch, pool: &Arc<dyn Governor>) -> Result<RecordBatch> {
    with_charge(batch, |column| {
        let bytes = match column.data_type() {
            DataType::Utf8View | DataType::BinaryView => 0,
            _ => governor::value_bytes(column),
        };
        (bytes >= COLUMN_BYTES_MIN)
            .then(|| governor::charge_to(pool, bytes).map_err(to_datafusion))
            .transpose()
    })
}

fn with_charge(
    batch: &RecordBatch,
    charge: impl Fn(&ArrayRef) -> Result<Option<Charge>>,
) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(|column| match charge(column)? {
        Some(charge) => governor::with_charge(column, charge, &[]),
        None => Ok(Arc::clone(column)),
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}
