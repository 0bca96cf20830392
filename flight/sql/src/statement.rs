//! Handlers for statements. GetFlightInfo plans a query, and DoGet runs the query. A statement that
//! changes data runs in GetFlightInfo.

use std::sync::Arc;

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use arrow_flight::{FlightDescriptor, FlightInfo, sql::CommandStatementQuery};
use futures::{Stream, StreamExt as _, stream};
use stratalog_flight_wire::{Seal, StatementWork, TicketWork};
use stratalog_model::{ColumnType, Error, ErrorKind, Result};
use stratalog_query::{Outcome, Prepared, Session, StatementKind};
use tokio::sync::Mutex;

use crate::{
    caller::{Caller, RunningWork},
    describe::info,
    encode::{Messages, messages},
    placeholders::numbered,
    wire_types::{no_columns, outgoing},
};

/// Plans the single statement in `sql`.
///
/// # Errors
/// `SyntaxError` for several statements; errors of the statement.
pub(crate) async fn prepare(
    session: &Arc<Session>,
    sql: &str,
    types: &[Option<ColumnType>],
) -> Result<Arc<Prepared>> {
    let parsed = session.parse(&numbered(sql.to_string()))?;
    match parsed.as_slice() {
        [one] => session.prepare(one, types).await,
        [] => Err(Error::new(ErrorKind::SyntaxError, "the text contains no statement")),
        several => Err(Error::new(
            ErrorKind::SyntaxError,
            format!(
                "the text contains {} statements: Flight SQL runs one statement at a time",
                several.len()
            ),
        )),
    }
}

/// The columns of the result in the types that clients receive; no columns for a statement without
/// rows.
pub(crate) fn shape(prepared: &Prepared) -> SchemaRef {
    prepared.result().map_or_else(no_columns, |schema| outgoing(schema))
}

/// True if the statement is not a pure read, so that it must run exactly once.
pub(crate) fn changes(prepared: &Prepared) -> bool {
    prepared.parsed().kind() != StatementKind::Read
}

/// Answers GetFlightInfo for a statement.
///
/// # Errors
/// Errors of the statement.
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
    let work_items = if in_parts {
        let shared = Arc::new(SharedRows::new(session, prepared));
        caller.share(&shared, parts).into_iter().map(TicketWork::Part).collect()
    } else {
        let number = caller.number();
        vec![TicketWork::Statement(StatementWork { sql: query.query, transaction, number })]
    };
    info(caller, seal, &schema, work_items, !in_parts, descriptor)
}

/// The answer to GetFlightInfo for a statement that has already run. A statement that changes data
/// runs in GetFlightInfo and therefore exactly once: a client may redeem a ticket never or twice.
/// The ticket gives access to the rows of the result, if there are any.
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
        Outcome::Rows(rows) => (SharedRowsState::Reading(rows), -1),
        Outcome::Done(tag) => (SharedRowsState::Ended, count_of(&tag)),
        Outcome::Empty => (SharedRowsState::Ended, 0),
        Outcome::CopyIn(_) | Outcome::CopyOut(_) => return Err(no_copy()),
    };
    let shared =
        Arc::new(SharedRows { state: Mutex::new(state), ..SharedRows::new(session, prepared) });
    let work_items = caller.share(&shared, 1).into_iter().map(TicketWork::Part).collect();
    let mut flight_info = info(caller, seal, &schema, work_items, true, descriptor)?;
    flight_info.total_records = count;
    Ok(flight_info)
}

fn no_copy() -> Error {
    Error::new(ErrorKind::FeatureNotSupported, "COPY … STDIN and STDOUT need the Postgres protocol")
        .with_hint("over Flight, use DoPut to write rows, and a query to read rows")
}

fn no_end() -> Error {
    Error::new(
        ErrorKind::WrongObjectType,
        "an update is answered at its end, and SUBSCRIBE has no end",
    )
    .with_hint("execute SUBSCRIBE as a query: a row arrives after its commit")
}

/// The number of rows at the end of a command tag, for example in `INSERT 0 5`.
fn count_of(tag: &str) -> i64 {
    tag.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Answers DoGet for the ticket of a statement: runs the statement.
///
/// # Errors
/// Errors of the statement.
pub(crate) async fn run(caller: &Arc<Caller>, work: StatementWork) -> Result<Messages> {
    let running = caller.redeem(work.number);
    let session = caller.session_of(work.transaction.as_deref())?;
    let outcome = tokio::select! {
        biased;
        outcome = async {
            let prepared = prepare(&session, &work.sql, &[]).await?;
            session.execute(&prepared, Vec::new()).await
        } => outcome?,
        error = running.cancelled() => return Err(error),
    };
    answer(running, outcome)
}

/// Answers DoGet for a ticket with SQL text, as the clients of InfluxDB 3 build.
///
/// # Errors
/// Errors of the statement.
pub(crate) async fn run_text(caller: &Arc<Caller>, sql: String) -> Result<Messages> {
    let number = caller.number();
    run(caller, StatementWork { sql, transaction: None, number }).await
}

/// Converts the result of a statement to messages.
///
/// # Errors
/// `FeatureNotSupported` for COPY, because Flight has no messages for its data.
pub(crate) fn answer(running: RunningWork, outcome: Outcome) -> Result<Messages> {
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

/// Wraps the rows of a statement in a stream that ends with an error when the statement is
/// cancelled.
pub(crate) fn until_cancelled(
    running: RunningWork,
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

/// The number of rows that a statement has changed.
///
/// # Errors
/// `WrongObjectType` for SUBSCRIBE, because its rows never end; `FeatureNotSupported` for COPY;
/// errors of reading the rows.
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

/// A query result shared by several tickets. Each batch goes to the reader that asks first. A
/// single query with a single snapshot produces the whole result.
pub(crate) struct SharedRows {
    session: Arc<Session>,
    prepared: Arc<Prepared>,
    state: Mutex<SharedRowsState>,
}

enum SharedRowsState {
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
        Self { session, prepared, state: Mutex::new(SharedRowsState::Waiting) }
    }

    /// Returns the next batch of the result. The first call starts the query.
    async fn next(&self) -> Option<Result<RecordBatch>> {
        let mut state = self.state.lock().await;
        if let SharedRowsState::Waiting = *state {
            *state = match self.session.execute(&self.prepared, Vec::new()).await {
                Ok(Outcome::Rows(rows)) => SharedRowsState::Reading(rows),
                Ok(_) => SharedRowsState::Ended,
                Err(error) => {
                    *state = SharedRowsState::Ended;
                    return Some(Err(error));
                }
            };
        }
        let SharedRowsState::Reading(rows) = &mut *state else { return None };
        let next = rows.next().await;
        if !matches!(next, Some(Ok(_))) {
            *state = SharedRowsState::Ended;
        }
        next
    }
}

/// Answers DoGet for a ticket to a part of a shared result.
///
/// # Errors
/// `ObjectNotInPrerequisiteState` if the ticket was redeemed before.
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
