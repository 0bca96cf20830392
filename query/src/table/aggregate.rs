//! Aggregates that the storage layer computes. The leaf node [`ChronicleAggregate`] replaces a scan
//! and the partial aggregation above the scan.
//!
//! ```text
//!   AggregateExec: final ◄── several states for each group ── ChronicleAggregate
//!                                                             key columns │ window │ count, sum, …
//! ```

use std::{collections::BTreeSet, fmt, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions},
    compute::cast,
    datatypes::{DataType, Int64Type, SchemaRef},
};
use datafusion::{
    common::Statistics,
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::EquivalenceProperties,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, StatisticsArgs,
        execution_plan::{Boundedness, EmissionType},
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, stream};
use stratalog_model::{
    Error, ErrorKind, Snapshot, Tick, TickRange, TickRanges,
    aggregate::{AggregateRequest, Statistic, Windows},
    tier::{BatchStream, ScanRequest},
};
use stratalog_postgres::errors::to_datafusion;

use super::{
    leaf::leaf_methods, partition_streams::PartitionStreams, scan, tier_metrics,
    timed_stream::timed,
};

/// An output column of [`ChronicleAggregate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// A column of the storage result: a key column or a statistic.
    Answer(usize),
    /// Like `Answer`, for a count of values: 0 becomes NULL, because the average of no values is
    /// NULL.
    NonzeroCount(usize),
    /// The start time of the window, converted from the tick in this column of the storage result.
    Window(usize),
}

/// A plan leaf that returns partial aggregates of one chronicle, computed from one snapshot.
pub struct ChronicleAggregate {
    snapshot: Arc<dyn Snapshot>,
    request: AggregateRequest,
    outputs: Vec<Output>,
    /// If the query needs only the newest windows: the number of windows with events to return.
    newest: Option<usize>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    partition_streams: PartitionStreams,
}

impl fmt::Debug for ChronicleAggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChronicleAggregate").field("request", &self.request).finish_non_exhaustive()
    }
}

/// The state of the stream of [`ChronicleAggregate::newest_first`].
struct NewestFirst {
    /// The ticks not read yet.
    left: TickRanges,
    /// The number of windows that the next step reads.
    step: i64,
    /// The starts of the newest windows that contain events, at most as many as wanted.
    seen: BTreeSet<i64>,
    /// The streams of the current step.
    open: Vec<BatchStream>,
}

