//! Computes the rows about time zones.

use stratalog_model::Result;
use stratalog_text::zone_names;

use crate::{
    CatalogContext,
    rows::{Rows, Value},
};

pub(super) fn names(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let now = now_seconds(context);
    for zone in zone_names(now) {
        rows.push(&[
            ("name", zone.name.into()),
            ("abbrev", zone.abbreviation.into()),
            ("utc_offset", Value::Seconds(i64::from(zone.east_seconds))),
            ("is_dst", zone.is_summer.into()),
        ])?;
    }
    Ok(())
}

/// Fills `pg_timezone_abbrevs` with GMT, UTC and Z, which have the offset 0. Other abbreviations
/// are not listed.
pub(super) fn abbreviations(_: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    for abbreviation in ["GMT", "UTC", "Z"] {
        rows.push(&[
            ("abbrev", abbreviation.into()),
            ("utc_offset", Value::Seconds(0)),
            ("is_dst", false.into()),
        ])?;
    }
    Ok(())
}

/// The time at which the session's current statement began, in seconds since 1970.
fn now_seconds(context: &CatalogContext) -> i64 {
    let sessions = context.sessions.sessions();
    let own = sessions.into_iter().find(|session| session.process_id == context.process_id);
    let began = own.and_then(|session| session.query_us).unwrap_or(context.server_started_us);
    began.div_euclid(1_000_000)
}
