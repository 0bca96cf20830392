//! Computes the rows of the system tables about types and collations.

use stratalog_model::Result;

use crate::{
    CatalogContext,
    column_type::BASE_TYPES,
    oid,
    rows::{Rows, Value},
};

pub(super) fn types(rows: &mut Rows<'_>) -> Result<()> {
    for base in BASE_TYPES.iter() {
        rows.push(&[
            ("oid", base.oid.into()),
            ("typname", base.name.into()),
            ("typnamespace", 11_i64.into()),
            ("typowner", oid::ROLE.into()),
            ("typlen", base.length.into()),
            ("typbyval", base.by_value.into()),
            ("typtype", base.kind.into()),
            ("typcategory", base.category.into()),
            ("typispreferred", base.preferred.into()),
            ("typisdefined", true.into()),
            ("typdelim", base.delimiter.into()),
            ("typelem", base.element.into()),
            ("typsubscript", base.subscript.into()),
            ("typarray", base.array.into()),
            ("typinput", base.input.into()),
            ("typoutput", base.output.into()),
            ("typreceive", base.receive.into()),
            ("typsend", base.send.into()),
            ("typmodin", base.modifier_in.into()),
            ("typmodout", base.modifier_out.into()),
            ("typanalyze", base.analyze.into()),
            ("typalign", base.align.into()),
            ("typstorage", base.storage.into()),
            ("typtypmod", (-1_i64).into()),
            ("typcollation", base.collation.into()),
        ])?;
        if base.array != 0 {
            let mut array = array_of(base.array, base.oid, base.name, base.align);
            array.extend([
                ("typnamespace", 11_i64.into()),
                ("typtype", (if base.name == "record" { "p" } else { "b" }).into()),
                ("typcategory", (if base.name == "record" { "P" } else { "A" }).into()),
                ("typdelim", base.delimiter.into()),
                ("typmodin", base.modifier_in.into()),
                ("typmodout", base.modifier_out.into()),
                ("typcollation", base.collation.into()),
            ]);
            rows.push(&array)?;
        }
    }
    Ok(())
}

/// The columns of the `pg_type` row of an array type; the caller adds the other columns.
fn array_of(number: i64, element: i64, name: &str, align: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("oid", number.into()),
        ("typname", format!("_{name}").into()),
        ("typowner", oid::ROLE.into()),
        ("typlen", (-1_i64).into()),
        ("typisdefined", true.into()),
        ("typelem", element.into()),
        ("typsubscript", "array_subscript_handler".into()),
        ("typinput", "array_in".into()),
        ("typoutput", "array_out".into()),
        ("typreceive", "array_recv".into()),
        ("typsend", "array_send".into()),
        ("typanalyze", "array_typanalyze".into()),
        ("typalign", (if align == "d" { "d" } else { "i" }).into()),
        ("typstorage", "x".into()),
        ("typtypmod", (-1_i64).into()),
    ]
}

/// Adds the `pg_type` rows of the tables: each table has a type for its rows, and a type for arrays
/// of its rows.
pub(super) fn of_tables(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    for chronicle in state.chronicles(&context.database) {
        let schema = super::class::schema_oid(context, &chronicle.schema);
        let (row, array) = (oid::row_type(chronicle.id), oid::row_array_type(chronicle.id));
        rows.push(&[
            ("oid", row.into()),
            ("typname", (&chronicle.name).into()),
            ("typnamespace", schema.into()),
            ("typowner", oid::ROLE.into()),
            ("typlen", (-1_i64).into()),
            ("typtype", "c".into()),
            ("typcategory", "C".into()),
            ("typisdefined", true.into()),
            ("typdelim", ",".into()),
            ("typrelid", oid::table(chronicle.id).into()),
            ("typsubscript", "-".into()),
            ("typarray", array.into()),
            ("typinput", "record_in".into()),
            ("typoutput", "record_out".into()),
            ("typreceive", "record_recv".into()),
            ("typsend", "record_send".into()),
            ("typmodin", "-".into()),
            ("typmodout", "-".into()),
            ("typanalyze", "-".into()),
            ("typalign", "d".into()),
            ("typstorage", "x".into()),
            ("typtypmod", (-1_i64).into()),
        ])?;
        let mut of_rows = array_of(array, row, &chronicle.name, "d");
        of_rows.extend([
            ("typnamespace", schema.into()),
            ("typtype", "b".into()),
            ("typcategory", "A".into()),
            ("typdelim", ",".into()),
            ("typmodin", "-".into()),
            ("typmodout", "-".into()),
        ]);
        rows.push(&of_rows)?;
    }
    Ok(())
}

pub(super) fn collations(rows: &mut Rows<'_>) -> Result<()> {
    for (number, name, provider) in
        [(oid::COLLATION, "default", "d"), (950, "C", "c"), (951, "POSIX", "c")]
    {
        rows.push(&[
            ("oid", number.into()),
            ("collname", name.into()),
            ("collnamespace", 11_i64.into()),
            ("collowner", oid::ROLE.into()),
            ("collprovider", provider.into()),
            ("collisdeterministic", true.into()),
            ("collencoding", (-1_i64).into()),
            ("collcollate", "C".into()),
            ("collctype", "C".into()),
        ])?;
    }
    Ok(())
}
