//! A plan in the store of the fleet, through the host that keeps it.

use std::time::Duration;

use kelson_api::client::Client;
use kelson_proto::v1::{
    FleetPlanPart, FleetPlansRequest, PutFleetPlanRequest, PutFleetPlanResponse, RemoveFleetPlanRequest,
};
use prost_types::Timestamp;
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

use super::plan::{Claim, Head, Plan, State};
use super::runner::{self, RENEWAL};
use crate::failure::{ANSWER, Failure, answer, within};

/// A coordinator that has not renewed its claim for so long is gone.
const CLAIM: Duration = Duration::from_secs(30);
/// A store that does not answer is asked again for so long.
const AWAY: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_secs(1);
/// Plans of a host that have ended and are kept.
const KEPT: usize = 20;

/// A plan as the list has it.
#[derive(Debug, Clone)]
pub struct Listed {
    pub host: String,
    pub name: String,
    pub revision: i64,
    /// Or why it cannot be read.
    pub head: Result<Head, String>,
}

impl Listed {
    fn of(part: FleetPlanPart) -> Listed {
        let head = Head::read(&part.value);
        Listed { host: part.host, name: part.name, revision: part.revision, head }
    }

    /// Whether someone carries it out at this time, in seconds since 1970.
    pub fn claim(&self, now: i64) -> Option<&Claim> {
        let head = self.head.as_ref().ok()?;
        head.claim.as_ref().filter(|claim| claim.until > now)
    }
}

/// All plans, sorted by host and name, and the time of the host that answers.
pub async fn all(client: &Client) -> Result<(Vec<Listed>, i64), Failure> {
    let (parts, time) = parts(client, "").await?;
    Ok((parts.into_iter().map(Listed::of).collect(), time))
}

/// All parts of a plan, or the first one of each.
async fn parts(client: &Client, plan: &str) -> Result<(Vec<FleetPlanPart>, i64), Failure> {
    let pages = async {
        let (mut fleet, mut parts, mut after) = (client.fleet(), Vec::new(), String::new());
        loop {
            let request = FleetPlansRequest { plan: plan.to_owned(), after: after.clone(), limit: 0 };
            let page = fleet.plans(request).await?.into_inner();
            parts.extend(page.parts);
            if page.cursor.is_empty() {
                return Ok((parts, seconds(page.time)));
            }
            if page.cursor <= after {
                return Err(Failure::Failed("the host sends the same plans again and again".to_owned()));
            }
            after = page.cursor;
        }
    };
    within(ANSWER, pages).await
}

/// The plan of this name, or of this HOST/NAME.
pub async fn find(client: &Client, name: &str) -> Result<(Listed, i64), Failure> {
    let (plans, now) = all(client).await?;
    let mut found: Vec<Listed> = plans
        .into_iter()
        .filter(|plan| plan.name == name || format!("{}/{}", plan.host, plan.name) == name)
        .collect();
    match (found.pop(), found.pop()) {
        (Some(plan), None) => Ok((plan, now)),
        (Some(one), Some(other)) => Err(Failure::Usage(format!(
            "several hosts keep a plan {name:?}; say which: {}/{name} or {}/{name}",
            other.host, one.host
        ))),
        (None, _) => Err(Failure::Unknown(format!("no plan {name:?}; `kelsonctl fleet plans` lists all"))),
    }
}

/// The plan with all of its hosts.
pub async fn read(client: &Client, listed: &Listed) -> Result<Plan, Failure> {
    let (parts, _) = parts(client, &format!("{}/{}", listed.host, listed.name)).await?;
    let mut parts = parts.into_iter();
    let unfit = |why: String| {
        Failure::Failed(format!(
            "the plan {} cannot be read: {why}; `kelsonctl fleet plans {} --remove` removes it",
            listed.name, listed.name
        ))
    };
    let head = parts.next().ok_or_else(|| unfit("it is gone".to_owned()))?;
    let head = Head::read(&head.value).map_err(unfit)?;
    let parts: Vec<Vec<u8>> = parts.take(head.parts()).map(|part| part.value).collect();
    Plan::read(head, &parts).map_err(unfit)
}

