//! Sorts and DISTINCT ON by keys: DataFusion compares keys in PostgreSQL's order of the values.

use datafusion::{
    common::{DFSchema, tree_node::Transformed},
    logical_expr::{Distinct, Expr, LogicalPlan, SortExpr},
};

/// A rule that compares some values by their keys.
pub trait Keyed {
    /// Replaces a value by its key; `false` if the value needs no key.
    fn keyed(&self, expr: &mut Expr, schema: &DFSchema) -> bool;

    /// Sorts by keys; `false` if nothing changed.
    fn keyed_sorts(&self, sorts: &mut [SortExpr], schema: &DFSchema) -> bool {
        sorts.iter_mut().fold(false, |changed, sort| self.keyed(&mut sort.expr, schema) | changed)
    }

    /// A Sort or DISTINCT ON by keys; other nodes stay.
    fn keyed_order(&self, mut node: LogicalPlan) -> Transformed<LogicalPlan> {
        let changed = match &mut node {
            LogicalPlan::Sort(sort) => self.keyed_sorts(&mut sort.expr, sort.input.schema()),
            LogicalPlan::Distinct(Distinct::On(on)) => {
                let schema = on.input.schema();
                let mut changed = false;
                for expr in &mut on.on_expr {
                    changed |= self.keyed(expr, schema);
                }
                let sorts = on.sort_expr.iter_mut();
                sorts.fold(changed, |changed, sorts| self.keyed_sorts(sorts, schema) | changed)
            }
            _ => false,
        };
        Transformed::new_transformed(node, changed)
    }
}
