//! The plan leaf that scans a chronicle.

use std::{fmt, sync::Arc};

use arrow::{array::RecordBatch, compute::SortOptions, datatypes::SchemaRef};
use datafusion::{
    common::Statistics,
    error::Result,
    execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext},
    physical_expr::{EquivalenceProperties, LexOrdering, PhysicalSortExpr, expressions::Column},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
        SortOrderPushdownResult, StatisticsArgs,
        execution_plan::{Boundedness, EmissionType},
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
        stream::EmptyRecordBatchStream,
    },
};
use futures::{Stream, StreamExt, stream};
use stratalog_model::{
    ChronicleDefinition, Snapshot, TickRange, TickRanges,
    chronicle::SYSTEM_COLUMNS,
    newest::NewestOf,
    tier::{BatchStream, ScanOrder, ScanRequest},
};
use stratalog_postgres::errors::to_datafusion;

use super::{
    leaf::leaf_methods, memory::StatementMemory, partition_streams::PartitionStreams, statistics,
    tier_metrics,
};

/// Minimum number of rows for each stream: with fewer rows, a second stream costs more than the
/// stream saves.
pub const ROWS_PER_STREAM: u64 = 16_384;

/// The maximum number of tick ranges that EXPLAIN shows in full.
const RANGES_SHOWN: usize = 4;

/// A scan of one chronicle in one snapshot.
pub struct ChronicleScan {
    snapshot: Arc<dyn Snapshot>,
    request: ScanRequest,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    partition_streams: PartitionStreams,
}

impl fmt::Debug for ChronicleScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChronicleScan").field("request", &self.request).finish_non_exhaustive()
    }
}

