//! `stratalog demo`: runs a server on a temporary directory; loads rows, queries them, moves them
//! between tiers, kills the server, recovers the data, and compares it.

use std::{
    io::{self, IsTerminal as _},
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _, future::try_join_all};
use indicatif::{ProgressBar, ProgressStyle};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

pub mod child;
pub mod generator;
pub mod queries;
mod tiers;

use child::ServerProcess;
use generator::{Chance, CpuGenerator, CpuShape, METRICS, create_table};
use queries::QUERY_TYPES;

use crate::sql::error::SqlError;

/// Number of connections that load rows concurrently.
const CONNECTIONS: usize = 2;
/// Number of points in time whose rows one COPY statement loads.
const STEPS_PER_COPY: usize = 200;
/// Number of runs of each query; each run has different hosts and times.
const RUNS: usize = 5;
/// 2016-01-01T00:00:00Z in nanoseconds since 1970, where the data of TSBS begins.
const START_NS: i64 = 1_451_606_400_000_000_000;

/// Shows what Stratalog does, in about a minute.
#[derive(Debug, Clone, clap::Args)]
pub struct DemoArguments {
    /// Leave the server running, and keep the data directory.
    #[arg(long)]
    keep: bool,
    /// Number of reporting hosts. Each host reports every 10 seconds for 14 hours: 5040 rows.
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u64).range(8..=100_000))]
    hosts: u64,
    /// Seed of all generated numbers.
    #[arg(long, default_value_t = 123)]
    seed: u64,
}

/// Runs `stratalog demo`.
pub fn run(arguments: &DemoArguments) -> ExitCode {
    let Some(runtime) = crate::threads::of_command() else { return ExitCode::FAILURE };
    let outcome = runtime.block_on(async {
        let directory = tempfile::Builder::new().prefix("stratalog-demo-").tempdir()?;
        // Install the signal handlers before the first file is created.
        let result = tokio::select! {
            biased;
            () = interrupted() => Ok(false),
            result = demo(arguments, directory.path()) => result.map(|()| true),
        };
        if arguments.keep && matches!(result, Ok(true)) {
            let _ = directory.keep();
        }
        result
    });
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("\ninterrupted: the server is stopped, and the data directory is removed");
            ExitCode::from(130)
        }
        Err(error) => {
            eprintln!("{}", error.render(""));
            ExitCode::FAILURE
        }
    }
}

/// Completes at Ctrl-C or SIGTERM.
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
        }
        // Without a handler, SIGTERM ends the process immediately.
        Err(_) => {
            let _ = tokio::signal::ctrl_c().await;
        }
    }
}

async fn demo(arguments: &DemoArguments, directory: &Path) -> Result<(), SqlError> {
    let shape = CpuShape {
        hosts: usize::try_from(arguments.hosts).unwrap_or(usize::MAX),
        steps: 5040,
        start_ns: START_NS,
        interval_ns: 10_000_000_000,
        seed: arguments.seed,
    };
    let program = std::env::current_exe()?;
    let (data, log) = (directory.join("data"), directory.join("server.log"));
    let start = || ServerProcess::start(&program, &data, &log, &["--log-level", "warn"]);

    println!("Stratalog {}: a demonstration\n", env!("CARGO_PKG_VERSION"));
    let mut server = start()?;
    println!("1. Server    process {} at {}, durability 'disk'", server.id(), server.address());

    let seconds = load(&server, &shape).await?;
    println!(
        "2. Load      {} rows of 21 columns over COPY in {seconds:.1} s: {} rows/s",
        grouped(shape.rows()),
        grouped((shape.rows() as f64 / seconds) as u64)
    );

    let client = connect(&server).await?;
    println!("3. Queries   TSBS's cpu-only types, {RUNS} runs each on random hosts and hours\n");
    ask_all(&client, &shape).await?;
    println!("\n   busiest hosts of the last hour: {}", busiest(&client, &shape).await?);

    let before = checksums(&client).await?;
    tiers::demonstrate(&client, &connect(&server).await?, &shape).await?;
    println!("\n5. Before    {before}");
    if before.rows != shape.rows() {
        return Err(SqlError::local(format!(
            "{} rows were acknowledged, but {} rows exist",
            shape.rows(),
            before.rows
        )));
    }
    let killed = server.id();
    server.kill()?;
    drop(client);
    let restart = Instant::now();
    let server = start()?;
    let client = connect(&server).await?;
    println!(
        "6. kill -9   of process {killed}; process {} answers after {:.2} s",
        server.id(),
        restart.elapsed().as_secs_f64()
    );
    let after = checksums(&client).await?;
    println!("7. After     {after}");
    if before != after {
        return Err(SqlError::local(format!(
            "DATA CHANGED over moves, kill -9 and restart: before {before:?}, after {after:?}"
        )));
    }
    println!("             unchanged: no acknowledged row is lost\n");
    if arguments.keep {
        let port = server.address().port();
        println!(
            "The server runs on (process {}). Connect with\n  psql -h 127.0.0.1 -p {port} -U stratalog stratalog",
            server.id()
        );
        println!(
            "Stop the server with `kill {}`; the data directory is\n  {}",
            server.id(),
            directory.display()
        );
        server.let_go();
    } else {
        let program = program_as_typed();
        println!("To explore this data, leave the server running with\n");
        println!("   {program} demo --keep\n");
        println!("or start your own server, and connect:\n");
        println!("   {program} serve --data-dir DIRECTORY");
        println!("   psql -h 127.0.0.1 -p 5433 -U stratalog stratalog\n");
        drop(client);
        drop(server);
        println!("Cleaned up: the server is stopped, and the data directory is removed.");
    }
    Ok(())
}

