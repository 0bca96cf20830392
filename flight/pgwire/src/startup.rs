//! The start-up of a connection: the messages between the accept of a socket and the login. Unlike
//! later messages, these messages have no type byte.

use std::collections::BTreeMap;

use stratalog_model::{Error, ErrorKind, Result};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Maximum bytes of a start-up packet; the same as in PostgreSQL.
const PACKET_BYTES_MAX: usize = 10_000;

const SSL_REQUEST: i32 = 80_877_103;
const GSS_REQUEST: i32 = 80_877_104;
const CANCEL_REQUEST: i32 = 80_877_102;

/// The newest minor version of PostgreSQL's protocol 3 that the server supports.
pub(crate) const MINOR_MAX: u16 = 2;

/// The first minor version in which the secret for cancel requests may be longer than 4 bytes.
pub(crate) const LONG_SECRET_MINOR: u16 = 2;

/// Maximum bytes of the secret in a cancel request.
const SECRET_BYTES_MAX: usize = 256;

/// The request of a client in its first packets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// The client opens a session.
    Start(Start),
    /// The client cancels the running statement of another connection.
    Cancel {
        /// The process id that identifies the other connection.
        process_id: i32,
        /// The secret of the other connection.
        secret: Vec<u8>,
    },
    /// The client waits for the server's side of a TLS handshake.
    Encrypt,
    /// The client has disconnected without a request.
    Closed,
}

/// A start-up message.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct Start {
    /// The minor protocol version that the client requests.
    pub(crate) minor: u16,
    /// User, database and settings, by name.
    pub(crate) parameters: BTreeMap<String, String>,
}

impl Start {
    /// The names of protocol options that the server does not support. The server must report these
    /// names to the client.
    pub(crate) fn unknown_options(&self) -> Vec<String> {
        self.parameters.keys().filter(|name| name.starts_with("_pq_.")).cloned().collect()
    }

    /// The settings of the session, by name: the parameters, and the settings in the parameter
    /// `options` (`-c name=value`).
    pub(crate) fn settings(&self) -> Result<Vec<(String, String)>> {
        let mut settings = Vec::new();
        for (name, value) in &self.parameters {
            match name.as_str() {
                "user" | "database" | "replication" | "application_name" => {}
                "options" => settings.extend(command_line(value)?),
                name if name.starts_with("_pq_.") => {}
                _ => settings.push((name.clone(), value.clone())),
            }
        }
        Ok(settings)
    }
}

fn violation(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::ProtocolViolation, message)
}

/// The encryption of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encryption {
    /// The server has no certificate.
    Unavailable,
    /// The client may ask for TLS.
    Available,
    /// The connection uses TLS.
    Established,
}

/// Reads packets up to a start-up message, a cancel request, or an accepted request for TLS.
/// Declines other requests for encryption. Reads no byte behind the packets: bytes that an attacker
/// sends in the clear before the handshake become a part of the handshake, which fails.
///
/// # Errors
/// The error that the caller sends to the client before the connection ends.
pub(crate) async fn negotiate<S>(socket: &mut S, encryption: Encryption) -> Result<Request>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let encrypted = encryption == Encryption::Established;
    let (mut asked_ssl, mut asked_gss) = (encrypted, encrypted);
    loop {
        let Some(packet) = packet(socket).await? else { return Ok(Request::Closed) };
        let Some((code, body)) = packet.split_first_chunk::<4>() else {
            return Err(violation("invalid length of startup packet"));
        };
        match i32::from_be_bytes(*code) {
            SSL_REQUEST if !asked_ssl && body.is_empty() => {
                asked_ssl = true;
                if encryption == Encryption::Available {
                    return match answer(socket, b"S").await {
                        true => Ok(Request::Encrypt),
                        false => Ok(Request::Closed),
                    };
                }
            }
            GSS_REQUEST if !asked_gss && body.is_empty() => asked_gss = true,
            CANCEL_REQUEST => return cancel(body),
            version => return start(version, body).map(Request::Start),
        }
        if !answer(socket, b"N").await {
            return Ok(Request::Closed);
        }
    }
}