impl ChronicleScan {
    /// A scan of `request` in `snapshot`.
    pub fn new(snapshot: Arc<dyn Snapshot>, request: ScanRequest) -> Self {
        let schema = request.schema();
        let partitions = match request.order {
            ScanOrder::Any => partitions_for(snapshot.as_ref(), &request),
            ScanOrder::Ascending | ScanOrder::Descending => 1,
        };
        let mut equivalences = EquivalenceProperties::new(Arc::clone(&schema));
        for ordering in orderings_of(&request, &schema) {
            equivalences.add_ordering(ordering);
        }
        let properties = Arc::new(PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Self {
            snapshot,
            request,
            schema,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
            partition_streams: PartitionStreams::default(),
        }
    }

    /// The snapshot to read from.
    pub fn snapshot(&self) -> &Arc<dyn Snapshot> {
        &self.snapshot
    }

    /// The request to storage.
    pub fn request(&self) -> &ScanRequest {
        &self.request
    }

    fn partitions(&self) -> usize {
        self.properties.partitioning.partition_count()
    }

    /// The storage streams of one partition, which are read one after the other.
    fn deal(&self, partition: usize, context: &TaskContext) -> Result<Vec<BatchStream>> {
        let partitions = self.partitions();
        self.partition_streams.take(partition, partitions, &self.metrics, || {
            let held = self.request.newest_of.is_some();
            let memory = held.then(|| StatementMemory::of(context, "rows of each group"));
            let request = ScanRequest { streams: partitions, memory, ..self.request.clone() };
            self.snapshot.scan(request).map_err(to_datafusion)
        })
    }

    /// The same scan, with only one row of each group, in one stream.
    pub fn newest_of(&self, of: NewestOf) -> Self {
        self.with_request(ScanRequest { newest_of: Some(of), ..self.request.clone() })
    }

    /// The same scan with only some of its output columns, given by index; `None` for an invalid
    /// index.
    pub fn projected(&self, columns: &[usize]) -> Option<Self> {
        let projection = columns.iter().map(|at| self.request.projection.get(*at).copied());
        let projection = projection.collect::<Option<_>>()?;
        Some(self.with_request(ScanRequest { projection, ..self.request.clone() }))
    }

    /// The same scan, over fewer events. The new node shares the metrics of this node.
    pub fn narrowed(&self, request: ScanRequest) -> Self {
        let snapshot = Arc::clone(&self.snapshot);
        Self { metrics: self.metrics.clone(), ..self.on(snapshot, request) }
    }

    /// The same scan over another snapshot and request. The copy can replace this node in a plan:
    /// columns, order and number of partitions are the same.
    pub fn on(&self, snapshot: Arc<dyn Snapshot>, request: ScanRequest) -> Self {
        Self {
            snapshot,
            request,
            schema: Arc::clone(&self.schema),
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
            partition_streams: PartitionStreams::default(),
        }
    }

    fn with_request(&self, request: ScanRequest) -> Self {
        Self::new(Arc::clone(&self.snapshot), request)
    }

    /// The scan order that satisfies a requested sort order; `None` if no scan order does.
    fn deliverable(&self, order: &[PhysicalSortExpr]) -> Option<ScanOrder> {
        if self.request.newest_of.is_some() {
            return None;
        }
        let (first, rest) = order.split_first()?;
        let descending = first.options.descending;
        let user_columns = self.request.chronicle.columns.len();
        let by_tick = self.column(first)? == user_columns;
        if !by_tick && self.column(first)? != tick_position(&self.request.chronicle)? {
            return None;
        }
        let unique_tick = self.request.chronicle.key_columns.is_empty()
            && self.request.chronicle.primary_key
            && self.request.chronicle.key_is_unique();
        let settled = unique_tick
            || match rest {
                [] => true,
                // (tick, seq) is the order of every scan (CL-4).
                [second, ..] => {
                    self.column(second) == Some(user_columns.saturating_add(1))
                        && second.options.descending == descending
                        && (by_tick || ticks_show_in_column(&self.request.chronicle))
                }
            };
        settled.then_some(if descending { ScanOrder::Descending } else { ScanOrder::Ascending })
    }

    /// The column that a sort expression names, counted like `ScanRequest::projection`.
    fn column(&self, sort: &PhysicalSortExpr) -> Option<usize> {
        let column = sort.expr.downcast_ref::<Column>()?;
        self.request.projection.get(column.index()).copied()
    }
}

/// True if the tick column shows different times for different ticks: a sort by time is then a sort
/// by tick.
fn ticks_show_in_column(chronicle: &ChronicleDefinition) -> bool {
    let unit = chronicle.tick().and_then(|tick| tick.column_type.timestamp_unit_ns());
    unit.is_some_and(|unit| unit <= chronicle.scale.granularity().ns())
}

fn tick_position(chronicle: &ChronicleDefinition) -> Option<usize> {
    chronicle.position(chronicle.tick_column)
}

/// The number of partitions for a request.
pub fn partitions_for(snapshot: &dyn Snapshot, request: &ScanRequest) -> usize {
    if request.newest_of.is_some() {
        return 1;
    }
    let rows = snapshot.estimate(request);
    let useful = usize::try_from(rows / ROWS_PER_STREAM).unwrap_or(usize::MAX);
    let wanted = if request.limit.is_some() { 1 } else { useful };
    wanted.clamp(1, request.streams.max(1))
}

/// The sort orders that the rows of a scan satisfy: by time or by `_tick`, and by `_seq` within a
/// tick. `schema` has the columns of the scan, or the first of them.
pub fn orderings_of(request: &ScanRequest, schema: &SchemaRef) -> Vec<LexOrdering> {
    let descending = match request.order {
        ScanOrder::Any => return Vec::new(),
        ScanOrder::Ascending => false,
        ScanOrder::Descending => true,
    };
    let by = |column: usize| {
        let at = request.projection.iter().position(|known| *known == column)?;
        let column = Column::new(schema.fields().get(at)?.name(), at);
        let options = SortOptions { descending, nulls_first: descending };
        Some(PhysicalSortExpr::new(Arc::new(column), options))
    };
    let user_columns = request.chronicle.columns.len();
    let seq = by(user_columns.saturating_add(1));
    let time = tick_position(&request.chronicle).and_then(by);
    let time = time.map(|time| (time, ticks_show_in_column(&request.chronicle)));
    let tick = by(user_columns).map(|tick| (tick, true));
    let first = time.into_iter().chain(tick);
    let all = first.filter_map(|(first, is_tick)| {
        let within = seq.clone().filter(|_| is_tick);
        LexOrdering::new([first].into_iter().chain(within))
    });
    all.collect()
}

impl DisplayAs for ChronicleScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chronicle = &self.request.chronicle;
        write!(f, "ChronicleScan: table={}", chronicle.qualified_name())?;
        let columns: Vec<&str> =
            self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, ", columns=[{}]", columns.join(", "))?;
        show_filters(&self.request, f)?;
        show_part(self.snapshot.as_ref(), chronicle, f)?;
        for filter in &self.request.values {
            let user = chronicle.columns.len();
            let name = match filter.column.checked_sub(user) {
                None => chronicle.columns.get(filter.column).map(|column| column.name.as_str()),
                Some(system) => SYSTEM_COLUMNS.get(system).copied(),
            };
            write!(f, ", values={} {}", name.unwrap_or("?"), filter.predicate)?;
        }
        f.write_str(match self.request.order {
            ScanOrder::Any => ", order=any",
            ScanOrder::Ascending => ", order=time",
            ScanOrder::Descending => ", order=time desc",
        })?;
        if let Some(of) = &self.request.newest_of {
            let name = |at: &usize| chronicle.columns.get(*at).map_or("?", |c| c.name.as_str());
            let keys: Vec<&str> = of.keys.iter().map(name).collect();
            let which = if of.oldest { "oldest" } else { "newest" };
            write!(f, ", {which} of each=[{}]", keys.join(", "))?;
        }
        if let Some(limit) = self.request.limit {
            write!(f, ", limit={limit}")?;
        }
        Ok(())
    }
}

