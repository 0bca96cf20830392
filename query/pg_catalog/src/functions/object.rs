//! Functions that return facts about the object with an oid: names, definitions, comments,
//! visibility.

use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::common::Result;
use stratalog_functions::function::{Arguments, Function, Parameter, text_at, text_rows};
use stratalog_model::ColumnType;
use stratalog_visor_core::access::RoleId;

use super::{Declare, no_text, oid_at, same_boolean, test_of_oid, text_of_oid};
use crate::{
    CatalogContext,
    column_type::{base_type, element_of_array, type_name},
    oid,
    procedure::{Procedure, procedure},
    relation::{Relation, key_list},
};

use Parameter::{Any, Boolean, Integer, Text};

pub(super) fn functions(context: &Arc<CatalogContext>) -> Vec<Function> {
    let declare = Declare { context };
    let mut functions = vec![
        declare.stable(
            "format_type",
            &[&[Integer, Integer]],
            ColumnType::Text,
            "Name of a type with its modifier.",
            |_, arguments| {
                text_rows(arguments.rows, |row| {
                    let Some(number) = oid_at(arguments, 0, row)? else { return Ok(None) };
                    Ok(Some(type_name(number, oid_at(arguments, 1, row)?)))
                })
            },
        ),
        declare.stable(
            "pg_get_userbyid",
            &[&[Integer]],
            ColumnType::Text,
            "Name of a role.",
            |context, arguments| {
                let state = context.state();
                text_of_oid(arguments, |number| {
                    let role = u32::try_from(number).ok().map(RoleId);
                    let role = role.and_then(|id| state.access().role(id));
                    let unknown = || format!("unknown (OID={number})");
                    Some(role.map_or_else(unknown, |role| role.name.clone()))
                })
            },
        ),
        declare.stable(
            "pg_table_is_visible",
            &[&[Integer]],
            ColumnType::Boolean,
            "Whether a table is visible under its unqualified name.",
            is_visible,
        ),
        declare.stable(
            "pg_get_expr",
            &[&[Text, Integer], &[Text, Integer, Boolean]],
            ColumnType::Text,
            "An expression of the catalog, as SQL.",
            |_, arguments| {
                let text = arguments.text(0)?;
                text_rows(arguments.rows, |row| Ok(text_at(text, row).map(str::to_string)))
            },
        ),
        declare.stable(
            "pg_get_constraintdef",
            &[&[Integer], &[Integer, Boolean]],
            ColumnType::Text,
            "A constraint, as SQL.",
            |context, arguments| {
                let state = context.state();
                text_of_oid(arguments, |number| {
                    state
                        .chronicles(&context.database)
                        .find(|chronicle| {
                            chronicle.primary_key && oid::constraint(chronicle.id) == number
                        })
                        .map(|chronicle| format!("PRIMARY KEY ({})", key_list(chronicle)))
                })
            },
        ),
        declare.stable(
            "pg_get_indexdef",
            &[&[Integer], &[Integer, Integer, Boolean]],
            ColumnType::Text,
            "An index, as SQL; or a column of the index.",
            index_definitions,
        ),
        declare.stable(
            "obj_description",
            &[&[Integer], &[Integer, Text]],
            ColumnType::Text,
            "Comment on an object.",
            |context, arguments| {
                let state = context.state();
                text_of_oid(arguments, |number| {
                    match Relation::of_oid(&state, &context.database, number) {
                        Some(Relation::Table(chronicle)) => chronicle.comment.clone(),
                        _ if number == oid::PUBLIC => Some("standard public schema".to_string()),
                        _ if number == oid::SYSTEM_CATALOG => {
                            Some("system catalog schema".to_string())
                        }
                        _ => None,
                    }
                })
            },
        ),
        declare.stable(
            "col_description",
            &[&[Integer, Integer]],
            ColumnType::Text,
            "Comment on a column.",
            column_comments,
        ),
        declare.stable(
            "shobj_description",
            &[&[Integer, Text]],
            ColumnType::Text,
            "Comment on a role; NULL for databases, which have no comments.",
            role_comments,
        ),
        declare.stable(
            "pg_relation_is_publishable",
            &[&[Any]],
            ColumnType::Boolean,
            "False: publications do not exist.",
            |_, arguments| same_boolean(arguments, false),
        ),
        declare.stable(
            "pg_get_function_result",
            &[&[Integer]],
            ColumnType::Text,
            "Result type of a function.",
            |_, arguments| {
                text_of_oid(arguments, |number| procedure(number).map(Procedure::result))
            },
        ),
        declare.stable(
            "pg_get_function_sqlbody",
            &[&[Integer]],
            ColumnType::Text,
            "NULL: no function is written in SQL.",
            |_, arguments| no_text(arguments),
        ),
        declare.stable(
            "pg_get_function_arguments",
            &[&[Integer]],
            ColumnType::Text,
            "Parameters of a function.",
            |_, arguments| {
                text_of_oid(arguments, |number| procedure(number).map(Procedure::arguments))
            },
        ),
        declare.stable(
            "pg_get_function_identity_arguments",
            &[&[Integer]],
            ColumnType::Text,
            "Parameters of a function, without defaults.",
            |_, arguments| {
                text_of_oid(arguments, |number| {
                    procedure(number).map(Procedure::identity_arguments)
                })
            },
        ),
    ];
    for (name, description) in [
        ("pg_type_is_visible", "Whether a type is visible under its unqualified name."),
        ("pg_function_is_visible", "Whether a function is visible under its unqualified name."),
        ("pg_operator_is_visible", "Whether an operator is visible under its unqualified name."),
        ("pg_collation_is_visible", "Whether a collation is visible under its unqualified name."),
        (
            "pg_opclass_is_visible",
            "Whether an operator class is visible under its unqualified name.",
        ),
        (
            "pg_opfamily_is_visible",
            "Whether an operator family is visible under its unqualified name.",
        ),
        ("pg_conversion_is_visible", "Whether a conversion is visible under its unqualified name."),
        (
            "pg_statistics_obj_is_visible",
            "Whether statistics are visible under their unqualified name.",
        ),
        (
            "pg_ts_config_is_visible",
            "Whether a search configuration is visible under its unqualified name.",
        ),
        (
            "pg_ts_dict_is_visible",
            "Whether a search dictionary is visible under its unqualified name.",
        ),
        (
            "pg_ts_parser_is_visible",
            "Whether a search parser is visible under its unqualified name.",
        ),
        (
            "pg_ts_template_is_visible",
            "Whether a search template is visible under its unqualified name.",
        ),
    ] {
        functions.push(declare.stable(
            name,
            &[&[Integer]],
            ColumnType::Boolean,
            description,
            |_, arguments| test_of_oid(arguments, |_| Some(true)),
        ));
    }
    const DEFINITION: &[&[Parameter]] = &[&[Integer], &[Integer, Boolean]];
    for (name, description) in [
        ("pg_get_viewdef", "NULL: user-defined views do not exist."),
        ("pg_get_ruledef", "NULL: rules do not exist."),
        ("pg_get_triggerdef", "NULL: triggers do not exist."),
        ("pg_get_functiondef", "NULL: functions are built in."),
        ("pg_get_partkeydef", "NULL: declared partitions do not exist."),
        ("pg_get_statisticsobjdef", "NULL: extended statistics do not exist."),
        ("pg_get_statisticsobjdef_columns", "NULL: extended statistics do not exist."),
    ] {
        functions.push(declare.stable(
            name,
            DEFINITION,
            ColumnType::Text,
            description,
            |_, arguments| no_text(arguments),
        ));
    }
    functions
}

