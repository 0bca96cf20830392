//! Tickets of clients: unchanged, in JSON, and sealed with the real key.
//!
//! The first byte of an input selects the type of the rest.

#![no_main]

use arrow_flight::sql::{ProstMessageExt as _, TicketStatementQuery};
use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use stratalog_flight_wire::{
    Seal, SealedTicket, TICKET, TextTicket, TicketWork, command::command_of,
};
use stratalog_model::ErrorKind;

const CALLER: &[u8] = b"caller";
const NOW_NS: i64 = 1_000;

thread_local! {
    static SEAL: Seal = Seal::random().expect("a key");
}

fuzz_target!(|input: &[u8]| {
    let [what, rest @ ..] = input else { return };
    match what % 3 {
        0 => as_it_is(rest),
        1 => in_json(rest),
        _ => SEAL.with(|seal| sealed(seal, rest)),
    }
});

/// The key cannot be guessed.
fn as_it_is(ticket: &[u8]) {
    let error = SEAL.with(|seal| SealedTicket::open(ticket, seal, CALLER, NOW_NS)).unwrap_err();
    let kinds = [ErrorKind::ProtocolViolation, ErrorKind::InvalidAuthorization];
    assert!(kinds.contains(&error.kind()), "{error}");
}

fn in_json(ticket: &[u8]) {
    let Some(read) = TextTicket::read(ticket) else {
        assert_ne!(ticket.first(), Some(&b'{'));
        return;
    };
    let Ok(read) = read else { return };
    // The parsed query survives a round trip.
    let mut again = serde_json::json!({ "sql_query": read.sql_query });
    if let Some(database) = &read.database {
        again["database"] = database.as_str().into();
    }
    let again = TextTicket::read(again.to_string().as_bytes()).expect("JSON").expect("a query");
    assert_eq!((again.sql_query, again.database), (read.sql_query, read.database));
}

fn sealed(seal: &Seal, text: &[u8]) {
    let open = |text: Vec<u8>| {
        let query = TicketStatementQuery { statement_handle: seal.seal(TICKET, text).into() };
        SealedTicket::open(&query.as_any().encode_to_vec(), seal, CALLER, NOW_NS)
    };
    let read = SealedTicket::decode(text);
    match open(text.to_vec()) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidAuthorization, "{error}"),
        Ok(work) => {
            let read = read.expect("it was opened");
            assert_eq!(read.caller, CALLER);
            assert!(read.expires_ns > NOW_NS);
            if let TicketWork::Metadata(asked) = &work {
                drop(command_of(asked));
            }
            let again = read.into_ticket(seal).ticket;
            assert_eq!(SealedTicket::open(&again, seal, CALLER, NOW_NS).expect("ours"), work);
            return;
        }
    }
    // The same ticket, made for this caller just now.
    if let Ok(read) = read
        && read.work.is_some()
    {
        let ours = SealedTicket { caller: CALLER.to_vec(), expires_ns: i64::MAX, ..read };
        assert_eq!(open(ours.encode_to_vec()).ok(), ours.work);
    }
}
