use kelson_proto::v1::volumes_command::Command as Sent;
use kelson_proto::v1::volumes_report::Report as Reported;
use kelson_proto::v1::{
    DeleteVolumeRequest, HelperPong, VolumeAction, VolumeActionDone, VolumeClaim, VolumeStep, VolumesClaimed,
    VolumesCommand, VolumesList, VolumesReleased, VolumesReport,
};

use super::*;
use crate::stand_in::{self, StandIn, Words};

type Stand = StandIn<VolumesWords>;

struct VolumesWords;

impl Words for VolumesWords {
    type Command = VolumesCommand;
    type Report = VolumesReport;
    type Own = Sent;

    fn sent(command: VolumesCommand) -> stand_in::Sent<Sent> {
        match command.command.unwrap() {
            Sent::Ping(ping) => stand_in::Sent::Ping(ping),
            Sent::Stop(_) => stand_in::Sent::Stop,
            own => stand_in::Sent::Own(own),
        }
    }

    fn pong(pong: HelperPong) -> VolumesReport {
        VolumesReport { report: Some(Reported::Pong(pong)) }
    }
}

impl Stand {
    fn says(&self, report: Reported) {
        self.report(&VolumesReport { report: Some(report) });
    }

    fn claimed(&self, number: u64, failures: Vec<VolumeStep>) {
        self.says(Reported::Claimed(VolumesClaimed { service: "db".to_owned(), number, failures }));
    }

    fn released(&self, number: u64, failures: Vec<VolumeStep>) {
        self.says(Reported::Released(VolumesReleased { service: "db".to_owned(), number, failures }));
    }
}

struct Host {
    stand: Arc<Stand>,
    sent: mpsc::UnboundedReceiver<Sent>,
    volumes: Volumes,
    reports: mpsc::Receiver<Report>,
}

impl Host {
    fn new() -> Host {
        let (stand, sent) = Stand::new();
        let (volumes, driver, reports) = Volumes::new(Arc::clone(&stand) as Arc<dyn Launcher>, false);
        tokio::spawn(driver);
        Host { stand, sent, volumes, reports }
    }

    async fn next(&mut self) -> Sent {
        self.sent.recv().await.unwrap()
    }

    /// The number of the next claim; it is of `db`.
    async fn next_claim(&mut self) -> u64 {
        match self.next().await {
            Sent::Claim(claim) => {
                assert_eq!((claim.service.as_str(), claim.volumes), ("db", uses("data")));
                claim.number
            }
            other => panic!("{other:?}"),
        }
    }

    async fn next_release(&mut self) -> u64 {
        match self.next().await {
            Sent::Release(VolumeClaim { service, number, volumes }) => {
                assert_eq!((service.as_str(), volumes), ("db", uses("data")));
                number
            }
            other => panic!("{other:?}"),
        }
    }

    fn claim(&self) -> tokio::task::JoinHandle<Result<(), RunnerError>> {
        let volumes = self.volumes.clone();
        tokio::spawn(async move { volumes.claim(&db(), uses("data")).await })
    }

    fn release(&self) -> tokio::task::JoinHandle<Result<(), RunnerError>> {
        let volumes = self.volumes.clone();
        tokio::spawn(async move { volumes.release(&db()).await })
    }

    fn arrange(&self) {
        self.volumes.send(Command::Arrange(Plugins::new()));
    }
}

fn db() -> Arc<str> {
    Arc::from("db")
}

fn uses(name: &str) -> Vec<VolumeUse> {
    vec![VolumeUse { name: name.to_owned(), ..VolumeUse::default() }]
}

