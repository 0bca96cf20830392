//! Wires logins and TLS: the certificate files of the settings, the authenticator with its audit,
//! and the rule for listeners that other machines can reach.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use stratalog_access::{
    Access, Authenticator, AuthenticatorSettings, JwtSettings, JwtVerifier, LoginAttempt,
    LoginMethod, LoginObserver, Tls, TlsSettings,
};
use stratalog_model::{BoxFuture, Error, ErrorKind, Result};
use stratalog_query::{AuditRecord, Certificates, QueryService};
use stratalog_visor_core::access::AccessState;

use crate::{Embedded, StartError, login_secret, settings::Settings};

/// The folder of the data directory for the files of `stratalog certificate create`.
const TLS_FOLDER: &str = "tls";

/// How often the server looks at the end of its certificate's validity.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// The server warns so long before the certificate's end, in nanoseconds: 30 days.
const EXPIRY_WARNING_NS: i64 = 30 * 24 * 3_600_000_000_000;

/// Reads the certificate files that the settings name. Without settings: the files of the data
/// directory, if there are any. `None` without files.
///
/// # Errors
/// `ConfigFileError`; `InvalidParameterValue` if the settings name only a part of the files.
pub(crate) async fn load_tls(settings: &Settings) -> Result<Option<Arc<Tls>>, StartError> {
    let Some(files) = tls_settings(settings)? else { return Ok(None) };
    let loading = tokio::task::spawn_blocking(move || Tls::load(files));
    let loaded =
        loading.await.map_err(|error| Error::internal(format!("certificates: {error}")))?;
    Ok(Some(loaded?))
}

fn tls_settings(settings: &Settings) -> Result<Option<TlsSettings>> {
    let file = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
    let (cert_file, key_file) = (file(&settings.tls_cert_file), file(&settings.tls_key_file));
    let (cert_file, key_file) = match (cert_file, key_file) {
        (Some(cert_file), Some(key_file)) => (cert_file, key_file),
        (None, None) => {
            let folder = Path::new(&settings.data_dir).join(TLS_FOLDER);
            let (cert_file, key_file) = (folder.join("server.crt"), folder.join("server.key"));
            if !cert_file.exists() {
                if settings.tls_client_ca_file.is_empty() {
                    return Ok(None);
                }
                return Err(incomplete("tls_client_ca_file needs tls_cert_file and tls_key_file"));
            }
            (cert_file, key_file)
        }
        _ => return Err(incomplete("tls_cert_file and tls_key_file need each other")),
    };
    let version_min = settings.tls_version_min.parse();
    Ok(Some(TlsSettings {
        cert_file,
        key_file,
        client_ca_file: file(&settings.tls_client_ca_file),
        version_min: version_min
            .map_err(|reason: String| Error::new(ErrorKind::InvalidParameterValue, reason))?,
    }))
}

fn incomplete(message: &str) -> Error {
    Error::new(ErrorKind::InvalidParameterValue, message)
}

/// Creates what the listeners need to let clients in, and tells the query service about the
/// certificate.
pub(crate) fn open(settings: &Settings, embedded: &Embedded, tls: Option<Arc<Tls>>) -> Access {
    let service = embedded.service();
    let limits = AuthenticatorSettings {
        scram_iterations: settings.scram_iterations,
        failed_logins_per_minute_max: settings.failed_logins_per_minute_max,
        connections_per_address_max: settings.connections_per_address_max,
    };
    let secret = login_secret::of(embedded.directory());
    let authenticator = Authenticator::new(Arc::clone(embedded.catalog()), limits, &secret)
        .with_observer(Arc::new(LoginAudit(Arc::clone(service))));
    let authenticator = match jwt_settings(settings) {
        Some(jwt) => {
            let clock = Arc::clone(&service.parts().clock);
            authenticator.with_bearer_verifier(Arc::new(JwtVerifier::new(jwt, clock)))
        }
        None => authenticator,
    };
    service.set_certificates(Arc::new(ServerCertificates(tls.clone())));
    if !authenticator.is_required() {
        tracing::warn!(
            "no password is set: every client of this machine is a superuser. To require logins: \
             stratalog user create NAME --superuser"
        );
    }
    Access { authenticator: Arc::new(authenticator), tls }
}

