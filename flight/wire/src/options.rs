//! The protobuf messages of session options, which the arrow-flight library does not define.

use std::collections::HashMap;

/// A value of an option, in Flight's encoding.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OptionValue {
    /// The value; `None` resets the option to its default.
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 5")]
    pub value: Option<Value>,
}

/// The value of an option.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Value {
    /// A text.
    #[prost(string, tag = "1")]
    Text(String),
    /// A boolean.
    #[prost(bool, tag = "2")]
    Flag(bool),
    /// An integer.
    #[prost(sfixed64, tag = "3")]
    Number(i64),
    /// A floating-point number.
    #[prost(double, tag = "4")]
    Double(f64),
    /// A list of texts.
    #[prost(message, tag = "5")]
    Texts(Texts),
}

/// A list of texts.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Texts {
    /// The texts.
    #[prost(string, repeated, tag = "1")]
    pub values: Vec<String>,
}

/// The request of SetSessionOptions, and the answer to GetSessionOptions.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SessionOptions {
    /// The options by name.
    #[prost(map = "string, message", tag = "1")]
    pub options: HashMap<String, OptionValue>,
}

/// The answer to SetSessionOptions.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SetOutcome {
    /// The refused options by name.
    #[prost(map = "string, message", tag = "1")]
    pub errors: HashMap<String, Refusal>,
}

/// The reason for refusing an option.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Refusal {
    /// The error number in Flight's encoding, for example [`Self::INVALID_NAME`].
    #[prost(int32, tag = "1")]
    pub value: i32,
}

/// No option has this name.
pub const INVALID_NAME: i32 = 1;
/// The option does not accept the value.
pub const INVALID_VALUE: i32 = 2;

/// The answer to CloseSession.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CloseOutcome {
    #[prost(int32, tag = "1")]
    status: i32,
}

impl CloseOutcome {
    /// The answer that the session is closed.
    pub fn now() -> Self {
        Self { status: 1 }
    }
}
