//! Casts give NULL exactly where what they cast does. The planner takes a cast that names its
//! type in full (as ours do, for PostgreSQL's name of the type) for one that may give NULL
//! always, but only when it makes the physical plan, which then differs from the logical one.

use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion::{
    common::{
        DFSchema, Result,
        tree_node::{Transformed, TreeNode},
    },
    logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, utils::merge_schema},
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};

/// Writes down which casts may give NULL. Runs last: what other rules do changes it.
#[derive(Debug)]
pub struct CastNulls;

impl OptimizerRule for CastNulls {
    fn name(&self) -> &str {
        "cast_nulls"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        node: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let schema = match &node {
            LogicalPlan::TableScan(scan) => DFSchema::clone(&scan.projected_schema),
            node => merge_schema(&node.inputs()),
        };
        node.map_expressions(|expr| {
            expr.transform_up(|expr| {
                Ok(match expr {
                    Expr::Cast(cast) => of_cast(cast, &schema),
                    other => Transformed::no(other),
                })
            })
        })
    }
}

fn of_cast(cast: Cast, schema: &DFSchema) -> Transformed<Expr> {
    // A field without a name and without metadata is a type alone.
    let field = &cast.field;
    let names_type_alone = field.name().is_empty() && field.metadata().is_empty();
    // What an expression cannot tell by this schema is not told apart.
    let nullable = cast.expr.nullable(schema).unwrap_or(true);
    if names_type_alone || field.is_nullable() == nullable {
        return Transformed::no(Expr::Cast(cast));
    }
    let field = Arc::new(Field::clone(field).with_nullable(nullable));
    Transformed::yes(Expr::Cast(Cast { field, ..cast }))
}
