//! `has_table_privilege` and similar functions: whether a role has a privilege on an object.
//!
//! The database has no grants: every user may do everything. Therefore a privilege on an existing
//! object is always granted. For a missing object or an unknown privilege, the result is the same
//! as in PostgreSQL.

use arrow::{
    array::{Array as _, ArrayRef, AsArray, Int64Array, StringViewArray},
    compute::cast,
    datatypes::{DataType, Int64Type},
};
use datafusion::common::Result;
use stratalog_functions::{
    failed,
    function::{Arguments, Function, Parameter, text_at},
};
use stratalog_model::{ColumnType, Error, ErrorKind};

use super::{
    Declare,
    registry_type::{RegistryKind, missing, name_of, oid_of},
    truths,
};
use crate::{
    CatalogContext, oid,
    relation::{Relation, name_parts},
};

use Parameter::{Any, Text};

/// A kind of object that can have privileges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Object {
    Table,
    Column,
    Database,
    DataWrapper,
    Function,
    Language,
    Schema,
    Sequence,
    Server,
    Tablespace,
    Type,
    Role,
}

/// An argument that identifies an object: by name or by oid.
#[derive(Debug, Clone, Copy)]
enum ObjectArgument<'a> {
    Text(&'a str),
    Number(i64),
}

pub(super) fn functions(declare: &Declare<'_>) -> Vec<Function> {
    const PARAMETERS: &[&[Parameter]] = &[&[Any, Text], &[Any, Any, Text]];
    const OF_COLUMNS: &[&[Parameter]] = &[&[Any, Any, Text], &[Any, Any, Any, Text]];
    let function = |name, parameters, compute| {
        let does = "Whether a role has a privilege: true for existing objects, because users have no limits yet.";
        declare.stable(name, parameters, ColumnType::Boolean, does, compute)
    };
    macro_rules! has {
        ($name:literal, $object:ident, $privileges:expr) => {
            function($name, PARAMETERS, |context, arguments| {
                has(context, arguments, Object::$object, $privileges)
            })
        };
    }
    vec![
        has!("has_any_column_privilege", Table, COLUMN),
        function("has_column_privilege", OF_COLUMNS, |context, arguments| {
            has(context, arguments, Object::Column, COLUMN)
        }),
        has!("has_database_privilege", Database, &["CREATE", "TEMPORARY", "TEMP", "CONNECT"]),
        has!("has_foreign_data_wrapper_privilege", DataWrapper, &["USAGE"]),
        has!("has_function_privilege", Function, &["EXECUTE"]),
        has!("has_language_privilege", Language, &["USAGE"]),
        has!("has_schema_privilege", Schema, &["CREATE", "USAGE"]),
        has!("has_sequence_privilege", Sequence, &["USAGE", "SELECT", "UPDATE"]),
        has!("has_server_privilege", Server, &["USAGE"]),
        has!("has_table_privilege", Table, TABLE),
        has!("has_tablespace_privilege", Tablespace, &["CREATE"]),
        has!("has_type_privilege", Type, &["USAGE"]),
        has!("pg_has_role", Role, &["USAGE", "MEMBER"]),
        declare.stable(
            "pg_get_serial_sequence",
            &[&[Text, Text]],
            ColumnType::Text,
            "NULL: sequences do not exist.",
            serial_sequences,
        ),
    ]
}

const TABLE: &[&str] =
    &["SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", NEVER_GRANTED];

/// A privilege that PostgreSQL accepts as an argument, but never grants.
const NEVER_GRANTED: &str = "RULE";

const COLUMN: &[&str] = &["SELECT", "INSERT", "UPDATE", "REFERENCES"];

/// The values of an argument that identifies objects: names or oids.
struct ArgumentValues {
    texts: Option<StringViewArray>,
    numbers: Option<Int64Array>,
}

impl ArgumentValues {
    fn of(arguments: &Arguments<'_>, at: usize) -> Result<Self> {
        let array = arguments.array(at)?;
        if array.data_type().is_integer() {
            let wide = cast(array, &DataType::Int64)?;
            return Ok(Self {
                texts: None,
                numbers: wide.as_primitive_opt::<Int64Type>().cloned(),
            });
        }
        let texts = cast(array, &DataType::Utf8View)?;
        Ok(Self { texts: texts.as_string_view_opt().cloned(), numbers: None })
    }

