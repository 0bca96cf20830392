//! Computes the rows about tokens. The hashes of tokens are in no system table.

use stratalog_model::Result;
use stratalog_visor_core::access::Predefined;

use crate::{CatalogContext, rows::Rows};

/// Nanoseconds in a microsecond, the unit of times in system tables.
const MICROSECOND_NS: i64 = 1_000;

/// The tokens of the session's role; all tokens for superusers and members of `pg_monitor`.
pub(super) fn tokens(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    let access = state.access();
    let now_ns = context.clock.now_ns();
    let identity = context.catalog.identity();
    let rights = access.rights(&identity, now_ns)?;
    let sees_all = rights.is_superuser() || rights.includes(Predefined::MONITOR);
    let time = |ns: i64| ns.div_euclid(MICROSECOND_NS);
    for token in access.tokens() {
        if !sees_all && token.role != rights.current() {
            continue;
        }
        rows.push(&[
            ("name", (&token.name).into()),
            ("role", access.role_name(token.role).into()),
            ("scope", token.scope.keyword().into()),
            ("created", time(token.created_ns).into()),
            ("expires", token.expires_ns.map(time).into()),
            ("last_used", token.used_ns.map(time).into()),
            ("is_expired", token.expires_ns.is_some_and(|end| end <= now_ns).into()),
        ])?;
    }
    Ok(())
}
