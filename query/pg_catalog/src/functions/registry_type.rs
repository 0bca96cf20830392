//! Functions for the types `regclass`, `regtype`, `regnamespace`, `regrole`, `regproc` and similar
//! types. The values are oids, and the output is the name of the object.
//!
//! A value of these types is compared as an oid, and is printed as a name. The functions here
//! convert a text to an oid, and an oid to a name. The module `rewrite` chooses the function for
//! each cast.

use std::sync::Arc;

use arrow::{
    array::{Array as _, ArrayRef, AsArray, Int64Array},
    datatypes::Int64Type,
};
use datafusion::common::Result;
use stratalog_functions::{
    failed,
    function::{Arguments, Function, Parameter, text_at, text_rows},
};
use stratalog_model::{ColumnType, Error, ErrorKind};
use stratalog_visor_core::access::RoleId;

use super::{Declare, object::known_type_name};
use crate::{
    CatalogContext,
    column_type::oid_of_name,
    oid::SYSTEM_SCHEMAS,
    procedure::{procedure, procedure_of_name},
    relation::{Relation, name_parts},
};

use Parameter::Any;

/// The kind of object behind a type like `regclass`.
#[derive(Clone, Copy)]
pub(super) enum RegistryKind {
    Class,
    Type,
    Namespace,
    Role,
    Function,
}

pub(super) fn functions(context: &Arc<CatalogContext>) -> Vec<Function> {
    let declare = Declare { context };
    let oid = |name, description, compute| {
        declare.stable(name, &[&[Any]], ColumnType::BigInt, description, compute)
    };
    let text = |name, description, compute| {
        declare.stable(name, &[&[Any]], ColumnType::Text, description, compute)
    };
    vec![
        oid(
            "regclass_oid",
            "Oid of a table: what a cast to regclass calls.",
            |context, arguments| oids(context, arguments, RegistryKind::Class, true),
        ),
        text(
            "regclass_name",
            "Name of a table: what a regclass is printed as.",
            |context, arguments| names(context, arguments, RegistryKind::Class),
        ),
        oid("regtype_oid", "Oid of a type: what a cast to regtype calls.", |context, arguments| {
            oids(context, arguments, RegistryKind::Type, true)
        }),
        text(
            "regtype_name",
            "Name of a type: what a regtype is printed as.",
            |context, arguments| names(context, arguments, RegistryKind::Type),
        ),
        oid(
            "regnamespace_oid",
            "Oid of a schema: what a cast to regnamespace calls.",
            |context, arguments| oids(context, arguments, RegistryKind::Namespace, true),
        ),
        text(
            "regnamespace_name",
            "Name of a schema: what a regnamespace is printed as.",
            |context, arguments| names(context, arguments, RegistryKind::Namespace),
        ),
        oid("regrole_oid", "Oid of a role: what a cast to regrole calls.", |context, arguments| {
            oids(context, arguments, RegistryKind::Role, true)
        }),
        text(
            "regrole_name",
            "Name of a role: what a regrole is printed as.",
            |context, arguments| names(context, arguments, RegistryKind::Role),
        ),
        oid(
            "regproc_oid",
            "Oid of a function: what a cast to regproc and on to oid calls.",
            |context, arguments| oids(context, arguments, RegistryKind::Function, true),
        ),
        text(
            "regproc_name",
            "Name of a function: what a regproc is printed as.",
            |context, arguments| names(context, arguments, RegistryKind::Function),
        ),
        oid("to_regproc", "Oid of a function, or NULL.", |context, arguments| {
            oids(context, arguments, RegistryKind::Function, false)
        }),
        oid("to_regclass", "Oid of a table, or NULL.", |context, arguments| {
            oids(context, arguments, RegistryKind::Class, false)
        }),
        oid("to_regtype", "Oid of a type, or NULL.", |context, arguments| {
            oids(context, arguments, RegistryKind::Type, false)
        }),
        oid("to_regnamespace", "Oid of a schema, or NULL.", |context, arguments| {
            oids(context, arguments, RegistryKind::Namespace, false)
        }),
        oid("to_regrole", "Oid of a role, or NULL.", |context, arguments| {
            oids(context, arguments, RegistryKind::Role, false)
        }),
    ]
}

/// Converts argument 0 to integers; `None` if the argument is text.
fn integers(arguments: &Arguments<'_>) -> Result<Option<Int64Array>> {
    let given = arguments.array(0)?;
    if !given.data_type().is_integer() {
        return Ok(None);
    }
    let wide = arrow::compute::cast(given, &arrow::datatypes::DataType::Int64)?;
    Ok(Some(wide.as_primitive::<Int64Type>().clone()))
}

