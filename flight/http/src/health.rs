//! Health checks of the server.

use std::{collections::HashMap, sync::Arc};

use axum::{
    extract::{Query, State as Extracted},
    http::{HeaderMap, HeaderValue, StatusCode},
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::{json::Json, state::State};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// `GET /health`: succeeds if the server runs and its journal accepts writes.
pub(crate) async fn health(Extracted(state): Extracted<Arc<State>>) -> Response {
    let poisoned = state.service.parts().store.status().log.poisoned;
    // This route needs no login, so the answer of a server with users tells no details.
    let is_protected = state.access.authenticator.is_required();
    let (status, word, message) = match poisoned {
        _ if state.service.is_shut_down() => {
            (StatusCode::SERVICE_UNAVAILABLE, "fail", "the server is shutting down".to_string())
        }
        Some(_) if is_protected => (
            StatusCode::SERVICE_UNAVAILABLE,
            "fail",
            "the journal accepts no more writes until a restart".to_string(),
        ),
        Some(reason) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "fail",
            format!("the journal accepts no more writes until a restart: {reason}"),
        ),
        None => (StatusCode::OK, "pass", "ready for queries and writes".to_string()),
    };
    // A clock alarm appears in the answer, but does not make the server unhealthy.
    let mut alarms = state.service.parts().clock.status().alarms;
    if is_protected {
        alarms.clear();
    }
    let checks: Vec<_> = alarms
        .into_iter()
        .map(|alarm| json!({ "name": "clock", "status": "warn", "message": alarm }))
        .collect();
    let body = json!({
        "name": "stratalog", "status": word, "message": message, "version": VERSION,
        "checks": checks,
    });
    (status, Json(body)).into_response()
}

/// `GET /ready`: succeeds if the server accepts requests.
pub(crate) async fn ready(Extracted(state): Extracted<Arc<State>>) -> Response {
    if state.service.is_shut_down() {
        let body = json!({ "status": "stopping" });
        return (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response();
    }
    let up_ns = state.service.parts().clock.now_ns().saturating_sub(state.service.started_ns());
    let body = json!({ "status": "ready", "up_seconds": up_ns / 1_000_000_000 });
    Json(body).into_response()
}

/// `GET` and `HEAD /ping`: the version, as InfluxDB's clients expect.
pub(crate) async fn ping(Query(parameters): Query<HashMap<String, String>>) -> Response {
    let mut headers = HeaderMap::new();
    headers.insert("x-influxdb-version", HeaderValue::from_static(VERSION));
    headers.insert("x-influxdb-build", HeaderValue::from_static("Stratalog"));
    match parameters.get("verbose").map(String::as_str) {
        Some("true" | "1") => (headers, Json(json!({ "version": VERSION }))).into_response(),
        _ => (StatusCode::NO_CONTENT, headers).into_response(),
    }
}

/// `GET /version`: the version of the server.
pub(crate) async fn version() -> Response {
    Json(json!({ "name": "stratalog", "version": VERSION })).into_response()
}
