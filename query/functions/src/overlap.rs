//! The operator `&&` of arrays, which is true if two arrays have an element in common.

use std::{collections::HashSet, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray},
    compute::cast,
    datatypes::{DataType, Field},
    row::{RowConverter, SortField},
};
use datafusion::{
    common::{Result, plan_err, utils::normalize_float_zero},
    logical_expr::{Volatility, type_coercion::binary::comparison_coercion},
};
use stratalog_model::ColumnType;

use crate::function::{Arguments, Function, Parameter, Returns, sql_name};

/// The SQL function that implements `&&`.
pub fn functions() -> Vec<Function> {
    let declare = |name, parameters, description, run: fn(&Arguments<'_>) -> Result<_>| Function {
        name,
        aliases: &[],
        parameters,
        returns: Returns::Rule(|fields| {
            if let [left, right] = fields {
                common_item(left.data_type(), right.data_type(), "&&")?;
            }
            Ok(ColumnType::Boolean.arrow_type())
        }),
        volatility: Volatility::Immutable,
        description,
        run: Arc::new(run),
    };
    vec![declare(
        "arrayoverlap",
        &[&[Parameter::Array, Parameter::Array]],
        "Whether two arrays have an element in common: what the operator && calls.",
        run,
    )]
}

fn item_of(list: &DataType) -> &DataType {
    match list {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            item.data_type()
        }
        other => other,
    }
}

/// The type to which the elements of both arrays are converted for a comparison. Arrays without a
/// common type, for example of texts and of numbers, are an error.
pub(crate) fn common_item(left: &DataType, right: &DataType, operator: &str) -> Result<DataType> {
    let (left, right) = (item_of(left), item_of(right));
    let is_text =
        |item: &DataType| matches!(item, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8);
    let mixed = !left.is_null() && !right.is_null() && is_text(left) != is_text(right);
    match comparison_coercion(left, right).filter(|_| !mixed) {
        Some(common) => Ok(common),
        None => {
            let (left, right) = (sql_name(left), sql_name(right));
            plan_err!("There isn't a common type for {left}[] {operator} {right}[]")
        }
    }
}

/// Computes `&&`. A NULL element equals no other element.
fn run(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let (left, right) = (arguments.array(0)?, arguments.array(1)?);
    let item = common_item(left.data_type(), right.data_type(), "&&")?;
    let list = DataType::List(Arc::new(Field::new_list_field(item.clone(), true)));
    let (left, right) = (cast(left, &list)?, cast(right, &list)?);
    let (left, right) = (left.as_list::<i32>(), right.as_list::<i32>());
    let converter = RowConverter::new(vec![SortField::new(item)])?;
    let overlap = |row: usize| -> Result<Option<bool>> {
        if left.is_null(row) || right.is_null(row) {
            return Ok(None);
        }
        // For floats, the comparison must treat 0 and -0 as equal.
        let (left, right) =
            (normalize_float_zero(&left.value(row)), normalize_float_zero(&right.value(row)));
        let (left_rows, right_rows) = (
            converter.convert_columns(&[Arc::clone(&left)])?,
            converter.convert_columns(&[Arc::clone(&right)])?,
        );
        let known: HashSet<_> = left_rows
            .iter()
            .enumerate()
            .filter(|(at, _)| left.is_valid(*at))
            .map(|(_, row)| row)
            .collect();
        let found = right_rows
            .iter()
            .enumerate()
            .any(|(at, row)| right.is_valid(at) && known.contains(&row));
        Ok(Some(found))
    };
    let results = (0..arguments.rows).map(overlap).collect::<Result<BooleanArray>>()?;
    Ok(Arc::new(results))
}
