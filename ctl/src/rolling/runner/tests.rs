use std::cell::Cell;
use std::collections::BTreeMap;

use super::super::plan::tests::plan;
use super::*;

/// A host that is healthy from some time after its action on, or never.
#[derive(Clone)]
struct Stand {
    after: Option<Duration>,
    acted: Option<Instant>,
    acts: usize,
    resumed: bool,
}

/// Hosts that remember what was done to them.
#[derive(Default)]
struct Stands {
    hosts: RefCell<BTreeMap<String, Stand>>,
    /// At the same time, now and at most.
    at_once: Cell<(usize, usize)>,
    kept: RefCell<Vec<String>>,
    left: RefCell<Vec<String>>,
}

impl Stands {
    fn of(plan: &Plan) -> Rc<Stands> {
        let stands = Rc::new(Stands::default());
        for place in &plan.places {
            let stand = Stand { after: Some(Duration::ZERO), acted: None, acts: 0, resumed: false };
            stands.hosts.borrow_mut().insert(place.host.clone(), stand);
        }
        stands
    }

    fn sick(&self, host: &str) {
        self.hosts.borrow_mut().get_mut(host).unwrap().after = None;
    }

    fn acts(&self) -> Vec<usize> {
        self.hosts.borrow().values().map(|stand| stand.acts).collect()
    }
}

impl Hosts for Stands {
    async fn mark(&self, host: &str) -> Result<String, String> {
        match host {
            "edge-9" => Err("no answer".to_owned()),
            host => Ok(format!("mark of {host}")),
        }
    }

    async fn act(&self, host: &str, mark: &str, resumed: bool) -> Result<(), String> {
        assert_eq!(mark, format!("mark of {host}"));
        let (now, most) = self.at_once.get();
        self.at_once.set((now + 1, most.max(now + 1)));
        let mut hosts = self.hosts.borrow_mut();
        let stand = hosts.get_mut(host).unwrap();
        (stand.acted, stand.resumed) = (Some(Instant::now()), resumed);
        stand.acts += 1;
        Ok(())
    }

    async fn health(&self, host: &str, _: &str) -> Result<Health, String> {
        let hosts = self.hosts.borrow();
        let stand = &hosts[host];
        let since = stand.acted.unwrap().elapsed();
        Ok(match stand.after.and_then(|after| since.checked_sub(after)) {
            Some(lasts) => Health::Healthy(lasts),
            None => Health::Not("web: exited with status 3".to_owned()),
        })
    }

    async fn keep(&self, host: &str) -> Result<(), String> {
        let (now, most) = self.at_once.get();
        self.at_once.set((now - 1, most));
        self.kept.borrow_mut().push(host.to_owned());
        Ok(())
    }

    async fn leave(&self, host: &str, _: &str) -> Option<String> {
        self.left.borrow_mut().push(host.to_owned());
        Some("it has returned".to_owned())
    }
}

/// A store that has what was written last, and dies after some writes.
#[derive(Default)]
struct Store {
    parts: BTreeMap<usize, Vec<u8>>,
    writes: usize,
    dies_after: Option<usize>,
}

impl Record for Store {
    async fn put(&mut self, plan: &mut Plan, host: Option<usize>) -> Result<(), Failure> {
        self.writes += 1;
        if self.dies_after.is_some_and(|after| self.writes > after) {
            return Err(Failure::Reported);
        }
        let part = host.map_or(0, Plan::part_of);
        let value = if part == 0 { plan.head.value() } else { plan.part(part) };
        self.parts.insert(part, value);
        Ok(())
    }
}

struct Nobody;

impl Watcher for Nobody {
    fn wave(&self, _: &Plan, _: usize, _: &[usize]) {}
    fn host(&self, _: &Plan, _: usize) {}
}

fn standings(plan: &Plan) -> Vec<&str> {
    plan.places.iter().map(|place| place.standing.word()).collect()
}

