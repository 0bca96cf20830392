//! `has_table_privilege` and similar functions: whether a role has a privilege on an object.

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
use stratalog_model::{ChronicleDefinition, ColumnId, ColumnType, Error, ErrorKind};
use stratalog_visor_core::{
    CatalogState,
    access::{
        Columns, Identity, Object as CatalogObject, PolicyCommand, Privilege, Rights, RoleId,
    },
};

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
    AnyColumn,
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
        let does = "Whether a role has one of the privileges; the first argument may be the name or the oid of a role.";
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
        has!("has_any_column_privilege", AnyColumn, COLUMN),
        function("has_column_privilege", OF_COLUMNS, |context, arguments| {
            has(context, arguments, Object::Column, COLUMN)
        }),
        function("row_security_active", &[&[Any]], row_security_active),
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

const TABLE: &[&str] = &[
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "TRUNCATE",
    "TRIM",
    "REFERENCES",
    "TRIGGER",
    "SUBSCRIBE",
    "ACQUIRE",
    "OWNERSHIP",
    "RULE",
];

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
        let state = context.state();
        let mut asked =
            Asked::of(context, &state, role.first().copied(), object).map_err(failed)?;
        let target = target(context, object, objects).map_err(failed)?;
        let words = words(privileges, privilege_list).map_err(failed)?;
        let Some(target) = target else { return Ok(None) };
        Ok(Some(words.into_iter().any(|word| asked.has(&target, &word))))
    })
}

/// A privilege in an argument: the upper-case word, and true with the grant or admin option.
struct AskedWord {
    word: String,
    with_option: bool,
}

/// The privileges of a comma-separated list. A privilege that is not in `privileges` is an error.
fn words(privileges: &[&str], list: &str) -> Result<Vec<AskedWord>, Error> {
    let word = |word: &str| {
        let upper = word.to_ascii_uppercase();
        let options = [" WITH GRANT OPTION", " WITH ADMIN OPTION"];
        let stripped = options.iter().find_map(|option| upper.strip_suffix(option));
        let plain = stripped.unwrap_or(&upper).to_string();
        let admin = upper.ends_with(" WITH ADMIN OPTION");
        let known = privileges.contains(&plain.as_str());
        if !known || admin && !privileges.contains(&"MEMBER") {
            return Err(Error::new(
                ErrorKind::InvalidParameterValue,
                format!("unrecognized privilege type: \"{word}\""),
            ));
        }
        Ok(AskedWord { word: plain, with_option: stripped.is_some() })
    };
    list.split(',').map(|one| word(one.trim())).collect()
}

/// An object whose privileges a function tests.
enum Target {
    /// An object with an access list; of a chronicle, also a column, or all columns.
    Listed(CatalogObject, TargetColumns),
    /// A role.
    Role(Option<RoleId>),
    /// A system table that every role may read.
    SystemTable,
    /// A system schema, which every role may use.
    SystemSchema,
    /// An object that every role may use.
    Open,
    /// An object that only superusers may use.
    Closed,
}

/// The columns that a function tests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TargetColumns {
    Whole,
    One(ColumnId),
    Any,
}

/// The role of which a function asks.
struct Asked<'a> {
    context: &'a CatalogContext,
    state: &'a CatalogState,
    /// `None` for PUBLIC, and for a role that does not exist.
    role: Option<RoleId>,
    rights: Option<Rights<'a>>,
}