/// Sends the answer to a request for encryption. False if the client has disconnected.
async fn answer<S: AsyncWrite + Unpin>(socket: &mut S, answer: &[u8]) -> bool {
    socket.write_all(answer).await.is_ok() && socket.flush().await.is_ok()
}

/// Reads one packet: its length, which counts itself, and its content. `None` if the client has
/// disconnected or the length is invalid; the connection then ends without a message, as in
/// PostgreSQL. Some clients, for example `client.end()` of node-postgres, send a Terminate message
/// before their start-up and expect no error.
async fn packet<S: AsyncRead + Unpin>(socket: &mut S) -> Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    if socket.read_exact(&mut length).await.is_err() {
        return Ok(None);
    }
    let length = i32::from_be_bytes(length);
    let body = usize::try_from(length).ok().filter(|bytes| (8..=PACKET_BYTES_MAX).contains(bytes));
    let Some(body) = body else {
        tracing::info!(length, "connection refused: invalid length of startup packet");
        return Ok(None);
    };
    let mut packet = vec![0; body - 4];
    match socket.read_exact(&mut packet).await {
        Ok(_) => Ok(Some(packet)),
        Err(_) => Ok(None),
    }
}

fn cancel(body: &[u8]) -> Result<Request> {
    let (Some(process_id), Some(secret)) = (body.first_chunk::<4>(), body.get(4..)) else {
        return Err(violation("invalid length of query cancel packet"));
    };
    if secret.is_empty() || secret.len() > SECRET_BYTES_MAX {
        return Err(violation("invalid length of query cancel packet"));
    }
    let (process_id, secret) = (i32::from_be_bytes(*process_id), secret.to_vec());
    Ok(Request::Cancel { process_id, secret })
}

fn start(version: i32, body: &[u8]) -> Result<Start> {
    let [a, b, c, d] = version.to_be_bytes();
    let (major, minor) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    if major != 3 {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            format!(
                "unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.{MINOR_MAX}"
            ),
        ));
    }
    let mut parameters = BTreeMap::new();
    let mut rest = body;
    loop {
        let name = string(&mut rest)?;
        if name.is_empty() {
            break;
        }
        let value = string(&mut rest)?;
        parameters.insert(name, value);
    }
    if !rest.is_empty() {
        return Err(violation("invalid startup packet layout: expected terminator as last byte"));
    }
    Ok(Start { minor, parameters })
}

fn string(rest: &mut &[u8]) -> Result<String> {
    let end = rest.iter().position(|byte| *byte == 0).ok_or_else(|| {
        violation("invalid startup packet layout: expected terminator as last byte")
    })?;
    let (text, after) = rest.split_at(end);
    *rest = after.get(1..).unwrap_or_default();
    String::from_utf8(text.to_vec())
        .map_err(|_| Error::new(ErrorKind::InvalidEncoding, "the startup packet is not UTF-8"))
}

/// Parses the value of the parameter `options` into settings: `-c name=value`, `-cname=value` and
/// `--name=value`. A backslash escapes the next character.
fn command_line(options: &str) -> Result<Vec<(String, String)>> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = options.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t'..='\r' => words.extend(word.take()),
            '\\' => word.get_or_insert_default().extend(characters.next()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    let mut settings = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let setting = if word == "-c" {
            words.next()
        } else {
            word.strip_prefix("--").or_else(|| word.strip_prefix("-c")).map(str::to_string)
        };
        let pair = setting.as_deref().and_then(|setting| setting.split_once('='));
        let Some((name, value)) = pair else {
            return Err(Error::new(
                ErrorKind::SyntaxError,
                format!("invalid command-line argument for server process: {word}"),
            ));
        };
        settings.push((name.replace('-', "_"), value.to_string()));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests;
