use stratalog_model::Result;
use tokio::io::AsyncReadExt;

use super::{Encryption, Request, Start, command_line, negotiate};

/// Runs `negotiate` without TLS. See [`asked_with`].
async fn asked(bytes: &[u8]) -> (Result<Request>, Vec<u8>) {
    asked_with(Encryption::Unavailable, bytes).await
}

/// Runs `negotiate` with a client that sends `bytes` and disconnects. Returns the request, and the
/// bytes that the client receives.
async fn asked_with(encryption: Encryption, bytes: &[u8]) -> (Result<Request>, Vec<u8>) {
    let (mut client, mut server) = tokio::io::duplex(64 << 10);
    use tokio::io::AsyncWriteExt;
    client.write_all(bytes).await.unwrap();
    client.shutdown().await.unwrap();
    let request = negotiate(&mut server, encryption).await;
    drop(server);
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    (request, answer)
}

fn packet(code: i32, body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(body.len() + 8).unwrap();
    [&length.to_be_bytes(), &code.to_be_bytes(), body].concat()
}

const V3: i32 = 3 << 16;

#[tokio::test]
async fn a_login_after_encryption_was_declined() {
    let bytes = [
        packet(80_877_103, b""),
        packet(80_877_104, b""),
        packet(V3, b"user\0me\0database\0d\0\0"),
    ]
    .concat();
    let (request, answer) = asked(&bytes).await;
    let Request::Start(start) = request.unwrap() else { panic!("no start") };
    assert_eq!(start.minor, 0);
    assert_eq!(start.parameters["user"], "me");
    assert_eq!(answer, b"NN");
}

#[tokio::test]
async fn a_request_for_encryption() {
    let (ssl, gss) = (packet(80_877_103, b""), packet(80_877_104, b""));
    let both = [gss.clone(), ssl.clone()].concat();
    let (request, answer) = asked_with(Encryption::Available, &both).await;
    assert_eq!((request.unwrap(), answer), (Request::Encrypt, b"NS".to_vec()));
    let login = packet(V3, b"user\0me\0\0");
    // Bytes behind the request stay unread, for the handshake.
    let (request, answer) = asked_with(Encryption::Available, &[ssl.clone(), login].concat()).await;
    assert_eq!((request.unwrap(), answer), (Request::Encrypt, b"S".to_vec()));
    for again in [ssl, gss] {
        let (request, answer) = asked_with(Encryption::Established, &again).await;
        assert_eq!((request.unwrap_err().kind().sqlstate(), answer), ("0A000", Vec::new()));
    }
}

#[tokio::test]
async fn cancel_requests() {
    let (request, _) = asked(&packet(80_877_102, &[0, 0, 0, 7, 0, 0, 0, 9])).await;
    assert_eq!(request.unwrap(), Request::Cancel { process_id: 7, secret: vec![0, 0, 0, 9] });
    let long = [&7_i32.to_be_bytes()[..], &[9; 256]].concat();
    let (request, _) = asked(&packet(80_877_102, &long)).await;
    assert_eq!(request.unwrap(), Request::Cancel { process_id: 7, secret: vec![9; 256] });
    let (request, _) = asked(&packet(80_877_102, &[&long[..], &[9]].concat())).await;
    assert_eq!(request.unwrap_err().kind().sqlstate(), "08P01");
    let (request, _) = asked(&packet(80_877_102, &[0, 0, 0, 7])).await;
    assert_eq!(request.unwrap_err().kind().sqlstate(), "08P01");
}

#[tokio::test]
async fn malformed_packets() {
    for bytes in [
        vec![0, 0, 0, 0],
        vec![0, 0, 0, 7, 0, 3, 0],
        vec![255, 255, 255, 255, 0, 3, 0, 0],
        vec![0, 1, 0, 0, 0, 3, 0, 0],
        vec![b'X', 0, 0, 0, 4],
    ] {
        let (request, answer) = asked(&bytes).await;
        assert_eq!((request.unwrap(), answer), (Request::Closed, Vec::new()), "{bytes:?}");
    }
    for (bytes, sqlstate) in [
        (packet(V3, b""), "08P01"),
        (packet(V3, b"user\0me"), "08P01"),
        (packet(V3, b"user\0"), "08P01"),
        (packet(V3, b"user\0me\0"), "08P01"),
        (packet(V3, b"user\0me\0\0more"), "08P01"),
        (packet(V3, b"user\0\xff\0\0"), "22021"),
        (packet(2 << 16, b"user\0me\0\0"), "0A000"),
        (packet(80_877_103, b"x"), "0A000"),
        ([packet(80_877_103, b""), packet(80_877_103, b"")].concat(), "0A000"),
    ] {
        let (request, _) = asked(&bytes).await;
        assert_eq!(request.unwrap_err().kind().sqlstate(), sqlstate, "{bytes:?}");
    }
}

#[tokio::test]
async fn a_packet_cut_anywhere_is_a_client_that_left() {
    let whole = packet(V3, b"user\0me\0\0");
    for length in 0..whole.len() {
        let (request, _) = asked(&whole[..length]).await;
        assert_eq!(request.unwrap(), Request::Closed, "cut at {length}");
    }
}

#[test]
fn settings_come_from_parameters_and_options() {
    let parameters = [
        ("user", "me"),
        ("database", "d"),
        ("TimeZone", "UTC"),
        ("options", "-c statement_timeout=5s --work-mem=1MB -cDateStyle=ISO\\ x"),
        ("_pq_.new", "1"),
    ];
    let start = Start {
        minor: 0,
        parameters: parameters.map(|(name, value)| (name.to_string(), value.to_string())).into(),
    };
    let settings = start.settings().unwrap();
    let expected = [
        ("TimeZone", "UTC"),
        ("statement_timeout", "5s"),
        ("work_mem", "1MB"),
        ("DateStyle", "ISO x"),
    ];
    assert_eq!(settings, expected.map(|(name, value)| (name.to_string(), value.to_string())));
    assert_eq!(start.unknown_options(), ["_pq_.new"]);
    assert!(command_line("-d 5").is_err());
    assert!(command_line("-c novalue").is_err());
}