impl ChronicleAggregate {
    /// A leaf that returns the results of `request` as columns of `schema`, in `partitions`
    /// partitions.
    pub fn new(
        snapshot: Arc<dyn Snapshot>,
        request: AggregateRequest,
        outputs: Vec<Output>,
        schema: SchemaRef,
        partitions: usize,
    ) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions.max(1)),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        let (metrics, partition_streams) =
            (ExecutionPlanMetricsSet::new(), PartitionStreams::default());
        let newest = None;
        Self { snapshot, request, outputs, newest, schema, properties, metrics, partition_streams }
    }

    /// The same aggregate, restricted to the groups in the newest `windows` windows that contain
    /// events. The first partition contains all these groups.
    #[must_use]
    pub fn newest(self, windows: Option<usize>) -> Self {
        Self { newest: windows, ..self }
    }

    /// The index of the window in the columns of the storage result; `None` without windows.
    pub fn window_place(&self) -> Option<usize> {
        self.request.windows.map(|_| self.request.keys.len())
    }

    /// Reads the newest windows: from the end of the chronicle backwards, in steps of growing size,
    /// until `wanted` windows contain events.
    fn newest_first(&self, wanted: usize, windows: Windows, place: usize) -> BatchStream {
        let (snapshot, mut request) = (Arc::clone(&self.snapshot), self.request.clone());
        request.scan.streams = 1;
        let hull = snapshot.hull(&request.scan.chronicle);
        let left = request.scan.ticks.intersect(&hull.into());
        let step = i64::try_from(wanted).unwrap_or(i64::MAX).max(1);
        let state = NewestFirst { left, step, seen: BTreeSet::new(), open: Vec::new() };
        Box::pin(stream::try_unfold(state, move |mut state| {
            let (snapshot, mut request) = (Arc::clone(&snapshot), request.clone());
            async move {
                loop {
                    if let Some(open) = state.open.last_mut() {
                        let Some(batch) = open.next().await else {
                            state.open.pop();
                            continue;
                        };
                        let batch = batch?;
                        let starts = batch.columns().get(place);
                        let starts = starts.and_then(|at| at.as_primitive_opt::<Int64Type>());
                        for start in starts.into_iter().flat_map(|starts| starts.values()) {
                            if state.seen.len() >= wanted {
                                break;
                            }
                            state.seen.insert(*start);
                        }
                        return Ok::<_, Error>(Some((batch, state)));
                    }
                    let hull = state.left.hull();
                    if hull.is_empty() || state.seen.len() >= wanted {
                        return Ok(None);
                    }
                    let last = windows.start(hull.end.0.saturating_sub(1)).unwrap_or(i64::MIN);
                    let back = windows.width.saturating_mul(state.step - 1);
                    let start = Tick(last.saturating_sub(back));
                    let (rest, ticks) =
                        (TickRange::new(Tick::MIN, start), TickRange::new(start, Tick::END));
                    request.scan.ticks = state.left.intersect(&ticks.into());
                    state.left = state.left.intersect(&rest.into());
                    state.step = state.step.saturating_mul(4);
                    let answer = snapshot.aggregate(request.clone())?;
                    state.open = answer.ok_or_else(before_all)?;
                }
            }
        }))
    }

    /// The snapshot to read from.
    pub fn snapshot(&self) -> &Arc<dyn Snapshot> {
        &self.snapshot
    }

    /// The position (in the table) of the key column that an output column shows; `None` if a
    /// filter on this key would also change other groups.
    pub fn key_of(&self, output: usize) -> Option<usize> {
        match self.outputs.get(output)? {
            Output::Answer(at) if self.newest.is_none() => self.request.keys.get(*at).copied(),
            _ => None,
        }
    }

    /// The request to storage.
    pub fn request(&self) -> &AggregateRequest {
        &self.request
    }

    /// The output columns.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    fn partitions(&self) -> usize {
        self.properties.partitioning.partition_count()
    }

    /// The streams of `partition`, read in sequence.
    fn deal(&self, partition: usize) -> Result<Vec<BatchStream>> {
        let partitions = self.partitions();
        self.partition_streams.take(partition, partitions, &self.metrics, || {
            match (self.newest, self.request.windows, self.window_place()) {
                (Some(wanted), Some(windows), Some(place)) => {
                    Ok(vec![self.newest_first(wanted, windows, place)])
                }
                _ => {
                    let mut request = self.request.clone();
                    request.scan.streams = partitions;
                    let answer = self.snapshot.aggregate(request).map_err(to_datafusion)?;
                    answer.ok_or_else(|| to_datafusion(before_all()))
                }
            }
        })
    }

    /// The same aggregate, over fewer events. The new node shares the metrics of this node.
    pub fn narrowed(&self, scan: ScanRequest) -> Self {
        Self { metrics: self.metrics.clone(), ..self.on(Arc::clone(&self.snapshot), scan) }
    }

    /// A new, unstarted copy of the aggregate.
    pub fn again(&self) -> Self {
        self.on(Arc::clone(&self.snapshot), self.request.scan.clone())
    }

    /// The same aggregate over another snapshot and request. The copy can replace this node in a
    /// plan, because its properties are the same.
    pub fn on(&self, snapshot: Arc<dyn Snapshot>, scan: ScanRequest) -> Self {
        Self {
            snapshot,
            request: AggregateRequest { scan, ..self.request.clone() },
            outputs: self.outputs.clone(),
            newest: self.newest,
            schema: Arc::clone(&self.schema),
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
            partition_streams: PartitionStreams::default(),
        }
    }
}

fn before_all() -> Error {
    Error::new(ErrorKind::DatetimeOverflow, "the first window begins before all times")
}

