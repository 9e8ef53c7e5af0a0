//! The client against a server that says what each test wants, in a time that the test makes pass.

use super::conflict::DECLINE_PAUSE;
use super::*;
use crate::lease::testing::ack;

const OWN: Mac = [2, 0, 0, 0, 0, 1];
const OTHER: Mac = [2, 0, 0, 0, 0, 9];
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A client and its time.
struct Host {
    client: Client,
    now: Moment,
}

impl Host {
    fn new(probes: bool, held: Option<Lease>) -> Host {
        let mut next = 0;
        let dice = move || {
            next += 700;
            next
        };
        Host { client: Client::new(OWN, None, probes, held, Box::new(dice)), now: seconds(1000) }
    }

    /// One that has an address for an hour, from now on.
    fn bound() -> Host {
        let mut host = Host::new(false, None);
        host.input(Input::Link(true));
        host.acquire(3600);
        host
    }

    fn input(&mut self, input: Input) -> Vec<Action> {
        self.client.handle(self.now, input)
    }

    /// Lets the time of the client come. Returns what it wants then.
    fn wait(&mut self) -> Vec<Action> {
        let deadline = self.client.deadline().expect("the client waits for something");
        assert!(deadline >= self.now, "a deadline has passed");
        self.now = deadline;
        let actions = self.input(Input::Time);
        assert!(self.client.deadline().is_none_or(|next| next > self.now), "it would turn in a circle");
        actions
    }

    /// Answers the exchange under way.
    fn answer(&mut self, kind: Kind, message: Message) -> Vec<Action> {
        let transaction = self.client.state.exchange().expect("something is asked").transaction;
        self.input(Input::Message(Message { kind, transaction, ..message }))
    }

    /// An offer and its acknowledgement, for some seconds.
    fn acquire(&mut self, time: u32) -> Vec<Action> {
        let actions = self.answer(Kind::Offer, ack(time, &[]));
        assert_eq!(kinds(&actions), ["Request"]);
        self.answer(Kind::Ack, ack(time, &[]))
    }

    fn nak(&mut self) -> Vec<Action> {
        self.answer(Kind::Nak, ack(9, &[]))
    }

    fn address(&self) -> Option<Ipv4Addr> {
        self.client.lease().map(|lease| lease.address)
    }
}

/// Each action in a word.
fn kinds(actions: &[Action]) -> Vec<String> {
    let kind = |action: &Action| match action {
        Action::Broadcast(message, _) => format!("{:?}", message.kind),
        Action::Unicast(message, ..) => format!("{:?} to its server", message.kind),
        Action::Arp { sender, .. } if sender.is_unspecified() => "probe".to_owned(),
        Action::Arp { .. } => "announce".to_owned(),
        Action::Apply(_) => "apply".to_owned(),
        Action::Remove(..) => "remove".to_owned(),
        Action::Log(text) => format!("log: {text}"),
    };
    actions.iter().map(kind).collect()
}

fn broadcast(actions: &[Action]) -> &Message {
    let found = actions.iter().find_map(|action| match action {
        Action::Broadcast(message, _) => Some(message),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("nothing is broadcast: {actions:?}"))
}

#[test]
fn an_address_is_probed_three_times_and_announced_twice() {
    let mut host = Host::new(true, None);
    let discover = host.input(Input::Link(true));
    assert_eq!(kinds(&discover), ["Discover"]);
    let message = broadcast(&discover);
    assert_eq!((message.client, message.address(code::REQUESTED_ADDRESS)), (Ipv4Addr::UNSPECIFIED, None));
    assert!(message.option(code::PARAMETERS).unwrap().starts_with(&[1, 121, 3]));
    let request = host.answer(Kind::Offer, ack(3600, &[]));
    let message = broadcast(&request);
    assert_eq!(message.address(code::REQUESTED_ADDRESS), Some(ADDRESS));
    assert_eq!(message.address(code::SERVER), Some(SERVER));
    assert!(host.answer(Kind::Ack, ack(3600, &[])).is_empty());
    let began = host.now;
    for _ in 0..3 {
        assert_eq!(kinds(&host.wait()), ["probe"]);
        assert_eq!(host.address(), None);
    }
    assert_eq!(kinds(&host.wait()), ["apply", "announce"]);
    assert!((seconds(4)..=seconds(7)).contains(&(host.now - began)));
    assert_eq!(kinds(&host.wait()), ["announce"]);
    assert_eq!(host.address(), Some(ADDRESS));
}

#[test]
fn without_a_server_the_pauses_grow_to_a_minute() {
    let mut host = Host::new(true, None);
    host.input(Input::Link(true));
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let before = host.now;
        let actions = host.wait();
        assert_eq!(kinds(&actions), ["Discover"]);
        pauses.push((host.now - before).as_secs());
        assert!(broadcast(&actions).seconds > 0);
    }
    for (pause, about) in pauses.into_iter().zip([4, 8, 16, 32, 64, 64, 64, 64]) {
        assert!((about - 1..=about + 1).contains(&pause), "{pause} {about}");
    }
}

