//! Messages over the size limit.

use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::{Criteria, Ticket};
use bytes::{Buf as _, BufMut as _};
use futures::stream;
use stratalog_flight_sql::FlightSettings;
use tonic::{
    Code, Request, Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

use crate::{
    raw::{TABLE, act, batch, described, messages, path, put, query, says},
    server::TestServer,
};

/// Every call reports the same error, from the library or from the service.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_over_the_limit_has_our_sqlstate() {
    let settings = FlightSettings { message_bytes_max: 20_000, ..FlightSettings::default() };
    let server = TestServer::with(settings).await;
    server.client().await.execute_update(TABLE.to_string(), None).await.unwrap();
    let mut raw = server.raw().await;
    let long = "x".repeat(30_000);
    let select = query(&format!("SELECT '{long}'"));
    let mut refusals: Vec<(&str, Status)> = vec![
        ("GetFlightInfo", raw.get_flight_info(select.clone()).await.unwrap_err()),
        ("PollFlightInfo", raw.poll_flight_info(select.clone()).await.unwrap_err()),
        ("GetSchema", raw.get_schema(select).await.unwrap_err()),
        ("DoGet", raw.do_get(Ticket { ticket: long.clone().into() }).await.unwrap_err()),
        ("DoAction", act(&mut raw, "CloseSession", long.clone().into()).await.unwrap_err()),
        (
            "ListFlights",
            raw.list_flights(Criteria { expression: long.clone().into() }).await.unwrap_err(),
        ),
    ];
    let large = messages(&[batch("a", 0, 3000)], IpcWriteOptions::default()).await;
    let rows = described(large.clone(), path("t"));
    refusals.push(("DoPut", put(&mut raw, stream::iter(rows.clone())).await.1.unwrap()));
    let mut first = rows;
    first[0].app_metadata = long.into();
    refusals.push(("DoPut's first", put(&mut raw, stream::iter(first.clone())).await.1.unwrap()));
    let exchange = raw.do_exchange(stream::iter(first)).await;
    refusals.push(("DoExchange", exchange.unwrap_err()));
    for (call, status) in &refusals {
        assert_eq!(status.code(), Code::ResourceExhausted, "{call}: {status:?}");
        says(status, Code::ResourceExhausted, "54000", "a message is too large");
        says(status, Code::ResourceExhausted, "54000", "message_bytes_max");
    }
    // The connection is still usable.
    assert!(raw.get_flight_info(query("SELECT 1")).await.is_ok());
}

/// Raw bytes in place of a message.
#[derive(Debug, Clone, Copy)]
struct Noise;

impl Codec for Noise {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Noise {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Noise {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining()).to_vec()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_no_message_is_the_clients_fault() {
    let server = TestServer::start().await;
    let mut client = tonic::client::Grpc::new(server.channel().await);
    let mut call = async |path: &'static str, noise: &[u8]| {
        client.ready().await.unwrap();
        let request = Request::new(noise.to_vec());
        let path = format!("/arrow.flight.protocol.FlightService/{path}").parse().unwrap();
        client.unary(request, path, Noise).await.unwrap_err()
    };
    for path in ["GetFlightInfo", "GetSchema", "DoGet", "DoAction", "ListFlights"] {
        let refused = call(path, &[0x0A, 0xFF, 0x01]).await;
        says(&refused, Code::InvalidArgument, "08P01", "the request cannot be read");
    }
    let unknown = call("DoWhatIMean", b"").await;
    assert_eq!(unknown.code(), Code::Unimplemented, "{unknown:?}");
}
