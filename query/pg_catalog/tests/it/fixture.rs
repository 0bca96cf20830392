//! A small catalog, a store with counts only, and a session over both.

use std::sync::Arc;

use arrow::{
    array::RecordBatch,
    datatypes::{DataType as ArrowType, FieldRef},
    util::display::{ArrayFormatter, FormatOptions},
};
use datafusion::{
    catalog::{CatalogProvider, MemoryCatalogProvider, MemorySchemaProvider},
    common::Result as PlanResult,
    execution::{FunctionRegistry, SessionStateBuilder, context::SessionContext},
    logical_expr::planner::TypePlanner,
    prelude::SessionConfig,
    sql::sqlparser::{ast::DataType, dialect::PostgreSqlDialect, parser::Parser},
};
use stratalog_model::{
    Append, BoxFuture, ChronicleDefinition, ChronicleId, Clock, ColumnType, Durability, Error,
    EventStore, Frame, Gsn, GsnRange, Log, Lsn, ProducerId, Result, SchemaVersion, Snapshot, Tick,
    TickRange, TickRanges, TierName,
    aggregate::AggregateRequest,
    files::{DataFiles, FileKind, FileUsage},
    log::{Completion, FullSegment, LogStatus, Reservation},
    store::{
        AppendOptions, ChronicleStatus, DeletedArea, MoveCounts, MoveKind, MoveStatus, PieceStatus,
        PreparedDelete, StoreStatus, Watermarks,
    },
    subscribe::{SubscribeRequest, Subscription},
    tier::{BatchStream, Extent, ScanRequest},
};
use stratalog_pg_catalog::{
    CatalogContext, CursorRow, CursorsView, PreparedRow, PreparedView, SessionRow, SessionsView,
    SettingRow, SettingsView, cast_field, catalog_type, register_functions, rewrite, schemas,
};
use stratalog_visor_core::{
    Acquisitions, Catalog, Command,
    access::Identity,
    acquisition::{Claim, HolderId, Mode},
    catalog::{NewChronicle, NewColumn},
};

#[derive(Debug)]
struct NoClock;

impl Clock for NoClock {
    fn now_ns(&self) -> i64 {
        1_700_000_000_000_000_000
    }
    fn monotonic_ns(&self) -> u64 {
        0
    }
}

#[derive(Debug)]
struct NoLog;

impl Log for NoLog {
    fn reserve(&self, _: usize) -> BoxFuture<'_, Result<Reservation>> {
        Box::pin(async { Ok(Box::new(()) as Reservation) })
    }
    fn submit(&self, _: Frame, _: Reservation, _: Durability, done: Completion) {
        done(Ok(Lsn(1)));
    }
    fn replay(&self, _: &mut dyn FnMut(Lsn, Frame) -> Result<()>) -> Result<()> {
        Ok(())
    }
    fn status(&self) -> LogStatus {
        LogStatus::default()
    }
    fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// Ten events in each chronicle: ticks 0 to 9.
#[derive(Debug)]
struct TenEvents;

impl Snapshot for TenEvents {
    fn gsn(&self) -> Gsn {
        Gsn(10)
    }
    fn extent(&self, _: &ChronicleDefinition, _: &TickRanges) -> Option<Extent> {
        Some(Extent { rows: 10, ticks: TickRange::new(Tick(0), Tick(10)), bytes: 8_192 })
    }
    fn deleted(&self, _: &ChronicleDefinition, _: GsnRange) -> Option<GsnRange> {
        None
    }
    fn scan(&self, _: ScanRequest) -> Result<Vec<BatchStream>> {
        Err(Error::internal("no events to read"))
    }
    fn aggregate(&self, _: AggregateRequest) -> Result<Option<Vec<BatchStream>>> {
        Err(Error::internal("no events to read"))
    }
}

