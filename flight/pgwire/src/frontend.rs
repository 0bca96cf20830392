//! Messages from the client: framed, limited in size, and validated.

mod message;
mod reader;

pub use self::{
    message::{Bind, Close, Describe, Execute, Frontend, Parse, Target},
    reader::{Disconnect, InboundItem, MessageLimits, MessageReader},
};

#[cfg(test)]
mod tests;
