//! Gives the columns of all inputs of a UNION the same names. DataFusion's rules use the column
//! names of the first input for the other inputs too, for example if only one input has rows.
//!
//! ```text
//!   Union                    Union
//!     Projection: 1 AS i ─►    Projection: 1 AS i
//!     Except: k                Projection: k AS i
//!                                Except: k
//! ```

use std::sync::Arc;

use datafusion::{
    common::{Result, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{Expr, LogicalPlan, Projection, Union},
    optimizer::AnalyzerRule,
};
use stratalog_functions::plan_walk::PlanWalk;

use crate::rules::types::common_types::{columns_of, unaliased};

/// Gives the columns of all inputs the column names of the UNION. Runs after type coercion.
#[derive(Debug)]
pub struct UnionNames;

impl AnalyzerRule for UnionNames {
    fn name(&self) -> &str {
        "union_names"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.change_with_subqueries(|node| match node {
            LogicalPlan::Union(union) => with_names(union),
            other => Ok(Transformed::no(other)),
        })
        .map(|plan| plan.data)
    }
}

fn with_names(union: Union) -> Result<Transformed<LogicalPlan>> {
    let wanted = union.schema.columns();
    let mut changed = false;
    let mut inputs = Vec::with_capacity(union.inputs.len());
    for input in union.inputs {
        let given = input.schema().fields().iter().map(|field| field.name());
        if given.eq(wanted.iter().map(|column| &column.name)) {
            inputs.push(input);
            continue;
        }
        changed = true;
        let (exprs, below) = columns_of(&input);
        let named = exprs.iter().zip(&wanted);
        let named: Result<Vec<Expr>> = named
            .map(|(expr, column)| unaliased(expr).clone().alias_if_changed(column.name.clone()))
            .collect();
        inputs.push(Arc::new(LogicalPlan::Projection(Projection::try_new(named?, below)?)));
    }
    let union = LogicalPlan::Union(Union { inputs, schema: union.schema });
    Ok(Transformed::new_transformed(union, changed))
}
