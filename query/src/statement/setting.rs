//! Runs SET, SHOW, RESET and DISCARD, and the SQL statements about prepared statements: PREPARE,
//! EXECUTE, DEALLOCATE.

use std::sync::Arc;

use arrow::{
    array::{RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    ContextModifier, DiscardObject, Expr, Ident, Reset, ResetStatement, Set,
    SetSessionAuthorizationParamKind, Statement, UnaryOperator, Value,
};
use futures::{StreamExt, stream};
use stratalog_model::{ColumnType, Error, ErrorKind, Result};
use stratalog_postgres::{
    errors::from_arrow,
    names, parse,
    types::{column_type, parameter_type},
};
use stratalog_text::{
    IntervalStyle, TimeZone, parse::interval::parse_interval, write::interval::Interval,
};

use super::{
    access::identity,
    explain::{self, text_rows},
    transaction,
};
use crate::{
    Notice, Outcome, Parsed, Prepared, PreparedBy, Rows, RowsTag, Session, TransactionState,
    session::{text_schema, work::Work},
};

fn done_outcome(tag: &str) -> Outcome {
    Outcome::Done(tag.to_string())
}

/// Runs SET.
///
/// # Errors
/// See [`Variables::set`](crate::session::variables::Variables::set).
pub fn set(session: &Session, set: &Set) -> Result<Outcome> {
    match set {
        Set::SingleAssignment { scope, hivevar: false, variable, values } => {
            let name = names::parts(variable)?.join(".");
            let local = matches!(scope, Some(ContextModifier::Local));
            assign(session, &name, values, local)?;
        }
        Set::SetTimeZone { local, value } => {
            assign(session, "TimeZone", std::slice::from_ref(value), *local)?;
        }
        Set::SetNames { charset_name, .. } => {
            session.variables().set("client_encoding", &charset_name.value, false)?;
        }
        Set::SetTransaction { modes, snapshot, session: for_session } => {
            if snapshot.is_some() {
                return Err(Error::not_yet("SET TRANSACTION SNAPSHOT"));
            }
            let named = transaction::modes(modes)?;
            if *for_session {
                if let Some(read_only) = named.read_only {
                    let value = if read_only { "on" } else { "off" };
                    session.variables().set("default_transaction_read_only", value, false)?;
                }
                if let Some(isolation) = named.isolation {
                    let level = isolation.name();
                    session.variables().set("default_transaction_isolation", level, false)?;
                }
            } else if session.transaction() == TransactionState::Idle {
                session.say(Notice::warning(
                    "25P01",
                    "SET TRANSACTION can only be used in transaction blocks",
                ));
            } else {
                session.transaction.set_modes(named.over(session.transaction.modes()))?;
            }
        }
        Set::SetSessionAuthorization(parameter) => {
            let name = match &parameter.kind {
                SetSessionAuthorizationParamKind::Default => None,
                SetSessionAuthorizationParamKind::User(user) => Some(names::fold(user)),
            };
            let local = matches!(parameter.scope, ContextModifier::Local);
            identity::set_session(session, name.as_deref(), local)?;
        }
        Set::SetRole { context_modifier, role_name } => {
            let name = role_name.as_ref().and_then(identity::name_of);
            let local = matches!(context_modifier, Some(ContextModifier::Local));
            identity::set_role(session, name.as_deref(), local)?;
        }
        other => {
            return Err(Error::new(
                ErrorKind::SyntaxError,
                format!("this form of SET is not supported: {other}"),
            ));
        }
    }
    Ok(done_outcome("SET"))
}

fn assign(session: &Session, name: &str, values: &[Expr], local: bool) -> Result<()> {
    let outside = local && session.transaction() == TransactionState::Idle;
    if outside {
        session.say(Notice::warning("25P01", "SET LOCAL can only be used in transaction blocks"));
    }
    let is_default = |expr: &Expr| {
        matches!(expr, Expr::Identifier(ident) if ident.quote_style.is_none()
            && (ident.value.eq_ignore_ascii_case("default")
                || name == "TimeZone" && ident.value.eq_ignore_ascii_case("local")))
    };
    if values.len() == 1 && values.iter().all(is_default) {
        if identity::assign(session, name, None, local)? {
            return Ok(());
        }
        match outside {
            true => session.variables().check(name, None)?,
            false => session.variables().reset(name, local)?,
        }
    } else {
        let value = value_text(name, values)?;
        if identity::assign(session, name, Some(&value), local)? {
            return Ok(());
        }
        match outside {
            true => session.variables().check(name, Some(&value))?,
            false => session.variables().set(name, &value, local)?,
        }
    }
    Ok(())
}

/// The value of a setting from a list of constants.
///
/// # Errors
/// `SyntaxError` for another expression; `InvalidParameterValue` for several values of a custom
/// setting.
pub(crate) fn value_text(name: &str, values: &[Expr]) -> Result<String> {
    if values.len() > 1 && name.contains('.') {
        return Err(Error::new(
            ErrorKind::InvalidParameterValue,
            format!("SET {name} takes only one argument"),
        ));
    }
    let list = name.eq_ignore_ascii_case("search_path");
    let texts: Vec<String> =
        values.iter().map(|value| text_of(value, list)).collect::<Result<_>>()?;
    Ok(texts.join(", "))
}

/// The name of a setting as the registry writes it; a custom setting's name is lower-case.
pub(crate) fn canonical_name(name: &str) -> String {
    let known = crate::session::variables::SETTINGS
        .iter()
        .find(|setting| setting.name.eq_ignore_ascii_case(name));
    known.map_or_else(|| name.to_ascii_lowercase(), |setting| setting.name.to_string())
}

/// Converts a value of SET to text. In a list of values, quotes preserve the case of a name.
fn text_of(value: &Expr, list: bool) -> Result<String> {
    let quote = |text: &str| {
        if list && (text != text.to_lowercase() || text.contains([',', '"', ' '])) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text.to_string()
        }
    };
    Ok(match value {
        Expr::Identifier(ident) => match ident.quote_style {
            Some(_) if ident.value == "$user" => "\"$user\"".to_string(),
            Some(_) => quote(&ident.value),
            None => ident.value.clone(),
        },
        Expr::CompoundIdentifier(parts) => {
            parts.iter().map(|part| part.value.as_str()).collect::<Vec<_>>().join(".")
        }
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.clone(),
            Value::Boolean(value) => value.to_string(),
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => {
                if list && !text.contains(',') { quote(text) } else { text.clone() }
            }
            Value::DoubleQuotedString(text) => quote(text),
            other => return Err(bad_value(&other.to_string())),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => format!("-{}", text_of(expr, list)?),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => text_of(expr, list)?,
        Expr::Interval(interval) => {
            let text = text_of(&interval.value, list)?;
            match &interval.leading_field {
                Some(unit) if text.parse::<f64>().is_ok() => zone_of(&format!("{text} {unit}"))?,
                _ => zone_of(&text)?,
            }
        }
        other => return Err(bad_value(&other.to_string())),
    })
}

