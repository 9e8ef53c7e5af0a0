//! The client of the command line: where a host is reached, the connection, and why it failed.
//!
//! Connections are made when the first call needs them. On the host the Logs service is reached on its own socket
//! (`log.sock` beside `init.sock`), from elsewhere all are reached through kelson-apid.

mod connect;
mod endpoint;
mod failure;
mod link;
#[cfg(feature = "tls")]
mod resolver;
#[cfg(feature = "tls")]
mod tls;

use std::net::IpAddr;
use std::time::Duration;

use kelson_proto::v1::configuration_client::ConfigurationClient;
use kelson_proto::v1::exec_client::ExecClient;
use kelson_proto::v1::fleet_client::FleetClient;
use kelson_proto::v1::health_client::HealthClient;
use kelson_proto::v1::images_client::ImagesClient;
use kelson_proto::v1::inspect_client::InspectClient;
use kelson_proto::v1::logs_client::LogsClient;
use kelson_proto::v1::machine_client::MachineClient;
use kelson_proto::v1::metrics_client::MetricsClient;
use kelson_proto::v1::secrets_client::SecretsClient;
use kelson_proto::v1::services_client::ServicesClient;
use kelson_proto::v1::timers_client::TimersClient;
use kelson_proto::v1::volumes_client::VolumesClient;
use tonic::codegen::http::Uri;

pub use endpoint::{Endpoint, EndpointError, PORT};
pub use failure::Failure;
pub use link::Link;
#[cfg(feature = "tls")]
pub use resolver::look_up;

/// For the connection to stand: it is either a few milliseconds or never.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest answer that is taken, in bytes.
const ANSWER_MAX: usize = 64 << 20;

/// The origin that a server expects; the link knows where a call goes.
fn origin() -> Uri {
    Uri::from_static("http://kelson")
}

/// The client's own certificate and the one that it trusts, as PEM.
#[derive(Clone)]
pub struct TlsMaterial {
    /// The certificate that must have signed the machine's.
    pub ca: Vec<u8>,
    /// Ours, with what stands between it and the CA.
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

impl std::fmt::Debug for TlsMaterial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsMaterial { .. }") // a key is nothing to print
    }
}

/// Finds the addresses of a name; it may take long.
pub type LookUp = fn(&str) -> std::io::Result<Vec<IpAddr>>;

/// The parameters of a connection to a host over the network.
#[derive(Debug, Clone, Copy)]
pub struct Remote<'a> {
    pub material: &'a TlsMaterial,
    /// As a rule `look_up`. It is handed in so that a program without remote endpoints, such as init, has no resolver.
    pub look_up: LookUp,
}

/// A host. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    init: Link,
    logs: Link,
}

impl Client {
    /// Prepares the connections; the first call makes them, and after a break the next call makes them again.
    /// A remote endpoint needs `remote`. Call it within a Tokio runtime.
    ///
    /// # Errors
    /// [`Failure::Failed`] when `remote` is missing or cannot be read.
    pub fn connect(endpoint: &Endpoint, remote: Option<Remote<'_>>) -> Result<Client, Failure> {
        match endpoint {
            Endpoint::Unix(path) => Ok(Client {
                init: connect::unix(path.clone()),
                logs: connect::unix(Endpoint::log_socket(path)),
            }),
            Endpoint::Vsock { cid, port } => Ok(Client {
                init: connect::vsock(*cid, *port),
                logs: connect::vsock(*cid, kelson_proto::call::vsock_log_port(*port)),
            }),
            Endpoint::Remote { host, port } => {
                let remote = remote.ok_or_else(|| {
                    Failure::Failed(format!(
                        "{endpoint} is reached with a CA, a client certificate and its key: name a file of contexts \
                         in KELSONCONFIG"
                    ))
                })?;
                let channel = connect::remote(host, *port, remote)?;
                Ok(Client { init: channel.clone(), logs: channel })
            }
        }
    }

    pub fn services(&self) -> ServicesClient<Link> {
        ServicesClient::with_origin(self.init.clone(), origin()).max_decoding_message_size(ANSWER_MAX)
    }

    pub fn machine(&self) -> MachineClient<Link> {
        MachineClient::with_origin(self.init.clone(), origin()).max_decoding_message_size(ANSWER_MAX)
    }

    pub fn configuration(&self) -> ConfigurationClient<Link> {
        ConfigurationClient::with_origin(self.init.clone(), origin()).max_decoding_message_size(ANSWER_MAX)
    }

    #[cfg(feature = "faults-client")]
    pub fn faults(&self) -> kelson_proto::test::v1::faults_client::FaultsClient<Link> {
        kelson_proto::test::v1::faults_client::FaultsClient::with_origin(self.init.clone(), origin())
    }

    pub fn secrets(&self) -> SecretsClient<Link> {
        SecretsClient::with_origin(self.init.clone(), origin()).max_decoding_message_size(ANSWER_MAX)
    }

    pub fn timers(&self) -> TimersClient<Link> {
        TimersClient::with_origin(self.init.clone(), origin()).max_decoding_message_size(ANSWER_MAX)
    }

    pub fn volumes(&self) -> VolumesClient<Link> {
        VolumesClient::with_origin(self.init.clone(), origin()).max_decoding_message_size(ANSWER_MAX)
    }

    pub fn fleet(&self) -> FleetClient<Link> {
        FleetClient::with_origin(self.init.clone(), origin()).max_decoding_message_size(ANSWER_MAX)
    }

    pub fn images(&self) -> ImagesClient<Link> {
        ImagesClient::with_origin(self.init.clone(), origin()).max_decoding_message_size(ANSWER_MAX)
    }

    pub fn inspect(&self) -> InspectClient<Link> {
        InspectClient::with_origin(self.init.clone(), origin()).max_decoding_message_size(ANSWER_MAX)
    }

    pub fn health(&self) -> HealthClient<Link> {
        HealthClient::with_origin(self.init.clone(), origin()).max_decoding_message_size(ANSWER_MAX)
    }

    pub fn exec(&self) -> ExecClient<Link> {
        ExecClient::with_origin(self.init.clone(), origin()).max_decoding_message_size(ANSWER_MAX)
    }

    pub fn metrics(&self) -> MetricsClient<Link> {
        MetricsClient::with_origin(self.init.clone(), origin()).max_decoding_message_size(ANSWER_MAX)
    }

    pub fn logs(&self) -> LogsClient<Link> {
        LogsClient::with_origin(self.logs.clone(), origin()).max_decoding_message_size(ANSWER_MAX)
    }
}
