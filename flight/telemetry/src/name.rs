//! Converts OTLP names to Prometheus names, and renames labels that clash with columns of the
//! table.

use std::borrow::Cow;

use stratalog_line::{NAME_BYTES_MAX, TIME_COLUMN};
use stratalog_model::chronicle::SYSTEM_COLUMNS;

/// The column that contains the value of a sample.
pub const VALUE_COLUMN: &str = "value";

/// The tag that contains the metric's name, if one table has all metrics.
pub const METRIC_COLUMN: &str = "metric";

/// The label of Prometheus that contains the metric's name.
pub(crate) const NAME_LABEL: &str = "__name__";

/// The prefix for the tag of a label with a reserved name, as in Prometheus.
const EXPORTED: &str = "exported_";

/// The name of the table for a metric: the name of the metric. If this name is too long for a
/// table, the beginning of the name, followed by sixteen hexadecimal digits of its FNV-1a hash.
pub(crate) fn table_of(metric: &str) -> Cow<'_, str> {
    const DIGITS: usize = 16;
    if metric.len() <= NAME_BYTES_MAX {
        return Cow::Borrowed(metric);
    }
    let hash = metric.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let beginning = metric.floor_char_boundary(NAME_BYTES_MAX - DIGITS - 1);
    Cow::Owned(format!("{}_{hash:016x}", metric.get(..beginning).unwrap_or_default()))
}

/// The name of the tag for a label. `single` is true if one table has all metrics.
pub(crate) fn tag_of(label: &str, single: bool) -> String {
    let taken = label == TIME_COLUMN
        || label == VALUE_COLUMN
        || single && label == METRIC_COLUMN
        || SYSTEM_COLUMNS.contains(&label);
    if taken { exported(label) } else { label.to_string() }
}

/// The name of the tag for a label whose own name is reserved.
pub(crate) fn exported(label: &str) -> String {
    format!("{EXPORTED}{label}")
}

/// Appends the name of a metric. Replaces all characters except ASCII letters, digits, `_` and `:`
/// by `_`.
pub(crate) fn put_metric_name(out: &mut String, name: &str) {
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        out.push('_');
    }
    out.extend(name.chars().map(|c| if c == ':' { c } else { plain(c) }));
}

/// Converts the key of an attribute to a label with only ASCII letters, digits and `_`.
pub(crate) fn label_of(key: &str) -> String {
    let digit = key.starts_with(|first: char| first.is_ascii_digit());
    let mut label = if digit { "key_" } else { "" }.to_string();
    label.extend(key.chars().map(plain));
    label
}

fn plain(c: char) -> char {
    if c.is_ascii_alphanumeric() { c } else { '_' }
}

#[cfg(test)]
mod tests;
