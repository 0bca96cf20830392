//! Casts in filters that DataFusion does not look through. It takes every cast for one that
//! keeps values apart: from `time::date = '2024-01-01'` it concludes that `time` is one
//! instant, and leaves out the sort of ORDER BY time.

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
    physical_expr::{PhysicalExpr, expressions::CastExpr},
    physical_plan::{
        ExecutionPlan,
        filter::{FilterExec, FilterExecBuilder},
    },
};

use super::each_node::EachNode;

/// Hides the casts in filters.
pub const OPAQUE_CASTS: EachNode = EachNode::new("opaque_casts", hidden);

fn hidden(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(filter) = node.downcast_ref::<FilterExec>() else { return Ok(None) };
    let hidden = Arc::clone(filter.predicate()).transform_up(|part| {
        Ok(match part.downcast_ref::<CastExpr>() {
            Some(_) => Transformed::yes(Arc::new(Opaque(part)) as _),
            None => Transformed::no(part),
        })
    })?;
    if !hidden.transformed {
        return Ok(None);
    }
    let filter = FilterExecBuilder::from(filter).with_predicate(hidden.data).build()?;
    Ok(Some(Arc::new(filter)))
}

/// A cast that is a function like any other.
#[derive(Debug, Eq)]
pub struct Opaque(Arc<dyn PhysicalExpr>);

impl PartialEq for Opaque {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq(&other.0)
    }
}

impl Hash for Opaque {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Opaque {
    /// The cast.
    pub fn cast(&self) -> Option<&CastExpr> {
        self.0.downcast_ref::<CastExpr>()
    }
}

impl fmt::Display for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PhysicalExpr for Opaque {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.0.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.0.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.0.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.0.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.0.children()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self(Arc::clone(&self.0).with_new_children(children)?)))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_sql(f)
    }
}