    fn at(&self, row: usize) -> Option<ObjectArgument<'_>> {
        match (&self.texts, &self.numbers) {
            (Some(texts), _) => text_at(texts, row).map(ObjectArgument::Text),
            (None, Some(numbers)) if !numbers.is_null(row) => {
                Some(ObjectArgument::Number(numbers.value(row)))
            }
            _ => None,
        }
    }
}

fn has(
    context: &CatalogContext,
    arguments: &Arguments<'_>,
    object: Object,
    privileges: &[&str],
) -> Result<ArrayRef> {
    let count = arguments.arrays.len();
    let values: Vec<ArgumentValues> =
        (0..count).map(|at| ArgumentValues::of(arguments, at)).collect::<Result<_>>()?;
    let named = if object == Object::Column { 2 } else { 1 };
    truths(arguments, |row| {
        // The functions are strict: if an argument is NULL, the result is NULL.
        let Some(given) = values.iter().map(|values| values.at(row)).collect::<Option<Vec<_>>>()
        else {
            return Ok(None);
        };
        let Some((ObjectArgument::Text(privilege_list), objects)) = given.split_last() else {
            return Ok(None);
        };
        let (role, objects) = objects.split_at(objects.len().saturating_sub(named));
        let known =
            role.first().map_or(Ok(true), |role| is_role(context, *role)).map_err(failed)?;
        let there = exists(context, object, objects).map_err(failed)?;
        let granted = is_granted(privileges, privilege_list).map_err(failed)?;
        Ok(there.then_some(known && granted))
    })
}

/// True if the role exists. An unknown name is an error. An unknown oid is no error: like in
/// PostgreSQL, this role has no privileges.
fn is_role(context: &CatalogContext, role: ObjectArgument<'_>) -> Result<bool, Error> {
    match role {
        ObjectArgument::Number(number) => Ok(number == oid::ROLE || number == 0),
        ObjectArgument::Text(name) if name == "public" || name == context.user => Ok(true),
        ObjectArgument::Text(name) => Err(missing(RegistryKind::Role, name)),
    }
}

/// True if the comma-separated list contains a privilege that can be granted. A privilege that is
/// not in `privileges` is an error.
fn is_granted(privileges: &[&str], privilege_list: &str) -> Result<bool, Error> {
    let mut granted = false;
    for word in privilege_list.split(',').map(str::trim) {
        let upper = word.to_ascii_uppercase();
        let options = [" WITH GRANT OPTION", " WITH ADMIN OPTION"];
        let plain = options.iter().find_map(|option| upper.strip_suffix(option)).unwrap_or(&upper);
        let admin = upper.ends_with(" WITH ADMIN OPTION");
        let known = privileges.contains(&plain);
        if !known || admin && !privileges.contains(&"MEMBER") {
            return Err(Error::new(
                ErrorKind::InvalidParameterValue,
                format!("unrecognized privilege type: \"{word}\""),
            ));
        }
        granted |= plain != NEVER_GRANTED;
    }
    Ok(granted)
}

