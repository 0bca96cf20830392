//! Every message of the protocol, cut at every byte, with every length and count field wrong, and
//! in every order: the connection gets an error or ends, and other connections are not affected.

use tokio::io::AsyncWriteExt;

use crate::{
    raw::{Reply, Wire, framed, kinds, startup, sync},
    server::{Server, eventually},
};

/// The bytes of a message, and position and width of its length and count fields.
#[derive(Clone, Default)]
struct Message {
    name: &'static str,
    bytes: Vec<u8>,
    fields: Vec<(usize, usize)>,
}

impl Message {
    fn start(name: &'static str, kind: Option<u8>) -> Self {
        let mut bytes: Vec<u8> = kind.into_iter().collect();
        let fields = vec![(bytes.len(), 4)];
        bytes.extend_from_slice(&[0; 4]);
        Self { name, bytes, fields }
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn count(mut self, count: i16) -> Self {
        self.fields.push((self.bytes.len(), 2));
        self.raw(&count.to_be_bytes())
    }

    fn value(mut self, value: &[u8]) -> Self {
        self.fields.push((self.bytes.len(), 4));
        self.raw(&i32::try_from(value.len()).unwrap().to_be_bytes()).raw(value)
    }

    fn end(mut self) -> Self {
        let (at, _) = self.fields[0];
        let length = i32::try_from(self.bytes.len() - at).unwrap();
        self.bytes[at..at + 4].copy_from_slice(&length.to_be_bytes());
        self
    }

    /// Copies of the message, each with a wrong value in one field.
    fn lies(&self) -> Vec<Vec<u8>> {
        let mut lies = Vec::new();
        for (at, width) in &self.fields {
            let field = &self.bytes[*at..*at + *width];
            let true_value = field.iter().fold(0_i64, |sum, byte| sum << 8 | i64::from(*byte));
            let large = 1_i64 << (width * 8 - 1);
            for lie in
                [0, 1, 3, 4, 5, true_value - 1, true_value + 1, large - 1, large, 2 * large - 1]
            {
                let mut bytes = self.bytes.clone();
                let lie = &lie.to_be_bytes()[8 - width..];
                bytes[*at..*at + *width].copy_from_slice(lie);
                lies.push(bytes);
            }
        }
        lies
    }
}

/// All messages that a client may send before its login.
fn requests() -> Vec<Message> {
    let code = |name, code: i32| Message::start(name, None).raw(&code.to_be_bytes());
    vec![
        code("SSLRequest", 80_877_103).end(),
        code("GSSENCRequest", 80_877_104).end(),
        code("CancelRequest", 80_877_102).raw(&[0, 0, 0, 1, 0, 0, 0, 2]).end(),
        code("CancelRequest of 3.2", 80_877_102).raw(&[7; 36]).end(),
        code("StartupMessage", 3 << 16).raw(b"user\0u\0database\0stratalog\0\0").end(),
        code("StartupMessage of 3.2", (3 << 16) + 2)
            .raw(b"user\0u\0database\0stratalog\0_pq_.some\0on\0options\0-c myapp.x=1\0\0")
            .end(),
    ]
}

/// All messages that a client may send within a session.
fn messages() -> Vec<Message> {
    let start = |name, kind| Message::start(name, Some(kind));
    vec![
        start("Query", b'Q').raw(b"SELECT 1; SELECT 'two'\0").end(),
        start("Query of a COPY", b'Q').raw(b"COPY c FROM STDIN\0").end(),
        start("Parse", b'P')
            .raw(b"s\0SELECT $1::int + $2::int8\0")
            .count(2)
            .raw(&[0, 0, 0, 23, 0, 0, 0, 20])
            .end(),
        start("Bind", b'B')
            .raw(b"p\0s\0")
            .count(2)
            .raw(&[0, 0, 0, 1])
            .count(2)
            .value(b"7")
            .value(&[0, 0, 0, 0, 0, 0, 0, 9])
            .count(1)
            .raw(&[0, 1])
            .end(),
        start("Describe a statement", b'D').raw(b"Ss\0").end(),
        start("Describe a portal", b'D').raw(b"Pp\0").end(),
        start("Execute", b'E').raw(b"p\0\0\0\0\0").end(),
        start("Close a statement", b'C').raw(b"Ss\0").end(),
        start("Close a portal", b'C').raw(b"Pp\0").end(),
        start("Sync", b'S').end(),
        start("Flush", b'H').end(),
        start("CopyData", b'd').raw(b"2024-01-01\t5\n").end(),
        start("CopyDone", b'c').end(),
        start("CopyFail", b'f').raw(b"why not\0").end(),
        start("FunctionCall", b'F')
            .raw(&1598_i32.to_be_bytes())
            .count(1)
            .raw(&[0, 0])
            .count(1)
            .value(b"1")
            .raw(&[0, 0])
            .end(),
        start("PasswordMessage", b'p').raw(b"secret\0").end(),
        start("Terminate", b'X').end(),
    ]
}

async fn server() -> Server {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("CREATE TABLE c (time timestamptz NOT NULL, v int)").await.unwrap();
    server
}

/// Sends bytes and closes the sending side; returns the answers until the server closes.
async fn answered(mut wire: Wire, bytes: &[u8]) -> Vec<Reply> {
    wire.send(bytes).await;
    let _ = wire.0.shutdown().await;
    wire.rest().await
}

/// Checks that other clients are served normally, and that no session remains.
async fn nobody_noticed(server: &Server) {
    let client = server.client().await;
    eventually("no other session is left", async || {
        let sql = "SELECT count(*) FROM pg_stat_activity";
        client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 1
    })
    .await;
    let copies = client.query("SELECT * FROM pg_stat_progress_copy", &[]).await.unwrap();
    assert!(copies.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_message_cut_at_every_byte() {
    let server = server().await;
    for request in requests() {
        for end in 0..request.bytes.len() {
            let wire = Wire::open(server.port).await;
            let replies = answered(wire, &request.bytes[..end]).await;
            assert_eq!(kinds(&replies), "", "{} cut at {end}", request.name);
        }
    }
    for message in messages() {
        for end in 0..message.bytes.len() {
            let wire = Wire::ready(server.port).await;
            let replies = answered(wire, &message.bytes[..end]).await;
            assert_eq!(kinds(&replies), "", "{} cut at {end}", message.name);
        }
    }
    nobody_noticed(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_length_and_count_lied_about() {
    let server = server().await;
    for request in requests() {
        for lie in request.lies() {
            let mut wire = Wire::open(server.port).await;
            wire.send(&lie).await;
            let _ = wire.0.shutdown().await;
            // A single byte answers a request for encryption; an error may follow.
            use tokio::io::AsyncReadExt;
            let mut said = Vec::new();
            let _ = wire.0.read_to_end(&mut said).await;
            assert!(
                said.is_empty() || matches!(said[0], b'N' | b'E' | b'R' | b'v'),
                "{}: {lie:?}: {said:?}",
                request.name
            );
        }
    }
    let before = [
        framed(b'P', b"s\0SELECT $1::int + $2::int8\0\0\0"),
        framed(b'B', b"p\0s\0\0\0\0\x02\0\0\0\x011\0\0\0\x012\0\0"),
    ]
    .concat();
    for message in messages() {
        for lie in message.lies() {
            // Within a COPY too, because other rules apply there.
            for copies in [false, true] {
                let mut wire = Wire::ready(server.port).await;
                if copies {
                    wire.send(&framed(b'Q', b"COPY c FROM STDIN\0")).await;
                    assert_eq!(kinds(&wire.until('G').await), "G");
                } else {
                    wire.send(&before).await;
                }
                let replies = answered(wire, &[lie.clone(), sync()].concat()).await;
                // For any interpretation, the answer consists of complete messages.
                assert!(replies.len() < 30, "{}: {lie:?}", message.name);
            }
        }
    }
    nobody_noticed(&server).await;
    let client = server.client().await;
    let stored = client.query_one("SELECT count(*) FROM c", &[]).await.unwrap();
    assert_eq!(stored.get::<_, i64>(0), 0, "no COPY came to its end");
}

/// A generator of numbers, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % most
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_in_any_order() {
    let server = server().await;
    let messages = messages();
    for seed in 0..400 {
        let mut random = Random(seed);
        let order: Vec<&Message> =
            (0..12).map(|_| &messages[random.below(messages.len())]).collect();
        let mut bytes: Vec<u8> = order.iter().flat_map(|message| message.bytes.clone()).collect();
        // Every third input has some changed bytes.
        if seed % 3 == 0 {
            for _ in 0..3 {
                let at = random.below(bytes.len());
                bytes[at] = u8::try_from(random.below(256)).unwrap();
            }
        }
        let wire = Wire::ready(server.port).await;
        let replies = answered(wire, &bytes).await;
        let names: Vec<_> = order.iter().map(|message| message.name).collect();
        assert!(replies.len() < 300, "seed {seed}: {names:?}");
    }
    nobody_noticed(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_that_is_no_text() {
    let server = server().await;
    for bad in [&b"\xff"[..], b"\xc3", b"\xed\xa0\x80", b"a\xf5\x80\x80\x80"] {
        let text = |before: &[u8], after: &[u8]| [before, bad, after].concat();
        for (kind, body) in [
            (b'Q', text(b"SELECT '", b"'\0")),
            (b'P', text(b"", b"\0SELECT 1\0\0\0")),
            (b'P', text(b"s\0SELECT '", b"'\0\0\0")),
            (b'B', text(b"", b"\0\0\0\0\0\0\0\0")),
            (b'B', text(b"p\0", b"\0\0\0\0\0\0\0")),
            (b'D', text(b"S", b"\0")),
            (b'D', text(b"P", b"\0")),
            (b'E', text(b"", b"\0\0\0\0\0")),
            (b'C', text(b"S", b"\0")),
            (b'C', text(b"P", b"\0")),
        ] {
            let mut wire = Wire::ready(server.port).await;
            wire.send(&[framed(kind, &body), sync()].concat()).await;
            let replies = wire.until('Z').await;
            let state = crate::raw::sqlstate(&replies);
            assert_eq!(state, "22021", "{} {body:?}", char::from(kind));
        }
        // A parameter, and data of a COPY.
        let mut wire = Wire::ready(server.port).await;
        let length = u32::try_from(bad.len()).unwrap().to_be_bytes();
        let value = [&b"\0\0\0\0\0\x01"[..], &length, bad, b"\0\0"].concat();
        wire.send(
            &[framed(b'P', b"\0SELECT $1::text\0\0\0"), framed(b'B', &value), sync()].concat(),
        )
        .await;
        assert_eq!(crate::raw::sqlstate(&wire.until('Z').await), "22021");
        wire.send(&framed(b'Q', b"COPY c FROM STDIN\0")).await;
        wire.until('G').await;
        wire.send(&[framed(b'd', &text(b"2024-01-01\t", b"\n")), framed(b'c', b"")].concat()).await;
        assert_eq!(crate::raw::sqlstate(&wire.until('Z').await), "22021");
        wire.send(&framed(b'Q', b"COPY c FROM STDIN\0")).await;
        wire.until('G').await;
        wire.send(&framed(b'f', &text(b"", b"\0"))).await;
        assert_eq!(crate::raw::sqlstate(&wire.until('Z').await), "22021");
        // A login.
        let mut packet = startup(&[("user", "u"), ("database", "XX")]);
        let at = packet.windows(2).position(|pair| pair == b"XX").unwrap();
        packet[at..at + 2].copy_from_slice(b"\xff\xfe");
        let replies = answered(Wire::open(server.port).await, &packet).await;
        assert_eq!(crate::raw::sqlstate(&replies), "22021");
    }
    nobody_noticed(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn formats_that_do_not_fit() {
    let server = server().await;
    let mut wire = Wire::ready(server.port).await;
    wire.send(&[framed(b'P', b"s\0SELECT $1::int, $2::int\0\0\0"), sync()].concat()).await;
    wire.until('Z').await;
    for (body, state) in [
        // Three formats for two parameters; an unknown format; the same for results.
        (&b"\0s\0\0\x03\0\0\0\0\0\0\0\x02\0\0\0\x011\0\0\0\x012\0\0"[..], "08P01"),
        (b"\0s\0\0\x01\0\x02\0\x02\0\0\0\x011\0\0\0\x012\0\0", "22023"),
        (b"\0s\0\0\0\0\x02\0\0\0\x011\0\0\0\x012\0\x03\0\0\0\0\0\0", "08P01"),
        (b"\0s\0\0\0\0\x02\0\0\0\x011\0\0\0\x012\0\x01\0\x07", "22023"),
        // One value for two parameters; a binary integer of one byte; text that is not a number.
        (b"\0s\0\0\0\0\x01\0\0\0\x011\0\0", "08P01"),
        (b"\0s\0\0\x01\0\x01\0\x02\0\0\0\x011\0\0\0\x012\0\0", "22P03"),
        (b"\0s\0\0\0\0\x02\0\0\0\x01x\0\0\0\x012\0\0", "22P02"),
    ] {
        wire.send(&[framed(b'B', body), sync()].concat()).await;
        let replies = wire.until('Z').await;
        assert_eq!(crate::raw::sqlstate(&replies), state, "{body:?}");
    }
    assert_eq!(kinds(&wire.query("SELECT 1").await), "TDCZ");
}

#[tokio::test(flavor = "multi_thread")]
async fn nul_bytes_in_texts() {
    let server = server().await;
    // A NUL ends a name or a statement; the text after it is not a valid rest of the message.
    for (kind, body, states) in [
        (b'Q', &b"SELECT 1\0 + 1\0"[..], &["08P01"][..]),
        (b'P', b"s\0t\0SELECT 1\0\0\0", &["08P01"]),
        (b'P', b"s\0SELECT '\0'\0\0\0", &["08P01"]),
        (b'B', b"p\0q\0\0\0\0\0\0\0\0", &["08P01", "26000"]),
        (b'B', b"\0s\0t\0\0\0\0\0\0\0", &["08P01", "26000"]),
        (b'D', b"Ss\0t\0", &["08P01", "26000"]),
        (b'D', b"Pp\0q\0", &["08P01", "34000"]),
        (b'E', b"p\0q\0\0\0\0\0", &["08P01", "34000"]),
        (b'C', b"Ss\0t\0", &["08P01"]),
        (b'C', b"Pp\0q\0", &["08P01"]),
    ] {
        let mut wire = Wire::ready(server.port).await;
        let end = if kind == b'Q' { Vec::new() } else { sync() };
        wire.send(&[framed(kind, body), end].concat()).await;
        let replies = wire.until('Z').await;
        let state = crate::raw::sqlstate(&replies);
        assert!(states.contains(&state.as_str()), "{} {body:?}: {state}", char::from(kind));
        assert_eq!(kinds(&wire.query("SELECT 1").await), "TDCZ");
    }
    // Values have their own length: a NUL inside is invalid in a text, like in PostgreSQL.
    let mut wire = Wire::ready(server.port).await;
    for (format, sql) in [(0_u8, "SELECT $1::text"), (1, "SELECT $1::text"), (0, "SELECT $1::int")]
    {
        let parse = [&b"\0"[..], sql.as_bytes(), b"\0\0\0"].concat();
        let bind = [&b"\0\0\0\x01\0"[..], &[format], b"\0\x01\0\0\0\x033\x004\0\0"].concat();
        wire.send(&[framed(b'P', &parse), framed(b'B', &bind), sync()].concat()).await;
        assert_eq!(crate::raw::sqlstate(&wire.until('Z').await), "22021", "{sql} {format}");
    }
    for data in [&b"2024-01-01\t\0\n"[..], b"2024\0-01-01\t1\n", b"\0"] {
        wire.send(&framed(b'Q', b"COPY c FROM STDIN\0")).await;
        wire.until('G').await;
        wire.send(&[framed(b'd', data), framed(b'c', b"")].concat()).await;
        assert_eq!(crate::raw::sqlstate(&wire.until('Z').await), "22021", "{data:?}");
    }
    wire.send(&framed(b'Q', b"COPY c FROM STDIN\0")).await;
    wire.until('G').await;
    wire.send(&framed(b'f', b"why\0not\0")).await;
    assert_eq!(crate::raw::sqlstate(&wire.until('Z').await), "08P01");
    assert_eq!(kinds(&wire.query("SELECT 1").await), "TDCZ");
    // A login: the list of options ends at an empty name.
    let mut packet = startup(&[("user", "u"), ("database", "XX")]);
    let at = packet.windows(2).position(|pair| pair == b"XX").unwrap();
    packet[at] = 0;
    let replies = answered(Wire::open(server.port).await, &packet).await;
    assert_eq!(crate::raw::sqlstate(&replies), "08P01");
    drop(wire);
    nobody_noticed(&server).await;
}
