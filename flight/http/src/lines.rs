//! Requests of line protocol.

use axum::{body::Body, http::HeaderMap};
use stratalog_line::{LineError, LineRequest, Precision};
use stratalog_model::{Durability, Error, ErrorKind, ProducerId, Result, store::AppendOptions};
use uuid::Uuid;

use crate::{
    body::Decoded,
    state::State,
    store::{self, Bringer, SchemaTables},
};

/// The header by which a request that is sent again is known: `<producer>/<number>`.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// What a request says about its lines.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// Where the tables are.
    pub(crate) schema: String,
    /// Unit of the timestamps.
    pub(crate) precision: Precision,
    /// What the answer is to mean; what the tables say, without it.
    pub(crate) durability: Option<Durability>,
    /// Whether good lines are stored where others are not.
    pub(crate) accepts_partial: bool,
}

/// What became of them.
#[derive(Debug)]
pub(crate) struct Written {
    /// Lines that were stored.
    pub(crate) stored: u64,
    /// The first of those that were not.
    pub(crate) errors: Vec<LineError>,
    /// How many those are.
    pub(crate) failed: u64,
}

/// Reads and stores the lines of a request.
///
/// # Errors
/// What is wrong with the request as a whole: then nothing of it is stored.
pub(crate) async fn write(
    state: &State,
    headers: &HeaderMap,
    body: Body,
    wanted: &Wanted,
) -> Result<Written> {
    let producer = producer(headers)?;
    let session = state.writing()?;
    let mut body = Decoded::new(state, headers, body)?;
    let mut parser = state.parser();
    let tables = SchemaTables { session: &session, schema: &wanted.schema };
    let now_ns = state.service.parts().clock.now_ns();
    parser.begin(LineRequest { precision: wanted.precision, now_ns });
    let read = async {
        while let Some(piece) = body.next().await? {
            parser.push(&piece, &tables)?;
        }
        parser.finish(&tables)
    };
    let read = read.await;
    state.give_back(parser);
    let read = read?;
    state.counts.bytes(body.bytes());
    state.counts.lines(read.lines_ok, read.lines_failed);
    if read.lines_failed > 0 && !wanted.accepts_partial {
        return Ok(Written { stored: 0, errors: read.errors, failed: read.lines_failed });
    }
    let options =
        AppendOptions { durability: wanted.durability, producer, ..AppendOptions::default() };
    let appended =
        store::store(&session, Bringer::LINES, &wanted.schema, read.tables, options).await?;
    state.counts.rows(appended.as_ref().map_or(0, |appended| appended.rows));
    Ok(Written { stored: read.lines_ok, errors: read.errors, failed: read.lines_failed })
}

/// Who sends, and the number of the request, if it says so.
pub(crate) fn producer(headers: &HeaderMap) -> Result<Option<(ProducerId, u64)>> {
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let parsed = key.to_str().ok().and_then(|key| {
        let (producer, sequence) = key.trim().split_once('/')?;
        let producer = Uuid::parse_str(producer.trim()).ok()?;
        Some((ProducerId(producer.as_u128()), sequence.trim().parse::<u64>().ok()?))
    });
    parsed.map(Some).ok_or_else(|| {
        Error::new(ErrorKind::InvalidParameterValue, "the header Idempotency-Key is not <UUID>/<number>")
            .with_hint("a UUID for the sender, and a number that grows with each request; a request that is sent again has the same")
    })
}
