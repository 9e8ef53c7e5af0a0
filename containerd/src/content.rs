//! The content store: blobs by their digests.

use std::collections::HashMap;

use api::content_client::ContentClient;
use containerd_client::services::v1 as api;
use prost_types::FieldMask;
use tonic::transport::Channel;

use crate::{CallError, Containerd, PROMPT, Result, SLOW, call, found};

/// A blob that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub size: u64,
    pub labels: HashMap<String, String>,
}

impl Containerd {
    pub(super) fn content(&self) -> ContentClient<Channel> {
        ContentClient::new(self.channel.clone())
    }

    /// The blob, if it is there and whole.
    pub async fn blob(&self, digest: &str) -> Result<Option<Stored>> {
        let request = self.request(api::InfoRequest { digest: digest.to_owned() });
        let answer = found(call("Content.Info", PROMPT, self.content().info(request)).await)?;
        Ok(answer
            .and_then(|answer| answer.info)
            .map(|info| Stored { size: u64::try_from(info.size).unwrap_or(0), labels: info.labels }))
    }

    /// The bytes of a blob; one of more than `most` is refused.
    pub async fn read_blob(&self, digest: &str, most: usize) -> Result<Option<Vec<u8>>> {
        let message = api::ReadContentRequest { digest: digest.to_owned(), ..Default::default() };
        let read = call("Content.Read", PROMPT, async {
            let mut answers = self.content().read(self.request(message)).await?.into_inner();
            let mut bytes = Vec::new();
            while let Some(answer) = answers.message().await? {
                if bytes.len().saturating_add(answer.data.len()) > most {
                    return Ok(tonic::Response::new(None));
                }
                bytes.extend(answer.data);
            }
            Ok(tonic::Response::new(Some(bytes)))
        });
        match found(read.await)? {
            Some(None) => {
                Err(CallError::Refused(format!("{digest} in containerd has more than {most} bytes")))
            }
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
        let request = self.request(api::UpdateRequest {
            info: Some(api::Info { digest: digest.to_owned(), labels: missing, ..Default::default() }),
            update_mask: Some(FieldMask { paths }),
        });
        call("Content.Update", PROMPT, self.content().update(request)).await.map(drop)
    }

    /// Removes what an earlier writer left half-written under this name.
    pub async fn abort_write(&self, name: &str) -> Result<()> {
        let request = self.request(api::AbortRequest { r#ref: name.to_owned() });
        found(call("Content.Abort", SLOW, self.content().abort(request)).await).map(drop)
    }
}
