//! Options of a client: address, login, connections, timeouts and retries.

use std::{path::PathBuf, time::Duration};

use crate::{
    address::Address,
    client::Client,
    error::{Error, ErrorKind, Result},
    retry::RetryPolicy,
    settings::Settings,
    tls::{ServerTls, TlsFiles},
};

/// Maximal number of connections of a client.
const CONNECTIONS_MAX: usize = 64;

/// Options of a [`Client`], made by [`Client::builder`].
#[derive(Clone)]
pub struct ClientBuilder {
    url: String,
    user: Option<String>,
    password: Option<String>,
    database: Option<String>,
    files: TlsFiles,
    application_name: Option<String>,
    connections: usize,
    connect_timeout: Duration,
    request_timeout: Option<Duration>,
    retry: RetryPolicy,
    message_bytes_max: usize,
}

impl std::fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientBuilder").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            url: "grpc://127.0.0.1:50051".to_string(),
            user: None,
            password: None,
            database: None,
            files: TlsFiles::default(),
            application_name: None,
            connections: 4,
            connect_timeout: Duration::from_secs(10),
            request_timeout: None,
            retry: RetryPolicy::default(),
            message_bytes_max: 64 << 20,
        }
    }
}

impl ClientBuilder {
    /// The URL of the server: `grpc://[user[:password]@]host[:port][/database]`, or the same with
    /// `chronolog://`. With `grpc+tls://` or `chronologs://`, the connection uses TLS, and the
    /// client verifies the certificate and the name of the server. Default:
    /// `grpc://127.0.0.1:50051`.
    #[must_use]
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = url.into();
        self
    }

    /// The user; overrides the URL.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// The password. The client sends it once per session; afterwards the session uses a token.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// PEM file with the authorities that may sign the server's certificate. Default: the
    /// authorities that the operating system trusts.
    #[must_use]
    pub fn root_certificates(mut self, path: impl Into<PathBuf>) -> Self {
        self.files.roots = Some(path.into());
        self
    }

    /// PEM files with the client's certificate and its private key, for a login without a password.
    #[must_use]
    pub fn client_certificate(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.files.client = Some((certificate.into(), key.into()));
        self
    }

    /// The database; overrides the URL.
    #[must_use]
    pub fn database(mut self, database: impl Into<String>) -> Self {
        self.database = Some(database.into());
        self
    }

    /// The client's name in the system table `stratalog.sessions`.
    #[must_use]
    pub fn application_name(mut self, name: impl Into<String>) -> Self {
        self.application_name = Some(name.into());
        self
    }

    /// Maximal number of connections, 1 to 64; default 4. The client opens connections on demand;
    /// one connection carries any number of concurrent calls.
    #[must_use]
    pub fn connections(mut self, count: usize) -> Self {
        self.connections = count;
        self
    }

    /// Timeout for connecting and logging in; default 10 seconds.
    #[must_use]
    pub fn connect_timeout(mut self, time: Duration) -> Self {
        self.connect_timeout = time;
        self
    }

    /// Timeout of a statement until its first answer: the columns of a query, or the row count of
    /// any other statement. Default: no timeout. Keep-alive pings detect a dead server in any case.
    #[must_use]
    pub fn request_timeout(mut self, time: Duration) -> Self {
        self.request_timeout = Some(time);
        self
    }

    /// The policy for repeating safe requests.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// The maximal message size in either direction; default 64 MiB, the server's limit.
    #[must_use]
    pub fn message_bytes_max(mut self, bytes: usize) -> Self {
        self.message_bytes_max = bytes;
        self
    }

    /// Connects and logs in.
    ///
    /// # Errors
    /// `InvalidOption` for invalid options; `Login`, `Connection` and `Timeout` if all attempts of
    /// the retry policy fail.
    pub async fn connect(self) -> Result<Client> {
        Client::open(self.settings()?).await
    }

    fn settings(self) -> Result<Settings> {
        let refused = |what: String| Err(Error::new(ErrorKind::InvalidOption, what));
        let mut address = Address::read(&self.url)?;
        address.user = self.user.or(address.user);
        address.password = self.password.or(address.password);
        address.database = self.database.or(address.database);
        if address.user.as_deref().is_some_and(|user| user.contains(':')) {
            return refused("the name of a user cannot have a colon".to_string());
        }
        if address.password.is_some() && address.user.is_none() {
            return refused("a password is given, but no user".to_string());
        }
        if !address.tls && self.files != TlsFiles::default() {
            return refused(format!(
                "certificates are given, but the URL has no TLS: write grpc+tls://{}:{}",
                address.host, address.port
            ));
        }
        let tls = address.tls.then(|| ServerTls::new(&self.files)).transpose()?;
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            return refused(format!(
                "{} connections cannot be: 1 to {CONNECTIONS_MAX}",
                self.connections
            ));
        }
        if self.retry.attempts_max == 0 {
            return refused("a policy of 0 tries does nothing: 1 or more".to_string());
        }
        if self.message_bytes_max < 1 << 16 {
            return refused(format!(
                "message_bytes_max is {}: 65536 or more",
                self.message_bytes_max
            ));
        }
        Ok(Settings {
            address,
            tls,
            application_name: self.application_name,
            connections: self.connections,
            connect_timeout: self.connect_timeout,
            request_timeout: self.request_timeout,
            retry: self.retry,
            message_bytes_max: self.message_bytes_max,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_go_before_the_url() {
        let builder = ClientBuilder::default().url("grpc://ann:x@h/one").user("bob");
        let settings = builder.clone().database("two").settings().unwrap();
        assert_eq!(settings.address.user.as_deref(), Some("bob"));
        assert_eq!(settings.address.password.as_deref(), Some("x"));
        assert_eq!(settings.address.database.as_deref(), Some("two"));
        assert!(!format!("{:?}", builder.password("secret")).contains("secret"));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let builder = ClientBuilder::default;
        let never = RetryPolicy { attempts_max: 0, ..RetryPolicy::default() };
        for (wrong, message) in [
            (builder().connections(0), "connections"),
            (builder().connections(65), "1 to 64"),
            (builder().user("a:b"), "colon"),
            (builder().password("p"), "no user"),
            (builder().root_certificates("ca.pem"), "grpc+tls://127.0.0.1:50051"),
            (
                builder().url("grpc+tls://h").root_certificates("/missing.pem"),
                "cannot use /missing.pem",
            ),
            (builder().retry(never), "0 tries"),
            (builder().message_bytes_max(10), "65536"),
        ] {
            let error = wrong.settings().unwrap_err();
            assert!(
                error.kind() == ErrorKind::InvalidOption && error.to_string().contains(message)
            );
        }
    }
}
