use std::collections::BTreeMap;

use kelson_conditions::{Condition as _, Level};
use kelson_proto::v1::fleet_command::Command as Sent;
use kelson_proto::v1::fleet_report::Report as Reported;
use kelson_proto::v1::{
    FleetCommand, FleetConnection, FleetFound, FleetHost, FleetHostsRequest, FleetPage, FleetRemoved,
    FleetReport, FleetServiceState, HelperPong,
};
use kelson_spec::ServiceSpec;
use kelson_spec::fleet::{Instances, Registration};
use kelson_spec::service::{Requirement, WhenDown};
use tokio::task::JoinHandle;

use super::*;
use crate::model::{Snapshot, State};
use crate::stand_in::{self, StandIn, Words};

struct FleetWords;

impl Words for FleetWords {
    type Command = FleetCommand;
    type Report = FleetReport;
    type Own = Sent;

    fn sent(command: FleetCommand) -> stand_in::Sent<Sent> {
        match command.command.unwrap() {
            Sent::Ping(ping) => stand_in::Sent::Ping(ping),
            Sent::Stop(_) => stand_in::Sent::Stop,
            own => stand_in::Sent::Own(own),
        }
    }

    fn pong(pong: HelperPong) -> FleetReport {
        FleetReport { report: Some(Reported::Pong(pong)) }
    }
}

struct Host {
    stand: Arc<StandIn<FleetWords>>,
    sent: mpsc::UnboundedReceiver<Sent>,
    registry: Registry,
    services: BTreeMap<&'static str, watch::Sender<Snapshot>>,
    fleet: Fleet,
    reports: mpsc::Receiver<Report>,
}

fn spec() -> FleetSpec {
    FleetSpec { name: Some("edge-1".to_owned()), ..FleetSpec::default() }
}

fn snapshot(name: &str, up: bool, port: u16) -> Snapshot {
    let register = Registration { name: "web".to_owned(), port: Some(port), ..Registration::default() };
    let spec = ServiceSpec { name: name.to_owned(), register: Some(register), ..ServiceSpec::default() };
    let state = if up { State::Running } else { State::Stopping };
    Snapshot { up, spec: Some(Arc::new(spec)), ..Snapshot::new(Arc::from(name), state, Arc::from("")) }
}

impl Host {
    fn new() -> Host {
        let (stand, sent) = StandIn::new();
        let registry = Registry::default();
        let (fleet, (driver, reports)) =
            Fleet::new(spec(), Arc::clone(&stand) as Arc<dyn Launcher>, registry.clone());
        tokio::spawn(driver);
        Host { stand, sent, registry, services: BTreeMap::new(), fleet, reports }
    }

    /// A host whose services are known, and whose helper has been sent its first messages.
    async fn begun() -> Host {
        let mut host = Host::new();
        host.set("web-1", true, 80);
        host.begin();
        host.first(&["web-1"]).await;
        host
    }

    fn begin(&self) {
        self.fleet
            .member
            .as_ref()
            .unwrap()
            .send(Command::Begin { acts: mpsc::unbounded_channel().0, ago: Duration::ZERO });
    }

    fn set(&mut self, name: &'static str, up: bool, port: u16) {
        self.set_snapshot(name, snapshot(name, up, port));
    }

    fn set_snapshot(&mut self, name: &'static str, now: Snapshot) {
        match self.services.get(name) {
            Some(service) => _ = service.send_replace(now),
            None => {
                let (publisher, receiver) = watch::channel(now);
                self.services.insert(name, publisher);
                self.registry.add(Arc::from(name), receiver);
            }
        }
        self.registry.changed(&Arc::from(name));
    }

    async fn next(&mut self) -> Sent {
        self.sent.recv().await.unwrap()
    }

    /// What each new helper is sent.
    async fn first(&mut self, services: &[&str]) {
        let Sent::Settings(settings) = self.next().await else { panic!("no settings") };
        assert_eq!(kelson_spec::wire::decode::<FleetSpec>(&settings).unwrap(), spec());
        assert!(matches!(self.next().await, Sent::Health(_)));
        for service in services {
            assert_eq!(self.next_registered().await, *service);
        }
        assert!(matches!(self.next().await, Sent::Complete(true)));
    }

    async fn next_registered(&mut self) -> String {
        match self.next().await {
            Sent::Register(register) => {
                assert_eq!((register.name.as_str(), register.address.as_str()), ("web", "auto"));
                register.service
            }
            other => panic!("{other:?}"),
        }
    }

    /// The number of the next removal; it is of `web-1`.
    async fn next_removal(&mut self) -> u64 {
        match self.next().await {
            Sent::Remove(remove) => {
                assert_eq!(remove.service, "web-1");
                remove.number
            }
            other => panic!("{other:?}"),
        }
    }

    fn says(&self, report: Reported) {
        self.stand.report(&FleetReport { report: Some(report) });
    }

    fn removed(&self, number: u64, problem: &str) {
        self.says(Reported::Removed(FleetRemoved { number, problem: problem.to_owned() }));
    }

