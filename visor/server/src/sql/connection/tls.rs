//! TLS of a client: how much of the server's certificate the client verifies.

use std::{
    io,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName, UnixTime,
        pem::{Error as PemError, PemObject as _},
    },
};
use stratalog_access::{Alpn, tls::certificate::CertificateFacts};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use crate::sql::error::SqlError;

/// The value of `sslrootcert` for the authorities that the operating system trusts.
pub(super) const SYSTEM_ROOTS: &str = "system";

/// The parts of the server's certificate that the client verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verification {
    /// Nothing: `sslmode=prefer` and `require`.
    Nothing,
    /// The signature of an authority, but not the name: `verify-ca`.
    Authority,
    /// The signature and the name: `verify-full`.
    Full,
}

/// The files of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ClientFiles {
    /// PEM file with the authorities that the client trusts, or `system` for the authorities of the
    /// operating system.
    pub(super) root_cert: Option<PathBuf>,
    /// PEM file with the client's certificate.
    pub(super) cert: Option<PathBuf>,
    /// PEM file with the private key of the client's certificate.
    pub(super) key: Option<PathBuf>,
}

/// Makes the client's side of TLS connections.
#[derive(Debug, Clone)]
pub struct ClientTls(Arc<ClientConfig>);

impl ClientTls {
    /// Reads the files.
    ///
    /// # Errors
    /// A file that is missing or unusable.
    pub(super) fn new(verification: Verification, files: &ClientFiles) -> Result<Self, SqlError> {
        let provider = Arc::new(ring::default_provider());
        let verifier = Arc::new(Verifier::new(verification, files, &provider)?);
        let failed = |error: rustls::Error| SqlError::local(format!("TLS: {error}"));
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match (&files.cert, &files.key) {
            (Some(cert), Some(key)) => {
                let unusable = |path: &PathBuf, error: PemError| {
                    SqlError::local(format!("cannot use {}: {error}", path.display()))
                };
                let chain = certificates(cert)?;
                let key =
                    PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, error))?;
                builder.with_client_auth_cert(chain, key).map_err(failed)?
            }
            (None, None) => builder.with_no_client_auth(),
            _ => return Err(SqlError::local("sslcert and sslkey need each other")),
        };
        config.alpn_protocols = vec![Alpn::POSTGRES_NAME.to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

fn certificates(path: &PathBuf) -> Result<Vec<CertificateDer<'static>>, SqlError> {
    let unusable = |error| SqlError::local(format!("cannot use {}: {error}", path.display()));
    let read = CertificateDer::pem_file_iter(path).map_err(unusable)?;
    read.collect::<Result<_, _>>().map_err(unusable)
}

/// Verifies the server's certificate as far as the client wants it.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// `None` to accept each certificate.
    authorities: Option<Arc<WebPkiServerVerifier>>,
    checks_name: bool,
}

impl Verifier {
    fn new(
        verification: Verification,
        files: &ClientFiles,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, SqlError> {
        let (provider, checks_name) = (Arc::clone(provider), verification == Verification::Full);
        if verification == Verification::Nothing {
            return Ok(Self { provider, authorities: None, checks_name });
        }
        let path = files.root_cert.as_ref().ok_or_else(|| {
            SqlError::local("sslmode verify-ca and verify-full need the server's authority")
                .with_hint(
                    "add sslrootcert=FILE to the URL, or sslrootcert=system for the authorities \
                     that the operating system trusts",
                )
        })?;
        let unusable =
            |error: String| SqlError::local(format!("cannot use {}: {error}", path.display()));
        let mut roots = RootCertStore::empty();
        if path.as_os_str() == SYSTEM_ROOTS {
            // Old authorities in a system's list may be unusable; the others still count.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        } else {
            for authority in certificates(path)? {
                roots.add(authority).map_err(|error| unusable(error.to_string()))?;
            }
        }
        let built =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build();
        let authorities = Some(built.map_err(|error| unusable(error.to_string()))?);
        Ok(Self { provider, authorities, checks_name })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(authorities) = &self.authorities else {
            return Ok(ServerCertVerified::assertion());
        };
        let verified =
            authorities.verify_server_cert(end_entity, intermediates, name, ocsp_response, now);
        match verified {
            // The name is verified last: everything else is right.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.checks_name => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl<S> MakeTlsConnect<S> for ClientTls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = ClientStream<S>;
    type TlsConnect = ServerConnect;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<ServerConnect> {
        let name = ServerName::try_from(host.to_string())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(ServerConnect { connector: TlsConnector::from(Arc::clone(&self.0)), name })
    }
}

/// Performs one TLS handshake with a server.
pub struct ServerConnect {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl<S> TlsConnect<S> for ServerConnect
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = ClientStream<S>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<ClientStream<S>>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let stream = self.connector.connect(self.name, stream).await?;
            Ok(ClientStream(Box::new(stream)))
        })
    }
}

/// An encrypted connection to a server.
#[derive(Debug)]
pub struct ClientStream<S>(Box<tokio_rustls::client::TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for ClientStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        let (_, connection) = self.0.get_ref();
        let server = connection.peer_certificates().and_then(<[CertificateDer<'_>]>::first);
        let facts = server.and_then(|certificate| CertificateFacts::read(certificate).ok());
        match facts.and_then(|facts| facts.server_end_point) {
            Some(hash) => ChannelBinding::tls_server_end_point(hash),
            None => ChannelBinding::none(),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(self.0.as_mut()).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.0.as_mut()).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.0.as_mut()).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.0.as_mut()).poll_shutdown(context)
    }
}
