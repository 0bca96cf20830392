//! The registry of all logins. Assigns each call to a login.

use std::{collections::HashMap, sync::Arc};

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use parking_lot::Mutex;
use stratalog_access::{Authenticated, Authenticator};
use stratalog_flight_wire::Seal;
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_query::{Login, QueryService, quoted};
use tonic::metadata::MetadataMap;
use uuid::Uuid;

use super::Caller;
use crate::{FlightSettings, connection::Peer, encode::EncodedCommits};

/// The beginning of every token that a Handshake issues.
const TOKEN_PREFIX: &str = "stratalog-";
const PURPOSE: &str = "token";

/// A base64 decoder that accepts missing padding, because some clients omit the padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Maximum number of simultaneous logins with tokens.
const LOGINS_MAX: usize = 10_000;

/// The headers in which clients name a database.
const DATABASE_HEADERS: [&str; 3] = ["database", "bucket-name", "iox-namespace-name"];

/// All logins that have tokens.
#[derive(Debug)]
pub(crate) struct Callers {
    service: Arc<QueryService>,
    authenticator: Arc<Authenticator>,
    settings: Arc<FlightSettings>,
    seal: Seal,
    logins: Mutex<HashMap<Uuid, Arc<Caller>>>,
    encoded: Arc<EncodedCommits>,
}

impl Callers {
    /// Creates a registry without logins.
    pub(crate) fn new(
        service: Arc<QueryService>,
        authenticator: Arc<Authenticator>,
        settings: Arc<FlightSettings>,
        seal: Seal,
    ) -> Self {
        let (logins, encoded) = (Mutex::default(), Arc::default());
        Self { service, authenticator, settings, seal, logins, encoded }
    }

    /// Logs a client in, and returns a new token. `pair` is a user and password from the message of
    /// a Handshake.
    ///
    /// # Errors
    /// `TooManyConnections`; `InvalidAuthorization`, `InvalidPassword` for a refused login; errors
    /// from opening a session.
    pub(crate) async fn log_in(
        &self,
        headers: &MetadataMap,
        pair: Option<(String, String)>,
        peer: Option<&Arc<Peer>>,
    ) -> Result<String> {
        let peer = peer.ok_or_else(no_peer)?;
        if self.logins.lock().len() >= LOGINS_MAX {
            return Err(Error::new(
                ErrorKind::TooManyConnections,
                format!("sorry, too many logins already ({LOGINS_MAX})"),
            )
            .with_hint("call CloseSession for unneeded sessions"));
        }
        let login = match pair.filter(|(user, _)| !user.is_empty()) {
            Some((user, password)) => {
                self.authenticator.pair(&user, &password, peer.origin()).await?
            }
            None => self.authenticate(headers, peer).await?,
        };
        let caller = self.open(&login, database(headers)?, peer)?;
        let id = caller.id();
        self.logins.lock().insert(id, caller);
        let sealed = self.seal.seal(PURPOSE, id.into_bytes().to_vec());
        Ok(format!("{TOKEN_PREFIX}{}", BASE64.encode(sealed)))
    }

    /// Finds or creates the caller to which a call belongs, for the database that the ticket or the
    /// headers name.
    ///
    /// # Errors
    /// `InvalidAuthorization`, `InvalidPassword` for a refused login; errors from opening a session.
    pub(crate) async fn of(
        &self,
        headers: &MetadataMap,
        named: Option<&str>,
        peer: Option<&Arc<Peer>>,
    ) -> Result<Arc<Caller>> {
        if let Some(token) = issued_token(authorization(headers)?) {
            let caller = self.by_token(token)?;
            caller.touch();
            return Ok(caller);
        }
        let peer = peer.ok_or_else(no_peer)?;
        let login = self.authenticate(headers, peer).await?;
        let named = match named {
            Some(named) => Some(named),
            None => database(headers)?,
        };
        let make = || self.open(&login, named, peer);
        let caller = peer.caller(&login, named.unwrap_or_default(), make)?;
        caller.touch();
        Ok(caller)
    }

    /// Checks the credentials of a call: the header `authorization`, or the client's certificate.
    async fn authenticate(&self, headers: &MetadataMap, peer: &Peer) -> Result<Authenticated> {
        let value = authorization(headers)?;
        let (authenticator, origin) = (&self.authenticator, peer.origin());
        let names = peer.certificate_names();
        if value.is_none()
            && let Some(user) = authenticator.certificate_user(names)
            && let Some(login) = authenticator.certificate(names, user, origin).await?
        {
            return Ok(login);
        }
        authenticator.header(value, &self.settings.default_user, origin).await
    }

