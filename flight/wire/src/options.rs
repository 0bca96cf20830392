//! Messages of session options, which the library does not have.

use std::collections::HashMap;

/// A value of an option, as Flight writes it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OptionValue {
    /// The value; none takes the option back.
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 5")]
    pub value: Option<Value>,
}

/// One of five types.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Value {
    /// A text.
    #[prost(string, tag = "1")]
    Text(String),
    /// Yes or no.
    #[prost(bool, tag = "2")]
    Flag(bool),
    /// An integer.
    #[prost(sfixed64, tag = "3")]
    Number(i64),
    /// A number.
    #[prost(double, tag = "4")]
    Double(f64),
    /// Several texts.
    #[prost(message, tag = "5")]
    Texts(Texts),
}

/// Several texts.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Texts {
    /// They.
    #[prost(string, repeated, tag = "1")]
    pub values: Vec<String>,
}

/// SetSessionOptions, and what GetSessionOptions answers: both have one map.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SessionOptions {
    /// By name.
    #[prost(map = "string, message", tag = "1")]
    pub options: HashMap<String, OptionValue>,
}

/// What SetSessionOptions answers: the options that were not set.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SetOutcome {
    /// By name.
    #[prost(map = "string, message", tag = "1")]
    pub errors: HashMap<String, Refusal>,
}

/// Why an option was not set.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Refusal {
    /// Its number.
    #[prost(int32, tag = "1")]
    pub value: i32,
}

/// No option has this name.
pub const INVALID_NAME: i32 = 1;
/// The option cannot have this value.
pub const INVALID_VALUE: i32 = 2;

/// What CloseSession answers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Closed {
    #[prost(int32, tag = "1")]
    status: i32,
}

impl Closed {
    /// It is closed.
    pub fn now() -> Self {
        Self { status: 1 }
    }
}
