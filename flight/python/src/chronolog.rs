//! The connection to a server.

use std::time::Duration;

use pyo3::prelude::*;
use stratalog_client::{Acquire, Client, Destroy, Granularity, RetryPolicy, Tags};

use crate::{call::Call, chronicle::Chronicle, error::Invalid, values, values::Range};

/// A connection to Stratalog.
#[pyclass(frozen, module = "stratalog._native")]
pub struct Chronolog {
    log: stratalog_client::Chronolog,
}

/// Connects to a server and logs in.
#[pyfunction]
#[pyo3(signature = (url, *, user=None, password=None, database=None, application_name=None, connect_seconds=None, retry_seconds=None))]
#[expect(clippy::too_many_arguments, reason = "they are arguments by name in Python")]
pub fn connect(
    url: String,
    user: Option<String>,
    password: Option<String>,
    database: Option<String>,
    application_name: Option<String>,
    connect_seconds: Option<f64>,
    retry_seconds: Option<f64>,
) -> PyResult<Call> {
    let mut builder = Client::builder().url(url);
    if let Some(user) = user {
        builder = builder.user(user);
    }
    if let Some(password) = password {
        builder = builder.password(password);
    }
    if let Some(database) = database {
        builder = builder.database(database);
    }
    if let Some(name) = application_name {
        builder = builder.application_name(name);
    }
    if let Some(time) = connect_seconds {
        builder = builder.connect_timeout(seconds(time)?);
    }
    if let Some(time) = retry_seconds {
        builder = builder.retry(RetryPolicy::within(seconds(time)?));
    }
    let connecting = async move { stratalog_client::Chronolog::with(builder).await };
    Ok(Call::new(connecting, |py, log| Ok(Py::new(py, Chronolog { log })?.into_any())))
}

#[pymethods]
impl Chronolog {
    fn disconnect(&self) -> Call {
        let log = self.log.clone();
        Call::done(async move {
            log.disconnect().await;
            Ok(())
        })
    }

    fn sync_clock(&self) -> Call {
        let log = self.log.clone();
        let compared = async move { log.sync_clock().await };
        Call::new(compared, |py, sync| values::clock_sync(py, &sync))
    }

    /// The estimated server's time in nanoseconds since 1970, and the maximal error in nanoseconds;
    /// None before the first comparison of the clocks.
    fn time_ns(&self) -> Option<(i64, u64)> {
        self.log.time().map(|estimate| (estimate.time_ns, estimate.error_ns))
    }

    fn create(
        &self,
        name: String,
        index: &str,
        collision: Option<&str>,
        time_source: Option<&str>,
        options: Vec<(String, String)>,
    ) -> PyResult<Call> {
        let (index, tags) = (granularity(index)?, tags(collision, time_source, options)?);
        let log = self.log.clone();
        Ok(Call::done(async move { log.create(&name, index, &tags).await }))
    }

    fn edit(
        &self,
        name: String,
        new_name: Option<String>,
        index: Option<&str>,
        options: Vec<(String, String)>,
    ) -> PyResult<Call> {
        let (index, tags) = (index.map(granularity).transpose()?, tags(None, None, options)?);
        let log = self.log.clone();
        let edited = async move { log.edit(&name, new_name.as_deref(), index, &tags).await };
        Ok(Call::done(edited))
    }

    fn destroy(&self, name: String, how: &str) -> PyResult<Call> {
        let how = match how {
            "sync" => Destroy::Sync,
            "async" => Destroy::Async,
            "force" => Destroy::Force,
            other => return Err(invalid(format!("how={other:?}: 'sync', 'async' or 'force'"))),
        };
        let log = self.log.clone();
        Ok(Call::done(async move { log.destroy(&name, how).await }))
    }

    #[pyo3(signature = (name, *, exclusive, range, time, lease, wait, wait_seconds, new_ticks, retry_collisions, durability))]
    #[expect(clippy::too_many_arguments, reason = "they are arguments by name in Python")]
    fn acquire(
        &self,
        name: String,
        exclusive: bool,
        range: Option<&Range>,
        time: Option<f64>,
        lease: f64,
        wait: bool,
        wait_seconds: Option<f64>,
        new_ticks: u32,
        retry_collisions: bool,
        durability: Option<&str>,
    ) -> PyResult<Call> {
        let mut how = if exclusive { Acquire::exclusive() } else { Acquire::shared() };
        how = how.lease(seconds(lease)?).new_ticks(new_ticks);
        if let Some(range) = range {
            how = how.range(range.0.clone());
        }
        if let Some(time) = time {
            how = how.timed(seconds(time)?);
        }
        match wait_seconds {
            _ if !wait => how = how.no_wait(),
            Some(time) => how = how.wait_at_most(seconds(time)?),
            None => {}
        }
        if retry_collisions {
            how = how.retry_collisions();
        }
        if let Some(durability) = durability {
            how = how.durability(parsed(durability)?);
        }
        let log = self.log.clone();
        let acquired = async move { log.acquire(&name, how).await };
        Ok(Call::new(acquired, |py, chronicle| {
            Ok(Py::new(py, Chronicle::new(chronicle))?.into_any())
        }))
    }

    fn execute(&self, sql: String) -> Call {
        let client = self.log.client().clone();
        execute(client, sql)
    }
}

/// Runs a statement and returns the number of changed rows.
pub fn execute(client: Client, sql: String) -> Call {
    let executed = async move { client.execute(&sql).await };
    Call::new(executed, |py, count| Ok(count.into_pyobject(py)?.into_any().unbind()))
}

/// Converts a number of seconds to a duration; an error for a negative or infinite number.
pub fn seconds(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|error| invalid(format!("{seconds} is not a number of seconds: {error}")))
}

/// Parses the value of an option from its name, for example a collision rule.
fn parsed<T: std::str::FromStr>(text: &str) -> PyResult<T>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error: T::Err| invalid(error.to_string()))
}

fn granularity(text: &str) -> PyResult<Granularity> {
    parsed(text)
}

fn tags(
    collision: Option<&str>,
    time_source: Option<&str>,
    options: Vec<(String, String)>,
) -> PyResult<Tags> {
    let mut tags = Tags::new();
    if let Some(rule) = collision {
        tags = tags.collision(parsed(rule)?);
    }
    if let Some(source) = time_source {
        tags = tags.time_source(parsed(source)?);
    }
    Ok(options.into_iter().fold(tags, |tags, (name, value)| tags.set(name, value)))
}

fn invalid(message: String) -> PyErr {
    Invalid::new_err(message)
}
