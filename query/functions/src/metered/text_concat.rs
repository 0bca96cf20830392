//! Replaces the operator `||` of texts by a function, because only the results of functions are
//! metered.

use std::{hash::Hash, sync::Arc};

use arrow::{
    array::{
        Array as _, ArrayRef, AsArray, StringArray, StringBuilder, StringViewArray,
        StringViewBuilder,
    },
    datatypes::{DataType, Field, FieldRef},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
        Volatility,
    },
};
use stratalog_model::Error;

use crate::failed;

/// The function that computes `||` of texts.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct TextConcat {
    signature: Signature,
}

impl TextConcat {
    /// Creates the function, which accepts two arguments of any text type.
    pub(super) fn new() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for TextConcat {
    fn name(&self) -> &str {
        "text_concat"
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        let shown: Vec<String> =
            arguments.iter().map(|argument| argument.schema_name().to_string()).collect();
        Ok(shown.join(" || "))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments.first().cloned().unwrap_or(DataType::Utf8View))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> =
            arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = arguments.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = arguments.args.as_slice() else {
            return Err(failed(Error::internal("|| takes two values")));
        };
        if let (ColumnarValue::Scalar(left), ColumnarValue::Scalar(right)) = (left, right) {
            let joined = match (left.try_as_str().flatten(), right.try_as_str().flatten()) {
                (Some(left), Some(right)) => Some([left, right].concat()),
                _ => None,
            };
            return Ok(ColumnarValue::Scalar(match arguments.return_field.data_type() {
                DataType::Utf8View => ScalarValue::Utf8View(joined),
                _ => ScalarValue::Utf8(joined),
            }));
        }
        let (left, right) = (TextOperand::of(left)?, TextOperand::of(right)?);
        let rows = 0..arguments.number_rows;
        let mut text = String::new();
        let mut join = |row: usize, append: &mut dyn FnMut(Option<&str>)| {
            let (Some(left), Some(right)) = (left.at(row), right.at(row)) else {
                return append(None);
            };
            text.clear();
            text.push_str(left);
            text.push_str(right);
            append(Some(&text));
        };
        Ok(ColumnarValue::Array(match arguments.return_field.data_type() {
            DataType::Utf8View => {
                let mut joined = StringViewBuilder::with_capacity(rows.len());
                rows.for_each(|row| join(row, &mut |text| joined.append_option(text)));
                Arc::new(joined.finish()) as ArrayRef
            }
            _ => {
                let mut joined = StringBuilder::new();
                rows.for_each(|row| join(row, &mut |text| joined.append_option(text)));
                Arc::new(joined.finish())
            }
        }))
    }
}

/// An operand of `||`.
enum TextOperand<'a> {
    Same(Option<&'a str>),
    View(&'a StringViewArray),
    Text(&'a StringArray),
}

impl<'a> TextOperand<'a> {
    fn of(value: &'a ColumnarValue) -> Result<Self> {
        let texts = match value {
            ColumnarValue::Scalar(value) => value.try_as_str().map(TextOperand::Same),
            ColumnarValue::Array(array) => array
                .as_string_view_opt()
                .map(TextOperand::View)
                .or_else(|| array.as_string_opt::<i32>().map(TextOperand::Text)),
        };
        texts.ok_or_else(|| failed(Error::internal("|| takes two texts")))
    }

    fn at(&self, row: usize) -> Option<&'a str> {
        match self {
            Self::Same(text) => *text,
            Self::View(texts) => texts.is_valid(row).then(|| texts.value(row)),
            Self::Text(texts) => texts.is_valid(row).then(|| texts.value(row)),
        }
    }
}
