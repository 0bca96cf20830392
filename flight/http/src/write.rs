//! The write routes of InfluxDB versions 1, 2 and 3.

use std::{collections::HashMap, sync::Arc};

use axum::{
    Extension,
    body::Body,
    extract::{Query, State as Extracted},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use stratalog_line::{LineError, Precision};
use stratalog_model::{Durability, Error, Result};

use crate::{
    json::Json,
    lines::{self, LineOptions, WriteOutcome},
    login::Login,
    problem::{answer, in_one_line, status},
    state::State,
};

/// The schema for requests that name no database or the default database.
pub(crate) const PUBLIC: &str = "public";

/// The default retention policy of InfluxDB 1, which every database has.
const AUTOGEN: &str = "autogen";

type WriteQuery = Query<HashMap<String, String>>;

/// The version of InfluxDB whose format an answer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
    Three,
}

/// `POST /write` of InfluxDB 1: stores lines.
pub(crate) async fn one(
    Extracted(state): Extracted<Arc<State>>,
    Extension(login): Extension<Login>,
    Query(parameters): WriteQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    write((&state, &login), Version::One, &parameters, &headers, body).await
}

/// `POST /api/v2/write` of InfluxDB 2: stores lines.
pub(crate) async fn two(
    Extracted(state): Extracted<Arc<State>>,
    Extension(login): Extension<Login>,
    Query(parameters): WriteQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    write((&state, &login), Version::Two, &parameters, &headers, body).await
}

/// `POST /api/v3/write_lp` of InfluxDB 3: stores lines.
pub(crate) async fn three(
    Extracted(state): Extracted<Arc<State>>,
    Extension(login): Extension<Login>,
    Query(parameters): WriteQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    write((&state, &login), Version::Three, &parameters, &headers, body).await
}

async fn write(
    (state, login): (&State, &Login),
    version: Version,
    parameters: &HashMap<String, String>,
    headers: &HeaderMap,
    body: Body,
) -> Response {
    let written = match line_options(state, version, parameters) {
        Ok(line_options) => lines::write(state, login, headers, body, &line_options)
            .await
            .map(|w| (w, line_options)),
        Err(error) => Err(error),
    };
    match written {
        Ok((written, _)) if written.failed == 0 => StatusCode::NO_CONTENT.into_response(),
        Ok((written, line_options)) => partial(version, &written, line_options.accepts_partial),
        Err(error) => {
            state.counts.refused();
            let message = in_one_line(&error);
            let body = match version {
                Version::One | Version::Three => json!({ "error": message }),
                Version::Two => json!({ "code": code(&error), "message": message }),
            };
            answer(&error, body)
        }
    }
}

/// Reads the options of a write request from its URL and headers.
fn line_options(
    state: &State,
    version: Version,
    parameters: &HashMap<String, String>,
) -> Result<LineOptions> {
    let parameter =
        |name: &str| parameters.get(name).map(String::as_str).filter(|text| !text.is_empty());
    let database = match version {
        Version::One | Version::Three => parameter("db").or_else(|| parameter("bucket")),
        Version::Two => parameter("bucket").or_else(|| parameter("db")),
    };
    let schema = schema(state, database, parameter("rp"));
    let precision = match parameter("precision") {
        None if version == Version::Three => Precision::Auto,
        None => Precision::Nanosecond,
        Some(text) => text.parse()?,
    };
    let durability = match (parameter("durability"), parameter("no_sync")) {
        (Some(text), _) => Some(text.parse::<Durability>()?),
        (None, Some("true")) => Some(Durability::Relaxed),
        _ => None,
    };
    let accepts_partial = parameter("accept_partial") != Some("false");
    Ok(LineOptions { schema, precision, durability, accepts_partial })
}

/// The name of the schema for an InfluxDB database and retention policy.
pub(crate) fn schema(state: &State, database: Option<&str>, policy: Option<&str>) -> String {
    let database = database.unwrap_or(PUBLIC);
    let database = database.strip_suffix("/autogen").unwrap_or(database);
    let database = if database == state.settings.default_database { PUBLIC } else { database };
    match policy {
        None | Some(AUTOGEN) => database.to_string(),
        Some(policy) => format!("{database}/{policy}"),
    }
}

/// The answer to a request in which some or all lines are invalid.
fn partial(version: Version, written: &WriteOutcome, accepts_partial: bool) -> Response {
    let (failed, stored) = (written.failed, written.stored);
    let first = written.errors.first().map(ToString::to_string).unwrap_or_default();
    let summary = match (stored, accepts_partial) {
        (_, false) => {
            format!("{failed} of the lines cannot be read, and nothing was stored: {first}")
        }
        (0, true) => format!("unable to parse: {first}; dropped={failed}"),
        (_, true) => format!("partial write: {first}; stored={stored} dropped={failed}"),
    };
    let body = match version {
        Version::One => json!({ "error": summary }),
        Version::Two => json!({ "code": "invalid", "message": summary }),
        Version::Three if accepts_partial => json!({
            "error": "partial write of line protocol occurred",
            "data": written.errors.iter().map(line).collect::<Vec<Value>>(),
        }),
        Version::Three => json!({
            "error": "parsing failed for write_lp endpoint",
            "data": written.errors.first().map(line),
        }),
    };
    (StatusCode::BAD_REQUEST, Json(body)).into_response()
}

fn line(error: &LineError) -> Value {
    json!({
        "error_message": error.message,
        "line_number": error.line,
        "original_line": error.original,
    })
}

/// The error code of InfluxDB 2 for an error.
fn code(error: &Error) -> &'static str {
    match status(error).as_u16() {
        401 => "unauthorized",
        403 => "forbidden",
        404 => "not found",
        409 => "conflict",
        413 => "request too large",
        429 => "too many requests",
        501 => "method not allowed",
        503 => "unavailable",
        500 => "internal error",
        _ => "invalid",
    }
}
