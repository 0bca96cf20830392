//! The note in an exported Parquet file: properties of the exported table. With base and
//! granularity from the note, an import gives the events the same ticks, and thus the same ids.

use serde::{Deserialize, Serialize};

use super::table::{KeyNames, is_plain};

/// The key of the note in the key-value metadata of a Parquet file.
pub const METADATA: &str = "stratalog.table";

/// The properties of a table that its rows do not show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableNote {
    /// The name of the time column.
    pub time: String,
    /// The names of the key columns.
    pub key: Vec<String>,
    /// The length of a tick, as CREATE TABLE writes it.
    pub granularity: String,
    /// The time of tick 0 in nanoseconds since 1970.
    pub base_ns: i64,
    /// The rule for two events with the same tick and key.
    pub collision: String,
}

impl TableNote {
    /// The SQL query that returns the note of a table; `quoted` is the quoted name of the table.
    /// The result is one text, or no row.
    pub fn question(quoted: &str) -> String {
        format!(
            "SELECT jsonb_build_object('time', c.tick_column, 'key', to_jsonb(c.key_columns), \
             'granularity', c.native_granularity, 'base_ns', c.base_ns, 'collision', c.collision)::text \
             FROM stratalog.chronicles c \
             JOIN pg_catalog.pg_namespace n ON n.nspname = c.schema \
             JOIN pg_catalog.pg_class t ON t.relname = c.name AND t.relnamespace = n.oid \
             WHERE c.tick_column IS NOT NULL AND t.oid = '{}'::regclass",
            quoted.replace('\'', "''")
        )
    }

    /// Parses a note, from the metadata of a file or from the result of the query
    /// [`TableNote::question`].
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The note as text for the metadata of a file.
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The options for WITH (…) in a CREATE TABLE: names and values.
    pub fn options(&self) -> Vec<(String, String)> {
        let option = |name: &str, value: &str| (name.to_string(), value.to_string());
        vec![
            option("granularity", &self.granularity),
            option("base", &format!("{}ns", self.base_ns)),
            option("collision", &self.collision),
        ]
    }

    /// The flags with which `import` creates the same table from a file without metadata.
    pub fn flags(&self) -> String {
        let word = |text: &str| match text.split(',').all(is_plain) {
            true => text.to_string(),
            false => format!("'{}'", text.replace('\'', "'\\''")),
        };
        let mut flags = format!("--create --time {}", word(&self.time));
        if !self.key.is_empty() {
            let key = KeyNames::new(&self.key).to_string();
            flags.push_str(&format!(" --key {}", word(&key)));
        }
        for (name, value) in self.options() {
            flags.push_str(&format!(" --with {name}={value}"));
        }
        flags
    }
}
