//! Flushes under pressure: moves events out of the journal while memory or the journal is short
//! (F29–F33).

use std::{pin::pin, sync::Arc, time::Duration};

use stratalog_model::Result;

use crate::{
    ingest::backpressure::MoveOutcome,
    tiering::{
        choose::{self, Load, Pressure},
        collect::{self, floor},
        mover::Mover,
    },
};

/// Time between two checks for a shortage during long work.
const PAUSE: Duration = Duration::from_millis(50);

/// Number of checks that are skipped after a failed or useless flush, unless appends wait for
/// memory.
const RESTS: u32 = 100;

/// Makes a due flush; `None` without a due flush. The caller must hold `move_lock`.
///
/// # Errors
/// Like [`collect::collect`].
pub async fn flush(mover: &Arc<Mover>) -> Result<Option<MoveOutcome>> {
    let pressure = Pressure::on(mover);
    let loads = if pressure.is_high() { loads_of(mover) } else { Vec::new() };
    let Some(chronicle) = choose::flush(&loads, &pressure) else { return Ok(None) };
    let moved = collect::collect_now(mover, chronicle).await?;
    let freed = floor::raise(mover, mover.files()?).await?;
    tracing::debug!(%chronicle, rows = moved.rows, freed, "events moved into tablets");
    // Counts as useful even if no memory is free yet: the memory becomes free with the last
    // snapshot of the moved events.
    let needed = pressure.memory_bytes_wanted > 0 && moved.rows > 0;
    Ok(Some(MoveOutcome {
        useful: freed > 0 || needed || mover.keeper.budget.used() < pressure.memory_bytes,
    }))
}

/// Runs the long `work`, and makes urgent flushes in between: appends that lack memory need not
/// wait for the end of `work`. A flush can begin whenever `work` awaits. The caller must hold
/// `move_lock`.
///
/// # Errors
/// The errors of `work`.
pub async fn run_with_flushes<T>(
    mover: &Arc<Mover>,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let mut work = pin!(work);
    let mut rests: u32 = 0;
    loop {
        tokio::select! {
            biased;
            () = tokio::time::sleep(PAUSE) => rests = rests.saturating_sub(1),
            done = &mut work => return done,
        }
        if rests > 0 && mover.keeper.backpressure.demand_bytes() == 0 {
            continue;
        }
        if !Pressure::on(mover).is_high() {
            continue;
        }
        mover.note_commits();
        mover.keeper.backpressure.turn_begins();
        let turn = flush(mover).await;
        mover.keeper.backpressure.turn_ends(&turn);
        match turn {
            Ok(None | Some(MoveOutcome { useful: true })) => {}
            Ok(Some(MoveOutcome { useful: false })) => rests = RESTS,
            Err(error) => {
                tracing::error!(%error, "cannot move events into tablets; the events stay in the journal for now");
                rests = RESTS;
            }
        }
    }
}

fn loads_of(mover: &Mover) -> Vec<Load> {
    let published = mover.publisher.published();
    let now_ns = mover.clock.now_ns();
    let loads = published.versions.iter().filter_map(|(id, pinned)| {
        let oldest_gsn = pinned.version.batches().next()?.first_gsn();
        let bytes = pinned.version.batches().map(|batch| batch.bytes()).sum();
        let stay_ns = collect::stay_ns(mover, *id);
        let since_ns = mover.commit_times.of(oldest_gsn, now_ns);
        let is_pinned = choose::is_pinned(since_ns, stay_ns, now_ns);
        let acquirers = mover.acquirers_of(*id);
        Some(Load { chronicle: *id, bytes, oldest_gsn, acquirers, is_pinned })
    });
    loads.collect()
}

impl Pressure {
    /// The current use of memory and journal, and the limits.
    pub fn on(mover: &Mover) -> Self {
        let settings = &mover.settings;
        // While a backup holds the journal, moves cannot make it shorter: its length does not
        // count.
        let journal_bytes =
            if mover.journal_release.is_held() { 0 } else { mover.log.status().stored_bytes };
        Self {
            memory_bytes: mover.keeper.budget.used(),
            memory_bytes_high: settings.memory_bytes_max / 100 * settings.move_from_percent,
            memory_bytes_wanted: mover.keeper.backpressure.demand_bytes(),
            memory_bytes_max: settings.memory_bytes_max,
            journal_bytes,
            journal_bytes_high: settings.journal_bytes_high,
        }
    }
}
