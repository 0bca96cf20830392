//! Writes `ARRAY[…]` in a subquery as a function call. The planner finds outer columns in the
//! arguments of a function, but not in the elements of an array.

use std::{ops::ControlFlow, sync::Arc};

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{
    common::{DFSchema, Result, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
        Signature, Volatility, expr::ScalarFunction, expr_rewriter::FunctionRewrite,
    },
    sql::sqlparser::ast::{Expr as Written, Function, Ident, ObjectName, Query, Statement},
};
use stratalog_model::Error;

use super::{
    common_types::{ValueType, common_type},
    open_parameters::in_common_type,
};
use crate::{
    errors::to_datafusion,
    parse::call,
    walk::{self, Change, Flow},
};

/// The name of the function. No statement can write this name.
const FUNCTION: &str = "$array";

/// Creates the function `$array`.
pub fn function() -> Arc<ScalarUDF> {
    let signature = Signature::variadic_any(Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(ArrayCall { signature }))
}

/// Whether `call` calls the function `$array`.
pub fn is_array(call: &ScalarFunction) -> bool {
    call.func.inner().is::<ArrayCall>()
}

/// Replaces each array that names columns, inside of a subquery, by a call of `$array`.
pub fn as_calls(statement: &mut Statement) {
    let _ = walk::change(statement, &mut ArrayCallRewrite { queries: 0 });
}

struct ArrayCallRewrite {
    /// The number of queries around the visited expression.
    queries: usize,
}

impl Change for ArrayCallRewrite {
    fn pre_visit_query(&mut self, _: &mut Query) -> Flow {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> Flow {
        self.queries = self.queries.saturating_sub(1);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Written) -> Flow {
        let names_column = |expr: &Written| {
            let each = |part: &Written| match part {
                Written::Identifier(_) | Written::CompoundIdentifier(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            };
            walk::expressions(expr, each).is_break()
        };
        if self.queries > 1
            && let Written::Array(array) = &*expr
            && array.elem.iter().any(names_column)
            && let Some(Written::Function(function)) = call("array_of", array.elem.clone())
        {
            let name = ObjectName::from(vec![Ident::new(FUNCTION)]);
            *expr = Written::Function(Function { name, ..function });
        }
        ControlFlow::Continue(())
    }
}

/// Rewrite: turns each call of `$array` back into an array.
#[derive(Debug)]
pub struct RestoredArrays {
    /// The function that creates arrays.
    pub make_array: Arc<ScalarUDF>,
}

impl FunctionRewrite for RestoredArrays {
    fn name(&self) -> &str {
        "restored_arrays"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        match expr {
            Expr::ScalarFunction(call) if is_array(&call) => {
                let elements = in_common_type(call.args, schema)?;
                Ok(Transformed::yes(self.make_array.call(elements)))
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ArrayCall {
    signature: Signature,
}

impl ScalarUDFImpl for ArrayCall {
    fn name(&self) -> &str {
        FUNCTION
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(to_datafusion(Error::internal("the type of an array depends on its elements")))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let given = ValueType::of_arguments(&arguments);
        let element = match common_type("ARRAY", &given)? {
            Some(wanted) => wanted.arrow_type(),
            None => {
                let mut fields = arguments.arg_fields.iter();
                let known = fields.find(|field| !field.data_type().is_null());
                known.map_or(DataType::Utf8View, |field| field.data_type().clone())
            }
        };
        let item = Arc::new(Field::new_list_field(element, true));
        Ok(Arc::new(Field::new(FUNCTION, DataType::List(item), false)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(to_datafusion(Error::internal("an array was not put back in its place")))
    }
}
