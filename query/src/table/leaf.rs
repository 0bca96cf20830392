//! Methods that all plan leaves have in common.

/// Methods of `ExecutionPlan` for a node without inputs and without expressions. The default
/// `replace_children` calls `with_new_children`.
macro_rules! leaf_methods {
    () => {
        fn children(&self) -> Vec<&Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            Vec::new()
        }

        fn with_new_children(
            self: Arc<Self>,
            _: Vec<Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
        ) -> Result<Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            Ok(self)
        }

        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(
                &Arc<dyn datafusion::physical_expr::PhysicalExpr>,
            ) -> Result<datafusion::common::tree_node::TreeNodeRecursion>,
        ) -> Result<datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }
    };
}

pub(super) use leaf_methods;