fn oids(
    context: &CatalogContext,
    arguments: &Arguments<'_>,
    kind: RegistryKind,
    must_exist: bool,
) -> Result<ArrayRef> {
    if let Some(numbers) = integers(arguments)? {
        return Ok(Arc::new(numbers));
    }
    let texts = arguments.text(0)?;
    let numbers = (0..arguments.rows)
        .map(|row| {
            let Some(text) = text_at(texts, row) else { return Ok(None) };
            // A text that consists of digits is an oid.
            if let Ok(number) = text.trim().parse::<u32>() {
                return Ok(Some(i64::from(number)));
            }
            if text == "-" {
                return Ok(Some(0));
            }
            match oid_of(context, kind, text) {
                None if must_exist => Err(failed(missing(kind, text))),
                found => Ok(found),
            }
        })
        .collect::<Result<Vec<Option<i64>>>>()?;
    Ok(Arc::new(Int64Array::from(numbers)))
}

fn names(
    context: &CatalogContext,
    arguments: &Arguments<'_>,
    kind: RegistryKind,
) -> Result<ArrayRef> {
    let numbers = match integers(arguments)? {
        Some(numbers) => numbers,
        None => oids(context, arguments, kind, true)?.as_primitive::<Int64Type>().clone(),
    };
    text_rows(arguments.rows, |row| {
        let number = (!numbers.is_null(row)).then(|| numbers.value(row));
        Ok(number.map(|number| match number {
            0 => "-".to_string(),
            _ => name_of(context, kind, number).unwrap_or_else(|| number.to_string()),
        }))
    })
}

/// The oid of the object with this name; `None` for an unknown name.
pub(super) fn oid_of(context: &CatalogContext, kind: RegistryKind, text: &str) -> Option<i64> {
    let state = context.state();
    match kind {
        RegistryKind::Class => {
            let path = context.search_path(&state);
            Relation::of_name(&state, &context.database, &path, text).map(|found| found.oid())
        }
        RegistryKind::Type => oid_of_name(text),
        RegistryKind::Namespace => {
            let name = name_parts(text)?.pop()?;
            let system = SYSTEM_SCHEMAS.iter().find(|(schema, _)| *schema == name);
            system.map(|(_, number)| *number).or_else(|| {
                state.schema(&context.database, &name).map(|schema| i64::from(schema.oid))
            })
        }
        RegistryKind::Role => {
            let name = name_parts(text)?.pop()?;
            state.access().role_named(&name).map(|role| i64::from(role.id.0))
        }
        RegistryKind::Function => {
            // A list of parameter types may follow the name.
            let name = name_parts(text.split('(').next()?)?.pop()?;
            procedure_of_name(&name).map(|procedure| procedure.oid)
        }
    }
}

/// The name of the object with this oid; `None` for an unknown oid.
pub(super) fn name_of(context: &CatalogContext, kind: RegistryKind, number: i64) -> Option<String> {
    let state = context.state();
    match kind {
        RegistryKind::Class => {
            let path = context.search_path(&state);
            Relation::of_oid(&state, &context.database, number)
                .map(|relation| relation.display(&state, &context.database, &path))
        }
        RegistryKind::Type => known_type_name(number),
        RegistryKind::Namespace => {
            let system = SYSTEM_SCHEMAS.iter().find(|(_, oid)| *oid == number);
            system.map(|(name, _)| (*name).to_string()).or_else(|| {
                state
                    .schemas(&context.database)
                    .find(|schema| i64::from(schema.oid) == number)
                    .map(|schema| stratalog_functions::quote_ident(&schema.name))
            })
        }
        RegistryKind::Function => procedure(number).map(|procedure| procedure.name.clone()),
        RegistryKind::Role => {
            let role = state.access().role(RoleId(u32::try_from(number).ok()?));
            role.map(|role| stratalog_functions::quote_ident(&role.name))
        }
    }
}

/// The error for a name that belongs to no object.
pub(super) fn missing(kind: RegistryKind, text: &str) -> Error {
    let (error, what) = match kind {
        RegistryKind::Class => (ErrorKind::UndefinedTable, "relation"),
        RegistryKind::Type => (ErrorKind::UndefinedObject, "type"),
        RegistryKind::Namespace => (ErrorKind::UndefinedSchema, "schema"),
        RegistryKind::Role => (ErrorKind::UndefinedObject, "role"),
        RegistryKind::Function => (ErrorKind::UndefinedFunction, "function"),
    };
    Error::new(error, format!("{what} \"{text}\" does not exist"))
}
