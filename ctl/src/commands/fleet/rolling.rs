//! `fleet restart`, `fleet apply` and `fleet resume`: an action on many hosts, in waves.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kelson_api::client::Client;
use kelson_proto::v1::FleetHost;
use prost_types::Timestamp;

use super::chosen::{Chosen, Selected, first_of};
use super::plan_view::{Lines, Shown};
use super::{hosts, status};
use crate::call::Call;
use crate::commands::question;
use crate::configuration::Given;
use crate::failure::Failure;
use crate::output::{Page, time};
use crate::rolling::configuration::digest;
use crate::rolling::members::{Members, Ways, Work};
use crate::rolling::plan::{Action, Head, Plan, State};
use crate::rolling::record::{self, Record};
use crate::rolling::runner;
use crate::rolling::waves::Waves;

/// Beside the time for which a host has to be healthy.
const DEADLINE: Duration = Duration::from_secs(300);
/// A trial of a configuration ends within a day.
const LONGEST: Duration = Duration::from_secs(23 * 3600);
/// With the number of a run of each in the entry of a host.
const SERVICES: usize = 8;
/// For all pages of the list of hosts.
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, clap::Args)]
pub struct Restart {
    /// The services
    #[arg(id = "names", required = true, value_name = "SERVICE")]
    services: Vec<String>,
    #[command(flatten)]
    rolling: Rolling,
}

#[derive(Debug, Clone, clap::Args)]
pub struct Apply {
    /// The folder, or a file
    #[arg(value_name = "DIR|FILE")]
    path: PathBuf,
    #[command(flatten)]
    rolling: Rolling,
}

#[derive(Debug, Clone, clap::Args)]
pub struct Resume {
    /// The name of the plan, or HOST/NAME
    #[arg(id = "plan", value_name = "NAME")]
    name: String,
    /// Where the configuration of the plan is now
    #[arg(value_name = "DIR|FILE")]
    path: Option<PathBuf>,
}

/// What becomes of hosts that are not healthy before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Unhealthy {
    /// They are in waves like the others
    Include,
    /// They stay as they are
    Skip,
}

/// Which hosts, in which waves.
#[derive(Debug, Clone, clap::Args)]
struct Rolling {
    #[command(flatten)]
    selected: Selected,
    /// Hosts of each wave
    ///
    /// Numbers, percentages or all; the last is used until no host is left.
    #[arg(long, value_name = "SIZES", default_value = "1,10%,all")]
    waves: Waves,
    /// How long each must be healthy
    #[arg(long, value_name = "D", default_value = "30s", value_parser = time::parse_timeout)]
    healthy_for: Duration,
    /// Hosts of a wave that may fail
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_failed: usize,
    /// Limit for each host [default: --healthy-for + 5m]
    #[arg(long, value_name = "D", value_parser = time::parse_timeout)]
    deadline: Option<Duration>,
    /// Unhealthy hosts
    ///
    /// Those that are not healthy before. Without this the plan is refused.
    #[arg(long, value_enum, value_name = "HOW")]
    unhealthy: Option<Unhealthy>,
    /// Name of the plan [default: action and time]
    #[arg(id = "new-plan", long = "plan", value_name = "NAME")]
    name: Option<String>,
    /// Only show the waves
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

impl Restart {
    pub async fn run(mut self, call: &Call, client: &Client) -> Result<(), Failure> {
        let mut known = std::collections::BTreeSet::new();
        self.services.retain(|name| known.insert(name.clone()));
        if self.services.len() > SERVICES {
            return Err(Failure::Usage(format!("a plan restarts at most {SERVICES} services")));
        }
        let work = Work::Restart(self.services.clone());
        self.rolling.run(call, client, Action::Restart(self.services), |_| work).await
    }
}

impl Apply {
    pub async fn run(self, call: &Call, client: &Client) -> Result<(), Failure> {
        let given = Given::read(&self.path)?;
        // Another kelsonctl may have another working folder.
        let path = std::path::absolute(&self.path).unwrap_or(self.path);
        let action = Action::Apply { path: path.display().to_string(), digest: digest(&given) };
        let deadline = self.rolling.deadline();
        self.rolling.run(call, client, action, |plan| Work::Apply { given, plan, deadline }).await
    }
}

impl Rolling {
    fn deadline(&self) -> Duration {
        self.deadline.unwrap_or(self.healthy_for.saturating_add(DEADLINE))
    }

