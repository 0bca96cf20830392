//! A chronicle that exists only during a run.

use serde_json::Value;
use stratalog_client::{Chronolog, Destroy};

use crate::options::{Failure, Options};

pub(crate) struct Own {
    pub(crate) log: Chronolog,
    pub(crate) name: String,
}

impl Own {
    pub(crate) async fn create(options: &Options) -> Result<Self, Failure> {
        let log = options.connect().await?;
        let name = format!("load_{}", std::process::id());
        options.create(&log, &name).await?;
        Ok(Self { log, name })
    }

    /// Destroys the chronicle, also after an error.
    pub(crate) async fn end(self, found: Result<Value, Failure>) -> Result<Value, Failure> {
        let destroyed = self.log.destroy(&self.name, Destroy::Force).await;
        self.log.disconnect().await;
        let found = found?;
        destroyed?;
        Ok(found)
    }
}
