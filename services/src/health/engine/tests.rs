use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use crate::prober::{Schedule, Verdict};
use kelson_spec::service::{Check, Probe};

use super::super::network::Network;
use super::*;

#[derive(Default)]
struct Lines(Mutex<Vec<Arc<dyn crate::prober::Sink>>>);

struct Held;

impl Watched for Held {}

impl Network for Lines {
    fn watch(&self, _: Schedule, sink: Arc<dyn crate::prober::Sink>) -> Box<dyn Watched> {
        self.0.lock().unwrap().push(sink);
        Box::new(Held)
    }
}

#[derive(Default)]
struct Counted(AtomicUsize);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn random() -> Random {
    Random::of("test", Duration::ZERO)
}

fn answer(verdict: Verdict, text: &str) -> CheckAnswer {
    CheckAnswer { at: SystemTime::now(), took: Duration::from_millis(1), verdict, text: text.into() }
}

#[tokio::test(start_paused = true)]
async fn only_what_means_something_wakes_the_service() {
    let check = Check { restart_after: 5, grace: Duration::ZERO, ..Check::new("a", Probe::tcp(1)) };
    let lines = Arc::new(Lines::default());
    let asks = Asks::Elsewhere(lines.clone(), Box::new(Schedule::of(&check).unwrap()));
    let mut checks =
        Checks::begin([ToMind { plan: Plan::from(&check), asks, totals: None, recall: None }], random());
    let sink = lines.0.lock().unwrap()[0].clone();
    let woken = Arc::new(Counted::default());
    let waker = Waker::from(woken.clone());
    let mut news = |verdict, text: &str| {
        let context = &mut Context::from_waker(&waker);
        assert!(checks.poll_next(context).is_pending());
        let before = woken.0.load(Ordering::Relaxed);
        sink.take(answer(verdict, text));
        let woke = woken.0.load(Ordering::Relaxed) > before;
        match checks.poll_next(context) {
            Poll::Ready(news) => {
                assert!(woke, "{news:?} wakes nobody");
                Some(news)
            }
            Poll::Pending => {
                assert!(!woke, "woken for nothing");
                None
            }
        }
    };
    assert_eq!(news(Verdict::Passes, "").unwrap().healthy, Some(true));
    for n in 0..1000 {
        assert_eq!(news(Verdict::Passes, &n.to_string()), None);
    }
    assert_eq!(news(Verdict::Fails, "refused"), None);
    assert_eq!(news(Verdict::Fails, "reset"), None);
    let fails = news(Verdict::Fails, "refused").unwrap();
    assert_eq!((fails.healthy, fails.missing.as_str()), (Some(false), "check a: refused"));
    assert_eq!(fails.changes, ["check a fails: refused"]);
    assert_eq!(news(Verdict::Fails, "refused"), None);
    let restarts = news(Verdict::Silent, "").unwrap();
    assert_eq!(restarts.restart.as_deref(), Some("check a failed 5 times: no answer within 1 s"));
}

#[tokio::test(start_paused = true)]
async fn the_checks_of_a_registration_are_no_part_of_the_health() {
    let lines = Arc::new(Lines::default());
    let checks = [("a", false), ("page", true)].map(|(name, registration)| {
        let check = Check::new(name, Probe::tcp(1));
        let asks = Asks::Elsewhere(lines.clone(), Box::new(Schedule::of(&check).unwrap()));
        let plan = Plan { registration, ..Plan::from(&check) };
        ToMind { plan, asks, totals: None, recall: None }
    });
    let mut checks = Checks::begin(checks, random());
    let sinks: Vec<_> = lines.0.lock().unwrap().clone();
    let waits = (checks.missing(), checks.missing_of_registration());
    assert_eq!(waits, ("check a: no result yet".to_owned(), "check page: no result yet".to_owned()));
    sinks[0].take(answer(Verdict::Passes, ""));
    assert_eq!(checks.next().await.healthy, Some(true));
    (0..3).for_each(|_| sinks[1].take(answer(Verdict::Fails, "refused")));
    let news = checks.next().await;
    assert_eq!((news.healthy, news.missing.as_str(), news.restart), (Some(true), "", None));
    assert_eq!(news.changes, ["check page fails: refused"]);
    assert_eq!(checks.missing_of_registration(), "check page: refused");
    sinks[1].take(answer(Verdict::Passes, ""));
    assert_eq!(checks.next().await.changes, ["check page passes"]);
    assert_eq!(checks.missing_of_registration(), "");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_when_nobody_listens() {
    let lines = Arc::new(Lines::default());
    let checks = ["a", "b"].map(|name| {
        let check = Check::new(name, Probe::tcp(1));
        let asks = Asks::Elsewhere(lines.clone(), Box::new(Schedule::of(&check).unwrap()));
        ToMind { plan: Plan::from(&check), asks, totals: None, recall: None }
    });
    let mut checks = Checks::begin(checks, random());
    let sinks: Vec<_> = lines.0.lock().unwrap().clone();
    for sink in &sinks {
        sink.take(answer(Verdict::Passes, ""));
    }
    // Both before what they come to.
    let news = checks.next().await;
    assert_eq!(news.changes, ["check a passes", "check b passes"]);
    assert_eq!(news.healthy, Some(true));
    drop(checks);
    sinks[0].take(answer(Verdict::Fails, ""));
}