#[test]
fn a_lease_is_renewed_without_touching_the_address() {
    let mut host = Host::bound();
    assert_eq!(kinds(&host.wait()), ["announce"]);
    for _ in 0..100 {
        let actions = host.wait();
        let [Action::Unicast(message, from, to)] = actions.as_slice() else { panic!("{actions:?}") };
        assert_eq!((*from, *to, message.client), (ADDRESS, SERVER, ADDRESS));
        assert_eq!((message.address(code::SERVER), message.address(code::REQUESTED_ADDRESS)), (None, None));
        assert_eq!(kinds(&host.answer(Kind::Ack, ack(3600, &[]))), ["apply"]);
    }
}

#[test]
fn n2_without_a_server_the_address_lasts_to_the_end_of_the_lease() {
    let mut host = Host::bound();
    host.wait();
    let end = host.client.lease().unwrap().end;
    let mut all = Vec::new();
    let removed = loop {
        let actions = host.wait();
        if matches!(actions[0], Action::Remove(..)) {
            break actions;
        }
        all.extend(actions);
    };
    assert_eq!(host.now, end);
    assert_eq!(kinds(&removed), ["remove", "Discover"]);
    assert!(matches!(&removed[0], Action::Remove(_, "no server has extended it")));
    let unicast = all.iter().filter(|action| matches!(action, Action::Unicast(..))).count();
    let rebinding =
        all.iter().filter(|action| matches!(action, Action::Broadcast(_, from) if *from == ADDRESS));
    // Between half of an hour and seven eighths of it, then to the end.
    assert!((4..9).contains(&unicast) && (2..6).contains(&rebinding.count()), "{}", kinds(&all).join(", "));
}

#[test]
fn n2_the_next_address_is_there_before_the_last_one_goes() {
    let mut host = Host::bound();
    host.wait();
    host.wait();
    let actions = host.nak();
    assert_eq!(kinds(&actions), ["log: a server has taken 192.0.2.7 back", "Discover"]);
    let other = |time| Message { yours: [192, 0, 2, 8].into(), ..ack(time, &[]) };
    host.answer(Kind::Offer, other(600));
    let actions = host.answer(Kind::Ack, other(600));
    assert_eq!(kinds(&actions), ["apply", "remove", "announce"]);
    assert_eq!(host.address(), Some([192, 0, 2, 8].into()));
}

#[test]
fn an_address_that_is_taken_back_goes_soon_also_without_another() {
    let mut host = Host::bound();
    host.wait();
    host.wait();
    host.nak();
    let taken = host.now;
    while host.address().is_some() {
        host.wait();
    }
    assert_eq!(host.now - taken, GRACE);
}

#[test]
fn n3_after_a_restart_it_asks_for_what_it_had() {
    let lease = Host::bound().client.lease().unwrap().clone();
    let mut host = Host::new(true, Some(lease.clone()));
    let actions = host.input(Input::Link(true));
    let message = broadcast(&actions);
    assert_eq!((message.kind, message.address(code::REQUESTED_ADDRESS)), (Kind::Request, Some(ADDRESS)));
    assert_eq!(message.address(code::SERVER), None);
    assert_eq!(kinds(&host.answer(Kind::Ack, ack(3600, &[]))), ["apply", "announce"]);

    // Nobody answers: the lease goes on.
    let mut host = Host::new(true, Some(lease));
    host.input(Input::Link(true));
    assert_eq!(kinds(&host.wait()), ["Request"]);
    assert_eq!(kinds(&host.wait()), ["Request"]);
    assert!(host.wait().is_empty());
    assert_eq!((host.client.status(), host.address()), ("bound", Some(ADDRESS)));
    assert_eq!(kinds(&host.wait()), ["Request to its server"]);
}

