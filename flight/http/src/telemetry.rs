//! Routes of Prometheus remote write, and of OTLP for metrics and logs.

use std::{collections::HashMap, sync::Arc};

use axum::{
    Extension,
    body::Body,
    extract::{Query, State as Extracted},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use stratalog_access::Authenticated;
use stratalog_line::Tables;
use stratalog_model::{Durability, Error, ErrorKind, Result, store::AppendOptions};
use stratalog_telemetry::{Encoding, Layout, Outcome, TelemetryReader, content};
use tokio::task::block_in_place;

use crate::{
    body::DecodedBody,
    lines::producer,
    login::Login,
    problem::{failed, in_one_line, status},
    state::State,
    store::{self, SchemaTables, WriteProtocol},
    write::schema,
};

/// The table of log records for requests that name no table.
const LOGS: &str = "logs";

/// The conversion of a body of at least this many bytes runs with `block_in_place`, so that it does
/// not block other tasks of the thread.
const LONG_BYTES: usize = 4 << 10;

/// Maximum number of times that the server converts a body to rows. A conversion is repeated if
/// other requests changed the tables in the meantime.
const READS: usize = 3;

const REMOTE_WRITE: WriteProtocol =
    WriteProtocol { protocol: "remote write", collision: "last", merges: false };
const OTLP_METRICS: WriteProtocol =
    WriteProtocol { protocol: "OTLP metrics", collision: "last", merges: false };
/// Two log records of a service may have the same time, so the table keeps both.
const OTLP_LOGS: WriteProtocol =
    WriteProtocol { protocol: "OTLP logs", collision: "all", merges: false };

type TelemetryQuery = Query<HashMap<String, String>>;

/// `POST /api/v1/write`: stores the samples of Prometheus remote write.
pub(crate) async fn remote_write(
    Extracted(state): Extracted<Arc<State>>,
    Extension(login): Extension<Login>,
    Query(parameters): TelemetryQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let checked = content::check_remote_write(
        value("content-type"),
        value("content-encoding"),
        value("x-prometheus-remote-write-version"),
    );
    let respond = |status: StatusCode, error: &Error| {
        state.counts.refused();
        failed(error, (status, in_one_line(error)))
    };
    if let Err(error) = checked {
        return respond(StatusCode::UNSUPPORTED_MEDIA_TYPE, &error);
    }
    // The remote-write reader decompresses the body, so `DecodedBody` must not.
    let body = DecodedBody::undecoded(&state, body);
    let request = Request { login: &login, write_protocol: REMOTE_WRITE, parameters: &parameters };
    let layout = request.layout();
    let read = |reader: &mut TelemetryReader, body: &[u8], tables: &dyn Tables| {
        reader.remote_write(body, layout, tables)
    };
    match write(&state, &headers, body, request, read).await {
        // Prometheus drops the data after status 400, and logs the answer.
        Ok(outcome) if outcome.rejected > 0 => {
            (StatusCode::BAD_REQUEST, outcome.message()).into_response()
        }
        Ok(_) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => respond(status(&error), &error),
    }
}

/// `POST /v1/metrics`: stores metrics of OTLP.
pub(crate) async fn metrics(
    Extracted(state): Extracted<Arc<State>>,
    Extension(login): Extension<Login>,
    Query(parameters): TelemetryQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let now_ns = state.service.parts().clock.now_ns();
    let request = Request { login: &login, write_protocol: OTLP_METRICS, parameters: &parameters };
    let layout = request.layout();
    otlp(&state, &headers, body, request, |encoding| {
        move |reader: &mut TelemetryReader, body: &[u8], tables: &dyn Tables| {
            reader.metrics(body, encoding, layout, now_ns, tables)
        }
    })
    .await
}

/// `POST /v1/logs`: stores log records of OTLP.
pub(crate) async fn logs(
    Extracted(state): Extracted<Arc<State>>,
    Extension(login): Extension<Login>,
    Query(parameters): TelemetryQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let now_ns = state.service.parts().clock.now_ns();
    let request = Request { login: &login, write_protocol: OTLP_LOGS, parameters: &parameters };
    let table = request.parameter("table").unwrap_or(LOGS);
    otlp(&state, &headers, body, request, |encoding| {
        move |reader: &mut TelemetryReader, body: &[u8], tables: &dyn Tables| {
            reader.logs(body, encoding, table, now_ns, tables)
        }
    })
    .await
}

/// Serves a request of OTLP. The response has the encoding of the request: protobuf or JSON.
async fn otlp<R>(
    state: &State,
    headers: &HeaderMap,
    body: Body,
    request: Request<'_>,
    reading: impl FnOnce(Encoding) -> R,
) -> Response
where
    R: Fn(&mut TelemetryReader, &[u8], &dyn Tables) -> Result<Outcome>,
{
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let encoding = content::check_otlp(kind);
    let answers = encoding.as_ref().copied().unwrap_or(Encoding::Json);
    let kind = || [(header::CONTENT_TYPE, answers.content_type())];
    let respond = |status: StatusCode, error: &Error| {
        state.counts.refused();
        let code = error.kind().status().grpc();
        let body = stratalog_telemetry::status(code, &in_one_line(error), answers);
        failed(error, (status, kind(), body))
    };
    let body = match encoding.and_then(|_| DecodedBody::new(state, headers, body)) {
        Ok(body) => body,
        Err(error) => return respond(StatusCode::UNSUPPORTED_MEDIA_TYPE, &error),
    };
    match write(state, headers, body, request, reading(answers)).await {
        Ok(outcome) => (StatusCode::OK, kind(), outcome.response(answers)).into_response(),
        Err(error) => respond(status(&error), &error),
    }
}

/// The login of a request, and the options in its URL.
#[derive(Debug, Clone, Copy)]
struct Request<'a> {
    login: &'a Authenticated,
    write_protocol: WriteProtocol,
    parameters: &'a HashMap<String, String>,
}

