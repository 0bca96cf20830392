//! DROP TABLE … ASYNC: drops a table after the last session that has acquired the table has
//! released the table (F7).
//!
//! ```text
//!   mark the table: no new acquisitions or writes ─► all released ─► dropped before the answer
//!                                                 └► not yet ─► a task waits, then drops the table
//! ```
//! The mark exists only in memory, like the acquisitions. If the server stops before the release,
//! the table is not dropped.

use std::sync::{Arc, Weak};

use stratalog_model::{ChronicleId, ErrorKind, Result};
use stratalog_postgres::parse::DropMode;
use stratalog_visor_core::{access::Identity, catalog::Command};

use super::carry_out;
use crate::{
    Notice, QueryService, Session,
    session::{acquisitions::wait_out, work::Work},
};

/// Drops tables that no session has acquired immediately, and the other tables after their release.
/// Returns the notices.
///
/// # Errors
/// `ActiveTransaction` in a block; `LeaseLost` when the session's lease on a table has run out;
/// errors of the drop.
pub async fn drop_tables(
    session: &Session,
    commands: Vec<Command>,
    work: &Work,
) -> Result<Vec<String>> {
    session.transaction.check_outside("DROP TABLE … ASYNC")?;
    let state = session.catalog();
    let is_there = |command: &Command| !command.drops(&state).is_empty();
    let (found, missing): (Vec<Command>, Vec<Command>) = commands.into_iter().partition(is_there);
    let found: Vec<ChronicleId> = found.iter().flat_map(|command| command.drops(&state)).collect();
    let drops: Vec<Command> = found.iter().map(|id| Command::DropKnown { id: *id }).collect();
    session.parts().catalog.check(&session.whole_catalog(), &session.identity(), &drops)?;
    found.iter().try_for_each(|chronicle| session.check_lease(*chronicle))?;
    let mut notices = Vec::new();
    if !missing.is_empty() {
        // Under IF EXISTS, a missing table causes only a notice.
        notices.extend(carry_out(session, missing, DropMode::IfReleased, work).await?);
    }
    let acquisitions = session.acquisitions();
    let mut free = Vec::new();
    for chronicle in found {
        let is_first = acquisitions.mark(chronicle, session.holder());
        if acquisitions.until_released(chronicle).is_none() {
            free.push(chronicle);
            continue;
        }
        if is_first {
            drop_later(session, chronicle);
        }
        let name = state.chronicle_by_id(chronicle).map_or("", |known| known.name.as_str());
        session.say(Notice::new(format!(
            "table \"{name}\" is dropped after the last session has released the table"
        )));
    }
    if free.is_empty() {
        return Ok(notices);
    }
    let commands = free.iter().map(|id| Command::DropKnown { id: *id }).collect();
    let dropped = carry_out(session, commands, DropMode::IfReleased, work).await;
    if dropped.is_err() {
        free.iter().for_each(|chronicle| acquisitions.unmark(*chronicle));
    }
    notices.extend(dropped?);
    Ok(notices)
}

/// Starts a task that drops a chronicle after the last release. The drop does not happen if the
/// server ends first.
fn drop_later(session: &Session, chronicle: ChronicleId) {
    let (service, ends) =
        (Arc::downgrade(session.service()), session.service().subscriptions_end());
    tokio::spawn(async move {
        tokio::select! {
            _ = ends => {}
            () = when_released(service, chronicle) => {}
        }
    });
}

async fn when_released(service: Weak<QueryService>, chronicle: ChronicleId) {
    loop {
        let Some(known) = service.upgrade() else { return };
        let pause = known.parts().acquisitions.until_released(chronicle);
        drop(known);
        match pause {
            Some(pause) => wait_out(pause).await,
            None => break,
        }
    }
    let Some(service) = service.upgrade() else { return };
    let parts = service.parts();
    // The statement checked the rights of its session.
    match parts.catalog.apply(Identity::System, Command::DropKnown { id: chronicle }).await {
        Ok(_) => parts.store.forget(chronicle),
        // DROP TABLE … FORCE already dropped the table.
        Err(error) if error.kind() == ErrorKind::UndefinedTable => {}
        Err(error) => tracing::error!(%error, %chronicle, "a table dropped ASYNC was not removed"),
    }
    parts.acquisitions.forget(chronicle);
}
