//! DoPut and DoExchange: calls in which a client sends rows.

use std::{sync::Arc, time::Duration};

use arrow_flight::{
    FlightData, FlightDescriptor, PutResult,
    flight_descriptor::DescriptorType,
    sql::{Command, CommandStatementUpdate, DoPutPreparedStatementResult, DoPutUpdateResult},
};
use futures::{StreamExt as _, stream};
use prost::Message as _;
use stratalog_flight_wire::{Batches, InboundMessages, broken_off, command, shutting_down};
use stratalog_model::{Error, ErrorKind, Result};
use tokio::{sync::Mutex, time::timeout};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::{
    acknowledgement,
    caller::Caller,
    ingest, prepared,
    statement::{changed, prepare},
    status::{malformed, refused},
};

/// Maximum number of messages that the server still reads from the client after a failed call.
const DRAINED_MESSAGES_MAX: usize = 1_000;

/// Maximum time for which the server still reads messages from the client after a failed call.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// The acknowledgements that a DoPut call sends to the client.
pub(crate) type Acknowledgements = stream::BoxStream<'static, Result<PutResult, Status>>;

/// Wraps the messages of a call in a stream that ends with an error when the server shuts down.
/// Thus a client that continues to send does not delay the shutdown. The server still acknowledges
/// messages stored before the shutdown.
pub(crate) fn until_shutdown(
    messages: InboundMessages,
    shutdown: &CancellationToken,
) -> InboundMessages {
    let shutdown = Box::pin(shutdown.clone().cancelled_owned());
    stream::unfold(Some((messages, shutdown)), |state| async move {
        let (mut messages, mut shutdown) = state?;
        tokio::select! {
            biased;
            () = &mut shutdown => Some((Err(refused(shutting_down())), None)),
            next = messages.next() => Some((next?, Some((messages, shutdown)))),
        }
    })
    .boxed()
}

/// Reads the descriptor from the first message. Returns the descriptor, and the stream of all
/// messages including the first.
///
/// # Errors
/// `InvalidArgument` if there is no message, or no descriptor.
pub(crate) async fn opened(
    mut messages: InboundMessages,
) -> Result<(FlightDescriptor, InboundMessages), Status> {
    let Some(first) = messages.next().await else {
        return Err(malformed("the call ended before its first message"));
    };
    let first: FlightData = first.map_err(|status| refused(broken_off(&status)))?;
    let Some(descriptor) = first.flight_descriptor.clone() else {
        return Err(malformed(
            "the first message has no descriptor: a descriptor names a command, or the path of a table",
        ));
    };
    Ok((descriptor, stream::iter([Ok(first)]).chain(messages).boxed()))
}

/// Answers a DoPut call.
///
/// # Errors
/// Errors before the first append. Errors of appends come in the stream of acknowledgements.
pub(crate) async fn put(
    caller: &Arc<Caller>,
    messages: InboundMessages,
) -> Result<Acknowledgements, Status> {
    let (descriptor, messages) = opened(messages).await?;
    match descriptor.r#type() {
        DescriptorType::Path => {
            let rows = acknowledgement::by_path(caller, &descriptor.path, messages).await;
            let acknowledged = rows
                .map_err(refused)?
                .map(|acknowledged| acknowledged.map(|app_metadata| PutResult { app_metadata }));
            Ok(acknowledged.boxed())
        }
        DescriptorType::Cmd => by_command(caller, &descriptor, messages).await,
        DescriptorType::Unknown => Err(malformed("the descriptor has no type: CMD or PATH")),
    }
}