impl<'a> Asked<'a> {
    /// The role of an argument; without an argument, the current role. An unknown name is an error.
    /// An unknown oid is no error: as in PostgreSQL, this role has the privileges of PUBLIC.
    fn of(
        context: &'a CatalogContext,
        state: &'a CatalogState,
        role: Option<ObjectArgument<'_>>,
        object: Object,
    ) -> Result<Self, Error> {
        let access = state.access();
        let now_ns = context.clock.now_ns();
        let identity = context.identity();
        let role = match role {
            None => {
                let rights = access.rights(&identity, now_ns).ok();
                return Ok(Self { context, state, role: Some(identity.current()), rights });
            }
            Some(ObjectArgument::Number(number)) => {
                let role = u32::try_from(number).ok().and_then(|id| access.role(RoleId(id)));
                role.map(|role| role.id)
            }
            Some(ObjectArgument::Text("public")) if object != Object::Role => None,
            Some(ObjectArgument::Text(name)) => match access.role_named(name) {
                Some(role) => Some(role.id),
                None => return Err(missing(RegistryKind::Role, name)),
            },
        };
        let rights = role.and_then(|role| access.rights(&Identity::of_role(role), now_ns).ok());
        Ok(Self { context, state, role, rights })
    }

    fn is_superuser(&self) -> bool {
        self.rights.as_ref().is_some_and(Rights::is_superuser)
    }

    fn has(&mut self, target: &Target, asked: &AskedWord) -> bool {
        let word = asked.word.as_str();
        match target {
            Target::Listed(object, columns) => self.has_listed(*object, *columns, asked),
            Target::Role(role) => self.has_role(*role, asked),
            Target::Open => !asked.with_option || self.is_superuser(),
            Target::SystemTable if word == "SELECT" && !asked.with_option => true,
            Target::SystemSchema if word == "USAGE" && !asked.with_option => true,
            Target::SystemTable | Target::SystemSchema | Target::Closed => {
                self.is_superuser() && word != "RULE"
            }
        }
    }

    fn has_listed(&self, object: CatalogObject, columns: TargetColumns, asked: &AskedWord) -> bool {
        let privilege = match asked.word.as_str() {
            "TRUNCATE" => Some(Privilege::Trim),
            word => Privilege::ALL.iter().copied().find(|one| one.keyword() == word),
        };
        let owns = self.rights.as_ref().is_some_and(|rights| rights.owns(object));
        let Some(privilege) = privilege else {
            // The owner has PostgreSQL's other privileges, and nobody can grant them.
            return owns && asked.word != "RULE";
        };
        if owns {
            return true;
        }
        let includes = |grantee: Option<RoleId>| match (grantee, &self.rights) {
            (None, _) => !asked.with_option,
            (Some(grantee), Some(rights)) => rights.includes(grantee),
            (Some(_), None) => false,
        };
        let granted = self.state.access().grants(object).iter().any(|grant| {
            let of_column = match (columns, grant.column) {
                (_, None) | (TargetColumns::Any, _) => true,
                (TargetColumns::One(wanted), Some(column)) => wanted == column,
                (TargetColumns::Whole, Some(_)) => false,
            };
            of_column
                && grant.privilege == privilege
                && (grant.grantable || !asked.with_option)
                && includes(grant.grantee)
        });
        let by_role = !asked.with_option
            && self
                .rights
                .as_ref()
                .is_some_and(|rights| rights.has(privilege, object, Columns::All));
        granted || by_role
    }

    fn has_role(&self, wanted: Option<RoleId>, asked: &AskedWord) -> bool {
        // As in PostgreSQL, a superuser is a member of every role, even of a role that does not
        // exist.
        if self.is_superuser() {
            return true;
        }
        let (Some(role), Some(wanted)) = (self.role, wanted) else { return false };
        let access = self.state.access();
        if asked.with_option {
            let held = access.roles_of(role, false);
            let is_admin = access
                .memberships()
                .iter()
                .any(|one| one.role == wanted && one.admin && held.contains(&one.member));
            return match role == wanted {
                true => role == self.context.identity().session(),
                false => is_admin,
            };
        }
        access.roles_of(role, asked.word == "USAGE").contains(&wanted)
    }
}

/// The system tables that only superusers may read.
const SECRET_TABLES: [&str; 3] = ["pg_authid", "pg_shadow", "pg_user_mapping"];

