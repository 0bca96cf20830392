//! The actions of Flight and Flight SQL (the RPCs DoAction and ListActions).

use std::sync::Arc;

use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightInfo,
    RenewFlightEndpointRequest,
    sql::{
        ActionBeginTransactionResult, ActionCancelQueryRequest, ActionCancelQueryResult,
        ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest,
        ActionEndTransactionRequest, ProstMessageExt as _,
    },
};
use prost::Message as _;
use stratalog_flight_wire::{
    Seal, SealedTicket, TicketWork,
    command::{packed, plain},
    options::{CloseOutcome, SessionOptions},
};
use stratalog_model::{Error, ErrorKind};
use tonic::Status;

use crate::{
    caller::{Caller, Callers},
    connection::Peer,
    options, prepared, put,
    status::refused,
    transaction,
};

/// The name and the description of each action.
const ACTIONS: [(&str, &str); 11] = [
    ("CreatePreparedStatement", "Prepares a statement, and returns its columns and parameters."),
    ("ClosePreparedStatement", "Closes a prepared statement."),
    ("BeginTransaction", "Begins a transaction for statements with the id of the transaction."),
    ("EndTransaction", "Commits or rolls back a transaction."),
    ("CancelFlightInfo", "Cancels the query of a FlightInfo."),
    ("CancelQuery", "CancelFlightInfo in the form of older clients."),
    ("RenewFlightEndpoint", "Returns a ticket with a later expiration time."),
    ("SetSessionOptions", "Changes settings of the session."),
    ("GetSessionOptions", "Returns the settings of the session."),
    ("CloseSession", "Ends the session, with its open transactions and statements."),
    (
        "SyncClock",
        "Returns the server's time, as JSON: now_ns, rate_ppb, uncertainty_ns, epoch, steps.",
    ),
];

/// The answer to ListActions: all actions with their descriptions.
pub(super) fn list() -> Vec<ActionType> {
    let listed = ACTIONS.iter().map(|(name, description)| ActionType {
        r#type: (*name).to_string(),
        description: (*description).to_string(),
    });
    listed.collect()
}

/// The context of an action: the service, and the call.
#[derive(Debug)]
pub(super) struct ActionContext<'a> {
    pub(super) callers: &'a Callers,
    pub(super) seal: &'a Seal,
    pub(super) peer: Option<&'a Arc<Peer>>,
}

/// Runs an action; returns the body of the answer, if any.
///
/// # Errors
/// `Unimplemented` for an unknown action; errors of the action.
pub(super) async fn act(
    call: &ActionContext<'_>,
    caller: &Arc<Caller>,
    action: Action,
) -> Result<std::option::IntoIter<Vec<u8>>, Status> {
    let body = &action.body;
    let answer = match action.r#type.as_str() {
        "CreatePreparedStatement" => {
            let request: ActionCreatePreparedStatementRequest = packed(body).map_err(refused)?;
            let made = prepared::create(caller, request).await.map_err(refused)?;
            Some(made.as_any().encode_to_vec())
        }
        "ClosePreparedStatement" => {
            let request: ActionClosePreparedStatementRequest = packed(body).map_err(refused)?;
            caller.close(&request.prepared_statement_handle);
            None
        }
        "BeginTransaction" => {
            let id = transaction::begin(caller).await.map_err(refused)?;
            let begun = ActionBeginTransactionResult { transaction_id: id.into() };
            Some(begun.as_any().encode_to_vec())
        }
        "EndTransaction" => {
            let request: ActionEndTransactionRequest = packed(body).map_err(refused)?;
            transaction::end(caller, &request).await.map_err(refused)?;
            None
        }
        "BeginSavepoint" | "EndSavepoint" => return Err(refused(transaction::no_savepoints())),
        "CreatePreparedSubstraitPlan" => return Err(refused(put::no_substrait())),
        "CancelFlightInfo" => {
            let request: CancelFlightInfoRequest = plain(body).map_err(refused)?;
            let info = request.info.unwrap_or_default();
            let status = match cancel(call, caller, &info) {
                true => CancelStatus::Cancelled,
                false => CancelStatus::NotCancellable,
            };
            Some(CancelFlightInfoResult { status: status as i32 }.encode_to_vec())
        }
        "CancelQuery" => {
            let request: ActionCancelQueryRequest = packed(body).map_err(refused)?;
            let info: FlightInfo = plain(&request.info).map_err(refused)?;
            // The protocol's numbers for CANCELLED (1) and NOT_CANCELLABLE (3).
            let result = if cancel(call, caller, &info) { 1 } else { 3 };
            Some(ActionCancelQueryResult { result }.as_any().encode_to_vec())
        }
        "RenewFlightEndpoint" => {
            let request: RenewFlightEndpointRequest = plain(body).map_err(refused)?;
            let mut endpoint = request.endpoint.unwrap_or_default();
            let ticket = endpoint.ticket.take().unwrap_or_default();
            let work = work_of(call, caller, &ticket.ticket).map_err(refused)?;
            endpoint.ticket = Some(crate::describe::ticket(caller, call.seal, work));
            Some(endpoint.encode_to_vec())
        }
        "SetSessionOptions" => {
            let wanted: SessionOptions = plain(body).map_err(refused)?;
            Some(options::set(caller, wanted).encode_to_vec())
        }
        "GetSessionOptions" => Some(options::get(caller).encode_to_vec()),
        "SyncClock" => Some(reading(caller).map_err(refused)?),
        "CloseSession" => {
            call.callers.forget(caller, call.peer);
            Some(CloseOutcome::now().encode_to_vec())
        }
        other => {
            return Err(refused(
                Error::new(
                    ErrorKind::FeatureNotSupported,
                    format!("the action \"{other}\" is not offered"),
                )
                .with_hint("ListActions lists the supported actions"),
            ));
        }
    };
    Ok(answer.into_iter())
}

/// The present reading of the master clock, as JSON.
fn reading(caller: &Caller) -> stratalog_model::Result<Vec<u8>> {
    serde_json::to_vec(&caller.clock().reading())
        .map_err(|error| Error::internal(format!("a reading of the clock: {error}")))
}

/// Cancels the work of all tickets in `info`. Returns true if there was anything to cancel.
fn cancel(call: &ActionContext<'_>, caller: &Arc<Caller>, info: &FlightInfo) -> bool {
    let mut any = false;
    for endpoint in &info.endpoint {
        let Some(ticket) = &endpoint.ticket else { continue };
        any |= match work_of(call, caller, &ticket.ticket) {
            Ok(TicketWork::Statement(work)) => caller.cancel_ticket(work.number),
            Ok(TicketWork::Prepared(work)) => caller.cancel_ticket(work.number),
            Ok(TicketWork::Part(number)) => caller.cancel_ticket(number),
            Ok(TicketWork::Metadata(_)) | Err(_) => false,
        };
    }
    any
}

fn work_of(
    call: &ActionContext<'_>,
    caller: &Arc<Caller>,
    ticket: &[u8],
) -> stratalog_model::Result<TicketWork> {
    SealedTicket::open(ticket, call.seal, caller.id().as_bytes(), caller.now_ns())
}
