//! Commands of descriptors, bodies of actions, session options, and metadata of batches.
//!
//! The first byte of an input selects the type of the rest.

#![no_main]

use arrow_flight::{
    CancelFlightInfoRequest, FlightInfo, RenewFlightEndpointRequest,
    sql::{
        ActionBeginSavepointRequest, ActionBeginTransactionRequest, ActionCancelQueryRequest,
        ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest,
        ActionEndTransactionRequest, ProstMessageExt,
    },
};
use libfuzzer_sys::fuzz_target;
use prost::Message;
use stratalog_flight_wire::{
    BatchMetadata,
    command::{command_of, packed, plain},
    options::SessionOptions,
};
use stratalog_model::ErrorKind;

fuzz_target!(|input: &[u8]| {
    let [what, rest @ ..] = input else { return };
    match what % 12 {
        0 => command(rest),
        1 => wrapped::<ActionCreatePreparedStatementRequest>(rest),
        2 => wrapped::<ActionClosePreparedStatementRequest>(rest),
        3 => wrapped::<ActionBeginTransactionRequest>(rest),
        4 => wrapped::<ActionEndTransactionRequest>(rest),
        5 => wrapped::<ActionCancelQueryRequest>(rest),
        6 => wrapped::<ActionBeginSavepointRequest>(rest),
        7 => bare::<CancelFlightInfoRequest>(rest),
        8 => bare::<RenewFlightEndpointRequest>(rest),
        9 => bare::<FlightInfo>(rest),
        10 => options(rest),
        _ => batch_metadata(rest),
    }
});

fn command(bytes: &[u8]) {
    match command_of(bytes) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::ProtocolViolation, "{error}"),
        Ok(read) => {
            let again = command_of(&read.clone().into_any().encode_to_vec()).expect("it was read");
            // Maps have no order: only the type of the message is compared.
            assert_eq!(format!("{:?}", again.type_url()), format!("{:?}", read.type_url()));
        }
    }
}

fn wrapped<T: ProstMessageExt + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    match packed::<T>(bytes) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::ProtocolViolation, "{error}"),
        Ok(read) => assert_eq!(packed::<T>(&read.as_any().encode_to_vec()).expect("read"), read),
    }
}

fn bare<T: Message + Default + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    match plain::<T>(bytes) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::ProtocolViolation, "{error}"),
        Ok(read) => assert_eq!(plain::<T>(&read.encode_to_vec()).expect("it was read"), read),
    }
}

fn options(bytes: &[u8]) {
    let Ok(read) = plain::<SessionOptions>(bytes) else { return };
    let again = plain::<SessionOptions>(&read.encode_to_vec()).expect("it was read");
    let mut names = [&read, &again].map(|all| all.options.keys().collect::<Vec<_>>());
    names.iter_mut().for_each(|names| names.sort());
    assert_eq!(names[0], names[1]);
}

fn batch_metadata(bytes: &[u8]) {
    let Ok(read) = BatchMetadata::read(bytes) else { return };
    let mut again = serde_json::Map::new();
    if let Some((producer, sequence)) = read.producer {
        again.insert("producer".into(), uuid::Uuid::from_u128(producer.0).to_string().into());
        again.insert("sequence".into(), sequence.into());
    }
    if let Some(durability) = read.durability {
        again.insert("durability".into(), durability.to_string().into());
    }
    let again = serde_json::Value::Object(again).to_string();
    assert_eq!(BatchMetadata::read(again.as_bytes()).expect("it was read"), read);
}
