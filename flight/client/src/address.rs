//! The server's address, parsed from a URL.

use url::{Host, Url};

use crate::error::{Error, ErrorKind, Result};

/// The default port of Flight SQL.
const PORT: u16 = 50051;

/// The parts of the server's URL: address, login and database.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// True if the connection uses TLS.
    pub(crate) tls: bool,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: Option<String>,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.display_url())
    }
}

impl Address {
    /// Parses `grpc://[user[:password]@]host[:port][/database]`. The schemes `grpc+tls` and
    /// `chronologs` use TLS.
    ///
    /// # Errors
    /// `InvalidOption` if the text is not a URL of this form.
    pub(crate) fn read(text: &str) -> Result<Self> {
        let refused = |what: String| {
            Error::new(ErrorKind::InvalidOption, what)
                .with_hint("write grpc://host:port, or grpc+tls://host:port for TLS")
        };
        // The text may contain a password, so the error does not show the text.
        let url = Url::parse(text)
            .map_err(|error| refused(format!("the URL of the server cannot be read: {error}")))?;
        let tls = match url.scheme() {
            "grpc" | "grpc+tcp" | "chronolog" => false,
            "grpc+tls" | "grpcs" | "grpc+ssl" | "chronologs" => true,
            other => return Err(refused(format!("the URL has the scheme \"{other}\""))),
        };
        let host = match url.host() {
            Some(Host::Ipv6(address)) => format!("[{address}]"),
            Some(host) if !host.to_string().is_empty() => host.to_string(),
            _ => return Err(refused("the URL names no host".to_string())),
        };
        if url.query().is_some() || url.fragment().is_some() {
            return Err(refused("options in the URL are not supported".to_string())
                .with_hint("set the options on Client::builder()"));
        }
        let database = decoded(url.path().trim_matches('/'))?;
        if database.contains('/') {
            return Err(refused(format!("the path \"{database}\" is not the name of a database")));
        }
        let user = decoded(url.username())?;
        Ok(Self {
            host,
            port: url.port().unwrap_or(PORT),
            tls,
            user: Some(user).filter(|user| !user.is_empty()),
            password: url.password().map(decoded).transpose()?,
            database: Some(database).filter(|database| !database.is_empty()),
        })
    }

    /// The URL without user and password, for error messages.
    pub(crate) fn display_url(&self) -> String {
        let scheme = if self.tls { "grpc+tls" } else { "grpc" };
        format!("{scheme}://{}:{}", self.host, self.port)
    }
}

/// Decodes percent-encoded text.
fn decoded(text: &str) -> Result<String> {
    let refused = || {
        Error::new(ErrorKind::InvalidOption, "the URL has a % without two hex digits after the %")
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else { return Err(refused()) };
        bytes.push(u8::try_from(high * 16 + low).map_err(|_| refused())?);
    }
    String::from_utf8(bytes)
        .map_err(|_| Error::new(ErrorKind::InvalidOption, "the URL has a part that is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let plain = Address::read("grpc://localhost").unwrap();
        assert_eq!((plain.host.as_str(), plain.port), ("localhost", 50051));
        assert_eq!((plain.user, plain.password, plain.database), (None, None, None));
        assert!(!plain.tls);
        let encrypted = Address::read("grpc+tls://db.example.com").unwrap();
        assert!(encrypted.tls && Address::read("chronologs://h").unwrap().tls);
        assert_eq!(encrypted.display_url(), "grpc+tls://db.example.com:50051");
        let full = Address::read("chronolog://ann%40x:p%3Aq@[::1]:7000/cats").unwrap();
        assert_eq!((full.host.as_str(), full.port), ("[::1]", 7000));
        assert_eq!(full.user.as_deref(), Some("ann@x"));
        assert_eq!(full.password.as_deref(), Some("p:q"));
        assert_eq!(full.database.as_deref(), Some("cats"));
        assert_eq!(full.display_url(), "grpc://[::1]:7000");
    }

    #[test]
    fn what_is_not_offered_is_refused() {
        for (url, message) in [
            ("https://h", "scheme"),
            ("postgres://h", "scheme"),
            ("grpc://", "host"),
            ("h:1", "scheme"),
            ("grpc://h?x=1", "options"),
            ("grpc://h/a/b", "database"),
            ("grpc://a%4@h", "%"),
            ("nonsense", "cannot be read"),
        ] {
            let error = Address::read(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption, "{url}");
            assert!(error.to_string().contains(message), "{url}: {error}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let error = Address::read("grpc://ann:secret@h:99999").unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
