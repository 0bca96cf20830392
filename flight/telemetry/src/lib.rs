//! Telemetry into typed columns: Prometheus remote write and OTLP.
//!
//! *What it is*: a reader ([`TelemetryReader`]) of the bodies of three kinds of HTTP requests, remote
//! write 1.0, OTLP metrics and OTLP logs, that goes from protobuf as it stands in the bytes into one
//! column builder per column, those of `stratalog-line`; the checks of the headers that such requests
//! come with ([`content`]); and the bodies of the answers ([`Outcome::response`], [`status`]).
//!
//! *What it deliberately is not*: a server, a catalog or DDL. It opens no socket, makes no table and
//! no column: its rows say which tags and fields a table lacks, and the caller decides. It converts
//! no metric into another: no rates, no deltas into sums, no units.
//!
//! *Data path*: body → decompressed, or converted from JSON → series by the bytes of their labels,
//! values by column → [`Outcome`] → `TableRows::into_batch` → `RecordBatch`.
//!
//! ```
//! use std::sync::Arc;
//! use stratalog_line::Tables;
//! use stratalog_model::ChronicleDefinition;
//! use stratalog_telemetry::{Encoding, Layout, TelemetryLimits, TelemetryReader};
//!
//! struct NoTables;
//! impl Tables for NoTables {
//!     fn table(&self, _name: &str) -> Option<Arc<ChronicleDefinition>> {
//!         None
//!     }
//! }
//!
//! let mut reader = TelemetryReader::new(TelemetryLimits::default());
//! let body = br#"{"resourceMetrics": [{"scopeMetrics": [{"metrics": [
//!     {"name": "room.temperature", "gauge": {"dataPoints": [
//!         {"asDouble": 21.5, "timeUnixNano": "1700000000000000000",
//!          "attributes": [{"key": "room", "value": {"stringValue": "kitchen"}}]},
//!         {"timeUnixNano": "1700000000000000000"}
//!     ]}}
//! ]}]}]}"#;
//! let outcome = reader.metrics(body, Encoding::Json, Layout::PerMetric, 0, &NoTables)?;
//!
//! let table = &outcome.tables[0];
//! assert_eq!((table.measurement(), table.rows()), ("room_temperature", 1));
//! assert_eq!(table.new_tags(), ["room"]);
//! assert_eq!(table.new_fields()[0].0, "value");
//! assert_eq!(
//!     outcome.message(),
//!     "1 data point accepted, 1 rejected: data point 2: metric \"room.temperature\" has a point \
//!      without a value; send as_double or as_int"
//! );
//! # Ok::<(), stratalog_model::Error>(())
//! ```
//!
//! # What is refused, and how much of it
//!
//! A body that is not the message, or is larger than it may be, is one error: nothing of it is taken.
//! What is wrong with one series, data point or record is an error of its own, and the rest is taken;
//! these are counted and the first of them told ([`Outcome`]).
//!
//! Of protobuf, what no encoder writes is refused: groups, and a message (a resource, a scope, the
//! data of a metric, a value) that comes twice where one belongs, which protobuf would merge. Fields
//! that are not known are passed over, and so is what is inside those that are not kept.
//!
//! # Remote write
//!
//! | of a series | becomes |
//! |---|---|
//! | label `__name__` | the table, or the tag `metric` ([`Layout`]); a name of more than 63 bytes is the table of its first 46 and a hash |
//! | other labels | tags; one with the value '' is as one that is not there |
//! | value of a sample | `value`, `double precision`, bit by bit: NaN, infinities, stale markers |
//! | timestamp | the tick, milliseconds; in any order |
//! | exemplars, metadata | nothing |
//! | native histograms | nothing, and each counts as refused |
//!
//! A series is refused when it has no name, when its labels are not in order of their names, come
//! twice or are not UTF-8, or when a tag cannot hold what a label says (a newline, the character of
//! code 0). A sample is refused alone when its timestamp is out of range. Labels whose names the table
//! needs itself, `time`, `value`, those of system columns and with one table `metric`, are tags with
//! `exported_` before their names, as Prometheus calls a label that is taken; a series that has a label
//! of that name as well is refused.
//!
//! # OTLP metrics
//!
//! | kind | rows |
//! |---|---|
//! | gauge, sum | `value` of the metric; integers are rounded to the nearest `double precision`, exact up to 2^53 |
//! | histogram | `…_bucket` with the tag `le` for each bound and `+Inf`, counts being of all below; `…_count`; `…_sum`, `…_min`, `…_max` if they are given |
//! | summary | the metric with the tag `quantile` for each; `…_sum`; `…_count` |
//! | exponential histogram | none: its points count as refused |
//!
//! Names are those of OpenTelemetry's specification for Prometheus, without suffixes for units and
//! totals: any character of a metric's name but ASCII letters, digits, `_` and `:` is `_`, and so in
//! keys of attributes, `:` too; before a digit at the beginning comes `_`, in keys `key_`. Attributes
//! whose keys become the same are one tag, their values in order of the keys with `;` between.
//! `service.name`, with `service.namespace/` before it if there is one, is the tag `job`, and
//! `service.instance.id` is `instance`. All other attributes of a resource are tags of one row of
//! `target_info` with the value 1, at the time of the latest point of the resource in the request.
//! The scope is `otel_scope_name`, `otel_scope_version` and `otel_scope_` before its attributes. An
//! attribute whose name is one of these already is `exported_…`. Values that are not text are written
//! as JSON has them, bytes in base64.
//!
//! A point without a time has the caller's. One that says that no value was recorded has
//! [`STALE_NAN_BITS`] as its value. Temporality is not looked at: values are kept as they are sent.
//! Start times, exemplars, units and descriptions are not kept.
//!
//! # OTLP logs
//!
//! One table, with the tag [`SERVICE_COLUMN`] and the columns [`LOG_COLUMNS`]: severity and its text,
//! body, ids of trace and span in hexadecimal, flags, the name of an event, attributes of record,
//! resource and scope as JSON, name and version of the scope. A body that is no text is JSON. A record
//! without a time has the one when it was observed, or the caller's; otherwise that is not kept.
//! Records of one service can have the same time: a table that is made for them should keep them all
//! (`collision = 'all'`).
//!
//! # Bounds
//!
//! Bytes, rows, depth, errors, and what is remembered: [`TelemetryLimits`].

mod attribute;
pub mod content;
mod fault;
mod json;
pub mod limits;
pub mod logs;
pub mod metrics;
pub mod name;
mod names;
mod origin;
pub mod outcome;
pub mod reader;
mod remote_write;
mod wire;

pub use content::Encoding;
pub use fault::{Item, TelemetryError};
pub use limits::TelemetryLimits;
pub use logs::{LOG_COLUMNS, SERVICE_COLUMN};
pub use metrics::STALE_NAN_BITS;
pub use name::{METRIC_COLUMN, VALUE_COLUMN};
pub use names::Names;
pub use outcome::{Outcome, Signal, status};
pub use reader::{Layout, TelemetryReader};
