//! Handlers for prepared statements and their bound parameters.

use std::sync::Arc;

use arrow::{
    array::RecordBatch,
    datatypes::{Field, Schema},
};
use arrow_flight::{
    FlightDescriptor, FlightInfo,
    sql::{ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult},
};
use datafusion::scalar::ScalarValue;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use parking_lot::Mutex;
use stratalog_flight_wire::{BoundParameters, PreparedWork, Seal, TicketWork};
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_query::{Outcome, Prepared, Session, TransactionState};

use crate::{
    caller::Caller,
    describe::{info, schema_bytes},
    encode::{Messages, messages},
    statement::{answer, changed, changes, done, prepare, shape, until_cancelled},
    transaction::run_command,
    wire_types::{no_columns, outgoing, plain_field},
};

/// A prepared statement.
pub(crate) struct Statement {
    session: Arc<Session>,
    sql: String,
    prepared: Mutex<Arc<Prepared>>,
    bound: Mutex<Option<Arc<BoundParameters>>>,
}

impl std::fmt::Debug for Statement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Statement").field("sql", &self.sql).finish_non_exhaustive()
    }
}

/// Answers CreatePreparedStatement: plans a statement, and registers its handle.
///
/// # Errors
/// Errors of the statement; `LimitExceeded`.
pub(crate) async fn create(
    caller: &Arc<Caller>,
    request: ActionCreatePreparedStatementRequest,
) -> Result<ActionCreatePreparedStatementResult> {
    let session = caller.session_of(request.transaction_id.as_deref())?;
    let prepared = prepare(&session, &request.query, &[]).await?;
    let parameters = prepared.parameter_types().iter().enumerate().map(|(at, column_type)| {
        plain_field(&column_type.arrow_field(&format!("${}", at + 1), true))
    });
    let parameters = Schema::new(parameters.collect::<Vec<Field>>());
    let result = ActionCreatePreparedStatementResult {
        dataset_schema: schema_bytes(&shape(&prepared))?,
        parameter_schema: schema_bytes(&parameters)?,
        prepared_statement_handle: caller
            .keep(Arc::new(Statement {
                session,
                sql: request.query,
                prepared: Mutex::new(prepared),
                bound: Mutex::default(),
            }))?
            .into(),
    };
    Ok(result)
}

/// Answers GetFlightInfo for a prepared statement: a query gets a ticket, any other statement runs.
///
/// # Errors
/// `UndefinedPreparedStatement`; errors of running a statement that changes data.
pub(crate) async fn plan(
    caller: &Arc<Caller>,
    seal: &Seal,
    handle: Vec<u8>,
    descriptor: FlightDescriptor,
) -> Result<FlightInfo> {
    let statement = caller.prepared_statement(&handle)?;
    let prepared = statement.prepared();
    if !changes(&prepared) {
        let number = caller.number();
        let work = TicketWork::Prepared(PreparedWork { handle, number });
        return info(caller, seal, &shape(&prepared), vec![work], true, descriptor);
    }
    let session = Arc::clone(&statement.session);
    let bound = statement.bound.lock().clone();
    let outcome = match (prepared.result(), bound) {
        (Some(_), Some(bound)) if bound.rows() != 1 => {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                format!("RETURNING with {} rows of parameters is not offered", bound.rows()),
            )
            .with_hint("omit RETURNING, or bind one row at a time; nothing was changed"));
        }
        (Some(_), bound) => {
            let row = match bound {
                Some(bound) => values(&session, &prepared, &bound)?.pop().unwrap_or_default(),
                None => Vec::new(),
            };
            session.execute(&prepared, row).await?
        }
        (None, _) => Outcome::Done(format!("UPDATED {}", update(&statement, None).await?)),
    };
    done(caller, seal, (session, prepared), outcome, descriptor)
}

/// The result columns of the prepared statement with the handle `handle`.
///
/// # Errors
/// `UndefinedPreparedStatement`.
pub(crate) fn schema_of(caller: &Caller, handle: &[u8]) -> Result<arrow::datatypes::SchemaRef> {
    Ok(shape(&caller.prepared_statement(handle)?.prepared()))
}

