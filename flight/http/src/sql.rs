//! The routes for SQL: `/api/sql`, and `/api/v3/query_sql` for InfluxDB 3's clients. A GET request
//! is read-only.

mod format;
mod json;
mod parameter;

pub(crate) use self::json::{cells, objects};

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema},
};
use axum::{
    Extension,
    body::{Body, Bytes},
    extract::{Query, State as Extracted},
    http::{HeaderMap, Method, header::ACCEPT, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use futures::StreamExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use stratalog_model::{ColumnType, Error, ErrorKind, Result};
use stratalog_query::{Outcome, Rows, Session, StatementKind, quoted};

use self::{format::Format, parameter::Parameters};
use crate::{json::Json, login::Login, problem::Problem, state::State};

/// The fields of a request, from the body or from the query string of the URL.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename = "Question")]
struct SqlRequest {
    /// The SQL text.
    #[serde(alias = "q", alias = "query")]
    sql: String,
    /// The values of the parameters `$1`, `$2` …
    params: Parameters,
    /// The format of the response's rows.
    format: Option<String>,
    /// A schema to put first in the search path.
    #[serde(alias = "db")]
    schema: Option<String>,
}

/// `GET` and `POST /api/sql`: runs a statement and sends its rows.
pub(crate) async fn ask(
    Extracted(state): Extracted<Arc<State>>,
    Extension(login): Extension<Login>,
    Query(parameters): Query<HashMap<String, String>>,
    method: Method,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let (body, _room) = crate::body::DecodedBody::new(&state, &headers, body)?.all().await?;
    let question = SqlRequest::read(&parameters, &headers, &Bytes::from(body))?;
    let wanted = match &question.format {
        Some(name) => Format::named(name)?,
        None => Format::accepted(headers.get(ACCEPT).and_then(|accepted| accepted.to_str().ok())),
    };
    let session = state.session(&login, "http", None)?;
    let guard = RequestSession(Arc::clone(&session));
    if let Some(schema) = &question.schema {
        let name = quoted(&crate::write::schema(&state, Some(schema), None));
        session.variables().set("search_path", &format!("{name}, public"), false)?;
    }
    let outcome = run(&session, &question, Access::of(&method)).await?;
    state.counts.query();
    match outcome {
        Outcome::Rows(rows) => Ok(wanted.answer(rows, Arc::clone(&state), guard).await?),
        Outcome::Done(tag) => {
            let count = tag.rsplit(' ').next().and_then(|word| word.parse::<u64>().ok());
            Ok(Json(json!({ "command": tag, "rows_affected": count.unwrap_or(0) })).into_response())
        }
        Outcome::Empty => Err(Problem(
            Error::new(ErrorKind::SyntaxError, "the request has no statement").with_hint(
                "POST {\"sql\": \"SELECT …\"}, or the text of the statement as text/plain",
            ),
        )),
        Outcome::CopyIn(_) | Outcome::CopyOut(_) => Err(Problem(no_copy())),
    }
}

fn no_copy() -> Error {
    Error::new(ErrorKind::FeatureNotSupported, "COPY … STDIN and STDOUT need the Postgres protocol")
        .with_hint("read rows with a query and format=csv; POST lines to /write")
}

/// Whether a request may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Access {
    /// The access of an HTTP method. GET is read-only, because a page of another site can make a
    /// browser send GET.
    pub(crate) fn of(method: &Method) -> Self {
        if *method == Method::POST { Self::Write } else { Self::Read }
    }

    /// Makes the session read-only if the access is [`Access::Read`].
    ///
    /// # Errors
    /// The errors of `Session::confine`.
    pub(crate) fn confine(self, session: &Session) -> Result<()> {
        match self {
            Self::Write => Ok(()),
            Self::Read => session.confine(),
        }
    }

    /// Checks that the access allows statements of this kind.
    ///
    /// # Errors
    /// `ReadOnlyTransaction` if the statement may write and the access is read-only.
    pub(crate) fn check(self, kind: StatementKind) -> Result<()> {
        if self == Self::Write || kind == StatementKind::Read {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::ReadOnlyTransaction,
            "a GET request runs in a read-only transaction, and accepts only reading statements",
        )
        .with_hint("send the statement with POST"))
    }
}

/// The session of one request. The session ends when this value is dropped, after the response.
pub(crate) struct RequestSession(Arc<Session>);

impl RequestSession {
    pub(crate) fn new(session: Arc<Session>) -> Self {
        Self(session)
    }

    /// The session in which the statements of the request run.
    pub(crate) fn session(&self) -> &Session {
        &self.0
    }
}

impl Drop for RequestSession {
    fn drop(&mut self) {
        self.0.close();
    }
}

