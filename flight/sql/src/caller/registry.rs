//! The registry of all logins. Assigns each call to a login.

use std::{collections::HashMap, sync::Arc};

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use parking_lot::Mutex;
use stratalog_flight_wire::Seal;
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_query::{Login, QueryService, quoted};
use tonic::metadata::MetadataMap;
use uuid::Uuid;

use super::Caller;
use crate::{FlightSettings, connection::Peer, encode::EncodedCommits};

/// The beginning of every token that this server issues.
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
    settings: Arc<FlightSettings>,
    seal: Seal,
    logins: Mutex<HashMap<Uuid, Arc<Caller>>>,
    encoded: Arc<EncodedCommits>,
}

/// The user, password and database in the headers of a call, before they are checked.
#[derive(Debug, Default)]
struct Claim {
    user: Option<String>,
    token: Option<String>,
}

impl Callers {
    /// Creates a registry without logins.
    pub(crate) fn new(
        service: Arc<QueryService>,
        settings: Arc<FlightSettings>,
        seal: Seal,
    ) -> Self {
        Self { service, settings, seal, logins: Mutex::default(), encoded: Arc::default() }
    }

    /// Logs a client in, and returns a new token.
    ///
    /// # Errors
    /// `TooManyConnections`; `InvalidAuthorization` for an unreadable login; errors from opening a
    /// session.
    pub(crate) fn log_in(
        &self,
        headers: &MetadataMap,
        user: Option<String>,
        peer: Option<&Arc<Peer>>,
    ) -> Result<String> {
        let claim = Claim::read(headers)?;
        if self.logins.lock().len() >= LOGINS_MAX {
            return Err(Error::new(
                ErrorKind::TooManyConnections,
                format!("sorry, too many logins already ({LOGINS_MAX})"),
            )
            .with_hint("call CloseSession for unneeded sessions"));
        }
        let user = user.filter(|user| !user.is_empty()).or(claim.user);
        let caller = self.open(user.as_deref(), database(headers)?, peer)?;
        let id = caller.id();
        self.logins.lock().insert(id, caller);
        let sealed = self.seal.seal(PURPOSE, id.into_bytes().to_vec());
        Ok(format!("{TOKEN_PREFIX}{}", BASE64.encode(sealed)))
    }

    /// Finds or creates the caller to which a call belongs, for the database that the ticket or the
    /// headers name.
    ///
    /// # Errors
    /// `InvalidAuthorization` for a forged or expired token; errors from opening a session.
    pub(crate) fn of(
        &self,
        headers: &MetadataMap,
        named: Option<&str>,
        peer: Option<&Arc<Peer>>,
    ) -> Result<Arc<Caller>> {
        let claim = Claim::read(headers)?;
        if let Some(token) =
            claim.token.as_deref().and_then(|token| token.strip_prefix(TOKEN_PREFIX))
        {
            let caller = self.by_token(token)?;
            caller.touch();
            return Ok(caller);
        }
        let named = match named {
            Some(named) => Some(named),
            None => database(headers)?,
        };
        let caller = match peer {
            Some(known) => {
                let user = claim.user.as_deref().unwrap_or(&self.settings.default_user);
                let make = || self.open(Some(user), named, peer);
                known.caller(user, named.unwrap_or_default(), make)?
            }
            None => self.open(claim.user.as_deref(), named, peer)?,
        };
        caller.touch();
        Ok(caller)
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
            let goes_on = caller.session().check_terminated().is_ok();
            let stays = goes_on && caller.idle_since_ns() >= oldest_ns;
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
    fn open(
        &self,
        user: Option<&str>,
        named: Option<&str>,
        peer: Option<&Arc<Peer>>,
    ) -> Result<Arc<Caller>> {
        let catalog = self.service.parts().catalog.state();
        let default = &self.settings.default_database;
        let mut settings = Vec::new();
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
            identity: stratalog_query::Identity::Trusted,
            user: user.unwrap_or(&self.settings.default_user).to_string(),
            database: database.to_string(),
            application_name: String::new(),
            client_address: peer.map(|peer| peer.address().to_string()),
            settings,
            long_secret: true,
        };
        Caller::new(&self.service, &self.settings, &self.encoded, login)
    }
}

impl Claim {
    /// Reads the header `authorization`.
    fn read(headers: &MetadataMap) -> Result<Self> {
        let unread = |what: &str| {
            Error::new(ErrorKind::InvalidAuthorization, format!("the header authorization {what}"))
                .with_hint(
                    "send \"Basic\" with base64 of user:password, or \"Bearer\" with a token",
                )
        };
        let Some(text) = headers.get("authorization") else { return Ok(Self::default()) };
        let text = text.to_str().map_err(|_| unread("is not text"))?;
        let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
        match scheme.to_ascii_lowercase().as_str() {
            "bearer" => Ok(Self { token: Some(rest.trim().to_string()), user: None }),
            "basic" => {
                let pair = BASE64.decode(rest.trim()).ok().and_then(|b| String::from_utf8(b).ok());
                let pair = pair.ok_or_else(|| unread("is not base64 of text"))?;
                let user = pair.split_once(':').map_or(pair.as_str(), |(user, _)| user);
                let user = Some(user.to_string()).filter(|user| !user.is_empty());
                Ok(Self { user, token: None })
            }
            _ => Err(unread("has an unsupported scheme")),
        }
    }
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
