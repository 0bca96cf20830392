//! Names that PostgreSQL has for aggregates which DataFusion calls otherwise.

use std::sync::Arc;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

/// `aggregate`, also under the name that PostgreSQL has for it.
pub fn with_aliases(aggregate: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    let alias = match aggregate.name() {
        "var" | "var_samp" => "variance",
        "bool_and" => "every",
        _ => return aggregate,
    };
    Arc::new(aggregate.as_ref().clone().with_aliases([alias]))
}

/// `function`, also under the name that PostgreSQL has for it.
pub fn with_names(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    match function.name() {
        "ceil" => Arc::new(function.as_ref().clone().with_aliases(["ceiling"])),
        _ => function,
    }
}
