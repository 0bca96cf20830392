//! Hides casts in filters from DataFusion's analysis of value ranges. DataFusion assumes that a
//! cast maps distinct values to distinct values: from `time::date = '2024-01-01'` it concludes that
//! `time` is a single instant, and drops the sort of ORDER BY time. The same analysis fails with an
//! internal error if a cast widens the bounds of a column, for example from times to dates
//! ("Selectivity is out of limit").
//!
//! DataFusion analyzes a filter when it creates the physical node. Therefore [`with_opaque_true`]
//! adds a function call to filters with casts in the logical plan; DataFusion does not analyze a
//! filter with such a call. [`OPAQUE_CASTS`] later removes the call, and hides the casts.

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
        Result, ScalarValue,
        tree_node::{Transformed, TreeNode},
    },
    logical_expr::{
        ColumnarValue, Expr, Filter, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
        Signature, Volatility,
    },
    physical_expr::{
        PhysicalExpr, ScalarFunctionExpr, conjunction, expressions::CastExpr, split_conjunction,
    },
    physical_plan::{
        ExecutionPlan,
        filter::{FilterExec, FilterExecBuilder},
    },
};
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};

use crate::rules::each_node::EachNode;

/// Rule: hides the casts in filters of a physical plan.
pub const OPAQUE_CASTS: EachNode = EachNode::new("opaque_casts", hide_casts);

fn hide_casts(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(filter) = node.downcast_ref::<FilterExec>() else { return Ok(None) };
    let mut conjuncts: Vec<Arc<dyn PhysicalExpr>> =
        split_conjunction(filter.predicate()).into_iter().map(Arc::clone).collect();
    let before = conjuncts.len();
    conjuncts.retain(|conjunct| !is_mark(conjunct));
    let is_marked = conjuncts.len() < before;
    let predicate = if is_marked { conjunction(conjuncts) } else { Arc::clone(filter.predicate()) };
    let hidden = predicate.change_up(|part| {
        Ok(match part.downcast_ref::<CastExpr>() {
            Some(_) => Transformed::yes(Arc::new(OpaqueCast(part)) as _),
            None => Transformed::no(part),
        })
    })?;
    if !hidden.transformed && !is_marked {
        return Ok(None);
    }
    let filter = FilterExecBuilder::from(filter).with_predicate(hidden.data).build()?;
    Ok(Some(Arc::new(filter)))
}

/// Adds the function call to each filter that casts a column.
///
/// # Errors
/// No known errors.
pub fn with_opaque_true(plan: &LogicalPlan) -> Result<LogicalPlan> {
    let casts = |expr: &Expr| {
        expr.exists(|part| match part {
            Expr::Cast(cast) => Ok(!cast.expr.column_refs().is_empty()),
            Expr::TryCast(cast) => Ok(!cast.expr.column_refs().is_empty()),
            _ => Ok(false),
        })
    };
    plan.clone()
        .change_with_subqueries(|node| match node {
            LogicalPlan::Filter(filter) if casts(&filter.predicate)? => {
                let mark = ScalarUDF::new_from_impl(OpaqueTrue::default()).call(Vec::new());
                let predicate = filter.predicate.and(mark);
                Filter::try_new(predicate, filter.input)
                    .map(|filter| Transformed::yes(LogicalPlan::Filter(filter)))
            }
            other => Ok(Transformed::no(other)),
        })
        .map(|plan| plan.data)
}

fn is_mark(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.downcast_ref::<ScalarFunctionExpr>().is_some_and(|call| call.name() == MARK)
}

/// The name of the added function. No statement can write this name.
const MARK: &str = "\u{1}opaque";

/// A function that returns true, and that the filter analysis does not know.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OpaqueTrue {
    signature: Signature,
}

impl Default for OpaqueTrue {
    fn default() -> Self {
        Self { signature: Signature::nullary(Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for OpaqueTrue {
    fn name(&self) -> &str {
        MARK
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))))
    }
}

/// A cast that looks like an ordinary function to the analysis.
#[derive(Debug, Eq)]
pub struct OpaqueCast(Arc<dyn PhysicalExpr>);

impl PartialEq for OpaqueCast {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq(&other.0)
    }
}

impl Hash for OpaqueCast {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl OpaqueCast {
    /// The hidden cast.
    pub fn cast(&self) -> Option<&CastExpr> {
        self.0.downcast_ref::<CastExpr>()
    }
}

impl fmt::Display for OpaqueCast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PhysicalExpr for OpaqueCast {
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
