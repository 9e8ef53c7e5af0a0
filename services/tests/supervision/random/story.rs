//! One sequence through all incarnations of PID 1: what was going on when one of them ended goes on in the next.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use kelson_services::model::State;
use kelson_services::state_store::Kind;
use kelson_spec::service::Readiness;
use tokio::time::Instant;

use super::acts::{Kind as Asked, Play, Request, VersionsRead, suspend};
use super::dice::Dice;
use super::laws::Laws;
use super::world::{self, World};
use super::{Trace, crash_limit, laws, witness};
use crate::clocks;
use crate::fate::Fate;
use crate::house::{House, MS, Ruin, loaded, secs};

/// How a life came to its end.
pub enum End {
    /// It was cut off here.
    Died(String),
    Over(Result<(), String>),
}

/// How far the sequence has come.
#[derive(Debug, Clone, Copy)]
enum Chapter {
    /// So much is still to happen.
    Acts(u32),
    Rest,
    Stop,
}

pub struct Story {
    chapter: Chapter,
    world: Arc<Mutex<World>>,
    book: witness::Book,
    requests: Arc<Mutex<Vec<Request>>>,
    laws: Laws,
    trace: Trace,
    begun: Option<Instant>,
    extended: Arc<Mutex<BTreeSet<String>>>,
    versions_read: VersionsRead,
    /// All services were taken in.
    taken_in: bool,
    /// The state for the next incarnation, and since when PID 1 lives.
    host: Option<(Ruin, Instant)>,
}

impl Drop for Story {
    fn drop(&mut self) {
        // An onlooker holds the host, which holds the onlooker: the files of each host would stay open.
        let Some((ruin, _)) = &self.host else { return };
        let onlooker = ruin.stage.onlooker.lock().map(|mut onlooker| onlooker.take());
        drop(onlooker);
    }
}

impl Story {
    pub fn new(dice: &mut Dice, acts: u32, trace: Trace) -> Story {
        clocks::begin();
        Story {
            chapter: Chapter::Acts(acts),
            world: Arc::new(Mutex::new(World::draw(dice))),
            book: witness::Book::default(),
            requests: Arc::default(),
            laws: Laws::default(),
            trace,
            begun: None,
            extended: Arc::default(),
            versions_read: Arc::default(),
            taken_in: false,
            host: None,
        }
    }

    /// One incarnation of PID 1, which dies after this many points, if it is to die before the sequence is
    /// over.
    pub async fn live(&mut self, dice: &mut Dice, fate: &Arc<Fate>, death: Option<(u64, u64)>) -> End {
        let over = tokio::select! {
            biased;
            () = fate.died() => None,
            result = self.lives(dice, fate, death) => Some(result),
        };
        if let Some(result) = over.filter(|_| !fate.is_dead()) {
            return End::Over(result);
        }
        let (ruin, origin) = self.host.as_mut().unwrap();
        (ruin.died, ruin.age) = (Instant::now(), Instant::now() - *origin);
        self.tell(&format!("PID 1 dies {}", fate.place()));
        for request in self.requests.lock().unwrap().iter_mut() {
            if request.kind != Asked::Added && request.answer.is_none() {
                request.is_lost = true;
            }
        }
        End::Died(fate.place())
    }

    /// PID 1 has died too often: another incarnation stops all services and goes on with nothing.
    pub async fn reaches_the_crash_limit(&mut self, dice: &mut Dice, fate: &Arc<Fate>) -> End {
        let (ruin, origin) = self.resumes(dice, fate).await;
        self.tell("PID 1 has crashed too often");
        // Nothing of the incarnation before looks on any more.
        let onlooker = ruin.stage.onlooker.lock().unwrap().take();
        drop(onlooker);
        let wrongs = crash_limit::stop(&ruin, origin, &mut self.laws, &self.book, &self.world).await;
        End::Over(if wrongs.is_empty() { Ok(()) } else { Err(wrongs.join("\n")) })
    }

