//! Stores the acceptable rows of a request, and reports each refused row with its line.
//!
//! ```text
//!   one append of all rows ── stored ─► done
//!        │ the table refused a row
//!        ▼
//!   another append, table by table: a refused batch is halved, until single rows are refused
//! ```

use std::sync::Arc;

use arrow::{
    array::{RecordBatch, UInt32Array},
    compute::take_record_batch,
};
use stratalog_line::{LineError, TableRows};
use stratalog_model::{
    ChronicleDefinition, Error, ErrorKind, ProducerId, Result,
    store::{AppendOptions, CommittedAppend, OnConflict, PushResult},
};
use stratalog_query::{ProtocolAppend, Session};

use super::{
    PreparedAppend, TRIES, WriteProtocol, append_all, prepared, renew,
    rows::{Keys, ticks_of},
};
use crate::state::State;

/// Maximum number of attempts to add rows of one table to the append. After this number, the
/// request refuses a whole batch without halving it further.
const PUSHES_MAX: usize = 1024;

/// Maximum number of errors that a [`Refusals`] keeps. Its count includes all errors.
const ERRORS_MAX: usize = 100;

/// The refused lines of a request: their number, and the first errors.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals {
    pub(crate) errors: Vec<LineError>,
    pub(crate) count: u64,
}

impl Refusals {
    fn add(&mut self, table: &str, line: u64, error: &Error) {
        self.count += 1;
        if self.errors.len() >= ERRORS_MAX {
            return;
        }
        let mut message = format!("table \"{table}\": {}", error.message());
        for more in [error.detail(), error.hint()].into_iter().flatten() {
            message.push_str("; ");
            message.push_str(more);
        }
        let original = String::new();
        self.errors.push(LineError { line, kind: error.kind(), message, original });
    }
}

/// Rows of one table, each with its line number in the request.
struct Part<'a> {
    definition: &'a Arc<ChronicleDefinition>,
    batch: &'a RecordBatch,
    lines: &'a [u32],
}

/// Stores all rows that their tables accept. Returns the append, `None` if no row was accepted, and
/// the refused rows.
///
/// # Errors
/// Errors that concern the whole request: no row is stored.
pub(crate) async fn store(
    state: &State,
    session: &Arc<Session>,
    write_protocol: WriteProtocol,
    schema: &str,
    tables: Vec<TableRows>,
    options: AppendOptions,
) -> Result<(Option<CommittedAppend>, Refusals)> {
    let producer = options.producer;
    let mut refusals = Refusals::default();
    let mut accepted = Vec::new();
    for rows in tables {
        let (table, of_rows) = (rows.measurement().to_string(), rows.lines().to_vec());
        match prepared(state, session, write_protocol, schema, rows).await {
            Ok(PreparedAppend { definition, batch, kept_rows }) => {
                let lines = match kept_rows {
                    None => of_rows,
                    Some(kept_rows) => {
                        let line = |row: &u32| of_rows.get(*row as usize).copied();
                        kept_rows.iter().filter_map(line).collect()
                    }
                };
                accepted.push(((definition, batch), lines));
            }
            Err(error) if concerns_rows(error.kind()) => {
                of_rows.iter().for_each(|line| refusals.add(&table, u64::from(*line), &error));
            }
            Err(error) => return Err(error),
        }
    }
    // All requests append to their tables in the order of the table ids, so that two requests
    // cannot deadlock.
    accepted.sort_by_key(|((definition, _), _)| definition.id);
    let (mut batches, lines): (Vec<_>, Vec<Vec<u32>>) = accepted.into_iter().unzip();
    if batches.is_empty() {
        return Ok((None, refusals));
    }
    match append_all(state, session, write_protocol, &mut batches, options.clone()).await {
        Err(error) if concerns_rows(error.kind()) => {}
        other => return Ok(answer_of(state, producer, other?, refusals)),
    }
    let before = refusals;
    let mut tries = 1;
    loop {
        let mut refusals = before.clone();
        let parts = batches.iter().zip(&lines).map(|((definition, batch), lines)| Part {
            definition,
            batch,
            lines,
        });
        let append = session.append(write_protocol.protocol, options.clone())?;
        match append_each(state, append, parts, &mut refusals).await {
            Err(error) if tries < TRIES && renew(session, &mut batches, &error)? => tries += 1,
            appended => {
                let appended = appended?;
                refusals.errors.sort_by_key(|error| error.line);
                return Ok(answer_of(state, producer, appended, refusals));
            }
        }
    }
}

/// Adds the rows that the tables accept to `append`, table by table, and commits.
async fn append_each(
    state: &State,
    mut append: ProtocolAppend,
    parts: impl Iterator<Item = Part<'_>>,
    refusals: &mut Refusals,
) -> Result<CommittedAppend> {
    for part in parts {
        let bytes = part.batch.get_array_memory_size();
        state.drive(bytes, push_each(&mut append, &part, refusals)).await?;
    }
    append.commit().await
}

