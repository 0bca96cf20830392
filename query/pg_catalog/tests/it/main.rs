//! What clients send, and what they get.
