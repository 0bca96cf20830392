//! Reads OTLP metrics into rows.
//!
//! ```text
//! ExportMetricsServiceRequest  1 resource_metrics *
//! ResourceMetrics              1 resource    2 scope_metrics *
//! ScopeMetrics                 1 scope       2 metrics *
//! Metric                       1 name        5 gauge  7 sum  9 histogram  10 exponential  11 summary
//! ```

mod point;

pub use self::point::STALE_NAN_BITS;
pub(crate) use self::point::time_out_of_range;
use stratalog_line::{ColumnKind, SeriesNumber, Tables};
use stratalog_model::{Error, ErrorKind, Result};

use crate::{
    Encoding, Item, Layout, Outcome, Signal, TelemetryReader,
    fault::{Refusal, excerpt},
    json,
    name::{METRIC_COLUMN, VALUE_COLUMN, put_metric_name},
    names::OwnerKind,
    origin::{Origin, Tags},
    reader::refused_sample,
    wire::{Fault, Fields, once, put_varint, text},
};

/// The name of the metric that contains the attributes of a resource.
const TARGET_INFO: &str = "target_info";

/// The destination of the rows of a request.
#[derive(Clone, Copy)]
struct MetricTarget<'a> {
    layout: Layout<'a>,
    now_ns: i64,
    tables: &'a dyn Tables,
}

/// The metric whose points the reader reads now.
#[derive(Debug, Clone, Copy)]
struct Metric<'a> {
    origin: Origin<'a>,
    kind: OwnerKind,
    name: &'a str,
    /// The length of the identity prefix that all series of the metric share.
    identity_end: usize,
}

impl TelemetryReader {
    /// Reads an OTLP metrics request (`ExportMetricsServiceRequest`). Points without a time get
    /// `now_ns`, in nanoseconds since 1970.
    ///
    /// # Errors
    /// `ProtocolViolation` for a malformed body; `LimitExceeded` for a body or a number of rows
    /// above the limit. These errors refuse the whole request. Errors of single points are in the
    /// [`Outcome`].
    pub fn metrics(
        &mut self,
        body: &[u8],
        encoding: Encoding,
        layout: Layout<'_>,
        now_ns: i64,
        tables: &dyn Tables,
    ) -> Result<Outcome> {
        let target = MetricTarget { layout, now_ns, tables };
        self.otlp(body, encoding, Signal::Metrics, &json::METRICS, |reader, body| {
            reader.metrics_request(body, target)
        })
    }

    fn metrics_request(&mut self, body: &[u8], target: MetricTarget<'_>) -> Result<(), Refusal> {
        let mut fields = Fields::of(body);
        let mut number = 0;
        while let Some(field) = fields.next()? {
            if field.number == 1 {
                number += 1;
                self.resource_metrics(field.bytes()?, number, target)?;
            }
        }
        Ok(())
    }

    fn resource_metrics(
        &mut self,
        message: &[u8],
        number: u64,
        target: MetricTarget<'_>,
    ) -> Result<(), Refusal> {
        let resource = head(message, "a resource")?;
        self.latest_ns = None;
        let mut fields = Fields::of(message);
        while let Some(field) = fields.next()? {
            if field.number == 2 {
                self.scope_metrics(field.bytes()?, resource, target)?;
            }
        }
        let Some(latest_ns) = self.latest_ns else { return Ok(()) };
        match self.target_info(resource, latest_ns, target) {
            Err(Refusal::Item(error)) => self.warn(Item::Resource, number, &error),
            other => return other,
        }
        Ok(())
    }

    fn scope_metrics(
        &mut self,
        message: &[u8],
        resource: &[u8],
        target: MetricTarget<'_>,
    ) -> Result<(), Refusal> {
        let scope = head(message, "a scope")?;
        let origin =
            self.origins.origin((target.tables.namespace(), target.layout), resource, scope);
        let mut fields = Fields::of(message);
        while let Some(field) = fields.next()? {
            if field.number == 2 {
                self.metric(field.bytes()?, origin, target)?;
            }
        }
        Ok(())
    }

