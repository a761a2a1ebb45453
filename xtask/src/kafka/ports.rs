//! Free TCP ports for servers that are stopped and started again on the same port.

use crate::failure::{Result, fail};
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

/// `count` free ports of 127.0.0.1. They lie below those that the system hands to outgoing connections:
/// otherwise a client that reconnects while the server is down could be given the server's port, and talk to
/// itself.
pub(crate) fn free(count: usize) -> Result<Vec<u16>> {
    let range = range(outgoing_from());
    let start = RandomState::new().hash_one(0) as u16;
    let candidates =
        (0..range.len() as u16).map(|n| range.start + start.wrapping_add(n) % range.len() as u16);
    // Held together until all are found, so that no port comes twice.
    let held: Vec<_> = candidates.filter_map(listen).take(count).collect();
    let ports: Vec<u16> =
        held.iter().filter_map(|held| held.local_addr().ok()).map(|addr| addr.port()).collect();
    if ports.len() == count { Ok(ports) } else { fail("there are no free ports on 127.0.0.1") }
}

pub(crate) fn is_free(port: u16) -> bool {
    listen(port).is_some()
}

fn listen(port: u16) -> Option<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()
}

fn range(outgoing_from: u16) -> std::ops::Range<u16> {
    match outgoing_from {
        12_000.. => outgoing_from - 10_000..outgoing_from,
        _ => 20_000..30_000,
    }
}

/// Where the system's range for outgoing connections begins.
fn outgoing_from() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    range.split_whitespace().next().and_then(|port| port.parse().ok()).unwrap_or(32_768)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_distinct_and_below_the_outgoing_ones() {
        let ports = free(3).unwrap();
        assert!(ports.iter().all(|&port| port < outgoing_from().max(30_000)));
        assert!(ports[0] != ports[1] && ports[1] != ports[2] && ports[0] != ports[2]);
    }

    #[test]
    fn a_taken_port_is_not_free() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(!is_free(taken.local_addr().unwrap().port()));
    }

    #[test]
    fn a_range_is_always_there() {
        assert_eq!(range(32_768), 22_768..32_768);
        assert_eq!(range(1024), 20_000..30_000);
    }
}
