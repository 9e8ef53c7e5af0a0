//! `dashboard`: one host, live, in the terminal.
//!
//! Three parts that know little of each other. The [`model`] knows what is true, and what news and keys make of it; the
//! [`view`] draws it; the [`feed`] asks the host. Here they are driven: news and keys go to the model, it says what is
//! to be asked for, and it is drawn, at most four times a second where no key asks for more.

mod canvas;
mod feed;
mod keys;
mod model;
mod screen;
mod view;

use std::time::Duration;

use kelson_proto::v1::{ListRequest, Service};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::call::Call;
use crate::console::read_input;
use crate::console::signals::{Signals, of_signal};
use crate::failure::{Failure, answer};
use feed::Feed;
use keys::{Key, Keys};
use model::{Effect, Model};
use screen::Screen;
use view::Looks;

/// A serial line should not be busy with what changes all the time.
const FRAME: Duration = Duration::from_millis(250);
/// The bytes of one key come faster after each other, even there.
const ONE_KEY: Duration = Duration::from_millis(50);

/// Shows the host until a key or a signal ends it. `interval`: how often the host is asked.
///
/// # Errors
/// The host does not answer the first time, or a signal came.
pub async fn show(call: &Call, interval: Duration) -> Result<(), Failure> {
    let mut signals = Signals::new()?;
    let client = call.client()?;
    let mut services = client.services();
    let first = tokio::select! {
        first = answer(services.list(ListRequest::default())) => first?.services,
        number = signals.leaving() => return Err(Failure::Ended(of_signal(number))),
    };
    let feed = Feed::start(call.choice.clone(), client, interval);
    let looks = Looks { palette: call.terminal.palette, unicode: call.terminal.unicode };
    let mut session = Session::new(first, feed, looks)?;
    let ended = session.run(&mut signals).await;
    session.screen.leave().await;
    ended
}

/// All of it while it runs.
struct Session {
    model: Model,
    feed: Feed,
    keys: Keys,
    input: mpsc::Receiver<Vec<u8>>,
    screen: Screen,
    /// When it is to be drawn; `None`: nothing has changed.
    due: Option<Instant>,
    drawn: Instant,
}

impl Session {
    fn new(services: Vec<Service>, feed: Feed, looks: Looks) -> Result<Session, Failure> {
        let (model, now) = (Model::new(services), Instant::now());
        let input = read_input()?;
        let screen = Screen::enter(looks)?;
        Ok(Session { model, feed, keys: Keys::default(), input, screen, due: Some(now), drawn: now })
    }

    async fn run(&mut self, signals: &mut Signals) -> Result<(), Failure> {
        // The terminal hung up: there is nobody to tell.
        let gone = || Failure::Ended(of_signal(libc::SIGHUP));
        let mut open: Option<Instant> = None;
        loop {
            self.feed.wish(self.model.wish());
            let due = self.due.filter(|_| self.screen.is_free());
            tokio::select! {
                bytes = self.input.recv() => {
                    let keys = self.keys.take(&bytes.ok_or_else(gone)?);
                    open = self.keys.is_open().then(|| Instant::now() + ONE_KEY);
                    for key in keys {
                        if self.press(key) {
                            return Ok(());
                        }
                    }
                }
                () = at(open) => {
                    open = None;
                    if self.keys.close().is_some_and(|key| self.press(key)) {
                        return Ok(());
                    }
                }
                news = self.feed.next() => {
                    self.model.hear(news?);
                    self.due.get_or_insert(self.drawn + FRAME);
                }
                number = signals.next() => match number {
                    libc::SIGWINCH => self.due = Some(Instant::now()),
                    number => return Err(Failure::Ended(of_signal(number))),
                },
                freed = self.screen.freed() => freed.map_err(|_| gone())?,
                () = at(due) => {
                    let shown = self.screen.draw(&self.model);
                    self.model.note(shown);
                    (self.due, self.drawn) = (None, Instant::now());
                }
            }
        }
    }

    /// Does what the key says; true where that is the end.
    fn press(&mut self, key: Key) -> bool {
        self.due = Some(Instant::now());
        match self.model.press(key) {
            Some(Effect::Quit) => return true,
            Some(Effect::Redraw) => self.screen.forget(),
            Some(Effect::Act(action, name)) => self.feed.act(action, name),
            None => {}
        }
        false
    }
}

/// At this time, or never.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
