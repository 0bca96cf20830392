//! Reads settings from their sources. A flag takes precedence over an environment variable, a
//! variable over the file, and the file over the default.

use std::path::{Path, PathBuf};

use super::{KEYS, Settings, check::check_together};

/// The beginning of the names of all environment variables.
pub(super) const VARIABLE_PREFIX: &str = "STRATALOG_";

/// Environment variables with this prefix that are not settings, because other commands, tests or
/// scripts use them. The server ignores these variables, because scripts may set them and then
/// start a server.
const OTHER_VARIABLES: [&str; 15] = [
    "STRATALOG_BENCH_DIR",
    "STRATALOG_BIN",
    "STRATALOG_CACHE",
    "STRATALOG_CONFIG",
    "STRATALOG_CRASH_CYCLES",
    "STRATALOG_CRASH_SECONDS",
    "STRATALOG_HISTORY",
    "STRATALOG_POWER_CUTS",
    "STRATALOG_SABOTAGE",
    "STRATALOG_SEED",
    "STRATALOG_SEEDS",
    "STRATALOG_TEST_BLESS",
    "STRATALOG_TORTURE_MINUTES",
    "STRATALOG_URL",
    "STRATALOG_WRITE_FIXTURE",
];

/// An unusable setting: what is wrong, where, and how to correct it.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The settings file cannot be read.
    #[error("cannot read the configuration file {path}: {reason}")]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system or of the TOML parser.
        reason: String,
    },
    /// No setting has this name.
    #[error("unknown setting {name} in {place}{}", suggestion.as_ref().map(|near| format!("; did you mean {near}?")).unwrap_or_default())]
    Unknown {
        /// The unknown name, as the source writes it.
        name: String,
        /// The source: file, environment or command line.
        place: String,
        /// The most similar name of a setting, if there is one.
        suggestion: Option<String>,
    },
    /// The setting does not accept the value.
    #[error("{name} in {place}: {reason}")]
    Value {
        /// The name of the setting, as the source writes it.
        name: String,
        /// The source: file, environment or command line.
        place: String,
        /// What is wrong with the value.
        reason: String,
    },
}

/// The three sources of settings; a later source takes precedence.
#[derive(Debug, Default, Clone)]
pub struct Layers {
    /// The path of the TOML file, if given.
    pub file: Option<PathBuf>,
    /// All environment variables; variables without the prefix are ignored.
    pub environment: Vec<(String, String)>,
    /// The flags given by the user, as pairs of setting name and text.
    pub flags: Vec<(String, String)>,
}

impl Layers {
    /// Reads all sources. Also returns warnings about ignored environment variables that an
    /// orchestrator such as Kubernetes has set for a service with a similar name.
    ///
    /// # Errors
    /// An unreadable file, an unknown name, or a value that its setting does not accept.
    pub fn load(&self) -> Result<(Settings, Vec<String>), SettingsError> {
        let mut settings = Settings::default();
        if let Some(path) = &self.file {
            load_file(&mut settings, path)?;
        }
        let warnings = load_environment(&mut settings, &self.environment)?;
        for (name, text) in &self.flags {
            let place = "the command line".to_string();
            let flag = format!("--{}", name.replace('_', "-"));
            settings.set_text(name, text).map_err(|reason| SettingsError::Value {
                name: flag,
                place,
                reason,
            })?;
        }
        check_together(&settings).map_err(|(name, reason)| SettingsError::Value {
            name: name.to_string(),
            place: "the settings".to_string(),
            reason,
        })?;
        Ok((settings, warnings))
    }
}

fn load_file(settings: &mut Settings, path: &Path) -> Result<(), SettingsError> {
    let unreadable =
        |reason: String| SettingsError::Unreadable { path: path.to_path_buf(), reason };
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    let table: toml::Table = toml::from_str(&text)
        .map_err(|error| unreadable(error.to_string().trim_end().to_string()))?;
    for (name, value) in table {
        let place = path.display().to_string();
        if !KEYS.iter().any(|key| key.name == name) {
            let suggestion = nearest(&name).map(str::to_string);
            return Err(SettingsError::Unknown { name, place, suggestion });
        }
        settings.set_toml(&name, value).map_err(|reason| SettingsError::Value {
            name,
            place,
            reason,
        })?;
    }
    Ok(())
}

fn load_environment(
    settings: &mut Settings,
    variables: &[(String, String)],
) -> Result<Vec<String>, SettingsError> {
    let mut warnings = Vec::new();
    for (variable, text) in variables {
        let Some(name) = variable.strip_prefix(VARIABLE_PREFIX) else { continue };
        if OTHER_VARIABLES.contains(&variable.as_str()) {
            continue;
        }
        let name = name.to_ascii_lowercase();
        let place = "the environment".to_string();
        if !KEYS.iter().any(|key| key.name == name) {
            if is_of_a_service(&name, text) {
                warnings.push(format!("{variable} in the environment is not a setting: ignored"));
                continue;
            }
            return Err(SettingsError::Unknown {
                name: variable.clone(),
                place,
                suggestion: nearest(&name)
                    .map(|near| format!("{VARIABLE_PREFIX}{}", near.to_ascii_uppercase())),
            });
        }
        settings.set_text(&name, text).map_err(|reason| SettingsError::Value {
            name: variable.clone(),
            place,
            reason,
        })?;
    }
    Ok(warnings)
}

/// True for a variable that an orchestrator sets for a service called `stratalog` or `stratalog-…`.
/// The names end with `SERVICE_HOST`, `SERVICE_PORT_PG` or `PORT_5433_TCP_ADDR`; or with `PORT`, if
/// the value is a complete address.
fn is_of_a_service(name: &str, text: &str) -> bool {
    let has = |word: &str| name.starts_with(word) || name.contains(&format!("_{word}"));
    let of_a_port = name.split("port_").nth(1).is_some_and(|rest| {
        let (number, protocol) = rest.split_once('_').unwrap_or((rest, ""));
        number.parse::<u16>().is_ok()
            && ["tcp", "udp", "sctp"].iter().any(|p| protocol.starts_with(p))
    });
    let whole = name.ends_with("port") && text.contains("://");
    has("service_host") || has("service_port") || of_a_port || whole
}

/// The setting whose name is most similar to `name`; `None` if no name is similar enough for a
/// typing error.
fn nearest(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase().replace('-', "_");
    KEYS.iter()
        .map(|key| (strsim::jaro_winkler(&name, key.name), key.name))
        .filter(|(likeness, _)| *likeness >= 0.85)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, near)| near)
}
