//! Computes the rows about storage tiers and the moves of events between tiers.

use std::sync::Arc;

use stratalog_model::{
    ChronicleDefinition, ChronicleId, Gsn, Result, Tick, TickRange, TickRanges, store::PieceStatus,
};
use stratalog_visor_core::CatalogState;

use super::own::{micros, previous};
use crate::{
    CatalogContext,
    rows::{Rows, Value},
};

pub(super) fn pieces(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    let countable = context.countable(&state);
    for piece in context.store.pieces() {
        let found = chronicle(context, &state, piece.chronicle);
        let Some(chronicle) = found.filter(|found| countable.includes(found.id)) else { continue };
        let (first, last) = (piece.ticks.start, previous(piece.ticks.end));
        rows.push(&[
            ("schema", (&chronicle.schema).into()),
            ("name", (&chronicle.name).into()),
            ("tier", piece.tier.to_string().into()),
            ("number", piece.number.into()),
            ("file", piece.file.into()),
            ("first_time", micros(chronicle, first).into()),
            ("last_time", micros(chronicle, last).into()),
            ("first_tick", first.0.into()),
            ("last_tick", last.0.into()),
            ("rows", piece.rows.into()),
            ("bytes", piece.bytes.into()),
            ("memory_bytes", piece.memory_bytes.into()),
            ("first_gsn", piece.gsns.0.0.into()),
            ("last_gsn", piece.gsns.1.0.into()),
            ("schema_version", piece.schema_version.map(|version| version.0).into()),
            ("state", "live".into()),
        ])?;
    }
    Ok(())
}

pub(super) fn moves(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    let countable = context.countable(&state);
    for status in context.store.moves() {
        let found = chronicle(context, &state, status.chronicle);
        let Some(chronicle) = found.filter(|found| countable.includes(found.id)) else { continue };
        let word = match (status.ended_ns, &status.error) {
            (None, _) => "running",
            (Some(_), None) => "done",
            (Some(_), Some(_)) => "failed",
        };
        rows.push(&[
            ("number", status.number.into()),
            ("schema", (&chronicle.schema).into()),
            ("name", (&chronicle.name).into()),
            ("kind", status.kind.to_string().into()),
            ("state", word.into()),
            ("started", status.started_ns.div_euclid(1_000).into()),
            ("ended", status.ended_ns.map(|ns| ns.div_euclid(1_000)).into()),
            ("rows", status.moved.rows.into()),
            ("pieces_added", status.moved.pieces_added.into()),
            ("pieces_removed", status.moved.pieces_removed.into()),
            ("error", status.error.into()),
        ])?;
    }
    Ok(())
}

pub(super) fn watermarks(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    let countable = context.countable(&state);
    // The watermarks must be read before the list of pieces (units of stored events), because no
    // piece contains uncommitted events.
    let marks = context.store.watermarks();
    let committed = context.store.status().committed;
    for mark in marks {
        let found = chronicle(context, &state, mark.chronicle);
        let Some(chronicle) = found.filter(|found| countable.includes(found.id)) else { continue };
        let tick = |tick: Option<Tick>| Value::from(tick.map(|tick| tick.0));
        let time = |tick: Option<Tick>| tick.and_then(|tick| micros(chronicle, tick)).into();
        let sealed = context.store.seal(chronicle).ok().flatten();
        let left = mark.tablets.max(mark.stories);
        rows.push(&[
            ("schema", (&chronicle.schema).into()),
            ("name", (&chronicle.name).into()),
            ("committed", committed.0.into()),
            ("through", mark.through.0.into()),
            ("sealed_tick", tick(sealed)),
            ("sealed_time", time(sealed)),
            ("tablet_tick", tick(left)),
            ("tablet_time", time(left)),
            ("story_tick", tick(mark.stories)),
            ("story_time", time(mark.stories)),
        ])?;
    }
    Ok(())
}

pub(super) fn tails(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let pieces = context.store.pieces();
    let snapshot = context.store.snapshot();
    let state = context.state();
    let countable = context.countable(&state);
    let chronicles = state.chronicles(&context.database);
    for chronicle in chronicles.filter(|chronicle| countable.includes(chronicle.id)) {
        let ticks = match snapshot.extent(chronicle, &TickRanges::all()) {
            Some(extent) => extent.ticks,
            None => hull(&pieces, chronicle.id),
        };
        let last = (!ticks.is_empty()).then(|| previous(ticks.end));
        let sealed = context.store.seal(chronicle).ok().flatten();
        let newest: Option<Gsn> = of(&pieces, chronicle.id).map(|piece| piece.gsns.1).max();
        rows.push(&[
            ("schema", (&chronicle.schema).into()),
            ("name", (&chronicle.name).into()),
            ("last_tick", last.map(|tick| tick.0).into()),
            ("last_time", last.and_then(|tick| micros(chronicle, tick)).into()),
            ("last_gsn", last.and(newest).map(|gsn| gsn.0).into()),
            ("sealed_tick", sealed.map(|tick| tick.0).into()),
            ("sealed_time", sealed.and_then(|tick| micros(chronicle, tick)).into()),
        ])?;
    }
    Ok(())
}

/// The smallest range of ticks around all events of a table in the given pieces (units of stored
/// events). A piece may still contain deleted and replaced events, and these count, too.
pub(super) fn hull(pieces: &[PieceStatus], id: ChronicleId) -> TickRange {
    of(pieces, id).fold(TickRange::EMPTY, |hull, piece| hull.hull(&piece.ticks))
}

fn of(pieces: &[PieceStatus], id: ChronicleId) -> impl Iterator<Item = &PieceStatus> {
    pieces.iter().filter(move |piece| piece.chronicle == id)
}

/// The table with this id; `None` if it was dropped, or belongs to another database.
pub(super) fn chronicle<'a>(
    context: &CatalogContext,
    state: &'a CatalogState,
    id: ChronicleId,
) -> Option<&'a Arc<ChronicleDefinition>> {
    state.chronicle_by_id(id).filter(|chronicle| chronicle.database == context.database)
}
