//! `network`: interfaces with their addresses, routes and leases.

use std::time::Duration;

use kelson_api::client::Client;
use kelson_proto::v1::{
    Advertised, AdvertisedName, LeasedItem, Link, LinkAddress, LinkRoute, NetworkLease, NetworkLease6,
    NetworkRequest,
};

use super::looking::gather;
use crate::call::{Call, Run};
use crate::failure::Failure;
use crate::output::time::{duration, relative};
use crate::output::{Page, Table, Tone, or_dash, some, toned, views};
use crate::watching::Watching;

/// Show interfaces, addresses and leases
///
/// Examples:
///   kelsonctl network
///   kelsonctl network eth0 -o json | jq '.[].lease'
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(flatten)]
    pub watching: Watching,
    /// Only these interfaces
    #[arg(value_name = "INTERFACE")]
    names: Vec<String>,
}

views! {
    // `lease`: null where it has none by DHCP, and `lease6` none by DHCPv6. `valid`: how long the kernel keeps the address, null without an end.
    Link: link {
        index, name, hardware: some(&link.hardware), up, running, mtu, addresses, routes, lease, lease6, advertised,
    }
    LinkAddress: address {
        address, origin, valid_ms: address.valid, tentative,
    }
    LinkRoute: route {
        destination, gateway: some(&route.gateway), metric, origin: some(&route.origin),
    }
    // What routers say about names.
    Advertised: advertised {
        name_servers, search,
    }
    // The time that is left; null without an end.
    AdvertisedName: advertised {
        name, ends_in_ms: advertised.end,
    }
    // The times that are left; null where the lease has no end.
    NetworkLease: lease {
        address, server, renews_in_ms: lease.renew, rebinds_in_ms: lease.rebind, ends_in_ms: lease.end, routes,
        name_servers, search, mtu, host_name: some(&lease.host_name), ntp_servers,
    }
    // The times that are left; null: without an end.
    NetworkLease6: lease {
        server, renews_in_ms: lease.renew, rebinds_in_ms: lease.rebind, addresses, prefixes, name_servers, search,
    }
    LeasedItem: item {
        address, preferred_ms: item.preferred, ends_in_ms: item.end,
    }
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let mut links = ask(&call.client()?).await?;
        if let Some(name) = self.names.iter().find(|name| links.iter().all(|link| link.name != **name)) {
            let known: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
            let text = format!("there is no interface {name}; there are {}", known.join(", "));
            return Err(Failure::Failed(text));
        }
        links.retain(|link| self.names.is_empty() || self.names.contains(&link.name));
        call.show(&links, || Page::Table(table(&links)))
    }
}

/// All interfaces of the host.
pub async fn ask(client: &Client) -> Result<Vec<Link>, Failure> {
    gather(client.inspect().network(NetworkRequest {}), |page| page.links).await
}

/// A line of the table: an address of an interface, or an interface without one.
struct Line<'a> {
    link: &'a Link,
    /// The first line of its interface.
    first: bool,
    address: Option<&'a LinkAddress>,
}

impl Line<'_> {
    /// The server that has given this address, and when it is asked for more time.
    fn lease(&self) -> Option<(&str, Option<&prost_types::Duration>)> {
        let own = &self.address?.address;
        let four = self.link.lease.as_ref().filter(|lease| lease.address == *own);
        let six = self.link.lease6.as_ref();
        let six = six.filter(|lease| lease.addresses.iter().any(|item| item.address == *own));
        four.map(|lease| (lease.server.as_str(), lease.renew.as_ref()))
            .or_else(|| six.map(|lease| (lease.server.as_str(), lease.renew.as_ref())))
    }

    fn state(&self) -> (Tone, &'static str) {
        match (self.link.up, self.link.running) {
            (_, true) => (Tone::Good, "up"),
            (true, false) => (Tone::Waiting, "no carrier"),
            (false, false) => (Tone::Plain, "down"),
        }
    }

    fn gateway(&self) -> &str {
        let default = self.link.routes.iter().find(|route| {
            let same = |address: &LinkAddress| address.address.contains(':') == route.gateway.contains(':');
            route.destination == "default" && self.address.is_some_and(same)
        });
        default.map_or("", |route| route.gateway.as_str())
    }
}

fn table(links: &[Link]) -> Table {
    let lines = links.iter().flat_map(|link| {
        let addresses = link.addresses.iter().map(Some).chain(link.addresses.is_empty().then_some(None));
        addresses.enumerate().map(move |(number, address)| Line { link, first: number == 0, address })
    });
    let left = |time: Option<&prost_types::Duration>| time.map(|time| in_words(duration(time)));
    Table::of(lines.collect::<Vec<_>>())
        .left("NAME", |line| if line.first { line.link.name.as_str() } else { "" })
        .left("STATE", |line| if line.first { toned(line.state().0, line.state().1) } else { "".into() })
        .left("ADDRESS", |line| or_dash(line.address.map(|address| address.address.as_str())))
        .left("ORIGIN", |line| or_dash(line.address.map(|address| address.origin.as_str())))
        .left("GATEWAY", |line| or_dash(some(line.gateway())))
        .left("SERVER", |line| or_dash(line.lease().map(|(server, _)| server)))
        .left("RENEWS", |line| or_dash(line.lease().and_then(|(_, renew)| left(renew))))
        .left("ENDS", |line| or_dash(line.address.and_then(|address| left(address.valid.as_ref()))))
        .into()
}

fn in_words(time: Duration) -> String {
    format!("in {}", relative(time))
}
