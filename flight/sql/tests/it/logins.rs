//! Tickets and tokens: their owners, and their lifetimes.

use std::time::Duration;

use arrow_flight::{
    FlightEndpoint, RenewFlightEndpointRequest, Ticket, flight_service_client::FlightServiceClient,
};
use prost::Message as _;
use tonic::{Code, Request, Status, transport::Channel};

use crate::{
    raw::{act, collected, query, says},
    server::TestServer,
};

const MINUTE: Duration = Duration::from_secs(60);

type Client = FlightServiceClient<Channel>;

async fn ticket(client: &mut Client, sql: &str) -> Ticket {
    let info = client.get_flight_info(query(sql)).await.unwrap().into_inner();
    info.endpoint[0].ticket.clone().unwrap()
}

async fn redeem(client: &mut Client, ticket: Ticket) -> Result<usize, Status> {
    let (read, end) = collected(client.do_get(ticket).await?.into_inner()).await;
    end.map_or(Ok(read.len()), Err)
}

async fn renew(client: &mut Client, ticket: Ticket) -> Result<Ticket, Status> {
    let endpoint = Some(FlightEndpoint::new().with_ticket(ticket));
    let body = RenewFlightEndpointRequest { endpoint }.encode_to_vec();
    let answer = act(client, "RenewFlightEndpoint", body).await?.unwrap();
    Ok(FlightEndpoint::decode(answer).unwrap().ticket.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn tickets_expire_and_can_be_renewed_before() {
    let server = TestServer::start().await;
    let mut client = server.raw().await;
    let kept = ticket(&mut client, "SELECT 1").await;
    // Nine minutes later the ticket is valid and can be renewed.
    server.clock.advance(MINUTE * 9);
    assert!(redeem(&mut client, kept.clone()).await.is_ok());
    let renewed = renew(&mut client, kept.clone()).await.unwrap();
    server.clock.advance(MINUTE * 2);
    let late = redeem(&mut client, kept.clone()).await.unwrap_err();
    says(&late, Code::Unauthenticated, "28000", "the ticket has expired");
    says(&late, Code::Unauthenticated, "28000", "call GetFlightInfo again");
    let late = renew(&mut client, kept).await.unwrap_err();
    says(&late, Code::Unauthenticated, "28000", "the ticket has expired");
    assert!(redeem(&mut client, renewed.clone()).await.is_ok());
    server.clock.advance(MINUTE * 9);
    assert!(redeem(&mut client, renewed).await.is_err());
    // The connection itself is still usable.
    let fresh = ticket(&mut client, "SELECT 1").await;
    assert!(redeem(&mut client, fresh).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn tickets_of_others_and_forged_ones_are_refused() {
    let server = TestServer::start().await;
    let (mut client, mut other) = (server.raw().await, server.raw().await);
    let own = ticket(&mut client, "SELECT 1").await;
    let refused = redeem(&mut other, own.clone()).await.unwrap_err();
    says(&refused, Code::Unauthenticated, "28000", "given to another session");
    // A ticket of another server, or of this server before its last start.
    let elsewhere = TestServer::start().await;
    let mut elsewhere = elsewhere.raw().await;
    let refused = redeem(&mut elsewhere, own.clone()).await.unwrap_err();
    says(&refused, Code::Unauthenticated, "28000", "not from this server");
    // Another statement in place of the planned statement, and each bit flipped in turn.
    let at = own.ticket.windows(8).position(|bytes| bytes == b"SELECT 1").unwrap();
    let mut forged = own.ticket.to_vec();
    forged[at + 7] = b'2';
    let refused = redeem(&mut client, Ticket { ticket: forged.into() }).await.unwrap_err();
    says(&refused, Code::Unauthenticated, "28000", "forged");
    for at in 0..own.ticket.len() {
        let mut bent = own.ticket.to_vec();
        bent[at] ^= 0x10;
        let refused = redeem(&mut client, Ticket { ticket: bent.into() }).await.unwrap_err();
        let code = refused.code();
        assert!(matches!(code, Code::Unauthenticated | Code::InvalidArgument), "{at}: {refused:?}");
    }
    for noise in [&b""[..], b"{", b"{\"sql_query\": 1}", b"SELECT 1", &[0xFF; 300]] {
        let noise = Ticket { ticket: noise.to_vec().into() };
        let refused = redeem(&mut client, noise).await.unwrap_err();
        says(&refused, Code::InvalidArgument, "08P01", "ticket");
    }
    assert!(redeem(&mut client, own).await.is_ok());
}

fn with_token<T>(message: T, token: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn logins_end_when_they_are_not_used_and_wrong_tokens_are_none() {
    let server = TestServer::start().await;
    let mut login = server.client().await;
    login.handshake("anna", "any").await.unwrap();
    let token = login.token().unwrap().clone();
    let mut client = server.raw().await;
    let mut call = async |token: &str| {
        client.get_flight_info(with_token(query("SELECT 1"), token)).await.map(|_| ())
    };
    // Each call keeps the token for another hour.
    for _ in 0..3 {
        server.clock.advance(MINUTE * 59);
        call(&token).await.unwrap();
    }
    server.clock.advance(MINUTE * 61);
    let refused = call(&token).await.unwrap_err();
    says(&refused, Code::Unauthenticated, "28000", "not from this server, or has expired");
    says(&refused, Code::Unauthenticated, "28000", "log in again");
    assert!(call(&token).await.is_err(), "it does not come back");
    login.handshake("anna", "any").await.unwrap();
    let token = login.token().unwrap().clone();
    call(&token).await.unwrap();
    let mut forged = token.clone();
    let last = forged.pop().unwrap();
    forged.push(if last == 'A' { 'B' } else { 'A' });
    for wrong in [forged.as_str(), "stratalog-", "stratalog-???", &format!("{token}{token}")] {
        let refused = call(wrong).await.unwrap_err();
        says(&refused, Code::Unauthenticated, "28000", "not from this server");
    }
    call(&token).await.unwrap();
}