    fn tell(&self, text: &str) {
        if text.is_empty() {
            return;
        }
        let at = self.begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64());
        self.trace.lock().unwrap().push(format!("{at:>9.3} {text}"));
    }

    async fn lives(
        &mut self,
        dice: &mut Dice,
        fate: &Arc<Fate>,
        death: Option<(u64, u64)>,
    ) -> Result<(), String> {
        let mut play = match self.host {
            None => self.begins(dice, fate, death).await,
            Some(_) => self.goes_on(dice, fate, death).await?,
        };
        let follower =
            witness::follow(&play.house, Arc::clone(&self.book), Arc::clone(&self.trace), play.begun);
        loop {
            match self.chapter {
                Chapter::Acts(0) => {
                    self.chapter = if dice.one_in(2) { Chapter::Rest } else { Chapter::Stop };
                }
                Chapter::Acts(left) => {
                    if dice.roll(3) > 0 {
                        play.quiet().await;
                        self.must_hold(&play).await?;
                    }
                    self.chapter = Chapter::Acts(left - 1);
                    play.act(dice).await;
                }
                Chapter::Rest => {
                    self.come_to_rest(&mut play).await?;
                    self.chapter = Chapter::Stop;
                }
                Chapter::Stop => break,
            }
        }
        self.shut_down(dice, &mut play).await?;
        play.house.manager.close().await;
        tokio::time::timeout(secs(10), follower)
            .await
            .map_err(|_| "the stream of events does not end")?
            .unwrap();
        self.must_hold(&play).await
    }

    fn play(&mut self, house: House) -> Play {
        let life_begun = Instant::now();
        self.laws.begins.push(life_begun);
        Play {
            house,
            world: Arc::clone(&self.world),
            book: Arc::clone(&self.book),
            requests: Arc::clone(&self.requests),
            reloads: Vec::new(),
            reading: Arc::default(),
            others: Vec::new(),
            begun: self.begun.unwrap(),
            trace: Arc::clone(&self.trace),
            extended: Arc::clone(&self.extended),
            versions_read: Arc::clone(&self.versions_read),
            life_begun,
        }
    }

    /// The first life: the host boots.
    async fn begins(&mut self, dice: &mut Dice, fate: &Arc<Fate>, death: Option<(u64, u64)>) -> Play {
        // Far enough that the clock of no later incarnation stands behind this one's.
        tokio::time::advance(secs(3600)).await;
        self.begun = Some(Instant::now());
        let mut house = House::new();
        house.follow_health();
        witness::look_on(&house, &self.world, &self.book);
        self.host = Some((house.ruin(), house.host_context.origin));
        let names = self.world.lock().unwrap().names();
        for name in names {
            let world = self.world.lock().unwrap();
            let told = world::behave(dice, &house, &name);
            let mut trace = self.trace.lock().unwrap();
            trace.push(format!("{}\n    {told}", world::brief(world.newest(&name))));
            if dice.one_in(3) {
                trace.push(world::change_command(dice, &world, &house, &name));
            }
        }
        let files = self.world.lock().unwrap().files();
        let play = self.play(house);
        if let Some((points, cut)) = death {
            fate.dies_after(points, cut);
        }
        play.house.manager.take_in(loaded(files)).await;
        if !fate.is_dead() {
            self.taken_in = true;
            play.house.manager.begin();
        }
        play
    }

    /// The time between two incarnations: processes go on. Returns when PID 1 began as well.
    async fn resumes(&mut self, dice: &mut Dice, fate: &Arc<Fate>) -> (Ruin, Instant) {
        let (mut ruin, _) = self.host.take().unwrap();
        ruin.time_goes_on().await;
        let origin = Instant::now() - ruin.age;
        ruin.stage = ruin.stage.another_life(Arc::clone(fate));
        self.host = Some((ruin.clone(), origin));
        if dice.one_in(3) {
            // Nobody is there meanwhile.
            let pause = MS * u32::try_from(dice.roll(3000)).unwrap();
            tokio::time::sleep(pause).await;
        }
        if dice.one_in(4) {
            self.tell(&suspend(dice));
        }
        let names = self.world.lock().unwrap().names();
        for name in names {
            if dice.one_in(8) {
                self.tell(&Play::end_of(dice, &ruin.stage, &name));
            }
        }
        // It may die before there is a play: it has sent signals by then.
        self.laws.begins.push(Instant::now());
        (ruin, origin)
    }

    /// A later incarnation: all is there that outlived the one before.
    async fn goes_on(
        &mut self,
        dice: &mut Dice,
        fate: &Arc<Fate>,
        death: Option<(u64, u64)>,
    ) -> Result<Play, String> {
        let (ruin, origin) = self.resumes(dice, fate).await;
        self.tell("PID 1 goes on");
        if let Some((points, cut)) = death {
            fate.dies_after(points, cut);
        }
        let closing = ruin.is_to_stop();
        if closing {
            self.book.lock().unwrap().closing.get_or_insert(ruin.died);
        } else if self.book.lock().unwrap().closing.is_some() {
            return Err("that the host is to stop is forgotten".to_owned());
        }
        let torn = self.trace.lock().unwrap().iter().any(|told| told.contains("PID 1 dies in the middle of"));
        let look_on = |house: &House| witness::look_on(house, &self.world, &self.book);
        let (house, past) = House::takes_up(ruin, origin, closing, look_on).await;
        // One that was never written whole is none.
        let doubt = past.doubts.iter().find(|doubt| !(torn && doubt.contains("is torn")));
        if let Some(doubt) = doubt {
            return Err(format!("it doubts: {doubt}"));
        }
        self.book.lock().unwrap().goes_on(&house.manager);
        let mut play = self.play(house);
        if !self.taken_in {
            let mut files = self.world.lock().unwrap().files();
            files.retain(|spec| play.house.manager.get(&spec.name).is_none());
            play.house.manager.take_in(loaded(files)).await;
            self.taken_in = !fate.is_dead();
        }
        if !closing {
            play.house.manager.begin();
            // A request to read the files is made again.
            play.read_files();
        }
        Ok(play)
    }

    async fn must_hold(&mut self, play: &Play) -> Result<(), String> {
        self.laws.hurried |= play.book.lock().unwrap().events.iter().any(|(_, event)| laws::hurries(event));
        let wrongs = self.laws.ask(play).await;
        // One that has died meanwhile is not what others see.
        if wrongs.is_empty() || play.house.stage.fate.is_dead() { Ok(()) } else { Err(wrongs.join("\n")) }
    }

    /// Nothing fails any more: then each service comes to a state in which it may stay.
    async fn come_to_rest(&mut self, play: &mut Play) -> Result<(), String> {
        play.tell("all goes well from now on".into());
        world::heal(&play.world.lock().unwrap(), &play.house);
        for _ in 0..40 {
            tokio::time::sleep(secs(10)).await;
            for now in play.house.manager.list() {
                let notify = play.world.lock().unwrap().versions[&*now.name]
                    .iter()
                    .any(|spec| spec.readiness == Readiness::Notify);
                if notify && matches!(now.state, State::Starting | State::Running) {
                    let socket = play.house.notify_socket(&now.name);
                    // One that does not run has none.
                    let _ = play.house.sent.send_to(b"READY=1", socket);
                }
            }
        }
        play.quiet().await;
        self.must_hold(play).await?;
        for now in play.house.manager.list() {
            if !laws::may_stay(&now, play.world.lock().unwrap().newest(&now.name)) {
                return Err(format!("it does not come to rest: {now:?}"));
            }
        }
        // An operator's stop of all of them.
        let names = play.world.lock().unwrap().names();
        for name in names {
            play.ask(&name, Asked::Cascade, true);
        }
        tokio::time::sleep(secs(100)).await;
        play.quiet().await;
        self.must_hold(play).await?;
        let moving: Vec<_> =
            play.house.manager.list().into_iter().filter(|now| !now.state.at_rest()).collect();
        if moving.is_empty() { Ok(()) } else { Err(format!("stopped, and not at rest: {moving:?}")) }
    }

    async fn shut_down(&mut self, dice: &mut Dice, play: &mut Play) -> Result<(), String> {
        let patience = secs(dice.pick(&[0, 1, 5, 60, 60, 60]));
        play.tell(format!("the host stops within {patience:?}"));
        let (manager, at) = (play.house.manager.clone(), Instant::now());
        // As `init` does: what is to come is recorded first.
        if let Some(store) = &play.house.host_context.store {
            store.write(Kind::Intent, "", &"power off");
        }
        play.house.stage.fate.pass("before all services stop").await;
        play.book.lock().unwrap().closing.get_or_insert(at);
        let stopping = tokio::spawn(async move { manager.stop_all(at + patience, &[]).await });
        for _ in 0..dice.roll(6) {
            play.act(dice).await;
        }
        let summary = tokio::time::timeout(secs(200), stopping).await;
        let summary = summary.map_err(|_| "the stop of all does not end")?.unwrap();
        self.laws.hurried |= !summary.killed.is_empty();
        if !summary.given_up.is_empty() {
            return Err(format!("{summary:?}"));
        }
        if patience == secs(60) && !summary.killed.is_empty() {
            return Err(format!("within {patience:?} {:?} did not end", summary.killed));
        }
        tokio::time::sleep(secs(60)).await;
        play.quiet().await;
        self.must_hold(play).await?;
        if let Some(moving) = play.house.manager.list().iter().find(|now| !now.state.at_rest()) {
            return Err(format!("the host has stopped, and this has not: {moving:?}"));
        }
        let is_open = |one: &&Request| one.answer.is_none() && one.kind != Asked::Added && !one.is_lost;
        if let Some(open) = play.requests.lock().unwrap().iter().find(is_open) {
            return Err(format!("it is never answered: {open:?}"));
        }
        for (what, tasks) in [("a reload", &mut play.reloads), ("a wait", &mut play.others)] {
            for task in tasks {
                tokio::time::timeout(secs(1), task)
                    .await
                    .map_err(|_| format!("{what} does not end"))?
                    .unwrap();
            }
        }
        Ok(())
    }
}
