//! `generate_series` in FROM: of constants that are integers it gives integers, where
//! DataFusion's gives bigints.

use std::sync::Arc;

use datafusion::{
    catalog::{TableFunction, TableFunctionArgs, TableFunctionImpl, TableProvider},
    common::Result,
    datasource::{ViewTable, provider_as_source},
    logical_expr::{Expr, LogicalPlanBuilder, cast, col},
    scalar::ScalarValue,
};

use arrow::datatypes::DataType;

/// `function` with series of integers, if it makes series.
pub fn of_integers(function: Arc<TableFunction>) -> Arc<TableFunction> {
    match function.name() {
        "generate_series" => {
            let name = function.name().to_string();
            Arc::new(TableFunction::new(name, Arc::new(Series(function))))
        }
        _ => function,
    }
}

#[derive(Debug)]
struct Series(Arc<TableFunction>);

impl TableFunctionImpl for Series {
    fn call_with_args(
        &self,
        arguments: TableFunctionArgs<'_, '_>,
    ) -> Result<Arc<dyn TableProvider>> {
        let integers = arguments.exprs().iter().all(is_integer);
        let wide = self.0.function().call_with_args(arguments)?;
        if !integers {
            return Ok(wide);
        }
        let plan = LogicalPlanBuilder::scan("series", provider_as_source(wide), None)?
            .project(vec![cast(col("value"), DataType::Int32).alias("value")])?
            .build()?;
        Ok(Arc::new(ViewTable::new(plan, None)))
    }
}

/// Whether it is a constant that PostgreSQL calls an integer.
fn is_integer(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Literal(ScalarValue::Int64(Some(value)), _) if i32::try_from(*value).is_ok()
    )
}
