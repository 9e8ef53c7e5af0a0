//! The loop of PID 1's side of a fleet.

use std::sync::Arc;

use kelson_helper::Launcher;
use kelson_helper::supervisor::Wake;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::NOTHING;
use super::cut_off::Act;
use super::members::{Command, Members};
use crate::owned_helper::OwnedHelper;
use crate::service_runner::gate::Registry;
use crate::service_runner::registry::Changes;

/// Serves the handles until they are dropped.
pub async fn run(
    launcher: Arc<dyn Launcher>,
    mut members: Members,
    registry: Registry,
    mut commands: mpsc::UnboundedReceiver<Command>,
) {
    let mut helper = OwnedHelper::new(launcher, NOTHING);
    let helper = &mut helper.0;
    let mut changes: Option<Changes> = None;
    let mut acts: Option<mpsc::UnboundedSender<Act>> = None;
    loop {
        let changed = async {
            match &mut changes {
                Some(changes) => changes.next().await,
                None => std::future::pending().await,
            }
        };
        let mut wake = Wake::Ready;
        let mut outgoing = Vec::new();
        tokio::select! {
            biased;
            // Before commands: what an operator asks is asked of a service that is known.
            names = changed => {
                outgoing.extend(names.iter().filter_map(|name| members.look(&registry, name)));
                outgoing.extend(members.interest());
            }
            command = commands.recv() => match command {
                Some(Command::Begin { acts: sender, ago }) => {
                    changes.get_or_insert_with(|| registry.follow());
                    acts = Some(sender);
                    members.cut_off.began(ago);
                    outgoing.extend(registry.names().iter().filter_map(|name| members.look(&registry, name)));
                    outgoing.extend(members.complete());
                    outgoing.extend(members.interest());
                    if helper.want(&mut members, Instant::now()) {
                        helper.publish("being started", &mut members);
                    }
                }
                Some(Command::Restart) => helper.stop(&mut members, Instant::now()),
                Some(Command::Shutdown { deadline, done }) => {
                    members.close();
                    helper.shut_down(deadline, Some(done), &mut members, Instant::now());
                }
                Some(command) => outgoing.extend(members.take(command, helper.is_up())),
                None => return,
            },
            next = helper.next(&members, members.wake()) => wake = next,
        }
        let now = Instant::now();
        if !outgoing.is_empty() {
            helper.expect(now);
        }
        outgoing.into_iter().for_each(|order| helper.enqueue(order));
        helper.advance(wake, &mut members, now);
        members.discovery.publish();
        members.templates.publish();
        if let Some(acts) = &acts {
            let all = members
                .cut_off
                .acts()
                .into_iter()
                .chain(members.templates.acts())
                .chain(members.confirmations());
            // The receiver ends with the host.
            all.for_each(|act| _ = acts.send(act));
        }
    }
}