#[test]
fn n3_of_two_servers_only_the_chosen_one_is_heard() {
    let mut host = Host::new(false, None);
    host.input(Input::Link(true));
    host.answer(Kind::Offer, ack(3600, &[]));
    let late = ack(60, &[(code::SERVER, &[192, 0, 2, 2])]);
    for kind in [Kind::Offer, Kind::Nak, Kind::Ack] {
        assert!(host.answer(kind, late.clone()).is_empty(), "{kind:?}");
    }
    let stranger = Message { hardware: OTHER, ..ack(3600, &[]) };
    assert!(host.answer(Kind::Ack, stranger).is_empty());
    let stale = Message { transaction: 7, ..ack(3600, &[]) };
    assert!(host.input(Input::Message(stale)).is_empty());
    assert_eq!(kinds(&host.answer(Kind::Ack, ack(3600, &[]))), ["apply", "announce"]);
}

#[test]
fn n3_a_server_that_always_refuses_is_asked_less_and_less() {
    let mut host = Host::new(false, None);
    host.input(Input::Link(true));
    let began = host.now;
    let mut requests = 0;
    while host.now - began < seconds(600) {
        if matches!(host.client.state, State::Selecting(_)) {
            host.answer(Kind::Offer, ack(3600, &[]));
            host.nak();
            requests += 1;
        } else {
            host.wait();
        }
    }
    assert!((8..20).contains(&requests), "{requests}");
}

#[test]
fn an_address_of_another_host_is_declined() {
    let mut host = Host::new(true, None);
    host.input(Input::Link(true));
    host.acquire(3600);
    host.wait();
    assert_eq!(host.client.watched(), Some((ADDRESS, true)));
    assert!(host.input(Input::Conflict(OWN)).is_empty(), "its own probe");
    let actions = host.input(Input::Conflict(OTHER));
    assert_eq!(kinds(&actions), ["log: 192.0.2.7 is declined: 02:00:00:00:00:09 uses it", "Decline"]);
    let message = broadcast(&actions);
    assert_eq!(message.address(code::REQUESTED_ADDRESS), Some(ADDRESS));
    assert_eq!((message.address(code::SERVER), message.option(code::PARAMETERS)), (Some(SERVER), None));
    let declined = host.now;
    assert_eq!(kinds(&host.wait()), ["Discover"]);
    assert_eq!(host.now - declined, DECLINE_PAUSE);
}

#[test]
fn an_address_is_defended_once_and_given_up_at_the_second_time() {
    let mut host = Host::bound();
    host.wait();
    assert_eq!(host.client.watched(), Some((ADDRESS, false)));
    assert_eq!(kinds(&host.input(Input::Conflict(OTHER)))[0], "announce");
    host.now += seconds(11);
    assert_eq!(kinds(&host.input(Input::Conflict(OTHER)))[0], "announce");
    host.now += seconds(5);
    assert_eq!(kinds(&host.input(Input::Conflict(OTHER))), ["remove", "Decline"]);
    assert_eq!(host.address(), None);
}

#[test]
fn n5_a_link_that_goes_and_comes_keeps_the_address() {
    let mut host = Host::bound();
    for _ in 0..50 {
        host.now += seconds(1);
        assert!(host.input(Input::Link(false)).is_empty());
        assert_eq!(host.address(), Some(ADDRESS));
        let actions = host.input(Input::Link(true));
        assert_eq!(kinds(&actions), ["Request"]);
        assert!(host.input(Input::Link(true)).is_empty(), "it is the same link");
        assert_eq!(kinds(&host.answer(Kind::Ack, ack(3600, &[]))), ["apply", "announce"]);
    }
    // It stays away for longer than the lease.
    host.input(Input::Link(false));
    assert_eq!(kinds(&host.wait()), ["remove"]);
    assert_eq!(host.client.deadline(), None);
}

#[test]
fn n3_answers_that_are_no_leases_change_nothing() {
    let mut host = Host::new(false, None);
    host.input(Input::Link(true));
    let actions = host.answer(Kind::Offer, ack(1, &[]));
    assert_eq!(
        kinds(&actions),
        ["log: the answer of 192.0.2.1 is ignored: it grants 1 s, which is too short"]
    );
    host.answer(Kind::Offer, ack(600, &[]));
    let other = Message { yours: [192, 0, 2, 9].into(), ..ack(600, &[]) };
    let actions = host.answer(Kind::Ack, other);
    assert_eq!(kinds(&actions), ["log: 192.0.2.1 offered 192.0.2.7 and grants 192.0.2.9", "Discover"]);
    assert_eq!(host.address(), None);
}