/// The outcome of a request: the append, and the refused rows. If the store recognizes the request
/// as a retry, the refused rows are those of the first attempt.
fn answer_of(
    state: &State,
    producer: Option<(ProducerId, u64)>,
    appended: CommittedAppend,
    refusals: Refusals,
) -> (Option<CommittedAppend>, Refusals) {
    let refusals = match producer {
        None => refusals,
        Some(request) if appended.duplicate => state.refused.of_retry(request).unwrap_or(refusals),
        Some(request) => {
            state.refused.keep(request, &refusals);
            refusals
        }
    };
    (Some(appended), refusals)
}

/// True if an error concerns certain rows, not the server or the whole request.
fn concerns_rows(kind: ErrorKind) -> bool {
    use ErrorKind as K;
    matches!(
        kind,
        K::UniqueViolation
            | K::LateEvent
            | K::OutsideWindow
            | K::OutsideProjection
            | K::TickTaken
            | K::DatetimeOverflow
            | K::NotNullViolation
            | K::NumericOutOfRange
            | K::GeneratedAlways
            | K::DatatypeMismatch
            | K::LimitExceeded
            | K::InvalidTableDefinition
            | K::TooManyColumns
            | K::ReservedName
            | K::UndefinedColumn
            | K::WrongObjectType
    )
}

/// Adds the rows of one table to the append. Records the rows that the table refuses in `refusals`.
async fn push_each(
    append: &mut ProtocolAppend,
    part: &Part<'_>,
    refusals: &mut Refusals,
) -> Result<()> {
    let ticks = ticks_of(part.definition, part.batch)?;
    let mut order: Vec<u32> =
        (0..u32::try_from(part.batch.num_rows()).unwrap_or(u32::MAX)).collect();
    // In the order of time, rows with refused times are neighbours, so that halving finds them
    // fast. The sort is stable: rows with equal times keep their order.
    order.sort_by_key(|row| ticks.get(*row as usize).copied());
    let skips = part.definition.collision.refuses();
    let on_conflict = if skips { OnConflict::Skip } else { OnConflict::Error };
    let mut pieces = vec![order];
    let mut pushes = 0;
    while let Some(piece) = pieces.pop() {
        let rows = take_record_batch(part.batch, &UInt32Array::from(piece.clone()))?;
        let savepoint = append.savepoint()?;
        pushes += 1;
        match append.push_with(part.definition, rows.clone(), on_conflict).await {
            Ok(admitted) if admitted.skipped > 0 => {
                let error = key_taken(part.definition);
                for at in skipped(part, &rows, &admitted)? {
                    refuse(part, piece.get(at).copied(), &error, refusals);
                }
            }
            Ok(_) => {}
            Err(error) if concerns_rows(error.kind()) => {
                append.roll_back_to(savepoint);
                if piece.len() == 1 || pushes >= PUSHES_MAX {
                    piece.iter().for_each(|row| refuse(part, Some(*row), &error, refusals));
                    continue;
                }
                let (first, second) = piece.split_at(piece.len() / 2);
                pieces.push(second.to_vec());
                pieces.push(first.to_vec());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn refuse(part: &Part<'_>, row: Option<u32>, error: &Error, refusals: &mut Refusals) {
    let line = row.and_then(|row| part.lines.get(row as usize)).copied().unwrap_or(0);
    refusals.add(&part.definition.name, u64::from(line), error);
}

/// The error for a row if another row already has the same key and time.
fn key_taken(definition: &ChronicleDefinition) -> Error {
    Error::new(
        ErrorKind::UniqueViolation,
        "a row with the same key and time exists, or is earlier in the same request",
    )
    .with_hint(format!(
        "tables WITH (collision = 'merge') store the newer values; {} has collision = '{}'",
        definition.qualified_name(),
        definition.collision
    ))
}

/// The indexes of the pushed rows that are not among the admitted rows. Of several rows with the
/// same key and time, only the first can be admitted.
fn skipped(part: &Part<'_>, pushed: &RecordBatch, admitted: &PushResult) -> Result<Vec<usize>> {
    let definition = part.definition;
    let (pushed_keys, pushed_ticks) =
        (Keys::of(definition, pushed)?, ticks_of(definition, pushed)?);
    let admitted_keys = Keys::of(definition, &admitted.events.rows)?;
    let mut next = 0;
    let mut skipped = Vec::new();
    for (at, tick) in pushed_ticks.iter().enumerate() {
        let same_tick = admitted.events.ticks.get(next) == Some(tick);
        if same_tick && pushed_keys.row(at) == admitted_keys.row(next) {
            next += 1;
        } else {
            skipped.push(at);
        }
    }
    Ok(skipped)
}
