//! Limits before and during a login: failed logins by address and by role, and connections by
//! address. The memory is bounded, whatever clients send.

mod connections;
mod failures;

pub use connections::ConnectionPlace;
pub(crate) use connections::ConnectionsByAddress;
pub(crate) use failures::FailedLogins;

use std::net::IpAddr;

/// The address that counts for limits. All addresses of an IPv6 network of 64 bits count as one
/// address, because one client can use all of them.
fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
    }
}
