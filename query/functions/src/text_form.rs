//! Values as text, in PostgreSQL's form.

use arrow::{
    array::{ArrayRef, StringViewBuilder},
    datatypes::Field,
};
use datafusion::common::Result;
use std::sync::Arc;
use stratalog_text::ColumnWriter;

use crate::{failed, function::Arguments, literal::style_of};

/// Argument 0 as text, as the session of these settings writes it.
///
/// # Errors
/// `FeatureNotSupported` for types that SQL has no name for.
pub(crate) fn texts(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let array = arguments.array(0)?;
    let style = style_of(arguments.config);
    let field = match arguments.fields.first() {
        // The argument was cast; what the field says beyond the type still holds.
        Some(field) => field.as_ref().clone().with_data_type(array.data_type().clone()),
        None => Field::new("text", array.data_type().clone(), true),
    };
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
