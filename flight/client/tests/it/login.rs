//! Successful and refused logins. The program accepts any password until users can be created, so a
//! service with a password check replaces the program in this test.

use std::net::SocketAddr;

use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, Result as ActionResult, SchemaResult,
    Ticket,
    flight_service_server::{FlightService, FlightServiceServer},
};
use futures::stream::{self, BoxStream, StreamExt as _};
use stratalog_client::{Client, ErrorKind, RetryPolicy};
use tonic::{Request, Response, Status, Streaming};

use crate::support::Server;

type Answers<T> = BoxStream<'static, Result<T, Status>>;

/// A service that accepts ann with the password "secret", and answers only actions.
struct Doorkeeper;

fn not_here<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("not here"))
}

#[tonic::async_trait]
impl FlightService for Doorkeeper {
    type HandshakeStream = Answers<HandshakeResponse>;
    type ListFlightsStream = Answers<FlightInfo>;
    type DoGetStream = Answers<FlightData>;
    type DoPutStream = Answers<PutResult>;
    type DoExchangeStream = Answers<FlightData>;
    type DoActionStream = Answers<ActionResult>;
    type ListActionsStream = Answers<ActionType>;

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        // ann:secret
        let known =
            request.metadata().get("authorization").is_some_and(|v| v == "Basic YW5uOnNlY3JldA==");
        if !known {
            let mut status =
                Status::unauthenticated("password authentication failed for user \"ann\"");
            status.metadata_mut().insert("sqlstate", "28P01".parse().unwrap());
            return Err(status);
        }
        let payload = bytes::Bytes::from_static(b"a-token");
        let answer = HandshakeResponse { protocol_version: 0, payload };
        Ok(Response::new(stream::iter([Ok(answer)]).boxed()))
    }

    async fn do_action(
        &self,
        request: Request<Action>,
    ) -> Result<Response<Self::DoActionStream>, Status> {
        match request.metadata().get("authorization") {
            Some(token) if token == "Bearer a-token" => {
                let answer = ActionResult { body: bytes::Bytes::new() };
                Ok(Response::new(stream::iter([Ok(answer)]).boxed()))
            }
            _ => Err(Status::unauthenticated("no token")),
        }
    }

    async fn list_flights(
        &self,
        _: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        not_here()
    }

    async fn get_flight_info(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        not_here()
    }

    async fn poll_flight_info(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        not_here()
    }

    async fn get_schema(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        not_here()
    }

    async fn do_get(&self, _: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        not_here()
    }

    async fn do_put(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        not_here()
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        not_here()
    }

    async fn list_actions(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        not_here()
    }
}

async fn doorkeeper() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let sockets = stream::unfold(listener, |listener| async {
        let accepted = listener.accept().await.map(|(socket, _)| socket);
        Some((accepted, listener))
    });
    let service = FlightServiceServer::new(Doorkeeper);
    let serving = tonic::transport::Server::builder().add_service(service);
    tokio::spawn(serving.serve_with_incoming(sockets));
    address
}

#[tokio::test]
async fn a_wrong_password_is_told_at_once() {
    let address = doorkeeper().await;
    let client = |password: &str| {
        Client::builder().url(format!("chronolog://{address}")).user("ann").password(password)
    };
    let error = client("wrong").connect().await.unwrap_err();
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Login, Some("28P01")));
    assert!(error.to_string().contains("password authentication failed"), "{error}");
    assert!(error.hint().unwrap().contains("\"ann\""), "{error}");
    assert!(!error.is_retryable() && !error.to_string().contains("wrong"));
    let client = client("secret").application_name("let in").connect().await.unwrap();
    client.set_option("any", "thing").await.unwrap();
    let error = client.query("SELECT 1").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol, "it is no server for statements");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let never = Client::builder().url(format!("grpc://{nobody}")).retry(RetryPolicy::never());
    let error = never.connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connection);
    assert!(error.is_retryable() && error.is_not_carried_out());
    assert!(error.to_string().contains(&nobody.to_string()), "{error}");
    assert!(error.hint().unwrap().contains("flight_listen"), "{error}");
}

#[tokio::test]
async fn a_server_that_says_nothing_is_waited_for_so_long() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("grpc://{}", silent.local_addr().unwrap());
    let builder = Client::builder().url(url).retry(RetryPolicy::never());
    let brief = builder.connect_timeout(std::time::Duration::from_millis(300));
    assert_eq!(brief.connect().await.unwrap_err().kind(), ErrorKind::Timeout);
}

#[tokio::test]
async fn users_and_databases_are_told_to_the_server() {
    let server = Server::start();
    let client = Client::connect(format!("grpc://ann:x@{}/stratalog", server.address)).await;
    let who = client.unwrap().query("SELECT current_user, current_database()").await.unwrap();
    let who = who.collect().await.unwrap().remove(0);
    let text =
        |at: usize| arrow::array::AsArray::as_string::<i32>(who.column(at)).value(0).to_string();
    // Without passwords, every client acts as the predefined superuser.
    assert_eq!((text(0), text(1)), ("stratalog".to_string(), "stratalog".to_string()));
    let error = Client::connect(format!("grpc://{}/nowhere", server.address)).await.unwrap_err();
    assert_eq!(error.sqlstate(), Some("3D000"), "{error}");
}
