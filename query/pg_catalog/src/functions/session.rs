//! Functions about the session and the server, for example names and settings.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray, BooleanArray};
use datafusion::{common::Result, logical_expr::Volatility};
use stratalog_functions::{
    failed,
    function::{Arguments, Function, Parameter, text_at, text_rows},
};
use stratalog_model::{ColumnType, Error, ErrorKind};
use stratalog_visor_core::access::RoleId;

use super::{
    Declare, identifiers::identifiers, no_text, same_boolean, same_integer, same_text, same_texts,
    same_time,
};
use crate::{CatalogContext, fill::address_and_port, oid::SYSTEM_SCHEMAS};

use Parameter::{Boolean, Integer, Text};

/// The version of PostgreSQL in `server_version` and `version()`. Some clients check this version.
const POSTGRES_VERSION: &str = "15.0";

fn time() -> ColumnType {
    ColumnType::TimestampTz { precision: 6 }
}

fn texts() -> ColumnType {
    ColumnType::Array(Box::new(ColumnType::Text))
}

/// Calls `act` for the session whose number is in argument 0, and returns its result: whether the
/// action succeeded.
fn each_session(
    arguments: &Arguments<'_>,
    act: impl Fn(i32) -> stratalog_model::Result<bool>,
) -> Result<ArrayRef> {
    let numbers = arguments.integers(0)?;
    let act_on = |row: usize| -> Result<Option<bool>> {
        if numbers.is_null(row) {
            return Ok(None);
        }
        let Ok(process_id) = i32::try_from(numbers.value(row)) else { return Ok(Some(false)) };
        act(process_id).map(Some).map_err(failed)
    };
    let done = (0..arguments.rows).map(act_on).collect::<Result<BooleanArray>>()?;
    Ok(Arc::new(done))
}

