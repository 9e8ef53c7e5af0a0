//! The messages of a service while it waits for its image.

use std::time::Duration;

use kelson_image::{Progress, Pulled, Unpacked};
use kelson_sys::units;
use tokio::time::Instant;

/// A shorter unpack is reported once, at its end.
const TIMEOUT: Duration = Duration::from_millis(900);

/// The words for a piece of work.
pub struct Words {
    under_way: &'static str,
    done: &'static str,
    /// While nothing is known of the size.
    first: &'static str,
}

pub const UNPACKING: Words =
    Words { under_way: "unpacking", done: "unpacked", first: "reading the archives" };
pub const PULLING: Words = Words { under_way: "pulling", done: "pulled", first: "asking the registry" };

/// The messages of one unpack or one pull; none is repeated.
pub struct Messages {
    words: &'static Words,
    image: String,
    began: Instant,
    last: Progress,
    said: String,
}

impl Messages {
    pub fn new(words: &'static Words, image: &str) -> Messages {
        Messages {
            words,
            image: image.to_owned(),
            began: Instant::now(),
            last: Progress::default(),
            said: String::new(),
        }
    }

    /// It has not begun: as many others as there may be are under way.
    pub fn waits(&self) -> String {
        format!("image {} waits until another one is {}", self.image, self.words.done)
    }

    pub fn begin(&mut self) {
        self.began = Instant::now();
    }

    /// How far it is, where that is news.
    pub fn progress(&mut self, progress: Progress) -> Option<String> {
        self.last = progress;
        if self.began.elapsed() < TIMEOUT {
            return None;
        }
        let Progress { bytes_done, bytes_total, layer, layers } = progress;
        let how_far = if bytes_total == 0 {
            self.words.first.to_owned()
        } else {
            let layer = if layer == 0 { String::new() } else { format!(", layer {layer} of {layers}") };
            format!("{}{layer}", units::size_of(bytes_done, bytes_total))
        };
        let text = format!("{} {}: {how_far}", self.words.under_way, self.image);
        if text == self.said {
            return None;
        }
        text.clone_into(&mut self.said);
        Some(text)
    }

    /// How it ended well.
    pub fn end(&self, unpacked: &Unpacked) -> String {
        if unpacked.was_there {
            return format!("image {} was unpacked before", self.image);
        }
        let Progress { bytes_total, layers, .. } = self.last;
        let what = match (bytes_total, layers) {
            (0, _) => String::new(),
            (bytes, 1) => format!(" ({}, 1 layer)", units::size(bytes)),
            (bytes, layers) => format!(" ({}, {layers} layers)", units::size(bytes)),
        };
        format!("unpacked {}{what} in {}", self.image, units::duration(self.began.elapsed()))
    }

    /// How a pull ended well.
    pub fn pulled(&self, pulled: &Pulled) -> String {
        let Pulled { digest, before, bytes, signer, .. } = pulled;
        let image = &self.image;
        let signed = signer.as_ref().map(|signer| format!(", signed by {signer}")).unwrap_or_default();
        if before.as_ref() == Some(digest) && *bytes == 0 {
            return format!("image {image} is {digest} at the registry, as before{signed}");
        }
        let time = units::duration(self.began.elapsed());
        let bytes = units::size(*bytes);
        match before.as_ref().filter(|before| *before != digest) {
            Some(before) => format!("pulled {image} ({bytes}) in {time}: {digest}{signed}, before {before}"),
            None => format!("pulled {image} ({bytes}) in {time}: {digest}{signed}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn at(bytes_done: u64, bytes_total: u64, layer: u32) -> Progress {
        Progress { bytes_done, bytes_total, layer, layers: 3 }
    }

    #[tokio::test(start_paused = true)]
    async fn progress_is_told_where_it_is_news() {
        let mut messages = Messages::new(&UNPACKING, "demo/nginx:1");
        assert_eq!(messages.progress(at(1, 2, 1)), None, "it may be over in a moment");
        tokio::time::advance(Duration::from_secs(1)).await;
        let mut said = |progress| messages.progress(progress);
        assert_eq!(said(at(0, 0, 0)).unwrap(), "unpacking demo/nginx:1: reading the archives");
        assert_eq!(said(at(0, 0, 0)), None);
        let total = 40 * MIB + MIB / 8;
        assert_eq!(said(at(0, total, 0)).unwrap(), "unpacking demo/nginx:1: 0.0 of 40.1 MiB");
        let half = at(12 * MIB + MIB / 3, total, 2);
        assert_eq!(said(half).unwrap(), "unpacking demo/nginx:1: 12.3 of 40.1 MiB, layer 2 of 3");
        assert_eq!(
            said(Progress { bytes_done: half.bytes_done + 1, ..half }),
            None,
            "nobody sees the difference"
        );
        assert_eq!(
            said(at(total, total, 3)).unwrap(),
            "unpacking demo/nginx:1: 40.1 of 40.1 MiB, layer 3 of 3"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_tells_what_was_done() {
        let mut messages = Messages::new(&UNPACKING, "demo/nginx:1");
        messages.begin();
        tokio::time::advance(Duration::from_millis(2140)).await;
        let unpacked = Unpacked::default();
        assert_eq!(
            messages.end(&unpacked),
            "unpacked demo/nginx:1 in 2.1 s",
            "nothing was heard of its size"
        );
        messages.progress(at(40 * MIB + MIB / 8, 40 * MIB + MIB / 8, 3));
        assert_eq!(messages.end(&unpacked), "unpacked demo/nginx:1 (40.1 MiB, 3 layers) in 2.1 s");
        messages.progress(Progress { bytes_done: 7, bytes_total: 7, layer: 1, layers: 1 });
        assert_eq!(messages.end(&unpacked), "unpacked demo/nginx:1 (7 B, 1 layer) in 2.1 s");
        let there = Unpacked { was_there: true, ..unpacked };
        assert_eq!(messages.end(&there), "image demo/nginx:1 was unpacked before");
    }
}
