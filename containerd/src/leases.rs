//! Leases: what one holds is not taken by garbage collection.

use std::collections::HashMap;

use api::leases_client::LeasesClient;
use containerd_client::services::v1 as api;

use crate::{Containerd, PROMPT, Result, SLOW, call, found, there};

/// What a lease can hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource<'a> {
    Content(&'a str),
    Snapshot { snapshotter: &'a str, name: &'a str },
}

impl Containerd {
    fn leases(&self) -> LeasesClient<tonic::transport::Channel> {
        LeasesClient::new(self.channel.clone())
    }

    pub async fn make_lease(&self, id: &str) -> Result<()> {
        // It never expires: containerd would go by the wall clock, which may leap by years when the host's time is set.
        // A lease whose owner is dead is ended by the next unpack.
        let labels = HashMap::new();
        let request = self.request(api::CreateRequest { id: id.to_owned(), labels });
        there(call("Leases.Create", PROMPT, self.leases().create(request)).await).map(drop)
    }

    pub async fn end_lease(&self, id: &str) -> Result<()> {
        let request = self.request(api::DeleteRequest { id: id.to_owned(), sync: false });
        found(call("Leases.Delete", SLOW, self.leases().delete(request)).await).map(drop)
    }

    /// The leases whose names begin so.
    pub async fn leases_named(&self, prefix: &str) -> Result<Vec<String>> {
        let request = self.request(api::ListRequest::default());
        let leases = call("Leases.List", PROMPT, self.leases().list(request)).await?.leases;
        Ok(leases.into_iter().map(|lease| lease.id).filter(|id| id.starts_with(prefix)).collect())
    }

    /// Takes hold of something, whether it is there or not: so that it stays if it is.
    pub async fn hold(&self, lease: &str, resource: Resource<'_>) -> Result<()> {
        let (id, kind) = match resource {
            Resource::Content(digest) => (digest.to_owned(), String::from("content")),
            Resource::Snapshot { snapshotter, name } => (name.to_owned(), format!("snapshots/{snapshotter}")),
        };
        let resource = Some(api::Resource { id, r#type: kind });
        let request = self.request(api::AddResourceRequest { id: lease.to_owned(), resource });
        there(call("Leases.AddResource", PROMPT, self.leases().add_resource(request)).await).map(drop)
    }
}