/// Converts the interval of SET TIME ZONE to a time zone: an offset east of Greenwich.
fn zone_of(interval: &str) -> Result<String> {
    let Interval { months, days, nanos } = parse_interval(interval, IntervalStyle::Postgres)?;
    let zone = i32::try_from(nanos / 1_000_000_000).ok().and_then(TimeZone::fixed);
    match zone {
        Some(zone) if months == 0 && days == 0 => Ok(zone.to_string()),
        _ => Err(Error::new(
            ErrorKind::InvalidParameterValue,
            format!("invalid interval value for time zone: \"{interval}\""),
        )
        .with_hint("use hours and minutes, up to 15:59:59")),
    }
}

fn bad_value(value: &str) -> Error {
    Error::new(ErrorKind::SyntaxError, format!("SET needs a constant, not {value}"))
}

/// Runs RESET.
///
/// # Errors
/// `UndefinedObject`.
pub fn reset(session: &Session, reset: &ResetStatement) -> Result<Outcome> {
    match &reset.reset {
        Reset::ALL => session.variables().reset_all()?,
        Reset::ConfigurationParameter(name) => {
            let name = names::parts(name)?.join(".");
            if !identity::assign(session, &name, None, false)? {
                session.variables().reset(&name, false)?;
            }
        }
    }
    Ok(done_outcome("RESET"))
}

