//! Where a broker is, in the words of the user and of the cluster.

use std::{fmt, net::Ipv6Addr, str::FromStr};

/// Host and port of a broker, as the user or the cluster named it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// A name or an IP address (IPv6 without brackets).
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    /// Reads `host:port`, `[v6]:port` or a bare host, which means port 9092.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (host, port) = split(text).ok_or_else(|| format!("{text:?} is not HOST:PORT"))?;
        let port = match port {
            None => 9092,
            Some(digits) => digits
                .parse()
                .ok()
                .filter(|&port| port != 0 && !digits.starts_with('+'))
                .ok_or_else(|| format!("{digits:?} in {text:?} is not a port (1 to 65535)"))?,
        };
        match may_be_host(host) {
            true => Ok(Self { host: host.to_owned(), port }),
            false if host.contains(';') => {
                Err(format!("{text:?} is not HOST:PORT; several brokers are separated by commas"))
            }
            false => Err(format!("{text:?} is not HOST:PORT")),
        }
    }
}

/// What is certainly no name and no address need not be looked up, which may take its time. A zone stands behind a `%`.
fn may_be_host(host: &str) -> bool {
    if host.contains(':') {
        let address = host.split_once('%').map_or(host, |(address, _)| address);
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    host.split('.').all(|label| !label.is_empty())
        && host.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_'))
}

fn split(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, tail) = rest.split_once(']').filter(|(host, _)| host.contains(':'))?;
        return match tail {
            "" => Some((host, None)),
            _ => Some((host, Some(tail.strip_prefix(':')?))),
        };
    }
    match text.split_once(':') {
        Some((_, tail)) if tail.contains(':') => Some((text, None)), // a bare IPv6 address
        Some((host, port)) => Some((host, Some(port))),
        None => Some((text, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for (text, host, port, back) in [
            ("localhost:9092", "localhost", 9092, "localhost:9092"),
            ("broker", "broker", 9092, "broker:9092"),
            ("[::1]:19092", "::1", 19092, "[::1]:19092"),
            ("fe80::1", "fe80::1", 9092, "[fe80::1]:9092"),
            ("fe80::1%eth0", "fe80::1%eth0", 9092, "[fe80::1%eth0]:9092"),
            ("kafka_1.example.:1", "kafka_1.example.", 1, "kafka_1.example.:1"),
            (" 10.0.0.1:1 ", "10.0.0.1", 1, "10.0.0.1:1"),
        ] {
            let address: Address = text.parse().expect(text);
            assert_eq!((address.host.as_str(), address.port), (host, port));
            assert_eq!(address.to_string(), back);
        }
    }

    #[test]
    fn bad_addresses_are_named() {
        for text in [
            "",
            ":9092",
            "host:",
            "host:0",
            "host:65536",
            "host:x",
            "host:+1",
            "http://host:80",
            "a b:1",
            "[::1]x",
            "*:9",
            "a..b:9",
            "user@host:9",
            "a:b:9",
            "[host]:9",
            "::1;::2",
        ] {
            let error = text.parse::<Address>().expect_err(text);
            assert!(error.contains(&format!("{:?}", text.trim())) || error.contains("port"), "{error}");
        }
        let error = "kafka:1;kafka:2".parse::<Address>().expect_err("two");
        assert!(error.contains("commas"), "{error}");
    }
}
