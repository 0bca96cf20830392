//! Protection against requests that a foreign web page sends through a browser.
//!
//! ```text
//!   request ─► Host is a name of this server? ─► Origin, Sec-Fetch-Site: our own page? ─► route
//!                 │ no: 403 (DNS rebinding)          │ no, and not in `http_origins`: 403
//! ```
//! A client that is not a browser sends neither `Origin` nor `Sec-Fetch-Site`, and its `Host` is the
//! address of its connection. The checks therefore let such clients pass.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use axum::{
    extract::{Request, State as Extracted},
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
        header::{
            ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
            ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
            ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY,
            CONTENT_TYPE, HOST, ORIGIN, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
        },
        uri::Authority,
    },
    middleware::Next,
    response::{IntoResponse, Response},
};
use stratalog_model::{Error, ErrorKind};

use crate::{json::Json, problem, state::State};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");

/// Headers that a page of another site can send only after a CORS preflight request. The header
/// `Authorization` is checked separately: a browser adds stored credentials by itself.
const OWN_HEADERS: [HeaderName; 2] =
    [HeaderName::from_static("idempotency-key"), HeaderName::from_static("x-requested-with")];

/// Content types that a page of another site can send without a CORS preflight request.
const SIMPLE_TYPES: [&str; 3] =
    ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"];

/// The element of `http_hosts` that allows every host name.
const ANY: &str = "*";

/// The time in seconds for which a browser may cache the answer to a CORS preflight request.
const PREFLIGHT_SECONDS: u64 = 600;

/// The server's address in a connection. Each request carries this address as an extension.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival(pub(crate) SocketAddr);

/// The allowed values of `Host` and `Origin`.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Guard {
    /// Creates a guard from the settings `http_hosts` and `http_origins`, which are comma-separated
    /// lists.
    pub(crate) fn new(hosts: &str, origins: &str) -> Self {
        Self { hosts: listed(hosts), origins: listed(origins) }
    }

    /// Checks the headers of a request. Returns the origin if the request comes from a page of
    /// another site that `http_origins` allows; `None` for all other accepted requests.
    ///
    /// # Errors
    /// `InsufficientPrivilege` if `Host` does not name this server, or if the request comes from a
    /// site that `http_origins` does not allow; `ProtocolViolation` for a malformed `Host`.
    fn check<'a>(
        &self,
        headers: &'a HeaderMap,
        target: Option<&Authority>,
        arrival: Option<IpAddr>,
    ) -> Result<Option<&'a str>, Error> {
        let host = host_of(headers)?;
        for name in [target, host.as_ref()].into_iter().flatten() {
            if !self.is_own(name, arrival) {
                return Err(foreign_host(name));
            }
        }
        let own = target.or(host.as_ref());
        let mut origins = headers.get_all(ORIGIN).iter();
        let (origin, more) = (origins.next(), origins.next());
        if more.is_some() {
            return Err(malformed("the request has several Origin headers"));
        }
        let Some(origin) = origin else {
            let mut sites = headers.get_all(SEC_FETCH_SITE).iter().map(HeaderValue::as_bytes);
            return match sites.all(|site| matches!(site, b"none" | b"same-origin")) {
                true => Ok(None),
                false => Err(foreign_site("another site")),
            };
        };
        let text = origin.to_str().map_err(|_| malformed("the Origin header is not text"))?;
        if own.is_some_and(|own| is_same_origin(text, own)) {
            return Ok(None);
        }
        if self.origins.iter().any(|allowed| *allowed == text.to_ascii_lowercase()) {
            return Ok(Some(text));
        }
        Err(foreign_site(&format!("\"{}\"", excerpt(text))))
    }

    /// True if the name or address in `Host` belongs to this server. A name that an attacker's DNS
    /// server resolves to the loopback address does not belong to this server.
    fn is_own(&self, host: &Authority, arrival: Option<IpAddr>) -> bool {
        let name = plain(host.host());
        if name == "localhost" || name.ends_with(".localhost") {
            return true;
        }
        if let Ok(address) = name.parse::<IpAddr>() {
            let address = address.to_canonical();
            let arrived = arrival.is_some_and(|arrival| arrival.to_canonical() == address);
            if address.is_loopback() || arrived {
                return true;
            }
        }
        self.hosts.iter().any(|own| own == ANY || *own == name)
    }
}

