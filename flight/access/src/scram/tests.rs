use proptest::prelude::*;

use super::*;

const PASSWORD: &str = "pencil";

fn secret() -> ScramSecret {
    ScramSecret { verifier: Verifier::of_password(PASSWORD, 4096).unwrap(), doomed: false }
}

/// A client of SCRAM.
struct Client {
    /// The header with the flag of the channel binding, such as `n,,`.
    header: &'static str,
    /// The bytes behind the header in `c=`.
    binding: &'static [u8],
    password: &'static str,
}

const PLAIN: Client = Client { header: "n,,", binding: b"", password: PASSWORD };

impl Client {
    fn first(&self) -> String {
        format!("{}n=,r=nonce", self.header)
    }

    fn last(&self, server_first: &str) -> String {
        let part = |name: &str| {
            let mut parts = server_first.split(',');
            parts.find_map(|part| part.strip_prefix(name)).unwrap().to_string()
        };
        let salt = STANDARD.decode(part("s=")).unwrap();
        let binding = STANDARD.encode([self.header.as_bytes(), self.binding].concat());
        let without_proof = format!("c={binding},r={}", part("r="));
        let signed = format!("n=,r=nonce,{server_first},{without_proof}");
        let mut salted = [0; 32];
        ring::pbkdf2::derive(
            ring::pbkdf2::PBKDF2_HMAC_SHA256,
            part("i=").parse().unwrap(),
            &salt,
            self.password.as_bytes(),
            &mut salted,
        );
        let client_key = sign(&salted, b"Client Key");
        let stored_key = digest::digest(&digest::SHA256, client_key.as_ref());
        let signature = sign(stored_key.as_ref(), signed.as_bytes());
        let proof: Vec<u8> =
            client_key.as_ref().iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        format!("{without_proof},p={}", STANDARD.encode(proof))
    }

    /// Runs an exchange.
    fn run(
        &self,
        mechanism: &str,
        secret: ScramSecret,
        server_end_point: Option<&[u8]>,
    ) -> Result<Option<String>> {
        let mut exchange = ScramExchange::new(secret, server_end_point.map(<[u8]>::to_vec));
        let server_first = exchange.start(mechanism, self.first().as_bytes())?;
        exchange.finish(self.last(&server_first).as_bytes())
    }
}

fn sqlstate<T: std::fmt::Debug>(result: Result<T>) -> &'static str {
    result.unwrap_err().kind().sqlstate()
}

#[test]
fn right_and_wrong_passwords() {
    assert!(PLAIN.run(SCRAM, secret(), None).unwrap().unwrap().starts_with("v="));
    let wrong = Client { password: "Pencil", ..PLAIN };
    assert_eq!(wrong.run(SCRAM, secret(), None).unwrap(), None);
    let doomed = ScramSecret { doomed: true, ..secret() };
    assert_eq!(PLAIN.run(SCRAM, doomed, None).unwrap(), None);
}

#[test]
fn channel_binding() {
    let hash: &[u8] = b"hash of the certificate";
    let bound = Client { header: "p=tls-server-end-point,,", binding: hash, ..PLAIN };
    assert!(bound.run(SCRAM_PLUS, secret(), Some(hash)).unwrap().is_some());
    // The client has seen another certificate.
    assert_eq!(sqlstate(bound.run(SCRAM_PLUS, secret(), Some(b"another"))), "28000");
    // The server does not offer -PLUS.
    assert_eq!(sqlstate(bound.run(SCRAM_PLUS, secret(), None)), "08P01");
    // The mechanism and the flag contradict each other.
    assert_eq!(sqlstate(PLAIN.run(SCRAM_PLUS, secret(), Some(hash))), "08P01");
    assert_eq!(sqlstate(bound.run(SCRAM, secret(), Some(hash))), "08P01");
    let other = Client { header: "p=tls-unique,,", binding: hash, ..PLAIN };
    assert_eq!(sqlstate(other.run(SCRAM_PLUS, secret(), Some(hash))), "08P01");
}

#[test]
fn somebody_who_hides_plus_is_noticed() {
    let downgraded = Client { header: "y,,", ..PLAIN };
    assert_eq!(sqlstate(downgraded.run(SCRAM, secret(), Some(b"hash"))), "28000");
    assert!(downgraded.run(SCRAM, secret(), None).unwrap().is_some());
    // The attacker also changes the flag in the first message, but cannot change `c=`.
    let mut exchange = ScramExchange::new(secret(), Some(b"hash".to_vec()));
    let server_first = exchange.start(SCRAM, b"n,,n=,r=nonce").unwrap();
    let last = downgraded.last(&server_first);
    assert_eq!(sqlstate(exchange.finish(last.as_bytes())), "28000");
}

#[test]
fn malformed_messages() {
    for first in [
        "",
        "n",
        "n,",
        "n,,",
        "n,,n=",
        "n,,n=,r=",
        "n,,n=,r=a b",
        "n,a=x,n=,r=x",
        "n,,m=1,n=,r=x",
        "x,,n=,r=x",
        "n,,r=x,n=",
        "n,,n=,r=\u{e9}",
    ] {
        let mut exchange = ScramExchange::new(secret(), None);
        assert!(exchange.start(SCRAM, first.as_bytes()).is_err(), "{first}");
    }
    let long = format!("n,,n=,r={}", "x".repeat(MESSAGE_BYTES_MAX));
    assert!(ScramExchange::new(secret(), None).start(SCRAM, long.as_bytes()).is_err());
    for last in ["", "c=biws", "c=biws,r=x", "c=biws,r=x,p=", "p=AAAA", "c=,r=,p=AAAA"] {
        let mut exchange = ScramExchange::new(secret(), None);
        exchange.start(SCRAM, b"n,,n=,r=nonce").unwrap();
        assert!(exchange.finish(last.as_bytes()).is_err(), "{last}");
        assert!(exchange.finish(last.as_bytes()).is_err(), "the exchange has ended");
    }
    // A proof that is too long or too short.
    let mut exchange = ScramExchange::new(secret(), None);
    let server_first = exchange.start(SCRAM, b"n,,n=,r=nonce").unwrap();
    let last = PLAIN.last(&server_first);
    let (start, _) = last.rsplit_once("p=").unwrap();
    assert_eq!(
        sqlstate(exchange.finish(format!("{start}p={}", "A".repeat(64)).as_bytes())),
        "08P01"
    );
}

proptest! {
    #[test]
    fn no_message_panics(first in any::<Vec<u8>>(), last in any::<Vec<u8>>()) {
        let secret = ScramSecret {
            verifier: format!("SCRAM-SHA-256$4096:c2FsdA==${}:{}", STANDARD.encode([1; 32]), STANDARD.encode([2; 32]))
                .parse().unwrap(),
            doomed: false,
        };
        let mut exchange = ScramExchange::new(secret, Some(vec![1; 32]));
        let _ = exchange.start(SCRAM, &first);
        let _ = exchange.finish(&last);
    }
}
