//! `GET /api/v1/subscribe`: streams the events of a table in the order of commits, as server-sent
//! events.
//!
//! ```text
//!   ?table=cpu&gsn=7&where=usage > 90 ─► SUBSCRIBE cpu FROM GSN 7 WHERE (usage > 90)
//!   row ─► id: its gsn, data: JSON    gap ─► event: gap    idle for long ─► comment line
//! ```
//! A browser that reconnects sends the last received id, and the subscription continues after this
//! id. With `live=true`, the server sends an id before the first event.

use std::{collections::HashMap, sync::Arc, time::Duration};

use arrow::array::RecordBatch;
use axum::{
    Extension,
    body::{Body, Bytes},
    extract::{Query, State as Extracted},
    http::{
        HeaderMap, HeaderValue,
        header::{CACHE_CONTROL, CONTENT_TYPE},
    },
    response::{IntoResponse, Response},
};
use futures::{StreamExt as _, stream};
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_query::{Outcome, Rows, quoted};
use stratalog_text::TextStyle;

use crate::{
    login::Login,
    problem::{self, Problem},
    sql::{Access, RequestSession, cells, objects},
    state::State,
};

/// The position of the gap column in the rows of a subscription. The position identifies the
/// column, because the table may have a column of the same name.
const GAP_COLUMN: usize = 1;

/// The parameters in the URL of a request.
#[derive(Debug, Default, PartialEq, Eq)]
struct SubscribeParameters {
    table: String,
    schema: Option<String>,
    condition: Option<String>,
    from: SubscribeStart,
}

/// The position at which a subscription begins.
#[derive(Debug, Default, PartialEq, Eq)]
enum SubscribeStart {
    /// The first event of the table.
    #[default]
    All,
    /// The event with this gsn.
    Gsn(u64),
    /// The first event at or after this time.
    Time(String),
    /// The next new event.
    Live,
}

/// `GET /api/v1/subscribe`: streams the events of a table as server-sent events.
pub(crate) async fn subscribe(
    Extracted(state): Extracted<Arc<State>>,
    Extension(login): Extension<Login>,
    Query(parameters): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let mut question = SubscribeParameters::read(parameters, last)?;
    // As in all HTTP routes, the name of an InfluxDB database selects a schema.
    let schema = question.schema.take();
    question.schema = schema.map(|name| crate::write::schema(&state, Some(&name), None));
    // An empty comment makes the server send the headers now, because the first event may come much
    // later.
    let mut opening = ":\n\n".to_string();
    if question.from == SubscribeStart::Live {
        // The first id is the current head, so that a client that reconnects before the first event
        // misses no event.
        let head = state.service.parts().store.snapshot().gsn().0;
        question.from = SubscribeStart::Gsn(head.saturating_add(1));
        opening = format!("id: {head}\n\n");
    }
    let session = state.session(&login, "http subscribe", None)?;
    let ended = RequestSession::new(Arc::clone(&session));
    // The subscription runs until the client ends it.
    session.variables().set("statement_timeout", "0", false)?;
    Access::Read.confine(&session)?;
    let parsed = session.parse(&question.sql())?;
    let one = match parsed.as_slice() {
        [one] if one.is_endless() => one,
        _ => return Err(Problem(wrong("the parameter where contains more than a condition"))),
    };
    let outcome = session.run(one).await?;
    state.counts.query();
    let Outcome::Rows(rows) = outcome else {
        return Err(Problem(Error::internal("a subscription has no rows")));
    };
    let heartbeat = Duration::from_millis(state.settings.heartbeat_ms.max(1));
    let style = session.text_style();
    let events = Events { rows, style, heartbeat, _ended: ended };
    let opening = stream::iter([Ok(Bytes::from(opening))]);
    let events = stream::unfold(Some(events), |events| async move {
        let mut events = events?;
        let (bytes, more) = events.next().await;
        Some((Ok::<_, std::io::Error>(bytes), more.then_some(events)))
    });
    let mut response = Body::from_stream(opening.chain(events)).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Proxies must not buffer events.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

impl SubscribeParameters {
    fn read(mut parameters: HashMap<String, String>, last: Option<&str>) -> Result<Self> {
        let mut take = |name: &str| parameters.remove(name);
        let table = take("table").ok_or_else(|| wrong("no table is named"))?;
        let schema = take("schema").or_else(|| take("db"));
        let (condition, gsn, time) = (take("where"), take("gsn"), take("time"));
        let live = match take("live").as_deref() {
            None | Some("false") => false,
            Some("true" | "") => true,
            Some(other) => return Err(wrong(&format!("live is \"{other}\", not true or false"))),
        };
        if let Some(name) = parameters.keys().next() {
            return Err(wrong(&format!("parameter \"{name}\" does not exist")));
        }
        let number = |text: &str| {
            text.trim().parse::<u64>().map_err(|_| wrong(&format!("\"{text}\" is not a gsn")))
        };
        let from = match (last, gsn, time, live) {
            // The client reconnects.
            (Some(last), ..) => SubscribeStart::Gsn(number(last)?.saturating_add(1)),
            (None, Some(gsn), None, false) => SubscribeStart::Gsn(number(&gsn)?),
            (None, None, Some(time), false) => SubscribeStart::Time(time),
            (None, None, None, true) => SubscribeStart::Live,
            (None, None, None, false) => SubscribeStart::All,
            _ => return Err(wrong("gsn, time and live exclude each other")),
        };
        Ok(Self { table, schema, condition, from })
    }

    fn sql(&self) -> String {
        let schema = self.schema.as_ref().map_or(String::new(), |schema| quoted(schema) + ".");
        let from = match &self.from {
            SubscribeStart::All => String::new(),
            SubscribeStart::Gsn(gsn) => format!(" FROM GSN {gsn}"),
            SubscribeStart::Time(time) => format!(" FROM TIMESTAMP '{}'", time.replace('\'', "''")),
            SubscribeStart::Live => " LIVE".to_string(),
        };
        let condition = self.condition.as_ref();
        let condition = condition.map_or(String::new(), |text| format!(" WHERE ({text}\n)"));
        format!("SUBSCRIBE {schema}{}{from}{condition}", quoted(&self.table))
    }
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidParameterValue, format!("the subscription cannot be read: {what}"))
        .with_hint("GET /api/v1/subscribe?table=cpu&gsn=1, or time=2024-01-01, or live=true; where=usage > 90 and schema=public are optional")
}

