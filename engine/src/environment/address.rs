//! [`Address`]: a host and a port, not yet resolved.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Where a rank listens. The host is a name or an IP address; resolving it is the rendezvous's business.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Name or IP address (IPv6 without brackets).
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Address {
    /// A port of this host's loopback interface.
    pub fn loopback(port: u16) -> Self {
        Address { host: "127.0.0.1".to_owned(), port }
    }

    /// Whether the host can only be the one that reads it.
    pub fn is_loopback(&self) -> bool {
        let is_loopback = |ip: IpAddr| ip.to_canonical().is_loopback();
        self.host.eq_ignore_ascii_case("localhost") || self.host.parse().is_ok_and(is_loopback)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A text that is no [`Address`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no address; expected HOST:PORT such as node1:4000, 10.0.0.1:4000 or [fe80::1]:4000")]
pub struct NotAnAddress(pub String);

impl FromStr for Address {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        parse(text.trim()).ok_or_else(|| NotAnAddress(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Address> {
    let (host, port) = text.rsplit_once(':')?;
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = match bracketed {
        Some(host) => host,
        None if host.contains([':', '[', ']']) => return None,
        None => host,
    };
    let is_host = !host.is_empty() && !host.contains(char::is_whitespace);
    let port = port.parse().ok().filter(|&port| port != 0)?;
    is_host.then(|| Address { host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_both_kinds_of_ip() {
        for text in ["node1:4000", "10.0.0.1:1", "[fe80::1]:65535"] {
            assert_eq!(text.parse::<Address>().map(|address| address.to_string()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn refuses_what_is_no_host_and_port() {
        for text in
            ["", "node1", ":4000", "node1:0", "node1:65536", "fe80::1:4000", "[fe80::1]", "a b:1", "node1:-1"]
        {
            assert_eq!(text.parse::<Address>(), Err(NotAnAddress(text.to_owned())), "{text}");
        }
    }
}
