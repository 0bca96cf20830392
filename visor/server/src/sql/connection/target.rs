//! The server to connect to, with password and TLS, from a URL and from libpq's environment
//! variables.

use std::{collections::HashMap, os::unix::fs::MetadataExt as _, path::PathBuf};

use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};

use super::tls::{ClientFiles, ClientTls, SYSTEM_ROOTS, Verification};
use crate::sql::error::SqlError;

/// The options in a URL that this program handles itself, with libpq's environment variables.
const OPTIONS: [(&str, &str); 4] = [
    ("sslmode", "PGSSLMODE"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
];

/// A server, and how to connect to it.
#[derive(Debug, Clone)]
pub struct Target {
    /// Address, user, database, password and session settings.
    pub config: Config,
    /// The client's side of TLS.
    pub tls: ClientTls,
}

impl Target {
    /// Reads a URL such as `postgres://user:password@host/db?sslmode=verify-full&sslrootcert=FILE`.
    ///
    /// # Errors
    /// An invalid URL or option, or an unusable file.
    pub fn of_url(text: &str) -> Result<Self, SqlError> {
        let (rest, mut options) = split(text);
        let config = rest.parse::<Config>().map_err(|error| {
            SqlError::local(format!(
                "{} is not a server URL: {error}; write for example postgres://stratalog@127.0.0.1:5433/stratalog",
                without_password(text)
            ))
        })?;
        Self::new(config, &mut options)
    }

    /// Completes a configuration from the environment.
    ///
    /// # Errors
    /// As [`Self::of_url`].
    pub fn of_config(config: Config) -> Result<Self, SqlError> {
        Self::new(config, &mut HashMap::new())
    }

    fn new(mut config: Config, options: &mut HashMap<String, String>) -> Result<Self, SqlError> {
        let mut option = |name: &str| {
            let (_, variable) = OPTIONS.iter().find(|(known, _)| *known == name)?;
            options.remove(name).or_else(|| environment(variable))
        };
        let files = ClientFiles {
            root_cert: option("sslrootcert").map(PathBuf::from),
            cert: option("sslcert").map(PathBuf::from),
            key: option("sslkey").map(PathBuf::from),
        };
        let of_system = files.root_cert.as_deref().is_some_and(|path| path == SYSTEM_ROOTS);
        let default = if of_system { "verify-full" } else { "prefer" };
        let mode = option("sslmode").unwrap_or_else(|| default.to_string());
        let (ssl_mode, verification) = match mode.as_str() {
            // As libpq: anybody gets a certificate of these authorities, for a name of their own.
            weaker if of_system && weaker != "verify-full" => {
                return Err(SqlError::local(format!(
                    "sslrootcert=system needs sslmode=verify-full, not {weaker}"
                )));
            }
            "disable" => (SslMode::Disable, Verification::Nothing),
            "allow" | "prefer" => (SslMode::Prefer, Verification::Nothing),
            // As libpq: with an authority, `require` verifies its signature.
            "require" if files.root_cert.is_some() => (SslMode::Require, Verification::Authority),
            "require" => (SslMode::Require, Verification::Nothing),
            "verify-ca" => (SslMode::Require, Verification::Authority),
            "verify-full" => (SslMode::Require, Verification::Full),
            other => {
                return Err(SqlError::local(format!("sslmode \"{other}\" is unknown"))
                    .with_hint("write disable, prefer, require, verify-ca or verify-full"));
            }
        };
        config.ssl_mode(ssl_mode);
        if config.get_password().is_none()
            && let Some(password) = environment("PGPASSWORD").or_else(|| stored_password(&config))
        {
            config.password(password);
        }
        Ok(Self { config, tls: ClientTls::new(verification, &files)? })
    }
}

fn environment(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.is_empty())
}

