//! The client against a server that says what each test wants, in a time that the test makes pass.

use super::*;
use crate::v6::message::testing::{association, granted, status};
use crate::v6::message::{Association, Message, Options, Wanted, code};

const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const LINK: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const MANAGED: Flags = Flags { managed: true, other: true };
const ADDRESS: &str = "2001:db8::7";
const PREFIX: &str = "2001:db8:100::/56";

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A client and its time.
struct Host {
    client: Client,
    number: u32,
    now: Moment,
}

impl Host {
    fn new(prefix: Option<u8>, always: bool, held: Option<Lease>) -> Host {
        let mut next = 0;
        let dice = move || {
            next += 700;
            next
        };
        let identity = Identity::new(OWN, "eth0", prefix);
        let number = identity.number;
        Host { client: Client::new(identity, always, held, Box::new(dice)), number, now: seconds(1000) }
    }

    /// One that has an address for an hour, from now on; with a prefix where it wants one.
    fn bound(prefix: Option<u8>) -> Host {
        let mut host = Host::new(prefix, true, None);
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

    /// Waits until it sends a message of this kind.
    fn wait_for(&mut self, kind: Kind) -> Message {
        for _ in 0..20 {
            let actions = self.wait();
            if let Some(message) = sent(&actions) {
                assert_eq!(message.kind, kind, "{actions:?}");
                return message.clone();
            }
        }
        panic!("no {kind:?} is sent");
    }

    /// What a server gives for some seconds: an address, and a prefix if one is wanted.
    fn gifts(&self, time: u32) -> Vec<(u16, Vec<u8>)> {
        let prefix = self.client.identity.prefix.map(|_| (PREFIX, time, time));
        let prefix = prefix.map(|prefix| granted(self.number, (0, 0), &[prefix]));
        std::iter::once(granted(self.number, (0, 0), &[(ADDRESS, time, time)])).chain(prefix).collect()
    }

    fn message(&self, kind: Kind, options: Vec<(u16, Vec<u8>)>) -> Message {
        let transaction = self.client.state.exchange().expect("something is asked").transaction;
        let mut message = Message::new(kind, transaction);
        message.options.put(code::CLIENT, [0, 3, 0, 1, 2, 0, 0, 0, 0, 1]);
        message.options.put(code::SERVER, *b"server");
        message.options.0.extend(options);
        message
    }

    /// Answers the exchange under way.
    fn answer(&mut self, kind: Kind, options: Vec<(u16, Vec<u8>)>) -> Vec<Action> {
        let message = self.message(kind, options);
        self.input(Input::Message(message, LINK))
    }

    /// An offer and the answer to the request for it, for some seconds.
    fn acquire(&mut self, time: u32) -> Vec<Action> {
        self.wait_for(Kind::Solicit);
        let gifts = self.gifts(time);
        assert_eq!(kinds(&self.answer(Kind::Advertise, gifts.clone())), [""; 0]);
        self.wait_for(Kind::Request);
        self.answer(Kind::Reply, gifts)
    }

    fn has(&self) -> Vec<String> {
        let items = self.client.lease().map(|lease| lease.items.clone()).unwrap_or_default();
        items.iter().map(|item| item.address.to_string()).collect()
    }
}

fn sent(actions: &[Action]) -> Option<&Message> {
    actions.iter().find_map(|action| match action {
        Action::Send(message) => Some(message),
        _ => None,
    })
}

/// Each action in a word.
fn kinds(actions: &[Action]) -> Vec<String> {
    let kind = |action: &Action| match action {
        Action::Send(message) => format!("{:?}", message.kind),
        Action::Apply(_) => "apply".to_owned(),
        Action::Remove(item, _) => format!("remove {}", item.address),
        Action::Log(text) => format!("log: {text}"),
    };
    actions.iter().map(kind).collect()
}

/// How many items a message asks for.
fn asks(message: &Message, wanted: Wanted, number: u32) -> Option<usize> {
    Association::find(message, wanted, number).map(|association| association.items.len())
}

#[test]
fn n1_an_address_and_a_prefix_are_found_requested_and_renewed_without_a_removal() {
    let mut host = Host::new(Some(56), true, None);
    assert!(host.input(Input::Link(true)).is_empty(), "not all hosts of a link ask at once");
    let solicit = host.wait_for(Kind::Solicit);
    assert_eq!(asks(&solicit, Wanted::Address, host.number), Some(0));
    assert_eq!(asks(&solicit, Wanted::Prefix, host.number), Some(0), "a length without a prefix");
    assert_eq!(solicit.options.first(code::ELAPSED), Some(&[0, 0][..]));
    let gifts = host.gifts(3600);
    host.answer(Kind::Advertise, gifts.clone());
    let request = host.wait_for(Kind::Request);
    assert_eq!(request.options.first(code::SERVER), Some(&b"server"[..]));
    assert_eq!(asks(&request, Wanted::Address, host.number), Some(1));
    assert_eq!(asks(&request, Wanted::Prefix, host.number), Some(1));
    assert_eq!(kinds(&host.answer(Kind::Reply, gifts.clone())), ["apply"]);
    assert_eq!(host.has(), [ADDRESS, "2001:db8:100::"]);
    for _ in 0..100 {
        let before = host.now;
        let renew = host.wait_for(Kind::Renew);
        assert_eq!(host.now - before, seconds(1800));
        assert_eq!(renew.options.first(code::SERVER), Some(&b"server"[..]));
        assert_eq!(asks(&renew, Wanted::Address, host.number), Some(1));
        assert_eq!(kinds(&host.answer(Kind::Reply, gifts.clone())), ["apply"]);
    }
}

#[test]
fn without_a_server_the_pauses_grow_to_what_a_server_has_said() {
    let mut host = Host::new(None, true, None);
    host.input(Input::Link(true));
    host.wait_for(Kind::Solicit);
    // An offer of nothing says how long the pauses may be.
    let longest = (code::SOLICIT_PAUSE, 60_u32.to_be_bytes().to_vec());
    host.answer(Kind::Advertise, vec![status(2), longest]);
    let mut pauses = Vec::new();
    for _ in 0..10 {
        let before = host.now;
        let solicit = host.wait_for(Kind::Solicit);
        assert!(solicit.options.first(code::ELAPSED) > Some(&[0, 0][..]));
        pauses.push((host.now - before).as_secs_f64());
    }
    for (pause, about) in pauses.into_iter().zip([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0, 60.0]) {
        assert!((about * 0.6..about * 1.7).contains(&pause), "{pause} {about}");
        assert!(pause < 66.1);
    }
}

#[test]
fn n2_without_a_server_the_address_lasts_to_the_end_of_the_lease() {
    let mut host = Host::bound(None);
    let end = host.client.lease().unwrap().end();
    let mut all = Vec::new();
    let removed = loop {
        let actions = host.wait();
        if matches!(actions[0], Action::Remove(..)) {
            break actions;
        }
        all.extend(actions);
    };
    assert_eq!(host.now, end);
    assert_eq!(kinds(&removed), [format!("remove {ADDRESS}"), "Solicit".to_owned()]);
    assert!(matches!(&removed[0], Action::Remove(_, "no server has extended it")));
    let count =
        |kind| all.iter().filter(|action| matches!(action, Action::Send(sent) if sent.kind == kind)).count();
    // From half of an hour to four fifths, then to its end: the pauses double from ten seconds on.
    assert!((5..9).contains(&count(Kind::Renew)), "{}", kinds(&all).join(", "));
    assert!((4..8).contains(&count(Kind::Rebind)), "{}", kinds(&all).join(", "));
    assert!(all.iter().all(|action| match action {
        Action::Send(sent) => (sent.kind == Kind::Renew) == sent.options.first(code::SERVER).is_some(),
        _ => false,
    }));
}

#[test]
fn n2_the_next_address_is_there_before_the_last_one_goes() {
    let mut host = Host::bound(None);
    host.wait_for(Kind::Renew);
    let other = |number, old: u32| granted(number, (0, 0), &[("2001:db8::8", 600, 600), (ADDRESS, old, old)]);
    // In one answer.
    let mut both = Host::bound(None);
    both.wait_for(Kind::Renew);
    let actions = both.answer(Kind::Reply, vec![other(both.number, 0)]);
    assert_eq!(kinds(&actions), ["apply"]);
    assert_eq!(both.has(), [ADDRESS, "2001:db8::8"]);
    assert_eq!(kinds(&both.wait()), [format!("remove {ADDRESS}")]);
    // The server takes it back, and gives another one when it is asked.
    let gone = granted(host.number, (0, 0), &[(ADDRESS, 0, 0)]);
    let taken = host.now;
    let actions = host.answer(Kind::Reply, vec![gone]);
    assert_eq!(kinds(&actions), ["log: the server has taken everything back", "apply", "Solicit"]);
    let gift = granted(host.number, (0, 0), &[("2001:db8::8", 600, 600)]);
    host.answer(Kind::Advertise, vec![gift.clone()]);
    host.wait_for(Kind::Request);
    let actions = host.answer(Kind::Reply, vec![gift]);
    assert_eq!(kinds(&actions), ["apply".to_owned(), format!("remove {ADDRESS}")]);
    assert!(matches!(actions[1], Action::Remove(_, "another one has replaced it")));
    assert!(host.now - taken < seconds(10));
    assert_eq!(host.has(), ["2001:db8::8"]);
}

#[test]
fn n3_after_a_restart_and_a_cable_it_asks_for_what_it_had() {
    let lease = Host::bound(None).client.lease().unwrap().clone();
    let mut host = Host::new(None, true, Some(lease.clone()));
    host.input(Input::Link(true));
    let confirm = host.wait_for(Kind::Confirm);
    assert_eq!(asks(&confirm, Wanted::Address, host.number), Some(1));
    assert_eq!((confirm.options.first(code::SERVER), confirm.options.first(code::REQUESTED)), (None, None));
    assert_eq!(kinds(&host.answer(Kind::Reply, Vec::new())), ["apply"]);
    assert_eq!(host.client.status(), "bound");

    // Nobody answers for ten seconds: the client keeps the lease.
    let mut host = Host::new(None, true, Some(lease.clone()));
    host.input(Input::Link(true));
    let began = host.now;
    while host.client.status() != "bound" {
        assert!(host.wait().iter().all(|action| !matches!(action, Action::Remove(..))));
    }
    assert!((seconds(10)..seconds(13)).contains(&(host.now - began)), "{:?}", host.now - began);
    host.wait_for(Kind::Renew);

    // The host is on another link.
    let mut host = Host::new(None, true, Some(lease));
    host.input(Input::Link(true));
    host.wait_for(Kind::Confirm);
    host.answer(Kind::Reply, vec![status(4)]);
    assert_eq!(host.client.status(), "looking for a server");
    let began = host.now;
    while !host.has().is_empty() {
        host.wait();
    }
    assert_eq!(host.now - began, seconds(10), "the next one is there before it goes");

    // A prefix is not confirmed, but asked for.
    let lease = Host::bound(Some(0)).client.lease().unwrap().clone();
    let mut host = Host::new(Some(0), true, Some(lease));
    host.input(Input::Link(true));
    let rebind = host.wait_for(Kind::Rebind);
    assert_eq!(asks(&rebind, Wanted::Prefix, host.number), Some(1));
    let gifts = host.gifts(3600);
    assert_eq!(kinds(&host.answer(Kind::Reply, gifts)), ["apply"]);
}

#[test]
fn n3_of_two_servers_the_preferred_one_is_asked_and_the_other_one_not_heard() {
    let mut host = Host::new(None, true, None);
    host.input(Input::Link(true));
    host.wait_for(Kind::Solicit);
    let gifts = host.gifts(3600);
    let of = |host: &Host, server: &[u8], kind, preference: u8| {
        let mut message = host.message(kind, gifts.clone());
        message.options.0.retain(|(code, _)| *code != code::SERVER);
        message.options.put(code::SERVER, server);
        message.options.put(code::PREFERENCE, [preference]);
        Input::Message(message, LINK)
    };
    for (server, preference) in [(b"one", 5), (b"two", 7), (b"six", 6)] {
        let offer = of(&host, server, Kind::Advertise, preference);
        assert!(host.input(offer).is_empty());
    }
    let request = host.wait_for(Kind::Request);
    assert_eq!(request.options.first(code::SERVER), Some(&b"two"[..]));
    let late = of(&host, b"one", Kind::Reply, 0);
    assert!(host.input(late).is_empty());
    let changed = |host: &Host, change: fn(&mut Message)| {
        let Input::Message(mut message, from) = of(host, b"two", Kind::Reply, 0) else { panic!("a message") };
        change(&mut message);
        Input::Message(message, from)
    };
    let stale = changed(&host, |message| message.transaction += 1);
    assert!(host.input(stale).is_empty());
    let other = changed(&host, |message| message.options.0[0].1[9] = 2);
    assert!(host.input(other).is_empty(), "it is for another host");
    let reply = of(&host, b"two", Kind::Reply, 0);
    assert_eq!(kinds(&host.input(reply)), ["apply"]);

    // The first choice is taken at once.
    let mut host = Host::new(None, true, None);
    host.input(Input::Link(true));
    host.wait_for(Kind::Solicit);
    let offer = of(&host, b"top", Kind::Advertise, 255);
    assert_eq!(kinds(&host.input(offer)), ["Request"]);
}

#[test]
fn n3_a_server_that_always_refuses_is_asked_less_and_less() {
    let mut host = Host::new(None, true, None);
    host.input(Input::Link(true));
    let began = host.now;
    let mut requests = 0;
    while host.now - began < seconds(1200) {
        let gifts = host.gifts(3600);
        match host.client.state {
            State::Soliciting { .. } if host.client.state.exchange().unwrap().count > 0 => {
                host.answer(Kind::Advertise, gifts);
                host.wait();
            }
            State::Requesting { .. } => {
                let mut inner = Options::default();
                inner.0.push(status(2));
                host.answer(Kind::Reply, vec![(code::ADDRESSES, association(host.number, (0, 0), &inner))]);
                requests += 1;
            }
            _ => drop(host.wait()),
        }
    }
    assert!((5..15).contains(&requests), "{requests}");
}

#[test]
fn n3_a_server_that_has_forgotten_the_host_is_asked_to_give_it_again() {
    let mut host = Host::bound(None);
    host.wait_for(Kind::Renew);
    let mut inner = Options::default();
    inner.0.push(status(3));
    let forgotten = (code::ADDRESSES, association(host.number, (0, 0), &inner));
    let actions = host.answer(Kind::Reply, vec![forgotten.clone()]);
    assert_eq!(asks(sent(&actions).unwrap(), Wanted::Address, host.number), Some(1));
    assert_eq!(kinds(&actions), ["Request"]);
    let mut other = host.answer(Kind::Reply, vec![forgotten]);
    assert_eq!(kinds(&other.split_off(1)), ["Solicit"], "it does not go round in a circle");
    assert_eq!(host.has(), [ADDRESS]);
    // What is wrong with the server is not held against the lease.
    let mut host = Host::bound(None);
    host.wait_for(Kind::Renew);
    assert!(host.answer(Kind::Reply, vec![status(1)]).is_empty());
    host.wait_for(Kind::Renew);
}

#[test]
fn an_address_of_another_host_is_declined() {
    let mut host = Host::bound(Some(0));
    assert!(host.input(Input::Conflict("2001:db8::99".parse().unwrap())).is_empty());
    let actions = host.input(Input::Conflict(ADDRESS.parse().unwrap()));
    assert_eq!(kinds(&actions), [format!("remove {ADDRESS}"), "Decline".to_owned()]);
    let decline = sent(&actions).unwrap();
    assert_eq!(decline.options.first(code::SERVER), Some(&b"server"[..]));
    assert_eq!(asks(decline, Wanted::Address, host.number), Some(1));
    assert_eq!(asks(decline, Wanted::Prefix, host.number), None);
    assert_eq!(host.has(), ["2001:db8:100::"], "the prefix is not concerned");
    let declined = host.now;
    for _ in 0..3 {
        host.wait_for(Kind::Decline);
    }
    let solicit = host.wait_for(Kind::Solicit);
    assert!(host.now - declined > seconds(10));
    assert_eq!(asks(&solicit, Wanted::Prefix, host.number), Some(1), "it has one");
    // An answer ends it.
    let mut host = Host::bound(None);
    host.input(Input::Conflict(ADDRESS.parse().unwrap()));
    let declined = host.now;
    assert!(host.answer(Kind::Reply, vec![status(0)]).is_empty());
    host.wait_for(Kind::Solicit);
    assert_eq!(host.now - declined, seconds(10));
}

#[test]
fn routers_say_what_a_host_asks_for() {
    let mut host = Host::new(None, false, None);
    host.input(Input::Link(true));
    assert_eq!((host.client.deadline(), host.client.status()), (None, "no router tells of a server"));
    host.input(Input::Routers(Flags { managed: false, other: true }));
    let inform = host.wait_for(Kind::Inform);
    assert!(asks(&inform, Wanted::Address, host.number).is_none());
    let names = (code::NAME_SERVERS, vec![0x20; 16]);
    assert_eq!(kinds(&host.answer(Kind::Reply, vec![names])), ["apply"]);
    assert_eq!(host.client.lease().unwrap().name_servers.len(), 1);
    let before = host.now;
    host.wait_for(Kind::Inform);
    assert_eq!(host.now - before, seconds(86_400), "names are asked for once a day");
    host.answer(Kind::Reply, Vec::new());
    host.input(Input::Routers(MANAGED));
    let solicit = host.wait_for(Kind::Solicit);
    assert_eq!(asks(&solicit, Wanted::Prefix, host.number), None);
    let gifts = host.gifts(3600);
    host.answer(Kind::Advertise, gifts.clone());
    host.wait_for(Kind::Request);
    host.answer(Kind::Reply, gifts);
    // What a router does not say any more takes nothing away.
    assert!(host.input(Input::Routers(Flags::default())).is_empty());
    assert_eq!(host.has(), [ADDRESS]);
}

#[test]
fn n5_a_link_that_goes_and_comes_keeps_the_address() {
    let mut host = Host::bound(None);
    for _ in 0..50 {
        host.now += seconds(1);
        assert!(host.input(Input::Link(false)).is_empty());
        assert_eq!(host.has(), [ADDRESS]);
        // After a random time of at most a second.
        if host.input(Input::Link(true)).is_empty() {
            host.wait_for(Kind::Confirm);
        }
        assert_eq!(kinds(&host.answer(Kind::Reply, Vec::new())), ["apply"]);
    }
    // It stays away for longer than the lease.
    host.input(Input::Link(false));
    assert_eq!(kinds(&host.wait()), [format!("remove {ADDRESS}")]);
    assert_eq!(host.client.deadline(), None);
}
