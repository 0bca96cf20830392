//! Makes sorts and DISTINCT ON compare keys, which sort in PostgreSQL's order of the values.

use datafusion::{
    common::{DFSchema, tree_node::Transformed},
    logical_expr::{Distinct, Expr, LogicalPlan, SortExpr},
};

/// A rule that compares some values by their keys.
pub trait KeyRewrite {
    /// Replaces a value by its key. Returns false if the value needs no key.
    fn replace_by_key(&self, expr: &mut Expr, schema: &DFSchema) -> bool;

    /// Replaces the values in sort expressions by their keys. Returns false if nothing changed.
    fn sort_by_keys(&self, sorts: &mut [SortExpr], schema: &DFSchema) -> bool {
        sorts
            .iter_mut()
            .fold(false, |changed, sort| self.replace_by_key(&mut sort.expr, schema) | changed)
    }

    /// Uses keys in a Sort or DISTINCT ON node. Other nodes stay unchanged.
    fn order_by_keys(&self, mut node: LogicalPlan) -> Transformed<LogicalPlan> {
        let changed = match &mut node {
            LogicalPlan::Sort(sort) => self.sort_by_keys(&mut sort.expr, sort.input.schema()),
            LogicalPlan::Distinct(Distinct::On(on)) => {
                let schema = on.input.schema();
                let mut changed = false;
                for expr in &mut on.on_expr {
                    changed |= self.replace_by_key(expr, schema);
                }
                let sorts = on.sort_expr.iter_mut();
                sorts.fold(changed, |changed, sorts| self.sort_by_keys(sorts, schema) | changed)
            }
            _ => false,
        };
        Transformed::new_transformed(node, changed)
    }
}
