//! Session options in the encoding of Flight SQL.

use std::{collections::BTreeMap, collections::HashMap, fmt};

use prost::Message as _;

use crate::error::{Error, ErrorKind, Result};

/// The value of a session option.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum OptionValue {
    /// A text option.
    Text(String),
    /// A boolean option.
    Flag(bool),
    /// An integer option.
    Number(i64),
    /// A floating-point option.
    Double(f64),
    /// An option that is a list of texts.
    Texts(Vec<String>),
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::Text(text) => f.write_str(text),
            OptionValue::Flag(flag) => write!(f, "{flag}"),
            OptionValue::Number(number) => write!(f, "{number}"),
            OptionValue::Double(number) => write!(f, "{number}"),
            OptionValue::Texts(texts) => f.write_str(&texts.join(", ")),
        }
    }
}

impl From<&str> for OptionValue {
    fn from(text: &str) -> Self {
        OptionValue::Text(text.to_string())
    }
}

impl From<String> for OptionValue {
    fn from(text: String) -> Self {
        OptionValue::Text(text)
    }
}

impl From<bool> for OptionValue {
    fn from(flag: bool) -> Self {
        OptionValue::Flag(flag)
    }
}

impl From<i64> for OptionValue {
    fn from(number: i64) -> Self {
        OptionValue::Number(number)
    }
}

/// Options by name; `None` resets an option to the server's default.
pub(crate) type Options = BTreeMap<String, Option<OptionValue>>;

#[derive(Clone, PartialEq, prost::Message)]
struct Wire {
    #[prost(oneof = "WireValue", tags = "1, 2, 3, 4, 5")]
    value: Option<WireValue>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum WireValue {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Flag(bool),
    #[prost(sfixed64, tag = "3")]
    Number(i64),
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(message, tag = "5")]
    Texts(WireTexts),
}

#[derive(Clone, PartialEq, prost::Message)]
struct WireTexts {
    #[prost(string, repeated, tag = "1")]
    values: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WireOptions {
    #[prost(map = "string, message", tag = "1")]
    options: HashMap<String, Wire>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WireOutcome {
    #[prost(map = "string, message", tag = "1")]
    errors: HashMap<String, WireRefusal>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WireRefusal {
    #[prost(int32, tag = "1")]
    value: i32,
}

/// Flight's error code for an unknown option name.
const INVALID_NAME: i32 = 1;

/// Encodes the body of Flight's action SetSessionOptions.
pub(crate) fn encode_options(options: &Options) -> Vec<u8> {
    let wire = |value: &OptionValue| match value.clone() {
        OptionValue::Text(text) => WireValue::Text(text),
        OptionValue::Flag(flag) => WireValue::Flag(flag),
        OptionValue::Number(number) => WireValue::Number(number),
        OptionValue::Double(number) => WireValue::Double(number),
        OptionValue::Texts(values) => WireValue::Texts(WireTexts { values }),
    };
    let options = options
        .iter()
        .map(|(name, value)| (name.clone(), Wire { value: value.as_ref().map(wire) }));
    WireOptions { options: options.collect() }.encode_to_vec()
}

/// Decodes the answer to Flight's action SetSessionOptions.
///
/// # Errors
/// `InvalidOption` for refused options.
pub(crate) fn outcome(body: &[u8], options: &Options) -> Result<()> {
    let outcome = WireOutcome::decode(body)
        .map_err(|error| Error::protocol(format!("SetSessionOptions: {error}")))?;
    let Some((name, refusal)) = outcome.errors.iter().min_by_key(|(name, _)| *name) else {
        return Ok(());
    };
    let value = options.get(name).and_then(Option::as_ref).map(ToString::to_string);
    let what = match refusal.value {
        INVALID_NAME => format!("session option \"{name}\" does not exist"),
        _ => format!(
            "the session option \"{name}\" cannot be {}",
            value.map_or("reset".to_string(), |value| format!("\"{value}\""))
        ),
    };
    Err(Error::new(ErrorKind::InvalidOption, what)
        .with_hint("Client::options lists the options and their values"))
}

/// Decodes the answer to Flight's action GetSessionOptions.
///
/// # Errors
/// `Protocol`.
pub(crate) fn parse_options(body: &[u8]) -> Result<BTreeMap<String, OptionValue>> {
    let decoded = WireOptions::decode(body)
        .map_err(|error| Error::protocol(format!("GetSessionOptions: {error}")))?;
    let options = decoded.options.into_iter().filter_map(|(name, wire)| {
        let value = match wire.value? {
            WireValue::Text(text) => OptionValue::Text(text),
            WireValue::Flag(flag) => OptionValue::Flag(flag),
            WireValue::Number(number) => OptionValue::Number(number),
            WireValue::Double(number) => OptionValue::Double(number),
            WireValue::Texts(texts) => OptionValue::Texts(texts.values),
        };
        Some((name, value))
    });
    Ok(options.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_back_as_they_were_sent() {
        let all = [
            ("a", OptionValue::from("x")),
            ("b", OptionValue::from(true)),
            ("c", OptionValue::from(-5)),
            ("d", OptionValue::Double(0.5)),
            ("e", OptionValue::Texts(vec!["p".into(), "q".into()])),
        ];
        let mut sent: Options =
            all.iter().map(|(name, value)| (name.to_string(), Some(value.clone()))).collect();
        sent.insert("reset".into(), None);
        let back = parse_options(&encode_options(&sent)).unwrap();
        assert_eq!(back, all.into_iter().map(|(name, value)| (name.to_string(), value)).collect());
    }

    #[test]
    fn options_that_were_not_set_are_named() {
        let options: Options = [("zone".to_string(), Some("Mars".into()))].into();
        let refused = |value| {
            let errors = [("zone".to_string(), WireRefusal { value })].into();
            outcome(&WireOutcome { errors }.encode_to_vec(), &options).unwrap_err().to_string()
        };
        assert!(refused(1).starts_with("session option \"zone\" does not exist"));
        assert!(refused(2).starts_with("the session option \"zone\" cannot be \"Mars\""));
        assert!(outcome(&[], &options).is_ok());
    }
}
