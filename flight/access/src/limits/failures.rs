//! The limit of failed logins.
//!
//! Each failed login takes a piece from three buckets, which fill again over time:
//!
//! ```text
//!   address and role   N per minute       one client that guesses one password
//!   address            10 × N per minute  one client that tries many roles
//!   role               10 × N per minute  many clients that guess one password
//! ```
//! An empty bucket refuses logins before the password is checked. The bucket of a role does not
//! refuse addresses from which the role has logged in before: an attacker elsewhere cannot lock the
//! role out.

use std::{collections::HashMap, hash::Hash, net::IpAddr, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::counted;

/// The size of the buckets of addresses and of roles, relative to the bucket of both.
const WIDE: u32 = 10;

/// Maximum number of buckets of each kind; the oldest buckets are forgotten.
const BUCKETS_MAX: usize = 1 << 15;

/// Maximum bytes of a user name that has its own bucket.
const NAME_BYTES_MAX: usize = 128;

const MINUTE: Duration = Duration::from_secs(60);

/// The buckets of all addresses and roles.
#[derive(Debug)]
pub(crate) struct FailedLogins {
    /// 0 for no limit.
    per_minute_max: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pairs: Recent<(IpAddr, String), Bucket>,
    addresses: Recent<IpAddr, Bucket>,
    roles: Recent<String, Bucket>,
    /// Addresses from which a role has logged in.
    known: Recent<(IpAddr, String), ()>,
}

impl FailedLogins {
    pub(crate) fn new(per_minute_max: u32) -> Self {
        Self { per_minute_max, state: Mutex::default() }
    }

    /// True if the address may try to log in as the role. An empty role is a login by token.
    pub(crate) fn may_try(&self, address: IpAddr, role: &str, now: Instant) -> bool {
        if self.per_minute_max == 0 {
            return true;
        }
        let (address, role) = (counted(address), key(role));
        let (narrow, wide) = (self.per_minute_max, self.per_minute_max.saturating_mul(WIDE));
        let mut state = self.state.lock();
        let holds = |held: Option<&mut Bucket>, max| held.is_none_or(|one| one.has(max, now));
        if !holds(state.addresses.get(&address), wide) {
            return false;
        }
        if role.is_empty() {
            return true;
        }
        let pair = (address, role);
        holds(state.pairs.get(&pair), narrow)
            && (holds(state.roles.get(&pair.1), wide) || state.known.get(&pair).is_some())
    }

    /// Records a failed login.
    pub(crate) fn failed(&self, address: IpAddr, role: &str, now: Instant) {
        if self.per_minute_max == 0 {
            return;
        }
        let (address, role) = (counted(address), key(role));
        let (narrow, wide) = (self.per_minute_max, self.per_minute_max.saturating_mul(WIDE));
        let mut state = self.state.lock();
        state.addresses.get_or_insert(address, || Bucket::full(wide, now)).take(wide, now);
        if role.is_empty() {
            return;
        }
        state.roles.get_or_insert(role.clone(), || Bucket::full(wide, now)).take(wide, now);
        state.pairs.get_or_insert((address, role), || Bucket::full(narrow, now)).take(narrow, now);
    }

    /// Records a successful login.
    pub(crate) fn succeeded(&self, address: IpAddr, role: &str) {
        if self.per_minute_max > 0 {
            self.state.lock().known.get_or_insert((counted(address), key(role)), || ());
        }
    }
}

/// The beginning of a name, so that long names need no memory.
fn key(role: &str) -> String {
    role.chars().take(NAME_BYTES_MAX / 4).collect()
}

/// A bucket with a fraction of its pieces.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    pieces: f64,
    at: Instant,
}

impl Bucket {
    fn full(max: u32, now: Instant) -> Self {
        Self { pieces: f64::from(max), at: now }
    }

