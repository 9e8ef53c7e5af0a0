//! The content store: blobs by their digests.

use std::collections::HashMap;

use api::content_client::ContentClient;
use containerd_client::services::v1 as api;
use prost_types::FieldMask;
use tonic::transport::Channel;

use crate::{CallError, Containerd, Result, found};

/// A blob that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub size: u64,
    pub labels: HashMap<String, String>,
}

impl Containerd {
    pub(crate) fn content(&self) -> ContentClient<Channel> {
        ContentClient::new(self.channel.clone())
    }

    /// The blob, if it is there and whole.
    pub async fn blob(&self, digest: &str) -> Result<Option<Stored>> {
        let answer = found(self.call(api::InfoRequest { digest: digest.to_owned() }).await)?;
        Ok(answer
            .and_then(|answer| answer.info)
            .map(|info| Stored { size: u64::try_from(info.size).unwrap_or(0), labels: info.labels }))
    }

    /// The bytes of a blob; one of more than `most` is refused.
    pub async fn read_blob(&self, digest: &str, most: usize) -> Result<Option<Vec<u8>>> {
        let message = api::ReadContentRequest { digest: digest.to_owned(), ..Default::default() };
        let path = "/containerd.services.content.v1.Content/Read";
        let read = self.timed(path, self.deadlines.records, async {
            let mut answers = self.content().read(self.request(message)).await?.into_inner();
            let mut bytes = Vec::new();
            while let Some(answer) = answers.message().await? {
                if bytes.len().saturating_add(answer.data.len()) > most {
                    return Ok(None);
                }
                bytes.extend(answer.data);
            }
            Ok(Some(bytes))
        });
        match found(read.await)? {
            Some(None) => Err(CallError::TooLarge { digest: digest.to_owned(), most }),
            other => Ok(other.flatten()),
        }
    }

    /// Gives a blob the labels that it has not.
    pub async fn label_blob(
        &self,
        digest: &str,
        has: &HashMap<String, String>,
        wanted: &HashMap<String, String>,
    ) -> Result<()> {
        let missing: HashMap<String, String> = wanted
            .iter()
            .filter(|(name, value)| has.get(*name) != Some(*value))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let paths = missing.keys().map(|name| format!("labels.{name}")).collect();
        let request = api::UpdateRequest {
            info: Some(api::Info { digest: digest.to_owned(), labels: missing, ..Default::default() }),
            update_mask: Some(FieldMask { paths }),
        };
        self.call(request).await.map(drop)
    }

    /// Removes what an earlier writer left half-written under this name.
    pub async fn abort_write(&self, name: &str) -> Result<()> {
        found(self.call(api::AbortRequest { r#ref: name.to_owned() }).await).map(drop)
    }
}
