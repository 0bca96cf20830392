//! Converts data points of OTLP to rows.
//!
//! ```text
//! NumberDataPoint     3 time  4 as_double  6 as_int  7 attributes *  8 flags
//! HistogramDataPoint  3 time  4 count  5 sum  6 bucket_counts *  7 explicit_bounds *
//!                     9 attributes *  10 flags  11 min  12 max
//! SummaryDataPoint    3 time  4 count  5 sum  6 quantile_values *  7 attributes *  8 flags
//! ```

use stratalog_line::SeriesNumber;
use stratalog_model::{Error, ErrorKind, Result};

use super::{Metric, MetricTarget, metric_name, refused};
use crate::{
    TelemetryReader,
    attribute::float_text,
    fault::{Refusal, excerpt},
    names::{Claim, Owner, OwnerKind},
    wire::{Fault, Fields, put_varint},
};

/// The bits of the NaN that marks the end of a series in Prometheus, and a point without a recorded
/// value in OTLP.
pub const STALE_NAN_BITS: u64 = 0x7ff0_0000_0000_0002;

/// The bit in the flags of a point that means "without a recorded value".
const NO_RECORDED_VALUE: u64 = 1;

/// The number of a point that a row contains: one point becomes one row per number.
#[derive(Debug, Clone, Copy)]
enum Part {
    Value,
    Count,
    Sum,
    Min,
    Max,
    /// The count of values up to and including this bound.
    Bucket(f64),
    Quantile(f64),
}

impl Part {
    fn code(self) -> u8 {
        match self {
            Self::Value => 0,
            Self::Count => 1,
            Self::Sum => 2,
            Self::Min => 3,
            Self::Max => 4,
            Self::Bucket(_) => 5,
            Self::Quantile(_) => 6,
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            Self::Value | Self::Quantile(_) => "",
            Self::Count => "_count",
            Self::Sum => "_sum",
            Self::Min => "_min",
            Self::Max => "_max",
            Self::Bucket(_) => "_bucket",
        }
    }
}

/// The fields that all kinds of points have.
#[derive(Debug, Clone, Copy)]
struct Point<'a> {
    message: &'a [u8],
    /// The number of the protobuf field that contains the attributes.
    attributes: u32,
    time_ns: u64,
    flags: u64,
    /// The length of the series identity up to the attributes, included. The bound of a bucket or
    /// quantile follows.
    identity_end: usize,
}

impl<'a> Point<'a> {
    fn new(message: &'a [u8], attributes: u32) -> Self {
        Self { message, attributes, time_ns: 0, flags: 0, identity_end: 0 }
    }

    /// The value to store for a row of this point: `value`, or the NaN [`STALE_NAN_BITS`] if the
    /// point has no recorded value.
    fn value(&self, value: f64) -> f64 {
        match self.flags & NO_RECORDED_VALUE {
            0 => value,
            _ => f64::from_bits(STALE_NAN_BITS),
        }
    }
}

impl TelemetryReader {
    pub(super) fn number_point(
        &mut self,
        message: &[u8],
        metric: Metric<'_>,
        target: MetricTarget<'_>,
    ) -> Result<(), Refusal> {
        let mut point = Point::new(message, 7);
        let (mut value, mut integer) = (None, None);
        self.begin_point(metric);
        let mut fields = Fields::of(message);
        while let Some(field) = fields.next()? {
            match field.number {
                3 => point.time_ns = field.fixed64()?,
                4 => value = Some(field.double()?),
                6 => integer = Some(field.fixed64()?.cast_signed()),
                7 => self.put_attribute(field.bytes()?),
                8 => point.flags = field.varint()?,
                _ => {}
            }
        }
        point.identity_end = self.identity.len();
        let tick_ns = self.tick(&point, target)?;
        if let Some(integer) = integer {
            value = Some(exact(metric, integer.into())?);
        }
        if value.is_none() && point.flags & NO_RECORDED_VALUE == 0 {
            return Err(bad(metric, "has a point without a value", "send as_double or as_int"));
        }
        self.check_room(1)?;
        let value = point.value(value.unwrap_or_default());
        self.put(&point, Part::Value, value, tick_ns, metric, target)
    }

