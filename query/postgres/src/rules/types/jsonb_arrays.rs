//! Refuses arrays of jsonb. The elements of an array have only an Arrow type, so jsonb would become
//! text: `to_jsonb(array_agg(j))` would contain strings in place of the JSON values.

use datafusion::{
    common::{Result, config::ConfigOptions, tree_node::TreeNodeRecursion},
    logical_expr::{Expr, ExprSchemable as _, LogicalPlan, WindowFunctionDefinition},
    optimizer::AnalyzerRule,
};
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};
use stratalog_model::{ColumnType, Error, ErrorKind};

use super::array_calls;
use crate::{errors::to_datafusion, parameters::input_schema};

/// Functions that return an array and take an element as an argument.
const MAKING: [&str; 7] = [
    "make_array",
    "array_append",
    "array_prepend",
    "array_fill",
    "array_repeat",
    "array_replace",
    "array_resize",
];

/// Rule: refuses plans with arrays of jsonb.
#[derive(Debug)]
pub struct JsonbArrays;

impl AnalyzerRule for JsonbArrays {
    fn name(&self) -> &'static str {
        "jsonb_arrays"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.each_with_subqueries(|node| {
            let schema = input_schema(node);
            node.apply_expressions(|expr| {
                expr.each(|inner| {
                    let is_jsonb = |value: &Expr| {
                        let field = value.to_field(schema.as_ref());
                        field.is_ok_and(|(_, field)| {
                            ColumnType::from_arrow_field(&field) == Some(ColumnType::Jsonb)
                        })
                    };
                    match elements(inner).iter().any(is_jsonb) {
                        true => Err(to_datafusion(refusal())),
                        false => Ok(TreeNodeRecursion::Continue),
                    }
                })
            })
        })?;
        Ok(plan)
    }
}

/// The arguments of an expression that become elements of an array.
fn elements(expr: &Expr) -> &[Expr] {
    match expr {
        Expr::ScalarFunction(call)
            if MAKING.contains(&call.name()) || array_calls::is_array(call) =>
        {
            &call.args
        }
        Expr::AggregateFunction(call) if call.func.name() == "array_agg" => &call.params.args,
        Expr::WindowFunction(call) => match &call.fun {
            WindowFunctionDefinition::AggregateUDF(function) if function.name() == "array_agg" => {
                &call.params.args
            }
            _ => &[],
        },
        _ => &[],
    }
}

/// The error for an array of jsonb.
pub fn refusal() -> Error {
    Error::new(ErrorKind::FeatureNotSupported, "arrays of jsonb are not supported").with_hint(
        "use jsonb_build_array or jsonb_agg, IN in place of ANY, or cast the values to text",
    )
}
