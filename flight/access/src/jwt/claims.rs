//! The claims of a token.

use serde_json::{Map, Value};
use stratalog_model::Result;

use super::{JwtSettings, refused};
use crate::VerifiedBearer;

/// The tolerated difference between the clocks of the issuer and of this server, in nanoseconds: a
/// minute.
const LEEWAY_NS: i64 = 60 * SECOND_NS;

const SECOND_NS: i64 = 1_000_000_000;

/// Checks the claims of a token whose signature is right.
///
/// # Errors
/// `InvalidAuthorization` for a token that has expired, is not yet valid, or is for another server.
pub(super) fn check(json: &[u8], settings: &JwtSettings, now_ns: i64) -> Result<VerifiedBearer> {
    let claims: Map<String, Value> =
        serde_json::from_slice(json).map_err(|_| refused("the claims of the token are no JSON"))?;
    let end_ns = time_ns(&claims, "exp")?.ok_or_else(|| refused("the token has no end (exp)"))?;
    let end_ns = end_ns.saturating_add(LEEWAY_NS);
    if end_ns <= now_ns {
        return Err(refused("the token has expired"));
    }
    if time_ns(&claims, "nbf")?.is_some_and(|start| start.saturating_sub(LEEWAY_NS) > now_ns) {
        return Err(refused("the token is not yet valid"));
    }
    if claims.get("iss").and_then(Value::as_str) != Some(settings.issuer.as_str()) {
        return Err(refused("the token comes from another issuer (iss)"));
    }
    let is_for_us = match claims.get("aud") {
        Some(Value::String(audience)) => *audience == settings.audience,
        Some(Value::Array(audiences)) => {
            audiences.iter().any(|one| one.as_str() == Some(settings.audience.as_str()))
        }
        _ => false,
    };
    if !is_for_us {
        return Err(refused("the token is for another server (aud)"));
    }
    let role = claims.get(&settings.role_claim).and_then(Value::as_str);
    let role = role.filter(|role| !role.is_empty()).ok_or_else(|| {
        refused("the token names no role").with_hint("the setting jwt_role_claim names the claim")
    })?;
    Ok(VerifiedBearer { role: role.to_string(), expires_ns: Some(end_ns) })
}

/// A time claim in nanoseconds since 1970: a number of seconds, perhaps with a fraction.
fn time_ns(claims: &Map<String, Value>, name: &str) -> Result<Option<i64>> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value
        .as_i64()
        .or_else(|| value.as_u64().map(|_| i64::MAX))
        .or_else(|| value.as_f64().filter(|seconds| seconds.is_finite()).map(floor));
    match seconds {
        Some(seconds) => Ok(Some(seconds.saturating_mul(SECOND_NS))),
        None => Err(refused("a time in the token is no number")),
    }
}

/// The whole seconds; the cast saturates.
fn floor(seconds: f64) -> i64 {
    seconds.floor() as i64
}