/// Removes a plan that nobody carries out.
pub async fn remove(client: &Client, listed: &Listed, now: i64) -> Result<(), Failure> {
    if let Some(claim) = listed.claim(now) {
        return Err(claimed(&listed.name, claim));
    }
    let request = RemoveFleetPlanRequest { name: listed.name.clone(), revision: listed.revision };
    answer(client.fleet().remove_plan(request)).await.map(|_| ())
}

/// The plan of this coordinator, which it alone may change.
#[derive(Debug)]
pub struct Record {
    client: Client,
    host: String,
    name: String,
    revision: i64,
    claim: Claim,
    /// The time of the host, and when it was that.
    time: (i64, Instant),
}

impl Record {
    fn new(client: Client, (host, name): (&str, &str), revision: i64, time: i64) -> Record {
        let id = format!("{}-{:?}", std::process::id(), std::time::SystemTime::now());
        Record {
            client,
            host: host.to_owned(),
            name: name.to_owned(),
            revision,
            claim: Claim { id, who: who(), until: 0 },
            time: (time, Instant::now()),
        }
    }

    /// Keeps a new plan, and removes the oldest ones of this host that have ended.
    pub async fn begin(client: Client, host: &str, name: &str, plan: &mut Plan) -> Result<Record, Failure> {
        let (plans, time) = all(&client).await?;
        let own: Vec<&Listed> = plans.iter().filter(|plan| plan.host == host).collect();
        if plans.iter().any(|plan| plan.name == name) {
            return Err(Failure::Failed(format!(
                "there is a plan {name} already: `kelsonctl fleet resume {name}` continues it, and \
                 `kelsonctl fleet plans {name} --remove` removes it"
            )));
        }
        let mut ended: Vec<(i64, &Listed)> = own
            .into_iter()
            .filter_map(|plan| Some((plan.head.as_ref().ok()?, plan)))
            .filter(|(head, _)| head.state != State::Running)
            .map(|(head, plan)| (head.began, plan))
            .collect();
        ended.sort_by_key(|(began, _)| std::cmp::Reverse(*began));
        for (_, plan) in ended.iter().skip(KEPT.saturating_sub(1)) {
            remove(&client, plan, time).await?;
        }
        let mut record = Record::new(client, (host, name), 0, time);
        runner::Record::put(&mut record, plan, None).await?;
        for part in 1..=plan.head.parts() {
            record.write(part, plan.part(part)).await?;
        }
        Ok(record)
    }

    /// Takes a plan over from a coordinator that is gone. Waits until that is certain.
    pub async fn resume(client: Client, listed: &Listed) -> Result<(Record, Plan), Failure> {
        let place = format!("{}/{}", listed.host, listed.name);
        let (mut listed, mut now) = (listed.clone(), None::<i64>);
        let mut first: Option<Claim> = None;
        loop {
            if let Some(time) = now {
                match (listed.claim(time), &first) {
                    (None, _) => break,
                    (Some(claim), Some(first)) if *first != *claim => {
                        return Err(claimed(&listed.name, claim));
                    }
                    (Some(claim), _) => first = Some(claim.clone()),
                }
                sleep(PAUSE).await;
            }
            let (found, time) = find(&client, &place).await?;
            (listed, now) = (found, Some(time));
        }
        let mut plan = read(&client, &listed).await?;
        let time = now.unwrap_or_default();
        let mut record = Record::new(client, (&listed.host, &listed.name), listed.revision, time);
        let before = plan.clone();
        if plan.head.state == State::Stopped {
            plan.retry();
        }
        runner::Record::put(&mut record, &mut plan, None).await?;
        for part in (1..=plan.head.parts()).filter(|part| plan.part(*part) != before.part(*part)) {
            record.write(part, plan.part(part)).await?;
        }
        Ok((record, plan))
    }