    fn refill(&mut self, max: u32, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64() / MINUTE.as_secs_f64();
        self.pieces = (self.pieces + passed * f64::from(max)).min(f64::from(max));
        self.at = now;
    }

    fn has(&mut self, max: u32, now: Instant) -> bool {
        self.refill(max, now);
        self.pieces >= 1.0
    }

    /// Logins that run at the same time may take more pieces than the bucket has: the debt delays
    /// the next try.
    fn take(&mut self, max: u32, now: Instant) {
        self.refill(max, now);
        self.pieces = (self.pieces - 1.0).max(-f64::from(max));
    }
}

/// A map of at most [`BUCKETS_MAX`] entries that forgets entries that were not used recently.
#[derive(Debug)]
struct Recent<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<K: Hash + Eq, V> Recent<K, V> {
    /// An entry. The entry becomes young.
    fn get(&mut self, key: &K) -> Option<&mut V> {
        if let Some((key, value)) = self.old.remove_entry(key) {
            self.insert(key, value);
        }
        self.young.get_mut(key)
    }

    fn get_or_insert(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let kept = self.old.remove(&key);
        self.make_room(&key);
        self.young.entry(key).or_insert_with(|| kept.unwrap_or_else(make))
    }

    fn insert(&mut self, key: K, value: V) {
        self.make_room(&key);
        self.young.insert(key, value);
    }

    /// Forgets the old entries if the young entries are many.
    fn make_room(&mut self, key: &K) {
        if self.young.len() >= BUCKETS_MAX / 2 && !self.young.contains_key(key) {
            self.old = std::mem::take(&mut self.young);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_client_that_guesses_is_refused_and_may_try_again_later() {
        let (limit, now) = (FailedLogins::new(6), Instant::now());
        let (attacker, friend) = (ip("10.0.0.9"), ip("10.0.0.1"));
        for _ in 0..6 {
            assert!(limit.may_try(attacker, "u", now));
            limit.failed(attacker, "u", now);
        }
        assert!(!limit.may_try(attacker, "u", now));
        assert!(limit.may_try(friend, "u", now), "another address");
        assert!(limit.may_try(attacker, "other", now), "another role");
        assert!(!limit.may_try(attacker, "u", now + Duration::from_secs(9)));
        assert!(limit.may_try(attacker, "u", now + Duration::from_secs(11)));
    }

    #[test]
    fn many_roles_and_many_addresses_are_refused() {
        let (limit, now) = (FailedLogins::new(2), Instant::now());
        for number in 0..20 {
            limit.failed(ip("10.0.0.9"), &format!("u{number}"), now);
        }
        assert!(!limit.may_try(ip("10.0.0.9"), "u99", now));
        assert!(!limit.may_try(ip("10.0.0.9"), "", now), "tokens, too");
        limit.succeeded(ip("10.1.0.1"), "u");
        for number in 0..20 {
            limit.failed(ip(&format!("10.2.0.{number}")), "u", now);
        }
        assert!(!limit.may_try(ip("10.3.0.1"), "u", now), "an unknown address");
        assert!(limit.may_try(ip("10.1.0.1"), "u", now), "an address of an earlier login");
    }

    #[test]
    fn the_memory_is_bounded_and_0_means_no_limit() {
        let (limit, now) = (FailedLogins::new(1), Instant::now());
        for number in 0..100_000_u32 {
            limit.failed(IpAddr::V4(number.into()), &"x".repeat(9_000), now);
        }
        let state = limit.state.lock();
        assert!(state.pairs.young.len() + state.pairs.old.len() <= BUCKETS_MAX);
        assert!(state.pairs.young.keys().all(|(_, role)| role.len() <= NAME_BYTES_MAX));
        drop(state);
        let unlimited = FailedLogins::new(0);
        (0..100).for_each(|_| unlimited.failed(ip("10.0.0.1"), "u", now));
        assert!(unlimited.may_try(ip("10.0.0.1"), "u", now));
    }
}
