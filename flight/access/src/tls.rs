//! TLS of the server's listeners, with certificates that can be replaced while the server runs.
//!
//! ```text
//!   files ─► LoadedFiles (one ServerConfig per ALPN list, one certificate) ─► connections
//!   reload: new files ─► a new LoadedFiles, or the old one if a file is broken
//! ```
//! A connection keeps the files with which its handshake began. Therefore a reload neither ends nor
//! changes a connection, and the channel binding of a connection always uses the certificate that
//! the client of this connection has seen.

pub mod certificate;
mod files;

use std::{fmt, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use parking_lot::RwLock;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::CertificateDer,
    server::{NoServerSessionStorage, WebPkiClientVerifier},
    version,
};
use stratalog_model::{Error, ErrorKind, Result};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use self::certificate::CertificateFacts;

/// The oldest accepted version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl FromStr for TlsVersion {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "1.2" => Ok(Self::Tls12),
            "1.3" => Ok(Self::Tls13),
            _ => Err(format!("\"{text}\" is not a version of TLS: write 1.2 or 1.3")),
        }
    }
}

impl fmt::Display for TlsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tls12 => "1.2",
            Self::Tls13 => "1.3",
        })
    }
}

/// The files and the versions of TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// PEM file: the server's certificate, then intermediate certificates.
    pub cert_file: PathBuf,
    /// PEM file: the private key of the certificate. Others must not read the file.
    pub key_file: PathBuf,
    /// PEM file: the authorities that sign certificates of clients; `None` to accept no certificate
    /// of a client.
    pub client_ca_file: Option<PathBuf>,
    /// The oldest accepted version.
    pub version_min: TlsVersion,
}

/// The protocols that a listener offers to clients that name their protocol (ALPN).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alpn {
    /// The Postgres protocol: `postgresql`.
    Postgres,
    /// Arrow Flight SQL: `h2`.
    Flight,
    /// HTTP: `h2` and `http/1.1`.
    Http,
    /// Line protocol over TCP: no protocol name.
    Lines,
}

impl Alpn {
    /// The name of the Postgres protocol.
    pub const POSTGRES_NAME: &'static [u8] = b"postgresql";

    const ALL: [Self; 4] = [Self::Postgres, Self::Flight, Self::Http, Self::Lines];

    fn names(self) -> Vec<Vec<u8>> {
        let names: &[&[u8]] = match self {
            Self::Postgres => &[Self::POSTGRES_NAME],
            Self::Flight => &[b"h2"],
            Self::Http => &[b"h2", b"http/1.1"],
            Self::Lines => &[],
        };
        names.iter().map(|name| name.to_vec()).collect()
    }
}

/// The result of a TLS handshake.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsPeer {
    /// The names in the client's verified certificate: the common name, then alternative names.
    /// Empty without a certificate.
    pub certificate_names: Vec<String>,
    /// The hash of the server's certificate of this handshake for the channel binding
    /// `tls-server-end-point`; `None` if the certificate's signature defines no hash.
    pub server_end_point: Option<Vec<u8>>,
    /// The protocol that client and server agreed on; `None` if the client named no protocol.
    pub protocol: Option<Vec<u8>>,
}

/// The TLS side of the server.
#[derive(Debug)]
pub struct Tls {
    settings: TlsSettings,
    current: RwLock<Arc<LoadedFiles>>,
}

/// The content of the files at one load.
struct LoadedFiles {
    configs: Vec<(Alpn, Arc<ServerConfig>)>,
    certificate: CertificateFacts,
}

