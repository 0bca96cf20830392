//! What the server reads in X.509 certificates: names, the end of the validity, and the hash of the
//! signature. rustls verifies certificates; this module only reads certificates that are verified,
//! or that are the server's own.

use chrono::NaiveDateTime;
use ring::digest;
use stratalog_model::{Error, ErrorKind, Result};

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const OCTET_STRING: u8 = 0x04;
const BOOLEAN: u8 = 0x01;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// An e-mail address in the alternative names.
const EMAIL_NAME: u8 = 0x81;
/// A host name in the alternative names.
const HOST_NAME: u8 = 0x82;
/// The types of strings that contain UTF-8 or ASCII: UTF8String, PrintableString, T61String and
/// IA5String.
const STRINGS: [u8; 4] = [0x0c, 0x13, 0x14, 0x16];

/// id-at-commonName.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
/// id-ce-subjectAltName.
const ALTERNATIVE_NAMES: [u8; 3] = [0x55, 0x1d, 0x11];
/// The arc of the PKCS #1 signature algorithms; the number of the algorithm follows.
const RSA: [u8; 8] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
/// The arc of the ECDSA signature algorithms with SHA-2; the number of the algorithm follows.
const ECDSA_SHA2: [u8; 7] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
/// ecdsa-with-SHA1.
const ECDSA_SHA1: [u8; 7] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01];

/// Facts about a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The common names of the subject, then the host names and e-mail addresses of the alternative
    /// names.
    pub names: Vec<String>,
    /// The end of the validity, in nanoseconds since 1970.
    pub not_after_ns: i64,
    /// The hash of the certificate for `tls-server-end-point` (RFC 5929): by the hash function of
    /// the certificate's signature, but SHA-256 instead of MD5 and SHA-1. `None` if the signature
    /// has no hash function, as with Ed25519, or an unknown one.
    pub server_end_point: Option<Vec<u8>>,
}

impl CertificateFacts {
    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// `InvalidParameterValue` if the bytes are not a certificate.
    pub fn read(der: &[u8]) -> Result<Self> {
        read(der).ok_or_else(|| {
            Error::new(ErrorKind::InvalidParameterValue, "the certificate is unreadable")
        })
    }
}

fn read(der: &[u8]) -> Option<CertificateFacts> {
    let mut certificate = Der(Der(der).take(SEQUENCE)?);
    let mut signed = Der(certificate.take(SEQUENCE)?);
    let mut algorithm = Der(certificate.take(SEQUENCE)?);
    let server_end_point = hash_of(algorithm.take(OBJECT_IDENTIFIER)?)
        .map(|hash| digest::digest(hash, der).as_ref().to_vec());
    if signed.next_is(VERSION) {
        signed.any()?;
    }
    // Serial number, signature algorithm, issuer.
    for _ in 0..3 {
        signed.any()?;
    }
    let mut validity = Der(signed.take(SEQUENCE)?);
    validity.any()?;
    let not_after_ns = time(validity.any()?)?;
    let mut names = Vec::new();
    common_names(signed.take(SEQUENCE)?, &mut names)?;
    // The public key; then unique identifiers may follow before the extensions.
    signed.any()?;
    while let Some((tag, content)) = signed.any() {
        if tag == EXTENSIONS {
            alternative_names(content, &mut names)?;
        }
    }
    Some(CertificateFacts { names, not_after_ns, server_end_point })
}

/// The hash function of a signature algorithm.
fn hash_of(algorithm: &[u8]) -> Option<&'static digest::Algorithm> {
    if algorithm == ECDSA_SHA1 {
        return Some(&digest::SHA256);
    }
    if let Some(number) = algorithm.strip_prefix(&RSA) {
        // With MD5, SHA-1, SHA-256, SHA-384, SHA-512.
        return match number {
            [4 | 5 | 11] => Some(&digest::SHA256),
            [12] => Some(&digest::SHA384),
            [13] => Some(&digest::SHA512),
            _ => None,
        };
    }
    match algorithm.strip_prefix(&ECDSA_SHA2)? {
        [2] => Some(&digest::SHA256),
        [3] => Some(&digest::SHA384),
        [4] => Some(&digest::SHA512),
        _ => None,
    }
}

fn common_names(subject: &[u8], names: &mut Vec<String>) -> Option<()> {
    let mut subject = Der(subject);
    while !subject.0.is_empty() {
        let mut parts = Der(subject.take(SET)?);
        while !parts.0.is_empty() {
            let mut part = Der(parts.take(SEQUENCE)?);
            let kind = part.take(OBJECT_IDENTIFIER)?;
            let (tag, value) = part.any()?;
            if kind == COMMON_NAME && STRINGS.contains(&tag) {
                names.extend(name(value));
            }
        }
    }
    Some(())
}

fn alternative_names(extensions: &[u8], names: &mut Vec<String>) -> Option<()> {
    let mut extensions = Der(Der(extensions).take(SEQUENCE)?);
    while !extensions.0.is_empty() {
        let mut extension = Der(extensions.take(SEQUENCE)?);
        let kind = extension.take(OBJECT_IDENTIFIER)?;
        if extension.next_is(BOOLEAN) {
            extension.any()?;
        }
        let value = extension.take(OCTET_STRING)?;
        if kind == ALTERNATIVE_NAMES {
            let mut list = Der(Der(value).take(SEQUENCE)?);
            while let Some((tag, value)) = list.any() {
                if matches!(tag, EMAIL_NAME | HOST_NAME) {
                    names.extend(name(value));
                }
            }
        }
    }
    Some(())
}

/// The text of a name. A name with a zero byte is no name: another program might read only the
/// part before the zero byte.
fn name(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    (!text.is_empty() && !text.contains('\0')).then(|| text.to_string())
}

fn time((tag, text): (u8, &[u8])) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let text = match tag {
        GENERALIZED_TIME => text.to_string(),
        // Two digits of the year: 1950 to 2049.
        UTC_TIME => {
            let year: u32 = text.get(..2)?.parse().ok()?;
            format!("{}{text}", if year < 50 { "20" } else { "19" })
        }
        _ => return None,
    };
    let moment = NaiveDateTime::parse_from_str(&text, "%Y%m%d%H%M%SZ").ok()?.and_utc();
    // The certificate "without end" expires at the end of the year 9999.
    Some(moment.timestamp_nanos_opt().unwrap_or(i64::MAX))
}

/// The rest of a series of DER elements.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    fn next_is(&self, tag: u8) -> bool {
        self.0.first() == Some(&tag)
    }

    /// The content of the next element, which must have the tag.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.any().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }

    /// The tag and the content of the next element.
    fn any(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(*first), rest),
            0x81..=0x84 => {
                let (digits, rest) = rest.split_at_checked(usize::from(first & 0x0f))?;
                let length = digits.iter().fold(0, |sum, digit| (sum << 8) | usize::from(*digit));
                (length, rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }
}

#[cfg(test)]
mod tests;