/// The settings of JSON web tokens; `None` if the server accepts none.
fn jwt_settings(settings: &Settings) -> Option<JwtSettings> {
    (!settings.jwt_keys.is_empty()).then(|| JwtSettings {
        keys: settings.jwt_keys.clone(),
        issuer: settings.jwt_issuer.clone(),
        audience: settings.jwt_audience.clone(),
        role_claim: settings.jwt_role_claim.clone(),
    })
}

/// True if clients can log in: a role with LOGIN has a password.
pub(crate) fn has_user(access: &AccessState) -> bool {
    let mut roles = access.roles();
    access.is_protected() && roles.any(|role| role.attributes.login && role.password.is_some())
}

/// Warns in the log before the certificate ends, once a day. Never ends.
pub(crate) async fn watch_expiry(tls: Arc<Tls>, now_ns: impl Fn() -> i64 + Send) {
    let mut daily = tokio::time::interval(EXPIRY_INTERVAL);
    loop {
        daily.tick().await;
        let left_ns = tls.expires_ns().saturating_sub(now_ns());
        let days = left_ns / (24 * 3_600_000_000_000);
        let file = tls.settings().cert_file.display();
        if left_ns <= 0 {
            tracing::error!(cert_file = %file, "the TLS certificate has expired");
        } else if left_ns < EXPIRY_WARNING_NS {
            tracing::warn!(cert_file = %file, days, "the TLS certificate expires soon");
        }
    }
}

/// The certificate of the server, for the query service.
#[derive(Debug)]
pub(crate) struct ServerCertificates(pub(crate) Option<Arc<Tls>>);

impl Certificates for ServerCertificates {
    fn reload(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            let Some(tls) = self.0.clone() else {
                return Err(Error::new(
                    ErrorKind::ObjectNotInPrerequisiteState,
                    "the server has no certificate to reload",
                )
                .with_hint("set tls_cert_file and tls_key_file, and start the server again"));
            };
            let reloading = tokio::task::spawn_blocking(move || tls.reload());
            reloading.await.map_err(|error| Error::internal(format!("certificates: {error}")))?
        })
    }

    fn expires_ns(&self) -> Option<i64> {
        self.0.as_ref().map(|tls| tls.expires_ns())
    }
}

/// Records logins in the audit log.
#[derive(Debug)]
struct LoginAudit(Arc<QueryService>);

impl LoginAudit {
    fn record(attempt: &LoginAttempt) -> AuditRecord {
        let encrypted = if attempt.origin.encrypted { "TLS" } else { "no TLS" };
        let (door, method) = (attempt.origin.door.name(), attempt.method.keyword());
        AuditRecord {
            event: "login",
            role: attempt.user.clone(),
            client_address: Some(attempt.origin.address.to_string()),
            sqlstate: "00000",
            detail: Some(format!("{door}, {method}, {encrypted}")),
            token: attempt.token.clone(),
            ..AuditRecord::default()
        }
    }
}

impl LoginObserver for LoginAudit {
    fn succeeded<'a>(&'a self, attempt: &'a LoginAttempt) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.0.audit(Self::record(attempt)))
    }

    fn refused<'a>(
        &'a self,
        attempt: &'a LoginAttempt,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<()>> {
        let record = Self::record(attempt);
        let sqlstate = match attempt.method {
            LoginMethod::Scram | LoginMethod::Password => ErrorKind::InvalidPassword,
            _ => ErrorKind::InvalidAuthorization,
        };
        let detail = record.detail.as_ref().map(|detail| format!("{detail}: {reason}"));
        let refused = AuditRecord { sqlstate: sqlstate.sqlstate(), detail, ..record };
        Box::pin(self.0.audit(AuditRecord { event: "login refused", ..refused }))
    }
}
