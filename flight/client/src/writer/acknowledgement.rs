//! Acknowledgements of written rows.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use serde::{Deserialize, Serialize};
use stratalog_model::Durability;
use tokio::sync::oneshot;

use crate::error::{Error, Result};

/// The metadata that the client sends with a batch, as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct BatchMetadata {
    pub(crate) producer: String,
    pub(crate) sequence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) durability: Option<String>,
}

/// The server's answer to a batch, as JSON.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Answer {
    pub(crate) first_gsn: Option<u64>,
    pub(crate) last_gsn: Option<u64>,
    pub(crate) durability: String,
    pub(crate) duplicate: bool,
    pub(crate) sequence: Option<u64>,
}

/// The server's confirmation that it has stored rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Acknowledgement {
    /// The number of stored rows.
    pub rows: u64,
    /// The number of batches that the server had already stored when the client sent them again.
    /// The global sequence numbers of their rows are unknown.
    pub duplicates: u64,
    /// The lowest global sequence number (gsn) of the rows, if known.
    pub first_gsn: Option<u64>,
    /// The highest gsn of the rows, if known. Events of other writers may have numbers between the
    /// lowest and the highest gsn, unless the number of rows equals the length of this range.
    pub last_gsn: Option<u64>,
    /// The durability that all rows have; `None` if no row was stored.
    pub durability: Option<Durability>,
}

impl Acknowledgement {
    pub(crate) fn of(rows: u64, answer: &Answer) -> Self {
        Self {
            rows,
            duplicates: u64::from(answer.duplicate),
            first_gsn: answer.first_gsn,
            last_gsn: answer.last_gsn,
            durability: answer.durability.parse().ok(),
        }
    }

    /// Narrows the range of gsn's. Before the call the range covers a batch of `all` rows;
    /// afterwards it covers only the rows of this acknowledgement, which begin at index `row` of
    /// the batch. Without exactly one gsn per row, the range stays unchanged.
    pub(crate) fn narrow(&mut self, row: u64, all: u64) {
        let (Some(first), Some(last)) = (self.first_gsn, self.last_gsn) else { return };
        if self.rows > 0 && last.checked_sub(first) == all.checked_sub(1) {
            self.first_gsn = first.checked_add(row);
            self.last_gsn = first.checked_add(row.saturating_add(self.rows) - 1);
        }
    }

    /// Adds the counts of another acknowledgement, extends the range of gsn's, and keeps the weaker
    /// durability.
    pub(crate) fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        self.duplicates += other.duplicates;
        self.first_gsn = [self.first_gsn, other.first_gsn].into_iter().flatten().min();
        self.last_gsn = self.last_gsn.max(other.last_gsn);
        self.durability = [self.durability, other.durability].into_iter().flatten().min();
    }
}

/// The outcome of a batch, or of a slice of a batch that the writer split.
pub(crate) type Outcome = Result<Acknowledgement>;

/// The future acknowledgement of a written batch: await the acknowledgement, or drop this value and
/// use [`Writer::flush`](crate::Writer::flush).
#[derive(Debug)]
pub struct Delivery {
    number: u64,
    whole: bool,
    pieces: std::vec::IntoIter<oneshot::Receiver<Outcome>>,
    waiting: Option<oneshot::Receiver<Outcome>>,
    total: Acknowledgement,
    refused: Option<Error>,
}

impl Delivery {
    pub(crate) fn new(number: u64, pieces: Vec<oneshot::Receiver<Outcome>>) -> Self {
        let whole = pieces.len() <= 1;
        let mut pieces = pieces.into_iter();
        let waiting = pieces.next();
        Self { number, whole, pieces, waiting, total: Acknowledgement::default(), refused: None }
    }

    /// True if the writer did not split the batch, so that the server stores the batch atomically.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    /// The number of the batch, as in [`Error::batch`](crate::Error::batch); for a batch that the
    /// writer split, the number of the first slice.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl Future for Delivery {
    type Output = Result<Acknowledgement>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        while let Some(receiver) = &mut self.waiting {
            let Poll::Ready(outcome) = Pin::new(receiver).poll(context) else {
                return Poll::Pending;
            };
            match outcome.unwrap_or_else(|_| Err(Error::closed("writer"))) {
                Ok(acknowledged) => self.total.add(&acknowledged),
                Err(error) => self.refused = self.refused.take().or(Some(error)),
            }
            self.waiting = self.pieces.next();
        }
        Poll::Ready(match self.refused.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut self.total)),
        })
    }
}
