//! The operators `@>` and `<@` of arrays, which are true if an array contains all elements of
//! another array.

use std::{collections::HashSet, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray},
    compute::cast,
    datatypes::{DataType, Field},
    row::{RowConverter, SortField},
};
use datafusion::{
    common::{Result, utils::normalize_float_zero},
    logical_expr::Volatility,
};
use stratalog_model::ColumnType;

use crate::{
    function::{Arguments, Function, Parameter, Returns},
    overlap::common_item,
};

/// The SQL function that implements `@>` and `<@`.
pub fn functions() -> Vec<Function> {
    vec![Function {
        name: "arraycontains",
        aliases: &[],
        parameters: &[&[Parameter::Array, Parameter::Array]],
        returns: Returns::Rule(|fields| {
            if let [left, right] = fields {
                common_item(left.data_type(), right.data_type(), "@>")?;
            }
            Ok(ColumnType::Boolean.arrow_type())
        }),
        volatility: Volatility::Immutable,
        description: "Whether an array has all elements of another: what the operator @> calls. NULL equals nothing.",
        run: Arc::new(run),
    }]
}

fn run(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let (left, right) = (arguments.array(0)?, arguments.array(1)?);
    let item = common_item(left.data_type(), right.data_type(), "@>")?;
    let list = DataType::List(Arc::new(Field::new_list_field(item.clone(), true)));
    let (left, right) = (cast(left, &list)?, cast(right, &list)?);
    let (left, right) = (left.as_list::<i32>(), right.as_list::<i32>());
    let converter = RowConverter::new(vec![SortField::new(item)])?;
    let contains = |row: usize| -> Result<Option<bool>> {
        if left.is_null(row) || right.is_null(row) {
            return Ok(None);
        }
        // For floats, the comparison must treat 0 and -0 as equal.
        let (left, right) =
            (normalize_float_zero(&left.value(row)), normalize_float_zero(&right.value(row)));
        if right.logical_null_count() > 0 {
            return Ok(Some(false));
        }
        let left_rows = converter.convert_columns(&[Arc::clone(&left)])?;
        let right_rows = converter.convert_columns(&[right])?;
        let known: HashSet<_> = left_rows.iter().collect();
        Ok(Some(right_rows.iter().all(|wanted| known.contains(&wanted))))
    };
    let results = (0..arguments.rows).map(contains).collect::<Result<BooleanArray>>()?;
    Ok(Arc::new(results))
}
