//! Registers the metrics of the catalogue, with all their series.

use std::fmt;

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder},
    metrics::{MetricType, TypedMetric, counter::Counter, gauge::Gauge},
    registry::Registry,
};

use crate::{Histogram, Metric};

/// Nanoseconds in a second.
const SECOND_NS: f64 = 1e9;

/// A registry under construction.
#[derive(Debug, Default)]
pub(crate) struct Registrar(Registry);

/// A counter, gauge or histogram: the value of one series. Clones share the value.
pub(crate) trait Instrument:
    EncodeMetric + TypedMetric + Clone + fmt::Debug + Send + Sync + 'static
{
    /// Makes a value for a series of the metric `metric`.
    fn of(metric: &Metric) -> Self;
}

impl Instrument for Counter {
    fn of(_: &Metric) -> Self {
        Self::default()
    }
}

impl Instrument for Gauge {
    fn of(_: &Metric) -> Self {
        Self::default()
    }
}

impl Instrument for Histogram {
    fn of(metric: &Metric) -> Self {
        let scale = if metric.unit == "seconds" { SECOND_NS } else { 1.0 };
        Self::new(metric.buckets, scale)
    }
}

impl Registrar {
    /// Registers a metric without labels.
    pub(crate) fn one<I: Instrument>(&mut self, metric: &Metric) -> I {
        let instrument = I::of(metric);
        self.add(metric, vec![(Vec::new(), instrument.clone())]);
        instrument
    }

    /// Registers a metric with labels: one series for each list of label values, in the order of
    /// the lists.
    pub(crate) fn each<I: Instrument, const N: usize>(
        &mut self,
        metric: &Metric,
        values: impl IntoIterator<Item = [String; N]>,
    ) -> Vec<I> {
        let series: Vec<(SeriesLabels, I)> = values
            .into_iter()
            .map(|values| (metric.labels.iter().copied().zip(values).collect(), I::of(metric)))
            .collect();
        let instruments = series.iter().map(|(_, instrument)| instrument.clone()).collect();
        self.add(metric, series);
        instruments
    }

    fn add<I: Instrument>(&mut self, metric: &Metric, series: Vec<(SeriesLabels, I)>) {
        // The registry appends the unit and `_total` to the name.
        let name = metric.name.strip_suffix("_total").unwrap_or(metric.name);
        let help = metric.help.strip_suffix('.').unwrap_or(metric.help);
        self.0.register(name, help, FixedSeries(series));
    }
}

impl From<Registrar> for Registry {
    fn from(registrar: Registrar) -> Self {
        registrar.0
    }
}

/// The names and values of the labels of a series.
type SeriesLabels = Vec<(&'static str, String)>;

/// All series of a metric. They never change after the start, so reading them needs no lock.
#[derive(Debug)]
struct FixedSeries<I>(Vec<(SeriesLabels, I)>);

impl<I: Instrument> EncodeMetric for FixedSeries<I> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (labels, instrument) in &self.0 {
            instrument.encode(encoder.encode_family(labels)?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        I::TYPE
    }
}