/// Runs DISCARD.
///
/// # Errors
/// `ActiveTransaction` for DISCARD ALL in a block.
pub fn discard(session: &Session, object: &DiscardObject) -> Result<Outcome> {
    Ok(match object {
        DiscardObject::ALL => {
            session.transaction.check_outside("DISCARD ALL")?;
            session.variables().reset_all()?;
            identity::set_session(session, None, false)?;
            session.forget_all();
            session.cursors().close_all();
            session.release_all();
            done_outcome("DISCARD ALL")
        }
        // Nothing to do: the session plans a cached statement again if the plan is stale.
        DiscardObject::PLANS => done_outcome("DISCARD PLANS"),
        // The database has no sequences, and no temporary tables.
        DiscardObject::SEQUENCES => done_outcome("DISCARD SEQUENCES"),
        DiscardObject::TEMP => done_outcome("DISCARD TEMP"),
    })
}

/// The name of the setting that SHOW requests; `None` for SHOW ALL.
fn shown_setting(session: &Session, variable: &[Ident]) -> Result<Option<String>> {
    let words: Vec<String> = variable.iter().map(names::fold).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let name = match words.as_slice() {
        ["all"] => return Ok(None),
        ["time", "zone"] => "TimeZone".to_string(),
        ["transaction", "isolation", "level"] => "transaction_isolation".to_string(),
        ["session", "authorization"] => "session_authorization".to_string(),
        parts => parts.join("."),
    };
    if session.setting(&name).is_none() {
        return Err(Error::new(
            ErrorKind::UndefinedObject,
            format!("unrecognized configuration parameter \"{name}\""),
        )
        .with_hint("SHOW ALL lists the settings"));
    }
    let known = crate::session::variables::SETTINGS
        .iter()
        .find(|setting| setting.name.eq_ignore_ascii_case(&name))
        .map(|setting| setting.name.to_string());
    Ok(Some(known.unwrap_or(name)))
}

/// The schema of the result of SHOW.
///
/// # Errors
/// `UndefinedObject`.
pub fn show_schema(session: &Session, variable: &[Ident]) -> Result<SchemaRef> {
    Ok(match shown_setting(session, variable)? {
        Some(name) => text_schema(&name),
        None => all_schema(),
    })
}

fn all_schema() -> SchemaRef {
    let column = |name| Field::new(name, DataType::Utf8, true);
    Arc::new(Schema::new(vec![column("name"), column("setting"), column("description")]))
}

/// Runs SHOW.
///
/// # Errors
/// `UndefinedObject`.
pub fn show(session: &Session, variable: &[Ident]) -> Result<Outcome> {
    if let Some(name) = shown_setting(session, variable)? {
        let value = session.setting(&name).unwrap_or_default();
        return Ok(Outcome::Rows(text_rows(&name, vec![value], RowsTag::Word("SHOW"))?));
    }
    let all = session.variables().all();
    let schema = all_schema();
    let batch = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![
            Arc::new(StringArray::from_iter_values(all.iter().map(|setting| &setting.name))),
            Arc::new(StringArray::from_iter_values(all.iter().map(|setting| &setting.value))),
            Arc::new(StringArray::from_iter_values(
                all.iter().map(crate::session::variables::ListedSetting::does),
            )),
        ],
    )
    .map_err(from_arrow)?;
    Ok(Outcome::Rows(Rows::new(schema, stream::iter([Ok(batch)]).boxed(), RowsTag::Word("SHOW"))))
}

