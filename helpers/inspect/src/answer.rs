//! Saying what was found: pages of a bounded size, and at the end that it was all.

use std::io::{self, Write};

use prost::Message;

use kelson_helper::inspect::{FRAME_MAX, Kind, frame};
use kelson_spec::quote::error_text;

/// A page is sent once it has this many bytes: no entry of it is as long as three of that.
const PAGE: usize = FRAME_MAX / 4;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Unanswered {
    #[error("{0}")]
    Missing(String),
    #[error("{0}")]
    Unfit(String),
    #[error("{0}")]
    Failed(String),
    /// Nobody listens any more.
    #[error("the answer cannot be sent: {0}")]
    Gone(#[from] io::Error),
}

impl Unanswered {
    /// Something of the system's own, which is there wherever Kelson runs.
    pub fn reading(what: impl std::fmt::Display, error: &io::Error) -> Unanswered {
        Unanswered::Failed(format!("{what} cannot be read: {}", error_text(error)))
    }

    /// A path that somebody asked for.
    pub fn path(path: &str, error: &io::Error) -> Unanswered {
        let sentence = format!("{path:?}: {}", error_text(error));
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Unanswered::Missing(sentence),
            _ => Unanswered::Failed(sentence),
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Unanswered::Missing(_) => Kind::Missing,
            Unanswered::Unfit(_) => Kind::Unfit,
            Unanswered::Failed(_) | Unanswered::Gone(_) => Kind::Failed,
        }
    }
}

/// Where the answer goes.
pub struct Answer<'a>(&'a mut dyn Write);

impl<'a> Answer<'a> {
    pub fn new(to: &'a mut dyn Write) -> Self {
        Answer(to)
    }

    /// # Errors
    /// When nobody listens any more.
    pub fn message(&mut self, message: &impl Message) -> io::Result<()> {
        self.0.write_all(&frame(Kind::Message, &message.encode_to_vec()))
    }

    /// Sends entries in pages; there is one also where there is no entry.
    ///
    /// # Errors
    /// When nobody listens any more.
    pub fn pages<T: Message, P: Message>(
        &mut self,
        entries: impl IntoIterator<Item = T>,
        page: impl Fn(Vec<T>) -> P,
    ) -> io::Result<()> {
        let (mut full, mut size, mut sent) = (Vec::new(), 0_usize, false);
        for entry in entries {
            size = size.saturating_add(entry.encoded_len());
            full.push(entry);
            if size >= PAGE {
                self.message(&page(std::mem::take(&mut full)))?;
                (size, sent) = (0, true);
            }
        }
        if !sent || !full.is_empty() {
            self.message(&page(full))?;
        }
        Ok(())
    }

    /// The last frame.
    ///
    /// # Errors
    /// When nobody listens any more.
    pub fn end(&mut self, result: Result<(), Unanswered>) -> io::Result<()> {
        match result {
            Ok(()) => self.0.write_all(&frame(Kind::End, &[])),
            Err(why) => self.0.write_all(&frame(why.kind(), why.to_string().as_bytes())),
        }
    }
}

#[cfg(test)]
pub mod testing {
    use super::*;
    use kelson_helper::answer::{HEADER, length};
    use kelson_helper::inspect::content;

    /// The messages of an answer that was whole.
    pub fn messages<M: Message + Default>(
        say: impl FnOnce(&mut Answer<'_>) -> Result<(), Unanswered>,
    ) -> Result<Vec<M>, Unanswered> {
        let mut bytes = Vec::new();
        say(&mut Answer::new(&mut bytes))?;
        let mut rest = bytes.as_slice();
        let mut messages = Vec::new();
        while !rest.is_empty() {
            let (head, after) = rest.split_at(HEADER);
            let (body, after) = after.split_at(length(head.try_into().unwrap(), FRAME_MAX + 1).unwrap());
            let (kind, message) = content(body).unwrap();
            assert_eq!(kind, Kind::Message);
            messages.push(M::decode(message).unwrap());
            rest = after;
        }
        Ok(messages)
    }
}

#[cfg(test)]
mod tests {
    use kelson_proto::v1;

    use super::*;

    #[test]
    fn pages_are_bounded_and_there_is_always_one() {
        let page = |mounts| v1::MountsResponse { mounts };
        let none: Vec<v1::MountsResponse> =
            testing::messages(|answer| Ok(answer.pages(Vec::<v1::Mount>::new(), page)?)).unwrap();
        assert_eq!(none, [v1::MountsResponse::default()]);
        let mount = v1::Mount { source: "x".repeat(1000), ..Default::default() };
        let all = vec![mount; 200];
        let pages: Vec<v1::MountsResponse> =
            testing::messages(|answer| Ok(answer.pages(all.clone(), page)?)).unwrap();
        assert!(pages.len() > 5 && pages.iter().all(|page| page.encoded_len() < 2 * PAGE));
        assert_eq!(pages.into_iter().flat_map(|page| page.mounts).count(), 200);
    }

    #[test]
    fn a_path_that_is_not_there_is_told_apart() {
        let none = Unanswered::path("/x\n", &io::Error::from_raw_os_error(libc::ENOENT));
        assert_eq!(
            (none.kind(), none.to_string()),
            (Kind::Missing, "\"/x\\n\": No such file or directory".into())
        );
        let broken = Unanswered::path("/x", &io::Error::from_raw_os_error(libc::EIO));
        assert_eq!(broken.kind(), Kind::Failed);
    }
}
