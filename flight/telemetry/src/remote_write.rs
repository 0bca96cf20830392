//! Reads Prometheus remote write 1.0 into rows.
//!
//! ```text
//! WriteRequest  1 timeseries *   3 metadata *
//! TimeSeries    1 labels *       2 samples *    3 exemplars *   4 histograms *
//! Label         1 name           2 value
//! Sample        1 value (double) 2 timestamp (varint, milliseconds)
//! ```

use stratalog_line::{ColumnKind, SeriesNumber, Tables};
use stratalog_model::{Error, ErrorKind, Result};

use crate::{
    Item, Layout, Outcome, Signal, TelemetryReader,
    fault::{Refusal, excerpt, excerpt_bytes},
    name::{METRIC_COLUMN, NAME_LABEL, VALUE_COLUMN, tag_of},
    reader::{check_label_value, refused_sample, too_large},
    wire::{Fault, Fields, put_varint},
};

/// The number of nanoseconds in a millisecond.
const MILLISECOND_NS: i64 = 1_000_000;

/// Decompressed snappy data is at most this many times as large as the compressed body: a copy
/// command of three bytes produces 64 bytes.
const SNAPPY_RATIO_MAX: usize = 22;

/// The result of a first pass over an encoded series: the pass counts the samples and copies the
/// labels into the identity without decoding them.
struct Shape<'a> {
    /// The fields after the labels.
    rest: Fields<'a>,
    samples: usize,
    histograms: u64,
}

impl TelemetryReader {
    /// Reads a remote write request: a `prometheus.WriteRequest` in snappy's block format.
    ///
    /// # Errors
    /// `ProtocolViolation` for a malformed body; `LimitExceeded` for a body or a number of rows
    /// above the limit. These errors refuse the whole request. Errors of single series are in the
    /// [`Outcome`].
    pub fn remote_write(
        &mut self,
        body: &[u8],
        layout: Layout<'_>,
        tables: &dyn Tables,
    ) -> Result<Outcome> {
        let mut decoded = self.begin();
        let read = decompress(body, &mut decoded, self.limits.body_bytes_max)
            .map_err(Refusal::Request)
            .and_then(|()| self.write_request(&decoded, layout, tables));
        self.end(decoded, Signal::RemoteWrite, read)
    }