/// Runs PREPARE name (types) AS statement.
///
/// # Errors
/// `DuplicatePreparedStatement`, and an error of the preparation.
pub async fn prepare(session: &Session, parsed: &Parsed) -> Result<Outcome> {
    let Statement::Prepare { name, data_types, statement } = parsed.statement() else {
        return Err(Error::internal("not a PREPARE"));
    };
    let types: Vec<Option<ColumnType>> = data_types
        .iter()
        .map(|data_type| match parameter_type(data_type) {
            Some((found, _)) => Ok(Some(found)),
            None => column_type(data_type).map(Some),
        })
        .collect::<Result<_>>()?;
    let bytes_max = session.settings().statement_bytes_max;
    let Some(tree) = parse::position::parsed_again(statement, bytes_max)? else {
        return Err(Error::new(ErrorKind::SyntaxError, "PREPARE needs a statement"));
    };
    let inner = Arc::new(Parsed::new(tree));
    let prepared = Box::pin(session.prepare(&inner, &types)).await?;
    if matches!(prepared.plan, crate::statement::Plan::Tree | crate::statement::Plan::Call(_)) {
        return Err(Error::new(
            ErrorKind::SyntaxError,
            "PREPARE takes SELECT, INSERT, VALUES and EXPLAIN",
        ));
    }
    let by = PreparedBy::Sql(parsed.text().to_string());
    session.keep(&names::fold(name), prepared, by)?;
    Ok(done_outcome("PREPARE"))
}

/// Runs DEALLOCATE name, or DEALLOCATE ALL.
///
/// # Errors
/// `UndefinedPreparedStatement`.
pub fn deallocate(session: &Session, name: &Ident) -> Result<Outcome> {
    if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all") {
        session.forget_all();
        return Ok(done_outcome("DEALLOCATE ALL"));
    }
    let name = names::fold(name);
    if session.forget(&name) {
        Ok(done_outcome("DEALLOCATE"))
    } else {
        Err(unknown_statement(&name))
    }
}

/// The error for a prepared statement that does not exist.
pub fn unknown_statement(name: &str) -> Error {
    Error::new(
        ErrorKind::UndefinedPreparedStatement,
        format!("prepared statement \"{name}\" does not exist"),
    )
}

/// Runs EXECUTE name (values).
///
/// # Errors
/// `UndefinedPreparedStatement`, and an error of the execution.
pub async fn execute(
    session: &Session,
    statement: &Statement,
    work: &Arc<Work>,
) -> Result<Outcome> {
    let (kept, values) = executed(session, statement, work).await?;
    session.execute(&kept, values).await
}

/// Runs EXPLAIN EXECUTE name (values).
///
/// # Errors
/// `UndefinedPreparedStatement`, and the errors of the query.
pub async fn explain_execute(
    session: &Session,
    statement: &Statement,
    work: &Arc<Work>,
) -> Result<Outcome> {
    let (execute, ..) = explain::explained(statement)?;
    let prepared = executed(session, execute, work).await?;
    explain::run_prepared(session, statement, prepared, work).await
}

/// The prepared statement that an EXECUTE names, and the values of its parameters.
///
/// # Errors
/// `UndefinedPreparedStatement`, and an error in a value.
async fn executed(
    session: &Session,
    statement: &Statement,
    work: &Arc<Work>,
) -> Result<(Arc<Prepared>, Vec<ScalarValue>)> {
    let Statement::Execute { name: Some(name), parameters, .. } = statement else {
        return Err(Error::new(ErrorKind::SyntaxError, "EXECUTE needs a name"));
    };
    let name = names::single(name)?;
    let kept = session.prepared_statement(&name).ok_or_else(|| unknown_statement(&name))?;
    let wanted = kept.parameter_types().len();
    if wanted != parameters.len() {
        return Err(Error::new(
            ErrorKind::SyntaxError,
            format!("wrong number of parameters for prepared statement \"{name}\""),
        )
        .with_detail(format!("Expected {wanted} parameters but got {}.", parameters.len())));
    }
    let values =
        work.guard(super::insert::constants(session, parameters, kept.parameter_types())).await?;
    Ok((kept, values))
}
