//! Lists the options of a definition, as WITH (…) would write them.

use super::super::create::default_tick;
use stratalog_model::{
    ChronicleDefinition, Collision, Durability, Granularity, LatePolicy, TickScale, TickSource,
};

/// Units of durations with their length in milliseconds, the longest first.
const DURATIONS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)];

/// Units of sizes with their number of bytes, the largest first.
const SIZES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// The options of a table that differ from their defaults: a CREATE TABLE with these options makes
/// an equal table. The default of `base` is the creation time. The collision rule of a primary key
/// is listed by [`of_key`].
pub fn of_table(definition: &ChronicleDefinition) -> Vec<(&'static str, String)> {
    let scale = &definition.scale;
    let mut listed = Vec::new();
    if *scale != TickScale::starting_at(definition.created_ns, scale.granularity()) {
        listed.push(("base", format!("{}ns", scale.base_ns())));
    }
    if scale.granularity() != Granularity::default() {
        listed.push(("granularity", scale.granularity().to_string()));
    }
    if let Some(coarser) = definition.coarsened {
        listed.push(("index_granularity", coarser.to_string()));
    }
    if definition.late == LatePolicy::Reject {
        listed.push(("late", "reject".to_string()));
    }
    let tick = definition.tick().filter(|tick| default_tick(&definition.columns) != Some(tick.id));
    listed.extend(tick.map(|tick| ("time_column", tick.name.clone())));
    if definition.time_source != TickSource::Column {
        listed.push(("time_source", definition.time_source.to_string()));
    }
    let window = definition.acceptance_window_ms;
    listed.extend(window.map(|ms| ("acceptance_window", with_unit(ms, &DURATIONS))));
    if definition.durability != Durability::default() {
        listed.push(("durability", definition.durability.to_string()));
    }
    let tiering = &definition.tiering;
    let duration = |ms: u64| with_unit(ms, &DURATIONS);
    listed.extend(tiering.retention_ms.map(|ms| ("retention", duration(ms))));
    listed.extend(tiering.story_rows_max.map(|rows| ("story_rows_max", rows.to_string())));
    let size = |bytes: u64| with_unit(bytes, &SIZES);
    listed.extend(tiering.story_bytes_max.map(|bytes| ("story_bytes_max", size(bytes))));
    listed.extend(tiering.story_age_max_ms.map(|ms| ("story_age_max", duration(ms))));
    listed.extend(tiering.pin_for_ms.map(|ms| ("pin_for", duration(ms))));
    debug_assert!(
        listed.iter().all(|(option, _)| super::OPTIONS.contains(option)),
        "CREATE TABLE does not know a listed option"
    );
    listed
}

/// The options of a table's PRIMARY KEY: its collision rule, unless it is the default rule.
pub fn of_key(definition: &ChronicleDefinition) -> Vec<(&'static str, String)> {
    let rule = definition.collision;
    let is_default = rule == Collision::default_of(true);
    if is_default { Vec::new() } else { vec![("collision", rule.to_string())] }
}

/// Formats a number with the largest unit of which it is a multiple.
fn with_unit(number: u64, units: &[(&str, u64)]) -> String {
    debug_assert!(
        units.is_sorted_by(|(_, before), (_, after)| before > after),
        "the largest unit is not the first unit"
    );
    let unit = units.iter().find(|(_, size)| number.is_multiple_of(*size));
    let (name, size) = unit.copied().unwrap_or(("", 1));
    debug_assert!(number.is_multiple_of(size), "the unit does not divide the number");
    format!("{}{name}", number / size)
}
