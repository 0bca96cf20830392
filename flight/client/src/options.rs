//! How a client connects, and what it does when something fails.

use std::time::Duration;

use crate::{
    address::Address,
    client::Client,
    error::{Error, ErrorKind, Result},
    retry::RetryPolicy,
};

/// Connections of one client at most.
const CONNECTIONS_MAX: usize = 64;

/// What a client was asked to be.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) address: Address,
    pub(crate) application_name: Option<String>,
    pub(crate) connections: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) retry: RetryPolicy,
    pub(crate) message_bytes_max: usize,
}

/// Options of a [`Client`], made by [`Client::builder`].
#[derive(Clone)]
pub struct ClientBuilder {
    url: String,
    user: Option<String>,
    password: Option<String>,
    database: Option<String>,
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
    /// Where the server is: `grpc://[user[:password]@]host[:port][/database]`, or the same with
    /// `chronolog://`. `grpc://127.0.0.1:50051` if it is not said.
    #[must_use]
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = url.into();
        self
    }

    /// Who logs in, before what the URL says.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// The password, sent once for each connection: its session then has a token.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// The database, before what the URL says.
    #[must_use]
    pub fn database(mut self, database: impl Into<String>) -> Self {
        self.database = Some(database.into());
        self
    }

    /// The name under which `stratalog.sessions` shows the client.
    #[must_use]
    pub fn application_name(mut self, name: impl Into<String>) -> Self {
        self.application_name = Some(name.into());
        self
    }

    /// Connections at most, 1 to 64; 4 if it is not said. They are made when they are needed, and each
    /// carries any number of calls.
    #[must_use]
    pub fn connections(mut self, count: usize) -> Self {
        self.connections = count;
        self
    }

    /// How long it may take to connect and log in; 10 seconds if it is not said.
    #[must_use]
    pub fn connect_timeout(mut self, time: Duration) -> Self {
        self.connect_timeout = time;
        self
    }

    /// How long a statement may take until its first answer: the columns of a query, the number of
    /// rows of another. Without it, as long as it takes; that the server is there is asked in any case.
    #[must_use]
    pub fn request_timeout(mut self, time: Duration) -> Self {
        self.request_timeout = Some(time);
        self
    }

    /// When what is safe to do again is done again.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// The largest message, in either direction; 64 MiB if it is not said, which is what the server
    /// takes.
    #[must_use]
    pub fn message_bytes_max(mut self, bytes: usize) -> Self {
        self.message_bytes_max = bytes;
        self
    }

    /// Connects and logs in.
    ///
    /// # Errors
    /// `InvalidOption` for what cannot be; `Login`, `Connection` and `Timeout` when it does not succeed
    /// within the policy.
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
            return refused("there is a password, but no user".to_string());
        }
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
        for (wrong, told) in [
            (builder().connections(0), "connections"),
            (builder().connections(65), "1 to 64"),
            (builder().user("a:b"), "colon"),
            (builder().password("p"), "no user"),
            (builder().retry(never), "0 tries"),
            (builder().message_bytes_max(10), "65536"),
        ] {
            let error = wrong.settings().unwrap_err();
            assert!(error.kind() == ErrorKind::InvalidOption && error.to_string().contains(told));
        }
    }
}