/// True if an object with this name or oid exists. An unknown oid gives false, and the SQL function
/// then returns NULL. An unknown name is an error.
fn exists(
    context: &CatalogContext,
    object: Object,
    named: &[ObjectArgument<'_>],
) -> Result<bool, Error> {
    let Some(first) = named.first().copied() else { return Ok(false) };
    let of_kind = |kind: RegistryKind| match first {
        ObjectArgument::Number(number) => Ok(name_of(context, kind, number).is_some()),
        ObjectArgument::Text(text) => match oid_of(context, kind, text) {
            Some(_) => Ok(true),
            None => Err(missing(kind, text)),
        },
    };
    let among = |what: &str, known: &[(i64, &str)]| match first {
        ObjectArgument::Number(number) => Ok(known.iter().any(|(other, _)| *other == number)),
        ObjectArgument::Text(text) if known.iter().any(|(_, other)| *other == text) => Ok(true),
        ObjectArgument::Text(text) => {
            Err(Error::new(ErrorKind::UndefinedObject, format!("{what} \"{text}\" does not exist")))
        }
    };
    match object {
        Object::Table => Ok(relation(context, first)?.is_some()),
        Object::Column => {
            let Some(relation) = relation(context, first)? else { return Ok(false) };
            match named.get(1).copied() {
                Some(ObjectArgument::Text(name)) => column(&relation, name).map(|()| true),
                Some(ObjectArgument::Number(number)) => Ok(usize::try_from(number)
                    .is_ok_and(|number| (1..=column_names(&relation).len()).contains(&number))),
                None => Ok(false),
            }
        }
        Object::Database => match first {
            ObjectArgument::Number(number) => {
                Ok(context.state().database_names().any(|(other, _)| i64::from(other) == number))
            }
            ObjectArgument::Text(name) if context.database_oid(name).is_some() => Ok(true),
            ObjectArgument::Text(name) => Err(Error::new(
                ErrorKind::UndefinedDatabase,
                format!("database \"{name}\" does not exist"),
            )),
        },
        Object::Function => {
            if let ObjectArgument::Text(text) = first
                && !text.contains('(')
            {
                return Err(Error::new(
                    ErrorKind::InvalidTextRepresentation,
                    "expected a left parenthesis",
                ));
            }
            of_kind(RegistryKind::Function)
        }
        Object::Schema => match first {
            ObjectArgument::Number(_) => of_kind(RegistryKind::Namespace),
            ObjectArgument::Text(name) if is_schema(context, name) => Ok(true),
            ObjectArgument::Text(name) => Err(missing(RegistryKind::Namespace, name)),
        },
        Object::Type => of_kind(RegistryKind::Type),
        Object::Role => match first {
            // As in PostgreSQL, a superuser is a member of every role, even of a role that does not
            // exist.
            ObjectArgument::Number(_) => Ok(true),
            ObjectArgument::Text(name) if name == context.user => Ok(true),
            ObjectArgument::Text(name) => Err(missing(RegistryKind::Role, name)),
        },
        Object::Sequence => match relation(context, first)? {
            None => Ok(false),
            Some(other) => Err(Error::new(
                ErrorKind::WrongObjectType,
                format!("\"{}\" is not a sequence", other.name()),
            )),
        },
        Object::Language => among("language", &oid::LANGUAGES),
        Object::Tablespace => among("tablespace", &oid::TABLESPACES),
        Object::Server => among("server", &[]),
        Object::DataWrapper => among("foreign-data wrapper", &[]),
    }
}

/// True if a schema with exactly this name exists.
fn is_schema(context: &CatalogContext, name: &str) -> bool {
    oid::SYSTEM_SCHEMAS.iter().any(|(system, _)| *system == name)
        || context.state().schema(&context.database, name).is_some()
}

/// The table, index or system table that an argument identifies; `None` for an oid without a
/// relation. An unknown name is an error.
fn relation(
    context: &CatalogContext,
    named: ObjectArgument<'_>,
) -> Result<Option<Relation>, Error> {
    let state = context.state();
    let text = match named {
        ObjectArgument::Number(number) => {
            return Ok(Relation::of_oid(&state, &context.database, number));
        }
        ObjectArgument::Text(text) => text,
    };
    let Some(parts) = name_parts(text) else {
        return Err(Error::new(ErrorKind::InvalidName, "invalid name syntax"));
    };
    match parts.as_slice() {
        [other, _, _] if *other != context.connected_to => {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                format!("cross-database references are not implemented: \"{}\"", parts.join(".")),
            ));
        }
        [.., schema, _] if !is_schema(context, schema) => {
            return Err(missing(RegistryKind::Namespace, schema));
        }
        _ => {}
    }
    let path = context.search_path(&state);
    match Relation::of_name(&state, &context.database, &path, text) {
        Some(found) => Ok(Some(found)),
        None => Err(missing(RegistryKind::Class, &parts.join("."))),
    }
}

fn column_names(relation: &Relation) -> Vec<&str> {
    match relation {
        Relation::Table(chronicle) | Relation::Index(chronicle, _) => {
            chronicle.columns.iter().map(|column| column.name.as_str()).collect()
        }
        Relation::System(table) => table.columns.iter().map(|column| column.name).collect(),
    }
}

fn column(relation: &Relation, name: &str) -> Result<(), Error> {
    match column_names(relation).contains(&name) {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::UndefinedColumn,
            format!("column \"{name}\" of relation \"{}\" does not exist", relation.name()),
        )),
    }
}

fn serial_sequences(context: &CatalogContext, arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let (tables, columns) = (arguments.text(0)?, arguments.text(1)?);
    stratalog_functions::function::text_rows(arguments.rows, |row| {
        if let (Some(table), Some(name)) = (text_at(tables, row), text_at(columns, row))
            && let Some(relation) =
                relation(context, ObjectArgument::Text(table)).map_err(failed)?
        {
            column(&relation, name).map_err(failed)?;
        }
        Ok(None)
    })
}
