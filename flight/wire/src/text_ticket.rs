//! Tickets with a query as JSON, created by the clients of InfluxDB 3.

use serde::Deserialize;
use stratalog_model::{Error, ErrorKind, Result};

/// A ticket that contains a query.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TextTicket {
    /// The SQL text.
    pub sql_query: String,
    /// The database in which to run the query.
    #[serde(default, alias = "namespace_name", alias = "namespace", alias = "bucket")]
    pub database: Option<String>,
    #[serde(default)]
    query_type: String,
    #[serde(default)]
    params: serde_json::Map<String, serde_json::Value>,
}

impl TextTicket {
    /// Parses a ticket in JSON; `None` if the ticket is not a JSON object.
    ///
    /// # Errors
    /// `ProtocolViolation`; `FeatureNotSupported` for another language than SQL, and for named
    /// parameters.
    pub fn read(ticket: &[u8]) -> Option<Result<Self>> {
        if ticket.first() != Some(&b'{') {
            return None;
        }
        let unread = |error: serde_json::Error| {
            Error::new(ErrorKind::ProtocolViolation, format!("the ticket cannot be read: {error}"))
                .with_hint(
                    "{\"database\": \"…\", \"sql_query\": \"SELECT …\", \"query_type\": \"sql\"}",
                )
        };
        Some(serde_json::from_slice::<Self>(ticket).map_err(unread).and_then(Self::checked))
    }

    fn checked(self) -> Result<Self> {
        if !matches!(self.query_type.as_str(), "" | "sql") {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                format!("queries of the type \"{}\" are not offered", self.query_type),
            )
            .with_hint("write the query in SQL, and set \"query_type\": \"sql\""));
        }
        if !self.params.is_empty() {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                "named parameters are not offered",
            )
            .with_hint("write the values into the query, or prepare the query with $1, $2 …"));
        }
        Ok(self)
    }
}
