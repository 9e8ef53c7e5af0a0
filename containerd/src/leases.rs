//! Leases: what one holds is not taken by garbage collection.

use containerd_client::services::v1 as api;

use crate::{Containerd, Result, found, there};

/// Label with the time at which a lease ends by itself.
const EXPIRE: &str = "containerd.io/gc.expire";

/// An object that a lease can hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource<'a> {
    Content(&'a str),
    Snapshot { snapshotter: &'a str, name: &'a str },
}

impl Containerd {
    /// A lease that ends by itself at the time `expires`, as containerd's wall clock tells it.
    pub async fn make_lease(&self, id: &str, expires: Option<String>) -> Result<()> {
        let labels = expires.map(|time| (EXPIRE.to_owned(), time)).into_iter().collect();
        there(self.call(api::CreateRequest { id: id.to_owned(), labels }).await).map(drop)
    }

    pub async fn end_lease(&self, id: &str) -> Result<()> {
        found(self.call(api::DeleteRequest { id: id.to_owned(), sync: false }).await).map(drop)
    }

    /// The leases whose names begin so.
    pub async fn leases_named(&self, prefix: &str) -> Result<Vec<String>> {
        let leases = self.call(api::ListRequest::default()).await?.leases;
        Ok(leases.into_iter().map(|lease| lease.id).filter(|id| id.starts_with(prefix)).collect())
    }

    /// Takes hold of something, whether it is there or not: so that it stays if it is.
    pub async fn hold(&self, lease: &str, resource: Resource<'_>) -> Result<()> {
        let (id, kind) = match resource {
            Resource::Content(digest) => (digest.to_owned(), String::from("content")),
            Resource::Snapshot { snapshotter, name } => (name.to_owned(), format!("snapshots/{snapshotter}")),
        };
        let resource = Some(api::Resource { id, r#type: kind });
        there(self.call(api::AddResourceRequest { id: lease.to_owned(), resource }).await).map(drop)
    }
}