/// Splits a URL into the part for the client library, and this program's own options.
fn split(text: &str) -> (String, HashMap<String, String>) {
    let mut own = HashMap::new();
    let Some((base, query)) = text.split_once('?').filter(|(base, _)| base.contains("://")) else {
        return (text.to_string(), own);
    };
    let mut rest = Vec::new();
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if OPTIONS.iter().any(|(known, _)| *known == name) {
            let decoded = url::form_urlencoded::parse(pair.as_bytes()).next();
            let value = decoded.map_or_else(|| value.to_string(), |(_, value)| value.into_owned());
            own.insert(name.to_string(), value);
        } else {
            rest.push(pair);
        }
    }
    match rest.is_empty() {
        true => (base.to_string(), own),
        false => (format!("{base}?{}", rest.join("&")), own),
    }
}

/// A URL without its password, for messages.
fn without_password(text: &str) -> String {
    let Ok(mut url) = url::Url::parse(text) else {
        return if text.contains("password") { "the text".to_string() } else { text.to_string() };
    };
    if url.password().is_some() {
        // A URL without a host cannot have a password.
        let _ = url.set_password(Some("***"));
    }
    url.to_string()
}

/// The password in `PGPASSFILE` or `~/.pgpass`, as libpq reads the file. A file that others may
/// read is ignored.
fn stored_password(config: &Config) -> Option<String> {
    let path = match environment("PGPASSFILE") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(environment("HOME")?).join(".pgpass"),
    };
    let metadata = std::fs::metadata(&path).ok()?;
    if metadata.mode() & 0o077 != 0 {
        eprintln!(
            "WARNING: password file \"{}\" has group or world access; permissions should be u=rw (0600) or less",
            path.display()
        );
        return None;
    }
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        Some(Host::Unix(_)) | None => "localhost".to_string(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let user = config.get_user().unwrap_or_default();
    let wanted = [host.as_str(), &port, config.get_dbname().unwrap_or(user), user];
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| password_in(line, &wanted))
}

/// The password in a line `host:port:database:user:password`, if the line is about the wanted
/// server. A backslash escapes the next character; `*` matches everything.
fn password_in(line: &str, wanted: &[&str; 4]) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        let last = fields.len() == wanted.len() + 1;
        match (character, fields.last_mut()) {
            (':', _) if !last => fields.push(String::new()),
            ('\\', Some(field)) => field.extend(characters.next()),
            (other, Some(field)) => field.push(other),
            (_, None) => {}
        }
    }
    let password = fields.get(wanted.len())?;
    let fits = fields.iter().zip(wanted).all(|(field, wanted)| field == "*" || field == wanted);
    fits.then(|| password.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_tls_leave_the_url() {
        let (rest, own) =
            split("postgres://u:p@h/d?sslmode=verify-full&application_name=x&sslrootcert=%2Fa%20b");
        assert_eq!(rest, "postgres://u:p@h/d?application_name=x");
        assert_eq!((own["sslmode"].as_str(), own["sslrootcert"].as_str()), ("verify-full", "/a b"));
        assert_eq!(split("postgres://h/d?sslmode=disable").0, "postgres://h/d");
        assert_eq!(split("host=h user=u").0, "host=h user=u");
    }

    #[test]
    fn lines_of_a_password_file() {
        let wanted = ["h", "5433", "d", "u"];
        for (line, password) in [
            ("h:5433:d:u:secret", Some("secret")),
            ("*:*:*:u:a:b\\:c\\\\", Some("a:b:c\\")),
            ("h:5432:d:u:secret", None),
            ("#h:5433:d:u:secret", None),
            ("h:5433:d:u", None),
            ("", None),
        ] {
            assert_eq!(password_in(line, &wanted).as_deref(), password, "{line}");
        }
    }

    #[test]
    fn messages_do_not_show_passwords() {
        assert!(!without_password("postgres://u:secret@h/d?x=1").contains("secret"));
        assert!(!without_password("host=h password=secret").contains("secret"));
    }
}
