//! Casts arrays by applying a function to their elements.

use std::sync::Arc;

use arrow::{
    array::{Array as _, ArrayRef, ListArray},
    compute::cast,
    datatypes::{DataType, FieldRef},
};
use datafusion::{
    common::Result,
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility, type_coercion::functions::fields_with_udf,
    },
};
use stratalog_model::{ColumnType, Error};

use super::rounding::{lists_of, on_first};
use crate::failed;

/// Makes a function that casts arrays by one call of `of_element` for the elements of all arrays.
/// `element` is the type of the resulting elements.
pub(super) fn function(of_element: Arc<ScalarUDF>, element: ColumnType) -> Arc<ScalarUDF> {
    let name = format!("{}_of_elements_as_{element}", of_element.name()).replace(' ', "_");
    let signature = Signature::any(1, Volatility::Stable);
    Arc::new(ScalarUDF::new_from_impl(CastElements { name, of_element, element, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CastElements {
    name: String,
    of_element: Arc<ScalarUDF>,
    element: ColumnType,
    signature: Signature,
}

impl CastElements {
    fn cast(&self, array: &ArrayRef, arguments: &ScalarFunctionArgs) -> Result<ArrayRef> {
        let DataType::List(wanted) = ColumnType::Array(Box::new(self.element.clone())).arrow_type()
        else {
            return Err(failed(Error::internal("an array was declared")));
        };
        let (given, offsets, values, nulls) = lists_of(array)?.into_parts();
        let fields = fields_with_udf(&[given], self.of_element.as_ref())?;
        let values = match fields.first() {
            Some(field) if field.data_type() != values.data_type() => {
                cast(&values, field.data_type())?
            }
            _ => values,
        };
        let rows = values.len();
        let cast_values = self.of_element.invoke_with_args(ScalarFunctionArgs {
            args: vec![ColumnarValue::Array(values)],
            arg_fields: fields,
            number_rows: rows,
            return_field: Arc::clone(&wanted),
            config_options: Arc::clone(&arguments.config_options),
        })?;
        let cast_values = cast(&cast_values.into_array(rows)?, wanted.data_type())?;
        Ok(Arc::new(ListArray::try_new(wanted, offsets, cast_values, nulls)?))
    }
}

impl ScalarUDFImpl for CastElements {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(ColumnType::Array(Box::new(self.element.clone())).arrow_type())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let array = ColumnType::Array(Box::new(self.element.clone()));
        Ok(Arc::new(array.arrow_field(&self.name, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        on_first(&arguments, |array| self.cast(array, &arguments))
    }
}
