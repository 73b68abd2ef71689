//! The SSRF guard: requests to URLs that a model or fetched content chose never reach a private address.
//!
//! Host names are checked by the addresses to which they resolve, in the resolver of the connection itself,
//! so that no second lookup can return other addresses. Redirects are checked the same way. Literal addresses
//! do not pass the resolver and are checked in the URL.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::error::{Error, ErrorKind};

/// A refusal of the guard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{host}` is {address}, {what}")]
pub(crate) struct BlockedHost {
    host: String,
    address: IpAddr,
    what: &'static str,
}

/// The error of a redirect to a host that is not in [`AllowedHosts`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not among the allowed hosts")]
pub(crate) struct ForeignRedirect(pub(crate) String);

/// An exhaustive list of hosts: host names (`*.` as a prefix matches all names below), addresses, and
/// networks such as `10.0.0.0/8`. Ports are ignored. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AllowedHosts {
    list: Arc<AllowList>,
    /// The entries as written; two lists are equal if these are.
    pub(crate) entries: Arc<[String]>,
}

impl AllowedHosts {
    /// Parses a list.
    ///
    /// # Errors
    /// An entry is neither a host name nor a network.
    pub fn parse(entries: &[String]) -> Result<Self, Error> {
        Ok(Self {
            list: Arc::new(AllowList::parse(entries)?),
            entries: entries.into(),
        })
    }

    /// Returns a list with only the host of a URL; `None` if it has none.
    #[must_use]
    pub fn from_url(url: &Url) -> Option<Self> {
        Self::parse(&[url.host_str()?.to_owned()]).ok()
    }

    /// Returns the entries that are not host names: addresses, networks, and `localhost`.
    pub fn addresses(&self) -> impl Iterator<Item = String> {
        let is_address =
            |entry: &&String| network(entry.trim()).is_some() || entry.trim() == "localhost";
        self.entries.iter().filter(is_address).cloned()
    }

    /// True if the host of a URL is in the list. Host names are not resolved: networks match only hosts that
    /// are written as addresses.
    #[must_use]
    pub fn allows(&self, url: &Url) -> bool {
        let Some(host) = url.host_str() else {
            return false;
        };
        match without_brackets(host).parse::<IpAddr>() {
            Ok(address) => self.list.has_network_of(address),
            Err(_) => self.list.matches_host(host),
        }
    }
}

impl PartialEq for AllowedHosts {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl Eq for AllowedHosts {}

/// Removes the brackets of an IPv6 address.
pub(crate) fn without_brackets(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Private hosts and networks that the guard permits.
#[derive(Debug, Clone, Default)]
pub(crate) struct AllowList {
    hosts: Vec<String>,
    networks: Vec<IpNet>,
}

impl AllowList {
    /// Parses host names (`*.` as a prefix matches all names below), addresses, and networks such as
    /// `10.0.0.0/8`.
    pub(crate) fn parse(entries: &[String]) -> Result<Self, Error> {
        let mut list = Self::default();
        for entry in entries {
            let entry = entry.trim();
            if let Some(network) = network(entry) {
                list.networks.push(network);
            } else if is_host_name(entry.strip_prefix("*.").unwrap_or(entry)) {
                list.hosts
                    .push(entry.trim_end_matches('.').to_ascii_lowercase());
            } else {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    format!(
                        "`{entry}` in the list of allowed hosts is neither a host name nor a network; write for example `internal.example`, `*.example`, `10.1.2.3` or `10.0.0.0/8`"
                    ),
                ));
            }
        }
        Ok(list)
    }

    fn has_network_of(&self, address: IpAddr) -> bool {
        // The same address may be written as an IPv6 one (`::ffff:10.0.0.1`), and networks of IPv4 do not contain that.
        let address = address.to_canonical();
        self.networks
            .iter()
            .any(|network| network.contains(&address))
    }

    fn matches_host(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.hosts
            .iter()
            .any(|entry| match entry.strip_prefix("*.") {
                Some(parent) => host
                    .strip_suffix(parent)
                    .is_some_and(|below| below.ends_with('.')),
                None => *entry == host,
            })
    }

