//! `netstat`: who waits for connections, and who has some.

use kelson_api::client::Client;
use kelson_proto::v1::{Socket, SocketHolder, SocketsRequest};

use super::looking::{gather, known};
use crate::call::{Call, Run};
use crate::failure::Failure;
use crate::output::{Page, Table, Tone, or_dash, some, toned, views};
use crate::watching::Watching;

/// Show the sockets on which services listen
///
/// Examples:
///   kelsonctl netstat
///   kelsonctl netstat --connections web
///   kelsonctl netstat -o json | jq -r '.[] | select(.protocol == "tcp").local'
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Include connections
    #[arg(short, long)]
    connections: bool,
    #[command(flatten)]
    pub watching: Watching,
    /// Only those of these services
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

views! {
    // `protocol`: tcp, tcp6, udp, udp6, unix. `remote`: null where it is connected to nobody.
    Socket: socket {
        protocol, local, remote: some(&socket.remote), state, uid, receive_queue, send_queue, inode,
        processes: socket.holders,
    }
    SocketHolder: holder { pid, name, service: some(&holder.service) }
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let client = call.client()?;
        let Arguments { connections, names, .. } = self;
        let mut sockets = ask(&client, connections).await?;
        let holds = |socket: &Socket, name: &str| socket.holders.iter().any(|holder| holder.service == name);
        known(&client, &names, |name| sockets.iter().any(|socket| holds(socket, name))).await?;
        sockets.retain(|socket| names.is_empty() || names.iter().any(|name| holds(socket, name)));
        call.show(&sockets, || Page::Table(table(&sockets)))
    }
}

/// The sockets of the host, those of a service together and those of none last.
pub async fn ask(client: &Client, connections: bool) -> Result<Vec<Socket>, Failure> {
    let request = SocketsRequest { connections };
    let mut sockets = gather(client.inspect().sockets(request), |page| page.sockets).await?;
    sockets.sort_by_cached_key(|socket| {
        let services = services(socket);
        let place = (socket.protocol.clone(), socket.local.clone(), socket.remote.clone(), socket.inode);
        (services.is_empty(), services, place)
    });
    Ok(sockets)
}

/// The services that hold it, each once.
fn services(socket: &Socket) -> Vec<String> {
    let held = socket.holders.iter().map(|holder| holder.service.clone());
    let mut services: Vec<String> = held.filter(|service| !service.is_empty()).collect();
    services.sort_unstable();
    services.dedup();
    services
}

fn table(sockets: &[Socket]) -> Table {
    let processes = |socket: &Socket| {
        let each = socket.holders.iter().map(|holder| format!("{} ({})", holder.name, holder.pid));
        each.collect::<Vec<_>>().join(", ")
    };
    let tone = |state: &str| if state == "LISTEN" { Tone::Good } else { Tone::Plain };
    Table::of(sockets)
        .left("PROTOCOL", |socket| &socket.protocol)
        .left("LOCAL", |socket| &socket.local)
        .left("REMOTE", |socket| or_dash(some(&socket.remote)))
        .left("STATE", |socket| toned(tone(&socket.state), &socket.state))
        .spare(1)
        .left("PROCESS", |socket| or_dash(some(&processes(socket))))
        .left("SERVICE", |socket| or_dash(some(&services(socket).join(", "))))
        .into()
}
