//! A Rust client of Stratalog for SQL and Arrow. Each written row is stored exactly once, even
//! after retries.
//!
//! *What it is*: [`Client`], with a bounded pool of connections that are opened on demand and
//! replaced after failures; [`Rows`], a stream of Arrow batches; [`Prepared`] statements and
//! [`Transaction`]s; [`Writer`], which numbers batches for safe retries; and [`Chronolog`],
//! ChronoLog's own API for chronicles of raw events: acquire, record, playback, replay and
//! subscribe. Everything uses Arrow Flight SQL.
//!
//! *What it deliberately is not*: an SQL parser, or a cache. The client repeats only safe requests:
//! read-only queries, requests that certainly did nothing, and numbered batches.
//!
//! *Data path*: statement → connection with the fewest calls in the pool → `GetFlightInfo` →
//! `DoGet` → [`Rows`], at the speed of the reader. Batch → [`Writer::write`] → buffer of
//! unacknowledged rows → `DoPut` → acknowledgement → [`Delivery`] and [`Writer::flush`]. Payload →
//! [`Chronicle::record`], which computes a tick from the server's clock → batch of a writer →
//! [`Receipt`].
//!
//! # Examples
//! ```no_run
//! use stratalog_client::{Client, RetryPolicy};
//!
//! # async fn example() -> stratalog_client::Result<()> {
//! let client = Client::builder()
//!     .url("grpc://127.0.0.1:50051")
//!     .application_name("thermometer")
//!     .retry(RetryPolicy::default())
//!     .connect()
//!     .await?;
//! let tables = client.query("SELECT table_name FROM information_schema.tables").await?;
//! println!("{:?}", tables.collect().await?);
//! client.close().await;
//! # Ok(())
//! # }
//! ```

mod acquisition;
mod address;
mod chronicle;
mod cleanup;
mod client;
mod clock;
mod command;
mod connection;
mod encode;
mod error;
mod options;
mod params;
mod pool;
mod prepared;
mod retry;
mod rows;
mod server_clock;
mod session;
mod settings;
mod statement;
mod tls;
mod transaction;
mod writer;

pub use arrow;
pub use stratalog_model::{Collision, Durability, Granularity, TickSource, clock::EstimatedTime};
pub use uuid::Uuid;

pub use self::{
    chronicle::{
        Acquire, Chronicle, Chronolog, Destroy, Event, Pending, Range, Receipt, Replay, Start,
        Subscription, Tags, Update,
    },
    client::Client,
    error::{Error, ErrorKind, Result, SqlState},
    options::ClientBuilder,
    params::{IntoParams, Value},
    prepared::Prepared,
    retry::RetryPolicy,
    rows::{Cancel, Rows},
    server_clock::ClockSync,
    session::OptionValue,
    transaction::Transaction,
    writer::{Acknowledgement, Delivery, UnacknowledgedRows, Writer, WriterBuilder},
};