    fn metric(
        &mut self,
        message: &[u8],
        origin: Origin<'_>,
        target: MetricTarget<'_>,
    ) -> Result<(), Refusal> {
        let (mut name, mut data, mut kind) = (None, None, 0);
        let mut fields = Fields::of(message);
        while let Some(field) = fields.next()? {
            match field.number {
                1 => once(&mut name, field.bytes()?, "the name of a metric")?,
                number @ (5 | 7 | 9 | 10 | 11) => {
                    once(&mut data, field.bytes()?, "the data of a metric")?;
                    kind = number;
                }
                _ => {}
            }
        }
        let name = text(name.unwrap_or_default(), "the name of a metric")?;
        let Some(data) = data else {
            let error = Error::new(
                ErrorKind::FeatureNotSupported,
                format!("metric \"{}\" has no data of a known kind", excerpt(name)),
            );
            let hint = "send gauges, sums, histograms with bounds, or summaries";
            self.warn(Item::DataPoint, self.items + 1, &error.with_hint(hint));
            return Ok(());
        };
        if name.is_empty() {
            let error = Error::new(ErrorKind::InvalidName, "a metric has no name");
            return self.refuse_points(data, &error.with_hint("give it one"));
        }
        if kind == 10 {
            let error = Error::new(
                ErrorKind::FeatureNotSupported,
                format!(
                    "metric \"{}\" is an exponential histogram, which is not supported",
                    excerpt(name)
                ),
            );
            let hint = "send histograms with bounds: let the view of the SDK aggregate the metric as an explicit bucket histogram";
            return self.refuse_points(data, &error.with_hint(hint));
        }
        self.identity.clear();
        self.identity.push(b'm');
        self.identity.extend_from_slice(&origin.number.to_le_bytes());
        put_varint(&mut self.identity, name.len() as u64);
        self.identity.extend_from_slice(name.as_bytes());
        let identity_end = self.identity.len();
        let metric = Metric { origin, kind: owner_kind(kind), name, identity_end };
        let mut fields = Fields::of(data);
        while let Some(field) = fields.next()? {
            if field.number != 1 {
                continue;
            }
            let point = field.bytes()?;
            self.items += 1;
            let read = match kind {
                9 => self.histogram_point(point, metric, target),
                11 => self.summary_point(point, metric, target),
                _ => self.number_point(point, metric, target),
            };
            self.tally.count_result(Item::DataPoint, self.items, 1, read)?;
        }
        Ok(())
    }

    /// Refuses all points of a metric with the same error.
    fn refuse_points(&mut self, data: &[u8], error: &Error) -> Result<(), Refusal> {
        let mut fields = Fields::of(data);
        let mut points = 0;
        while let Some(field) = fields.next()? {
            if field.number == 1 {
                field.bytes()?;
                points += 1;
            }
        }
        if points > 0 {
            self.tally.refuse(Item::DataPoint, self.items + 1, points, error);
            self.items += points;
        }
        Ok(())
    }

    /// Adds a row of the metric `target_info`, with the attributes that do not identify the
    /// resource. The time of the row is the time of the resource's latest point.
    fn target_info(
        &mut self,
        resource: &[u8],
        latest_ns: i64,
        target: MetricTarget<'_>,
    ) -> Result<(), Refusal> {
        let MetricTarget { layout, tables, .. } = target;
        let origin = self.origins.origin((tables.namespace(), layout), resource, &[]);
        self.identity.clear();
        self.identity.push(b't');
        self.identity.extend_from_slice(&origin.number.to_le_bytes());
        let series = match self.rows.find(&self.identity) {
            Some(series) => series,
            None => {
                let mut tags = self.tags(layout, TARGET_INFO)?;
                let before = tags.as_pairs().len();
                tags.resource(resource)?;
                if tags.as_pairs().len() == before || !tags.target_info_attributes(resource)? {
                    return Ok(());
                }
                self.intern(layout, TARGET_INFO, &tags)?
            }
        };
        self.check_room(1)?;
        self.sample(series, 1.0, latest_ns, self.items, tables)
            .map_err(|error| refused(error, layout, TARGET_INFO, tables).into())
    }

    /// The tags that all series of the metric have.
    fn tags(&self, layout: Layout<'_>, metric: &str) -> Result<Tags, Refusal> {
        let single = matches!(layout, Layout::Single(_));
        let mut tags = Tags::new(single, self.limits.depth_max);
        if single {
            tags.push(METRIC_COLUMN, metric.to_string())?;
        }
        Ok(tags)
    }

    /// Adds the series with the identity `self.identity` to the cache.
    fn intern(
        &mut self,
        layout: Layout<'_>,
        metric: &str,
        tags: &Tags,
    ) -> Result<SeriesNumber, Refusal> {
        self.spend_text(tags.bytes())?;
        Ok(self.rows.intern(&self.identity, &layout.table(metric), &tags.as_pairs())?)
    }
}

/// The encoded resource or scope in field 1 of a message; empty if the field is missing.
pub(crate) fn head<'a>(message: &'a [u8], what: &'static str) -> Result<&'a [u8], Fault> {
    let mut fields = Fields::of(message);
    let mut head = None;
    while let Some(field) = fields.next()? {
        if field.number == 1 {
            once(&mut head, field.bytes()?, what)?;
        }
    }
    Ok(head.unwrap_or_default())
}

/// The error for a refused sample of a metric; see [`refused_sample`].
fn refused(error: Error, layout: Layout<'_>, metric: &str, tables: &dyn Tables) -> Error {
    refused_sample(error, &layout.table(metric), &[(VALUE_COLUMN, ColumnKind::Float)], tables)
}

/// The kind of a metric, from the number of the protobuf field with its data.
fn owner_kind(field: u32) -> OwnerKind {
    match field {
        5 => OwnerKind::Gauge,
        7 => OwnerKind::Sum,
        9 => OwnerKind::Histogram,
        _ => OwnerKind::Summary,
    }
}

/// The Prometheus name of a metric, or of a part of the metric, for example with the suffix
/// `_count`.
fn metric_name(name: &str, suffix: &str) -> String {
    let mut out = String::with_capacity(name.len() + suffix.len() + 1);
    put_metric_name(&mut out, name);
    out.push_str(suffix);
    out
}
