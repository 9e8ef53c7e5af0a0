//! The calls that are repeated.

use std::time::{Duration, Instant};

use kelson_api::client::Client;
use kelson_proto::v1::{
    BootRequest, GetMetricsRequest, GraphRequest, ListRequest, StatusRequest, VersionRequest,
};
use prost_types::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, sleep, timeout};

use super::answer::{ANSWER, PASSING, ask};
use crate::commands::metrics;
use crate::contexts::Choice;
use crate::dashboard::model::{News, Usage, Wish};
use crate::failure::Failure;
use crate::follow::Pauses;

/// Events at nearly the same time cause one call.
const GATHER: Duration = Duration::from_millis(250);

/// Asks how the host is: every so often, and soon after something has happened.
pub struct Poll {
    pub choice: Choice,
    /// Other callers take their client from here: after a failure there is a new one.
    pub clients: watch::Sender<Client>,
    pub wish: watch::Receiver<Wish>,
    pub stirred: watch::Receiver<()>,
    /// Notified when PID 1 is another one.
    pub incarnation: watch::Sender<()>,
    pub to: mpsc::Sender<News>,
    pub interval: Duration,
}

/// The known facts about this incarnation of PID 1.
#[derive(Default)]
struct Incarnation {
    started: Option<Timestamp>,
    /// Its boot is over, and there is no more to be answer of it.
    booted: bool,
}

impl Poll {
    pub async fn run(mut self) {
        let (mut pauses, mut incarnation) = (Pauses::default(), Incarnation::default());
        loop {
            self.stirred.mark_unchanged();
            let wish = self.wish.borrow_and_update().clone();
            let client = self.clients.borrow().clone();
            match self.host(&client, &mut incarnation).await {
                Ok(news) => {
                    pauses = Pauses::default();
                    let _ = self.to.send(news).await;
                    if let Some(news) = detail(&client, wish).await {
                        let _ = self.to.send(news).await;
                    }
                    self.rest().await;
                }
                Err(failure) => {
                    let _ = self.to.send(News::Lost(failure.to_string())).await;
                    sleep(pauses.take()).await;
                    self.renew();
                }
            }
        }
    }

    async fn host(&self, client: &Client, incarnation: &mut Incarnation) -> Result<News, Failure> {
        let (mut services, mut machine, mut boots) = (client.services(), client.machine(), client.machine());
        let booted = incarnation.booted;
        let (services, version, boot) = tokio::join!(
            ask(services.list(ListRequest::default())),
            ask(machine.version(VersionRequest {})),
            async { if booted { None } else { ask(boots.boot(BootRequest {})).await.ok() } },
        );
        let services = services?.services;
        // Besides the list nothing is needed to go on.
        let version = version.ok();
        incarnation.booted |= boot.as_ref().is_some_and(|boot| boot.total.is_some());
        if let Some(now) = version.as_ref().and_then(|version| version.started)
            && incarnation.started.replace(now).is_some_and(|before| before != now)
        {
            incarnation.booted = false;
            self.incarnation.send_replace(());
        }
        Ok(News::Host { services, version: version.map(Box::new), boot })
    }

    /// Until it is to be asked again.
    async fn rest(&mut self) {
        tokio::select! {
            () = sleep(self.interval) => {}
            _ = self.stirred.changed() => sleep(GATHER).await,
            _ = self.wish.changed() => sleep(PASSING).await,
        }
    }

    /// A new way to the host: a connection that is silent is given up, and certificates are read again.
    fn renew(&self) {
        let client = self.choice.resolve().and_then(|host| host.client());
        if let Ok(client) = client {
            self.clients.send_replace(client);
        }
    }
}

async fn detail(client: &Client, wish: Wish) -> Option<News> {
    let mut services = client.services();
    let answer = match wish {
        Wish::Graph => ask(services.graph(GraphRequest {})).await.map(News::Graph),
        Wish::Status(name) => {
            ask(services.status(StatusRequest { name })).await.map(|status| News::Status(Box::new(status)))
        }
        Wish::Nothing | Wish::LogOf(_) => return None,
    };
    Some(answer.unwrap_or_else(|failure| News::NoDetail(failure.to_string())))
}

/// Asks every so often what services have used.
pub async fn usage(clients: watch::Receiver<Client>, interval: Duration, to: mpsc::Sender<News>) {
    let mut tick = tokio::time::interval(interval);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let client = clients.borrow().clone();
        let at = Instant::now();
        let families = timeout(ANSWER, async {
            let request = GetMetricsRequest::default();
            metrics::collect(ask(client.metrics().get(request)).await?).await
        });
        let sample = families.await.ok().and_then(Result::ok).map(|families| {
            let usages = metrics::usage(&families);
            usages.map(|(name, memory, cpu)| (name.to_owned(), Usage { memory, cpu })).collect()
        });
        let _ = to.send(News::Usage(at, sample)).await;
    }
}
