//! WITH (…) options of CREATE TABLE and ALTER TABLE … SET.

use stratalog_model::{
    Collision, Durability, Error, ErrorKind, Granularity, LatePolicy, Result, TickSource, Tiering,
    tiering,
};

use super::name;

pub mod option_list;

/// The names of all supported options.
pub const OPTIONS: [&str; 14] = [
    "granularity",
    "index_granularity",
    "base",
    "collision",
    "late",
    "time_column",
    "time_source",
    "acceptance_window",
    "durability",
    "retention",
    "story_rows_max",
    "story_bytes_max",
    "story_age_max",
    "pin_for",
];

/// Names of options reserved for later versions. They are refused, because a user must not rely on
/// an option without effect.
pub const OPTIONS_LATER: [&str; 12] = [
    "tiering",
    "partitions",
    "replicas",
    "placement",
    "codec",
    "backend",
    "tablet_span",
    "backlog",
    "backlog_bytes_max",
    "replay_epoch",
    "flush_events",
    "on_failure",
];

/// The options that a statement gives; `None` for an option that is not given.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct GivenOptions {
    pub granularity: Option<Granularity>,
    pub index_granularity: Option<Granularity>,
    /// Time of tick 0, in nanoseconds since 1970.
    pub base_ns: Option<i64>,
    pub collision: Option<Collision>,
    pub late: Option<LatePolicy>,
    pub time_source: Option<TickSource>,
    /// `Some(None)` resets the option to its default.
    pub acceptance_window_ms: Option<Option<u64>>,
    pub durability: Option<Durability>,
    pub tiering: GivenTiering,
}

/// The given options of [`Tiering`]; `Some(None)` switches an option off.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct GivenTiering {
    retention_ms: Option<Option<u64>>,
    story_rows_max: Option<Option<u64>>,
    story_bytes_max: Option<Option<u64>>,
    story_age_max_ms: Option<Option<u64>>,
    pin_for_ms: Option<Option<u64>>,
}

impl GivenTiering {
    /// The options `known`, with the given options replaced.
    pub(crate) fn onto(self, known: Tiering) -> Tiering {
        Tiering {
            retention_ms: self.retention_ms.unwrap_or(known.retention_ms),
            story_rows_max: self.story_rows_max.unwrap_or(known.story_rows_max),
            story_bytes_max: self.story_bytes_max.unwrap_or(known.story_bytes_max),
            story_age_max_ms: self.story_age_max_ms.unwrap_or(known.story_age_max_ms),
            pin_for_ms: self.pin_for_ms.unwrap_or(known.pin_for_ms),
        }
    }
}

/// Parses the options of a CREATE TABLE.
pub(crate) fn read(options: &[(String, String)]) -> Result<GivenOptions> {
    let mut given = GivenOptions::default();
    for (at, (option, value)) in options.iter().enumerate() {
        if options.iter().take(at).any(|(other, _)| other == option) {
            return Err(Error::new(
                ErrorKind::InvalidParameterValue,
                format!("parameter \"{option}\" specified more than once"),
            ));
        }
        match option.as_str() {
            "granularity" => given.granularity = Some(value.parse()?),
            "index_granularity" => given.index_granularity = Some(value.parse()?),
            "base" => given.base_ns = Some(read_base(value)?),
            "collision" => given.collision = Some(value.parse()?),
            "durability" if is_default(value) => given.durability = Some(Durability::default()),
            "durability" => given.durability = Some(value.parse()?),
            "late" if is_default(value) => given.late = Some(LatePolicy::default()),
            "late" => given.late = Some(read_late(value)?),
            // `time_column` (the function below) reads this option.
            "time_column" => {}
            "time_source" => given.time_source = Some(value.parse()?),
            "acceptance_window" => {
                given.acceptance_window_ms = Some(read_window(option, value)?);
            }
            "retention" => {
                given.tiering.retention_ms = Some(or_off(option, value, tiering::duration_ms)?);
            }
            "story_rows_max" => {
                given.tiering.story_rows_max = Some(or_off(option, value, tiering::count)?);
            }
            "story_bytes_max" => {
                given.tiering.story_bytes_max = Some(or_off(option, value, tiering::size_bytes)?);
            }
            "story_age_max" => {
                given.tiering.story_age_max_ms = Some(or_off(option, value, tiering::duration_ms)?);
            }
            "pin_for" => {
                given.tiering.pin_for_ms = Some(or_off(option, value, tiering::duration_ms)?);
            }
            later if OPTIONS_LATER.contains(&later) => {
                return Err(Error::not_yet(format!("option \"{later}\"")).with_hint(format!(
                    "omit the option; supported options are {}",
                    OPTIONS.join(", ")
                )));
            }
            unknown => return Err(unrecognized(unknown)),
        }
        debug_assert!(OPTIONS.contains(&option.as_str()), "a supported option is not listed");
    }
    Ok(given)
}

/// The value of the option `time_column` of a CREATE TABLE, if given.
pub(crate) fn time_column(options: &[(String, String)]) -> Option<&str> {
    let given = options.iter().find(|(option, _)| option == "time_column");
    given.map(|(_, value)| value.as_str())
}