impl fmt::Debug for LoadedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedFiles")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files. Blocks the calling thread.
    ///
    /// # Errors
    /// `ConfigFileError` that names the file and the problem: a missing or unreadable file, a key
    /// that others may read, a key of another certificate.
    pub fn load(settings: TlsSettings) -> Result<Arc<Self>> {
        let current = RwLock::new(Arc::new(LoadedFiles::read(&settings)?));
        Ok(Arc::new(Self { settings, current }))
    }

    /// Reads the files again. New connections use the new files; running connections go on. If a
    /// file is broken, the server keeps the old files. Blocks the calling thread.
    ///
    /// # Errors
    /// As [`Self::load`]; the error is also logged.
    pub fn reload(&self) -> Result<()> {
        match LoadedFiles::read(&self.settings) {
            Ok(loaded) => {
                tracing::info!(
                    cert_file = %self.settings.cert_file.display(),
                    "TLS certificate reloaded"
                );
                *self.current.write() = Arc::new(loaded);
                Ok(())
            }
            Err(error) => {
                tracing::error!(
                    error = error.message(),
                    "TLS certificate not reloaded; the server keeps the old certificate"
                );
                Err(error)
            }
        }
    }

    /// The end of the server certificate's validity, in nanoseconds since 1970.
    pub fn expires_ns(&self) -> i64 {
        self.current.read().certificate.not_after_ns
    }

    /// The settings.
    pub fn settings(&self) -> &TlsSettings {
        &self.settings
    }

    /// Performs the server's side of a handshake on a new connection.
    ///
    /// # Errors
    /// `ConnectionFailure` if the handshake fails or takes longer than `patience`.
    pub async fn accept<S>(
        &self,
        socket: S,
        alpn: Alpn,
        patience: Duration,
    ) -> Result<(TlsStream<S>, TlsPeer)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let loaded = Arc::clone(&self.current.read());
        let config = loaded.config(alpn)?;
        let failed = |reason: String| {
            Error::new(ErrorKind::ConnectionFailure, format!("TLS handshake failed: {reason}"))
        };
        let accepting = TlsAcceptor::from(config).accept(socket);
        let stream = match tokio::time::timeout(patience, accepting).await {
            Err(_) => return Err(failed("the client is too slow".to_string())),
            Ok(Err(error)) => return Err(failed(error.to_string())),
            Ok(Ok(stream)) => stream,
        };
        let (_, connection) = stream.get_ref();
        let client = connection.peer_certificates().and_then(<[CertificateDer<'_>]>::first);
        let certificate_names = match client {
            Some(certificate) => CertificateFacts::read(certificate)?.names,
            None => Vec::new(),
        };
        let peer = TlsPeer {
            certificate_names,
            server_end_point: loaded.certificate.server_end_point.clone(),
            protocol: connection.alpn_protocol().map(<[u8]>::to_vec),
        };
        Ok((stream, peer))
    }
}

impl LoadedFiles {
    fn read(settings: &TlsSettings) -> Result<Self> {
        let broken = |path: &PathBuf, reason: String| {
            Error::new(
                ErrorKind::ConfigFileError,
                format!("cannot use {} for TLS: {reason}", path.display()),
            )
        };
        let chain = files::certificates(&settings.cert_file)?;
        let key = files::private_key(&settings.key_file)?;
        let first = chain.first().ok_or_else(|| {
            broken(&settings.cert_file, "the file contains no certificate".to_string())
        })?;
        let certificate = CertificateFacts::read(first)
            .map_err(|error| broken(&settings.cert_file, error.message().to_string()))?;
        let provider = Arc::new(ring::default_provider());
        let versions: &[_] = match settings.version_min {
            TlsVersion::Tls12 => &[&version::TLS13, &version::TLS12],
            TlsVersion::Tls13 => &[&version::TLS13],
        };
        let verifier = match &settings.client_ca_file {
            None => WebPkiClientVerifier::no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for authority in files::certificates(path)? {
                    roots.add(authority).map_err(|error| broken(path, error.to_string()))?;
                }
                let builder = WebPkiClientVerifier::builder_with_provider(
                    Arc::new(roots),
                    Arc::clone(&provider),
                );
                let built = builder.allow_unauthenticated().build();
                built.map_err(|error| broken(path, error.to_string()))?
            }
        };
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map_err(|error| Error::internal(format!("TLS versions: {error}")))?;
        let mut base = builder
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(|error| broken(&settings.key_file, error.to_string()))?;
        // A resumed session would skip the check of the client's certificate.
        base.session_storage = Arc::new(NoServerSessionStorage {});
        base.send_tls13_tickets = 0;
        let configs = Alpn::ALL.map(|alpn| {
            let mut config = base.clone();
            config.alpn_protocols = alpn.names();
            (alpn, Arc::new(config))
        });
        Ok(Self { configs: configs.to_vec(), certificate })
    }

    fn config(&self, alpn: Alpn) -> Result<Arc<ServerConfig>> {
        let found = self.configs.iter().find(|(name, _)| *name == alpn);
        found
            .map(|(_, config)| Arc::clone(config))
            .ok_or_else(|| Error::internal("the listener has no TLS configuration"))
    }
}

#[cfg(test)]
mod tests;