/// The object of the arguments. An unknown oid gives `None`, and the SQL function then returns
/// NULL. An unknown name is an error.
fn target(
    context: &CatalogContext,
    object: Object,
    named: &[ObjectArgument<'_>],
) -> Result<Option<Target>, Error> {
    if !exists(context, object, named)? {
        return Ok(None);
    }
    let Some(first) = named.first().copied() else { return Ok(None) };
    let state = context.state();
    let database = state.database(&context.database).map(|found| found.oid);
    Ok(Some(match object {
        Object::Table | Object::AnyColumn | Object::Column => {
            match (relation(context, first)?, object) {
                (Some(Relation::Table(chronicle)), _) => {
                    let columns = match (object, named.get(1)) {
                        (Object::Column, Some(column)) => {
                            let Some(id) = column_id(&chronicle, *column) else { return Ok(None) };
                            TargetColumns::One(id)
                        }
                        (Object::AnyColumn, _) => TargetColumns::Any,
                        _ => TargetColumns::Whole,
                    };
                    Target::Listed(CatalogObject::Chronicle(chronicle.id), columns)
                }
                (Some(Relation::System(table)), _) => match SECRET_TABLES.contains(&table.name) {
                    true => Target::Closed,
                    false => Target::SystemTable,
                },
                (Some(Relation::Index(..)), _) => Target::Closed,
                (None, _) => return Ok(None),
            }
        }
        Object::Schema => {
            let found = state.schemas(&context.database).find(|schema| match first {
                ObjectArgument::Number(number) => i64::from(schema.oid) == number,
                ObjectArgument::Text(name) => schema.name == name,
            });
            match (found, database) {
                (Some(schema), Some(database)) => Target::Listed(
                    CatalogObject::Schema { database, schema: schema.oid },
                    TargetColumns::Whole,
                ),
                _ => Target::SystemSchema,
            }
        }
        Object::Database => {
            let oid = match first {
                ObjectArgument::Number(number) => u32::try_from(number).ok(),
                ObjectArgument::Text(name) => context.database_oid(name),
            };
            let Some(oid) = oid else { return Ok(None) };
            Target::Listed(CatalogObject::Database(oid), TargetColumns::Whole)
        }
        Object::Role => Target::Role(match first {
            ObjectArgument::Number(number) => {
                let role = u32::try_from(number).ok().map(RoleId);
                role.filter(|id| state.access().role(*id).is_some())
            }
            ObjectArgument::Text(name) => state.access().role_named(name).map(|role| role.id),
        }),
        Object::Function | Object::Language | Object::Type => Target::Open,
        Object::Tablespace | Object::Sequence | Object::Server | Object::DataWrapper => {
            Target::Closed
        }
    }))
}

fn column_id(chronicle: &ChronicleDefinition, column: ObjectArgument<'_>) -> Option<ColumnId> {
    match column {
        ObjectArgument::Text(name) => chronicle.column_named(name).map(|column| column.id),
        ObjectArgument::Number(number) => {
            let at = usize::try_from(number).ok()?.checked_sub(1)?;
            chronicle.columns.get(at).map(|column| column.id)
        }
    }
}

/// True if row policies apply to the current role in a table.
fn row_security_active(context: &CatalogContext, arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let tables = ArgumentValues::of(arguments, 0)?;
    let state = context.state();
    truths(arguments, |row| {
        let Some(table) = tables.at(row) else { return Ok(None) };
        let found = match relation(context, table).map_err(failed)? {
            Some(Relation::Table(chronicle)) => chronicle,
            Some(_) => return Ok(Some(false)),
            None => return Ok(None),
        };
        let rights = state.access().rights(&context.identity(), context.clock.now_ns());
        let rights = rights.map_err(failed)?;
        Ok(Some(rights.row_policies(found.id, PolicyCommand::Select).is_some()))
    })
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
        Object::Table | Object::AnyColumn => Ok(relation(context, first)?.is_some()),
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
            ObjectArgument::Number(_) => Ok(true),
            ObjectArgument::Text(name) if context.state().access().role_named(name).is_some() => {
                Ok(true)
            }
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
