//! Converts telemetry (Prometheus remote write and OTLP) to typed columns.
//!
//! *What it is*: a reader ([`TelemetryReader`]) of the bodies of three kinds of HTTP requests:
//! remote write 1.0, OTLP metrics and OTLP logs. The reader decodes protobuf in place and writes
//! the values straight into the column builders of `stratalog-line`. The crate also checks the
//! headers of these requests ([`content`]) and builds the bodies of the answers
//! ([`Outcome::response`], [`status`]).
//!
//! *What it deliberately is not*: a server, a catalog or DDL. The crate opens no socket and creates
//! no table and no column: the rows list the tags and fields that a table lacks, and the caller
//! decides whether to create columns. The crate converts no metric into another: no rates, no
//! deltas into sums, no units.
//!
//! *Data path*: body → decompression, or conversion from JSON → look-up of the series by the bytes
//! of its labels, and values into columns → [`Outcome`] → `TableRows::into_batch` → `RecordBatch`.
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
//! # Refusals and their scope
//!
//! A body that is malformed or larger than the limit is a single error: the whole request is
//! refused. An error in a single series, data point or record affects only this item, and the
//! reader accepts the rest. The reader counts these errors and keeps the first of them
//! ([`Outcome`]).
//!
//! The reader refuses protobuf that no encoder writes: groups, and a repeated message (a resource,
//! a scope, the data of a metric, a value) in place of a single message, which protobuf would
//! merge. The reader skips unknown fields, and the content of fields that it does not store.
//!
//! # Remote write
//!
//! | of a series | becomes |
//! |---|---|
//! | label `__name__` | the table, or the tag `metric` ([`Layout`]); a name of more than 63 bytes becomes its beginning (at most 46 bytes) and a hash |
//! | other labels | tags; a label with the value '' counts as missing |
//! | value of a sample | `value`, `double precision`, bit by bit: NaN, infinities, stale markers |
//! | timestamp | the tick, milliseconds; in any order |
//! | exemplars, metadata | nothing |
//! | native histograms | nothing, and each counts as refused |
//!
//! A series is refused if it has no name, if its labels are not in the order of their names, are
//! repeated or are not UTF-8, or if a tag cannot store the value of a label (a newline, U+0000). A
//! sample with a timestamp out of range is refused alone. The table reserves some label names:
//! `time`, `value`, the names of system columns and, with a single table, `metric`. Such labels
//! become tags with the prefix `exported_`, like Prometheus's conflicting labels. A series that
//! also has a label with the prefixed name is refused.
//!
//! # OTLP metrics
//!
//! | kind | rows |
//! |---|---|
//! | gauge, sum | `value` of the metric; an integer beyond 2^53 without an exact `double precision` is refused |
//! | histogram | `…_bucket` with the tag `le` for each bound and `+Inf`, whose count includes all lower buckets; `…_count`; `…_sum`, `…_min`, `…_max` if they are given |
//! | summary | the metric with the tag `quantile` for each quantile; `…_sum`; `…_count` |
//! | exponential histogram | none: its points count as refused |
//!
//! Names follow OpenTelemetry's specification for Prometheus, without suffixes for units and
//! totals. In a metric's name, any character except ASCII letters, digits, `_` and `:` becomes `_`;
//! in keys of attributes `:` becomes `_` too. A name that begins with a digit gets the prefix `_`,
//! a key the prefix `key_`. Attributes whose keys become equal are one tag; the values are joined
//! with `;` in the order of the original keys. `service.name`, with `service.namespace/` before the
//! name if there is a namespace, is the tag `job`, and `service.instance.id` is `instance`. All
//! other attributes of a resource are tags of one row of `target_info` with the value 1, at the
//! time of the latest point of the resource in the request. The scope becomes the tags
//! `otel_scope_name` and `otel_scope_version`; its attributes get the prefix `otel_scope_`. An
//! attribute with one of these names becomes `exported_…`. Values that are not text are written in
//! JSON, bytes in base64.
//!
//! A point without a time gets the caller's time. A point with the flag "no recorded value" has the
//! value [`STALE_NAN_BITS`]. The reader ignores temporality, and stores values as sent. It does not
//! store start times, exemplars, units and descriptions.
//!
//! # OTLP logs
//!
//! All records go to one table, with the tag [`SERVICE_COLUMN`] and the columns [`LOG_COLUMNS`]:
//! severity and its text, body, ids of trace and span in hexadecimal, flags, the name of an event,
//! attributes of record, resource and scope as JSON, name and version of the scope. A body that is
//! not text is JSON. A record without a time gets its observation time, or else the caller's time;
//! for a record with a time, the observation time is not stored. Records of a service can have the
//! same time: a new table for logs should keep all records (`collision = 'all'`).
//!
//! # Bounds
//!
//! [`TelemetryLimits`] limits the bytes, rows, nesting depth and errors of a request, and the
//! caches.

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
