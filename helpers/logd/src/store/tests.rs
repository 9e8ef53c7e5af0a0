use super::*;

const LIMITS: Limits = Limits { max_size: 1 << 20, max_files: 2 };
const MARK: Mark = Mark { device: 1, inode: 1, length: 1 };

fn with(services: &[&Arc<str>]) -> Store {
    let store = Store::new(PathBuf::from("/nowhere"));
    services.iter().for_each(|service| store.open(service, Run::default(), LIMITS));
    store
}

fn feed(store: &Store, service: &Arc<str>, bytes: &[u8]) {
    store.feed(service, (Source::Stdout, Run::default()), &mut Vec::new(), bytes, None, |_| {});
}

fn flood(lines: usize) -> Vec<u8> {
    (1..=lines).flat_map(|n| format!("{n:0>100}\n").into_bytes()).collect()
}

fn batch(store: &Store) -> Option<Batch> {
    match store.next_job(false) {
        Job::Write(batch) => Some(batch),
        _ => None,
    }
}

/// Drains the store to a disk that works again, and returns the numbers of lines and the noted losses.
fn drained(store: &Store, reason: &str) -> (Vec<u64>, u64) {
    let (mut numbers, mut lost) = (Vec::new(), 0);
    store.close();
    while let Some(batch) = batch(store) {
        for line in batch.bytes.split(|byte| *byte == b'\n').filter_map(line::parse) {
            let text = std::str::from_utf8(line.text).unwrap();
            if line.source == Source::Note {
                let count: u64 = text.split(' ').next().unwrap().parse().unwrap();
                lost += count;
                assert!(text.ends_with(&format!("were lost here: {reason}")), "{text}");
                assert_eq!(numbers.last().copied().unwrap_or(0), 0, "it stands in the place of the lines");
            } else {
                numbers.push(text.parse().unwrap());
            }
        }
        store.written(&batch, MARK);
    }
    assert_eq!(store.lock().queued, 0);
    (numbers, lost)
}

#[test]
fn a_service_that_floods_its_log_crowds_out_nobody() {
    let (one, quiet): (Arc<str>, Arc<str>) = (Arc::from("flood"), Arc::from("quiet"));
    let store = with(&[&one, &quiet]);
    feed(&store, &one, &flood(10_000));
    // The writer has taken what it can, and hangs; meanwhile as much comes again.
    assert_eq!(&*batch(&store).expect("something to write").service, "flood");
    feed(&store, &one, &flood(10_000));
    for _ in 0..100 {
        feed(&store, &quiet, b"a line of its own\n");
    }
    let lost: Vec<String> = store.take_lost().into_iter().map(|(name, ..)| name.to_string()).collect();
    assert_eq!(lost, ["flood"]);
}

#[test]
fn the_end_of_a_burst_survives_and_what_is_lost_is_noted_without_a_further_line() {
    let service: Arc<str> = Arc::from("burst");
    let store = with(&[&service]);
    feed(&store, &service, &flood(100_000));
    let (numbers, lost) = drained(&store, SLOW);
    assert_eq!(numbers.last(), Some(&100_000));
    assert!(numbers.is_sorted_by(|a, b| a + 1 == *b), "one gap, at the beginning");
    assert_eq!(numbers.len() as u64 + lost, 100_000);
    assert!(numbers.len() > 3000, "{}", numbers.len());
    let [(_, told, _)] = &store.take_lost()[..] else { panic!("PID 1 is to be told") };
    assert_eq!(told.lines, lost);
}

#[test]
fn the_queue_is_bounded_over_all_services_and_each_keeps_its_last_line() {
    let names: Vec<Arc<str>> = (0..60).map(|n| Arc::from(format!("s{n}"))).collect();
    let store = with(&names.iter().collect::<Vec<_>>());
    for name in &names {
        feed(&store, name, &flood(400));
        assert!(store.lock().queued <= QUEUE);
    }
    let mut last: HashSet<Arc<str>> = HashSet::new();
    store.close();
    while let Some(batch) = batch(&store) {
        if batch.bytes.ends_with(&format!("{:0>100}\n", 400).into_bytes()) {
            last.insert(batch.service.clone());
        }
        store.written(&batch, MARK);
    }
    assert_eq!(last.len(), names.len());
    assert_eq!(store.take_lost().len(), names.len(), "and all of them lost something");
}