/// Parses the options of an ALTER TABLE … SET: only options that can change.
pub(crate) fn read_change(options: &[(String, String)]) -> Result<GivenOptions> {
    if let Some((option, _)) = options.iter().find(|(option, value)| {
        is_default(value) && matches!(option.as_str(), "granularity" | "index_granularity")
    }) {
        return Err(Error::new(
            ErrorKind::CannotChangeNow,
            format!("parameter \"{option}\" cannot be reset: an index only becomes coarser"),
        ));
    }
    let fixed = ["base", "collision", "time_column", "time_source"];
    // RESET names options without a value: their values need no check.
    let checked: Vec<(String, String)> = options
        .iter()
        .filter(|(option, value)| !(is_default(value) && fixed.contains(&option.as_str())))
        .cloned()
        .collect();
    let mut given = read(&checked)?;
    let names = |name: &str| options.iter().any(|(option, _)| option == name);
    if names("base") {
        return Err(Error::new(
            ErrorKind::CannotChangeNow,
            "parameter \"base\" cannot be changed: the ticks of stored events count from it",
        )
        .with_hint(
            "create another table with the new base, and copy the events with INSERT … SELECT",
        ));
    }
    if given.granularity.is_some() && given.index_granularity.is_some() {
        return Err(Error::new(
            ErrorKind::InvalidParameterValue,
            "\"granularity\" and \"index_granularity\" both set the granularity of the index",
        )
        .with_hint("give one of the two options"));
    }
    given.granularity = given.granularity.or(given.index_granularity);
    if names("collision") {
        return Err(Error::new(
            ErrorKind::CannotChangeNow,
            "parameter \"collision\" cannot be changed: events were stored by the rule",
        )
        .with_hint(
            "create another table with the new rule, and copy the events with INSERT … SELECT",
        ));
    }
    if names("time_column") {
        return Err(Error::new(
            ErrorKind::CannotChangeNow,
            "parameter \"time_column\" cannot be changed: events are stored by time",
        )
        .with_hint(
            "for a table without a key, ADD PRIMARY KEY with the new time column stores the table again",
        ));
    }
    if names("time_source") {
        return Err(Error::new(
            ErrorKind::CannotChangeNow,
            "parameter \"time_source\" cannot be changed: the option defines the meaning of stored times",
        )
        .with_hint("create another table with the new source, and copy the events with INSERT … SELECT"));
    }
    debug_assert!(
        given.base_ns.is_none() && given.collision.is_none() && given.time_source.is_none(),
        "a fixed option changes"
    );
    Ok(given)
}

/// Checks that the new index granularity `wanted` is not finer than the current granularity `now`.
pub(crate) fn check_coarser(now: Granularity, wanted: Granularity) -> Result<()> {
    if wanted < now {
        return Err(Error::new(
            ErrorKind::CannotChangeNow,
            format!("granularity {wanted} is finer than the granularity of the index, {now}"),
        )
        .with_hint(
            "an index can only become coarser; for finer times, use _tick or the time column",
        ));
    }
    if wanted.ns().rem_euclid(now.ns()) != 0 {
        return Err(Error::new(
            ErrorKind::InvalidParameterValue,
            format!(
                "granularity {wanted} is not a multiple of the granularity of the index, {now}"
            ),
        )
        .with_hint(format!(
            "use a multiple of {now}, because each group must lie in one coarser group"
        )));
    }
    Ok(())
}

/// The error for an unknown option.
fn unrecognized(option: &str) -> Error {
    debug_assert!(!OPTIONS.contains(&option), "a supported option is refused");
    debug_assert!(!OPTIONS_LATER.contains(&option), "a reserved option counts as unknown");
    let known = OPTIONS.iter().chain(OPTIONS_LATER.iter()).copied();
    let hint = match name::closest(option, known) {
        Some(close) => format!("did you mean \"{close}\"? Options are {}", OPTIONS.join(", ")),
        None => format!("options are {}", OPTIONS.join(", ")),
    };
    Error::new(ErrorKind::InvalidParameterValue, format!("unrecognized parameter \"{option}\""))
        .with_hint(hint)
}

/// True if the value requests the default of its option, as ALTER TABLE … RESET does.
fn is_default(value: &str) -> bool {
    value.trim().eq_ignore_ascii_case("default")
}

/// Parses the value of the option `base`: nanoseconds since 1970, as in `1764132000000000000ns`.
fn read_base(value: &str) -> Result<i64> {
    let number = value.trim().strip_suffix("ns").and_then(|number| number.trim().parse().ok());
    number.ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidParameterValue,
            format!("base = '{value}' is not a time in nanoseconds since 1970"),
        )
        .with_hint(
            "write for example '1764132000000000000ns'; stratalog.chronicles shows the base as base_ns",
        )
    })
}

/// Parses the value of an option that can be `off`; returns `None` for `off`.
fn or_off(option: &str, value: &str, read: fn(&str, &str) -> Result<u64>) -> Result<Option<u64>> {
    match value.trim().eq_ignore_ascii_case("off") || is_default(value) {
        true => Ok(None),
        false => {
            let number = read(option, value)?;
            debug_assert!(number > 0, "an option is 0 instead of off");
            Ok(Some(number))
        }
    }
}

/// Parses the value of the option `acceptance_window`; returns `None` for `default`.
fn read_window(option: &str, value: &str) -> Result<Option<u64>> {
    match is_default(value) {
        true => Ok(None),
        false => {
            let window_ms = tiering::duration_ms(option, value)?;
            debug_assert!(window_ms > 0, "the acceptance window has no length");
            Ok(Some(window_ms))
        }
    }
}

fn read_late(value: &str) -> Result<LatePolicy> {
    match value.to_ascii_lowercase().as_str() {
        "accept" => Ok(LatePolicy::Accept),
        "reject" => Ok(LatePolicy::Reject),
        _ => Err(Error::new(
            ErrorKind::InvalidParameterValue,
            format!("late = '{value}' is unknown"),
        )
        .with_hint("use 'accept' or 'reject'")),
    }
}