impl EventStore for TenEvents {
    fn begin(&self, _: AppendOptions) -> Result<Box<dyn Append>> {
        Err(Error::internal("no room for events"))
    }
    fn snapshot(&self) -> Arc<dyn Snapshot> {
        Arc::new(TenEvents)
    }
    fn prepare_delete<'a>(
        &'a self,
        _: &'a Arc<ChronicleDefinition>,
        _: DeletedArea,
    ) -> BoxFuture<'a, Result<Box<dyn PreparedDelete>>> {
        Box::pin(async { Err(Error::internal("no events to delete")) })
    }
    fn reached(&self, _: Gsn) -> BoxFuture<'static, Result<()>> {
        Box::pin(async { Ok(()) })
    }
    fn subscribe(&self, _: SubscribeRequest) -> Result<Subscription> {
        Err(Error::internal("no events to read"))
    }
    fn flush(&self, _: ChronicleId) -> BoxFuture<'_, Result<MoveCounts>> {
        Box::pin(async { Ok(MoveCounts::default()) })
    }
    fn compact(&self, _: ChronicleId) -> BoxFuture<'_, Result<MoveCounts>> {
        Box::pin(async { Ok(MoveCounts::default()) })
    }
    fn pieces(&self) -> Vec<PieceStatus> {
        let tablet = PieceStatus {
            chronicle: ChronicleId(1),
            tier: TierName::Tablet,
            number: Some(4),
            file: Some("00000004.tablet".to_string()),
            ticks: TickRange::new(Tick(-1_000_000_000), Tick(3_000_000_001)),
            rows: 6,
            bytes: 4_096,
            memory_bytes: 0,
            gsns: (Gsn(1), Gsn(6)),
            schema_version: Some(SchemaVersion(1)),
        };
        let journal = PieceStatus {
            tier: TierName::Journal,
            number: None,
            file: None,
            ticks: TickRange::new(Tick(0), Tick(10)),
            rows: 4,
            bytes: 512,
            memory_bytes: 512,
            gsns: (Gsn(7), Gsn(10)),
            schema_version: None,
            ..tablet.clone()
        };
        let unknown = PieceStatus { chronicle: ChronicleId(99), ..journal.clone() };
        vec![journal, tablet, unknown]
    }
    fn moves(&self) -> Vec<MoveStatus> {
        let done = MoveStatus {
            number: 1,
            chronicle: ChronicleId(1),
            kind: MoveKind::Flush,
            started_ns: 1_704_067_200_000_000_000,
            ended_ns: Some(1_704_067_201_500_000_000),
            moved: MoveCounts { rows: 6, pieces_added: 1, pieces_removed: 0, bytes: 4096 },
            error: None,
        };
        let failed = MoveStatus {
            number: 2,
            kind: MoveKind::Merge,
            moved: MoveCounts::default(),
            error: Some("no space".to_string()),
            ..done.clone()
        };
        let running =
            MoveStatus { number: 3, ended_ns: None, moved: MoveCounts::default(), ..done.clone() };
        let dropped = MoveStatus { number: 4, chronicle: ChronicleId(99), ..done.clone() };
        vec![done, failed, running, dropped]
    }
    fn watermarks(&self) -> Vec<Watermarks> {
        let mark = |id, tablets, stories| Watermarks {
            chronicle: ChronicleId(id),
            through: Gsn(6),
            tablets,
            stories,
        };
        vec![
            mark(1, Some(Tick(3_000_000_000)), None),
            mark(2, Some(Tick(1_000)), Some(Tick(2_000))),
            mark(99, None, None),
        ]
    }
    fn forget(&self, _: ChronicleId) {}
    fn producers(&self) -> Vec<(ProducerId, u64)> {
        vec![(ProducerId(42), 7)]
    }
    fn status(&self) -> StoreStatus {
        StoreStatus {
            committed: Gsn(10),
            memory_bytes: 8_192,
            memory_bytes_max: 1 << 20,
            story_cache_bytes: 0,
            chronicles: vec![ChronicleStatus {
                id: ChronicleId(1),
                rows: 10,
                bytes: 8_192,
                series: 2,
            }],
            journal_needed_from: Lsn(20),
            log: LogStatus {
                frames: 3,
                full_segments: Arc::new([
                    FullSegment { end: Lsn(20), bytes: 4_096 },
                    FullSegment { end: Lsn(30), bytes: 8_192 },
                ]),
                reserved_bytes: 1_000,
                ..LogStatus::default()
            },
        }
    }
}

/// Files of every kind, each kind with other counts.
#[derive(Debug)]
struct SomeFiles;