fn failure(step: &str, why: &str) -> VolumeStep {
    VolumeStep {
        name: "data".to_owned(),
        plugin: "nfs".to_owned(),
        step: step.to_owned(),
        attempt: 1,
        failure: why.to_owned(),
        ..VolumeStep::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_lasts_until_it_is_released() {
    let mut host = Host::new();
    let claim = host.claim();
    let number = host.next_claim().await;
    host.stand.claimed(number - 1, vec![failure("of an earlier claim", "")]);
    host.stand.claimed(number, Vec::new());
    assert_eq!(claim.await.unwrap(), Ok(()));
    // The next run of the service has it already.
    assert_eq!(host.claim().await.unwrap(), Ok(()));
    let release = host.release();
    assert_eq!(host.next_release().await, number);
    let hangs = failure("NodeUnpublishVolume", "no answer in 30 s");
    host.stand.released(number, vec![hangs]);
    let failed = release.await.unwrap().unwrap_err();
    assert_eq!(failed.message, "volume data: NodeUnpublishVolume of plugin nfs: no answer in 30 s");
    assert_eq!(host.release().await.unwrap(), Ok(()), "there is no claim left");
    let claim = host.claim();
    let later = host.next_claim().await;
    assert!(later > number);
    host.stand.claimed(later, Vec::new());
    assert_eq!(claim.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_failed_claim_names_each_cause_and_leaves_nothing() {
    let mut host = Host::new();
    let claim = host.claim();
    let number = host.next_claim().await;
    let failures = vec![
        failure("NodePublishVolume", "INTERNAL: no space"),
        failure("NodeUnstageVolume", "ABORTED: busy"),
    ];
    host.stand.claimed(number, failures);
    assert_eq!(
        claim.await.unwrap().unwrap_err().message,
        "volume data: NodePublishVolume of plugin nfs: INTERNAL: no space; \
         volume data: NodeUnstageVolume of plugin nfs: ABORTED: busy"
    );
    assert_eq!(host.next_release().await, number);
    let release = host.release();
    host.stand.released(number, Vec::new());
    assert_eq!(release.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn the_next_helper_gets_all_claims_and_then_knows_that_they_are_all() {
    let mut host = Host::new();
    // As after a crash of PID 1: the claim is there before the plugins are known.
    host.volumes.hold(&db(), uses("data"));
    let number = host.next_claim().await;
    host.arrange();
    assert_eq!(host.next().await, Sent::Complete(true));
    let claim = host.claim();
    host.stand.crash();
    assert_eq!(host.next_claim().await, number);
    assert_eq!(host.next().await, Sent::Complete(true));
    host.stand.claimed(number, Vec::new());
    assert_eq!(claim.await.unwrap(), Ok(()), "it waits for the next helper");
    let report = host.reports.recv().await.unwrap();
    assert_eq!(report.message, "replaced: was killed by SIGKILL; no claim is lost");

    let release = host.release();
    assert_eq!(host.next_release().await, number);
    host.stand.crash();
    assert_eq!(host.next_release().await, number);
    host.stand.released(number, Vec::new());
    assert_eq!(release.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_release_ends_a_claim_that_is_being_made() {
    let mut host = Host::new();
    let claim = host.claim();
    let number = host.next_claim().await;
    let release = host.release();
    assert!(claim.await.unwrap().is_err());
    assert_eq!(host.next_release().await, number);
    host.stand.claimed(number, Vec::new());
    host.stand.released(number, Vec::new());
    assert_eq!(release.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn an_action_is_asked_again_of_the_next_helper() {
    let mut host = Host::new();
    let delete = || Action::Delete(DeleteVolumeRequest { name: "data".to_owned() });
    let refused = host.volumes.act(delete()).await.unwrap_err();
    assert_eq!(refused.message, "no service of this host is a storage plugin");
    host.volumes.hold(&db(), uses("data"));
    host.next_claim().await;
    let volumes = host.volumes.clone();
    let acting = tokio::spawn(async move { volumes.act(delete()).await });
    assert!(matches!(host.next().await, Sent::Action(_)));
    host.stand.crash();
    host.next_claim().await;
    let Sent::Action(VolumeAction { number, action }) = host.next().await else { panic!() };
    assert_eq!(action, Some(delete()));
    let busy = failure("DeleteVolume", "service db uses it");
    host.stand.says(Reported::Done(VolumeActionDone { number, failure: Some(busy), answer: None }));
    let failed = acting.await.unwrap().unwrap_err();
    assert_eq!(failed.message, "volume data: DeleteVolume of plugin nfs: service db uses it");
}

#[tokio::test(start_paused = true)]
async fn a_list_comes_in_parts_and_is_empty_without_plugins() {
    let mut host = Host::new();
    assert_eq!(host.volumes.list().await, Ok(Vec::new()));
    host.volumes.hold(&db(), uses("data"));
    host.next_claim().await;
    let volumes = host.volumes.clone();
    let list = tokio::spawn(async move { volumes.list().await });
    let number = match host.next().await {
        Sent::List(number) => number,
        other => panic!("{other:?}"),
    };
    let part = |name: &str, more| {
        let volumes = vec![Volume { name: name.to_owned(), ..Volume::default() }];
        host.stand.says(Reported::List(VolumesList { number, volumes, more }));
    };
    part("a", true);
    part("b", false);
    let names: Vec<String> = list.await.unwrap().unwrap().into_iter().map(|volume| volume.name).collect();
    assert_eq!(names, ["a", "b"]);
    let unanswered = host.volumes.providers();
    assert_eq!(unanswered.await, Err(NoAnswer));
}

#[tokio::test(start_paused = true)]
async fn the_helper_stays_while_something_is_not_undone() {
    let mut host = Host::new();
    let claim = host.claim();
    let number = host.next_claim().await;
    host.stand.says(Reported::Left(true));
    host.stand.claimed(number, Vec::new());
    assert_eq!(claim.await.unwrap(), Ok(()));
    host.arrange();
    assert_eq!(host.next().await, Sent::Complete(true));
    let release = host.release();
    assert_eq!(host.next_release().await, number);
    host.stand.released(number, vec![failure("NodeUnstageVolume", "INTERNAL: busy")]);
    assert!(release.await.unwrap().is_err());
    let mut status = host.volumes.status();
    assert!(status.borrow().wanted, "no service is a plugin or uses one, and the volume is staged");
    host.stand.says(Reported::Left(false));
    status.wait_for(|status| !status.wanted && status.helper.pid.is_none()).await.unwrap();
}
