//! Supports `n = ANY (array)` if the numerics or times on both sides differ in precision.
//! DataFusion's function requires equal types.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{
    common::{DFSchema, Result, ScalarValue, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{
        Cast, ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
        Signature, Volatility, expr_rewriter::FunctionRewrite,
    },
};
use stratalog_functions::literal::style_of;
use stratalog_model::ColumnType;

use crate::rules::{
    calendar::aligned_times::widened,
    equality::float_keys::{holds_floats, keys},
    layers::{self, ScalarLayer},
    types::common_types::{ValueType, common_type, in_type},
};

/// The planner's function for ANY: `array_has(array, value)`.
const FUNCTION: &str = "array_has";

/// Wraps `array_has` to accept any array and any value during planning. Other functions stay
/// unchanged.
pub fn of_any_digits(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    match function.name() {
        FUNCTION => {
            let signature = Signature::any(2, Volatility::Immutable);
            layers::scalar(function, UntypedMembership { signature })
        }
        _ => function,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct UntypedMembership {
    signature: Signature,
}

impl ScalarLayer for UntypedMembership {
    fn signature<'a>(&'a self, _: &'a ScalarUDF) -> &'a Signature {
        &self.signature
    }

    fn return_type(&self, _: &ScalarUDF, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn return_field(&self, inner: &ScalarUDF, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(inner.name(), DataType::Boolean, true)))
    }
}

/// A layer that compares floats like PostgreSQL: 0 equals -0, and all NaN are equal.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FloatMembership;

impl ScalarLayer for FloatMembership {
    fn invoke(
        &self,
        inner: &ScalarUDF,
        mut arguments: ScalarFunctionArgs,
    ) -> Result<ColumnarValue> {
        for argument in &mut arguments.args {
            match argument {
                ColumnarValue::Array(array) => *array = keys(array),
                ColumnarValue::Scalar(value) if holds_floats(&value.data_type()) => {
                    *value = ScalarValue::try_from_array(&keys(&value.to_array()?), 0)?;
                }
                ColumnarValue::Scalar(_) => {}
            }
        }
        inner.invoke_with_args(arguments)
    }
}

/// Casts the array elements and the value to a common type. Runs before type coercion.
#[derive(Debug)]
pub struct ArrayMembership;

impl FunctionRewrite for ArrayMembership {
    fn name(&self) -> &str {
        "members"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        config: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let Expr::ScalarFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
        if call.name() != FUNCTION {
            return Ok(Transformed::no(Expr::ScalarFunction(call)));
        }
        // Some calls that the planner creates lack the layer.
        let below = layers::below::<UntypedMembership>(&call.func);
        let mut changed = below.is_some();
        if let Some(below) = below {
            call.func = below;
        }
        if let [array, value] = call.args.as_mut_slice()
            && let Ok(DataType::List(item)) = array.get_type(schema)
        {
            if holds_floats(item.data_type())
                && layers::below::<FloatMembership>(&call.func).is_none()
            {
                call.func = layers::scalar(Arc::clone(&call.func), FloatMembership);
                changed = true;
            }
            let given = [ValueType::of_field(&item), ValueType::of(value, schema)];
            if differ_in_digits(&given)
                && let Some(wanted) = common_type("ANY", &given)?
            {
                let [_, of_value] = &given;
                let style = style_of(config);
                let given = value.get_type(schema)?;
                let plain = std::mem::take(value);
                *value = match (given, wanted.arrow_field("", true).data_type()) {
                    (DataType::Timestamp(coarse, _), DataType::Timestamp(fine, _))
                        if coarse < *fine =>
                    {
                        widened(plain, *fine)
                    }
                    _ => in_type(plain, of_value, &wanted, schema, &style)?,
                };
                let list = ColumnType::Array(Box::new(wanted)).arrow_field("", true);
                let cast = Cast::new_from_field(Box::new(std::mem::take(array)), Arc::new(list));
                *array = Expr::Cast(cast);
                changed = true;
            }
        }
        Ok(Transformed::new_transformed(Expr::ScalarFunction(call), changed))
    }
}

fn differ_in_digits(given: &[ValueType; 2]) -> bool {
    use ColumnType as T;
    match given {
        [ValueType::Typed(element, _), ValueType::Typed(value, _)] => match (element, value) {
            (T::Numeric { .. }, T::Numeric { .. })
            | (T::Timestamp { .. }, T::Timestamp { .. })
            | (T::TimestampTz { .. }, T::TimestampTz { .. }) => element != value,
            _ => false,
        },
        _ => false,
    }
}