    /// Checks if `host`, which has these addresses, may be connected to. A single private address among
    /// public ones causes a refusal, because the connection may use any of them.
    pub(crate) fn check(
        &self,
        host: &str,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Result<(), BlockedHost> {
        if self.matches_host(host) {
            return Ok(());
        }
        for address in addresses {
            if let (false, Some(what)) = (self.has_network_of(address), private_range(address)) {
                return Err(BlockedHost {
                    host: host.to_owned(),
                    address,
                    what,
                });
            }
        }
        Ok(())
    }

    /// Checks a URL whose host is an address. A URL with a host name is checked when the name is resolved.
    pub(crate) fn check_literal(&self, url: &Url) -> Result<(), BlockedHost> {
        let Some(host) = url.host_str() else {
            return Ok(());
        };
        match without_brackets(host).parse::<IpAddr>() {
            Ok(address) => self.check(host, [address]),
            Err(_) => Ok(()),
        }
    }
}

fn is_host_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 253
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Parses a network. An address without a number of bits is the network that contains only itself.
fn network(text: &str) -> Option<IpNet> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = without_brackets(address).parse().ok()?;
    match bits {
        Some(bits) => IpNet::new(address, bits).ok(),
        None => Some(address.into()),
    }
}

/// Describes why an address is reachable only from its own machine, network or cloud; `None` for addresses of
/// the public internet.
pub(crate) fn private_range(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => private_v4(address),
        IpAddr::V6(address) => private_v6(address),
    }
}

fn private_v4(address: Ipv4Addr) -> Option<&'static str> {
    const WIRE_SERVER: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);
    match address.octets() {
        _ if address.is_loopback() => Some("a loopback address"),
        _ if address.is_private() => Some("a private address"),
        _ if address.is_link_local() => Some("a link-local address"),
        [0, ..] => Some("an unspecified address"),
        [100, 64..=127, ..] => Some("a shared address of a carrier's network"),
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18..=19, ..] => Some("a reserved address"),
        _ if address.is_documentation() => Some("a documentation address"),
        _ if address.is_multicast() => Some("a multicast address"),
        [240..=255, ..] => Some("a reserved address"),
        _ if address == WIRE_SERVER => Some("a cloud's metadata address"),
        _ => None,
    }
}

fn private_v6(address: Ipv6Addr) -> Option<&'static str> {
    if let Some(inner) = address.to_ipv4_mapped() {
        return private_v4(inner);
    }
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("an unspecified address"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("a loopback address"),
        // The network's gateway translates these to the IPv4 address in the last 32 bits.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => private_v4(embedded(high, low)),
        [0x64, 0xff9b, ..] => Some("an address of a local translator"),
        // 6to4: the IPv4 address follows the prefix.
        [0x2002, high, low, ..] => private_v4(embedded(high, low)),
        [0xfc00..=0xfdff, ..] => Some("a unique local address"),
        [0xfe80..=0xfebf, ..] => Some("a link-local address"),
        [0xfec0..=0xfeff, ..] => Some("a site-local address"),
        [0xff00..=0xffff, ..] => Some("a multicast address"),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some("a documentation address"),
        [0x2001, 0..=0x1ff, ..] => Some("a reserved address"),
        // The only part of the address space from which public addresses are assigned. The last arm refuses the others.
        [0x2000..=0x3fff, ..] => None,
        _ => Some("a reserved address"),
    }
}

