//! Makes `lag` and `lead` return the common type of the value and the default, like in PostgreSQL.
//! DataFusion's functions return the type of the value, and outer functions would cut off digits of
//! the default.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{
    common::Result,
    logical_expr::{WindowUDF, function::WindowUDFFieldArgs},
};
use stratalog_model::ColumnType;

use crate::rules::{
    layers::{self, WindowLayer},
    types::common_types::{ValueType, common_type},
};

/// Wraps `lag` and `lead` to return the common type. Other functions stay unchanged.
pub fn of_defaults(function: Arc<WindowUDF>) -> Arc<WindowUDF> {
    match function.name() {
        "lag" | "lead" => layers::window(function, ShiftedRows),
        _ => function,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ShiftedRows;

impl WindowLayer for ShiftedRows {
    fn field(&self, inner: &WindowUDF, arguments: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        let wanted = match arguments.input_fields() {
            [value, _, default] => common_number(value, default),
            _ => None,
        };
        let field = inner.field(arguments)?;
        Ok(match wanted {
            Some(wanted) => Arc::new(Field::clone(&field).with_data_type(wanted)),
            None => field,
        })
    }
}

/// The common type of a value and a default, if it is a numeric or a float. For two integers the
/// type of the value stays, because at this stage each integer constant is a bigint.
fn common_number(value: &FieldRef, default: &FieldRef) -> Option<DataType> {
    let given = [ValueType::of_field(value), ValueType::of_field(default)];
    match common_type("LAG", &given).ok()?? {
        common @ (ColumnType::Numeric { .. } | ColumnType::Real | ColumnType::Double) => {
            Some(common.arrow_type())
        }
        _ => None,
    }
}
