//! Settings of the server: a single struct defines the flags, the environment variables, the keys
//! of the file and `docs/settings.md`.

use serde::{Deserialize, Serialize};

mod check;
mod document;
mod load;
mod value;

pub(crate) use check::{log_filter, retention_ms};
pub use document::{commented_toml, settings_page};
pub use load::{Layers, SettingsError};
pub use value::{Budget, Bytes, Listen, LogFormat, available_memory_bytes};

/// The description of a setting.
#[derive(Debug, Clone, Copy)]
pub struct SettingKey {
    /// The key in the TOML file, with underscores.
    pub name: &'static str,
    /// A description of the values, for example "bytes".
    pub kind: &'static str,
    /// The description of the setting, in sentences.
    pub description: &'static [&'static str],
}

impl SettingKey {
    /// The command-line flag, without dashes in front: `pg-listen`.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// The name of the environment variable: `STRATALOG_PG_LISTEN`.
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

/// The error for text that is not a value of the type; `None` for types that have their own errors.
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
    /// Directory of all data of the server. The server creates a missing directory. A directory
    /// with files of another program is refused.
    data_dir: String, "path" = "stratalog-data".to_string();

    /// Address of the Postgres protocol, or `off`. Port 0 takes a free port; the "ready" line names
    /// the port.
    pg_listen: Listen, "address:port or off" = Listen::Address("127.0.0.1:5433".to_string());

    /// Address of Arrow Flight SQL, or `off`. Port 0 takes a free port.
    flight_listen: Listen, "address:port or off" = Listen::Address("127.0.0.1:50051".to_string());

    /// Address of HTTP, or `off`. HTTP serves line protocol of InfluxDB's clients, SQL, health and
    /// metrics. Port 0 takes a free port.
    http_listen: Listen, "address:port or off" = Listen::Address("127.0.0.1:8086".to_string());

    /// Address of line protocol over TCP, for QuestDB's clients, or `off`. Port 0 takes a free
    /// port.
    ilp_listen: Listen, "address:port or off" = Listen::Address("127.0.0.1:9009".to_string());

    /// Names of this server for HTTP clients, besides its addresses and `localhost`; separated by
    /// commas. A request with another name in `Host` is refused, because a web page could have sent
    /// the request. `*` accepts every name.
    http_hosts: String, "names" = String::new();

    /// Origins of web pages with access to HTTP, for example `https://grafana.example.com`, separated
    /// by commas. The server refuses a browser's requests for pages of other sites.
    http_origins: String, "origins" = String::new();

    /// PEM file with the server's certificate, then intermediate certificates, for TLS. An empty
    /// value means `tls/server.crt` of the data directory, if that file exists
    /// (`stratalog certificate create`). The server reads the file again at SIGHUP and at
    /// `CALL stratalog.reload()`.
    tls_cert_file: String, "path" = String::new();

    /// PEM file with the private key of the certificate: RSA, ECDSA or Ed25519. Others must not
    /// read the file: mode 0600, or 0640 if root owns the file. An empty value means
    /// `tls/server.key` of the data directory.
    tls_key_file: String, "path" = String::new();

    /// PEM file with the authorities whose client certificates the server accepts. A client with
    /// such a certificate logs in as the role that the certificate names, without a password. An
    /// empty value means that the server asks for no certificate.
    tls_client_ca_file: String, "path" = String::new();

    /// Oldest accepted version of TLS: `1.2` or `1.3`.
    tls_version_min: String, "version" = "1.2".to_string();

    /// Number of iterations in the verifiers of new passwords, 4096 to 10000000. More iterations
    /// make guessing passwords from a stolen backup slower, and each login slower for clients.
    scram_iterations: u32, "number" = 4096;

    /// Keys of JSON web tokens (OpenID Connect): the path of a file with a JWKS, or a URL
    /// `https://…`. Clients log in with a web token (RS256, ES256 or EdDSA) as Bearer. An empty value
    /// accepts no web token.
    jwt_keys: String, "path or URL" = String::new();

    /// Required issuer (`iss`) of JSON web tokens. Needed with `jwt_keys`.
    jwt_issuer: String, "text" = String::new();

    /// Required audience (`aud`) of JSON web tokens. Needed with `jwt_keys`.
    jwt_audience: String, "text" = String::new();

    /// Claim of JSON web tokens that holds the name of the role.
    jwt_role_claim: String, "text" = "sub".to_string();

    /// Failed logins per minute of one address as one role, after which the server refuses further
    /// logins without a check; 0 for no limit. The limit of an address over all roles, and of a role
    /// over all addresses, is ten times as large.
    failed_logins_per_minute_max: u32, "number" = 60;

    /// Maximum number of simultaneous connections of one address; 0 for no limit.
    connections_per_address_max: usize, "number" = 0;

    /// Maximum number of simultaneous client connections of each protocol, 1 to 1000000. A
    /// connection above the maximum is refused with SQLSTATE 53300, or waits.
    connections_max: usize, "number" = 1000;

    /// Maximum size of one protocol message of a client, 1 KiB or more.
    message_bytes_max: Bytes, "bytes" = Bytes(64 << 20);

    /// Maximum size of the text of one SQL statement, 1 KiB or more.
    statement_bytes_max: Bytes, "bytes" = Bytes(16 << 20);