#[test]
fn a_crowded_service_is_told_from_one_of_which_little_waits() {
    let (one, other): (Arc<str>, Arc<str>) = (Arc::from("one"), Arc::from("other"));
    let store = with(&[&one, &other]);
    feed(&store, &one, &flood(1000));
    feed(&store, &other, &flood(200));
    assert!(store.crowded(&one) && !store.crowded(&other));
    feed(&store, &one, &flood(4000));
    assert!(store.crowded(&other), "the queue is full");
    let _ = batch(&store);
    let taken = batch(&store).expect("the other's turn");
    assert_eq!(&*taken.service, "other");
    assert!(!store.crowded(&other));
}

#[test]
fn lines_that_could_not_be_written_wait_and_are_tried_again_without_a_further_line() {
    let service: Arc<str> = Arc::from("web");
    let store = with(&[&service]);
    feed(&store, &service, b"one\ntwo\n");
    let first = batch(&store).expect("two lines");
    store.not_written(&first, 0, None, "/log: full");
    feed(&store, &service, b"three\n");
    // The writer waits by itself, and not for a line.
    let began = Instant::now();
    let again = batch(&store).expect("the same lines");
    assert!(began.elapsed() >= AGAIN - Duration::from_millis(50), "{:?}", began.elapsed());
    assert!(again.bytes.starts_with(&first.bytes));
    // Now there is room for the first line alone.
    let line = again.bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    store.not_written(&again, line, Some(MARK), "/log: full");
    assert_eq!(store.seam(&service).unwritten.len(), 2);
    let rest = batch(&store).expect("the others");
    let text = String::from_utf8(rest.bytes.clone()).unwrap();
    assert!(text.contains(" F two\n") && text.ends_with(" F three\n") && !text.contains("one"), "{text}");
    store.written(&rest, MARK);
    assert!(!store.any_lost());
    assert_eq!(store.lock().queued, 0);
}

#[test]
fn of_a_log_that_cannot_be_written_the_newest_lines_survive_and_the_others_are_counted() {
    let service: Arc<str> = Arc::from("web");
    let store = with(&[&service]);
    let all = flood(20_000);
    let (begin, end) = all.split_at(100 * 101);
    feed(&store, &service, begin);
    let first = batch(&store).expect("100 lines");
    store.not_written(&first, 0, None, "/log: full");
    feed(&store, &service, end);
    assert!(!store.crowded(&service), "nobody waits for a disk that does not come back in a moment");
    let [(_, told, reason)] = &store.take_lost()[..] else { panic!("PID 1 is to be told") };
    assert_eq!(&**reason, "/log: full");
    let (numbers, lost) = drained(&store, "/log: full");
    assert_eq!((numbers.last(), lost), (Some(&20_000), told.lines));
    assert_eq!(numbers.len() as u64 + lost, 20_000);
    assert!(numbers.len() > 3000, "{}", numbers.len());
}

#[test]
fn what_cannot_be_written_at_the_end_is_counted() {
    let [web, db]: [Arc<str>; 2] = ["web".into(), "db".into()];
    let store = with(&[&web, &db]);
    feed(&store, &web, b"one\n");
    let first = batch(&store).expect("a line");
    store.not_written(&first, 0, None, "/log: full");
    store.close();
    let again = batch(&store).expect("at once");
    store.not_written(&again, 0, None, "/log: full");
    feed(&store, &db, b"two\n");
    let hangs = batch(&store).expect("a line");
    feed(&store, &db, b"three\n");
    store.abandon();
    let mut lost: Vec<_> = store.take_lost().into_iter().map(|(name, lost, _)| (name, lost.lines)).collect();
    lost.sort();
    assert_eq!(lost, [(db, 2), (web, 1)]);
    drop(hangs);
}
