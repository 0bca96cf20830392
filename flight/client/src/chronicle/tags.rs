//! The tags of a chronicle: the attributes of *create* and *edit* in Figure 2 of the ChronoLog
//! paper.

use stratalog_model::{Collision, Durability, Granularity, TickSource};

use super::table::{identifier, literal};

/// The name of the time column of a chronicle of raw events.
pub(crate) const TIME: &str = "time";
/// The name of the payload column of a chronicle of raw events.
pub(crate) const PAYLOAD: &str = "payload";

/// Attributes of a chronicle (F5). An omitted attribute has the default of CREATE TABLE, with one
/// exception, the source of times: by default the client computes ticks from the server's clock.
///
/// # Examples
/// ```
/// use stratalog_client::{Collision, Tags};
///
/// let tags = Tags::new().collision(Collision::First).set("retention", "90d");
/// # let _ = tags;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tags {
    collision: Option<Collision>,
    time_source: Option<TickSource>,
    options: Vec<(String, String)>,
}

impl Tags {
    /// Tags without any attribute.
    pub fn new() -> Self {
        Self::default()
    }

    /// The rule for a second event at the same tick (F25). Default: the chronicle keeps all events.
    /// The rule cannot change later.
    #[must_use]
    pub fn collision(mut self, rule: Collision) -> Self {
        self.collision = Some(rule);
        self
    }

    /// The source of ticks. Default: [`TickSource::Client`]. The source cannot change later.
    #[must_use]
    pub fn time_source(mut self, source: TickSource) -> Self {
        self.time_source = Some(source);
        self
    }

    /// The durability that an event has when the server acknowledges it. Default: `disk`.
    #[must_use]
    pub fn durability(self, durability: Durability) -> Self {
        self.set("durability", durability.to_string())
    }

    /// Sets any option of CREATE TABLE, such as `retention`, `pin_for`, `acceptance_window` or
    /// `late`.
    #[must_use]
    pub fn set(mut self, option: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.push((option.into(), value.into()));
        self
    }

    /// The CREATE TABLE statement of a chronicle of raw events. `table` is a quoted SQL name.
    pub(crate) fn create(&self, table: &str, index: Granularity) -> String {
        let keyed = self.collision.is_some_and(Collision::is_unique);
        let key = if keyed { format!(", PRIMARY KEY ({TIME})") } else { String::new() };
        let mut options = vec![format!("granularity = {}", literal(&index.to_string()))];
        let source = self.time_source.unwrap_or(TickSource::Client);
        options.push(format!("time_source = {}", literal(&source.to_string())));
        if let Some(rule) = self.collision {
            options.push(format!("collision = {}", literal(&rule.to_string())));
        }
        options.extend(self.assigned());
        format!(
            "CREATE CHRONICLE {table} ({TIME} timestamptz(9) NOT NULL, {PAYLOAD} bytea NOT NULL{key}) \
             WITH ({})",
            options.join(", ")
        )
    }

    /// The ALTER TABLE statement; `None` if nothing changes. The statement also names attributes
    /// that cannot change, so that the server refuses them with a reason.
    pub(crate) fn edit(&self, table: &str, index: Option<Granularity>) -> Option<String> {
        let index = index.map(|index| format!("granularity = {}", literal(&index.to_string())));
        let rule = self.collision.map(|rule| format!("collision = {}", literal(&rule.to_string())));
        let source = self.time_source;
        let source = source.map(|source| format!("time_source = {}", literal(&source.to_string())));
        let fixed = [index, rule, source].into_iter().flatten();
        let options: Vec<String> = fixed.chain(self.assigned()).collect();
        (!options.is_empty()).then(|| format!("ALTER TABLE {table} SET ({})", options.join(", ")))
    }

    fn assigned(&self) -> impl Iterator<Item = String> + '_ {
        self.options.iter().map(|(name, value)| {
            let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let name = if plain { name.clone() } else { identifier(name) };
            format!("{name} = {}", literal(value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raw_chronicle_has_two_columns() {
        let sql = Tags::new().create("\"e\"", Granularity::NANOSECOND);
        assert_eq!(
            sql,
            "CREATE CHRONICLE \"e\" (time timestamptz(9) NOT NULL, payload bytea NOT NULL) \
             WITH (granularity = '1ns', time_source = 'client')"
        );
        let tags = Tags::new().collision(Collision::First).set("retention", "9d");
        let sql = tags.time_source(TickSource::Server).create("\"e\"", "1s".parse().unwrap());
        assert!(sql.contains("payload bytea NOT NULL, PRIMARY KEY (time))"), "{sql}");
        let options = "WITH (granularity = '1s', time_source = 'server', collision = 'first', \
                       retention = '9d')";
        assert!(sql.ends_with(options), "{sql}");
    }

    #[test]
    fn only_what_is_said_is_edited() {
        assert_eq!(Tags::new().edit("\"e\"", None), None);
        let sql = Tags::new().set("retention", "o'clock").edit("\"e\"", None).unwrap();
        assert_eq!(sql, "ALTER TABLE \"e\" SET (retention = 'o''clock')");
        let sql = Tags::new().edit("\"e\"", Some("1s".parse().unwrap())).unwrap();
        assert_eq!(sql, "ALTER TABLE \"e\" SET (granularity = '1s')");
    }
}
