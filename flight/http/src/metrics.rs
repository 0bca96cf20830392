//! `GET /metrics`, for Prometheus. The crate `stratalog-metrics` formats the page.

use std::sync::Arc;

use axum::{
    Extension,
    extract::State as Extracted,
    http::{HeaderValue, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use stratalog_metrics::RequestClass;
use stratalog_model::Result;
use stratalog_query::{Columns, Object, Privilege};

use crate::{login::Login, problem::Problem, state::State};

/// The metrics of the server in Prometheus' text format, for members of `pg_monitor`.
pub(crate) async fn metrics(
    Extracted(state): Extracted<Arc<State>>,
    Extension(login): Extension<Login>,
) -> Result<Response, Problem> {
    let catalog = &state.service.parts().catalog;
    let (identity, now_ns) = (&login.identity, catalog.now_ns());
    let (monitor, server) = (Privilege::Monitor, Object::Server);
    catalog.state().authorize(identity, monitor, server, Columns::All, now_ns)?;
    let mut response = state.service.metrics_page().into_response();
    let kind = HeaderValue::from_static(stratalog_metrics::CONTENT_TYPE);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}

/// The request class in the metrics of request durations. `None` for unknown paths, and for
/// subscriptions, because the client decides how long a subscription lasts.
pub(crate) fn class_of(path: &str) -> Option<RequestClass> {
    Some(match path {
        "/api/v3/query_sql" | "/api/sql" | "/query" | "/exec" => RequestClass::HttpQuery,
        "/write" | "/api/v2/write" | "/api/v3/write_lp" => RequestClass::HttpWrite,
        "/api/v1/write" | "/v1/metrics" | "/v1/logs" => RequestClass::HttpTelemetry,
        "/ping" | "/health" | "/ready" | "/version" | "/metrics" => RequestClass::HttpStatus,
        _ => return None,
    })
}
