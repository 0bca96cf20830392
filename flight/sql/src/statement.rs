//! Statements: queries are planned by GetFlightInfo and carried out by DoGet; what changes something is
//! carried out by GetFlightInfo.

use std::sync::Arc;

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use arrow_flight::{FlightDescriptor, FlightInfo, sql::CommandStatementQuery};
use futures::{Stream, StreamExt as _, stream};
use stratalog_flight_wire::{Errand, Seal, StatementErrand};
use stratalog_model::{ColumnType, Error, ErrorKind, Result};
use stratalog_query::{Outcome, Prepared, Session, StatementKind};
use tokio::sync::Mutex;

use crate::{
    caller::{Caller, Running},
    describe::info,
    encode::{Messages, messages},
    placeholders::numbered,
    wire_types::{no_columns, outgoing},
};

/// Plans the one statement of a text.
///
/// # Errors
/// `SyntaxError` for several; what is wrong with it.
pub(crate) async fn prepare(
    session: &Arc<Session>,
    sql: &str,
    types: &[Option<ColumnType>],
) -> Result<Arc<Prepared>> {
    let parsed = session.parse(&numbered(sql.to_string()))?;
    match parsed.as_slice() {
        [one] => session.prepare(one, types).await,
        [] => Err(Error::new(ErrorKind::SyntaxError, "the text holds no statement")),
        several => Err(Error::new(
            ErrorKind::SyntaxError,
            format!("the text holds {} statements: Flight SQL runs one at a time", several.len()),
        )),
    }
}

/// The columns of what a statement returns; none where it returns no rows.
pub(crate) fn shape(prepared: &Prepared) -> SchemaRef {
    prepared.result().map_or_else(no_columns, |schema| outgoing(schema))
}

/// Whether carrying it out twice is not the same as once.
pub(crate) fn changes(prepared: &Prepared) -> bool {
    prepared.parsed().kind() != StatementKind::Read
}

/// GetFlightInfo of a statement.
///
/// # Errors
/// What is wrong with it.
pub(crate) async fn plan(
    caller: &Arc<Caller>,
    seal: &Seal,
    query: CommandStatementQuery,
    descriptor: FlightDescriptor,
) -> Result<FlightInfo> {
    let transaction = query.transaction_id.map(Vec::from);
    let session = caller.session_of(transaction.as_deref())?;
    let prepared = prepare(&session, &query.query, &[]).await?;
    if !prepared.parameter_types().is_empty() {
        return Err(Error::new(ErrorKind::UndefinedParameter, "there is no parameter $1")
            .with_hint("prepare the statement, and bind a batch with its parameters"));
    }
    if changes(&prepared) {
        let outcome = session.execute(&prepared, Vec::new()).await?;
        return done(caller, seal, (session, prepared), outcome, descriptor);
    }
    let schema = shape(&prepared);
    let parts = caller.options.lock().endpoints();
    let in_parts = parts > 1 && !prepared.parsed().is_ordered();
    let errands = if in_parts {
        let shared = Arc::new(SharedRows::new(session, prepared));
        caller.share(&shared, parts).into_iter().map(Errand::Part).collect()
    } else {
        let number = caller.number();
        vec![Errand::Statement(StatementErrand { sql: query.query, transaction, number })]
    };
    info(caller, seal, &schema, errands, !in_parts, descriptor)
}

/// What GetFlightInfo answers for a statement that it has carried out: such a one must not wait for a
/// client that may never redeem its ticket, nor be carried out again by one that does so twice. The
/// ticket is for the rows that it gave, if any.
///
/// # Errors
/// `FeatureNotSupported` for COPY.
pub(crate) fn done(
    caller: &Arc<Caller>,
    seal: &Seal,
    (session, prepared): (Arc<Session>, Arc<Prepared>),
    outcome: Outcome,
    descriptor: FlightDescriptor,
) -> Result<FlightInfo> {
    let schema = shape(&prepared);
    let (state, count) = match outcome {
        Outcome::Rows(rows) => (Shared::Reading(rows), -1),
        Outcome::Done(tag) => (Shared::Ended, count_of(&tag)),
        Outcome::Empty => (Shared::Ended, 0),
        Outcome::CopyIn(_) | Outcome::CopyOut(_) => return Err(no_copy()),
    };
    let shared =
        Arc::new(SharedRows { state: Mutex::new(state), ..SharedRows::new(session, prepared) });
    let errands = caller.share(&shared, 1).into_iter().map(Errand::Part).collect();
    let mut told = info(caller, seal, &schema, errands, true, descriptor)?;
    told.total_records = count;
    Ok(told)
}

fn no_copy() -> Error {
    Error::new(ErrorKind::FeatureNotSupported, "COPY … STDIN and STDOUT need the Postgres protocol")
        .with_hint("over Flight, DoPut takes rows, and a query gives them")
}

fn no_end() -> Error {
    Error::new(
        ErrorKind::WrongObjectType,
        "an update is answered when it has ended, and SUBSCRIBE has no end",
    )
    .with_hint("execute it as a query: its rows come as they are committed")
}

