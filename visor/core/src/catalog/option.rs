//! WITH (…) options of CREATE TABLE and ALTER TABLE … SET.

use stratalog_model::{Collision, Durability, Error, ErrorKind, Granularity, LatePolicy, Result};

use super::name;

/// Options that have a meaning now.
pub const OPTIONS: [&str; 4] = ["granularity", "collision", "late", "durability"];

/// Options that get a meaning later: refused, so that nobody relies on what is not kept.
pub const OPTIONS_LATER: [&str; 19] = [
    "tiering",
    "retention",
    "partitions",
    "replicas",
    "placement",
    "codec",
    "backend",
    "time_source",
    "acceptance_window",
    "tablet_span",
    "story_rows_max",
    "story_bytes_max",
    "story_age_max",
    "backlog",
    "backlog_bytes_max",
    "pin_for",
    "replay_epoch",
    "flush_events",
    "on_failure",
];

/// Values of the options that a statement gave.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Given {
    pub granularity: Option<Granularity>,
    pub collision: Option<Collision>,
    pub late: Option<LatePolicy>,
    pub durability: Option<Durability>,
}

/// Reads the options of a CREATE TABLE.
pub(crate) fn read(options: &[(String, String)]) -> Result<Given> {
    let mut given = Given::default();
    for (at, (option, value)) in options.iter().enumerate() {
        if options.iter().take(at).any(|(other, _)| other == option) {
            return Err(Error::new(
                ErrorKind::InvalidParameterValue,
                format!("parameter \"{option}\" specified more than once"),
            ));
        }
        match option.as_str() {
            "granularity" => given.granularity = Some(value.parse()?),
            "collision" => given.collision = Some(value.parse()?),
            "durability" => given.durability = Some(value.parse()?),
            "late" => given.late = Some(read_late(value)?),
            later if OPTIONS_LATER.contains(&later) => {
                return Err(Error::not_yet(format!("option \"{later}\"")).with_hint(format!(
                    "leave it out; supported options are {}",
                    OPTIONS.join(", ")
                )));
            }
            unknown => return Err(unrecognized(unknown)),
        }
    }
    Ok(given)
}

/// Reads the options of an ALTER TABLE … SET: only those that may change.
pub(crate) fn read_change(options: &[(String, String)]) -> Result<Given> {
    let given = read(options)?;
    if given.collision.is_some() {
        return Err(Error::new(
            ErrorKind::CannotChangeNow,
            "parameter \"collision\" cannot be changed: events are stored by its rule",
        )
        .with_hint("create another table with the rule wanted, and INSERT … SELECT into it"));
    }
    if given.granularity.is_some() {
        return Err(Error::new(
            ErrorKind::CannotChangeNow,
            "parameter \"granularity\" cannot be changed yet: events are stored in its ticks",
        )
        .with_hint("create another table with it, and INSERT … SELECT into it"));
    }
    Ok(given)
}

/// The error for a name that is no option.
fn unrecognized(option: &str) -> Error {
    let known = OPTIONS.iter().chain(OPTIONS_LATER.iter()).copied();
    let hint = match name::closest(option, known) {
        Some(close) => format!("did you mean \"{close}\"? Options are {}", OPTIONS.join(", ")),
        None => format!("options are {}", OPTIONS.join(", ")),
    };
    Error::new(ErrorKind::InvalidParameterValue, format!("unrecognized parameter \"{option}\""))
        .with_hint(hint)
}

fn read_late(value: &str) -> Result<LatePolicy> {
    match value.to_ascii_lowercase().as_str() {
        "accept" => Ok(LatePolicy::Accept),
        "reject" => {
            Err(Error::not_yet("late = 'reject'").with_hint("use 'accept', which is the default"))
        }
        _ => Err(Error::new(
            ErrorKind::InvalidParameterValue,
            format!("late = '{value}' is unknown"),
        )
        .with_hint("use 'accept'")),
    }
}
