//! The login of each request, before its route.
//!
//! ```text
//!   Authorization: Basic | Bearer | Token ─┐
//!   ?u=…&p=… of InfluxDB 1 ────────────────┼─► Authenticator ─► Authenticated ─► route
//!   client certificate ────────────────────┘        │ refused: 401
//! ```
//! The routes in [`OPEN`] need no login. Every other route acts on behalf of the login.

use std::{collections::HashMap, sync::Arc};

use axum::{
    extract::{Query, Request, State as Extracted},
    http::{
        HeaderMap, HeaderValue, StatusCode, Uri,
        header::{AUTHORIZATION, ORIGIN, WWW_AUTHENTICATE},
    },
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde_json::json;
use stratalog_access::{Authenticated, ClientOrigin};
use stratalog_model::{Error, ErrorKind, Result};

use crate::{json::Json, problem, state::State};

/// Routes for health checks, which need no login.
const OPEN: [&str; 3] = ["/health", "/ready", "/ping"];

/// Routes of InfluxDB 1, whose clients may send user and password in the URL.
const WITH_PARAMETERS: [&str; 2] = ["/write", "/query"];

/// The ways to log in, in the answer to a request without a valid login.
const BASIC: &str = "Basic realm=\"stratalog\", charset=\"UTF-8\"";
const BEARER: &str = "Bearer realm=\"stratalog\"";

/// Where a client comes from, and the names in its certificate. Each request carries this value as
/// an extension.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) origin: ClientOrigin,
    pub(crate) certificate_names: Arc<[String]>,
}

/// The login of a request, as an extension of the request.
pub(crate) type Login = Arc<Authenticated>;

/// Logs the client in, and passes the login to the route.
pub(crate) async fn require(
    Extracted(state): Extracted<Arc<State>>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path().to_string();
    if OPEN.contains(&path.as_str()) {
        return next.run(request).await;
    }
    // The body of a request cannot be shared by threads, so the login gets the other parts.
    let (uri, headers) = (request.uri().clone(), request.headers().clone());
    let client = request.extensions().get::<Client>().cloned();
    let response = match log_in(&state, &uri, &headers, client).await {
        Ok(login) => {
            request.extensions_mut().insert::<Login>(Arc::new(login));
            next.run(request).await
        }
        Err(error) => {
            state.counts.refused();
            refusal(&path, &error)
        }
    };
    with_challenge(response, headers.contains_key(ORIGIN))
}

async fn log_in(
    state: &State,
    uri: &Uri,
    headers: &HeaderMap,
    client: Option<Client>,
) -> Result<Authenticated> {
    let client = client.ok_or_else(|| Error::internal("a request has no client"))?;
    let (origin, authenticator) = (client.origin, &state.access.authenticator);
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, more) = (values.next(), values.next());
    if more.is_some() {
        return Err(malformed("the request has several Authorization headers"));
    }
    let value = value.map(HeaderValue::to_str).transpose();
    let value = value.map_err(|_| malformed("the header Authorization is not text"))?;
    if value.is_none() {
        if let Some((user, password)) = in_url(uri) {
            if !origin.encrypted && !origin.is_local() {
                return Err(Error::new(
                    ErrorKind::InvalidAuthorization,
                    "a password in the URL needs TLS",
                )
                .with_hint("use https://, and better the header Authorization"));
            }
            return authenticator.pair(&user, &password, origin).await;
        }
        let names = &client.certificate_names;
        if let Some(user) = authenticator.certificate_user(names)
            && let Some(login) = authenticator.certificate(names, user, origin).await?
        {
            return Ok(login);
        }
    }
    authenticator.header(value, &state.settings.default_user, origin).await
}

/// User and password in the URL of a request of InfluxDB 1.
fn in_url(uri: &Uri) -> Option<(String, String)> {
    if !WITH_PARAMETERS.contains(&uri.path()) {
        return None;
    }
    let Query(mut parameters) = Query::<HashMap<String, String>>::try_from_uri(uri).ok()?;
    let user = parameters.remove("u")?;
    Some((user, parameters.remove("p").unwrap_or_default()))
}

fn malformed(message: &str) -> Error {
    Error::new(ErrorKind::ProtocolViolation, message)
}

/// The answer to a request without a valid login, in the form of the route's protocol.
fn refusal(path: &str, error: &Error) -> Response {
    let status = match error.kind() {
        ErrorKind::ProtocolViolation => StatusCode::BAD_REQUEST,
        _ => problem::status(error),
    };
    let text = problem::in_one_line(error);
    match path {
        "/api/v2/write" => {
            let body = json!({ "code": "unauthorized", "message": text });
            problem::failed(error, (status, Json(body)))
        }
        "/api/v1/write" => problem::failed(error, (status, text)),
        _ => problem::failed(error, (status, Json(problem::body(error)))),
    }
}

/// Adds the ways to log in to a response with the status 401. A script of a web page gets no
/// challenge for a password: the browser's dialog does not name the page of the script.
fn with_challenge(response: Response, of_a_script: bool) -> Response {
    let mut response = response.into_response();
    if response.status() == StatusCode::UNAUTHORIZED {
        let headers = response.headers_mut();
        if !of_a_script {
            headers.append(WWW_AUTHENTICATE, HeaderValue::from_static(BASIC));
        }
        headers.append(WWW_AUTHENTICATE, HeaderValue::from_static(BEARER));
    }
    response
}
