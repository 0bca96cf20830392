//! DELETE inside of a transaction block. The rows disappear immediately for the block, and at
//! COMMIT for other sessions. The block's append stores the deleted range, so one record commits
//! the DELETE and all rows of the block.

use std::sync::Arc;

use futures::TryStreamExt;
use stratalog_model::{
    ChronicleDefinition, Error, ErrorKind, Result, Snapshot, Tick, TickRange, TickRanges,
    store::AppendOptions,
    tier::{ScanOrder, ScanRequest},
};

use crate::Session;

/// Maximum number of rows in a batch while events are counted.
const BATCH_ROWS_MAX: usize = 8_192;

/// Removes the events of `range` from the open block's view. Returns the number of removed events.
///
/// # Errors
/// `FeatureNotSupported` when the block sees events on both sides of `range`; `LimitExceeded` for too many
/// deletes in one block; `DeadlockDetected` when a merge of these events waits for the block.
pub async fn delete(
    session: &Session,
    chronicle: &Arc<ChronicleDefinition>,
    range: TickRange,
) -> Result<u64> {
    if range.is_empty() {
        return Ok(0);
    }
    let store = session.store().as_ref();
    let snapshot = session.transaction.snapshot(store, &[chronicle.id]).await?;
    let seen = async |ticks: TickRange| count(snapshot.as_ref(), chronicle, ticks).await;
    let rows = seen(range).await?;
    let before = seen(TickRange::new(Tick::MIN, range.start)).await?;
    let after = seen(TickRange::new(range.end, Tick::END)).await?;
    if before > 0 && after > 0 {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            format!(
                "DELETE can only remove events from the beginning or the end of \"{}\"",
                chronicle.name
            ),
        )
        .with_detail(format!("{before} events are before the range and {after} events are after the range"))
        .with_hint("a chronicle is append-only: extend the range to the beginning or the end of the chronicle"));
    }
    if rows > 0 {
        session.transaction.note_delete(chronicle.id);
        let begin = || session.store().begin(options(session));
        let mut lent_append = session.transaction.lend(false, begin)?;
        lent_append.append()?.delete(chronicle, range).await?;
        lent_append.finish(chronicle.id);
    }
    Ok(rows)
}

/// The options of an append that stores a delete.
pub fn options(session: &Session) -> AppendOptions {
    AppendOptions { acceptance: session.acceptance(), ..AppendOptions::default() }
}

/// The number of events of a range in a snapshot.
async fn count(
    snapshot: &dyn Snapshot,
    chronicle: &Arc<ChronicleDefinition>,
    ticks: TickRange,
) -> Result<u64> {
    if ticks.is_empty() {
        return Ok(0);
    }
    let ticks: TickRanges = ticks.into();
    if let Some(extent) = snapshot.extent(chronicle, &ticks) {
        return Ok(extent.rows);
    }
    let streams = snapshot.scan(ScanRequest {
        chronicle: Arc::clone(chronicle),
        // The first system column, `_tick`.
        projection: vec![chronicle.columns.len()],
        ticks,
        gsns: stratalog_model::GsnRange::ALL,
        keys: Vec::new(),
        values: Vec::new(),
        order: ScanOrder::Any,
        newest_of: None,
        limit: None,
        batch_rows_max: BATCH_ROWS_MAX,
        streams: 1,
        metrics: Arc::default(),
        memory: None,
    })?;
    let mut rows = 0_u64;
    for mut stream in streams {
        while let Some(batch) = stream.try_next().await? {
            rows = rows.saturating_add(batch.num_rows() as u64);
        }
    }
    Ok(rows)
}