/// The path of this program for the user to type, with `~` for the home directory.
fn program_as_typed() -> String {
    let program = std::env::args().next().unwrap_or_else(|| "stratalog".to_string());
    match std::env::var("HOME") {
        Ok(home) if home.len() > 1 => match program.strip_prefix(&home) {
            Some(rest) if rest.starts_with('/') => format!("~{rest}"),
            _ => program,
        },
        _ => program,
    }
}

async fn connect(server: &ServerProcess) -> Result<Client, SqlError> {
    let address = server.address();
    let mut config = tokio_postgres::Config::new();
    config
        .host(address.ip().to_string())
        .port(address.port())
        .user("stratalog")
        .dbname("stratalog")
        .application_name("stratalog demo");
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(async move {
        // When the server is killed, the connection fails; the statements report this error.
        let _ = connection.await;
    });
    Ok(client)
}

/// Loads all rows; returns the elapsed time in seconds.
async fn load(server: &ServerProcess, shape: &CpuShape) -> Result<f64, SqlError> {
    connect(server).await?.batch_execute(&create_table("cpu")).await?;
    let bar = if io::stderr().is_terminal() {
        let style = ProgressStyle::with_template("   {bar:30} {human_pos}/{human_len} rows, {msg}");
        ProgressBar::new(shape.rows())
            .with_style(style.map_err(|error| SqlError::local(error.to_string()))?)
    } else {
        ProgressBar::hidden()
    };
    let start = Instant::now();
    try_join_all((0..CONNECTIONS).map(|part| {
        let bar = bar.clone();
        async move {
            let client = connect(server).await?;
            let mut generator = CpuGenerator::part(*shape, part, CONNECTIONS);
            loop {
                let mut lines = Vec::new();
                let rows;
                (generator, lines, rows) = tokio::task::spawn_blocking(move || {
                    let rows = generator.next_copy(STEPS_PER_COPY, &mut lines);
                    (generator, lines, rows)
                })
                .await
                .map_err(|error| SqlError::local(error.to_string()))?;
                if rows == 0 {
                    return Ok::<(), SqlError>(());
                }
                let mut sink = std::pin::pin!(client.copy_in("COPY cpu FROM STDIN").await?);
                let mut rest = Bytes::from(lines);
                while !rest.is_empty() {
                    let chunk = rest.split_to(rest.len().min(256 << 10));
                    if let Err(error) = sink.send(chunk).await {
                        sink.finish().await?;
                        return Err(error.into());
                    }
                }
                let stored = sink.finish().await?;
                if stored != rows {
                    return Err(SqlError::local(format!("{stored} of {rows} rows were stored")));
                }
                bar.inc(rows);
                let rate = bar.position() as f64 / start.elapsed().as_secs_f64();
                bar.set_message(format!("{} rows/s", grouped(rate as u64)));
            }
        }
    }))
    .await?;
    bar.finish_and_clear();
    Ok(start.elapsed().as_secs_f64())
}

