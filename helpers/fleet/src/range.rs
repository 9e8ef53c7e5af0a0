//! Reads of many keys, part by part.

use etcd_client::{Error, GetOptions, KeyValue, KvClient};
use tonic::Code;

use crate::key::{Key, after, end_of};

/// The most entries of one read.
const READ_MAX: usize = 100;
/// The most entries of a page.
const PAGE_MAX: usize = 500;

/// The entries of a prefix after `folder` and `name`, and whether there may be more. Keys that are none are skipped.
///
/// # Errors
/// See [`Error`].
pub async fn read<T>(
    reader: &mut KvClient,
    prefix: &str,
    (folder, name): (&str, &str),
    limit: u32,
    parse: impl Fn(&KeyValue) -> Option<T>,
) -> Result<(Vec<T>, bool), Error> {
    let limit = limit_of(limit);
    let mut from = prefix.as_bytes().to_vec();
    if !name.is_empty() {
        from = from.max(after(format!("{folder}{name}")));
    }
    let (mut range, mut found) = (Range::new(from, end_of(prefix)), Vec::new());
    while !range.is_over() {
        let (values, _) = range.part(reader, limit.saturating_sub(found.len())).await?;
        found.extend(values.iter().filter_map(&parse));
        if found.len() >= limit {
            return Ok((found, !range.is_over()));
        }
    }
    Ok((found, false))
}

/// The entries of a page.
pub fn limit_of(asked: u32) -> usize {
    usize::try_from(asked).ok().filter(|limit| (1..=PAGE_MAX).contains(limit)).unwrap_or(PAGE_MAX)
}

/// The keys from one on, in their order, until another.
pub struct Range {
    from: Key,
    end: Key,
    at_once: usize,
    /// The revision that is read. `None`: each part is as the store is then.
    revision: Option<i64>,
}

impl Range {
    pub fn new(from: Key, end: Key) -> Range {
        Range { from, end, at_once: READ_MAX, revision: None }
    }

    /// Nothing is left.
    pub fn is_over(&self) -> bool {
        self.from >= self.end
    }

    /// Reads all parts at the revision of the first one, which is returned.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn at_once(
        mut self,
        reader: &mut KvClient,
        mut take: impl FnMut(Vec<KeyValue>),
    ) -> Result<i64, Error> {
        loop {
            let (values, revision) = self.part(reader, READ_MAX).await?;
            self.revision = Some(revision);
            take(values);
            if self.is_over() {
                return Ok(revision);
            }
        }
    }

    /// The next part, with at most `most` values, and its revision.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn part(&mut self, reader: &mut KvClient, most: usize) -> Result<(Vec<KeyValue>, i64), Error> {
        loop {
            let count = self.at_once.min(most);
            let limit = i64::try_from(count).unwrap_or(1);
            let options = GetOptions::new().with_range(self.end.clone()).with_limit(limit);
            let options = options.with_revision(self.revision.unwrap_or_default());
            let mut answer = match reader.get(self.from.clone(), Some(options)).await {
                // The values of others may be long.
                Err(Error::GRpcStatus(status)) if status.code() == Code::OutOfRange && self.at_once > 1 => {
                    self.at_once = self.at_once.div_euclid(2);
                    continue;
                }
                answer => answer?,
            };
            let (more, values) = (answer.more(), answer.take_kvs());
            self.from = match values.last().filter(|_| more) {
                Some(last) => after(last.key()),
                None => self.end.clone(),
            };
            let revision = answer.header().map(|header| header.revision()).unwrap_or_default();
            return Ok((values, revision));
        }
    }
}
