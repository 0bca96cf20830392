//! Routes for the queries of other products' clients before a write: database commands of InfluxDB
//! 1, and SQL of QuestDB.

use std::{collections::HashMap, sync::Arc};

use axum::{
    Extension,
    body::Body,
    extract::{Query, State as Extracted},
    http::{HeaderMap, Method},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_query::{Command, StatementKind};

use crate::{
    body::DecodedBody,
    json::Json,
    login::Login,
    problem::{answer, in_one_line},
    sql::{Access, table_of},
    state::State,
    write::schema,
};

/// `GET` and `POST /query` of InfluxDB 1: SHOW, CREATE and DROP DATABASE. A GET request is
/// read-only.
pub(crate) async fn query(
    Extracted(state): Extracted<Arc<State>>,
    Extension(login): Extension<Login>,
    Query(parameters): Query<HashMap<String, String>>,
    method: Method,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let answered = match statement(&state, &parameters, &headers, body).await {
        Ok(text) => influx(&state, &login, &text, Access::of(&method)).await,
        Err(error) => Err(error),
    };
    match answered {
        Ok(result) => Json(json!({ "results": [result] })).into_response(),
        Err(error) => answer(&error, json!({ "error": in_one_line(&error) })),
    }
}

/// Reads the statement of a request: the parameter of the URL, or the field of the posted form.
async fn statement(
    state: &State,
    parameters: &HashMap<String, String>,
    headers: &HeaderMap,
    body: Body,
) -> Result<String> {
    let (body, _room) = DecodedBody::new(state, headers, body)?.all().await?;
    let form = form_field(&String::from_utf8_lossy(&body), "q");
    Ok(parameters.get("q").cloned().or(form).unwrap_or_default())
}

async fn influx(state: &State, login: &Login, text: &str, access: Access) -> Result<Value> {
    let words: Vec<&str> = text.trim().trim_end_matches(';').split_whitespace().collect();
    let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
    let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
    let session = state.writing(login)?;
    let database = session.login().database.clone();
    match (lower.as_slice(), words.get(2)) {
        (["show", "databases"], _) => {
            let names = session.schemas().into_iter().map(|name| json!([name]));
            let names: Vec<Value> = names.collect();
            Ok(json!({ "statement_id": 0, "series": [
                { "name": "databases", "columns": ["name"], "values": names }
            ] }))
        }
        (["create", "database", _, ..], Some(name)) => {
            access.check(StatementKind::Definition)?;
            let name = schema(state, Some(unquoted(name)), None);
            let create = Command::CreateSchema { database, name, if_not_exists: true, owner: None };
            session.define("CREATE DATABASE", vec![create]).await?;
            Ok(json!({ "statement_id": 0 }))
        }
        (["drop", "database", _], Some(name)) => {
            access.check(StatementKind::Definition)?;
            let name = schema(state, Some(unquoted(name)), None);
            if name == crate::write::PUBLIC {
                return Err(Error::new(
                    ErrorKind::DependentObjects,
                    "the schema public cannot be dropped: tables without a schema name belong to the schema public",
                )
                .with_hint("DROP TABLE in SQL"));
            }
            let drop = Command::DropSchema { database, name, if_exists: true, cascade: true };
            session.define("DROP DATABASE", vec![drop]).await?;
            Ok(json!({ "statement_id": 0 }))
        }
        _ => Err(Error::new(
            ErrorKind::FeatureNotSupported,
            "InfluxQL is not offered beyond SHOW DATABASES, CREATE DATABASE and DROP DATABASE",
        )
        .with_hint("ask in SQL: POST /api/sql, the Postgres protocol or Flight SQL")),
    }
}

fn unquoted(name: &str) -> &str {
    name.trim_matches(['"', '\''])
}

/// The decoded value of a field of a posted form; `None` without the field.
fn form_field(body: &str, name: &str) -> Option<String> {
    let mut fields = body.split('&').filter_map(|pair| pair.split_once('='));
    let (_, text) = fields.rfind(|(field, _)| *field == name)?;
    Some(decoded(text))
}

/// Decodes the value of a form field: `+` is a space, `%41` is a byte.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                let digits = String::from_utf8(digits).unwrap_or_default();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap_or(b'?'));
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `GET` and `POST /exec` of QuestDB: runs a statement and returns the rows as JSON lists. A GET
/// request is read-only.
pub(crate) async fn exec(
    Extracted(state): Extracted<Arc<State>>,
    Extension(login): Extension<Login>,
    Query(parameters): Query<HashMap<String, String>>,
    method: Method,
) -> Response {
    let text = parameters.get("query").cloned().unwrap_or_default();
    let query = match text.trim().trim_end_matches(';').to_ascii_lowercase().as_str() {
        "show tables" => {
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1".to_string()
        }
        _ => text.clone(),
    };
    match table_of(&state, &login, &query, Access::of(&method)).await {
        Ok((columns, rows)) => {
            let columns: Vec<Value> = columns
                .into_iter()
                .map(|(name, kind)| json!({ "name": name, "type": kind }))
                .collect();
            let count = rows.len();
            Json(json!({ "query": text, "columns": columns, "dataset": rows, "count": count }))
                .into_response()
        }
        Err(error) => {
            let position = error.position().unwrap_or(0);
            let body = json!({ "query": text, "error": in_one_line(&error), "position": position });
            answer(&error, body)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{decoded, form_field};

    #[test]
    fn forms_are_read() {
        assert_eq!(decoded("CREATE+DATABASE+%22a%22"), "CREATE DATABASE \"a\"");
        assert_eq!(form_field("db=x&q=SHOW+DATABASES", "q").unwrap(), "SHOW DATABASES");
        assert_eq!(form_field("", "q"), None);
    }
}
