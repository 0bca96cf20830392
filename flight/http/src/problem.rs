//! Errors in HTTP responses.

use axum::{
    http::{HeaderValue, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use stratalog_model::{Error, ErrorKind, Status};

use crate::json::Json;

/// The value of the header Retry-After, in seconds.
const RETRY_SECONDS: u64 = 1;

/// An error that a handler of Stratalog's own routes returns as the response.
#[derive(Debug)]
pub(crate) struct Problem(pub(crate) Error);

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        answer(&self.0, body(&self.0))
    }
}

/// The HTTP status for an error.
pub(crate) fn status(error: &Error) -> StatusCode {
    StatusCode::from_u16(error.kind().status().http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// A response with the status of `error` and with `body`. If a retry may succeed, the response has
/// the header Retry-After.
pub(crate) fn answer(error: &Error, body: Value) -> Response {
    failed(error, (status(error), Json(body)))
}

/// A response with the status of `error` and the body of `response`.
pub(crate) fn failed(error: &Error, response: impl IntoResponse) -> Response {
    if error.kind() == ErrorKind::Internal {
        tracing::error!(%error, "a request failed because of a defect of the server");
    }
    let mut response = response.into_response();
    // The listener reads the kind of the error from here and counts it.
    response.extensions_mut().insert(error.kind());
    if matches!(error.kind().status(), Status::ResourceExhausted | Status::Unavailable) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY_SECONDS));
    }
    response
}

/// The JSON body for an error of one of Stratalog's own routes.
pub(crate) fn body(error: &Error) -> Value {
    let mut fields = json!({ "error": error.message(), "sqlstate": error.kind().sqlstate() });
    let notes = [("detail", error.detail()), ("hint", error.hint()), ("context", error.context())];
    if let Value::Object(fields) = &mut fields {
        for (name, text) in notes {
            if let Some(text) = text {
                fields.insert(name.to_string(), Value::from(text));
            }
        }
        if let Some(position) = error.position() {
            fields.insert("position".to_string(), Value::from(position));
        }
    }
    fields
}

/// The message, detail and hint of an error in a single line, for clients that show only one text.
pub(crate) fn in_one_line(error: &Error) -> String {
    let notes = [error.detail(), error.hint(), error.context()];
    let parts = [Some(error.message())].into_iter().chain(notes).flatten();
    parts.collect::<Vec<_>>().join("; ")
}