/// Applies the [`Guard`] to a request, and adds protective headers to the response.
pub(crate) async fn check(
    Extracted(state): Extracted<Arc<State>>,
    request: Request,
    next: Next,
) -> Response {
    let arrival = request.extensions().get::<Arrival>().map(|arrival| arrival.0.ip());
    let target = request.uri().authority();
    let allowed = match state.guard.check(request.headers(), target, arrival) {
        Ok(allowed) => allowed.and_then(|origin| HeaderValue::from_str(origin).ok()),
        Err(error) => {
            state.counts.refused();
            let status = match error.kind() {
                ErrorKind::InsufficientPrivilege => StatusCode::FORBIDDEN,
                _ => StatusCode::BAD_REQUEST,
            };
            return with_protective_headers(problem::failed(
                &error,
                (status, Json(problem::body(&error))),
            ));
        }
    };
    let headers = request.headers();
    let mut response = if is_preflight(request.method(), headers) && allowed.is_some() {
        preflight(headers)
    } else if writes(request.method()) && has_browser_headers(headers) && !needs_preflight(headers)
    {
        let error = Error::new(
            ErrorKind::InsufficientPrivilege,
            "a web page must write with a content type that HTML forms cannot send",
        )
        .with_hint("send Content-Type: application/json, or the header X-Requested-With");
        let body = Json(problem::body(&error));
        problem::failed(&error, (StatusCode::UNSUPPORTED_MEDIA_TYPE, body))
    } else {
        next.run(request).await
    };
    if let Some(origin) = allowed {
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.append(VARY, HeaderValue::from_static("origin"));
        headers.insert(CROSS_ORIGIN_RESOURCE_POLICY, HeaderValue::from_static("cross-origin"));
    }
    with_protective_headers(response)
}

/// True if the request carries headers that a browser adds to identify the page. A page can neither
/// omit nor change these headers.
fn has_browser_headers(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) || headers.contains_key(SEC_FETCH_SITE)
}

/// Adds headers that forbid a browser to show the response as a page or to embed it in another
/// site.
fn with_protective_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(CROSS_ORIGIN_RESOURCE_POLICY).or_insert(HeaderValue::from_static("same-origin"));
    let nothing = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; sandbox");
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(nothing);
    headers.entry(REFERRER_POLICY).or_insert(HeaderValue::from_static("no-referrer"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn writes(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// True if a page of another site can send such a request only after a CORS preflight request.
fn needs_preflight(headers: &HeaderMap) -> bool {
    if OWN_HEADERS.iter().any(|name| headers.contains_key(name)) || has_own_token(headers) {
        return true;
    }
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
    let kind = kind.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    !kind.is_empty() && !SIMPLE_TYPES.contains(&kind.as_str())
}

/// True if a script has set the header `Authorization`. A browser itself sends only credentials
/// that it has asked the user for, with the scheme Basic.
fn has_own_token(headers: &HeaderMap) -> bool {
    let value = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or("");
    let scheme = value.split(' ').next().unwrap_or("");
    ["bearer", "token"].iter().any(|own| scheme.eq_ignore_ascii_case(own))
}

fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight(headers: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let answered = response.headers_mut();
    let methods = HeaderValue::from_static("GET, HEAD, POST");
    answered.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    if let Some(requested) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        answered.insert(ACCESS_CONTROL_ALLOW_HEADERS, requested.clone());
    }
    answered.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from(PREFLIGHT_SECONDS));
    response
}

/// The value of the `Host` header; `None` without the header, which HTTP/1.0 does not require.
fn host_of(headers: &HeaderMap) -> Result<Option<Authority>, Error> {
    let mut hosts = headers.get_all(HOST).iter();
    let (host, more) = (hosts.next(), hosts.next());
    if more.is_some() {
        return Err(malformed("the request has several Host headers"));
    }
    let Some(host) = host.filter(|host| !host.is_empty()) else { return Ok(None) };
    let text = host.to_str().ok().filter(|host| !host.contains('@'));
    let parsed = text.and_then(|host| host.parse::<Authority>().ok());
    parsed.map(Some).ok_or_else(|| malformed("the Host header is not a name or address"))
}

/// True if an origin, for example `http://localhost:8086`, is the origin of this server's own
/// pages.
fn is_same_origin(origin: &str, own: &Authority) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    let default = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return false,
    };
    let Ok(authority) = authority.parse::<Authority>() else { return false };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(default);
    plain(authority.host()) == plain(own.host()) && port(&authority) == port(own)
}

/// Normalizes a host name: lower case, without brackets and without a dot at the end.
fn plain(host: &str) -> String {
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    host.to_ascii_lowercase()
}

fn listed(text: &str) -> Vec<String> {
    let parts = text.split(',').map(|part| part.trim().trim_end_matches('/').to_ascii_lowercase());
    parts.filter(|part| !part.is_empty()).collect()
}

fn excerpt(text: &str) -> String {
    text.chars().take(100).collect()
}

fn malformed(message: &str) -> Error {
    Error::new(ErrorKind::ProtocolViolation, message)
}

fn foreign_host(host: &Authority) -> Error {
    Error::new(
        ErrorKind::InsufficientPrivilege,
        format!("\"{}\" is not a known name of this server", excerpt(host.host())),
    )
    .with_detail(
        "the request was refused: a web page could have sent the request under its own host name",
    )
    .with_hint("use the server's address, or add the name to the setting http_hosts")
}

fn foreign_site(site: &str) -> Error {
    Error::new(
        ErrorKind::InsufficientPrivilege,
        format!("the request was refused: a web page of {site} sent the request"),
    )
    .with_hint(
        "if the page may use this server, add the origin of the page to the setting http_origins",
    )
}

#[cfg(test)]
mod tests;
