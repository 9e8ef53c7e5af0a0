//! News from the host: repeated calls, or streams that are opened again when they break.
//!
//! Each source is a task of its own, none waits for another, and whatever a task asks has a deadline. A host that is gone
//! is called for as long as the dashboard stays.

mod answer;
mod poll;
mod streams;

use std::time::Duration;

use kelson_api::client::Client;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::model::{News, Wish};
use crate::commands::acting::{Action, Manner, request};
use crate::contexts::Choice;
use crate::failure::{ANSWER, Failure, within};

/// The sources, for as long as this is held.
#[derive(Debug)]
pub struct Feed {
    news: mpsc::Receiver<News>,
    to: mpsc::Sender<News>,
    wish: watch::Sender<Wish>,
    clients: watch::Receiver<Client>,
    stir: watch::Sender<()>,
    tasks: JoinSet<()>,
}

impl Feed {
    /// Begins. `interval`: how often the host is asked.
    pub fn start(choice: Choice, client: Client, interval: Duration) -> Feed {
        let (to, news) = mpsc::channel(64);
        let (wish, wishes) = watch::channel(Wish::Nothing);
        let (renewed, clients) = watch::channel(client);
        let (stir, stirred) = watch::channel(());
        let (incarnation, lives) = watch::channel(());
        let mut tasks = JoinSet::new();
        let (wished, told) = (wishes.clone(), to.clone());
        tasks.spawn(
            poll::Poll { choice, clients: renewed, wish: wished, stirred, incarnation, to: told, interval }
                .run(),
        );
        tasks.spawn(poll::usage(clients.clone(), interval, to.clone()));
        tasks.spawn(streams::events(clients.clone(), lives, stir.clone(), to.clone()));
        tasks.spawn(streams::logs(clients.clone(), wishes, to.clone()));
        Feed { news, to, wish, clients, stir, tasks }
    }

    /// Says what is to be asked for besides.
    pub fn wish(&self, wish: Wish) {
        self.wish.send_if_modified(|old| {
            let is_new = *old != wish;
            *old = wish;
            is_new
        });
    }

    /// Asks the host to do this; the answer is news.
    pub fn act(&mut self, action: Action, name: String) {
        let client = self.clients.borrow().clone();
        let (to, stir) = (self.to.clone(), self.stir.clone());
        self.tasks.spawn(async move {
            let asked = within(ANSWER, request(&client, action, vec![name.clone()], Manner::default())).await;
            let none = || Failure::Failed("no answer".to_owned());
            let result = asked.and_then(|response| response.results.into_iter().next().ok_or_else(none));
            let _ = to.send(News::Acted(action, name, Box::new(result))).await;
            stir.send_replace(());
        });
    }

    /// Waits for the next news. Cancelled by dropping, without loss.
    ///
    /// # Errors
    /// A fault in the dashboard itself.
    pub async fn next(&mut self) -> Result<News, Failure> {
        tokio::select! {
            Some(news) = self.news.recv() => Ok(news),
            // One that has done what it was for says nothing.
            Some(Err(fault)) = self.tasks.join_next() => {
                Err(Failure::Failed(format!("the dashboard has a fault: {fault}")))
            }
        }
    }
}