fn embedded(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

/// Resolves host names like the system, and refuses those that the guard does not permit.
pub(crate) struct GuardedResolver(pub(crate) Arc<AllowList>);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allow = Arc::clone(&self.0);
        Box::pin(async move {
            let host = name.as_str();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host, 0)).await?.collect();
            allow.check(host, found.iter().map(SocketAddr::ip))?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn private_addresses_of_every_range_are_recognized() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "4000::1",
        ] {
            assert!(private_range(address(text)).is_some(), "{text}");
        }
    }

    #[test]
    fn public_addresses_are_not_private() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "168.63.129.15",
            "2606:4700:4700::1111",
            "2001:4860:4860::8888",
            "2a00:1450::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
        ] {
            assert_eq!(private_range(address(text)), None, "{text}");
        }
    }

    #[test]
    fn one_private_address_refuses_the_host() {
        let list = AllowList::default();
        let refusal = list
            .check("h", [address("8.8.8.8"), address("10.0.0.1")])
            .unwrap_err();
        assert_eq!(refusal.to_string(), "`h` is 10.0.0.1, a private address");
        assert_eq!(
            list.check("h", [address("8.8.8.8"), address("1.1.1.1")]),
            Ok(())
        );
    }

    #[test]
    fn allow_list_matches_names_and_networks() {
        let entries = [
            "Intern.example.",
            "*.corp.example",
            "10.0.0.0/8",
            "fd00::/8",
            "192.168.1.7",
        ];
        let list = AllowList::parse(&entries.map(str::to_owned)).unwrap();
        let refused = |host, at| list.check(host, [address(at)]).is_err();
        assert!(!refused("intern.example", "127.0.0.1"));
        assert!(!refused("INTERN.example.", "127.0.0.1"));
        assert!(refused("x.intern.example", "127.0.0.1"));
        assert!(!refused("a.b.corp.example", "127.0.0.1"));
        assert!(refused("corp.example", "127.0.0.1"));
        assert!(refused("evilcorp.example", "127.0.0.1"));
        assert!(!refused("any", "10.9.8.7"));
        assert!(!refused("any", "::ffff:10.9.8.7"));
        assert!(!refused("any", "fdff::1"));
        assert!(!refused("any", "192.168.1.7"));
        assert!(refused("any", "192.168.1.8"));
        assert!(
            AllowList::parse(&["0.0.0.0/0".to_owned()])
                .unwrap()
                .check("h", [address("127.0.0.1")])
                .is_ok()
        );
    }

    #[test]
    fn list_of_hosts_is_exhaustive() {
        let entries = ["docs.example", "*.corp.example", "10.0.0.0/8", "::1"].map(str::to_owned);
        let list = AllowedHosts::parse(&entries).unwrap();
        let allows = |url: &str| list.allows(&Url::parse(url).unwrap());
        for url in [
            "https://docs.example/x?y",
            "http://DOCS.example.:8080/",
            "https://a.b.corp.example",
            "http://10.1.2.3/",
            "http://[::1]:9/",
        ] {
            assert!(allows(url), "{url}");
        }
        for url in [
            "https://evil.example/docs.example",
            "https://docs.example@evil.example/",
            "https://docs.example.evil.example/",
            "https://corp.example/",
            "http://11.0.0.1/",
            "data:text/plain,x",
        ] {
            assert!(!allows(url), "{url}");
        }
        let from_url = AllowedHosts::from_url(&Url::parse("http://[::1]/").unwrap()).unwrap();
        assert!(from_url.allows(&Url::parse("https://[::1]:1/").unwrap()));
    }

    #[test]
    fn invalid_allow_list_entry_is_an_error() {
        for entry in ["", "http://host", "10.0.0.0/33", "host:80", "a b", "*"] {
            let error = AllowList::parse(&[entry.to_owned()]).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Invalid, "{entry}");
        }
    }

    #[test]
    fn addresses_in_urls_are_checked_in_every_spelling() {
        let list = AllowList::default();
        for url in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0177.0.0.1/",
            "http://127.0.0.1./",
            "http://[::1]/",
            "http://[::ffff:7f00:1]/",
            "http://[64:ff9b::a9fe:a9fe]/",
            "http://①②⑦.0.0.1/",
        ] {
            assert!(
                list.check_literal(&Url::parse(url).unwrap()).is_err(),
                "{url}"
            );
        }
        for url in [
            "http://8.8.8.8/",
            "http://localhost/",
            "http://[2606:4700::1]/",
        ] {
            assert!(
                list.check_literal(&Url::parse(url).unwrap()).is_ok(),
                "{url}"
            );
        }
    }
}
