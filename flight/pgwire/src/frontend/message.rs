//! Decodes the body of a message from the client.

use bytes::Bytes;
use stratalog_model::{Error, ErrorKind, Result};

/// A message of the client after start-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frontend {
    /// `Q`: run the statements of a string.
    Query(String),
    /// `P`: prepare a statement.
    Parse(Parse),
    /// `B`: create a portal, a statement with parameter values.
    Bind(Bind),
    /// `D`: describe a statement or portal.
    Describe(Describe),
    /// `E`: run a portal.
    Execute(Execute),
    /// `C`: close a statement or portal.
    Close(Close),
    /// `S`: end a round of messages of the extended query protocol.
    Sync,
    /// `H`: send the output so far.
    Flush,
    /// `d`: data of a COPY.
    CopyData(Bytes),
    /// `c`: the data of a COPY has ended.
    CopyDone,
    /// `f`: cancel a COPY, for the reason in the text.
    CopyFail(String),
    /// `X`: end the connection.
    Terminate,
    /// `F`: a call of the obsolete function protocol.
    FunctionCall,
    /// `p`: an answer to a request for authentication.
    Password,
}

/// The body of a Parse message, which prepares a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parse {
    /// The name of the statement; empty for the unnamed statement.
    pub name: String,
    /// The SQL text.
    pub sql: String,
    /// Object ids of the parameters' types; 0 for an unknown type. The list may be shorter than the
    /// list of parameters.
    pub types: Vec<u32>,
}

/// The body of a Bind message, which creates a portal from a statement and the values of its
/// parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// Name of the portal; empty for the unnamed portal.
    pub portal: String,
    /// Name of the statement.
    pub statement: String,
    /// Format codes of the parameters: none, one code for all, or one code for each.
    pub formats: Vec<i16>,
    /// The values of the parameters; `None` is NULL.
    pub values: Vec<Option<Bytes>>,
    /// Format codes of the result's columns: none, one code for all, or one code for each.
    pub result_formats: Vec<i16>,
}

/// The type of the object to which Describe or Close refers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A prepared statement.
    Statement,
    /// A portal.
    Portal,
}

/// The body of a Describe message, which asks for the parameters and columns of a statement or
/// portal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Describe {
    /// The type of the object.
    pub target: Target,
    /// The name of the object.
    pub name: String,
}

/// The body of an Execute message, which runs a portal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execute {
    /// Name of the portal.
    pub portal: String,
    /// Maximum number of rows before the portal is suspended; 0 for all rows.
    pub rows_max: usize,
}

/// The body of a Close message, which drops a statement or portal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Close {
    /// The type of the object.
    pub target: Target,
    /// The name of the object.
    pub name: String,
}

fn violation(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::ProtocolViolation, message)
}

/// True if `kind` is the type byte of a client message.
pub(super) fn is_known(kind: u8) -> bool {
    matches!(
        kind,
        b'Q' | b'P'
            | b'B'
            | b'D'
            | b'E'
            | b'C'
            | b'S'
            | b'H'
            | b'd'
            | b'c'
            | b'f'
            | b'X'
            | b'F'
            | b'p'
    )
}

impl Frontend {
    /// Decodes the body of a message of type `kind`.
    ///
    /// # Errors
    /// `ProtocolViolation` if the length of the body does not match its contents; `InvalidEncoding`
    /// for strings that are not UTF-8.
    pub fn decode(kind: u8, body: Bytes) -> Result<Self> {
        let mut body = Body(body);
        let message = match kind {
            b'Q' => Self::Query(body.string()?),
            b'P' => {
                let (name, sql) = (body.string()?, body.string()?);
                let count = body.count()?;
                let types = (0..count).map(|_| body.u32()).collect::<Result<_>>()?;
                Self::Parse(Parse { name, sql, types })
            }
            b'B' => {
                let (portal, statement) = (body.string()?, body.string()?);
                let formats = body.formats()?;
                let count = body.count()?;
                let values = (0..count).map(|_| body.value()).collect::<Result<_>>()?;
                let result_formats = body.formats()?;
                Self::Bind(Bind { portal, statement, formats, values, result_formats })
            }
            b'D' => {
                let target = body.target("DESCRIBE")?;
                Self::Describe(Describe { target, name: body.string()? })
            }
            b'E' => {
                let portal = body.string()?;
                // A negative limit means no limit, as in PostgreSQL.
                let rows_max = usize::try_from(body.i32()?).unwrap_or(0);
                Self::Execute(Execute { portal, rows_max })
            }
            b'C' => {
                let target = body.target("CLOSE")?;
                Self::Close(Close { target, name: body.string()? })
            }
            b'S' => Self::Sync,
            b'H' => Self::Flush,
            b'd' => return Ok(Self::CopyData(body.0)),
            b'c' => Self::CopyDone,
            b'f' => Self::CopyFail(body.string()?),
            b'X' => return Ok(Self::Terminate),
            b'F' => return Ok(Self::FunctionCall),
            b'p' => return Ok(Self::Password),
            other => return Err(violation(format!("invalid frontend message type {other}"))),
        };
        if body.0.is_empty() {
            Ok(message)
        } else {
            Err(violation("invalid message format").with_detail(format!(
                "{} bytes follow the end of message '{}'",
                body.0.len(),
                char::from(kind)
            )))
        }
    }
}

/// The rest of a message body that is not yet decoded.
struct Body(Bytes);

impl Body {
    fn take(&mut self, count: usize) -> Result<Bytes> {
        if self.0.len() < count {
            return Err(violation("insufficient data left in message"));
        }
        Ok(self.0.split_to(count))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N)?;
        bytes.as_ref().try_into().map_err(|_| violation("insufficient data left in message"))
    }

    fn string(&mut self) -> Result<String> {
        let end = self
            .0
            .iter()
            .position(|byte| *byte == 0)
            .ok_or_else(|| violation("invalid string in message"))?;
        let bytes = self.take(end + 1)?;
        let text = bytes.get(..end).unwrap_or_default();
        match simdutf8::basic::from_utf8(text) {
            Ok(text) => Ok(text.to_string()),
            Err(_) => Err(crate::encoding::invalid_encoding(text)),
        }
    }

    fn i32(&mut self) -> Result<i32> {
        self.array().map(i32::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a 16-bit number of elements. The caller must not allocate for this number in advance,
    /// because a wrong number would cause a large allocation.
    fn count(&mut self) -> Result<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn formats(&mut self) -> Result<Vec<i16>> {
        let count = self.count()?;
        (0..count).map(|_| self.array().map(i16::from_be_bytes)).collect()
    }

    fn value(&mut self) -> Result<Option<Bytes>> {
        match self.i32()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length)
                    .map_err(|_| violation("insufficient data left in message"))?;
                self.take(length).map(Some)
            }
        }
    }

    fn target(&mut self, message: &str) -> Result<Target> {
        match self.array()? {
            [b'S'] => Ok(Target::Statement),
            [b'P'] => Ok(Target::Portal),
            [other] => Err(violation(format!("invalid {message} message subtype {other}"))),
        }
    }
}
