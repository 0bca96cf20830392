//! Sends IPC messages with wrong contents: the server answers with a description, and continues.

use std::sync::{
    Once,
    atomic::{AtomicUsize, Ordering},
};

use arrow::ipc::{CompressionType, writer::IpcWriteOptions};
use arrow_flight::{
    FlightData, FlightDescriptor,
    flight_service_client::FlightServiceClient,
    sql::{
        CommandPreparedStatementQuery, CommandPreparedStatementUpdate, CommandStatementIngest,
        client::FlightSqlServiceClient,
    },
};
use futures::stream;
use tonic::{Code, Status, transport::Channel};

use crate::{
    raw::{
        TABLE, batch, bent, collected, command, count, described, messages, path, prepare, put,
        says, set_body, set_buffer, set_node, told, with_dictionary,
    },
    server::TestServer,
};

/// A wrong content, and a part of the error that it must cause.
struct Lie {
    name: &'static str,
    tell: fn(&mut FlightData),
    of: Shape,
    words: &'static str,
}

/// Which batch is changed.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Plain,
    Dictionary,
    Compressed,
}

const fn lie(name: &'static str, of: Shape, words: &'static str, tell: fn(&mut FlightData)) -> Lie {
    Lie { name, tell, of, words }
}

// The buffers of `batch`: two of time (nulls, values), three of host (nulls, offsets, bytes), and
// two of v. With a dictionary, host has two buffers (nulls, indices).
const LIES: [Lie; 20] = [
    lie("offset past the body", Shape::Plain, "buffer 2 lies at byte 1048576", |data| {
        set_buffer(data, 1, 0, 1 << 20)
    }),
    lie("length past the body", Shape::Plain, "buffer 2 lies at", |data| {
        set_buffer(data, 1, 8, 1 << 40)
    }),
    lie("offset and length that overflow", Shape::Plain, "buffer 2 lies at", |data| {
        set_buffer(data, 1, 0, i64::MAX);
        set_buffer(data, 1, 8, i64::MAX);
    }),
    lie("negative offset", Shape::Plain, "buffer 7 lies at byte -8", |data| {
        set_buffer(data, 6, 0, -8)
    }),
    lie("negative length", Shape::Plain, "buffer 4 lies at", |data| set_buffer(data, 3, 8, -1)),
    lie("a body cut short", Shape::Plain, "in a body of 40", |data| {
        data.data_body = data.data_body.slice(..40);
    }),
    lie("no body", Shape::Plain, "in a body of 0", |data| data.data_body.clear()),
    lie("a header cut short", Shape::Plain, "not a message of Arrow IPC", |data| {
        data.data_header = data.data_header.slice(..data.data_header.len() / 2);
    }),
    lie("noise for a header", Shape::Plain, "not a message of Arrow IPC", |data| {
        data.data_header = vec![0xA5; 200].into();
    }),
    lie("more values than rows", Shape::Plain, "batch 2 cannot be read", |data| {
        set_node(data, 2, 0, 1000);
    }),
    lie("values beyond any message", Shape::Plain, "array 3 declares", |data| {
        set_node(data, 2, 0, i64::MAX);
    }),
    lie("fewer values than none", Shape::Plain, "array 1 declares -1 values", |data| {
        set_node(data, 0, 0, -1);
    }),
    lie("more nulls than values", Shape::Plain, "declares 5000 nulls among 10", |data| {
        set_node(data, 0, 8, 5000);
    }),
    lie("nulls that are not there", Shape::Plain, "column \"time\" has 0 bytes of marks", |data| {
        set_node(data, 0, 8, 3);
    }),
    lie("text that begins before its bytes", Shape::Plain, "batch 2 cannot be read", |data| {
        set_body(data, 3, 0, &(-4_i32).to_le_bytes());
    }),
    lie("text that ends behind its bytes", Shape::Plain, "batch 2 cannot be read", |data| {
        set_body(data, 3, 40, &(1_i32 << 30).to_le_bytes());
    }),
    lie("text that is none", Shape::Plain, "batch 2 cannot be read", |data| {
        set_body(data, 4, 0, &[0xFF]);
    }),
    lie("an index past the dictionary", Shape::Dictionary, "batch 2 cannot be read", |data| {
        set_body(data, 3, 4, &77_i32.to_le_bytes());
    }),
    lie("an index before the dictionary", Shape::Dictionary, "batch 2 cannot be read", |data| {
        set_body(data, 3, 4, &(-1_i32).to_le_bytes());
    }),
    lie("less than none, compressed", Shape::Compressed, "-9 uncompressed bytes", |data| {
        set_body(data, 1, 0, &(-9_i64).to_le_bytes());
    }),
];

