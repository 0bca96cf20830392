//! Computes the rows of the tables in the schema `stratalog`, which serve the administrators of the
//! server.

use stratalog_model::{
    Acquirers as _, ChronicleDefinition, LatePolicy, Result, TickRanges,
    invariant::{Promise, broken_count},
};
use stratalog_visor_core::acquisition::HolderId;

use super::tiers;
use crate::{
    CatalogContext,
    rows::{Rows, Value},
    spec::KEYWORDS,
};

pub(super) fn chronicles(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let numbers = context.table_numbers();
    let snapshot = context.store.snapshot();
    let pieces = context.store.pieces();
    let state = context.state();
    let countable = context.countable(&state);
    for chronicle in state.chronicles(&context.database) {
        let number = numbers.iter().find(|status| status.id == chronicle.id);
        let may_count = countable.includes(chronicle.id);
        let counted = |count: u64| Value::from(may_count.then_some(count));
        let extent = snapshot.extent(chronicle, &TickRanges::all());
        let hull = match extent {
            Some(extent) => extent.ticks,
            None => tiers::hull(&pieces, chronicle.id),
        };
        let ends = (may_count && !hull.is_empty()).then(|| (hull.start, previous(hull.end)));
        let time = |tick| micros(chronicle, tick);
        let event_count = extent.map(|extent| extent.rows).or(number.map(|status| status.rows));
        let names = chronicle.key_columns.iter().filter_map(|column| chronicle.column(*column));
        rows.push(&[
            ("schema", (&chronicle.schema).into()),
            ("name", (&chronicle.name).into()),
            ("id", chronicle.id.0.into()),
            ("rows", event_count.filter(|_| may_count).into()),
            ("first_time", ends.and_then(|(first, _)| time(first)).into()),
            ("last_time", ends.and_then(|(_, last)| time(last)).into()),
            ("bytes", counted(number.map_or(0, |status| status.bytes))),
            ("series", counted(number.map_or(0, |status| status.series))),
            ("acquirers", context.acquisitions.acquirers(chronicle.id).into()),
            ("granularity", chronicle.index_granularity().to_string().into()),
            ("native_granularity", chronicle.scale.granularity().to_string().into()),
            ("base", chronicle.scale.base_ns().div_euclid(1_000).into()),
            ("base_ns", chronicle.scale.base_ns().into()),
            ("collision", chronicle.collision.to_string().into()),
            ("late", late(chronicle.late).into()),
            ("time_source", chronicle.time_source.to_string().into()),
            ("acceptance_window_ms", window_ms(chronicle).into()),
            ("durability", chronicle.durability.to_string().into()),
            ("retention_ms", chronicle.tiering.retention_ms.into()),
            ("story_rows_max", chronicle.tiering.story_rows_max.into()),
            ("story_bytes_max", chronicle.tiering.story_bytes_max.into()),
            ("story_age_max_ms", chronicle.tiering.story_age_max_ms.into()),
            ("pin_for_ms", chronicle.tiering.pin_for_ms.into()),
            ("key_columns", Value::Texts(names.map(|column| column.name.clone()).collect())),
            ("tick_column", chronicle.tick().map(|column| column.name.clone()).into()),
            ("columns", chronicle.columns.len().into()),
            ("schema_version", chronicle.schema_version.0.into()),
            ("created", chronicle.created_ns.div_euclid(1_000).into()),
            ("comment", chronicle.comment.clone().into()),
        ])?;
    }
    Ok(())
}

/// The acceptance window: the age in milliseconds up to which events are accepted in any case.
/// `None` if the table accepts events of any age.
fn window_ms(chronicle: &ChronicleDefinition) -> Option<u64> {
    chronicle.time_source.is_clocked().then(|| chronicle.window_ns() / 1_000_000)
}

fn late(policy: LatePolicy) -> &'static str {
    match policy {
        LatePolicy::Accept => "accept",
        LatePolicy::Reject => "reject",
    }
}

