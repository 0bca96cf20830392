//! Successful and refused logins, with and without TLS.

use stratalog_client::{Client, ClientBuilder, ErrorKind, RetryPolicy};

use crate::support::{Server, number};

/// A client of a server with TLS, without retries.
fn encrypted(server: &Server, scheme: &str, host: &str) -> ClientBuilder {
    let url = format!("{scheme}://{host}:{}", server.address.port());
    Client::builder().url(url).retry(RetryPolicy::never())
}

#[tokio::test]
async fn passwords_over_tls() {
    let (server, password) = Server::secured();
    let trusting = |scheme: &str, host: &str| {
        encrypted(&server, scheme, host).root_certificates(server.tls_file("ca.crt")).user("ann")
    };
    for (scheme, host) in [("grpc+tls", "localhost"), ("chronologs", "127.0.0.1")] {
        let client = trusting(scheme, host).password(&password).connect().await.unwrap();
        assert_eq!(
            number(
                &client,
                "SELECT count(*) FROM pg_roles WHERE rolname = current_user AND rolname = 'ann'"
            )
            .await,
            1
        );
    }
    let error = trusting("grpc+tls", "localhost").password("wrong").connect().await.unwrap_err();
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Login, Some("28P01")));
    assert!(error.to_string().contains("password authentication failed"), "{error}");
    assert!(error.hint().unwrap().contains("\"ann\""), "{error}");
    assert!(!error.is_retryable() && !error.to_string().contains("wrong"));
}

#[tokio::test]
async fn unverified_servers_get_no_password() {
    let (server, password) = Server::secured();
    let authority = server.tls_file("ca.crt");
    // The authority of another server.
    let (other, _) = Server::secured();
    for (case, builder) in [
        ("system authorities", encrypted(&server, "grpc+tls", "localhost")),
        ("another name", encrypted(&server, "grpc+tls", "127.0.0.2").root_certificates(&authority)),
        (
            "another authority",
            encrypted(&server, "grpc+tls", "localhost").root_certificates(other.tls_file("ca.crt")),
        ),
    ] {
        let error = builder.user("ann").password(&password).connect().await.unwrap_err();
        let kinds = [ErrorKind::Connection, ErrorKind::InvalidOption, ErrorKind::Login];
        assert!(kinds.contains(&error.kind()), "{case}: {error}");
        assert!(!error.to_string().contains(&password), "{case}: {error}");
    }
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