/// The call by which rows reach the server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Put,
    Exchange,
    Ingest,
    Update,
    Bind,
}

const WAYS: [Way; 5] = [Way::Put, Way::Exchange, Way::Ingest, Way::Update, Way::Bind];

struct Client {
    raw: FlightServiceClient<Channel>,
    sql: FlightSqlServiceClient<Channel>,
    insert: bytes::Bytes,
    select: bytes::Bytes,
}

impl Client {
    async fn new_with_table(server: &TestServer) -> Self {
        let mut admin = server.client().await;
        admin.execute_update(TABLE.to_string(), None).await.unwrap();
        // A single connection: prepared statements belong to their connection.
        let sql = server.client().await;
        let mut raw = sql.inner().clone();
        let insert = prepare(&mut raw, "INSERT INTO t VALUES ($1, $2, $3)").await;
        let select = "SELECT v FROM t WHERE time = $1 AND host = $2 AND v = $3";
        let select = prepare(&mut raw, select).await;
        Self { raw, sql, insert, select }
    }

    /// Sends messages; returns the number of answers, and the final status of the call.
    async fn send(&mut self, way: Way, messages: Vec<FlightData>) -> (usize, Option<Status>) {
        let descriptor = self.descriptor(way);
        let messages = stream::iter(described(messages, descriptor));
        if way == Way::Exchange {
            return match self.raw.do_exchange(messages).await {
                Err(status) => (0, Some(status)),
                Ok(answers) => {
                    let (answers, end) = collected(answers.into_inner()).await;
                    (answers.len(), end)
                }
            };
        }
        let (answers, end) = put(&mut self.raw, messages).await;
        (answers.len(), end)
    }

