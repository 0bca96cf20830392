//! Write requests with line protocol: reads the lines and stores their rows.

use axum::{body::Body, http::HeaderMap};
use bytes::{Buf as _, Bytes};
use stratalog_access::Authenticated;
use stratalog_line::{LineError, LineParser, LineRequest, Outcome, Precision};
use stratalog_model::{Durability, Error, ErrorKind, ProducerId, Result, store::AppendOptions};
use uuid::Uuid;

use crate::{
    body::{DecodedBody, Decoder, Room},
    state::State,
    store::{self, SchemaTables, WriteProtocol, partial},
};

/// Maximum number of errors that an answer names.
const ERRORS_MAX: usize = 100;

/// The initial memory reservation of a request for its rows, in bytes.
const FIRST_BYTES: usize = 64 << 10;

/// The request header that identifies a repeated request: `<producer>/<number>`.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The options of a request for parsing and storing its lines.
#[derive(Debug, Clone)]
pub(crate) struct LineOptions {
    /// The schema that contains the tables of the lines.
    pub(crate) schema: String,
    /// The unit of the timestamps.
    pub(crate) precision: Precision,
    /// The durability that the lines must have before the server answers; `None` for the durability
    /// of each table.
    pub(crate) durability: Option<Durability>,
    /// True if the server stores the valid lines of a request that also contains invalid lines.
    pub(crate) accepts_partial: bool,
}

/// The outcome of a write request.
#[derive(Debug)]
pub(crate) struct WriteOutcome {
    /// The number of stored lines.
    pub(crate) stored: u64,
    /// The errors of refused lines, up to [`ERRORS_MAX`].
    pub(crate) errors: Vec<LineError>,
    /// The number of refused lines.
    pub(crate) failed: u64,
}

/// Parses and stores the lines of a request.
///
/// # Errors
/// Errors that concern the whole request: no line is stored. Errors of single lines are part of the
/// outcome.
pub(crate) async fn write(
    state: &State,
    login: &Authenticated,
    headers: &HeaderMap,
    body: Body,
    wanted: &LineOptions,
) -> Result<WriteOutcome> {
    let producer = producer(headers)?;
    let session = state.writing(login)?;
    let mut body = DecodedBody::new(state, headers, body)?;
    let mut parser = state.parser();
    let tables = SchemaTables { session: &session, schema: &wanted.schema };
    let now_ns = state.service.parts().clock.now_ns();
    parser.begin(LineRequest { precision: wanted.precision, now_ns });
    let mut room = Room::default();
    let read = read(state, &mut body, &mut parser, &tables, &mut room).await;
    state.give_back(parser);
    let read = read?;
    state.counts.bytes(body.bytes());
    state.counts.lines(read.lines_ok, read.lines_failed);
    if read.lines_failed > 0 && !wanted.accepts_partial {
        return Ok(WriteOutcome { stored: 0, errors: read.errors, failed: read.lines_failed });
    }
    let options =
        AppendOptions { durability: wanted.durability, producer, ..AppendOptions::default() };
    let (schema, write_protocol) = (&wanted.schema, WriteProtocol::LINES);
    if !wanted.accepts_partial {
        let appended =
            store::store(state, &session, write_protocol, schema, read.tables, options).await?;
        state.counts.rows(appended.map_or(0, |appended| appended.rows));
        return Ok(WriteOutcome { stored: read.lines_ok, errors: Vec::new(), failed: 0 });
    }
    let stored = partial::store(state, &session, write_protocol, schema, read.tables, options);
    let (appended, refusals) = stored.await?;
    state.counts.rows(appended.map_or(0, |appended| appended.rows));
    let mut errors = read.errors;
    errors.extend(refusals.errors);
    errors.sort_by_key(|error| error.line);
    errors.truncate(ERRORS_MAX);
    Ok(WriteOutcome {
        stored: read.lines_ok.saturating_sub(refusals.count),
        errors,
        failed: read.lines_failed + refusals.count,
    })
}

/// Receives a body and parses all its lines. Reserves memory for rows before building the rows.
async fn read(
    state: &State,
    body: &mut DecodedBody<'_>,
    parser: &mut LineParser,
    tables: &SchemaTables<'_>,
    room: &mut Room,
) -> Result<Outcome> {
    let most = state.settings.rows_bytes_max;
    let mut reserved = FIRST_BYTES.min(most);
    room.grow_to(state, reserved).await?;
    let (mut text, mut ended) = (Bytes::new(), false);
    while !ended {
        ended = !body.receive().await?;
        loop {
            let decoder = &mut body.decoder;
            // A short input may add NULLs to many rows. The size of the reserved memory limits this
            // work, so the size is a part of the cost.
            let cost = decoder.cost().max(text.len()).max(reserved - FIRST_BYTES.min(most));
            let pause = state
                .compute(cost, || step(decoder, &mut text, ended, parser, reserved, tables))
                .await?;
            match pause {
                Pause::Input => break,
                Pause::Room if reserved >= most => return Err(too_wide(parser, most)),
                Pause::Room => {
                    reserved = reserved.saturating_mul(2).min(most);
                    room.grow_to(state, reserved).await?;
                }
            }
        }
    }
    state.compute(parser.bytes(), || parser.finish(tables)).await
}

/// The reason why the parser stopped.
enum Pause {
    /// All received input is parsed.
    Input,
    /// The rows have used up the reserved memory; the caller must reserve more.
    Room,
}

/// Decompresses and parses until the input or the reserved memory is used up. `text` contains
/// decompressed bytes that are not yet parsed.
fn step(
    decoder: &mut Decoder,
    text: &mut Bytes,
    ended: bool,
    parser: &mut LineParser,
    reserved: usize,
    tables: &SchemaTables<'_>,
) -> Result<Pause> {
    loop {
        while !text.is_empty() {
            match parser.push_within(text, reserved, tables)? {
                0 => return Ok(Pause::Room),
                taken => text.advance(taken),
            }
        }
        if decoder.has_more() {
            *text = decoder.next()?;
            continue;
        }
        if ended {
            *text = decoder.finish()?;
        }
        if text.is_empty() {
            return Ok(Pause::Input);
        }
    }
}

fn too_wide(parser: &LineParser, most: usize) -> Error {
    Error::new(
        ErrorKind::LimitExceeded,
        format!(
            "line {}: the rows of the previous lines take {most} bytes, the maximum for one request; nothing was stored",
            parser.next_line()
        ),
    )
    .with_detail("a row takes space for every column of its table, even for columns without a value in the line")
    .with_hint("send the lines in several requests, or lines with other fields to other measurements")
}

/// Parses the header [`IDEMPOTENCY_KEY`] into the producer's id and the request's number; `None`
/// without the header.
pub(crate) fn producer(headers: &HeaderMap) -> Result<Option<(ProducerId, u64)>> {
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let parsed = key.to_str().ok().and_then(|key| {
        let (producer, sequence) = key.trim().split_once('/')?;
        let producer = Uuid::parse_str(producer.trim()).ok()?;
        Some((ProducerId(producer.as_u128()), sequence.trim().parse::<u64>().ok()?))
    });
    parsed.map(Some).ok_or_else(|| {
        Error::new(ErrorKind::InvalidParameterValue, "the header Idempotency-Key is not <UUID>/<number>")
            .with_hint("a UUID of the sender, and a number that grows with each request; a repeated request has the same UUID and number")
    })
}