/// Writes, for EXPLAIN, the range of ticks that the statement sees, unless the statement sees the
/// whole chronicle.
pub fn show_part(
    snapshot: &dyn Snapshot,
    chronicle: &ChronicleDefinition,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match snapshot.within(chronicle.id) {
        TickRange::ALL => Ok(()),
        part => write!(f, ", within={part}"),
    }
}

/// Writes the ticks and keys of a request, for EXPLAIN.
pub fn show_filters(request: &ScanRequest, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    show_ticks(&request.ticks, f)?;
    if !request.gsns.is_all() {
        write!(f, ", {}", request.gsns)?;
    }
    for key in &request.keys {
        let column = request.chronicle.columns.get(key.column);
        let name = column.map_or("?", |column| column.name.as_str());
        write!(f, ", keys={name} in {} value(s)", key.values.len())?;
    }
    Ok(())
}

/// Writes ranges of ticks, for EXPLAIN. For a long list, writes only the first two ranges, the last
/// range and the number of ranges.
fn show_ticks(ticks: &TickRanges, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match ticks.as_slice() {
        _ if ticks.is_all() => f.write_str(", ticks=all"),
        [first, second, .., last] if ticks.as_slice().len() > RANGES_SHOWN => {
            let ranges = ticks.as_slice().len();
            write!(f, ", ticks={first} {second} … {last}, ranges={ranges}")
        }
        [_, _, ..] => write!(f, ", ticks={ticks}, ranges={}", ticks.as_slice().len()),
        _ => write!(f, ", ticks={ticks}"),
    }
}

impl ExecutionPlan for ChronicleScan {
    fn name(&self) -> &'static str {
        "ChronicleScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    leaf_methods!();

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.on(Arc::clone(&self.snapshot), self.request.clone())))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let streams = self.deal(partition, &context)?;
        if streams.is_empty() {
            return Ok(Box::pin(EmptyRecordBatchStream::new(Arc::clone(&self.schema))));
        }
        Ok(Box::pin(PartitionBatches {
            schema: Arc::clone(&self.schema),
            batches: stream::iter(streams).flatten().boxed(),
            left: self.request.limit,
            metrics: BaselineMetrics::new(&self.metrics, partition),
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        tier_metrics::add(&mut metrics, &self.request.metrics);
        Some(metrics)
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let whole = statistics::of(self.snapshot.as_ref(), &self.request, &self.schema);
        Ok(Arc::new(match args.partition() {
            Some(_) if self.partitions() > 1 => {
                let rows = whole.num_rows.map(|rows| rows / self.partitions()).to_inexact();
                Statistics { num_rows: rows, ..Statistics::new_unknown(&self.schema) }
            }
            _ => whole,
        }))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        // The smaller of the new and the present limit.
        let limit = limit.into_iter().chain(self.request.limit).min();
        let request = ScanRequest { limit, ..self.request.clone() };
        Some(Arc::new(self.with_request(request)))
    }

    fn fetch(&self) -> Option<usize> {
        self.request.limit
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        match self.deliverable(order) {
            // With a limit, another scan order would select other rows.
            Some(order) if self.request.limit.is_none() || order == self.request.order => {
                let request = ScanRequest { order, ..self.request.clone() };
                Ok(SortOrderPushdownResult::Exact { inner: Arc::new(self.with_request(request)) })
            }
            _ => Ok(SortOrderPushdownResult::Unsupported),
        }
    }
}

/// The stream of batches of one partition; ends at the limit of rows.
struct PartitionBatches {
    schema: SchemaRef,
    batches: stream::BoxStream<'static, stratalog_model::Result<RecordBatch>>,
    left: Option<usize>,
    metrics: BaselineMetrics,
}

impl Stream for PartitionBatches {
    type Item = Result<RecordBatch>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        use std::task::Poll;
        if self.left == Some(0) {
            return Poll::Ready(None);
        }
        let spent = self.metrics.elapsed_compute().clone();
        let timer = spent.timer();
        let next = self.batches.as_mut().poll_next(context);
        timer.done();
        let next = match next {
            Poll::Ready(Some(Ok(batch))) => {
                let batch = match self.left {
                    Some(left) if batch.num_rows() > left => batch.slice(0, left),
                    _ => batch,
                };
                self.left = self.left.map(|left| left.saturating_sub(batch.num_rows()));
                Poll::Ready(Some(Ok(batch)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(to_datafusion(error)))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        };
        self.metrics.record_poll(next)
    }
}

impl RecordBatchStream for PartitionBatches {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