    fn now(&self) -> i64 {
        let since = i64::try_from(self.time.1.elapsed().as_secs()).unwrap_or_default();
        self.time.0.saturating_add(since)
    }

    /// Writes a part, again and again while the store does not answer.
    async fn write(&mut self, part: usize, value: Vec<u8>) -> Result<(), Failure> {
        let began = Instant::now();
        let part = u32::try_from(part).unwrap_or(u32::MAX);
        loop {
            let request = PutFleetPlanRequest {
                name: self.name.clone(),
                part,
                revision: self.revision,
                value: value.clone(),
            };
            let said = tokio::time::timeout(ANSWER, self.client.fleet().put_plan(request)).await;
            let said = said.unwrap_or_else(|_| Err(Status::deadline_exceeded("the host gave no answer")));
            match said.map(tonic::Response::into_inner) {
                Ok(PutFleetPlanResponse { revision, time }) => {
                    self.revision = revision;
                    self.time = (seconds(time), Instant::now());
                    return Ok(());
                }
                Err(status) if status.code() == Code::Aborted => self.adopt().await?,
                Err(status)
                    if matches!(
                        status.code(),
                        Code::InvalidArgument
                            | Code::PermissionDenied
                            | Code::Unauthenticated
                            | Code::Unimplemented
                    ) =>
                {
                    return Err(status.into());
                }
                Err(status) if began.elapsed() > AWAY => {
                    return Err(Failure::Failed(format!(
                        "the plan cannot be kept: {}; `kelsonctl fleet resume {}` continues it",
                        Failure::from(status),
                        self.name
                    )));
                }
                Err(_) => {}
            }
            sleep(PAUSE).await;
        }
    }

    /// The plan has another revision than was known: an answer was lost, or it has another coordinator.
    async fn adopt(&mut self) -> Result<(), Failure> {
        let found = find(&self.client, &format!("{}/{}", self.host, self.name)).await;
        // It may be that the store is away again.
        let Ok((listed, _)) = found else { return Ok(()) };
        match listed.head.as_ref().ok().and_then(|head| head.claim.as_ref()) {
            Some(claim) if claim.id == self.claim.id => {
                self.revision = listed.revision;
                Ok(())
            }
            Some(claim) => Err(claimed(&self.name, claim)),
            None => Err(Failure::Failed(format!("another has changed the plan {}", self.name))),
        }
    }
}

impl runner::Record for Record {
    async fn put(&mut self, plan: &mut Plan, host: Option<usize>) -> Result<(), Failure> {
        if let Some(index) = host {
            let part = Plan::part_of(index);
            return self.write(part, plan.part(part)).await;
        }
        // A plan that has ended is nobody's.
        let until = self.now().saturating_add(i64::try_from(CLAIM.as_secs()).unwrap_or_default());
        let is_running = plan.head.state == State::Running;
        self.claim.until = until;
        plan.head.claim = is_running.then(|| self.claim.clone());
        self.write(0, plan.head.value()).await
    }
}

impl Record {
    /// The plan is to be continued by another.
    pub async fn release(&mut self, plan: &mut Plan) -> Result<(), Failure> {
        plan.head.claim = None;
        within(RENEWAL, self.write(0, plan.head.value())).await
    }
}

fn claimed(name: &str, claim: &Claim) -> Failure {
    Failure::Failed(format!("the plan {name} is being carried out by {}", claim.who))
}

/// `ann@desk`.
pub fn who() -> String {
    let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    let user = variable("SUDO_USER").or_else(|| variable("USER")).unwrap_or_else(|| "root".to_owned());
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{user}@{}", machine.trim())
}

fn seconds(time: Option<Timestamp>) -> i64 {
    time.map_or(0, |time| time.seconds)
}
