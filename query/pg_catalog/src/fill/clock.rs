//! Computes the row about the master clock, the server's source of time.

use stratalog_model::Result;

use crate::{
    CatalogContext,
    rows::{Rows, Value},
};

pub(super) fn clock(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let status = context.clock.status();
    let reading = status.reading;
    rows.push(&[
        ("time", reading.now_ns.div_euclid(1_000).into()),
        ("epoch", reading.line.epoch.into()),
        ("steps", reading.line.steps.into()),
        ("rate_ppb", reading.rate_ppb.into()),
        ("uncertainty_ns", reading.uncertainty_ns.into()),
        ("machine_time", status.wall_ns.div_euclid(1_000).into()),
        ("machine_offset_ns", status.wall_ns.saturating_sub(reading.now_ns).into()),
        ("drift_ppb", status.drift_ppb.into()),
        ("held_ns", status.held_ns.into()),
        ("jumps_held", status.jumps_held.into()),
        ("unconfirmed_ns", status.unconfirmed_ns.into()),
        ("lease", status.lease_ns.div_euclid(1_000).into()),
        ("alarms", Value::Texts(status.alarms)),
    ])
}