    pub(super) fn histogram_point(
        &mut self,
        message: &[u8],
        metric: Metric<'_>,
        target: MetricTarget<'_>,
    ) -> Result<(), Refusal> {
        let mut point = Point::new(message, 9);
        let (mut counts, mut bounds) = (Vec::new(), Vec::new());
        let (mut count, mut sum, mut min, mut max) = (0, None, None, None);
        self.begin_point(metric);
        let mut fields = Fields::of(message);
        while let Some(field) = fields.next()? {
            match field.number {
                3 => point.time_ns = field.fixed64()?,
                4 => count = field.fixed64()?,
                5 => sum = Some(field.double()?),
                6 => field.fixed64s(&mut counts)?,
                7 => field.fixed64s(&mut bounds)?,
                9 => self.put_attribute(field.bytes()?),
                10 => point.flags = field.varint()?,
                11 => min = Some(field.double()?),
                12 => max = Some(field.double()?),
                _ => {}
            }
        }
        point.identity_end = self.identity.len();
        let tick_ns = self.tick(&point, target)?;
        let bounds: Vec<f64> = bounds.into_iter().map(f64::from_bits).collect();
        check_buckets(metric, &counts, &bounds)?;
        // The checks come before the first row, so that a refused point leaves no rows.
        let total = exact(metric, count.into())?;
        exact(metric, counts.iter().map(|count| i128::from(*count)).sum())?;
        self.check_room(bounds.len() + 5)?;
        let mut put = |part, value: f64| {
            let value = point.value(value);
            self.put(&point, part, value, tick_ns, metric, target)
        };
        // An OTLP bucket counts only its own values; a Prometheus bucket also counts the values of
        // all lower buckets. So the counts are added up.
        let mut below = 0_u64;
        for (bound, bucket) in bounds.iter().zip(&counts) {
            below = below.saturating_add(*bucket);
            put(Part::Bucket(*bound), exact(metric, below.into())?)?;
        }
        put(Part::Bucket(f64::INFINITY), total)?;
        put(Part::Count, total)?;
        let others = [(Part::Sum, sum), (Part::Min, min), (Part::Max, max)];
        for (part, value) in others {
            if let Some(value) = value {
                put(part, value)?;
            }
        }
        Ok(())
    }

    pub(super) fn summary_point(
        &mut self,
        message: &[u8],
        metric: Metric<'_>,
        target: MetricTarget<'_>,
    ) -> Result<(), Refusal> {
        let mut point = Point::new(message, 7);
        let mut quantiles: Vec<(f64, f64)> = Vec::new();
        let (mut count, mut sum) = (0, 0.0);
        self.begin_point(metric);
        let mut fields = Fields::of(message);
        while let Some(field) = fields.next()? {
            match field.number {
                3 => point.time_ns = field.fixed64()?,
                4 => count = field.fixed64()?,
                5 => sum = field.double()?,
                6 => quantiles.push(quantile(field.bytes()?)?),
                7 => self.put_attribute(field.bytes()?),
                8 => point.flags = field.varint()?,
                _ => {}
            }
        }
        point.identity_end = self.identity.len();
        let tick_ns = self.tick(&point, target)?;
        if !quantiles.iter().all(|(quantile, _)| (0.0..=1.0).contains(quantile)) {
            return Err(bad(metric, "has a quantile outside of 0 to 1", "send 0.5 for half"));
        }
        let total = exact(metric, count.into())?;
        self.check_room(quantiles.len() + 2)?;
        for (quantile, value) in quantiles {
            let value = point.value(value);
            self.put(&point, Part::Quantile(quantile), value, tick_ns, metric, target)?;
        }
        self.put(&point, Part::Sum, point.value(sum), tick_ns, metric, target)?;
        self.put(&point, Part::Count, point.value(total), tick_ns, metric, target)
    }

    /// Begins the identity of a series: the bytes of the metric, then one byte for the [`Part`],
    /// which [`Self::put`] sets later. The attributes of the point follow.
    #[inline]
    fn begin_point(&mut self, metric: Metric<'_>) {
        self.identity.truncate(metric.identity_end);
        self.identity.push(0);
    }

    #[inline]
    fn put_attribute(&mut self, attribute: &[u8]) {
        put_varint(&mut self.identity, attribute.len() as u64);
        self.identity.extend_from_slice(attribute);
    }

    /// The time of a point in nanoseconds since 1970.
    #[inline]
    fn tick(&mut self, point: &Point<'_>, target: MetricTarget<'_>) -> Result<i64> {
        let tick_ns = match point.time_ns {
            0 => target.now_ns,
            time_ns => i64::try_from(time_ns).map_err(|_| time_out_of_range(time_ns))?,
        };
        Ok(tick_ns)
    }

