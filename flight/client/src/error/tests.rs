use tonic::{Code, Status};

use super::*;

fn from_server(code: Code, sqlstate: &str, text: &str) -> Error {
    let mut status = Status::new(code, text);
    status.metadata_mut().insert("sqlstate", sqlstate.parse().unwrap());
    status.into()
}

#[test]
fn what_the_server_says_is_taken_apart() {
    let text =
        "relation \"x\" does not exist\n  detail: d\n  hint: create it\nfirst\n  context: batch 3";
    let error = from_server(Code::NotFound, "42P01", text);
    assert_eq!(error.message(), "relation \"x\" does not exist; d");
    assert_eq!(error.hint(), Some("create it\nfirst"));
    assert_eq!(error.sqlstate(), Some("42P01"));
    assert!(!error.is_retryable());
    let shown = error.to_string();
    assert!(shown.contains("(SQLSTATE 42P01)") && shown.contains("hint: create it"), "{shown}");
}

#[test]
fn the_table_of_the_server_decides_what_may_succeed_later() {
    assert!(from_server(Code::ResourceExhausted, "53100", "full").is_retryable());
    assert!(from_server(Code::Unavailable, "57P01", "stopping").is_retryable());
    assert!(!from_server(Code::AlreadyExists, "23505", "twice").is_retryable());
}

#[test]
fn a_message_that_is_too_large_is_not_sent_again() {
    let text =
        "the client's stream ended early: Error, decoded message length too large: found 5 bytes";
    let error = from_server(Code::Unavailable, "08006", text);
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(!error.is_retryable() && error.hint().unwrap().contains("message_bytes_max"));
}

#[test]
fn what_has_no_sqlstate_comes_from_the_connection() {
    for code in [Code::Unavailable, Code::Unknown, Code::Internal, Code::Cancelled] {
        let error = Error::from(Status::new(code, "broken"));
        assert_eq!(error.kind(), ErrorKind::Connection, "{code}");
        assert!(error.is_retryable() && !error.is_not_carried_out());
    }
    assert_eq!(Error::from(Status::out_of_range("too large")).kind(), ErrorKind::TooLarge);
    assert_eq!(Error::from(Status::unauthenticated("no")).kind(), ErrorKind::Login);
}

#[test]
fn a_sqlstate_has_five_characters() {
    assert!(SqlState::new("4200").is_none() && SqlState::new("ÄÄ0").is_none());
    assert_eq!(SqlState::new("42P01").unwrap().to_string(), "42P01");
}
