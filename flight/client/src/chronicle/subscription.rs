//! Subscriptions: events in the order of commits, first the history, then new events.
//!
//! ```text
//!   SUBSCRIBE t FROM GSN 1 ─► 1 2 3 … 41 ╳ the connection breaks, or the server restarts
//!   SUBSCRIBE t FROM GSN 42 ────────────► 42 43 …
//! ```

use std::{collections::VecDeque, sync::Arc, time::Duration};

use arrow::{array::AsArray as _, datatypes::Int64Type};
use futures::{Stream, StreamExt as _};

use super::{
    event::{self, Update},
    handle::HandleState,
    range::time_text,
};
use crate::{
    error::{Error, ErrorKind, Result},
    retry::{Backoff, RetryPolicy},
    rows::Rows,
};

/// A subscription gives up if the server is unreachable for longer.
const PATIENCE: Duration = Duration::from_secs(300);

/// The position at which a subscription begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The first event that the chronicle still has.
    Beginning,
    /// A position (gsn) in the order of commits; it may lie in the future. To continue after
    /// position n, use n + 1.
    Gsn(u64),
    /// The first commit with an event of this time or later, in nanoseconds since 1970; without
    /// such a commit, the next new event. If the connection breaks before the first event arrives,
    /// the server searches again.
    Time(i64),
    /// The next new commit.
    Live,
}

/// An endless stream of the events of a chronicle, in the order of commits. The client buffers at
/// most 8 MiB of unread events, and the server buffers none: a slow reader continues later at its
/// own position.
pub struct Subscription {
    shared: Arc<HandleState>,
    start: Start,
    constraint: Option<String>,
    rows: Option<Rows>,
    waiting: VecDeque<Update>,
    /// The last reported gap: after a reconnect the subscription does not report it again.
    gap: Option<String>,
    backoff: Backoff,
    ended: bool,
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription").field("start", &self.start).finish_non_exhaustive()
    }
}

impl Subscription {
    pub(crate) async fn begin(
        shared: Arc<HandleState>,
        start: Start,
        constraint: Option<&str>,
    ) -> Result<Self> {
        shared.table.raw()?;
        let start = match start {
            // A fixed position, so that a reconnect before the first event misses no event.
            Start::Live => Start::Gsn(shared.head().await?.saturating_add(1)),
            start => start,
        };
        let rows = Some(shared.follow(start, constraint).await?);
        Ok(Self {
            shared,
            start,
            constraint: constraint.map(str::to_string),
            rows,
            waiting: VecDeque::new(),
            gap: None,
            backoff: Backoff::new(RetryPolicy::within(PATIENCE)),
            ended: false,
        })
    }

    /// Waits for the next event or gap. Returns `None` only after an error. Dropping the future
    /// before completion loses no event.
    pub async fn next(&mut self) -> Option<Result<Update>> {
        loop {
            if let Some(update) = self.waiting.pop_front() {
                self.seen(&update);
                return Some(Ok(update));
            }
            if let Err(error) = self.read().await? {
                return Some(Err(error));
            }
        }
    }

    /// Waits for the next events and gaps. Returns all events and gaps that have arrived, at least
    /// one.
    pub async fn next_batch(&mut self) -> Option<Result<Vec<Update>>> {
        while self.waiting.is_empty() {
            if let Err(error) = self.read().await? {
                return Some(Err(error));
            }
        }
        let all: Vec<Update> = self.waiting.drain(..).collect();
        all.iter().for_each(|update| self.seen(update));
        Some(Ok(all))
    }

    /// The events and gaps as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Result<Update>> + Send {
        futures::stream::unfold(self, |mut subscription| async move {
            subscription.next().await.map(|update| (update, subscription))
        })
    }

    /// Records that the caller has seen `update`: a reconnect continues after `update`.
    fn seen(&mut self, update: &Update) {
        match update {
            Update::Event(event) => {
                self.start = Start::Gsn(event.gsn.saturating_add(1));
                self.gap = None;
            }
            Update::Gap { what, .. } => self.gap = Some(what.clone()),
        }
    }

    /// Reads a batch; `None` after a fatal error.
    async fn read(&mut self) -> Option<Result<()>> {
        if self.ended {
            return None;
        }
        let read = match &mut self.rows {
            Some(rows) => rows.next().await.unwrap_or_else(|| {
                Err(Error::new(ErrorKind::Connection, "the server ended a subscription"))
            }),
            None => match self.shared.follow(self.start, self.constraint.as_deref()).await {
                Ok(rows) => {
                    self.rows = Some(rows);
                    return Some(Ok(()));
                }
                Err(error) => Err(error),
            },
        };
        let error = match read.and_then(|batch| event::updates(&batch, &self.shared.table)) {
            Ok(updates) => {
                self.backoff.reset();
                let reported_gap = self.gap.clone();
                self.waiting.extend(updates.into_iter().filter(|update| {
                    !matches!(update, Update::Gap { what, .. } if reported_gap.as_ref() == Some(what))
                }));
                return Some(Ok(()));
            }
            Err(error) => error,
        };
        self.rows = None;
        if let Some(wait) = self.shared.again(&error, &mut self.backoff) {
            tracing::debug!(%error, ?wait, "a subscription continues over another connection");
            tokio::time::sleep(wait).await;
            return Some(Ok(()));
        }
        self.ended = true;
        Some(Err(error))
    }
}

impl HandleState {
    async fn follow(&self, start: Start, constraint: Option<&str>) -> Result<Rows> {
        self.client.query(&sql(&self.table.quoted, start, constraint)?).await
    }

    /// The last gsn up to which every commit is readable (F55).
    async fn head(&self) -> Result<u64> {
        let found = self.client.query("SELECT head_of_log()").await?.collect().await?;
        let head = found.iter().find(|batch| batch.num_rows() > 0).and_then(|batch| {
            let heads = batch.columns().first()?.as_primitive_opt::<Int64Type>()?;
            u64::try_from(heads.value(0)).ok()
        });
        head.ok_or_else(|| Error::protocol("the head of the log cannot be read"))
    }
}

fn sql(table: &str, start: Start, constraint: Option<&str>) -> Result<String> {
    let from = match start {
        Start::Beginning => String::new(),
        Start::Gsn(gsn) => format!(" FROM GSN {gsn}"),
        Start::Time(time_ns) => format!(" FROM TIMESTAMP '{}'", time_text(time_ns)?),
        Start::Live => " LIVE".to_string(),
    };
    // The newline ends a comment at the end of the constraint.
    let filter = constraint.map_or_else(String::new, |text| format!(" WHERE ({text}\n)"));
    Ok(format!("SUBSCRIBE {table}{from}{filter}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_written_as_subscribe_reads_it() {
        let t = "\"public\".\"e\"";
        assert_eq!(sql(t, Start::Beginning, None).unwrap(), "SUBSCRIBE \"public\".\"e\"");
        let constraint = Some("_tick > 5 OR true");
        let from = sql(t, Start::Gsn(7), constraint).unwrap();
        assert_eq!(from, "SUBSCRIBE \"public\".\"e\" FROM GSN 7 WHERE (_tick > 5 OR true\n)");
        let since = sql("e", Start::Time(1_704_067_200_000_000_000), None).unwrap();
        assert_eq!(since, "SUBSCRIBE e FROM TIMESTAMP '2024-01-01 00:00:00+00'");
        assert_eq!(sql("e", Start::Live, None).unwrap(), "SUBSCRIBE e LIVE");
    }
}
