//! Converts values to text in PostgreSQL's format.

use arrow::{
    array::{ArrayRef, StringViewBuilder},
    datatypes::Field,
};
use datafusion::common::Result;
use std::sync::Arc;
use stratalog_text::ColumnWriter;

use crate::{failed, function::Arguments, literal::style_of};

/// Converts argument 0 to text, in the style of the session's settings.
///
/// # Errors
/// `FeatureNotSupported` for an Arrow type that SQL does not have.
pub(crate) fn texts(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    texts_of(arguments, 0)
}

/// The field of argument `at`. Its type is the type after the argument's cast.
///
/// # Errors
/// `Internal` if there are fewer arguments.
pub(crate) fn field_of(arguments: &Arguments<'_>, at: usize) -> Result<Field> {
    let given = arguments.array(at)?.data_type().clone();
    Ok(match arguments.fields.get(at) {
        // A cast changes only the type of the field.
        Some(field) => field.as_ref().clone().with_data_type(given),
        None => Field::new("text", given, true),
    })
}

/// Converts argument `at` to text, in the style of the session's settings.
///
/// # Errors
/// The errors of [`texts`].
pub(crate) fn texts_of(arguments: &Arguments<'_>, at: usize) -> Result<ArrayRef> {
    let array = arguments.array(at)?;
    let style = style_of(arguments.config);
    let field = field_of(arguments, at)?;
    let writer = ColumnWriter::new(array.as_ref(), &field, &style).map_err(failed)?;
    let mut builder = StringViewBuilder::with_capacity(arguments.rows);
    let mut out = Vec::new();
    for row in 0..arguments.rows {
        out.clear();
        if writer.write(row, &mut out) {
            builder.append_value(String::from_utf8_lossy(&out));
        } else {
            builder.append_null();
        }
    }
    Ok(Arc::new(builder.finish()))
}
