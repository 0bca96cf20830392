//! TLS of the client: verifies the certificate and the name of the server.

use std::{
    future::Future,
    io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
};

use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName,
        pem::{Error as PemError, PemObject as _},
    },
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::codegen::http::Uri;
use tower::{Service, service_fn};

use crate::{
    address::Address,
    error::{Error, ErrorKind, Result},
};

/// The protocol name of HTTP/2 in the TLS handshake.
const HTTP_2: &[u8] = b"h2";

/// The PEM files of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// The trusted authorities; `None` for those of the operating system.
    pub(crate) roots: Option<PathBuf>,
    /// The client's certificate and its private key.
    pub(crate) client: Option<(PathBuf, PathBuf)>,
}

/// The client's side of TLS connections to one server.
#[derive(Debug, Clone)]
pub(crate) struct ServerTls(Arc<ClientConfig>);

type Connecting =
    Pin<Box<dyn Future<Output = io::Result<TokioIo<TlsStream<TcpStream>>>> + Send + 'static>>;

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// `InvalidOption` for a missing or unusable file.
    pub(crate) fn new(files: &TlsFiles) -> Result<Self> {
        let failed = |error: rustls::Error| refused(format!("TLS: {error}"));
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_root_certificates(roots(files.roots.as_deref())?);
        let mut config = match &files.client {
            Some((certificate, key_file)) => {
                let key = PrivateKeyDer::from_pem_file(key_file)
                    .map_err(|error| unusable(key_file, error))?;
                builder.with_client_auth_cert(certificates(certificate)?, key).map_err(failed)?
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![HTTP_2.to_vec()];
        Ok(Self(Arc::new(config)))
    }

    /// Connects to a server and performs the handshake, for each new connection of a channel.
    ///
    /// # Errors
    /// `InvalidOption` if the host is neither a name nor an address.
    pub(crate) fn connector(
        &self,
        address: &Address,
    ) -> Result<
        impl Service<
            Uri,
            Response = TokioIo<TlsStream<TcpStream>>,
            Error = io::Error,
            Future = Connecting,
        > + Send
        + use<>,
    > {
        let host = address.host.trim_matches(['[', ']']).to_string();
        let name = ServerName::try_from(host.clone())
            .map_err(|error| refused(format!("the host \"{host}\": {error}")))?;
        let (connector, port) = (TlsConnector::from(Arc::clone(&self.0)), address.port);
        Ok(service_fn(move |_: Uri| -> Connecting {
            let (connector, name, host) = (connector.clone(), name.clone(), host.clone());
            Box::pin(async move {
                let plain = TcpStream::connect((host.as_str(), port)).await?;
                plain.set_nodelay(true)?;
                Ok(TokioIo::new(connector.connect(name, plain).await?))
            })
        }))
    }
}

fn roots(file: Option<&Path>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(path) => {
            for authority in certificates(path)? {
                roots.add(authority).map_err(|error| unusable(path, error))?;
            }
        }
        None => {
            // Old authorities in a system's list may be unusable; the others still count.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(refused("the operating system has no list of trusted authorities")
                    .with_hint("name a file with ClientBuilder::root_certificates"));
            }
        }
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let unusable = |error: PemError| unusable(path, error);
    let read = CertificateDer::pem_file_iter(path).map_err(unusable)?;
    read.collect::<Result<_, _>>().map_err(unusable)
}

fn refused(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOption, what)
}

fn unusable(path: &Path, error: impl std::fmt::Display) -> Error {
    refused(format!("cannot use {}: {error}", path.display()))
}