    /// Ends a login and its running work.
    pub(crate) fn forget(&self, caller: &Arc<Caller>, peer: Option<&Arc<Peer>>) {
        self.logins.lock().remove(&caller.id());
        if let Some(peer) = peer {
            peer.forget(caller);
        }
        caller.end();
    }

    /// Ends logins that have made no call for the idle time, and removes logins that have ended.
    pub(crate) fn expire(&self) {
        let oldest_ns = self.oldest_ns();
        let mut ended = Vec::new();
        self.logins.lock().retain(|_, caller| {
            let goes_on = caller.session().check_terminated().and(caller.check_login());
            let stays = goes_on.is_ok() && caller.idle_since_ns() >= oldest_ns;
            if !stays {
                ended.push(Arc::clone(caller));
            }
            stays
        });
        for caller in ended {
            caller.end();
        }
    }

    fn by_token(&self, token: &str) -> Result<Arc<Caller>> {
        let refused = || {
            Error::new(
                ErrorKind::InvalidAuthorization,
                "the token is not from this server, or has expired",
            )
            .with_hint("log in again: tokens end with CloseSession, when unused for an hour, and with the server")
        };
        let sealed = BASE64.decode(token).map_err(|_| refused())?;
        let id = self.seal.open(PURPOSE, &sealed).and_then(|id| Uuid::from_slice(id).ok());
        let id = id.ok_or_else(refused)?;
        let caller = self.logins.lock().get(&id).cloned().ok_or_else(refused)?;
        if caller.session().check_terminated().is_err() {
            self.forget(&caller, None);
            return Err(Error::new(
                ErrorKind::InvalidAuthorization,
                "another session ended the session of this token",
            )
            .with_hint("log in again"));
        }
        if let Err(error) = caller.check_login() {
            self.forget(&caller, None);
            return Err(error);
        }
        // A login may have expired since the last run of [`Callers::expire`].
        if caller.idle_since_ns() < self.oldest_ns() {
            self.forget(&caller, None);
            return Err(refused());
        }
        Ok(caller)
    }

    /// The expiry limit, in nanoseconds since 1970: a login whose last call is earlier has expired.
    fn oldest_ns(&self) -> i64 {
        let idle_ns = i64::try_from(self.settings.idle_ms_max.saturating_mul(1_000_000));
        let now_ns = self.service.parts().clock.now_ns();
        now_ns.saturating_sub(idle_ns.unwrap_or(i64::MAX))
    }

    /// Opens a session for a user. If the default database has a schema with the name `named`, and
    /// no database has this name, the session uses the default database with this schema first in
    /// the search path: InfluxDB's clients call a container of tables a database.
    fn open(&self, login: &Authenticated, named: Option<&str>, peer: &Peer) -> Result<Arc<Caller>> {
        let catalog = self.service.parts().catalog.state();
        let default = &self.settings.default_database;
        let mut settings = login.settings.clone();
        let database = match named {
            Some(named) if catalog.database(named).is_some() => named,
            Some(named) if catalog.schema(default, named).is_some() => {
                settings.push(("search_path".to_string(), format!("{}, public", quoted(named))));
                default.as_str()
            }
            Some(named) => named,
            None => default.as_str(),
        };
        let login = Login {
            identity: login.identity,
            user: login.user.clone(),
            database: database.to_string(),
            application_name: String::new(),
            client_address: Some(peer.address().to_string()),
            settings,
            long_secret: true,
        };
        Caller::new(&self.service, &self.authenticator, &self.settings, &self.encoded, login)
    }
}

fn no_peer() -> Error {
    Error::internal("a call has no connection")
}

/// The value of the header `authorization`.
fn authorization(headers: &MetadataMap) -> Result<Option<&str>> {
    let text = headers.get("authorization").map(|value| value.to_str()).transpose();
    text.map_err(|_| {
        Error::new(ErrorKind::InvalidAuthorization, "the header authorization is not text")
            .with_hint("send \"Basic\" with base64 of user:password, or \"Bearer\" with a token")
    })
}

/// The part of a token of a Handshake behind its prefix; `None` for other credentials.
fn issued_token(authorization: Option<&str>) -> Option<&str> {
    let (scheme, token) = authorization?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().strip_prefix(TOKEN_PREFIX)).flatten()
}

/// The database name in the headers of a call; `None` if no header names a database.
fn database(headers: &MetadataMap) -> Result<Option<&str>> {
    let Some(name) = DATABASE_HEADERS.iter().find_map(|name| headers.get(*name)) else {
        return Ok(None);
    };
    let name = name.to_str().map_err(|_| {
        Error::new(
            ErrorKind::InvalidEncoding,
            "the header with the name of the database is not ASCII",
        )
        .with_hint("set the session option \"schema\" instead; the option may be any text")
    })?;
    Ok(Some(name).filter(|name| !name.is_empty()))
}