/// The rows of a subscription, formatted as server-sent events.
struct Events {
    rows: Rows,
    style: TextStyle,
    heartbeat: Duration,
    /// Keeps the session open until the last read.
    _ended: RequestSession,
}

impl Events {
    /// The next bytes of the response, and whether more bytes follow.
    async fn next(&mut self) -> (Bytes, bool) {
        match tokio::time::timeout(self.heartbeat, self.rows.next()).await {
            Err(_) => (Bytes::from_static(b":\n\n"), true),
            Ok(Some(Ok(batch))) => match events(&batch, &self.style) {
                Ok(text) => (Bytes::from(text), true),
                Err(error) => (failed(&error), false),
            },
            Ok(Some(Err(error))) => (failed(&error), false),
            Ok(None) => (Bytes::new(), false),
        }
    }
}

/// Formats the rows of a batch as server-sent events.
fn events(batch: &RecordBatch, style: &TextStyle) -> Result<String> {
    let others: Vec<usize> = (0..batch.num_columns()).filter(|at| *at != GAP_COLUMN).collect();
    let without_gap = batch.project(&others);
    let rows = objects(&without_gap.map_err(|error| Error::internal(error.to_string()))?, style)?;
    let columns = cells(batch, style)?;
    let cell_of = |column: Option<usize>, row: usize| {
        let cell = column.and_then(|at| columns.get(at)?.get(row));
        cell.map_or("null", String::as_str)
    };
    let gsn_at = batch.schema().index_of("_gsn").ok();
    let mut out = String::new();
    for (row, data) in rows.iter().enumerate() {
        let gsn = cell_of(gsn_at, row);
        match cell_of(Some(GAP_COLUMN), row) {
            "null" => out.push_str(&format!("id: {gsn}\ndata: {data}\n\n")),
            gap => out.push_str(&format!(
                "event: gap\nid: {gsn}\ndata: {{\"_gsn\":{gsn},\"gap\":{gap}}}\n\n"
            )),
        }
    }
    Ok(out)
}

/// Formats the error that ends the subscription as a server-sent event.
fn failed(error: &Error) -> Bytes {
    Bytes::from(format!("event: error\ndata: {}\n\n", problem::body(error)))
}

#[cfg(test)]
mod tests;