    /// Adds a row with one of the numbers of a point.
    #[inline]
    fn put(
        &mut self,
        point: &Point<'_>,
        part: Part,
        value: f64,
        tick_ns: i64,
        metric: Metric<'_>,
        target: MetricTarget<'_>,
    ) -> Result<(), Refusal> {
        if let Some(code) = self.identity.get_mut(metric.identity_end) {
            *code = part.code();
        }
        self.identity.truncate(point.identity_end);
        if let Part::Bucket(at) | Part::Quantile(at) = part {
            self.identity.extend_from_slice(&at.to_bits().to_le_bytes());
        }
        let series = match self.rows.find(&self.identity) {
            Some(series) => series,
            None => self.new_point_series(point, part, metric, target)?,
        };
        let added = self.sample(series, value, tick_ns, self.items, target.tables);
        added.map_err(|error| {
            let name = metric_name(metric.name, part.suffix());
            refused(error, target.layout, &name, target.tables)
        })?;
        self.latest_ns = self.latest_ns.max(Some(tick_ns));
        Ok(())
    }

    #[cold]
    fn new_point_series(
        &mut self,
        point: &Point<'_>,
        part: Part,
        metric: Metric<'_>,
        target: MetricTarget<'_>,
    ) -> Result<SeriesNumber, Refusal> {
        let name = metric_name(metric.name, part.suffix());
        let mut tags = self.tags(target.layout, &name)?;
        self.spend_text(metric.origin.resource.len() + metric.origin.scope.len())?;
        match part {
            Part::Bucket(bound) => tags.push("le", float_text(bound))?,
            Part::Quantile(quantile) => tags.push("quantile", float_text(quantile))?,
            _ => {}
        }
        tags.resource(metric.origin.resource)?;
        tags.scope(metric.origin.scope)?;
        tags.point(point.message, point.attributes)?;
        let place = [target.tables.namespace(), &target.layout.table(&name), &name].join("\0");
        let owner = Owner { kind: metric.kind, name: metric.name, suffix: part.suffix() };
        let mut claims: Vec<Claim<'_>> = vec![(place.clone(), owner)];
        claims.extend(tags.owned().map(|(label, name)| {
            (format!("{place}\0{label}"), Owner { kind: OwnerKind::Attribute, name, suffix: "" })
        }));
        let names = self.names.clone();
        names.claim(&claims, || self.intern(target.layout, &name, &tags))
    }
}

fn quantile(message: &[u8]) -> Result<(f64, f64), Fault> {
    let (mut quantile, mut value) = (0.0, 0.0);
    let mut fields = Fields::of(message);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => quantile = field.double()?,
            2 => value = field.double()?,
            _ => {}
        }
    }
    Ok((quantile, value))
}

/// Checks the buckets of a histogram: one count more than bounds, and ascending bounds; or neither
/// counts nor bounds.
fn check_buckets(metric: Metric<'_>, counts: &[u64], bounds: &[f64]) -> Result<(), Refusal> {
    let hint = "send one more count than bounds, and finite bounds in ascending order";
    if counts.len() != bounds.len() + 1 && !(counts.is_empty() && bounds.is_empty()) {
        let what = format!("has a point with {} counts and {} bounds", counts.len(), bounds.len());
        return Err(bad(metric, &what, hint));
    }
    let rising = bounds.array_windows().all(|[one, next]| one < next);
    if !rising || !bounds.iter().all(|bound| bound.is_finite()) {
        return Err(bad(metric, "has bucket bounds that do not ascend", hint));
    }
    if counts.iter().try_fold(0_u64, |sum, count| sum.checked_add(*count)).is_none() {
        return Err(bad(
            metric,
            "has counts with a sum of more than 64 bits",
            "correct the counts",
        ));
    }
    Ok(())
}

/// Converts an integer to double precision; an error if the conversion is not exact.
fn exact(metric: Metric<'_>, integer: i128) -> Result<f64, Refusal> {
    let value = integer as f64;
    if value as i128 == integer {
        return Ok(value);
    }
    let what =
        format!("has the integer {integer}, which the type double precision cannot represent");
    Err(bad(metric, &what, "if a rounded value is sufficient, send as_double"))
}

fn bad(metric: Metric<'_>, what: &str, hint: &str) -> Refusal {
    let message = format!("metric \"{}\" {what}", excerpt(metric.name));
    Refusal::Item(Error::new(ErrorKind::InvalidParameterValue, message).with_hint(hint))
}

/// The error for a time that exceeds signed 64-bit nanoseconds.
pub(crate) fn time_out_of_range(time_ns: u64) -> Error {
    Error::new(ErrorKind::DatetimeOverflow, format!("time {time_ns} ns is behind the year 2262"))
        .with_hint("send nanoseconds since 1970")
}
