//! What `kelson-volumes` is sent, and what its reports mean.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use kelson_helper::supervisor::{self, Duty, End, Expectations, Next, Order, Reply, Status};
use kelson_helper::transport::Packet;
use kelson_proto::v1::volumes_command::Command as Message;
use kelson_proto::v1::volumes_report::Report as Reported;
use kelson_proto::v1::{VolumeAction, VolumeClaim, VolumeStatisticsQuestion, VolumesCommand, VolumesReport};
use tokio::time::Instant;

use super::claims::{Claims, Outgoing, Phase, Question};
use super::messages::{details_of_step, of_step};

/// While something is asked of it the helper may be silent for so long.
const SILENCE: Duration = Duration::from_secs(10);

impl Expectations for Claims {
    fn silence(&self) -> Option<Duration> {
        let is_asked = self.claims.values().any(|claim| claim.phase != Phase::Claimed);
        (is_asked || !self.questions.is_empty()).then_some(SILENCE)
    }
}

impl Duty for Claims {
    type Order = Outgoing;
    type Command = VolumesCommand;
    type Report = VolumesReport;

    fn orders(&self) -> Vec<Outgoing> {
        let plugins = self.plugins.keys().cloned().map(Outgoing::Plugin);
        let mut orders: Vec<Outgoing> = plugins.collect();
        orders.extend(self.claims.keys().cloned().map(Outgoing::Claim));
        orders.extend(self.is_complete.then_some(Outgoing::Complete));
        orders.extend(self.questions.keys().copied().map(Outgoing::Question));
        orders
    }

    fn command(
        &mut self,
        order: &Order<Outgoing>,
        _now: Instant,
    ) -> Option<(VolumesCommand, Vec<BorrowedFd<'_>>)> {
        let command = match order {
            Order::Ping => Message::Ping(supervisor::ping()),
            Order::Stop { within } => Message::Stop(supervisor::stop(*within)),
            Order::Own(Outgoing::Plugin(socket)) => Message::Plugin(self.plugins.get(socket)?.clone()),
            Order::Own(Outgoing::WithoutPlugin(socket)) => {
                if self.plugins.contains_key(socket) {
                    return None;
                }
                Message::WithoutPlugin(socket.clone())
            }
            Order::Own(Outgoing::Claim(service)) => {
                let claim = self.claims.get(service)?;
                let (service, number, volumes) = (service.to_string(), claim.number, claim.uses.clone());
                let message = match claim.phase {
                    Phase::Releasing => Message::Release,
                    Phase::Claiming | Phase::Claimed => Message::Claim,
                };
                message(VolumeClaim { service, number, volumes })
            }
            Order::Own(Outgoing::Complete) => Message::Complete(true),
            Order::Own(Outgoing::Question(number)) => match self.questions.get(number)? {
                Question::List(None, ..) => Message::List(*number),
                Question::List(Some(times), ..) => Message::Statistics(VolumeStatisticsQuestion {
                    number: *number,
                    within_ms: times.within,
                    age_ms: times.age,
                }),
                Question::Providers(..) => Message::Providers(*number),
                Question::Action(action, _) => {
                    Message::Action(VolumeAction { number: *number, action: Some(action.clone()) })
                }
            },
        };
        Some((VolumesCommand { command: Some(command) }, Vec::new()))
    }

    fn sent(&mut self, order: Order<Outgoing>, result: io::Result<()>, _now: Instant) {
        if let (Order::Own(order), Err(error)) = (order, result) {
            self.report("", format!("kelson-volumes cannot be sent {order:?}: {error}"), None);
        }
    }

    fn received(&mut self, packet: Packet<VolumesReport>, _now: Instant) -> Reply<Outgoing> {
        match packet.message.report {
            Some(Reported::Pong(pong)) => return Reply::Pong(pong),
            Some(Reported::Claimed(claimed)) => {
                let order = self.claimed(&claimed.service, claimed.number, claimed.failures);
                return order.map_or(Reply::Nothing, Reply::Order);
            }
            Some(Reported::Released(released)) => {
                self.released(&released.service, released.number, &released.failures);
            }
            Some(Reported::Step(step)) => {
                self.count(&step);
                self.report(&step.service, of_step(&step), details_of_step(&step));
            }
            Some(Reported::List(list)) => {
                let part = |question: &mut Question| {
                    if let Question::List(_, volumes, _) = question {
                        volumes.extend(list.volumes);
                    }
                };
                self.answered(list.number, part, list.more);
            }
            Some(Reported::Providers(list)) => {
                let part = |question: &mut Question| {
                    if let Question::Providers(providers, _) = question {
                        providers.extend(list.providers);
                    }
                };
                self.answered(list.number, part, list.more);
            }
            Some(Reported::Done(done)) => {
                done.failure.iter().for_each(|step| self.count(step));
                if let Some(Question::Action(_, waiting)) = self.questions.remove(&done.number) {
                    let _ = waiting.send(done);
                }
            }
            Some(Reported::Left(left)) => self.is_left = left,
            Some(Reported::Trouble(text)) => self.report("", text, None),
            None => {}
        }
        Reply::Nothing
    }

    fn up(&mut self, _now: Instant) {}

    fn ended(&mut self, end: &End, _now: Instant) {
        // The next one is asked again, and answers from the start.
        for question in self.questions.values_mut() {
            match question {
                Question::List(_, volumes, _) => volumes.clear(),
                Question::Providers(providers, _) => providers.clear(),
                Question::Action(..) => {}
            }
        }
        if matches!(end.next, Next::After(_) | Next::Retry(_)) {
            self.report("", format!("replaced: {}; no claim is lost", end.how), None);
        }
    }

    fn publish(&mut self, helper: &Status) {
        self.publish.send_modify(|status| status.helper = helper.clone());
    }
}
