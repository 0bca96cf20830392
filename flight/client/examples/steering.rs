//! Telemetry with live steering: a simulation records its measurements; a steering client watches
//! the running simulation and sends commands.
//!
//! ```text
//!   simulation ── record ──► "telemetry" ── subscribe live ──► steering
//!        ▲                                                        │
//!        └──── subscribe live ◄── "commands" ◄── record ──────────┘
//! ```
//!
//! `cargo run -p stratalog-client --example steering [chronolog://host:port]`

use std::{error::Error, time::Duration};

use stratalog_client::{
    Acquire, Chronicle, Chronolog, Granularity, Range, Start, Subscription, Tags, Update,
};

/// The temperature that the steering client aims at.
const WANTED: f64 = 50.0;
/// Maximal number of steps of the simulation.
const STEPS_MAX: u32 = 2_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(&url.unwrap_or_else(|| "chronolog://127.0.0.1:50051".to_string())).await
}

/// Runs a simulation and its steering client.
///
/// # Errors
/// Errors of the server.
pub async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let log = Chronolog::connect(url).await?;
    let run = stratalog_client::Uuid::new_v4().simple().to_string();
    let (telemetry, commands) = (format!("telemetry_{run}"), format!("commands_{run}"));
    // Telemetry has a high volume, and a loss after a power failure is acceptable.
    let much = Tags::new().set("durability", "relaxed").set("retention", "1d");
    log.create(&telemetry, Granularity::NANOSECOND, &much).await?;
    log.create(&commands, Granularity::NANOSECOND, &Tags::new()).await?;

    let measured = log.acquire(&telemetry, Acquire::exclusive()).await?;
    let watched = log.acquire(&telemetry, Acquire::shared().range(Range::all()).no_wait()).await;
    // An exclusive acquisition excludes all other acquisitions, but reading stays possible.
    if let Ok(second) = watched {
        second.release().await?;
        return Err("it was acquired twice".into());
    }
    measured.release().await?;

    let measured = log.acquire(&telemetry, Acquire::shared()).await?;
    let watched = measured.subscribe(Start::Live, None).await?;
    let orders = log.acquire(&commands, Acquire::shared()).await?;
    let obeyed = orders.subscribe(Start::Live, None).await?;
    let steering = tokio::spawn(steer(watched, orders.clone()));
    let steps = simulate(measured.clone(), obeyed).await?;
    steering.abort();

    let newest = measured.playback(1).await?;
    let last = newest.first().map(|event| String::from_utf8_lossy(&event.payload).into_owned());
    let told = orders.replay(&[Range::all()], None).await?.collect().await?.len();
    println!("{steps} steps, {told} commands, the last temperature is {last:?}");
    if steps >= STEPS_MAX {
        return Err("nobody has steered".into());
    }
    measured.release().await?;
    orders.release().await?;
    log.disconnect().await;
    Ok(())
}

/// Simulates a pot on a fire, until it has stayed near the target temperature for a while.
async fn simulate(out: Chronicle, mut orders: Subscription) -> stratalog_client::Result<u32> {
    let (mut temperature, mut heat) = (20.0_f64, 3.0_f64);
    let mut steady = 0;
    for step in 0..STEPS_MAX {
        temperature += heat - 0.05 * (temperature - 20.0);
        out.append(format!("{temperature:.2}")).await?.await?;
        // Reads the commands that have arrived.
        let soon = Duration::from_millis(2);
        while let Ok(Some(order)) = tokio::time::timeout(soon, orders.next()).await {
            if let Update::Event(event) = order? {
                heat = String::from_utf8_lossy(&event.payload).parse().unwrap_or(heat);
            }
        }
        steady = if (temperature - WANTED).abs() < 1.0 { steady + 1 } else { 0 };
        if steady >= 20 {
            return Ok(step);
        }
    }
    Ok(STEPS_MAX)
}

/// Sends a new heat whenever the temperature differs from the target.
async fn steer(mut watched: Subscription, orders: Chronicle) -> stratalog_client::Result<()> {
    while let Some(update) = watched.next().await {
        let Update::Event(event) = update? else { continue };
        let temperature: f64 = String::from_utf8_lossy(&event.payload).parse().unwrap_or(WANTED);
        let off = WANTED - temperature;
        if off.abs() >= 0.5 {
            // The heat loss at the target temperature, and a part of the deviation.
            orders.record(format!("{:.3}", 0.05 * (WANTED - 20.0) + 0.1 * off)).await?;
        }
    }
    Ok(())
}
