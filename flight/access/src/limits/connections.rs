//! The limit of connections by address.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use parking_lot::Mutex;
use stratalog_model::{Error, ErrorKind, Result};

use super::counted;

/// Counts the open connections of each address. The number of entries is at most the number of
/// open connections.
#[derive(Debug)]
pub(crate) struct ConnectionsByAddress {
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
    max: usize,
}

/// The place of a connection within the limit of its address. Dropping this value frees the place.
#[derive(Debug)]
pub struct ConnectionPlace {
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
    address: IpAddr,
}

impl ConnectionsByAddress {
    /// Creates the counters; `max` is the maximum for one address, 0 for no limit.
    pub(crate) fn new(max: usize) -> Self {
        Self { open: Arc::default(), max }
    }

    /// Takes a place for a new connection.
    ///
    /// # Errors
    /// `TooManyConnections`.
    pub(crate) fn enter(&self, address: IpAddr) -> Result<ConnectionPlace> {
        let address = counted(address);
        let mut open = self.open.lock();
        let count = open.entry(address).or_default();
        if self.max > 0 && *count >= self.max {
            return Err(Error::new(
                ErrorKind::TooManyConnections,
                format!("sorry, too many connections from one address already ({})", self.max),
            )
            .with_hint("close connections, use a pool, or raise connections_per_address_max"));
        }
        *count += 1;
        Ok(ConnectionPlace { open: Arc::clone(&self.open), address })
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        if let Some(count) = open.get_mut(&self.address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_an_address_are_limited_and_come_back() {
        let limit = ConnectionsByAddress::new(2);
        let one: IpAddr = "10.0.0.1".parse().unwrap();
        let (first, _second) = (limit.enter(one).unwrap(), limit.enter(one).unwrap());
        assert_eq!(limit.enter(one).unwrap_err().kind(), ErrorKind::TooManyConnections);
        // The same address in IPv6 form.
        assert!(limit.enter("::ffff:10.0.0.1".parse().unwrap()).is_err());
        let other = limit.enter("10.0.0.2".parse().unwrap()).unwrap();
        drop((first, other));
        assert!(limit.enter(one).is_ok());
        assert_eq!(limit.open.lock().len(), 1);
    }

    #[test]
    fn a_network_of_64_bits_is_one_address() {
        let limit = ConnectionsByAddress::new(1);
        let _first = limit.enter("2001:db8::1".parse().unwrap()).unwrap();
        assert!(limit.enter("2001:db8::ffff:2".parse().unwrap()).is_err());
        assert!(limit.enter("2001:db8:0:1::1".parse().unwrap()).is_ok());
    }
}
