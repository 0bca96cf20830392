//! A client of Stratalog for Rust: SQL and Arrow, and rows that are stored once however often they had
//! to be sent.
//!
//! *What it is*: [`Client`], with a bounded number of connections that it makes when they are needed
//! and replaces when they fail; [`Rows`], a stream of Arrow batches; [`Prepared`] statements and
//! [`Transaction`]s; [`Writer`], which numbers the batches that it sends, so that it can send them
//! again; and on top of these [`Chronolog`], ChronoLog's own API: chronicles of raw events that are
//! acquired, recorded to, played back, replayed and followed. All of it over Arrow Flight SQL.
//!
//! *What it deliberately is not*: a parser of SQL, or a cache. Nothing is sent twice unless twice is the
//! same as once: queries that only read, what was certainly not carried out, and batches with numbers.
//!
//! *Data path*: statement → quietest connection of the pool → `GetFlightInfo` → `DoGet` → [`Rows`], as
//! fast as they are read. Batch → [`Writer::write`], once there is room → ledger → `DoPut` →
//! acknowledgement → [`Delivery`] and [`Writer::flush`]. Payload → [`Chronicle::record`], which gives it a
//! tick by the server's clock → a batch of a writer → [`Receipt`].
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

mod acquired;
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
mod session;
mod statement;
mod transaction;
mod writer;

pub use arrow;
pub use stratalog_model::{Collision, Durability, Granularity, TickSource, clock::Told};
pub use uuid::Uuid;

pub use self::{
    chronicle::{
        Acquire, Chronicle, Chronolog, Destroy, Event, Pending, Range, Receipt, Replay, Start,
        Subscription, Tags, Update,
    },
    client::Client,
    clock::ClockSync,
    error::{Error, ErrorKind, Result, SqlState},
    options::ClientBuilder,
    params::{IntoParams, Value},
    prepared::Prepared,
    retry::RetryPolicy,
    rows::{Cancel, Rows},
    session::OptionValue,
    transaction::Transaction,
    writer::{Acknowledgement, Delivery, Unacknowledged, Writer, WriterBuilder},
};
