//! Checks the HTTP headers that describe the format of a body. The caller answers every error of
//! this module with HTTP status 415.

use stratalog_model::{Error, ErrorKind, Result};

use crate::fault::excerpt;

/// The encoding of an OTLP body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// `application/x-protobuf`.
    Protobuf,
    /// `application/json`.
    Json,
}

impl Encoding {
    /// The value of the header `Content-Type` for this encoding.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/x-protobuf",
            Self::Json => "application/json",
        }
    }
}

/// Checks the headers of a remote write request: `Content-Type`, `Content-Encoding` and the
/// optional `X-Prometheus-Remote-Write-Version`.
///
/// # Errors
/// `FeatureNotSupported` unless the headers say remote write version 1, compressed with snappy.
pub fn check_remote_write(
    content_type: Option<&str>,
    content_encoding: Option<&str>,
    version: Option<&str>,
) -> Result<()> {
    let written = content_type.unwrap_or_default();
    let (media, parameters) = written.split_once(';').unwrap_or((written, ""));
    if !media.trim().eq_ignore_ascii_case("application/x-protobuf") {
        return Err(unsupported(
            format!("remote write with {}", header("Content-Type", content_type)),
            "send Content-Type: application/x-protobuf",
        ));
    }
    let message = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("proto").then(|| value.trim().trim_matches('"'))
    });
    match message {
        None | Some("prometheus.WriteRequest") => {}
        Some("io.prometheus.write.v2.Request") => return Err(version_two()),
        Some(other) => {
            return Err(unsupported(
                format!("remote write with messages \"{}\"", excerpt(other)),
                "send prometheus.WriteRequest",
            ));
        }
    }
    let encoding = content_encoding.unwrap_or_default().trim();
    if !encoding.eq_ignore_ascii_case("snappy") {
        return Err(unsupported(
            format!("remote write with {}", header("Content-Encoding", content_encoding)),
            "send the body in snappy's block format, with Content-Encoding: snappy",
        ));
    }
    match version.map(str::trim) {
        None => Ok(()),
        Some(version) if version.starts_with("0.1.") || version.starts_with("1.") => Ok(()),
        Some(version) if version.starts_with("2.") => Err(version_two()),
        Some(other) => Err(unsupported(
            format!("remote write of version \"{}\"", excerpt(other)),
            "send version 0.1.0 (remote write 1.0)",
        )),
    }
}

/// The encoding in the header `Content-Type` of an OTLP request.
///
/// # Errors
/// `FeatureNotSupported` for any type except protobuf and JSON.
pub fn check_otlp(content_type: Option<&str>) -> Result<Encoding> {
    let written = content_type.unwrap_or_default();
    let media = written.split(';').next().unwrap_or_default().trim();
    [Encoding::Protobuf, Encoding::Json]
        .into_iter()
        .find(|encoding| media.eq_ignore_ascii_case(encoding.content_type()))
        .ok_or_else(|| {
            unsupported(
                format!("OTLP with {}", header("Content-Type", content_type)),
                "send application/x-protobuf or application/json",
            )
        })
}

fn header(name: &str, value: Option<&str>) -> String {
    match value {
        None => format!("no {name}"),
        Some(value) => format!("{name} \"{}\"", excerpt(value)),
    }
}

fn version_two() -> Error {
    unsupported(
        "remote write 2.0 (io.prometheus.write.v2.Request)".to_string(),
        "send version 1.0: in Prometheus, protobuf_message: prometheus.WriteRequest",
    )
}

fn unsupported(what: String, hint: &str) -> Error {
    Error::new(ErrorKind::FeatureNotSupported, format!("{what} is not supported")).with_hint(hint)
}

#[cfg(test)]
mod tests;
