//! Messages from the client: finds the message boundaries, limits the size, and decodes and
//! validates the bodies.

mod message;
mod reader;

pub use self::{
    message::{Bind, Close, Describe, Execute, Frontend, Parse, Target},
    reader::{Disconnect, InboundItem, MessageLimits, MessageReader},
};

#[cfg(test)]
mod tests;
