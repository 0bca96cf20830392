//! Speaks the protocol byte by byte.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// A socket that is connected to the server.
pub struct Wire(pub TcpStream);

/// A message from the server: its type and its body.
pub type Reply = (char, Vec<u8>);

pub fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(body.len() + 4).unwrap();
    [&[kind], &length.to_be_bytes()[..], body].concat()
}

pub fn startup(pairs: &[(&str, &str)]) -> Vec<u8> {
    startup_of(3 << 16, pairs)
}

pub fn startup_of(version: i32, pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut body = version.to_be_bytes().to_vec();
    for (name, value) in pairs {
        body.extend_from_slice(name.as_bytes());
        body.push(0);
        body.extend_from_slice(value.as_bytes());
        body.push(0);
    }
    body.push(0);
    let length = i32::try_from(body.len() + 4).unwrap();
    [&length.to_be_bytes()[..], &body].concat()
}

impl Wire {
    pub async fn open(port: u16) -> Self {
        Self(TcpStream::connect(("127.0.0.1", port)).await.unwrap())
    }

    /// A connection after its login.
    pub async fn ready(port: u16) -> Self {
        let mut wire = Self::open(port).await;
        wire.send(&startup(&[("user", "tester"), ("database", "stratalog")])).await;
        let replies = wire.until('Z').await;
        assert_eq!(replies.first().unwrap(), &('R', vec![0, 0, 0, 0]));
        wire
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        // The server may have closed already; its earlier answer then counts.
        let _ = self.0.write_all(bytes).await;
    }

    pub async fn query(&mut self, sql: &str) -> Vec<Reply> {
        self.send(&framed(b'Q', &[sql.as_bytes(), b"\0"].concat())).await;
        self.until('Z').await
    }

    /// The next message; `None` if the server has closed the connection.
    pub async fn reply(&mut self) -> Option<Reply> {
        let read = async {
            let mut header = [0; 5];
            self.0.read_exact(&mut header).await.ok()?;
            let length = i32::from_be_bytes(header[1..].try_into().unwrap());
            let mut body = vec![0; usize::try_from(length).unwrap() - 4];
            self.0.read_exact(&mut body).await.ok()?;
            Some((char::from(header[0]), body))
        };
        timeout(Duration::from_secs(20), read).await.expect("the server says nothing")
    }

    /// The messages up to and including a message of type `kind`, or until the server closes.
    pub async fn until(&mut self, kind: char) -> Vec<Reply> {
        let mut replies = Vec::new();
        while let Some(reply) = self.reply().await {
            let found = reply.0 == kind;
            replies.push(reply);
            if found {
                break;
            }
        }
        replies
    }

    /// The messages until the server closes.
    pub async fn rest(&mut self) -> Vec<Reply> {
        let mut replies = Vec::new();
        while let Some(reply) = self.reply().await {
            replies.push(reply);
        }
        replies
    }
}

/// The types of messages, as a text with one character per message.
pub fn kinds(replies: &[Reply]) -> String {
    replies.iter().map(|(kind, _)| *kind).collect()
}

/// A field of the first error among `replies`.
pub fn error_field(replies: &[Reply], field: u8) -> Option<String> {
    let (_, body) = replies.iter().find(|(kind, _)| *kind == 'E')?;
    body.split(|byte| *byte == 0)
        .find(|part| part.first() == Some(&field))
        .map(|part| String::from_utf8_lossy(&part[1..]).into_owned())
}

pub fn sqlstate(replies: &[Reply]) -> String {
    error_field(replies, b'C').unwrap_or_default()
}

pub fn parse(name: &str, sql: &str, types: &[u32]) -> Vec<u8> {
    let mut body = [name.as_bytes(), b"\0", sql.as_bytes(), b"\0"].concat();
    body.extend_from_slice(&u16::try_from(types.len()).unwrap().to_be_bytes());
    types.iter().for_each(|id| body.extend_from_slice(&id.to_be_bytes()));
    framed(b'P', &body)
}

pub fn bind(portal: &str, statement: &str, values: &[Option<&str>]) -> Vec<u8> {
    let mut body = [portal.as_bytes(), b"\0", statement.as_bytes(), b"\0\0\0"].concat();
    body.extend_from_slice(&u16::try_from(values.len()).unwrap().to_be_bytes());
    for value in values {
        match value {
            None => body.extend_from_slice(&(-1_i32).to_be_bytes()),
            Some(text) => {
                body.extend_from_slice(&i32::try_from(text.len()).unwrap().to_be_bytes());
                body.extend_from_slice(text.as_bytes());
            }
        }
    }
    body.extend_from_slice(&[0, 0]);
    framed(b'B', &body)
}

pub fn describe(target: u8, name: &str) -> Vec<u8> {
    framed(b'D', &[&[target], name.as_bytes(), b"\0"].concat())
}

pub fn execute(portal: &str, rows: i32) -> Vec<u8> {
    framed(b'E', &[portal.as_bytes(), b"\0", &rows.to_be_bytes()].concat())
}

pub fn close(target: u8, name: &str) -> Vec<u8> {
    framed(b'C', &[&[target], name.as_bytes(), b"\0"].concat())
}

pub fn sync() -> Vec<u8> {
    framed(b'S', b"")
}
