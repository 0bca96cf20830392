//! PostgreSQL's names for functions that DataFusion names differently.

use std::sync::Arc;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

/// The aggregate, with PostgreSQL's name as an additional name.
pub fn with_aliases(aggregate: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    let alias = match aggregate.name() {
        "var" | "var_samp" => "variance",
        "bool_and" => "every",
        _ => return aggregate,
    };
    Arc::new(aggregate.as_ref().clone().with_aliases([alias]))
}

/// The function, with PostgreSQL's name as an additional name.
pub fn with_names(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    match function.name() {
        "ceil" => Arc::new(function.as_ref().clone().with_aliases(["ceiling"])),
        _ => function,
    }
}
