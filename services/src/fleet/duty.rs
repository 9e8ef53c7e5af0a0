//! What `kelson-fleet` is sent, and what its reports mean.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use kelson_helper::supervisor::{self, Duty, End, Expectations, Next, Order, Reply, Status};
use kelson_helper::transport::Packet;
use kelson_proto::v1::fleet_command::Command as Message;
use kelson_proto::v1::fleet_question::Question as Words;
use kelson_proto::v1::fleet_report::Report as Reported;
use kelson_proto::v1::{FleetCommand, FleetFacts, FleetQuestion, FleetRegister, FleetRemove, FleetReport};
use kelson_spec::wire;
use tokio::time::Instant;

use super::members::{Members, Outgoing, Question};

/// While something is asked of it the helper may be silent for so long.
const SILENCE: Duration = Duration::from_secs(10);
/// The word for the address of the host itself.
const AUTO: &str = "auto";

impl Expectations for Members {
    fn silence(&self) -> Option<Duration> {
        (!self.removals.is_empty() || !self.questions.is_empty()).then_some(SILENCE)
    }
}

impl Duty for Members {
    type Order = Outgoing;
    type Command = FleetCommand;
    type Report = FleetReport;

    fn orders(&self) -> Vec<Outgoing> {
        let mut orders = vec![Outgoing::Settings, Outgoing::Health];
        orders.extend((!self.facts.is_empty()).then_some(Outgoing::Facts));
        orders.extend(self.wanted.keys().cloned().map(Outgoing::Register));
        orders.extend(self.removals.keys().cloned().map(Outgoing::Remove));
        orders.extend(self.is_complete.then_some(Outgoing::Complete));
        orders.extend(self.questions.keys().copied().map(Outgoing::Question));
        orders.extend((!self.discovery.is_empty()).then_some(Outgoing::Interest));
        orders.extend((!self.templates.is_empty()).then_some(Outgoing::Templates));
        orders.extend(self.is_leaving().then_some(Outgoing::Leave));
        orders
    }

    fn command(
        &mut self,
        order: &Order<Outgoing>,
        _now: Instant,
    ) -> Option<(FleetCommand, Vec<BorrowedFd<'_>>)> {
        let command = match order {
            Order::Ping => Message::Ping(supervisor::ping()),
            Order::Stop { within } => Message::Stop(supervisor::stop(*within)),
            Order::Own(Outgoing::Settings) => Message::Settings(wire::encode(&*self.spec).ok()?),
            Order::Own(Outgoing::Health) => Message::Health(self.health.clone()),
            Order::Own(Outgoing::Facts) => {
                Message::Facts(FleetFacts { facts: self.facts.clone().into_iter().collect() })
            }
            Order::Own(Outgoing::Register(service)) => {
                let registration = self.wanted.get(service)?;
                Message::Register(FleetRegister {
                    service: service.to_string(),
                    name: registration.name.clone(),
                    port: registration.port.map_or(0, u32::from),
                    tags: registration.tags.clone(),
                    address: registration.address.clone().unwrap_or_else(|| AUTO.to_owned()),
                    meta: registration.meta.clone().into_iter().collect(),
                })
            }
            Order::Own(Outgoing::Remove(service)) => {
                let number = self.removals.get(service)?.number;
                Message::Remove(FleetRemove { service: service.to_string(), number })
            }
            Order::Own(Outgoing::Complete) => Message::Complete(true),
            Order::Own(Outgoing::Question(number)) => {
                let question = match self.questions.get(number)?.question.clone() {
                    Question::Hosts(request) => Words::Hosts(request),
                    Question::Instances(request) => Words::Instances(request),
                    Question::Plans(request) => Words::Plans(request),
                    Question::PutPlan(request) => Words::PutPlan(request),
                    Question::RemovePlan(request) => Words::RemovePlan(request),
                };
                Message::Question(FleetQuestion { number: *number, question: Some(question) })
            }
            Order::Own(Outgoing::Leave) => Message::Leave(true),
            Order::Own(Outgoing::Templates) => Message::Templates(self.templates.all()),
            Order::Own(Outgoing::Interest) => Message::Interest(self.discovery.interest()),
        };
        Some((FleetCommand { command: Some(command) }, Vec::new()))
    }

    fn sent(&mut self, order: Order<Outgoing>, result: io::Result<()>, _now: Instant) {
        if let (Order::Own(order), Err(error)) = (order, result) {
            self.report(None, format!("kelson-fleet cannot be sent {order:?}: {error}"));
        }
    }

    fn received(&mut self, packet: Packet<FleetReport>, _now: Instant) -> Reply<Outgoing> {
        match packet.message.report {
            Some(Reported::Pong(pong)) => return Reply::Pong(pong),
            Some(Reported::Connection(connection)) => self.connection(connection),
            Some(Reported::Service(state)) => self.state(state),
            Some(Reported::Removed(removed)) => self.removed(removed),
            Some(Reported::Page(part)) => self.page(part),
            Some(Reported::Contact(0)) => self.cut_off.confirmed(None),
            Some(Reported::Contact(micros)) => self.cut_off.confirmed(Some(Duration::from_micros(micros))),
            Some(Reported::Found(found)) => self.discovery.found(found),
            Some(Reported::FoundAt(0)) => {}
            Some(Reported::FoundAt(micros)) => self.discovery.confirmed(Duration::from_micros(micros)),
            Some(Reported::Template(template)) => self.template(template),
            Some(Reported::Trouble(text)) => self.report(None, text),
            None => {}
        }
        Reply::Nothing
    }

    fn up(&mut self, _now: Instant) {}

    fn ended(&mut self, end: &End, _now: Instant) {
        let is_replaced = matches!(end.next, Next::After(_) | Next::Retry(_));
        Members::ended(self, is_replaced.then_some(end.how.as_str()));
    }

    fn publish(&mut self, helper: &Status) {
        self.publish.send_modify(|status| status.helper = helper.clone());
    }
}