    fn descriptor(&self, way: Way) -> FlightDescriptor {
        match way {
            Way::Put | Way::Exchange => path("t"),
            Way::Ingest => command(&CommandStatementIngest {
                table: "t".to_string(),
                ..CommandStatementIngest::default()
            }),
            Way::Update => command(&CommandPreparedStatementUpdate {
                prepared_statement_handle: self.insert.clone(),
            }),
            Way::Bind => command(&CommandPreparedStatementQuery {
                prepared_statement_handle: self.select.clone(),
            }),
        }
    }
}

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Counts panics within the decoder from now on.
fn watch_panics() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if panic.location().is_some_and(|place| place.file().contains("arrow")) {
                PANICS.fetch_add(1, Ordering::SeqCst);
            }
            before(panic);
        }));
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_that_lie_are_refused_by_name_and_all_goes_on() {
    watch_panics();
    let server = TestServer::start().await;
    let mut client = Client::new_with_table(&server).await;
    let options = |shape: Shape| match shape {
        Shape::Compressed => IpcWriteOptions::default()
            .try_with_compression(Some(CompressionType::LZ4_FRAME))
            .unwrap(),
        _ => IpcWriteOptions::default(),
    };
    let mut stored = 0;
    let mut sent = 0;
    for lie in LIES {
        for way in WAYS {
            sent += 100;
            let pair = [batch("a", sent, 10), batch("b", sent, 10)];
            let pair = match lie.of {
                Shape::Dictionary => pair.each_ref().map(with_dictionary),
                Shape::Plain | Shape::Compressed => pair,
            };
            let lying = bent(messages(&pair, options(lie.of)).await, lie.tell);
            let (answers, end) = client.send(way, lying).await;
            let name = format!("{}, {way:?}", lie.name);
            let end = end.unwrap_or_else(|| panic!("{name}: taken"));
            assert_eq!(end.code(), Code::InvalidArgument, "{name}: {end:?}");
            says(&end, Code::InvalidArgument, "22P03", "batch 2 cannot be read: ");
            says(&end, Code::InvalidArgument, "22P03", lie.words);
            // If batches are stored separately, the earlier batch is stored.
            let by_itself = matches!(way, Way::Put | Way::Exchange);
            assert_eq!(answers, usize::from(by_itself), "{name}");
            stored += if by_itself { 10 } else { 0 };
            assert_eq!(count(&mut client.sql, "t").await, stored, "{name}");
        }
        // The same paths, over the same connection, accept valid data.
        for way in WAYS {
            sent += 100;
            let right = messages(&[batch("c", sent, 3)], options(lie.of)).await;
            let (answers, end) = client.send(way, right).await;
            assert!(end.is_none(), "after {}, {way:?}: {end:?}", lie.name);
            assert_eq!(answers, 1, "after {}, {way:?}", lie.name);
            stored += if way == Way::Bind { 0 } else { 3 };
        }
        assert_eq!(count(&mut client.sql, "t").await, stored, "after {}", lie.name);
    }
    assert_eq!(PANICS.load(Ordering::SeqCst), 0, "the decoder panicked");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_would_grow_are_refused_before_they_do() {
    let settings = stratalog_flight_sql::FlightSettings {
        message_bytes_max: 1 << 20,
        ..stratalog_flight_sql::FlightSettings::default()
    };
    let server = TestServer::with(settings).await;
    let mut client = Client::new_with_table(&server).await;
    let compressed = IpcWriteOptions::default();
    let compressed = compressed.try_with_compression(Some(CompressionType::ZSTD)).unwrap();
    for way in WAYS {
        // A petabyte in a few bytes.
        let pair = [batch("a", 0, 10), batch("b", 0, 10)];
        let lying = bent(messages(&pair[1..], compressed.clone()).await, |data| {
            set_body(data, 1, 0, &(1_i64 << 50).to_le_bytes());
        });
        let (answers, end) = client.send(way, lying).await;
        assert_eq!(answers, 0);
        let end = end.unwrap();
        says(&end, Code::ResourceExhausted, "54000", "batch 1 is too large");
        says(&end, Code::ResourceExhausted, "54000", "uncompressed bytes");
    }
    // Rows without any data: the sender can claim any number of rows.
    let nothing = arrow::array::new_null_array(&arrow::datatypes::DataType::Null, 10);
    let nothing = arrow::array::RecordBatch::try_from_iter([("v", nothing)]).unwrap();
    let lying = bent(messages(&[nothing], IpcWriteOptions::default()).await, |data| {
        set_node(data, 0, 0, 1 << 60);
        set_node(data, 0, 8, 1 << 60);
        let header = data.data_header.to_vec();
        let rows = 10_i64.to_le_bytes();
        // The batch's own number of rows is the last 10 in the header.
        let at = header.windows(8).rposition(|bytes| bytes == rows).unwrap();
        let mut header = header;
        header[at..at + 8].copy_from_slice(&(1_i64 << 60).to_le_bytes());
        data.data_header = header.into();
    });
    let (_, end) = client.send(Way::Put, lying).await;
    says(&end.unwrap(), Code::ResourceExhausted, "54000", "1152921504606846976 rows");
    let (answers, end) = client
        .send(Way::Put, messages(&[batch("a", 0, 10)], IpcWriteOptions::default()).await)
        .await;
    assert!(end.is_none(), "{end:?}");
    assert_eq!(answers, 1);
    assert_eq!(count(&mut client.sql, "t").await, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_before_its_schema_and_another_schema_are_refused() {
    let server = TestServer::start().await;
    let mut client = Client::new_with_table(&server).await;
    let right = messages(&[batch("a", 0, 3)], IpcWriteOptions::default()).await;
    for way in WAYS {
        let (answers, end) = client.send(way, right[1..].to_vec()).await;
        assert_eq!(answers, 0);
        let end = end.unwrap();
        assert_eq!(end.code(), Code::InvalidArgument, "{way:?}: {end:?}");
        assert!(end.message().contains("schema"), "{way:?}: {end:?}");
    }
    let other = messages(&[with_dictionary(&batch("a", 0, 3))], IpcWriteOptions::default()).await;
    let both: Vec<FlightData> = right.iter().chain(&other).cloned().collect();
    let (answers, end) = put(&mut client.raw, stream::iter(described(both, path("t")))).await;
    assert_eq!(told(&answers)[0]["rows"], 3, "what came before is stored");
    says(&end.unwrap(), Code::InvalidArgument, "22P03", "the schema changes midway");
}
