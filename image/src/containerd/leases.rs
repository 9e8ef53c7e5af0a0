//! Leases: what one holds is not taken by garbage collection.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use api::leases_client::LeasesClient;
use containerd_client::services::v1 as api;

use super::{Containerd, PROMPT, Result, SLOW, call, found, there};

/// Ends a lease by itself, whatever becomes of its owner.
const EXPIRE: &str = "containerd.io/gc.expire";
/// Longer than any unpack.
const LIFE: Duration = Duration::from_secs(24 * 60 * 60);

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
        let end = SystemTime::now().checked_add(LIFE).unwrap_or(UNIX_EPOCH);
        let labels = HashMap::from([(EXPIRE.to_owned(), rfc3339(end))]);
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

/// A time as containerd reads it in labels.
fn rfc3339(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    prost_types::Timestamp { seconds: i64::try_from(seconds).unwrap_or(0), nanos: 0 }.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_containerd_reads_it() {
        let time = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        assert_eq!(rfc3339(time), "2023-11-14T22:13:20Z");
    }
}