impl<'a> Request<'a> {
    fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }

    /// The tables for the rows: the one table that the request names, or one table per metric.
    fn layout(&self) -> Layout<'a> {
        self.parameter("table").map_or(Layout::PerMetric, Layout::Single)
    }
}

/// Reads a body, and stores all valid data of the body or nothing. The returned outcome no longer
/// contains the rows.
///
/// # Errors
/// Errors that concern the whole request.
async fn write(
    state: &State,
    headers: &HeaderMap,
    mut decoded: DecodedBody<'_>,
    request: Request<'_>,
    read: impl Fn(&mut TelemetryReader, &[u8], &dyn Tables) -> Result<Outcome>,
) -> Result<Outcome> {
    let durability = request.parameter("durability").map(str::parse::<Durability>).transpose()?;
    let producer = producer(headers)?;
    let schema = schema(state, request.parameter("db"), None);
    let session = state.writing(request.login)?;
    let (body, _room) = decoded.all().await?;
    let mut reads = 0;
    loop {
        reads += 1;
        let tables = SchemaTables { session: &session, schema: &schema };
        let (mut outcome, place) = state
            .read(|reader| match body.len() < LONG_BYTES {
                true => read(reader, &body, &tables),
                false => block_in_place(|| read(reader, &body, &tables)),
            })
            .await?;
        let rows = std::mem::take(&mut outcome.tables);
        let options = AppendOptions { durability, producer, ..AppendOptions::default() };
        let stored =
            store::store(state, &session, request.write_protocol, &schema, rows, options).await;
        drop(place);
        match stored {
            Err(error) if reads < READS && is_changed_table(&error) => {}
            stored => {
                state.counts.bytes(decoded.bytes());
                state.counts.rows(stored?.map_or(0, |stored| stored.rows));
                state.counts.samples(outcome.accepted, outcome.rejected);
                return Ok(outcome);
            }
        }
    }
}

/// True if another request has created or changed a table since the rows were read.
fn is_changed_table(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidTableDefinition | ErrorKind::DatatypeMismatch)
}