fn is_visible(context: &CatalogContext, arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let state = context.state();
    let path = context.search_path(&state);
    test_of_oid(arguments, |number| {
        Relation::of_oid(&state, &context.database, number)
            .map(|relation| relation.is_visible(&state, &context.database, &path))
    })
}

fn role_comments(context: &CatalogContext, arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let (state, catalogs) = (context.state(), arguments.text(1)?);
    text_rows(arguments.rows, |row| {
        let Some(number) = oid_at(arguments, 0, row)? else { return Ok(None) };
        let of_roles = text_at(catalogs, row) == Some("pg_authid");
        let role = u32::try_from(number).ok().filter(|_| of_roles).map(RoleId);
        Ok(role.and_then(|id| state.access().role(id)?.comment.clone()))
    })
}

fn index_definitions(context: &CatalogContext, arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let state = context.state();
    text_rows(arguments.rows, |row| {
        let Some(number) = oid_at(arguments, 0, row)? else { return Ok(None) };
        let column = if arguments.has(1) { oid_at(arguments, 1, row)?.unwrap_or(0) } else { 0 };
        let relation = Relation::of_oid(&state, &context.database, number);
        let Some(index) = relation.as_ref().and_then(Relation::index) else { return Ok(None) };
        if column == 0 {
            return Ok(Some(index.definition()));
        }
        let at = usize::try_from(column - 1).unwrap_or(usize::MAX);
        let name = index.columns.get(at).map(|column| column.name.clone());
        Ok(name.map(|name| stratalog_functions::quote_ident(&name)))
    })
}

fn column_comments(context: &CatalogContext, arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let state = context.state();
    text_rows(arguments.rows, |row| {
        let (Some(number), Some(column)) = (oid_at(arguments, 0, row)?, oid_at(arguments, 1, row)?)
        else {
            return Ok(None);
        };
        let Some(Relation::Table(chronicle)) = Relation::of_oid(&state, &context.database, number)
        else {
            return Ok(None);
        };
        let at = usize::try_from(column - 1).unwrap_or(usize::MAX);
        Ok(chronicle.columns.get(at).and_then(|column| column.comment.clone()))
    })
}

/// The name of the type with this oid; `None` for an unknown oid.
pub(super) fn known_type_name(number: i64) -> Option<String> {
    (base_type(number).is_some() || element_of_array(number).is_some())
        .then(|| type_name(number, None))
}