impl DisplayAs for ChronicleAggregate {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chronicle = &self.request.scan.chronicle;
        write!(f, "ChronicleAggregate: table={}", chronicle.qualified_name())?;
        let name = |at: usize| chronicle.columns.get(at).map_or("?", |column| column.name.as_str());
        let keys: Vec<&str> = self.request.keys.iter().map(|key| name(*key)).collect();
        write!(f, ", keys=[{}]", keys.join(", "))?;
        if let Some(windows) = self.request.windows {
            let width = i128::from(windows.width) * i128::from(chronicle.scale.granularity().ns());
            write!(f, ", window={width}ns")?;
        }
        let wanted: Vec<String> = self
            .request
            .statistics
            .iter()
            .map(|wanted| match wanted.statistic {
                Statistic::Rows => "rows".to_string(),
                other => {
                    format!("{}({})", format!("{other:?}").to_lowercase(), name(wanted.column))
                }
            })
            .collect();
        write!(f, ", wanted=[{}]", wanted.join(", "))?;
        scan::show_filters(&self.request.scan, f)?;
        scan::show_part(self.snapshot.as_ref(), chronicle, f)?;
        match self.newest {
            Some(windows) => write!(f, ", newest={windows} window(s)"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for ChronicleAggregate {
    fn name(&self) -> &'static str {
        "ChronicleAggregate"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    leaf_methods!();

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.again()))
    }

    fn execute(
        &self,
        partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let streams = self.deal(partition)?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let (outputs, schema) = (self.outputs.clone(), Arc::clone(&self.schema));
        let scale = self.request.scan.chronicle.scale;
        let spent = metrics.elapsed_compute().clone();
        let batches = timed(streams, spent).map(move |answer| {
            let answer = answer.map_err(to_datafusion)?;
            let timer = metrics.elapsed_compute().timer();
            let columns = outputs.iter().zip(schema.fields()).map(|(output, field)| match output {
                Output::Answer(at) => shaped(answer.columns().get(*at), field.data_type()),
                Output::NonzeroCount(at) => {
                    nonzero_counts(answer.columns().get(*at), field.data_type())
                }
                Output::Window(at) => {
                    let time = |tick| scale.time_ns_of(Tick(tick));
                    times(answer.columns().get(*at), field.data_type(), &time)
                }
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(answer.num_rows()));
            let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?;
            timer.done();
            metrics.record_output(batch.num_rows());
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        tier_metrics::add(&mut metrics, &self.request.scan.metrics);
        Some(metrics)
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema)))
    }
}

fn missing_column_error() -> datafusion::error::DataFusionError {
    to_datafusion(Error::internal("an aggregate lacks a column"))
}

/// Casts a column of the storage result to the type of the aggregate's state.
fn shaped(column: Option<&ArrayRef>, data_type: &DataType) -> Result<ArrayRef> {
    let column = column.ok_or_else(missing_column_error)?;
    match column.data_type() == data_type {
        true => Ok(Arc::clone(column)),
        false => Ok(cast(column, data_type)?),
    }
}

/// Converts counts of 0 to NULL.
fn nonzero_counts(column: Option<&ArrayRef>, data_type: &DataType) -> Result<ArrayRef> {
    let counts = column.and_then(|column| column.as_primitive_opt::<Int64Type>());
    let counts = counts
        .ok_or_else(missing_column_error)?
        .iter()
        .map(|count| count.filter(|count| *count > 0));
    Ok(cast(&counts.collect::<Int64Array>(), data_type)?)
}

/// Converts ticks to times.
fn times(
    ticks: Option<&ArrayRef>,
    data_type: &DataType,
    time_ns: &dyn Fn(i64) -> Option<i64>,
) -> Result<ArrayRef> {
    let ticks = ticks.and_then(|ticks| ticks.as_primitive_opt::<Int64Type>());
    let DataType::Timestamp(unit, _) = data_type else { return Err(missing_column_error()) };
    let unit_ns = match unit {
        arrow::datatypes::TimeUnit::Second => 1_000_000_000,
        arrow::datatypes::TimeUnit::Millisecond => 1_000_000,
        arrow::datatypes::TimeUnit::Microsecond => 1_000,
        arrow::datatypes::TimeUnit::Nanosecond => 1,
    };
    let mut values = Vec::new();
    // Neighbouring ticks are often in the same window.
    let mut last: Option<(i64, i64)> = None;
    for tick in ticks.ok_or_else(missing_column_error)?.values() {
        let value = match last {
            Some((known, value)) if known == *tick => value,
            _ => {
                let ns = time_ns(*tick).ok_or_else(|| to_datafusion(before_all()))?;
                ns.div_euclid(unit_ns)
            }
        };
        last = Some((*tick, value));
        values.push(value);
    }
    Ok(cast(&Int64Array::from(values), data_type)?)
}
