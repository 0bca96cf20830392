//! The messages of a login, between the start-up message and AuthenticationOk.

use bytes::{Buf as _, Bytes};
use stratalog_access::{Authenticated, Authenticator, ClientOrigin, TlsPeer, scram};
use stratalog_model::{Error, ErrorKind, Result};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::outbound::OutboundBuffer;

/// The type byte of the client's messages of a login.
const PASSWORD: u8 = b'p';

/// Maximum bytes of a message of a login: a message of SCRAM, with the name of the mechanism.
const MESSAGE_BYTES_MAX: usize = scram::MESSAGE_BYTES_MAX + 64;

/// Logs a client in: by its certificate, else by SCRAM; without a check while the server has no
/// password. Writes AuthenticationSASLFinal to `outbound`, but not AuthenticationOk. `None` if the
/// client has disconnected.
///
/// # Errors
/// The error that the caller sends to the client before the connection ends.
pub(crate) async fn log_in<S>(
    socket: &mut S,
    authenticator: &Authenticator,
    user: &str,
    origin: ClientOrigin,
    peer: &TlsPeer,
    outbound: &mut OutboundBuffer,
) -> Result<Option<Authenticated>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if !origin.encrypted && !origin.is_local() {
        return Err(Error::new(
            ErrorKind::InvalidAuthorization,
            "connections from other machines must use TLS",
        )
        .with_hint("connect with sslmode=verify-full"));
    }
    if !authenticator.is_required() {
        return authenticator.trust(user, origin).await.map(Some);
    }
    let names = &peer.certificate_names;
    if let Some(login) = authenticator.certificate(names, user, origin).await? {
        return Ok(Some(login));
    }
    let mut login = authenticator.scram(user, origin, peer.server_end_point.clone())?;
    let mechanisms = login.mechanisms().iter().map(|name| (*name).to_string()).collect();
    outbound.authentication_sasl(mechanisms)?;
    let Some(first) = exchange(socket, outbound).await? else { return Ok(None) };
    let (mechanism, initial) = initial_response(first)?;
    let initial = match initial {
        Some(initial) => initial,
        None => {
            outbound.authentication_continue(Bytes::new())?;
            let Some(response) = exchange(socket, outbound).await? else { return Ok(None) };
            response
        }
    };
    let answer = login.start(&mechanism, &initial)?;
    outbound.authentication_continue(answer.into())?;
    let Some(last) = exchange(socket, outbound).await? else { return Ok(None) };
    let (authenticated, answer) = authenticator.finish_scram(login, &last).await?;
    outbound.authentication_final(answer.into())?;
    Ok(Some(authenticated))
}

/// Sends the output, and reads the client's answer. `None` if the client has disconnected.
async fn exchange<S>(socket: &mut S, outbound: &mut OutboundBuffer) -> Result<Option<Bytes>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let sent = async {
        socket.write_all(&outbound.bytes).await?;
        socket.flush().await
    };
    if sent.await.is_err() {
        return Ok(None);
    }
    outbound.rest();
    let mut head = [0; 5];
    if socket.read_exact(&mut head).await.is_err() {
        return Ok(None);
    }
    let [kind, a, b, c, d] = head;
    if kind == b'X' {
        return Ok(None);
    }
    if kind != PASSWORD {
        return Err(violation(format!("expected SASL response, got message type {kind}")));
    }
    let length = usize::try_from(i32::from_be_bytes([a, b, c, d])).unwrap_or_default();
    let body = length.checked_sub(4).filter(|bytes| *bytes <= MESSAGE_BYTES_MAX);
    let body = body.ok_or_else(|| violation("invalid length of SASL response"))?;
    let mut message = vec![0; body];
    match socket.read_exact(&mut message).await {
        Ok(_) => Ok(Some(message.into())),
        Err(_) => Ok(None),
    }
}

/// The mechanism in SASLInitialResponse, and the client's first message, if the client has sent
/// one.
fn initial_response(mut message: Bytes) -> Result<(String, Option<Bytes>)> {
    let invalid = || violation("invalid message format");
    let end = message.iter().position(|byte| *byte == 0).ok_or_else(invalid)?;
    let mechanism = String::from_utf8(message.split_to(end).to_vec()).map_err(|_| invalid())?;
    message.advance(1);
    if message.len() < 4 {
        return Err(invalid());
    }
    let length = message.get_i32();
    if length == -1 && message.is_empty() {
        return Ok((mechanism, None));
    }
    match usize::try_from(length) {
        Ok(length) if length == message.len() => Ok((mechanism, Some(message))),
        _ => Err(invalid()),
    }
}

fn violation(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::ProtocolViolation, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_initial_response_of_a_client() {
        let read = |bytes: &'static [u8]| initial_response(Bytes::from_static(bytes));
        let (mechanism, first) = read(b"SCRAM-SHA-256\0\0\0\0\x03n,,").unwrap();
        assert_eq!((mechanism.as_str(), first.as_deref()), ("SCRAM-SHA-256", Some(&b"n,,"[..])));
        assert_eq!(read(b"M\0\xff\xff\xff\xff").unwrap(), ("M".to_string(), None));
        for wrong in [
            &b""[..],
            b"M",
            b"M\0",
            b"M\0\0\0",
            b"M\0\0\0\0\x04n,,",
            b"M\0\0\0\0\x02n,,",
            b"M\0\xff\xff\xff\xffn",
            b"M\0\x80\0\0\0",
            b"\xff\0\0\0\0\0",
        ] {
            assert_eq!(read(wrong).unwrap_err().kind().sqlstate(), "08P01", "{wrong:?}");
        }
    }
}
