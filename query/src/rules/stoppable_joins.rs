//! Adds stop checks to joins.
//!
//! A join can work for hours within a single poll. During the poll, the join neither yields to the
//! runtime nor notices the abort of its task. The join evaluates its filter constantly, so the
//! filter checks whether the statement is stopped. The output of the join takes part in cooperative
//! scheduling.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use arrow::{
    array::RecordBatch,
    datatypes::{DataType, FieldRef, Schema},
};
use datafusion::{
    common::{
        Result,
        tree_node::{Transformed, TreeNode},
    },
    logical_expr::ColumnarValue,
    physical_expr::PhysicalExpr,
    physical_plan::{
        ExecutionPlan,
        coop::CooperativeExec,
        joins::{
            CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder,
            utils::JoinFilter,
        },
    },
};
use stratalog_postgres::errors::to_datafusion;

use crate::session::work::Work;

/// Makes the joins of a plan stoppable.
///
/// # Errors
/// Errors of rebuilding a join.
pub fn guard(plan: Arc<dyn ExecutionPlan>, work: &Arc<Work>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
            let guarded = NestedLoopJoinExecBuilder::from(join)
                .with_filter(join.filter().map(|filter| stoppable(filter, work)))
                .build()?;
            return Ok(Transformed::yes(cooperative(Arc::new(guarded))));
        }
        if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            let guarded = match join.filter() {
                Some(filter) => {
                    join.builder().with_filter(Some(stoppable(filter, work))).build_exec()?
                }
                None => Arc::clone(&node),
            };
            return Ok(Transformed::yes(cooperative(guarded)));
        }
        if node.downcast_ref::<CrossJoinExec>().is_some() {
            return Ok(Transformed::yes(cooperative(node)));
        }
        Ok(Transformed::no(node))
    })
    .map(|plan| plan.data)
}

fn cooperative(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Arc::new(CooperativeExec::new(plan))
}

fn stoppable(filter: &JoinFilter, work: &Arc<Work>) -> JoinFilter {
    JoinFilter::new(
        Arc::new(StoppableExpr { inner: Arc::clone(filter.expression()), work: Arc::clone(work) }),
        filter.column_indices().to_vec(),
        Arc::clone(filter.schema()),
    )
}

/// A wrapper of an expression that fails after a stop of the statement.
#[derive(Debug)]
struct StoppableExpr {
    inner: Arc<dyn PhysicalExpr>,
    work: Arc<Work>,
}

impl PartialEq for StoppableExpr {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner) && Arc::ptr_eq(&self.work, &other.work)
    }
}

impl Eq for StoppableExpr {}

impl Hash for StoppableExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl fmt::Display for StoppableExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PhysicalExpr for StoppableExpr {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.inner.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.inner.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.inner.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.work.check().map_err(to_datafusion)?;
        self.inner.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        match children.into_iter().next() {
            Some(inner) => Ok(Arc::new(Self { inner, work: Arc::clone(&self.work) })),
            None => Ok(self),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}