    fn write_request(
        &mut self,
        body: &[u8],
        layout: Layout<'_>,
        tables: &dyn Tables,
    ) -> Result<(), Refusal> {
        let mut fields = Fields::of(body);
        let mut number = 0;
        while let Some(field) = fields.next()? {
            match field.number {
                1 => {
                    number += 1;
                    self.time_series(field.bytes()?, number, layout, tables)?;
                }
                3 => {
                    field.bytes()?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn time_series(
        &mut self,
        message: &[u8],
        number: u64,
        layout: Layout<'_>,
        tables: &dyn Tables,
    ) -> Result<(), Refusal> {
        layout.begin_identity(&mut self.identity, b'w');
        let shape = self.shape(message)?;
        if shape.histograms > 0 {
            self.tally.refuse(Item::Series, number, shape.histograms, &native_histograms());
        }
        if shape.samples == 0 {
            return Ok(());
        }
        self.check_room(shape.samples)?;
        let series = match self.rows.find(&self.identity) {
            Some(series) => Ok(series),
            None => self.new_series(message, layout),
        };
        match series {
            Ok(series) => self.samples(series, message, shape, number, layout, tables),
            // Malformed samples make the whole request invalid, even if their series is refused
            // anyway.
            Err(refusal) => {
                shape.each(|_, _| {})?;
                let count = shape.samples as u64;
                self.tally.count_result(Item::Series, number, count, Err(refusal))
            }
        }
    }

    /// Copies the encoded labels of a series into `self.identity`, and counts samples and
    /// histograms.
    #[inline]
    fn shape<'a>(&mut self, message: &'a [u8]) -> Result<Shape<'a>, Fault> {
        let mut fields = Fields::of(message);
        let mut shape = Shape { rest: fields, samples: 0, histograms: 0 };
        let mut leading = true;
        while let Some(field) = fields.next()? {
            match field.number {
                1 => {
                    let label = field.bytes()?;
                    put_varint(&mut self.identity, label.len() as u64);
                    self.identity.extend_from_slice(label);
                    if leading {
                        shape.rest = fields;
                    }
                    continue;
                }
                2 => shape.samples += 1,
                3 => {}
                4 => shape.histograms += 1,
                _ => continue,
            }
            field.bytes()?;
            leading = false;
        }
        Ok(shape)
    }

    #[inline]
    fn samples(
        &mut self,
        series: SeriesNumber,
        message: &[u8],
        shape: Shape<'_>,
        number: u64,
        layout: Layout<'_>,
        tables: &dyn Tables,
    ) -> Result<(), Refusal> {
        // The first error of a sample refuses all remaining samples of the series.
        let mut refused: Option<Error> = None;
        let (mut taken, mut left) = (0, 0);
        let mut out_of_range: Option<(i64, u64)> = None;
        shape.each(|value, timestamp_ms| {
            let Some(tick_ns) = timestamp_ms.checked_mul(MILLISECOND_NS) else {
                out_of_range.get_or_insert((timestamp_ms, 0)).1 += 1;
                return;
            };
            if refused.is_some() {
                left += 1;
                return;
            }
            match self.sample(series, value, tick_ns, number, tables) {
                Ok(()) => taken += 1,
                Err(error) => {
                    refused = Some(error);
                    left += 1;
                }
            }
        })?;
        self.tally.accepted += taken;
        if let Some((timestamp_ms, count)) = out_of_range {
            let error = timestamp_out_of_range(timestamp_ms, count);
            self.tally.refuse(Item::Series, number, count, &error);
        }
        if let Some(error) = refused {
            let metric = metric_of(message).unwrap_or_default();
            let table = layout.table(&metric);
            let error = refused_sample(error, &table, &[(VALUE_COLUMN, ColumnKind::Float)], tables);
            self.tally.refuse(Item::Series, number, left, &error);
        }
        Ok(())
    }

    /// Adds a new series to the cache.
    #[cold]
    fn new_series(&mut self, message: &[u8], layout: Layout<'_>) -> Result<SeriesNumber, Refusal> {
        let labels = labels(message)?;
        let metric = labels.iter().find(|(name, _)| *name == NAME_LABEL);
        let metric = metric.map_or("", |(_, value)| *value);
        if metric.is_empty() {
            return Err(no_name(&labels).into());
        }
        let single = matches!(layout, Layout::Single(_));
        let mut tags: Vec<(String, &str)> = Vec::with_capacity(labels.len());
        if single {
            check_label_value(NAME_LABEL, metric)?;
            tags.push((METRIC_COLUMN.to_string(), metric));
        }
        for (name, value) in &labels {
            if *name != NAME_LABEL && !value.is_empty() {
                check_label_value(name, value)?;
                let tag = tag_of(name, single);
                if tag != *name
                    && labels.iter().any(|(other, value)| *other == tag && !value.is_empty())
                {
                    return Err(both_exported(name, &tag).into());
                }
                tags.push((tag, value));
            }
        }
        let tags: Vec<_> = tags.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        Ok(self.rows.intern(&self.identity, &layout.table(metric), &tags)?)
    }
}

impl Shape<'_> {
    /// Calls `sample` with the value and the time, in milliseconds since 1970, of each sample.
    #[inline]
    fn each(&self, mut sample: impl FnMut(f64, i64)) -> Result<(), Fault> {
        let mut fields = self.rest;
        while let Some(field) = fields.next()? {
            if field.number != 2 {
                continue;
            }
            let mut parts = Fields::of(field.bytes()?);
            let (mut value, mut timestamp_ms) = (0.0, 0);
            while let Some(part) = parts.next()? {
                match part.number {
                    1 => value = part.double()?,
                    2 => timestamp_ms = part.varint()?.cast_signed(),
                    _ => {}
                }
            }
            sample(value, timestamp_ms);
        }
        Ok(())
    }
}

/// Decodes and checks the name and value of each label, in order.
fn labels(message: &[u8]) -> Result<Vec<(&str, &str)>, Refusal> {
    let mut labels: Vec<(&[u8], &[u8])> = Vec::new();
    let mut fields = Fields::of(message);
    while let Some(field) = fields.next()? {
        if field.number == 1 {
            labels.push(label(field.bytes()?)?);
        }
    }
    let mut texts: Vec<(&str, &str)> = Vec::with_capacity(labels.len());
    for (name, value) in labels {
        let read =
            simdutf8::basic::from_utf8(name).ok().zip(simdutf8::basic::from_utf8(value).ok());
        let (name, value) = read.ok_or_else(|| not_utf8(name, value))?;
        let problem = match texts.last() {
            _ if name.is_empty() => Some("a label has an empty name".to_string()),
            Some((last, _)) if *last == name => {
                Some(format!("label \"{}\" occurs twice", excerpt(name)))
            }
            Some((last, _)) if *last > name => Some(format!(
                "label \"{}\" follows \"{}\", but labels must be in the order of their names",
                excerpt(name),
                excerpt(last)
            )),
            _ => None,
        };
        if let Some(problem) = problem {
            let error = Error::new(ErrorKind::InvalidName, problem);
            return Err(error.with_hint("correct the sender of the series").into());
        }
        texts.push((name, value));
    }
    Ok(texts)
}

fn label(message: &[u8]) -> Result<(&[u8], &[u8]), Fault> {
    let mut fields = Fields::of(message);
    let (mut name, mut value): (&[u8], &[u8]) = (&[], &[]);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => name = field.bytes()?,
            2 => value = field.bytes()?,
            _ => {}
        }
    }
    Ok((name, value))
}