/// Runs each type of query, and prints one line per type.
async fn ask_all(client: &Client, shape: &CpuShape) -> Result<(), SqlError> {
    println!(
        "   {:<21}  {:<26} {:>8} {:>7} {:>7}",
        "query", "asks for", "rows", "min ms", "median"
    );
    println!("   {}", "-".repeat(74));
    let mut chance = Chance(shape.seed);
    for query_type in &QUERY_TYPES {
        let (mut times, mut rows) = (Vec::new(), 0);
        for _ in 0..RUNS {
            let sql = query_type.sql(shape, &mut chance);
            let start = Instant::now();
            rows = count_rows(client, &sql).await?.max(rows);
            times.push(start.elapsed());
        }
        times.sort_unstable();
        let ms =
            |at: usize| times.get(at).copied().unwrap_or(Duration::ZERO).as_secs_f64() * 1000.0;
        println!(
            "   {:<21}  {:<26} {:>8} {:>7.2} {:>7.2}",
            query_type.name,
            query_type.description(),
            grouped(rows),
            ms(0),
            ms(times.len() / 2)
        );
    }
    Ok(())
}

async fn count_rows(client: &Client, sql: &str) -> Result<u64, SqlError> {
    let mut stream = std::pin::pin!(client.simple_query_raw(sql).await?);
    let mut rows = 0;
    while let Some(message) = stream.next().await {
        if matches!(message?, SimpleQueryMessage::Row(_)) {
            rows += 1;
        }
    }
    Ok(rows)
}

/// The hosts with the highest mean usage in the last hour of the data, as text.
async fn busiest(client: &Client, shape: &CpuShape) -> Result<String, SqlError> {
    let sql = format!(
        "SELECT hostname, round(avg(usage_user)) FROM cpu WHERE time >= TIMESTAMPTZ '{}' \
         GROUP BY hostname ORDER BY avg(usage_user) DESC, hostname LIMIT 3",
        queries::timestamp(shape.end_ns() - 3_600_000_000_000)
    );
    let mut hosts = Vec::new();
    for message in client.simple_query(&sql).await? {
        if let SimpleQueryMessage::Row(row) = message {
            let text = |at| row.try_get(at).map(|text| text.unwrap_or("NULL"));
            hosts.push(format!("{} {} %", text(0)?, text(1)?));
        }
    }
    Ok(hosts.join(", "))
}

/// Checksums of the data, which neither a move nor a crash may change.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Checksums {
    rows: u64,
    /// The sum of all metrics in all rows.
    sum: u64,
    /// CRC32C over the count, the sum and the time-weighted sum of each host.
    crc: u32,
}

impl std::fmt::Display for Checksums {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rows, sum, crc } = self;
        write!(f, "count {}, sum of metrics {}, checksum {crc:08x}", grouped(*rows), grouped(*sum))
    }
}

async fn checksums(client: &Client) -> Result<Checksums, SqlError> {
    let sums: Vec<String> = METRICS.iter().map(|metric| format!("sum({metric})")).collect();
    // Weights by time detect two values that were exchanged.
    let weighted: Vec<String> = METRICS
        .iter()
        .map(|metric| format!("sum({metric} * CAST(extract(epoch FROM time) AS BIGINT))"))
        .collect();
    let sql = format!(
        "SELECT hostname, count(*), {}, min(time), max(time), {} FROM cpu GROUP BY hostname ORDER BY hostname",
        sums.join(", "),
        weighted.join(", ")
    );
    let mut checksums = Checksums { rows: 0, sum: 0, crc: 0 };
    for message in client.simple_query(&sql).await? {
        let SimpleQueryMessage::Row(row) = message else { continue };
        let number = |at: usize| -> Result<u64, SqlError> {
            let text = row.try_get(at)?.unwrap_or("0");
            text.parse::<f64>()
                .map(|number| number as u64)
                .map_err(|_| SqlError::local(format!("\"{text}\" is not a number")))
        };
        checksums.rows += number(1)?;
        for at in 2..2 + METRICS.len() {
            checksums.sum += number(at)?;
        }
        for at in 0..row.len() {
            let text = row.try_get(at)?.unwrap_or("NULL");
            checksums.crc = crc32c::crc32c_append(checksums.crc, text.as_bytes());
            checksums.crc = crc32c::crc32c_append(checksums.crc, b"\t");
        }
    }
    Ok(checksums)
}

/// Formats a number with separators: `2016000` becomes `2,016,000`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
