//! `SELECT … AS OF SEALED`: reads only the part of the tables that can no longer change (CL-5,
//! F24).
//!
//! ```text
//!   AS OF SEALED ─► parser input: FOR SHARE OF a reserved name ─► planning removes the clause
//!     (tokens)                                 EventStore::seal ─► snapshot, only sealed ticks
//! ```

use std::sync::Arc;

use stratalog_model::{
    ChronicleDefinition, ChronicleId, Error, ErrorKind, EventStore, Result, Snapshot, Tick,
    TickRange,
};

/// Checks that all tables of a query can be read AS OF SEALED.
///
/// # Errors
/// `ObjectNotInPrerequisiteState` for a table with times from the data.
pub fn check(tables: &[Arc<ChronicleDefinition>]) -> Result<()> {
    let Some(table) = tables.iter().find(|table| !table.time_source.is_clocked()) else {
        return Ok(());
    };
    Err(Error::new(
        ErrorKind::ObjectNotInPrerequisiteState,
        format!(
            "nothing of table \"{}\" is ever sealed: events of any time may still come",
            table.name
        ),
    )
    .with_subject(table.subject())
    .with_hint("AS OF SEALED is for tables with time_source = 'client' or 'server'"))
}

/// Moves the sealed tick of each table as far ahead as possible, before the session takes a
/// snapshot. No event can arrive up to the sealed tick.
///
/// # Errors
/// `UndefinedTable` for a table that another session dropped.
pub fn seal(store: &dyn EventStore, tables: &[Arc<ChronicleDefinition>]) -> Result<()> {
    tables.iter().try_for_each(|table| store.seal(table).map(drop))
}

/// For each table, the range of ticks in the snapshot that can no longer change.
pub fn parts(
    snapshot: &dyn Snapshot,
    tables: &[Arc<ChronicleDefinition>],
) -> impl Iterator<Item = (ChronicleId, TickRange)> {
    tables.iter().map(move |table| {
        let sealed = snapshot.sealed(table);
        let ticks = sealed.map(|sealed| TickRange::new(Tick::MIN, sealed.next()));
        (table.id, ticks.unwrap_or(TickRange::EMPTY))
    })
}