/// The name of the metric of a series; `None` if the labels are invalid.
fn metric_of(message: &[u8]) -> Option<String> {
    let labels = labels(message).ok()?;
    labels.iter().find(|(name, _)| *name == NAME_LABEL).map(|(_, value)| (*value).to_string())
}

/// Decompresses a body in snappy's block format into `decoded`.
fn decompress(body: &[u8], decoded: &mut Vec<u8>, bytes_max: usize) -> Result<()> {
    let damaged = |why: String| {
        Error::new(ErrorKind::ProtocolViolation, format!("the body is not snappy's: {why}"))
            .with_hint("compress the body in snappy's block format, not in the framing format")
    };
    if body.is_empty() {
        return Err(damaged("it is empty".to_string()));
    }
    let bytes = snap::raw::decompress_len(body).map_err(|error| damaged(error.to_string()))?;
    if bytes > bytes_max {
        return Err(too_large(format!(
            "the decompressed body has {bytes} bytes; the maximum is {bytes_max} bytes"
        )));
    }
    if bytes > body.len().saturating_mul(SNAPPY_RATIO_MAX) {
        let why =
            format!("{} compressed bytes cannot become {bytes} decompressed bytes", body.len());
        return Err(damaged(why));
    }
    decoded.resize(bytes, 0);
    let length = snap::raw::Decoder::new()
        .decompress(body, decoded)
        .map_err(|error| damaged(error.to_string()))?;
    decoded.truncate(length);
    Ok(())
}

fn native_histograms() -> Error {
    Error::new(ErrorKind::FeatureNotSupported, "native histograms are not kept").with_hint(
        "send classic histograms: in Prometheus, always_scrape_classic_histograms: true and send_native_histograms: false",
    )
}

fn no_name(labels: &[(&str, &str)]) -> Error {
    let first = labels.first().map_or("no label at all".to_string(), |(name, value)| {
        format!("{}=\"{}\"", excerpt(name), excerpt(value))
    });
    Error::new(
        ErrorKind::InvalidName,
        format!("the series with the first label {first} has no metric name"),
    )
    .with_hint(format!("add the label {NAME_LABEL}"))
}

/// The error for a series with two labels that become the same tag: one label needs a replacement
/// name because the table reserves its name, and another label already has the replacement name.
fn both_exported(label: &str, tag: &str) -> Error {
    Error::new(
        ErrorKind::DuplicateColumn,
        format!(
            "labels \"{label}\" and \"{tag}\" would both be the tag \"{tag}\": the table needs the name \
             \"{label}\" itself, so that a label of this name becomes \"{tag}\""
        ),
    )
    .with_hint(format!(
        "rename or drop one of the two labels; in Prometheus by write_relabel_configs, such as \
         {{action: labeldrop, regex: {tag}}}"
    ))
}

fn not_utf8(name: &[u8], value: &[u8]) -> Error {
    Error::new(
        ErrorKind::InvalidEncoding,
        format!(
            "label \"{}\" with value \"{}\" is not UTF-8",
            excerpt_bytes(name),
            excerpt_bytes(value)
        ),
    )
    .with_hint("correct the sender of the series")
}

fn timestamp_out_of_range(timestamp_ms: i64, count: u64) -> Error {
    Error::new(
        ErrorKind::DatetimeOverflow,
        format!(
            "timestamp {timestamp_ms} ms is outside of the years 1677 to 2262, as are {count} of the series in all"
        ),
    )
    .with_hint("send milliseconds since 1970")
}