pub(super) fn functions(context: &Arc<CatalogContext>) -> Vec<Function> {
    let declare = Declare { context };
    let mut functions = vec![
        declare.stable("current_database", &[&[]], ColumnType::Text, "Name of the database.", |context, arguments| {
            same_text(arguments, &context.connected_to)
        }),
        declare.stable("current_schema", &[&[]], ColumnType::Text, "The schema for new tables of CREATE TABLE.", |context, arguments| {
            let path = context.search_path(&context.state());
            match path.first() {
                Some(first) => same_text(arguments, first),
                None => no_text(arguments),
            }
        }),
        declare.stable("current_schemas", &[&[Boolean]], texts(), "The schemas that are searched for unqualified names.", current_schemas),
        declare.stable("current_user", &[&[]], ColumnType::Text, "Name of the user.", |context, arguments| {
            same_text(arguments, &context.current_user())
        }),
        declare.stable("version", &[&[]], ColumnType::Text, "Name and version of the server.", |_, arguments| {
            same_text(arguments, &format!("PostgreSQL {POSTGRES_VERSION} (Stratalog {})", env!("CARGO_PKG_VERSION")))
        }),
        declare.stable("pg_backend_pid", &[&[]], ColumnType::Integer, "Number of the session, for cancel requests.", |context, arguments| {
            same_integer(arguments, context.process_id)
        }),
        declare.stable("pg_postmaster_start_time", &[&[]], time(), "When the server started.", |context, arguments| {
            same_time(arguments, context.server_started_us)
        }),
        declare.stable("pg_conf_load_time", &[&[]], time(), "When the configuration was read.", |context, arguments| {
            same_time(arguments, context.server_started_us)
        }),
        declare.stable("pg_is_in_recovery", &[&[]], ColumnType::Boolean, "False: a reachable server has finished its recovery.", |_, arguments| {
            same_boolean(arguments, false)
        }),
        declare.stable("pg_my_temp_schema", &[&[]], ColumnType::BigInt, "0: temporary tables do not exist.", |_, arguments| {
            super::same_bigint(arguments, 0)
        }),
        declare.stable("pg_is_other_temp_schema", &[&[Integer]], ColumnType::Boolean, "False: temporary tables do not exist.", |_, arguments| {
            same_boolean(arguments, false)
        }),
        declare.stable("pg_client_encoding", &[&[]], ColumnType::Text, "UTF8.", |_, arguments| same_text(arguments, "UTF8")),
        declare.stable("getdatabaseencoding", &[&[]], ColumnType::Text, "UTF8.", |_, arguments| same_text(arguments, "UTF8")),
        declare.stable("inet_server_addr", &[&[]], ColumnType::Text, "NULL: not told.", |_, arguments| no_text(arguments)),
        declare.stable("inet_client_addr", &[&[]], ColumnType::Text, "Address of the client.", |context, arguments| {
            let sessions = context.sessions.sessions();
            let own = sessions.into_iter().find(|session| session.process_id == context.process_id);
            match address_and_port(own.and_then(|session| session.client_address).as_deref()).0 {
                Some(address) => same_text(arguments, &address),
                None => no_text(arguments),
            }
        }),
        declare.stable("current_setting", &[&[Text], &[Text, Boolean]], ColumnType::Text, "Value of a setting; an unknown setting is an error, or NULL if the second argument is true.", current_setting),
        Function {
            volatility: Volatility::Volatile,
            ..declare.stable("set_config", &[&[Text, Text, Boolean]], ColumnType::Text, "Changes a setting, for the transaction only if the third argument is true.", set_config)
        },
        Function {
            volatility: Volatility::Volatile,
            ..declare.stable("pg_cancel_backend", &[&[Integer]], ColumnType::Boolean, "Cancels the running statement of another session.", |context, arguments| {
                each_session(arguments, |process| context.sessions.cancel(process))
            })
        },
        Function {
            volatility: Volatility::Volatile,
            ..declare.stable("pg_terminate_backend", &[&[Integer], &[Integer, Integer]], ColumnType::Boolean, "Ends another session, without waiting for its end.", |context, arguments| {
                each_session(arguments, |process| context.sessions.terminate(process))
            })
        },
        declare.stable("txid_current", &[&[]], ColumnType::BigInt, "A number that grows with each commit of events.", |context, arguments| {
            super::same_bigint(arguments, i64::try_from(context.store.snapshot().gsn().0).unwrap_or(i64::MAX).saturating_add(1))
        }),
        declare.stable("catalog_version", &[&[]], ColumnType::BigInt, "A number that changes with each change of the catalog; the value of `xmin` in the catalogs.", |context, arguments| {
            let version = context.state().version();
            // The version gets the form of a transaction id of PostgreSQL, which has 32 bits and is
            // at least 3.
            super::same_bigint(arguments, i64::try_from(version % 0xffff_fffc).unwrap_or(0) + 3)
        }),
        declare.stable("pg_advisory_unlock_all", &[&[]], ColumnType::Text, "Nothing: advisory locks do not exist.", |_, arguments| same_text(arguments, "")),
        declare.stable("acldefault", &[&[Text, Integer]], texts(), "The access list of a new object of a kind, by its owner.", default_lists),
        declare.stable("parse_ident", &[&[Text], &[Text, Boolean]], texts(), "The parts of a qualified name.", parse_ident),
        declare.stable("pg_char_to_encoding", &[&[Text]], ColumnType::Integer, "Number of an encoding; -1 for an unknown name.", |_, arguments| {
            let names = arguments.text(0)?;
            let numbers: arrow::array::Int32Array = (0..arguments.rows)
                .map(|row| {
                    text_at(names, row).map(encoding_number)
                })
                .collect();
            Ok(Arc::new(numbers))
        }),
        declare.stable("pg_encoding_to_char", &[&[Integer]], ColumnType::Text, "Name of an encoding.", |_, arguments| {
            super::text_of_oid(arguments, |number| Some(encoding(number).to_string()))
        }),
        declare.stable("pg_tablespace_location", &[&[Integer]], ColumnType::Text, "Empty: tablespaces are not supported.", |_, arguments| {
            same_text(arguments, "")
        }),
    ];
    for (name, description) in
        [("current_role", "Name of the current role."), ("user", "Name of the current role.")]
    {
        functions.push(declare.stable(
            name,
            &[&[]],
            ColumnType::Text,
            description,
            |context, arguments| same_text(arguments, &context.current_user()),
        ));
    }
    functions.push(declare.stable(
        "session_user",
        &[&[]],
        ColumnType::Text,
        "Name of the session's role, which SET ROLE does not change.",
        |context, arguments| same_text(arguments, &context.session_user()),
    ));
    functions.push(declare.stable(
        "current_catalog",
        &[&[]],
        ColumnType::Text,
        "Name of the database.",
        |context, arguments| same_text(arguments, &context.connected_to),
    ));
    functions.extend(super::privilege::functions(&declare));
    functions
}