    /// Memory for events that are not yet in a lower tier, 1 MiB or more, or 1% to 90%. When events
    /// use 40% of this memory, the oldest events start to move into tablets. When the memory is
    /// full, appends wait for the move. An append that still finds no free memory fails with
    /// SQLSTATE 53200.
    memory_bytes_max: Budget, "bytes or percent of the memory" = Budget::Percent(50);

    /// Memory that running queries share, 1 MiB or more, or 1% to 90%. A query that needs more
    /// memory spills to disk. If spilling is impossible, the query fails with SQLSTATE 53200. Texts
    /// of statements and large messages of clients also count.
    query_memory_bytes_max: Budget, "bytes or percent of the memory" = Budget::Percent(20);

    /// Memory for a cache of story columns, 1 MiB or more, or 1% to 90%. A cached column is read
    /// without disk access and without decompression. Columns read once do not replace columns read
    /// often.
    story_cache_bytes_max: Budget, "bytes or percent of the memory" = Budget::Percent(15);

    /// Maximum disk space for spilled data of running queries.
    spill_bytes_max: Bytes, "bytes" = Bytes(32 << 30);

    /// Milliseconds after which a statement is cancelled (SQLSTATE 57014), unless the session sets
    /// its own timeout; 0 for no timeout.
    statement_timeout_ms: u64, "milliseconds" = 0;

    /// Maximum size of a journal segment, 17 MiB or more. The journal reserves and frees disk space
    /// in whole segments. The first segment has 1 MiB, and each further segment twice the size of
    /// the segment before, up to this size.
    segment_bytes: Bytes, "bytes" = Bytes(64 << 20);

    /// Size of the journal at which events move into tablets even if enough memory is free. The
    /// move frees disk space and shortens the replay at a start.
    journal_bytes_high: Bytes, "bytes" = Bytes(2 << 30);

    /// Memory for events that are already in tablets. Reads of events in this memory need no file.
    /// The server drops the oldest events first, and events of tables with `pin_for` last; 0 keeps
    /// no events.
    backlog_bytes_max: Bytes, "bytes" = Bytes(256 << 20);

    /// Maximum number of bytes per second that merges and stories write, to leave disk bandwidth
    /// for appends and queries; 0 for no limit. The limit does not delay a move for which appends
    /// wait.
    move_bytes_per_second_max: Bytes, "bytes" = Bytes(0);

    /// Place of the stories, the Parquet files of the cold tier. An empty value means the data
    /// directory. `s3://bucket/prefix`, `gs://bucket/prefix` and `az://container/prefix` mean an
    /// object store, with credentials in the environment variables of the store's own tools
    /// (`AWS_ACCESS_KEY_ID` …). Do not change the place after the first story.
    story_url: String, "URL" = String::new();

    /// Takes credentials for object stores from the metadata service of a cloud machine
    /// (169.254.169.254) if the environment has no credentials.
    object_store_metadata: bool, "true or false" = false;

    /// Places below which clients may make backups (`CALL stratalog.backup`): paths and URLs of
    /// object stores, separated by commas. The folder `backups` of the data directory is always
    /// allowed.
    backup_urls: String, "paths and URLs" = String::new();

    /// Time after which audit records are removed, such as `365d`; empty keeps every record. Records
    /// exist from the first password on.
    audit_retention: String, "duration" = String::new();

    /// Number of events of a table above the stories, in the journal and in tablets, at which the
    /// events become a story.
    story_rows_max: u64, "number" = 4 << 20;

    /// Bytes of a table's events above the stories, in the journal and in tablets, at which the
    /// events become a story. The bytes in the journal are an estimate.
    story_bytes_max: Bytes, "bytes" = Bytes(256 << 20);

    /// Milliseconds after the commit at which events move to a lower tier and become a story. A
    /// table with only a few rows waits longer.
    story_age_max_ms: u64, "milliseconds" = 3_600_000;

    /// Maximum number of bytes that wait for the writer of the journal. At the maximum, further
    /// appends wait (back-pressure).
    journal_queue_bytes_max: Bytes, "bytes" = Bytes(64 << 20);

    /// Free space to keep on the file system. With less free space, appends fail with SQLSTATE
    /// 53100, before the file system is full. Appends work again, without a restart, after space is
    /// freed.
    free_bytes_min: Bytes, "bytes" = Bytes(256 << 20);

    /// Largest accepted jump of the machine's clock ahead while the server runs, in milliseconds; 0
    /// accepts every jump. The server does not follow a longer jump until an operator accepts the
    /// jump (`CALL stratalog.accept_clock_jump()`) or corrects the clock.
    clock_jump_ms_max: u64, "milliseconds" = 300_000;

    /// Largest trusted lead of the machine's clock over the last run at a start, in milliseconds; 0
    /// trusts every lead. After a start with a longer lead, retention keeps events longer by the
    /// lead until an operator confirms the clock (`CALL stratalog.accept_clock_jump()`).
    clock_start_lead_ms_max: u64, "milliseconds" = 86_400_000;

    /// Milliseconds that a shutdown waits for running statements before the server cancels the
    /// statements.
    shutdown_grace_ms: u64, "milliseconds" = 10_000;

    /// Minimum level of written log lines: `error`, `warn`, `info`, `debug` or `trace`; or a level
    /// for each crate, as in `warn,stratalog_journal=debug`.
    log_level: String, "filter" = "info".to_string();

    /// Format of log lines: `text` or `compact`. Log lines always go to standard error.
    log_format: LogFormat, "text or compact" = LogFormat::Text;
}

#[cfg(test)]
mod tests;
