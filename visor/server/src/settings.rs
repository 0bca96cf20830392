//! Settings of the server: a single struct defines the flags, the environment variables, the keys
//! of the file and `docs/settings.md`.

use serde::{Deserialize, Serialize};

mod check;
mod document;
mod load;
mod value;

pub(crate) use check::log_filter;
pub use document::{commented_toml, settings_page};
pub use load::{Layers, SettingsError};
pub use value::{Budget, Bytes, Listen, LogFormat, available_memory_bytes};

/// Properties of a setting besides its value.
#[derive(Debug, Clone, Copy)]
pub struct SettingKey {
    /// Key in the TOML file, with underscores.
    pub name: &'static str,
    /// The form of its values.
    pub kind: &'static str,
    /// Sentences for readers.
    pub description: &'static [&'static str],
}

impl SettingKey {
    /// The command-line flag, without dashes in front: `pg-listen`.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// The environment variable: `STRATALOG_PG_LISTEN`.
    pub fn variable(&self) -> String {
        format!("{}{}", load::VARIABLE_PREFIX, self.name.to_ascii_uppercase())
    }

    /// The description as one paragraph.
    pub fn text(&self) -> String {
        self.description.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
    }
}

macro_rules! settings {
    ($( $(#[doc = $doc:literal])+ $name:ident: $type:ty, $kind:literal = $default:expr; )*) => {
        /// Everything that an operator can set. Each field is a key of the TOML file, an
        /// environment variable `STRATALOG_…` and a flag of `stratalog serve`.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Settings { $( $(#[doc = $doc])+ pub $name: $type, )* }

        impl Default for Settings {
            fn default() -> Self {
                Self { $( $name: $default, )* }
            }
        }

        /// Every setting, in the order of the documentation.
        pub const KEYS: &[SettingKey] = &[ $( SettingKey {
            name: stringify!($name),
            kind: $kind,
            description: &[ $( $doc, )+ ],
        }, )* ];

        impl Settings {
            /// Sets a field from the text of a flag or an environment variable.
            fn set_text(&mut self, name: &str, text: &str) -> Result<(), String> {
                match name {
                    $( stringify!($name) => {
                        self.$name = text.trim().parse::<$type>().map_err(|error| {
                            unreadable(text, $kind).unwrap_or_else(|| error.to_string())
                        })?;
                    } )*
                    _ => return Err("no such setting".to_string()),
                }
                check::check(self, name)
            }

            /// Sets a field from a value of the TOML file.
            fn set_toml(&mut self, name: &str, value: toml::Value) -> Result<(), String> {
                match name {
                    $( stringify!($name) => {
                        self.$name = value.try_into::<$type>().map_err(|error| error.message().to_string())?;
                    } )*
                    _ => return Err("no such setting".to_string()),
                }
                check::check(self, name)
            }

            /// The value of a setting in TOML.
            pub fn toml_value(&self, name: &str) -> Option<toml::Value> {
                match name {
                    $( stringify!($name) => toml::Value::try_from(&self.$name).ok(), )*
                    _ => None,
                }
            }
        }
    };
}

/// The error text for an invalid number or switch; other types have their own texts.
fn unreadable(text: &str, kind: &str) -> Option<String> {
    let wanted = match kind {
        "number" => "a whole number",
        "milliseconds" => "a whole number of milliseconds",
        "true or false" => "true or false",
        _ => return None,
    };
    Some(format!("\"{text}\" is not {wanted}"))
}

settings! {
    /// Directory that holds everything the server keeps. Made if it is missing; refused if
    /// it holds files that are not ours.
    data_dir: String, "path" = "stratalog-data".to_string();

    /// Address of the Postgres protocol, or `off`. Port 0 takes a free one; the line that
    /// says "ready" names it.
    pg_listen: Listen, "address:port or off" = Listen::Address("127.0.0.1:5433".to_string());

    /// Address of Arrow Flight SQL, or `off`. Port 0 takes a free one.
    flight_listen: Listen, "address:port or off" = Listen::Address("127.0.0.1:50051".to_string());

    /// Address of HTTP: line protocol as InfluxDB's clients send it, SQL, health and metrics; or
    /// `off`. Port 0 takes a free one.
    http_listen: Listen, "address:port or off" = Listen::Address("127.0.0.1:8086".to_string());

    /// Address of line protocol over TCP, as QuestDB's clients send it, or `off`. Port 0 takes a
    /// free one.
    ilp_listen: Listen, "address:port or off" = Listen::Address("127.0.0.1:9009".to_string());

    /// Names by which HTTP clients may call this server, besides its addresses and `localhost`;
    /// commas separate them. A request whose `Host` is another name is refused: a web page could
    /// have sent it. `*` takes every name.
    http_hosts: String, "names" = String::new();

    /// Origins of web pages that may use HTTP, as in `https://grafana.example.com`; commas separate
    /// them. A request that a browser sends for a page of another site is refused.
    http_origins: String, "origins" = String::new();

    /// Lets other machines connect without a password. Until users can be created, a
    /// listener outside of the loopback interface is refused without it.
    remote_without_password: bool, "true or false" = false;

    /// Client connections of each protocol at a time, 1 to 1000000; one more is answered with SQLSTATE
    /// 53300, or waits.
    connections_max: usize, "number" = 1000;

    /// Size of one protocol message that a client may send, from 1 KiB on.
    message_bytes_max: Bytes, "bytes" = Bytes(64 << 20);

    /// Size of the text of one SQL statement, from 1 KiB on.
    statement_bytes_max: Bytes, "bytes" = Bytes(16 << 20);

    /// Memory for events that are not yet in a lower tier, 1 MiB or more, or 1% to 90%. From
    /// 40% of it on, the oldest events move into tablets; when it is used up, appends wait for
    /// that. What has no room even then fails with SQLSTATE 53200.
    memory_bytes_max: Budget, "bytes or percent of the memory" = Budget::Percent(50);

    /// Memory that running queries share, 1 MiB or more, or 1% to 90%; what needs more spills to
    /// disk, and fails with SQLSTATE 53200 where it cannot. Texts of statements and large messages
    /// of clients count as well.
    query_memory_bytes_max: Budget, "bytes or percent of the memory" = Budget::Percent(20);

    /// Memory for columns of stories that were read, so that reading them again needs neither the
    /// disk nor time to unpack them, 1 MiB or more, or 1% to 90%. What is read once does not take the
    /// place of what is read often.
    story_cache_bytes_max: Budget, "bytes or percent of the memory" = Budget::Percent(15);

    /// Disk space that running queries may spill to.
    spill_bytes_max: Bytes, "bytes" = Bytes(32 << 30);

    /// Milliseconds after which a statement is cancelled (SQLSTATE 57014), unless the session
    /// sets its own; 0 for never.
    statement_timeout_ms: u64, "milliseconds" = 0;

    /// Size of one journal segment, 17 MiB or more: the unit in which the journal's disk space is
    /// reserved and freed.
    segment_bytes: Bytes, "bytes" = Bytes(64 << 20);

    /// Size of the journal from which on events move into tablets even when memory is plentiful,
    /// so that disk space is freed and a start has less to replay.
    journal_bytes_high: Bytes, "bytes" = Bytes(2 << 30);

    /// Memory for events that are in tablets already, so that reading them needs no file; the
    /// oldest are let go first, those of tables with `pin_for` last; 0 keeps none.
    backlog_bytes_max: Bytes, "bytes" = Bytes(256 << 20);
    /// Bytes that merges and stories write in a second at most, so that appends and queries keep
    /// the disk; 0 for no limit. What appends wait for is not held up.
    move_bytes_per_second_max: Bytes, "bytes" = Bytes(0);

    /// Where stories, the Parquet files of the cold tier, lie: in the data directory when empty,
    /// else in an object store: `s3://bucket/prefix`, `gs://bucket/prefix` or
    /// `az://container/prefix`, with its credentials in the environment as its own tools expect
    /// them (`AWS_ACCESS_KEY_ID` …). Not to be changed once there are stories.
    story_url: String, "URL" = String::new();

    /// Takes credentials for object stores from the metadata service of a cloud's machine
    /// (169.254.169.254), where the environment has none.
    object_store_metadata: bool, "true or false" = false;

    /// Places below which clients may make backups (`CALL stratalog.backup`): paths and URLs of
    /// object stores, which commas separate. The folder `backups` of the data directory is always
    /// one.
    backup_urls: String, "paths and URLs" = String::new();

    /// Events of a table above its stories, in the journal and in tablets, from which on they become a
    /// story.
    story_rows_max: u64, "number" = 4 << 20;

    /// Bytes of a table above its stories from which on they become a story; those in the journal are an
    /// estimate.
    story_bytes_max: Bytes, "bytes" = Bytes(256 << 20);

    /// Milliseconds after their commit at which events move down and become a story. A few rows wait longer.
    story_age_max_ms: u64, "milliseconds" = 3_600_000;

    /// Bytes that wait for the journal's writer before appends wait for room (back-pressure).
    journal_queue_bytes_max: Bytes, "bytes" = Bytes(64 << 20);

    /// Free space that is always left on the file system. Below it appends fail with SQLSTATE
    /// 53100 before the file system does, and work again, without a restart, when there is room.
    free_bytes_min: Bytes, "bytes" = Bytes(256 << 20);

    /// Milliseconds by which the machine's clock may jump ahead while the server runs. A longer jump
    /// is not followed until it is accepted (`CALL stratalog.accept_clock_jump()`) or the clock is
    /// set right; 0 follows all.
    clock_jump_ms_max: u64, "milliseconds" = 300_000;

    /// Milliseconds by which the machine's clock may be ahead of the last run at a start. After a
    /// start with a longer lead, retention keeps events for so much longer until the clock is
    /// confirmed (`CALL stratalog.accept_clock_jump()`); 0 trusts every start.
    clock_start_lead_ms_max: u64, "milliseconds" = 86_400_000;

    /// Milliseconds that a shutdown waits for running statements before it cancels them.
    shutdown_grace_ms: u64, "milliseconds" = 10_000;

    /// Which log lines are written: `error`, `warn`, `info`, `debug`, `trace`, or per crate as in
    /// `warn,stratalog_journal=debug`.
    log_level: String, "filter" = "info".to_string();

    /// How log lines are written, always to standard error: `text` or `compact`.
    log_format: LogFormat, "text or compact" = LogFormat::Text;
}

#[cfg(test)]
mod tests;
