//! Corrects defects of DataFusion's planner: rules that lose rows, orders, names or unknown results
//! (NULL).

pub(crate) mod cast_nulls;
pub(crate) mod counted_sets;
pub(crate) mod dependencies;
pub mod endless_sorts;
pub(crate) mod grouping_sets;
pub(crate) mod guarded_simplifier;
pub mod opaque_casts;
pub mod outer_constants;
pub(crate) mod push_down;
pub mod restored_sorts;
pub mod staged_filter;
pub(crate) mod union_names;