async fn by_command(
    caller: &Arc<Caller>,
    descriptor: &FlightDescriptor,
    messages: InboundMessages,
) -> Result<Acknowledgements, Status> {
    let answer = match command::command_of(&descriptor.cmd).map_err(refused)? {
        Command::CommandStatementUpdate(update) => {
            count(statement_update(caller, update).await.map_err(refused)?)
        }
        Command::CommandStatementIngest(wanted) => {
            let (messages, rest) = shared(messages);
            match ingest::statement(caller, wanted, messages).await {
                Ok(rows) => count(rows),
                Err(error) => {
                    drain(&rest).await;
                    return Err(refused(error));
                }
            }
        }
        Command::CommandPreparedStatementUpdate(update) => {
            let statement =
                caller.prepared_statement(&update.prepared_statement_handle).map_err(refused)?;
            let bound = Batches::new(messages, caller.settings.batch_limits())
                .all(caller.settings.bound_bytes_max)
                .await;
            let updated = prepared::update(&statement, bound.map_err(refused)?).await;
            count(updated.map_err(refused)?)
        }
        Command::CommandPreparedStatementQuery(query) => {
            let statement =
                caller.prepared_statement(&query.prepared_statement_handle).map_err(refused)?;
            let bound = Batches::new(messages, caller.settings.batch_limits())
                .all(caller.settings.bound_bytes_max)
                .await;
            prepared::bind(&statement, bound.map_err(refused)?).await.map_err(refused)?;
            let handle = Some(query.prepared_statement_handle);
            DoPutPreparedStatementResult { prepared_statement_handle: handle }.encode_to_vec()
        }
        Command::CommandStatementSubstraitPlan(_) => return Err(refused(no_substrait())),
        other => {
            return Err(malformed(format!("{} is not for DoPut", other.type_url())));
        }
    };
    let answer = PutResult { app_metadata: answer.into() };
    Ok(stream::iter([Ok(answer)]).boxed())
}

/// Splits the messages of a call: returns a stream for the handler, and a handle to the messages
/// that the handler leaves unread.
fn shared(messages: InboundMessages) -> (InboundMessages, Arc<Mutex<InboundMessages>>) {
    let rest = Arc::new(Mutex::new(messages));
    let reading = stream::unfold(Arc::clone(&rest), |messages| async move {
        let next = messages.lock().await.next().await?;
        Some((next, messages))
    });
    (reading.boxed(), rest)
}

/// Reads the messages that are still in transit after a failure. Otherwise some clients report only
/// that a send failed, and not the reason.
async fn drain(rest: &Mutex<InboundMessages>) {
    let mut rest = rest.lock().await;
    let messages = async {
        for _ in 0..DRAINED_MESSAGES_MAX {
            if !matches!(rest.next().await, Some(Ok(_))) {
                break;
            }
        }
    };
    // A client that waits for the answer gets the answer after the timeout at the latest.
    let _ = timeout(DRAIN_TIMEOUT, messages).await;
}

fn count(record_count: i64) -> Vec<u8> {
    DoPutUpdateResult { record_count }.encode_to_vec()
}

async fn statement_update(caller: &Arc<Caller>, update: CommandStatementUpdate) -> Result<i64> {
    let session = caller.session_of(update.transaction_id.as_deref())?;
    let prepared = prepare(&session, &update.query, &[]).await?;
    changed(session.execute(&prepared, Vec::new()).await?).await
}

/// Answers a DoExchange call: works like DoPut to a table, but sends the acknowledgements as Flight
/// data messages.
///
/// # Errors
/// The errors of [`put`].
pub(crate) async fn exchange(
    caller: &Arc<Caller>,
    messages: InboundMessages,
) -> Result<stream::BoxStream<'static, Result<FlightData, Status>>, Status> {
    let (descriptor, messages) = opened(messages).await?;
    if descriptor.r#type() != DescriptorType::Path {
        return Err(refused(
            Error::new(ErrorKind::FeatureNotSupported, "DoExchange accepts only rows for a table")
                .with_hint("give the path of the table: [table] or [schema, table]"),
        ));
    }
    let rows =
        acknowledgement::by_path(caller, &descriptor.path, messages).await.map_err(refused)?;
    let flight_data = rows.map(|acknowledged| {
        acknowledged.map(|app_metadata| FlightData { app_metadata, ..FlightData::default() })
    });
    Ok(flight_data.boxed())
}

/// The error for calls with Substrait plans, which the server does not support.
pub(crate) fn no_substrait() -> Error {
    Error::new(ErrorKind::FeatureNotSupported, "Substrait plans are not offered")
        .with_hint("send the query as SQL")
}