/// The names of PostgreSQL's encodings. The index of a name is the number of the encoding.
const ENCODINGS: [&str; 42] = [
    "SQL_ASCII",
    "EUC_JP",
    "EUC_CN",
    "EUC_KR",
    "EUC_TW",
    "EUC_JIS_2004",
    "UTF8",
    "MULE_INTERNAL",
    "LATIN1",
    "LATIN2",
    "LATIN3",
    "LATIN4",
    "LATIN5",
    "LATIN6",
    "LATIN7",
    "LATIN8",
    "LATIN9",
    "LATIN10",
    "WIN1256",
    "WIN1258",
    "WIN866",
    "WIN874",
    "KOI8R",
    "WIN1251",
    "WIN1252",
    "ISO_8859_5",
    "ISO_8859_6",
    "ISO_8859_7",
    "ISO_8859_8",
    "WIN1250",
    "WIN1253",
    "WIN1254",
    "WIN1255",
    "WIN1257",
    "KOI8U",
    "SJIS",
    "BIG5",
    "GBK",
    "UHC",
    "GB18030",
    "JOHAB",
    "SHIFT_JIS_2004",
];

fn encoding(number: i64) -> &'static str {
    usize::try_from(number).ok().and_then(|at| ENCODINGS.get(at)).copied().unwrap_or_default()
}

/// The number of the encoding with this name; -1 for an unknown name. Only letters and digits of
/// the name are compared, in upper or lower case.
fn encoding_number(name: &str) -> i32 {
    let plain = |name: &str| -> String {
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
    };
    let wanted = plain(name);
    let found = ENCODINGS.iter().position(|known| plain(known) == wanted);
    found.and_then(|at| i32::try_from(at).ok()).unwrap_or(-1)
}

fn current_schemas(context: &CatalogContext, arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let implicit = arguments.array(0)?.as_boolean();
    let mut path = context.search_path(&context.state());
    let with_system = (0..implicit.len()).any(|row| !implicit.is_null(row) && implicit.value(row));
    if with_system && !path.iter().any(|schema| schema == "pg_catalog") {
        path.insert(0, SYSTEM_SCHEMAS.first().map_or("pg_catalog", |(name, _)| name).to_string());
    }
    same_texts(arguments, &path)
}

fn default_lists(context: &CatalogContext, arguments: &Arguments<'_>) -> Result<ArrayRef> {
    use arrow::array::{ListBuilder, StringViewBuilder};
    let (state, kinds) = (context.state(), arguments.text(0)?);
    let mut builder = ListBuilder::new(StringViewBuilder::new());
    for row in 0..arguments.rows {
        let owner = super::oid_at(arguments, 1, row)?.and_then(|oid| u32::try_from(oid).ok());
        let list = text_at(kinds, row).zip(owner).and_then(|(kind, owner)| {
            crate::acl::default_list(state.access(), kind, RoleId(owner))
        });
        for item in list.iter().flatten() {
            builder.values().append_value(item);
        }
        builder.append(list.is_some());
    }
    Ok(Arc::new(builder.finish()))
}

fn current_setting(context: &CatalogContext, arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let names = arguments.text(0)?;
    let missing = arguments.arrays.get(1).map(|array| array.as_boolean());
    text_rows(arguments.rows, |row| {
        let Some(name) = text_at(names, row) else { return Ok(None) };
        match context.settings.get(name) {
            Some(value) => Ok(Some(value)),
            None if missing.is_some_and(|missing| !missing.is_null(row) && missing.value(row)) => {
                Ok(None)
            }
            None => Err(failed(Error::new(
                ErrorKind::UndefinedObject,
                format!("unrecognized configuration parameter \"{name}\""),
            ))),
        }
    })
}

fn set_config(context: &CatalogContext, arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let (names, values) = (arguments.text(0)?, arguments.text(1)?);
    let local = arguments.array(2)?.as_boolean();
    text_rows(arguments.rows, |row| {
        let Some(name) = text_at(names, row) else { return Ok(None) };
        let value = text_at(values, row).unwrap_or("");
        let local = !local.is_null(row) && local.value(row);
        context.settings.set(name, value, local).map(Some).map_err(failed)
    })
}

fn parse_ident(_: &CatalogContext, arguments: &Arguments<'_>) -> Result<ArrayRef> {
    use arrow::array::{ListBuilder, StringViewBuilder};
    let names = arguments.text(0)?;
    let strict = match arguments.has(1) {
        true => Some(arguments.array(1)?.as_boolean()),
        false => None,
    };
    let mut builder = ListBuilder::new(StringViewBuilder::new());
    for row in 0..arguments.rows {
        let is_null = strict.is_some_and(|strict| strict.is_null(row));
        let Some(name) = text_at(names, row).filter(|_| !is_null) else {
            builder.append(false);
            continue;
        };
        let is_strict = strict.is_none_or(|strict| strict.value(row));
        for part in identifiers(name, is_strict).map_err(failed)? {
            builder.values().append_value(part);
        }
        builder.append(true);
    }
    Ok(Arc::new(builder.finish()))
}