impl DataFiles for SomeFiles {
    fn usage(&self) -> Result<Vec<FileUsage>> {
        let usage =
            |(number, kind): (u64, FileKind)| FileUsage { kind, files: 3, bytes: 16_384 + number };
        Ok((0..).zip(FileKind::ALL).map(usage).collect())
    }

    fn has_object_store(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct OneSession;

impl SessionsView for OneSession {
    fn sessions(&self) -> Vec<SessionRow> {
        vec![SessionRow {
            process_id: 77,
            user: "ada".to_string(),
            database: "stratalog".to_string(),
            application_name: "psql".to_string(),
            state: "active".to_string(),
            query: "SELECT 1".to_string(),
            ..SessionRow::default()
        }]
    }
    fn terminate(&self, _: i32) -> Result<bool> {
        Ok(false)
    }
    fn cancel(&self, process_id: i32) -> Result<bool> {
        Ok(process_id == 77)
    }
}

#[derive(Debug)]
struct NoCursors;

impl CursorsView for NoCursors {
    fn cursors(&self) -> Vec<CursorRow> {
        Vec::new()
    }
}

#[derive(Debug)]
struct NoStatements;

impl PreparedView for NoStatements {
    fn prepared(&self) -> Vec<PreparedRow> {
        Vec::new()
    }
}

#[derive(Debug)]
struct FewSettings;

impl SettingsView for FewSettings {
    fn get(&self, name: &str) -> Option<String> {
        match name {
            "search_path" => Some("\"$user\", public".to_string()),
            "server_version_num" => Some("150000".to_string()),
            _ => None,
        }
    }
    fn set(&self, _: &str, value: &str, _: bool) -> Result<String> {
        Ok(value.to_string())
    }
    fn list(&self) -> Vec<SettingRow> {
        vec![SettingRow {
            name: "server_version_num".to_string(),
            value: "150000".to_string(),
            ..SettingRow::default()
        }]
    }
}

#[derive(Debug)]
struct Types;

impl TypePlanner for Types {
    fn plan_type_field(&self, sql_type: &DataType) -> PlanResult<Option<FieldRef>> {
        if let Some((column_type, known)) = catalog_type(sql_type) {
            return Ok(Some(cast_field(&column_type, Some(known))));
        }
        let column_type = match sql_type {
            DataType::Uuid => ColumnType::Uuid,
            DataType::JSONB => ColumnType::Jsonb,
            _ => return Ok(None),
        };
        Ok(Some(Arc::new(column_type.arrow_field("", true))))
    }
}

fn column(name: &str, column_type: ColumnType, nullable: bool) -> NewColumn {
    NewColumn {
        name: name.to_string(),
        column_type,
        nullable,
        default_sql: (name == "region").then(|| "'x'::text".to_string()),
        missing_value: None,
    }
}

/// Acquisitions: this session has acquired one second of a chronicle, and another session has a
/// lease on the whole chronicle.
fn acquisitions(chronicle: ChronicleId) -> Arc<Acquisitions> {
    let acquisitions = Acquisitions::new(Arc::new(NoClock));
    let ticks = TickRange::new(Tick(0), Tick(1_000_000_000));
    let part = Claim { mode: Mode::Shared, ticks, lease_ns: None };
    let all = Claim { ticks: TickRange::ALL, lease_ns: Some(5_000_000_000), ..part };
    acquisitions.acquire(chronicle, HolderId(77), part).unwrap();
    acquisitions.acquire(chronicle, HolderId(78), all).unwrap();
    acquisitions
}

/// A session of user `ada` in database `stratalog` with the tables `cpu` (equal to the table in the
/// PostgreSQL used for the expected answers) and `other.log` without a key.
pub async fn session() -> SessionContext {
    let catalog = Catalog::open(Arc::new(NoLog), Arc::new(NoClock)).unwrap();
    let cpu = NewChronicle {
        database: "stratalog".to_string(),
        schema: "public".to_string(),
        name: "cpu".to_string(),
        columns: vec![
            column("time", ColumnType::TimestampTz { precision: 9 }, false),
            column("host", ColumnType::Text, false),
            column("region", ColumnType::Text, true),
            column("usage", ColumnType::Double, true),
            column("n", ColumnType::Numeric { precision: 10, scale: 2 }, true),
        ],
        primary_key: Some(vec!["host".to_string(), "time".to_string()]),
        options: Vec::new(),
        if_not_exists: false,
    };
    let made =
        catalog.apply(Identity::System, Command::CreateChronicle(cpu.clone())).await.unwrap();
    let id = made.chronicle.unwrap().id;
    for command in [
        Command::CommentOnChronicle { id, comment: Some("usage".to_string()) },
        Command::CommentOnColumn {
            id,
            column: "region".to_string(),
            comment: Some("where".to_string()),
        },
        Command::CreateSchema {
            database: "stratalog".to_string(),
            name: "other".to_string(),
            if_not_exists: false,
            owner: None,
        },
        Command::CreateChronicle(NewChronicle {
            schema: "other".to_string(),
            name: "log".to_string(),
            columns: vec![
                column("at", ColumnType::Timestamp { precision: 3 }, false),
                column("tags", ColumnType::Array(Box::new(ColumnType::Text)), true),
            ],
            primary_key: None,
            ..cpu
        }),
    ] {
        catalog.apply(Identity::System, command).await.unwrap();
    }
    let context = Arc::new(CatalogContext {
        catalog,
        store: Arc::new(TenEvents),
        files: Some(Arc::new(SomeFiles)),
        acquisitions: acquisitions(id),
        clock: Arc::new(NoClock),
        sessions: Arc::new(OneSession),
        settings: Arc::new(FewSettings),
        cursors: Arc::new(NoCursors),
        prepared: Arc::new(NoStatements),
        database: "stratalog".to_string(),
        connected_to: "stratalog".to_string(),
        process_id: 77,
        server_started_us: 0,
    });

    let mut config = SessionConfig::new()
        .with_default_catalog_and_schema("stratalog", "pg_catalog")
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(false)
        .with_target_partitions(1);
    config.options_mut().sql_parser.dialect = datafusion::config::Dialect::PostgreSQL;
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_type_planner(Arc::new(Types))
        .build();
    stratalog_functions::register(&mut state).unwrap();
    state.register_expr_planner(Arc::new(stratalog_functions::operators())).unwrap();
    register_functions(&mut state, &context).unwrap();
    let provider = MemoryCatalogProvider::new();
    let system = schemas(context);
    provider.register_schema("pg_catalog", system.pg_catalog).unwrap();
    provider.register_schema("information_schema", system.information_schema).unwrap();
    provider.register_schema("stratalog", system.stratalog).unwrap();
    provider.register_schema("public", Arc::new(MemorySchemaProvider::new())).unwrap();
    let session = SessionContext::new_with_state(state);
    session.register_catalog("stratalog", Arc::new(provider));
    session
}

/// The result of `sql`, as a client sends it.
pub async fn batches(session: &SessionContext, sql: &str) -> PlanResult<Vec<RecordBatch>> {
    let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, sql)
        .map_err(|error| datafusion::error::DataFusionError::Plan(format!("{error}")))?;
    let mut statement = statements.remove(0);
    rewrite(&mut statement);
    let state = session.state();
    let parsed = datafusion::sql::parser::Statement::Statement(Box::new(statement));
    let plan = state.statement_to_plan(parsed).await?;
    session.execute_logical_plan(plan).await?.collect().await
}

/// The rows of `sql`, each as a text with columns separated by `|`.
pub async fn rows(session: &SessionContext, sql: &str) -> Vec<String> {
    let batches = batches(session, sql).await.unwrap_or_else(|error| panic!("{error}\n{sql}"));
    let options = FormatOptions::default().with_display_error(true);
    let mut rows = Vec::new();
    for batch in &batches {
        let columns: Vec<ArrayFormatter<'_>> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let values: Vec<String> =
                columns.iter().map(|column| column.value(row).to_string()).collect();
            rows.push(values.join("|"));
        }
    }
    rows
}

/// The names of the columns of `sql`.
pub async fn names(session: &SessionContext, sql: &str) -> Vec<String> {
    let batches = batches(session, sql).await.unwrap_or_else(|error| panic!("{error}\n{sql}"));
    let schema = batches.first().map(RecordBatch::schema);
    let fields = schema.iter().flat_map(|schema| schema.fields().iter());
    fields
        .filter(|field| *field.data_type() != ArrowType::Null)
        .map(|field| field.name().clone())
        .collect()
}
