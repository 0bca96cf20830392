//! The sockets of clients, with or without TLS, for listeners on which the client decides.
//!
//! ```text
//!   first byte 0x16 ─► TLS handshake ─► TLS
//!   other bytes, from this machine ─► without encryption
//!   other bytes, from another machine ─► refused, if the server has a certificate
//! ```

use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use stratalog_metrics::Door;
use stratalog_model::{Error, ErrorKind, Result};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::server::TlsStream;

use crate::{Access, Alpn, ClientOrigin, TlsPeer};

/// The first byte of a TLS handshake. No request of HTTP, HTTP/2 or line protocol begins with it.
const TLS_HANDSHAKE: u8 = 0x16;

/// The socket of a client.
#[derive(Debug)]
pub enum ServerStream {
    /// Without encryption.
    Plain(TcpStream),
    /// With TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connected client, before its login.
#[derive(Debug)]
pub struct Arrived {
    /// The socket.
    pub stream: ServerStream,
    /// Where the client comes from.
    pub origin: ClientOrigin,
    /// The result of the TLS handshake; empty without TLS.
    pub peer: TlsPeer,
}

impl Access {
    /// Performs the TLS handshake of a new connection, if the client begins one.
    ///
    /// # Errors
    /// `ConnectionFailure` if the handshake fails, or the client sends nothing within `patience`;
    /// `ProtocolViolation` if a client of another machine sends data without encryption to a server
    /// that has a certificate.
    pub async fn arrive(
        &self,
        socket: TcpStream,
        address: SocketAddr,
        (door, alpn): (Door, Alpn),
        patience: Duration,
    ) -> Result<Arrived> {
        let mut origin = ClientOrigin { address, door, encrypted: false };
        let plain = |socket| Arrived {
            stream: ServerStream::Plain(socket),
            origin,
            peer: TlsPeer::default(),
        };
        let Some(tls) = &self.tls else { return Ok(plain(socket)) };
        let mut first = [0];
        let failed = |reason: String| Error::new(ErrorKind::ConnectionFailure, reason);
        match timeout(patience, socket.peek(&mut first)).await {
            Err(_) => return Err(failed("the client sent nothing".to_string())),
            Ok(Err(error)) => return Err(failed(format!("the connection failed: {error}"))),
            Ok(Ok(1..)) if first == [TLS_HANDSHAKE] => {}
            Ok(Ok(_)) if origin.is_local() => return Ok(plain(socket)),
            Ok(Ok(_)) => {
                return Err(Error::new(
                    ErrorKind::ProtocolViolation,
                    "this server accepts only TLS connections from other machines",
                )
                .with_hint("use https://, or the TLS option of the client"));
            }
        }
        let (stream, peer) = tls.accept(socket, alpn, patience).await?;
        origin.encrypted = true;
        Ok(Arrived { stream: ServerStream::Tls(Box::new(stream)), origin, peer })
    }
}

impl ServerStream {
    /// The server's address of the connection; `None` if the system does not know it.
    pub fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Plain(socket) => socket.local_addr().ok(),
            Self::Tls(socket) => socket.get_ref().0.local_addr().ok(),
        }
    }
}

impl AsyncRead for ServerStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Self::Tls(socket) => Pin::new(socket.as_mut()).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for ServerStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Self::Tls(socket) => Pin::new(socket.as_mut()).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write_vectored(context, slices),
            Self::Tls(socket) => Pin::new(socket.as_mut()).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(context),
            Self::Tls(socket) => Pin::new(socket.as_mut()).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Self::Tls(socket) => Pin::new(socket.as_mut()).poll_shutdown(context),
        }
    }
}
