//! Checks whether the values of settings are within their limits.

use stratalog_access::TlsVersion;
use stratalog_journal::JournalSettings;
use stratalog_visor_core::access::ITERATIONS;
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use super::{Budget, Bytes, Settings};
use crate::backup::AllowedPlaces;

/// The largest value of `connections_max`.
const CONNECTIONS_MAX: usize = 1_000_000;
/// The smallest memory budget in bytes.
const BUDGET_BYTES_MIN: u64 = 1 << 20;
/// The smallest limit for a message or a statement in bytes.
const TEXT_BYTES_MIN: u64 = 1 << 10;
/// The largest limit for a message in bytes: the protocol stores the length in a signed 32-bit
/// number.
const MESSAGE_BYTES_MAX: u64 = (1 << 31) - 1;
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Checks the value of the setting `name`. The error text says what is wrong, and how to correct
/// it.
pub(super) fn check(settings: &Settings, name: &str) -> Result<(), String> {
    match name {
        "data_dir" if settings.data_dir.is_empty() => {
            Err("the value must be the path of a directory".to_string())
        }
        "connections_max" if !(1..=CONNECTIONS_MAX).contains(&settings.connections_max) => {
            Err(format!("{} is not between 1 and {CONNECTIONS_MAX}", settings.connections_max))
        }
        "message_bytes_max" => {
            within(settings.message_bytes_max, TEXT_BYTES_MIN, MESSAGE_BYTES_MAX)
        }
        "statement_bytes_max" => {
            within(settings.statement_bytes_max, TEXT_BYTES_MIN, MESSAGE_BYTES_MAX)
        }
        "memory_bytes_max" => budget(settings.memory_bytes_max),
        "query_memory_bytes_max" => budget(settings.query_memory_bytes_max),
        "segment_bytes" => journal(JournalSettings {
            segment_bytes_max: settings.segment_bytes.0,
            ..JournalSettings::default()
        }),
        "journal_queue_bytes_max" => journal(JournalSettings {
            queue_bytes_max: settings.journal_queue_bytes_max.0,
            ..JournalSettings::default()
        }),
        "tls_version_min" => settings.tls_version_min.parse::<TlsVersion>().map(drop),
        "scram_iterations" if !ITERATIONS.contains(&settings.scram_iterations) => Err(format!(
            "{} is not between {} and {}",
            settings.scram_iterations,
            ITERATIONS.start(),
            ITERATIONS.end()
        )),
        "backup_urls" => AllowedPlaces::check(&settings.backup_urls),
        "audit_retention" => retention_ms(&settings.audit_retention).map(drop),
        "log_level" => log_filter(&settings.log_level).map(drop),
        _ => Ok(()),
    }
}

/// Checks the settings that only work together, after every source has been read. The error names
/// the setting and says what is missing.
pub(super) fn check_together(settings: &Settings) -> Result<(), (&'static str, String)> {
    let tokens = [
        ("jwt_keys", &settings.jwt_keys),
        ("jwt_issuer", &settings.jwt_issuer),
        ("jwt_audience", &settings.jwt_audience),
    ];
    let given = tokens.iter().find(|(_, value)| !value.is_empty());
    let missing = tokens.iter().find(|(_, value)| value.is_empty());
    match (given, missing) {
        (Some((name, _)), Some((other, _))) => Err((
            name,
            format!("web tokens need jwt_keys, jwt_issuer and jwt_audience, but {other} is empty"),
        )),
        _ => Ok(()),
    }
}

/// Parses a retention time such as `90d`, in milliseconds; `None` for an empty text.
pub(crate) fn retention_ms(text: &str) -> Result<Option<u64>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let parsed = stratalog_model::tiering::duration_ms("audit_retention", text);
    parsed.map(Some).map_err(|error| error.message().to_string())
}

/// Parses the filter of `log_level`.
pub(crate) fn log_filter(text: &str) -> Result<EnvFilter, String> {
    let refused = || {
        format!(
            "\"{text}\" is not a filter for log lines; write {}, or levels by crate, as in warn,stratalog_journal=debug",
            LEVELS.join(", ")
        )
    };
    let level = |word: &str| LEVELS.contains(&word.trim().to_ascii_lowercase().as_str());
    // The filter's grammar accepts any word: an unknown word counts for the filter as the name of a
    // crate.
    let known = |part: &str| match part.rsplit_once('=') {
        Some((target, word)) => !target.trim().is_empty() && level(word),
        None => level(part),
    };
    // A filter by span may contain any text, even commas.
    let directives = if text.contains('[') {
        text.to_string()
    } else if text.split(',').all(known) {
        text.split(',').map(str::trim).collect::<Vec<_>>().join(",")
    } else {
        return Err(refused());
    };
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into());
    filter.parse(directives).map_err(|_| refused())
}

fn within(bytes: Bytes, min: u64, max: u64) -> Result<(), String> {
    if (min..=max).contains(&bytes.0) {
        return Ok(());
    }
    Err(format!("{bytes} is not between {} and {}", Bytes(min), Bytes(max)))
}

fn budget(budget: Budget) -> Result<(), String> {
    match budget {
        Budget::Fixed(bytes) if bytes.0 < BUDGET_BYTES_MIN => {
            Err(format!("{bytes} is less than {}, the minimum", Bytes(BUDGET_BYTES_MIN)))
        }
        _ => Ok(()),
    }
}

fn journal(settings: JournalSettings) -> Result<(), String> {
    settings.validate().map_err(|error| error.message().to_string())
}