    /// Makes the plan, and carries it out. `work`: that of a plan of this name.
    async fn run(
        self,
        call: &Call,
        client: &Client,
        action: Action,
        work: impl FnOnce(String) -> Work,
    ) -> Result<(), Failure> {
        let deadline = self.deadline();
        if self.healthy_for < Duration::from_secs(1) || deadline <= self.healthy_for || deadline > LONGEST {
            return Err(Failure::Usage(format!(
                "--healthy-for {} --deadline {}: a host has to be healthy for 1s or longer, and the deadline is after \
                 that and at most 23h",
                time::relative(self.healthy_for),
                time::relative(deadline)
            )));
        }
        let (ways, mut hosts) = ways(call, client, self.selected.clone().chosen()).await?;
        let sick = |host: &FleetHost| host.health != "healthy";
        let unwell: Vec<&str> =
            hosts.iter().filter(|host| sick(host)).map(|host| host.name.as_str()).collect();
        match self.unhealthy {
            _ if unwell.is_empty() => {}
            Some(Unhealthy::Include) => {}
            Some(Unhealthy::Skip) => {
                call.note(&format!("not healthy before, and left as they are: {}", unwell.join(", ")));
                hosts.retain(|host| !sick(host));
            }
            None => {
                return Err(Failure::Failed(format!(
                    "not healthy before: {}; `kelsonctl fleet why` tells why. Give --unhealthy=include or \
                     --unhealthy=skip",
                    first_of(&unwell)
                )));
            }
        }
        if hosts.is_empty() {
            return Err(Failure::Failed("no host of the fleet is meant".to_owned()));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let began = i64::try_from(now).unwrap_or_default();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let head = Head {
            action,
            healthy_for: millis(self.healthy_for),
            deadline: millis(deadline),
            max_failed: self.max_failed,
            waves: self.waves.split(hosts.len()),
            state: State::Running,
            done: 0,
            failed: 0,
            by: record::who(),
            began,
            claim: None,
        };
        let mut plan = Plan::new(head, hosts.into_iter().map(|host| host.name));
        let name = self.name.unwrap_or_else(|| made_up(&plan.head));
        let own = ways.own().to_owned();
        if self.dry_run {
            let shown = Shown::new(&own, &name, &plan);
            return call.show(&shown, || Page::Table(shown.waves()));
        }
        if !self.yes && question::can_ask() {
            question::ask(&format!("{}?", sentence(&plan.head)))?;
        }
        for place in &plan.places {
            // A mistake of the contexts, or a host without an address, is found before anything is done.
            ways.to(&place.host)?.resolve()?;
        }
        let members = Members::new(ways, work(name.clone()));
        let record = Record::begin(client.clone(), &own, &name, &mut plan).await?;
        carry_out(call, (&own, &name), plan, record, members).await
    }
}

impl Resume {
    pub async fn run(self, call: &Call, client: &Client) -> Result<(), Failure> {
        let (listed, now) = record::find(client, &self.name).await?;
        let head = listed
            .head
            .clone()
            .map_err(|why| Failure::Failed(format!("the plan {} cannot be read: {why}", listed.name)))?;
        if head.state == State::Done {
            return Err(Failure::Failed(format!("the plan {} is done", listed.name)));
        }
        let work = match &head.action {
            Action::Restart(services) => Work::Restart(services.clone()),
            Action::Apply { path, digest: wanted } => {
                let path = self.path.unwrap_or_else(|| path.into());
                let given = Given::read(&path)?;
                if digest(&given) != *wanted {
                    return Err(Failure::Failed(format!(
                        "{} is another configuration than that of the plan {}; give the folder or file with that one, \
                         or begin another plan with `kelsonctl fleet apply`",
                        path.display(),
                        listed.name
                    )));
                }
                Work::Apply { given, plan: listed.name.clone(), deadline: head.deadline() }
            }
        };
        let holder = client_of(call, client, &listed.host).await?;
        if let Some(claim) = listed.claim(now) {
            call.note(&format!("waiting until {} is certainly gone", claim.who));
        }
        let (record, plan) = Record::resume(holder, &listed).await?;
        let registered = hosts::all(client, TIMEOUT).await?;
        let ways = Ways::new(call.choice.clone(), own(client).await?, &registered);
        carry_out(call, (&listed.host, &listed.name), plan, record, Members::new(ways, work)).await
    }
}

/// The ways to the hosts that are meant, and these.
pub async fn ways(call: &Call, client: &Client, chosen: Chosen) -> Result<(Ways, Vec<FleetHost>), Failure> {
    let own = own(client).await?;
    let hosts = chosen.of(client, TIMEOUT).await?;
    Ok((Ways::new(call.choice.clone(), own, &hosts), hosts))
}

/// The name in its fleet of the host that is called.
async fn own(client: &Client) -> Result<String, Failure> {
    let member = status::ask(client).await?.ok_or_else(|| Failure::Failed(status::NONE.to_owned()))?;
    Ok(member.name)
}

/// The host that keeps a plan.
pub async fn client_of(call: &Call, client: &Client, host: &str) -> Result<Client, Failure> {
    let own = own(client).await?;
    if host == own {
        return Ok(client.clone());
    }
    let registered = hosts::all(client, TIMEOUT).await?;
    let ways = Ways::new(call.choice.clone(), own, &registered);
    ways.to(host)?.resolve()?.client()
}

/// `restart-20261128-162007`.
fn made_up(head: &Head) -> String {
    let word = if matches!(head.action, Action::Restart(_)) { "restart" } else { "apply" };
    let time = Timestamp { seconds: head.began, nanos: 0 }.to_string();
    let digits: String = time.chars().filter(char::is_ascii_digit).collect();
    let (day, second) = digits.split_at(8.min(digits.len()));
    format!("{word}-{day}-{second}")
}

/// `restart web on 4 hosts, in 2 waves`.
fn sentence(head: &Head) -> String {
    let plural = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    let (hosts, waves) = (plural(head.hosts(), "host"), plural(head.waves.len(), "wave"));
    format!("{} on {hosts}, in {waves}", head.action.text())
}

/// Carries out a plan, to its end or until it is interrupted.
async fn carry_out(
    call: &Call,
    (host, name): (&str, &str),
    mut plan: Plan,
    mut record: Record,
    members: Members,
) -> Result<(), Failure> {
    call.note(&format!("plan {name}: {}", sentence(&plan.head)));
    let lines = Lines::new(call);
    let run = runner::run(&mut plan, Rc::new(members), &mut record, &lines);
    let ended = tokio::select! {
        ended = run => Some(ended),
        _ = tokio::signal::ctrl_c() => None,
    };
    drop(lines);
    let Some(ended) = ended else {
        // Without it the next one has to wait until this one is certainly gone.
        let released = record.release(&mut plan).await;
        call.note(&format!("interrupted; `kelsonctl fleet resume {name}` continues the plan"));
        return released.and(Err(Failure::Ended(130)));
    };
    ended?;
    let shown = Shown::new(host, name, &plan);
    if !call.is_table() {
        call.show(&shown, || Page::Text(String::new()))?;
    }
    let Head { done, failed, state, .. } = plan.head;
    let hosts = plan.head.hosts();
    match state {
        State::Stopped => {
            let left = hosts - done - failed;
            call.note(&format!(
                "stopped: {failed} of {hosts} hosts failed, {done} are done, {left} are as they were; \
                 `kelsonctl fleet resume {name}` tries those that failed again, and continues"
            ));
            Err(Failure::Reported)
        }
        State::Running | State::Done => {
            if call.is_table() {
                call.print(&format!("done: {done} of {hosts} hosts\n"))?;
            }
            if failed > 0 {
                call.note(&format!("{failed} of {hosts} hosts failed"));
            }
            Ok(())
        }
    }
}
