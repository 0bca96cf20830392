//! The cache of recent logins, for clients that send their credentials with each request. A
//! repeated login needs neither the computation of a password's verifier nor a record.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a login counts as recent.
const RECENT: Duration = Duration::from_secs(600);

/// Maximum number of recent logins.
const RECENT_MAX: usize = 4_096;

/// The keys of recent logins, with their ends.
#[derive(Debug, Default)]
pub(super) struct RecentLogins(Mutex<HashMap<[u8; 32], Instant>>);

impl RecentLogins {
    pub(super) fn contains(&self, key: &[u8; 32]) -> bool {
        self.0.lock().get(key).is_some_and(|end| *end > Instant::now())
    }

    pub(super) fn insert(&self, key: [u8; 32]) {
        let (mut recent, now) = (self.0.lock(), Instant::now());
        if recent.len() >= RECENT_MAX {
            recent.retain(|_, end| *end > now);
        }
        if recent.len() >= RECENT_MAX {
            recent.clear();
        }
        recent.insert(key, now + RECENT);
    }
}