async fn run(session: &Arc<Session>, question: &SqlRequest, access: Access) -> Result<Outcome> {
    access.confine(session)?;
    let parsed = session.parse(&question.sql)?;
    let one = match parsed.as_slice() {
        [] => return Ok(Outcome::Empty),
        [one] => one,
        several => {
            return Err(Error::new(
                ErrorKind::SyntaxError,
                format!(
                    "the request contains {} statements: send one statement per request",
                    several.len()
                ),
            ));
        }
    };
    access.check(one.kind())?;
    if one.is_endless() {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            "an answer has an end, SUBSCRIBE has none",
        )
        .with_hint("GET /api/v1/subscribe?table=cpu follows a table, as server-sent events"));
    }
    let prepared = session.prepare(one, &[]).await?;
    let values = session.bind_rows(&prepared, &question.parameters(prepared.parameter_types())?)?;
    let values = values.into_iter().next().unwrap_or_default();
    session.execute(&prepared, values).await
}

impl SqlRequest {
    fn read(
        parameters: &HashMap<String, String>,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Self> {
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
        let mut question = if body.is_empty() {
            Self::default()
        } else if kind.starts_with("application/json") || body.trim_ascii_start().starts_with(b"{")
        {
            let mut question: Self = serde_json::from_slice(body).map_err(|error| {
                Error::new(
                    ErrorKind::InvalidParameterValue,
                    format!("the body cannot be read: {error}"),
                )
                .with_hint("{\"sql\": \"SELECT $1\", \"params\": [1], \"format\": \"json\"}")
            })?;
            // Only the parameters contain numbers that must keep all digits.
            question.params.keep_digits(&String::from_utf8_lossy(body))?;
            question
        } else {
            let text = std::str::from_utf8(body).map_err(|_| {
                Error::new(ErrorKind::InvalidEncoding, "the statement is not valid UTF-8")
            })?;
            Self { sql: text.to_string(), ..Self::default() }
        };
        let parameter =
            |names: &[&str]| names.iter().find_map(|name| parameters.get(*name)).cloned();
        if let Some(sql) = parameter(&["q", "sql", "query"]) {
            if !question.sql.is_empty() {
                return Err(Error::new(
                    ErrorKind::InvalidParameterValue,
                    "the request has one statement in the URL and another statement in the body",
                )
                .with_hint("send the statement once"));
            }
            question.sql = sql;
        }
        question.format = parameter(&["format"]).or(question.format);
        question.schema = parameter(&["db", "schema"]).or(question.schema);
        if let Some(text) = parameter(&["params"]) {
            question.params = serde_json::from_str(&text).map_err(|error| {
                Error::new(
                    ErrorKind::InvalidParameterValue,
                    format!("params is not a list in JSON: {error}"),
                )
            })?;
            question.params.keep_digits(&text)?;
        }
        Ok(question)
    }

    /// Returns the parameters as one row of texts. The statement, whose parameters have the types
    /// `types`, converts the texts to these types.
    fn parameters(&self, types: &[ColumnType]) -> Result<RecordBatch> {
        let texts = self.params.in_syntax_of(types);
        let columns: Vec<ArrayRef> =
            texts.map(|text| Arc::new(StringArray::from_iter([text])) as ArrayRef).collect();
        let fields: Vec<Field> = (1..=columns.len())
            .map(|number| Field::new(format!("${number}"), DataType::Utf8, true))
            .collect();
        let rows = arrow::array::RecordBatchOptions::new().with_row_count(Some(1));
        let schema = Arc::new(Schema::new(fields));
        RecordBatch::try_new_with_options(schema, columns, &rows).map_err(Error::from)
    }
}

/// A complete result: names and types of the columns, and the rows.
pub(crate) type Table = (Vec<(String, String)>, Vec<Vec<Value>>);

/// Maximum rows of a result that the server builds completely in memory.
const TABLE_ROWS_MAX: usize = 100_000;

/// Runs a statement and returns its complete result, for small results.
///
/// # Errors
/// Errors of the statement; `LimitExceeded` for more than [`TABLE_ROWS_MAX`] rows.
pub(crate) async fn table_of(
    state: &State,
    login: &Login,
    sql: &str,
    access: Access,
) -> Result<Table> {
    let session = state.session(login, "http", None)?;
    let _ended = RequestSession(Arc::clone(&session));
    let question = SqlRequest { sql: sql.to_string(), ..SqlRequest::default() };
    let mut rows = match run(&session, &question, access).await? {
        Outcome::Rows(rows) => rows,
        Outcome::Done(_) | Outcome::Empty => return Ok((Vec::new(), Vec::new())),
        Outcome::CopyIn(_) | Outcome::CopyOut(_) => return Err(no_copy()),
    };
    let columns = columns_of(&rows);
    let style = session.text_style();
    let mut table = Vec::new();
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        if table.len() + batch.num_rows() > TABLE_ROWS_MAX {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("the answer has more than {TABLE_ROWS_MAX} rows"),
            )
            .with_hint("use LIMIT, or POST /api/sql, which streams"));
        }
        table.extend(json::rows(&batch, &style)?);
    }
    Ok((columns, table))
}

fn columns_of(rows: &Rows) -> Vec<(String, String)> {
    let fields = rows.schema().fields().iter();
    fields
        .map(|field| {
            let kind = ColumnType::from_arrow_field(field)
                .map_or_else(|| field.data_type().to_string(), |kind| kind.to_string());
            (field.name().clone(), kind)
        })
        .collect()
}
