//! Makes a cast nullable only if its operand is nullable. The casts of this project carry
//! PostgreSQL's type name in a complete field; DataFusion's physical plan treats every such cast as
//! nullable, its logical plan does not. The two plans would then differ.

use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion::{
    common::{DFSchema, Result, tree_node::Transformed},
    logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, utils::merge_schema},
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};
use stratalog_functions::plan_walk::TreeWalk;

/// Sets the nullability of casts. Runs last, because other rules change the nullability of
/// operands.
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
            expr.change_up(|expr| {
                Ok(match expr {
                    Expr::Cast(cast) => of_cast(cast, &schema),
                    other => Transformed::no(other),
                })
            })
        })
    }
}

fn of_cast(cast: Cast, schema: &DFSchema) -> Transformed<Expr> {
    // A field without a name and metadata is only a type, and needs no change.
    let field = &cast.field;
    let names_type_alone = field.name().is_empty() && field.metadata().is_empty();
    // An expression of unknown nullability counts as nullable.
    let nullable = cast.expr.nullable(schema).unwrap_or(true);
    if names_type_alone || field.is_nullable() == nullable {
        return Transformed::no(Expr::Cast(cast));
    }
    let field = Arc::new(Field::clone(field).with_nullable(nullable));
    Transformed::yes(Expr::Cast(Cast { field, ..cast }))
}