/// The time at which a tick (the unit of an event's time) begins, in microseconds since 1970.
/// `None` if the time in nanoseconds does not fit an i64.
pub(super) fn micros(chronicle: &ChronicleDefinition, tick: stratalog_model::Tick) -> Option<i64> {
    chronicle.scale.time_ns_of(tick).map(|ns| ns.div_euclid(1_000))
}

/// The last tick of a range with the exclusive end `end`.
pub(super) fn previous(end: stratalog_model::Tick) -> stratalog_model::Tick {
    stratalog_model::Tick(end.0.saturating_sub(1))
}

pub(super) fn journal(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    context.check_monitor()?;
    let log = context.store.status().log;
    rows.push(&[
        ("written", log.written.0.into()),
        ("durable", log.durable.0.into()),
        ("queued_bytes", log.queued_bytes.into()),
        ("stored_bytes", log.stored_bytes.into()),
        ("segments", log.segments.into()),
        ("frames", log.frames.into()),
        ("writes", log.writes.into()),
        ("syncs", log.syncs.into()),
        ("poisoned", log.poisoned.into()),
        ("torn_bytes", log.torn_bytes.into()),
    ])
}

pub(super) fn store(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    context.check_monitor()?;
    let status = context.store.status();
    rows.push(&[
        ("committed_gsn", status.committed.0.into()),
        ("memory_bytes", status.memory_bytes.into()),
        ("memory_bytes_max", status.memory_bytes_max.into()),
        ("chronicles", status.chronicles.len().into()),
        ("rows", status.chronicles.iter().map(|chronicle| chronicle.rows).sum::<u64>().into()),
    ])
}

pub(super) fn producers(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    context.check_monitor()?;
    for (producer, last_sequence) in context.store.producers() {
        rows.push(&[
            ("producer", producer.as_uuid_text().into()),
            ("last_sequence", last_sequence.into()),
        ])?;
    }
    Ok(())
}

pub(super) fn sessions(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    for session in context.sessions.sessions() {
        rows.push(&[
            ("process_id", session.process_id.into()),
            ("user_name", session.user.into()),
            ("database", session.database.into()),
            ("application_name", session.application_name.into()),
            ("client_address", session.client_address.into()),
            ("state", session.state.into()),
            ("query", session.query.into()),
            ("connected", session.connected_us.into()),
            ("query_started", session.query_us.into()),
            ("transaction_started", session.transaction_us.into()),
            ("acquired", context.acquisitions.acquired_by(HolderId(session.process_id)).into()),
            ("latency_us", (session.round_trip_us / 2).into()),
            ("window_us", session.round_trip_us.into()),
        ])?;
    }
    Ok(())
}

pub(super) fn settings(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    for setting in context.settings.list() {
        rows.push(&[
            ("name", setting.name.into()),
            ("value", setting.value.into()),
            ("reset_value", setting.reset_value.into()),
            ("changeable", setting.changeable.into()),
            ("description", setting.description.into()),
        ])?;
    }
    Ok(())
}

pub(super) fn promises(_: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    for promise in Promise::ALL {
        rows.push(&[
            ("promise", format!("CL-{}", promise.number()).into()),
            ("text", promise.text().into()),
            ("broken", broken_count(*promise).into()),
        ])?;
    }
    Ok(())
}

/// Fills the list of PostgreSQL's keywords. Clients quote names equal to keywords.
pub(super) fn keywords(rows: &mut Rows<'_>) -> Result<()> {
    for line in KEYWORDS.lines() {
        let mut words = line.split('\t');
        let (Some(word), Some(category), bare) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let described = match category {
            "U" => "unreserved",
            "C" => "unreserved (cannot be function or type name)",
            "T" => "reserved (can be function or type name)",
            _ => "reserved",
        };
        let bare = bare == Some("t");
        rows.push(&[
            ("word", word.into()),
            ("catcode", category.into()),
            ("barelabel", bare.into()),
            ("catdesc", described.into()),
            ("baredesc", (if bare { "can be bare label" } else { "requires AS" }).into()),
        ])?;
    }
    Ok(())
}
