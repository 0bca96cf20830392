//! Makes `<<` and `>>` of a smallint return a smallint; bits beyond the 16 bits are lost.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, Int16Array},
    compute::{binary, cast},
    datatypes::{DataType, Int16Type, Int64Type},
};
use datafusion::{
    common::{DFSchema, Result, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{
        BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF,
        ScalarUDFImpl, Signature, Volatility, expr_rewriter::FunctionRewrite,
    },
};
use stratalog_model::Error;

use crate::errors::to_datafusion;

/// Replaces shifts of a smallint by function calls. Runs before type coercion, which would convert
/// the operands to integers.
#[derive(Debug)]
pub struct SmallintShifts;

impl FunctionRewrite for SmallintShifts {
    fn name(&self) -> &str {
        "small_shifts"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else {
            return Ok(Transformed::no(expr));
        };
        let (name, to_left) = match op {
            Operator::BitwiseShiftLeft => ("int2shl", true),
            Operator::BitwiseShiftRight => ("int2shr", false),
            _ => {
                return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            }
        };
        let is_small = matches!(left.get_type(schema), Ok(DataType::Int16));
        if !is_small || !right.get_type(schema).is_ok_and(|by| by.is_integer()) {
            return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
        }
        let signature = Signature::any(2, Volatility::Immutable);
        let shift = ScalarUDF::new_from_impl(SmallintShift { name, to_left, signature });
        Ok(Transformed::yes(Arc::new(shift).call(vec![*left, *right])))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SmallintShift {
    name: &'static str,
    to_left: bool,
    signature: Signature,
}

impl SmallintShift {
    /// Shifts the bits of a number. As in PostgreSQL on x86, only the last five bits of the count
    /// matter.
    fn of(&self, number: i16, by: i64) -> i16 {
        let (wide, by) = (i32::from(number), u32::try_from(by.rem_euclid(32)).unwrap_or(0));
        let shifted = if self.to_left { wide.wrapping_shl(by) } else { wide.wrapping_shr(by) };
        #[expect(clippy::cast_possible_truncation, reason = "the bits above are dropped")]
        let small = shifted as i16;
        small
    }
}

impl ScalarUDFImpl for SmallintShift {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int16)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [number, by] = arguments.args.as_slice() else {
            return Err(to_datafusion(Error::internal("a shift has two operands")));
        };
        let number = number.to_array(arguments.number_rows)?;
        let by: ArrayRef = cast(&by.to_array(arguments.number_rows)?, &DataType::Int64)?;
        let (number, by) = (number.as_primitive::<Int16Type>(), by.as_primitive::<Int64Type>());
        let shifted: Int16Array = binary(number, by, |number, by| self.of(number, by))?;
        Ok(ColumnarValue::Array(Arc::new(shifted)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_leave_sixteen() {
        let shift = |to_left, number, by| {
            let signature = Signature::any(2, Volatility::Immutable);
            SmallintShift { name: "", to_left, signature }.of(number, by)
        };
        for (number, by, left, right) in [
            (32_767, 1, -2, 16_383),
            (1, 15, i16::MIN, 0),
            (1, 16, 0, 0),
            (1, 32, 1, 1),
            (-5, 1, -10, -3),
            (5, -31, 10, 2),
        ] {
            assert_eq!(shift(true, number, by), left, "{number} << {by}");
            assert_eq!(shift(false, number, by), right, "{number} >> {by}");
        }
    }
}
