//! Types and collations.

use stratalog_model::Result;

use crate::{column_type::BASE_TYPES, oid, rows::Rows};

pub(super) fn types(rows: &mut Rows<'_>) -> Result<()> {
    let function = |name: &'static str| if name == "-" { "-" } else { name };
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
            ("typdelim", ",".into()),
            ("typelem", base.element.into()),
            ("typsubscript", "-".into()),
            ("typarray", base.array.into()),
            ("typinput", base.input.into()),
            ("typoutput", base.output.into()),
            ("typreceive", function(base.receive).into()),
            ("typsend", function(base.send).into()),
            ("typmodin", "-".into()),
            ("typmodout", "-".into()),
            ("typanalyze", "-".into()),
            ("typalign", base.align.into()),
            ("typstorage", base.storage.into()),
            ("typtypmod", (-1_i64).into()),
            ("typcollation", base.collation.into()),
        ])?;
        if base.array == 0 {
            continue;
        }
        rows.push(&[
            ("oid", base.array.into()),
            ("typname", format!("_{}", base.name).into()),
            ("typnamespace", 11_i64.into()),
            ("typowner", oid::ROLE.into()),
            ("typlen", (-1_i64).into()),
            ("typtype", "b".into()),
            ("typcategory", "A".into()),
            ("typisdefined", true.into()),
            ("typdelim", ",".into()),
            ("typelem", base.oid.into()),
            ("typsubscript", "array_subscript_handler".into()),
            ("typinput", "array_in".into()),
            ("typoutput", "array_out".into()),
            ("typreceive", "array_recv".into()),
            ("typsend", "array_send".into()),
            ("typmodin", "-".into()),
            ("typmodout", "-".into()),
            ("typanalyze", "array_typanalyze".into()),
            ("typalign", (if base.align == "d" { "d" } else { "i" }).into()),
            ("typstorage", "x".into()),
            ("typtypmod", (-1_i64).into()),
            ("typcollation", base.collation.into()),
        ])?;
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
