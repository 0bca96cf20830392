//! Rules over plans, and layers around functions, which make DataFusion return PostgreSQL's
//! results. The modules are ordered by subject.
//!
//! [`state`](crate::state) registers the rules in their order.

pub(crate) mod aggregates;
pub mod calendar;
pub mod each_node;
pub mod equality;
pub(crate) mod functions;
pub(crate) mod layers;
pub(crate) mod limits;
pub(crate) mod operators;
pub mod planner_defects;
pub mod subqueries;
pub(crate) mod types;
pub mod windows;
