//! The options of a session: SQL settings, and options for the format of results.

use std::{collections::HashMap, sync::Arc};

use arrow::ipc::CompressionType;
use stratalog_flight_wire::options::{
    INVALID_NAME, INVALID_VALUE, OptionValue, Refusal, SessionOptions, SetOutcome, Value,
};
use stratalog_model::Error;
use stratalog_query::quoted;

use crate::caller::Caller;

/// The name of the option for the number of parts of a result. Each part has its own ticket.
const ENDPOINTS: &str = "stratalog.endpoints";
/// The name of the option for the compression of message bodies.
const COMPRESSION: &str = "stratalog.compression";

/// The options of a caller for the format of results.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallerOptions {
    endpoints: Option<usize>,
    compression: Option<CompressionType>,
}

impl CallerOptions {
    /// The number of parts of a result.
    pub(crate) fn endpoints(&self) -> usize {
        self.endpoints.unwrap_or(1)
    }

    /// The compression of message bodies; `None` for no compression.
    pub(crate) fn compression(&self) -> Option<CompressionType> {
        self.compression
    }
}

/// Sets the options in `wanted`. Returns the refused options; all other options are set.
pub(crate) fn set(caller: &Arc<Caller>, wanted: SessionOptions) -> SetOutcome {
    let mut errors = HashMap::new();
    for (name, value) in wanted.options {
        if let Err(value) = set_one(caller, &name, value.value) {
            errors.insert(name, Refusal { value });
        }
    }
    SetOutcome { errors }
}

fn set_one(caller: &Arc<Caller>, name: &str, value: Option<Value>) -> Result<(), i32> {
    let text = match &value {
        None => None,
        Some(Value::Text(text)) => Some(text.clone()),
        Some(Value::Flag(flag)) => Some(flag.to_string()),
        Some(Value::Number(number)) => Some(number.to_string()),
        Some(Value::Double(number)) => Some(number.to_string()),
        Some(Value::Texts(texts)) => {
            let quoted = texts.values.iter().map(|text| quoted(text));
            Some(quoted.collect::<Vec<_>>().join(", "))
        }
    };
    match name.to_ascii_lowercase().as_str() {
        ENDPOINTS => {
            let most = caller.settings.endpoints_max;
            let count = text.map(|text| text.parse::<usize>().map_err(|_| INVALID_VALUE));
            let count = count.transpose()?;
            if count.is_some_and(|count| !(1..=most).contains(&count)) {
                return Err(INVALID_VALUE);
            }
            caller.options.lock().endpoints = count;
            Ok(())
        }
        COMPRESSION => {
            let compression = match text.as_deref().map(str::to_ascii_lowercase).as_deref() {
                None | Some("none" | "") => None,
                Some("lz4" | "lz4_frame") => Some(CompressionType::LZ4_FRAME),
                Some("zstd") => Some(CompressionType::ZSTD),
                Some(_) => return Err(INVALID_VALUE),
            };
            caller.options.lock().compression = compression;
            Ok(())
        }
        // The database of a session cannot change. An option with the present database is not an
        // error.
        "catalog" => match text {
            Some(text) if text != caller.session().login().database => Err(INVALID_VALUE),
            _ => Ok(()),
        },
        "schema" => {
            let path = text.map(|text| format!("{}, public", quoted(&text)));
            set_variable(caller, "search_path", path.as_deref())
        }
        other => set_variable(caller, other, text.as_deref()),
    }
}

fn set_variable(caller: &Caller, name: &str, value: Option<&str>) -> Result<(), i32> {
    let variables = caller.session().variables();
    let outcome = match value {
        Some(value) => variables.set(name, value, false),
        None => variables.reset(name, false),
    };
    outcome.map_err(|error: Error| match variables.get(name) {
        Some(_) => {
            tracing::debug!(%error, name, "an option of a session was refused");
            INVALID_VALUE
        }
        None => INVALID_NAME,
    })
}

/// The present values of all options.
pub(crate) fn get(caller: &Arc<Caller>) -> SessionOptions {
    let options = caller.options.lock().clone();
    let text = |value: String| OptionValue { value: Some(Value::Text(value)) };
    let compression = match options.compression() {
        Some(CompressionType::LZ4_FRAME) => "lz4",
        Some(CompressionType::ZSTD) => "zstd",
        _ => "none",
    };
    let mut all: HashMap<String, OptionValue> = caller
        .session()
        .variables()
        .all()
        .into_iter()
        .map(|setting| (setting.name, text(setting.value)))
        .collect();
    let parts = i64::try_from(options.endpoints()).unwrap_or(i64::MAX);
    all.insert(ENDPOINTS.to_string(), OptionValue { value: Some(Value::Number(parts)) });
    all.insert(COMPRESSION.to_string(), text(compression.to_string()));
    let session = caller.session();
    all.insert("catalog".to_string(), text(session.login().database.clone()));
    let path = session.variables().parsed().search_path;
    let first = path.into_iter().next().unwrap_or_default();
    all.insert("schema".to_string(), text(first));
    SessionOptions { options: all }
}
