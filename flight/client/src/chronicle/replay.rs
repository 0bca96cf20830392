//! Replay: reads the events of ranges in the order of ticks.
//!
//! ```text
//!   replay('t', ranges, constraint) ─► events … (tick, seq) … ╳ the connection breaks
//!   replay('t', ranges, constraint) WHERE after (tick, seq) ─► … the rest
//! ```

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{Stream, StreamExt as _};

use super::{
    event::{self, Event},
    handle::HandleState,
    range::Range,
    table::literal,
};
use crate::{
    error::{Error, Result},
    retry::{Backoff, chance},
    rows::Rows,
};

/// The events of a replay. The server sends no faster than the caller reads. After a broken
/// connection the replay continues over a new connection, after the last returned event.
pub struct Replay {
    shared: Arc<HandleState>,
    request: ReplayRequest,
    rows: Option<Rows>,
    waiting: VecDeque<(Event, i64)>,
    backoff: Backoff,
    ended: bool,
}

/// The arguments of a replay, and its position.
#[derive(Debug)]
struct ReplayRequest {
    table: String,
    ranges: Vec<String>,
    constraint: Option<String>,
    /// Tick and seq of the last returned event.
    last_returned: Option<(i64, i64)>,
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").field("asked", &self.request).finish_non_exhaustive()
    }
}

impl Replay {
    pub(crate) async fn begin(
        shared: Arc<HandleState>,
        ranges: &[Range],
        constraint: Option<&str>,
    ) -> Result<Self> {
        shared.table.raw()?;
        let request = ReplayRequest {
            table: shared.table.quoted.clone(),
            ranges: ranges.iter().map(Range::text).collect::<Result<_>>()?,
            constraint: constraint.map(str::to_string),
            last_returned: None,
        };
        let rows = Some(shared.client.query(&request.sql()).await?);
        let backoff = Backoff::new(shared.client.pool.settings.retry.clone());
        Ok(Self { shared, request, rows, waiting: VecDeque::new(), backoff, ended: false })
    }

    /// The next event; `None` at the end. Dropping the future before completion loses no event.
    pub async fn next(&mut self) -> Option<Result<Event>> {
        loop {
            if let Some((event, seq)) = self.waiting.pop_front() {
                self.request.last_returned = Some((event.tick, seq));
                return Some(Ok(event));
            }
            if let Err(error) = self.read().await? {
                return Some(Err(error));
            }
        }
    }

    /// All events that have already arrived; waits for at least one event. `None` at the end.
    pub async fn next_batch(&mut self) -> Option<Result<Vec<Event>>> {
        while self.waiting.is_empty() {
            if let Err(error) = self.read().await? {
                return Some(Err(error));
            }
        }
        let last = self.waiting.back();
        self.request.last_returned =
            last.map(|(event, seq)| (event.tick, *seq)).or(self.request.last_returned);
        Some(Ok(self.waiting.drain(..).map(|(event, _)| event).collect()))
    }

    /// The remaining events as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Result<Event>> + Send {
        futures::stream::unfold(self, |mut replay| async move {
            replay.next().await.map(|event| (event, replay))
        })
    }

    /// Collects the remaining events in memory.
    ///
    /// # Errors
    /// Errors of reading.
    pub async fn collect(mut self) -> Result<Vec<Event>> {
        let mut all = Vec::new();
        while let Some(events) = self.next_batch().await {
            all.extend(events?);
        }
        Ok(all)
    }

    /// Reads a batch; `None` at the end.
    async fn read(&mut self) -> Option<Result<()>> {
        if self.ended {
            return None;
        }
        let read = match &mut self.rows {
            Some(rows) => match rows.next().await {
                Some(batch) => batch,
                None => {
                    self.ended = true;
                    return None;
                }
            },
            None => match self.shared.client.query(&self.request.sql()).await {
                Ok(rows) => {
                    self.rows = Some(rows);
                    return Some(Ok(()));
                }
                Err(error) => Err(error),
            },
        };
        let error = match read.and_then(|batch| event::events(&batch, &self.shared.table)) {
            Ok(events) => {
                self.backoff.reset();
                self.waiting.extend(events);
                return Some(Ok(()));
            }
            Err(error) => error,
        };
        self.rows = None;
        if let Some(wait) = self.shared.again(&error, &mut self.backoff) {
            tracing::debug!(%error, ?wait, "a replay continues over another connection");
            tokio::time::sleep(wait).await;
            return Some(Ok(()));
        }
        self.ended = true;
        Some(Err(error))
    }
}

impl HandleState {
    /// The time to wait before the next attempt to read after `error`; `None` if the caller must
    /// give up.
    pub(crate) fn again(&self, error: &Error, backoff: &mut Backoff) -> Option<Duration> {
        let passes = error.is_retryable() || error.is_session_lost();
        let again = passes || self.client.pool.regains(error);
        if again { backoff.failed(Instant::now(), chance()) } else { None }
    }
}

impl ReplayRequest {
    fn sql(&self) -> String {
        let ranges: Vec<String> = self.ranges.iter().map(|range| literal(range)).collect();
        let constraint = self.constraint.as_ref();
        let constraint = constraint.map_or_else(String::new, |text| format!(", {}", literal(text)));
        // The position is a separate condition, not a part of the constraint, because only the
        // server can parse the text of the constraint.
        let behind = self.last_returned.map_or_else(String::new, |(tick, seq)| {
            format!(" WHERE _tick > {tick} OR _tick = {tick} AND _seq > {seq}")
        });
        format!(
            "SELECT _tick, _seq, _gsn, payload \
             FROM replay({}, ARRAY[{}]::text[]{constraint}){behind} ORDER BY _tick, _seq",
            literal(&self.table),
            ranges.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_goes_on_behind_its_last_event() {
        let mut request = ReplayRequest {
            table: "\"public\".\"e\"".to_string(),
            ranges: vec!["tick [0, 10)".to_string(), "gsn [5, )".to_string()],
            constraint: None,
            last_returned: None,
        };
        assert_eq!(
            request.sql(),
            "SELECT _tick, _seq, _gsn, payload FROM replay('\"public\".\"e\"', \
             ARRAY['tick [0, 10)', 'gsn [5, )']::text[]) ORDER BY _tick, _seq"
        );
        request.constraint = Some("payload <> 'x' OR true".to_string());
        request.last_returned = Some((-3, 17));
        request.ranges.clear();
        let sql = request.sql();
        assert!(sql.contains("ARRAY[]::text[], "), "{sql}");
        let both = ", 'payload <> ''x'' OR true') \
                    WHERE _tick > -3 OR _tick = -3 AND _seq > 17 ORDER BY _tick, _seq";
        assert!(sql.ends_with(both), "{sql}");
    }
}