/// The number at the end of a command's tag.
fn count_of(tag: &str) -> i64 {
    tag.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// DoGet of a statement.
///
/// # Errors
/// What is wrong with it by now.
pub(crate) async fn run(caller: &Arc<Caller>, errand: StatementErrand) -> Result<Messages> {
    let running = caller.redeem(errand.number);
    let session = caller.session_of(errand.transaction.as_deref())?;
    let outcome = tokio::select! {
        biased;
        outcome = async {
            let prepared = prepare(&session, &errand.sql, &[]).await?;
            session.execute(&prepared, Vec::new()).await
        } => outcome?,
        error = running.cancelled() => return Err(error),
    };
    answer(running, outcome)
}

/// DoGet of a text that comes in the ticket itself, as InfluxDB 3's clients send it.
///
/// # Errors
/// What is wrong with it.
pub(crate) async fn run_text(caller: &Arc<Caller>, sql: String) -> Result<Messages> {
    let number = caller.number();
    run(caller, StatementErrand { sql, transaction: None, number }).await
}

/// What a statement gives, as messages.
///
/// # Errors
/// `FeatureNotSupported` for COPY, whose data has no place here.
pub(crate) fn answer(running: Running, outcome: Outcome) -> Result<Messages> {
    let compression = running.caller().options.lock().compression();
    match outcome {
        Outcome::Rows(rows) => {
            let schema = outgoing(rows.schema());
            let shared = rows.is_endless().then(|| Arc::clone(running.caller().encoded()));
            messages(schema, until_cancelled(running, rows), compression, shared)
        }
        Outcome::Done(_) | Outcome::Empty => {
            messages(no_columns(), stream::empty(), compression, None)
        }
        Outcome::CopyIn(_) | Outcome::CopyOut(_) => Err(no_copy()),
    }
}

/// Rows until their statement is cancelled.
pub(crate) fn until_cancelled(
    running: Running,
    rows: impl Stream<Item = Result<RecordBatch>> + Send + Unpin + 'static,
) -> impl Stream<Item = Result<RecordBatch>> + Send + 'static {
    stream::unfold(Some((running, rows)), |state| async move {
        let (running, mut rows) = state?;
        let next = tokio::select! {
            biased;
            error = running.cancelled() => Some(Err(error)),
            next = rows.next() => next,
        };
        match next {
            Some(Ok(batch)) => Some((Ok(batch), Some((running, rows)))),
            Some(Err(error)) => Some((Err(error), None)),
            None => None,
        }
    })
}

/// How many rows a statement that was carried out says it changed.
///
/// # Errors
/// `WrongObjectType` for SUBSCRIBE, whose rows are never all there; `FeatureNotSupported` for COPY;
/// what reading its rows says.
pub(crate) async fn changed(outcome: Outcome) -> Result<i64> {
    match outcome {
        Outcome::Done(tag) => Ok(count_of(&tag)),
        Outcome::Rows(rows) if rows.is_endless() => Err(no_end()),
        Outcome::Rows(mut rows) => {
            let mut count = 0_i64;
            while let Some(batch) = rows.next().await {
                count = count.saturating_add(i64::try_from(batch?.num_rows()).unwrap_or(i64::MAX));
            }
            Ok(count)
        }
        Outcome::Empty => Ok(0),
        Outcome::CopyIn(_) | Outcome::CopyOut(_) => Err(no_copy()),
    }
}

/// One result that several endpoints share: whoever reads gets the next batch. All of it is one
/// query with one snapshot, however many read.
pub(crate) struct SharedRows {
    session: Arc<Session>,
    prepared: Arc<Prepared>,
    state: Mutex<Shared>,
}

enum Shared {
    Waiting,
    Reading(stratalog_query::Rows),
    Ended,
}

impl std::fmt::Debug for SharedRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedRows").field("prepared", &self.prepared).finish_non_exhaustive()
    }
}

impl SharedRows {
    fn new(session: Arc<Session>, prepared: Arc<Prepared>) -> Self {
        Self { session, prepared, state: Mutex::new(Shared::Waiting) }
    }

    /// The next batch; the query begins with the first.
    async fn next(&self) -> Option<Result<RecordBatch>> {
        let mut state = self.state.lock().await;
        if let Shared::Waiting = *state {
            *state = match self.session.execute(&self.prepared, Vec::new()).await {
                Ok(Outcome::Rows(rows)) => Shared::Reading(rows),
                Ok(_) => Shared::Ended,
                Err(error) => {
                    *state = Shared::Ended;
                    return Some(Err(error));
                }
            };
        }
        let Shared::Reading(rows) = &mut *state else { return None };
        let next = rows.next().await;
        if !matches!(next, Some(Ok(_))) {
            *state = Shared::Ended;
        }
        next
    }
}

/// DoGet of a part.
///
/// # Errors
/// `ObjectNotInPrerequisiteState` for one that was read.
pub(crate) fn run_part(caller: &Arc<Caller>, number: u64) -> Result<Messages> {
    let shared = caller.part(number)?;
    let running = caller.redeem(number);
    let schema = shape(&shared.prepared);
    let compression = caller.options.lock().compression();
    let batches =
        stream::unfold(
            shared,
            |shared| async move { shared.next().await.map(|batch| (batch, shared)) },
        );
    messages(schema, until_cancelled(running, batches.boxed()), compression, None)
}