/// Answers DoGet for a prepared statement: runs the statement once per row of parameters, and
/// returns the rows of all runs in order.
///
/// # Errors
/// Errors of the statement, or of the parameters.
pub(crate) async fn run(caller: &Arc<Caller>, work: PreparedWork) -> Result<Messages> {
    let statement = caller.prepared_statement(&work.handle)?;
    let running = caller.redeem(work.number);
    let prepared = statement.prepared();
    let bound = statement.bound.lock().clone();
    let mut rows = match bound {
        None => vec![Vec::new()],
        Some(bound) => values(&statement.session, &prepared, &bound)?,
    };
    if rows.len() == 1 || prepared.result().is_none() {
        let mut outcome = Outcome::Empty;
        for values in rows {
            outcome = tokio::select! {
                biased;
                outcome = statement.session.execute(&prepared, values) => outcome?,
                error = running.cancelled() => return Err(error),
            };
        }
        return answer(running, outcome);
    }
    let schema = prepared.result().map_or_else(no_columns, |schema| outgoing(schema));
    rows.reverse();
    let session = Arc::clone(&statement.session);
    let parts =
        stream::unfold((rows, session, prepared), |(mut rows, session, prepared)| async move {
            let values = rows.pop()?;
            let part = match session.execute(&prepared, values).await {
                Ok(Outcome::Rows(rows)) => Ok(rows.boxed()),
                Ok(_) => Ok(stream::empty::<Result<RecordBatch>>().boxed()),
                Err(error) => Err(error),
            };
            Some((part, (rows, session, prepared)))
        });
    let compression = caller.options.lock().compression();
    messages(schema, until_cancelled(running, parts.try_flatten().boxed()), compression, None)
}

/// Binds a batch of parameters to a statement; `None` removes the bound parameters.
///
/// # Errors
/// Errors of the parameters.
pub(crate) async fn bind(statement: &Arc<Statement>, bound: Option<BoundParameters>) -> Result<()> {
    if let Some(bound) = &bound {
        statement.adapt(bound).await?;
        // Converts the values only to report invalid values now.
        values(&statement.session, &statement.prepared(), bound)?;
    }
    *statement.bound.lock() = bound.map(Arc::new);
    Ok(())
}

/// Runs a statement once per row of parameters, atomically. Returns the number of changed rows.
///
/// # Errors
/// Errors of the statement or of the parameters. After an error no row is changed.
pub(crate) async fn update(
    statement: &Arc<Statement>,
    bound: Option<BoundParameters>,
) -> Result<i64> {
    let bound = match bound {
        Some(bound) => Some(Arc::new(bound)),
        None => statement.bound.lock().clone(),
    };
    let bound = bound.filter(|bound| !bound.schema.fields().is_empty());
    let Some(bound) = bound else {
        let prepared = statement.prepared();
        return changed(statement.session.execute(&prepared, Vec::new()).await?).await;
    };
    statement.adapt(&bound).await?;
    let prepared = statement.prepared();
    if bound.rows() < 2 || statement.session.transaction() != TransactionState::Idle {
        return each(&statement.session, &prepared, &bound).await;
    }
    let session = statement.session.twin()?;
    let result = async {
        run_command(&session, "BEGIN").await?;
        let types: Vec<_> = prepared.parameter_types().iter().cloned().map(Some).collect();
        let prepared = session.prepare(prepared.parsed(), &types).await?;
        let count = each(&session, &prepared, &bound).await?;
        run_command(&session, "COMMIT").await?;
        Ok(count)
    };
    let result = result.await;
    session.close();
    result
}

async fn each(
    session: &Arc<Session>,
    prepared: &Arc<Prepared>,
    bound: &BoundParameters,
) -> Result<i64> {
    let mut count = 0_i64;
    for values in values(session, prepared, bound)? {
        let outcome = session.execute(prepared, values).await?;
        count = count.saturating_add(changed(outcome).await?);
    }
    Ok(count)
}

fn values(
    session: &Session,
    prepared: &Prepared,
    bound: &BoundParameters,
) -> Result<Vec<Vec<ScalarValue>>> {
    let mut rows = Vec::with_capacity(bound.rows());
    for batch in &bound.batches {
        rows.extend(session.bind_rows(prepared, batch)?);
    }
    // The columns of the result must not change, because the client received them before it sent
    // the parameters.
    if prepared.result().is_some() {
        for row in &rows {
            if prepared.exact(row)?.is_some() {
                return Err(Error::new(
                    ErrorKind::NumericOutOfRange,
                    "a parameter has more digits than the columns of the result are announced with",
                )
                .with_hint("name the type of the parameter: CAST($1 AS numeric(38, 18))"));
            }
        }
    }
    Ok(rows)
}

impl Statement {
    /// The present plan of the statement.
    fn prepared(&self) -> Arc<Prepared> {
        Arc::clone(&self.prepared.lock())
    }

    /// Plans the statement again if the types of the bound parameters determine parameter types
    /// that were unknown at the first planning.
    async fn adapt(&self, bound: &BoundParameters) -> Result<()> {
        let prepared = self.prepared();
        if let Some(types) = Session::types_from_batch(&prepared, &bound.schema) {
            *self.prepared.lock() = self.session.prepare(prepared.parsed(), &types).await?;
        }
        Ok(())
    }
}
