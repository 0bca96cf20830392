//! Walks over DataFusion's plans and expressions.
//!
//! DataFusion's own walks are generic: for each closure, the compiler instantiates about twenty
//! functions. The walks of this module call the closure through a pointer, so the compiler
//! instantiates them only once per kind of tree.

use datafusion::{
    common::{
        Result,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    logical_expr::LogicalPlan,
};

/// The result of changing a node: the node, and whether it differs.
type Changed<N> = Result<Transformed<N>>;

/// Walks over a tree of nodes. The plans of subqueries are not visited.
pub trait TreeWalk: TreeNode {
    /// Applies `change` to each node after its children; see [`TreeNode::transform_up`].
    ///
    /// # Errors
    /// The first error of `change`.
    fn change_up(self, mut change: impl FnMut(Self) -> Changed<Self>) -> Changed<Self> {
        self.transform_up(&mut change as &mut dyn FnMut(Self) -> Changed<Self>)
    }

    /// Applies `change` to each node before its children; see [`TreeNode::transform_down`].
    ///
    /// # Errors
    /// The first error of `change`.
    fn change_down(self, mut change: impl FnMut(Self) -> Changed<Self>) -> Changed<Self> {
        self.transform_down(&mut change as &mut dyn FnMut(Self) -> Changed<Self>)
    }

    /// Passes each node to `read` before its children; see [`TreeNode::apply`].
    ///
    /// # Errors
    /// The first error of `read`.
    fn each<'n>(
        &'n self,
        mut read: impl FnMut(&'n Self) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.apply(&mut read as &mut dyn FnMut(&'n Self) -> Result<TreeNodeRecursion>)
    }
}

impl<N: TreeNode> TreeWalk for N {}

/// Walks over a plan, including the plans of its subqueries.
pub trait PlanWalk: Sized {
    /// Applies `change` to each node after its children; see
    /// [`LogicalPlan::transform_up_with_subqueries`].
    ///
    /// # Errors
    /// The first error of `change`.
    fn change_with_subqueries(
        self,
        change: impl FnMut(LogicalPlan) -> Changed<LogicalPlan>,
    ) -> Changed<LogicalPlan>;

    /// Passes each node to `read` before its children; see [`LogicalPlan::apply_with_subqueries`].
    ///
    /// # Errors
    /// The first error of `read`.
    fn each_with_subqueries(
        &self,
        read: impl FnMut(&LogicalPlan) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion>;
}

impl PlanWalk for LogicalPlan {
    fn change_with_subqueries(
        self,
        mut change: impl FnMut(LogicalPlan) -> Changed<LogicalPlan>,
    ) -> Changed<LogicalPlan> {
        changed_up(self, &mut change)
    }

    fn each_with_subqueries(
        &self,
        mut read: impl FnMut(&LogicalPlan) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        read_all(self, &mut read)
    }
}

fn changed_up(
    plan: LogicalPlan,
    change: &mut dyn FnMut(LogicalPlan) -> Changed<LogicalPlan>,
) -> Changed<LogicalPlan> {
    plan.transform_up_with_subqueries(change)
}

fn read_all(
    plan: &LogicalPlan,
    read: &mut dyn FnMut(&LogicalPlan) -> Result<TreeNodeRecursion>,
) -> Result<TreeNodeRecursion> {
    plan.apply_with_subqueries(read)
}
