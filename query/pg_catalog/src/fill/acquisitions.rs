//! Computes the rows about acquisitions and uses of chronicles (F8–F13).

use stratalog_model::{Result, Tick, TickRange};
use stratalog_visor_core::acquisition::Moment;

use super::{own::micros, tiers::chronicle};
use crate::{CatalogContext, rows::Rows};

pub(super) fn acquisitions(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    let time = |moment: Moment| context.acquisitions.wall_ns(moment).div_euclid(1_000);
    for acquisition in context.acquisitions.list() {
        let Some(chronicle) = chronicle(context, &state, acquisition.chronicle) else { continue };
        let TickRange { start, end } = acquisition.ticks;
        // A bound is NULL if the acquisition is unlimited on this side.
        let first = (start > Tick::MIN).then_some(start);
        let end = (end < Tick::END).then_some(end);
        let time_of = |tick: Option<Tick>| tick.and_then(|tick| micros(chronicle, tick));
        rows.push(&[
            ("schema", (&chronicle.schema).into()),
            ("name", (&chronicle.name).into()),
            ("process_id", acquisition.holder.session().into()),
            ("standing", acquisition.standing.to_string().into()),
            ("mode", acquisition.mode.to_string().to_lowercase().into()),
            ("first_tick", first.map(|tick| tick.0).into()),
            ("end_tick", end.map(|tick| tick.0).into()),
            ("first_time", time_of(first).into()),
            ("end_time", time_of(end).into()),
            ("since", time(acquisition.since).into()),
            ("expires", acquisition.until.map(time).into()),
        ])?;
    }
    Ok(())
}