    fn withdraw(&self) -> JoinHandle<Option<String>> {
        let fleet = self.fleet.clone();
        tokio::spawn(async move { fleet.withdraw(&Arc::from("web-1")).await })
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_is_registered_while_it_is_up() {
    let mut host = Host::new();
    host.set("web-1", true, 80);
    host.set("web-2", false, 80);
    host.begin();
    host.first(&["web-1"]).await;
    host.set("web-2", true, 80);
    assert_eq!(host.next_registered().await, "web-2");
    // Nothing that is registered has changed.
    host.set("web-2", true, 80);
    host.set("web-2", true, 81);
    assert_eq!(host.next_registered().await, "web-2");
    host.set("web-1", false, 80);
    host.next_removal().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_is_not_registered_while_a_check_of_its_registration_fails() {
    let mut host = Host::begun().await;
    let withheld = Some("check page: connection refused".into());
    host.set_snapshot("web-1", Snapshot { withheld, ..snapshot("web-1", true, 80) });
    host.next_removal().await;
    let [web] = &host.fleet.registrations()[..] else { panic!("one service registers") };
    let now = (web.up, web.state.as_str(), web.problem.as_str());
    assert_eq!(now, (true, "absent", "check page: connection refused"));
    host.set("web-1", true, 80);
    assert_eq!(host.next_registered().await, "web-1");
    // One that is up but for its registration waits for its checks as well.
    let waits = |withheld| Snapshot { awaits_registration: true, withheld, ..snapshot("web-2", false, 80) };
    host.set_snapshot("web-2", waits(Some("check page: no result yet".into())));
    host.set_snapshot("web-2", waits(None));
    assert_eq!(host.next_registered().await, "web-2");
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_until_the_store_has_confirmed() {
    let mut host = Host::begun().await;
    // As a service does that begins to stop: it is published before.
    host.set("web-1", false, 80);
    let withdrawn = host.withdraw();
    let number = host.next_removal().await;
    assert_eq!(host.next_removal().await, number);
    assert!(!withdrawn.is_finished());
    host.removed(number, "");
    assert_eq!(withdrawn.await.unwrap(), None);

    host.set("web-1", true, 80);
    assert_eq!(host.next_registered().await, "web-1");
    let withdrawn = host.withdraw();
    let number = host.next_removal().await;
    host.removed(number, "connection refused");
    let problem = "its registration may be seen until its lease ends: connection refused";
    assert_eq!(withdrawn.await.unwrap().as_deref(), Some(problem));
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_helper_that_hangs() {
    let mut host = Host::begun().await;
    let began = Instant::now();
    let withdrawn = host.withdraw();
    host.next_removal().await;
    assert!(withdrawn.await.unwrap().unwrap().contains("did not answer"));
    assert_eq!(began.elapsed(), REMOVAL);
}

#[tokio::test(start_paused = true)]
async fn the_next_helper_gets_all_of_it_again() {
    let mut host = Host::begun().await;
    host.set("web-2", true, 80);
    assert_eq!(host.next_registered().await, "web-2");
    let withdrawn = host.withdraw();
    let number = host.next_removal().await;
    host.stand.crash();
    assert!(matches!(host.next().await, Sent::Settings(_)));
    assert!(matches!(host.next().await, Sent::Health(_)));
    assert_eq!(host.next_registered().await, "web-2");
    assert_eq!(host.next_removal().await, number);
    assert!(matches!(host.next().await, Sent::Complete(true)));
    host.removed(number, "");
    assert_eq!(withdrawn.await.unwrap(), None);
    let message = host.reports.recv().await.unwrap().message;
    assert_eq!(message, "replaced: was killed by SIGKILL; no registration is lost");
}

#[tokio::test(start_paused = true)]
async fn an_answer_comes_in_parts() {
    let mut host = Host::begun().await;
    let fleet = host.fleet.clone();
    let asked = tokio::spawn(async move { fleet.hosts(FleetHostsRequest::default()).await });
    let Sent::Question(question) = host.next().await else { panic!("no question") };
    let part = |name: &str, more| FleetPage {
        number: question.number,
        hosts: vec![FleetHost { name: name.to_owned(), ..FleetHost::default() }],
        more,
        rest: !more,
        ..FleetPage::default()
    };
    host.says(Reported::Page(part("a", true)));
    host.says(Reported::Page(part("b", false)));
    let answer = asked.await.unwrap().unwrap();
    let names: Vec<&str> = answer.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!((names, answer.more), (vec!["a", "b"], true));

    let fleet = host.fleet.clone();
    let asked = tokio::spawn(async move { fleet.hosts(FleetHostsRequest::default()).await });
    let Sent::Question(question) = host.next().await else { panic!("no question") };
    let problem = "connection refused".to_owned();
    host.says(Reported::Page(FleetPage { number: question.number, problem, ..FleetPage::default() }));
    assert_eq!(asked.await.unwrap().unwrap_err().to_string(), "connection refused");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_plan_has_a_revision_or_is_refused() {
    let mut host = Host::begun().await;
    for (revision, answer) in [(7, Some(7)), (0, None)] {
        let fleet = host.fleet.clone();
        let put = v1::PutFleetPlanRequest { name: "roll".to_owned(), ..Default::default() };
        let asked = tokio::spawn(async move { fleet.put_plan(put).await });
        let Sent::Question(question) = host.next().await else { panic!("no question") };
        host.says(Reported::Page(FleetPage { number: question.number, revision, ..FleetPage::default() }));
        assert_eq!(asked.await.unwrap(), Ok(answer));
    }
}

#[tokio::test(start_paused = true)]
async fn events_report_a_lost_store_once_and_a_problem_of_a_service_once() {
    let mut host = Host::begun().await;
    let connection = |connected, problem: &str| {
        let problem = problem.to_owned();
        Reported::Connection(FleetConnection { connected, problem, ..FleetConnection::default() })
    };
    host.says(connection(true, ""));
    host.says(connection(true, ""));
    host.says(connection(false, "connection refused"));
    host.says(connection(false, "no route to host"));
    let service = |problem: &str| {
        Reported::Service(FleetServiceState {
            service: "web-1".to_owned(),
            state: "registering".to_owned(),
            problem: problem.to_owned(),
            ..FleetServiceState::default()
        })
    };
    host.says(service("the store is full"));
    host.says(service("the store is full"));
    let mut messages = Vec::new();
    for _ in 0..3 {
        messages.push(host.reports.recv().await.unwrap().message);
    }
    assert_eq!(
        messages,
        [
            "the host is registered in the store of its fleet",
            "the host is not registered in the store of its fleet: connection refused",
            "not registered as it should be: the store is full"
        ]
    );
    let [web] = &host.fleet.registrations()[..] else { panic!("one service registers") };
    assert_eq!(
        (web.state.as_str(), web.problem.as_str(), web.port),
        ("registering", "the store is full", 80)
    );
    assert!(host.reports.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_host_that_stops_leaves_and_then_ends_the_helper() {
    let mut host = Host::begun().await;
    let fleet = host.fleet.clone();
    let ended = tokio::spawn(async move {
        fleet.shutdown(Instant::now().checked_add(Duration::from_secs(1)).unwrap()).await;
    });
    assert!(matches!(host.next().await, Sent::Leave(true)));
    assert!(!ended.is_finished());
    host.removed(0, "");
    ended.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_helper_finds_what_services_wait_for_and_the_next_one_goes_on_with_it() {
    let wanted = Instances { name: "postgres".into(), tag: Some("primary".into()), ..Instances::default() };
    let mut host = Host::new();
    host.set_snapshot("web-1", snapshot("web-1", true, 80));
    let mut app = snapshot("app", false, 80);
    let depends = vec![Requirement::Registered { instances: wanted.clone(), when_down: WhenDown::Ignore }];
    app.spec = Some(Arc::new(ServiceSpec { name: "app".to_owned(), depends, ..ServiceSpec::default() }));
    host.set_snapshot("app", app);
    host.begin();
    let mut condition = host.fleet.registered().condition(&wanted);
    for _ in 0..2 {
        let Sent::Settings(_) = host.next().await else { panic!("no settings") };
        assert!(matches!(host.next().await, Sent::Health(_)));
        assert_eq!(host.next_registered().await, "web-1");
        assert!(matches!(host.next().await, Sent::Complete(true)));
        let Sent::Interest(interest) = host.next().await else { panic!("no interest") };
        let [one] = &interest.wanted[..] else { panic!("{interest:?}") };
        assert_eq!((one.name.as_str(), one.tag.as_str()), ("postgres", "primary"));
        // Of the second helper nothing is known yet, and the last answer stays.
        if condition.level() == Level::Unknown {
            let micros = u64::try_from(since_boot().as_micros()).unwrap();
            host.says(Reported::FoundAt(micros));
            host.says(Reported::Found(FleetFound { wanted: Some(one.clone()), count: 1, all: 3 }));
            condition.wait().await;
        }
        assert!(condition.holds());
        host.stand.crash();
    }
}

#[tokio::test]
async fn without_a_fleet_the_table_is_the_hosts_own() {
    let registry = Registry::default();
    let (_up, receiver) = watch::channel(snapshot("web-1", true, 80));
    registry.add(Arc::from("web-1"), receiver);
    let (_down, receiver) = watch::channel(snapshot("web-2", false, 80));
    registry.add(Arc::from("web-2"), receiver);
    let fleet = Fleet::none(registry);
    let states: Vec<(String, String)> =
        fleet.registrations().into_iter().map(|one| (one.service, one.state)).collect();
    assert_eq!(
        states,
        [("web-1".to_owned(), "registered".to_owned()), ("web-2".to_owned(), "absent".to_owned())]
    );
    assert!(fleet.membership().is_none() && fleet.withdraw(&Arc::from("web-1")).await.is_none());
    let refused = fleet.hosts(FleetHostsRequest::default()).await.unwrap_err();
    assert_eq!(refused.to_string(), "the machine file has no `fleet`: this host belongs to none");
}