#[tokio::test(start_paused = true)]
async fn one_wave_follows_another_once_all_are_healthy_for_long_enough() {
    let mut plan = plan(&[1, 2, 3], 0);
    let hosts = Stands::of(&plan);
    hosts.hosts.borrow_mut().get_mut("edge-1").unwrap().after = Some(Duration::from_secs(20));
    let began = Instant::now();
    run(&mut plan, Rc::clone(&hosts), &mut Store::default(), &Nobody).await.unwrap();
    assert_eq!((plan.head.state, standings(&plan)), (State::Done, vec!["done"; 6]));
    assert_eq!((hosts.acts(), hosts.at_once.get()), (vec![1; 6], (0, 3)));
    assert_eq!(hosts.kept.borrow().len(), 6);
    // 10 s of health in each wave, and 20 s until one is healthy.
    assert_eq!(began.elapsed().as_secs(), 10 + 30 + 10);
}

#[tokio::test(start_paused = true)]
async fn after_a_wave_that_has_failed_none_begins() {
    let mut plan = plan(&[1, 2, 3], 0);
    let hosts = Stands::of(&plan);
    hosts.sick("edge-2");
    run(&mut plan, Rc::clone(&hosts), &mut Store::default(), &Nobody).await.unwrap();
    assert_eq!(plan.head.state, State::Stopped);
    assert_eq!(standings(&plan), ["done", "done", "failed", "pending", "pending", "pending"]);
    assert_eq!(
        plan.places[2].standing.text(),
        "not healthy for 10s within 1m: web: exited with status 3; it has returned"
    );
    assert_eq!(
        (hosts.acts(), hosts.left.borrow().clone()),
        (vec![1, 1, 1, 0, 0, 0], vec!["edge-2".to_owned()])
    );

    // Resumed, with the trouble gone.
    hosts.hosts.borrow_mut().get_mut("edge-2").unwrap().after = Some(Duration::ZERO);
    plan.retry();
    run(&mut plan, Rc::clone(&hosts), &mut Store::default(), &Nobody).await.unwrap();
    assert_eq!((plan.head.state, hosts.acts()), (State::Done, vec![1, 1, 2, 1, 1, 1]));
}

#[tokio::test(start_paused = true)]
async fn some_may_fail_and_those_that_cannot_be_reached_are_not_touched() {
    let mut plan = plan(&[10], 2);
    let hosts = Stands::of(&plan);
    hosts.sick("edge-3");
    run(&mut plan, Rc::clone(&hosts), &mut Store::default(), &Nobody).await.unwrap();
    assert_eq!((plan.head.state, plan.head.done, plan.head.failed), (State::Done, 8, 2));
    assert_eq!(plan.places[9].standing, Standing::Failed("no answer".to_owned()));
    assert_eq!(hosts.hosts.borrow()["edge-9"].acts, 0);
}

/// However early a coordinator dies, the next one knows which hosts it has acted on.
#[tokio::test(start_paused = true)]
async fn a_plan_is_resumed_from_what_was_written() {
    for dies_after in 0..20 {
        let mut first = plan(&[1, 2, 1], 0);
        let hosts = Stands::of(&first);
        let mut store = Store { dies_after: Some(dies_after), ..Store::default() };
        store.parts.insert(0, first.head.value());
        store.parts.insert(1, first.part(1));
        let ended = run(&mut first, Rc::clone(&hosts), &mut store, &Nobody).await;
        let before = hosts.acts();
        store.dies_after = None;
        let head = super::super::plan::Head::read(&store.parts[&0]).unwrap();
        let mut second = Plan::read(head, &[store.parts[&1].clone()]).unwrap();
        run(&mut second, Rc::clone(&hosts), &mut store, &Nobody).await.unwrap();
        assert_eq!((second.head.state, second.head.done), (State::Done, 4), "{dies_after}: {ended:?}");
        for ((name, stand), before) in hosts.hosts.borrow().iter().zip(before) {
            // A second time it is known that there was a first one.
            assert!(stand.acts == 1 || (before == 1 && stand.resumed), "{dies_after}: {name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_wave_does_not_ask_all_hosts_at_once() {
    let mut plan = plan(&[1000], 0);
    plan.places.iter_mut().for_each(|place| place.host = format!("node-{}", place.host));
    let hosts = Stands::of(&plan);
    run(&mut plan, Rc::clone(&hosts), &mut Store::default(), &Nobody).await.unwrap();
    assert_eq!((plan.head.done, hosts.at_once.get()), (1000, (0, AT_ONCE)));
}
