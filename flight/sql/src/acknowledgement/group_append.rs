//! Stores several batches in a single append.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use serde::Serialize;
use stratalog_model::{
    Error, Result,
    store::{AppendOptions, CommittedAppend},
};

use super::{IngestTarget, WaitingBatch};
use crate::ingest::at;

/// The result of an append of a group of batches.
pub(super) struct AppendOutcome {
    /// The acknowledgements of the stored batches. The stored batches are the first batches of the
    /// group.
    pub(super) acknowledgements: Vec<Bytes>,
    /// The error of the first batch that is not stored; `None` if all batches are stored.
    pub(super) error: Option<Error>,
}

/// The acknowledgement of a batch, as JSON.
#[derive(Debug, Serialize)]
struct BatchAcknowledgement {
    /// The number of the batch in its call, from 1.
    batch: u64,
    /// Number of stored rows.
    rows: u64,
    /// The gsn of the first stored row; null if no row was stored.
    first_gsn: Option<u64>,
    /// The gsn of the last stored row; null if no row was stored.
    last_gsn: Option<u64>,
    /// The durability of the rows.
    durability: String,
    /// True if the server had stored the batch before: the producer sent it again.
    duplicate: bool,
    /// The number that the producer gave the batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<u64>,
}

/// The number of waiting batches that one append can store. Counts from the first batch as long as
/// the batches request the same durability, and have either no producer, or the same producer with
/// ascending numbers.
pub(super) fn count(waiting: &VecDeque<WaitingBatch>) -> usize {
    let pairs = waiting.iter().zip(waiting.iter().skip(1));
    let follows = |(before, next): &(&WaitingBatch, &WaitingBatch)| {
        before.batch_metadata.durability == next.batch_metadata.durability
            && match (before.batch_metadata.producer, next.batch_metadata.producer) {
                (None, None) => true,
                (Some((producer, number)), Some((same, higher))) => {
                    producer == same && number < higher
                }
                _ => false,
            }
    };
    pairs.take_while(follows).count() + 1
}

/// Stores a group of batches, chosen by [`count`].
pub(super) async fn store(table: Arc<IngestTarget>, group: Vec<WaitingBatch>) -> AppendOutcome {
    if group.len() > 1
        && let Ok(all) = append(&table, &group).await
    {
        return acknowledgements(all, None);
    }
    // The append of the whole group failed and stored nothing, so each batch is stored separately.
    let mut all = Vec::with_capacity(group.len());
    for batch in &group {
        match append(&table, std::slice::from_ref(batch)).await {
            Ok(one) => all.extend(one),
            Err(error) => return acknowledgements(all, Some(at(error, batch.number))),
        }
    }
    acknowledgements(all, None)
}

/// Builds the outcome, with the acknowledgements as JSON. If an acknowledgement cannot be encoded,
/// the outcome has this error; the caller then does not store the batch again.
fn acknowledgements(all: Vec<BatchAcknowledgement>, mut error: Option<Error>) -> AppendOutcome {
    let mut acknowledgements = Vec::with_capacity(all.len());
    for one in all {
        match serde_json::to_vec(&one) {
            Ok(json) => acknowledgements.push(json.into()),
            Err(failed) => {
                error = Some(Error::internal(format!("an acknowledgement: {failed}")));
                break;
            }
        }
    }
    AppendOutcome { acknowledgements, error }
}

/// Stores the batches of a group in one append; returns their acknowledgements. After an error no
/// row is stored.
async fn append(table: &IngestTarget, group: &[WaitingBatch]) -> Result<Vec<BatchAcknowledgement>> {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return Ok(Vec::new()) };
    let options = AppendOptions {
        durability: last.batch_metadata.durability,
        producer: last.batch_metadata.producer,
        producer_from: first.batch_metadata.producer.map(|(_, number)| number),
        ..AppendOptions::default()
    };
    let mut append = table.session.append(&table.what, options)?;
    let mut counts = Vec::with_capacity(group.len());
    for batch in group {
        counts.push(append.push(table.ingest.table(), batch.rows.clone()).await?);
    }
    let appended = append.commit().await?;
    let mut next_gsn = appended.first_gsn.map(|gsn| gsn.0);
    let acknowledgements = group.iter().zip(counts);
    Ok(acknowledgements
        .map(|(batch, rows)| acknowledged(batch, rows, &appended, &mut next_gsn))
        .collect())
}

/// The acknowledgement of one batch. `next_gsn` is the gsn (position in the order of commits) of
/// the batch's first row.
fn acknowledged(
    batch: &WaitingBatch,
    rows: u64,
    appended: &CommittedAppend,
    next_gsn: &mut Option<u64>,
) -> BatchAcknowledgement {
    let rows = if appended.duplicate { 0 } else { rows };
    let first_gsn = next_gsn.filter(|_| rows > 0);
    *next_gsn = next_gsn.map(|next| next.saturating_add(rows));
    BatchAcknowledgement {
        batch: batch.number,
        rows,
        first_gsn,
        last_gsn: first_gsn.map(|first| first.saturating_add(rows - 1)),
        durability: appended.durability.to_string(),
        duplicate: appended.duplicate,
        sequence: batch.batch_metadata.producer.map(|(_, sequence)| sequence),
    }
}
