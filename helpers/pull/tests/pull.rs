//! `kelson-pull` as a process, against a registry that is as hostile as a test wants.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics has failed, as it should")]

mod signatures;
mod site;

use std::time::{Duration, Instant};

use kelson_tests::registry::{Registry, proxy};
use site::{Site, big, image};

/// Not a test of its own: the process that the others start.
#[test]
fn the_process_itself() {
    if std::env::var_os(site::ITSELF).is_some() {
        std::process::exit(kelson_pull::main());
    }
}

#[test]
fn an_image_is_pulled_and_named_once_it_is_whole() {
    let site = Site::new();
    let digest = site.registry.push(&[image("app:1.4")]);
    let pulled = site.pull("app:1.4").unwrap();
    assert_eq!((pulled.digest.as_str(), pulled.before), (digest.as_str(), None));
    assert_eq!(pulled.bytes, site.registry.sent());
    assert_eq!(site.names(), [format!("{}/app:1.4", site.registry.host)]);
    site.nothing_left_over();
    // Again: nothing comes but the manifest.
    let again = site.pull("app:1.4").unwrap();
    assert_eq!((again.before.as_ref(), again.bytes), (Some(&digest), 0));
    // By its digest, whatever the tag.
    let name = format!("app@{digest}");
    assert_eq!(site.pull(&name).unwrap().bytes, 0);
    assert_eq!(site.names().len(), 2);
}

#[test]
fn the_platform_of_this_host_is_taken_of_several() {
    let site = Site::new();
    let (ours, other) = (image("app:1"), big("app:1").architecture("s390x"));
    let digest = site.registry.push(&[other, ours]);
    let pulled = site.pull("app:1").unwrap();
    assert_eq!(pulled.digest, digest);
    assert!(pulled.bytes < 100_000, "the layers of the other platform stay where they are");
    assert_eq!(site.names().len(), 1);
    site.nothing_left_over();
    site.registry.push(&[image("odd:1").architecture("s390x"), image("odd:1").architecture("ppc64")]);
    let error = site.pull("odd:1").unwrap_err();
    assert!(error.contains("is for linux/s390x, linux/ppc64 only, this host is linux/"), "{error}");
    site.registry.push(&[image("alone:1").architecture("s390x")]);
    let error = site.pull("alone:1").unwrap_err();
    assert!(error.contains("is for linux/s390x only"), "{error}");
    assert_eq!(site.names().len(), 1);
    site.nothing_left_over();
}

#[test]
fn a_connection_that_is_cut_is_resumed_where_it_ended() {
    let site = Site::new();
    site.registry.push(&[big("app:1")]);
    site.registry.fault(|faults| faults.cut_after = Some(1 << 20));
    let pulled = site.pull("app:1").unwrap();
    // Each byte came once.
    assert_eq!(pulled.bytes, site.registry.sent());
    assert!(pulled.bytes < 4 << 20, "{}", pulled.bytes);
    let ranges: Vec<String> = site.registry.asked().into_iter().filter_map(|asked| asked.range).collect();
    assert!(ranges.contains(&format!("bytes={}-", 1 << 20)), "{ranges:?}");
    assert_eq!(site.names().len(), 1);
}

#[test]
fn a_registry_without_ranges_is_asked_from_the_beginning() {
    let site = Site::new();
    site.registry.push(&[big("app:1")]);
    site.registry.fault(|faults| (faults.cut_after, faults.whole) = (Some(1 << 20), true));
    let error = site.pull("app:1").unwrap_err();
    assert!(error.contains("cut") && error.contains("layer 1 of 1"), "{error}");
    // What came stays for the next try.
    site.registry.fault(|faults| faults.cut_after = None);
    site.pull("app:1").unwrap();
    assert_eq!(site.names().len(), 1);
}

#[test]
fn a_part_of_an_earlier_process_is_used_or_dropped() {
    let site = Site::new();
    let image = big("app:1");
    site.registry.push(std::slice::from_ref(&image));
    site.leave_part(&image.layers[0], &image.layers[0][..2 << 20]);
    let pulled = site.pull("app:1").unwrap();
    assert!(pulled.bytes < (1 << 20) + 100_000, "{}", pulled.bytes);
    // The power went: the file has its length, and not its content.
    site.forget();
    site.leave_part(&image.layers[0], &[0; 2 << 20]);
    site.pull("app:1").unwrap();
    assert_eq!(site.names().len(), 1);
    site.nothing_left_over();
}

#[test]
fn a_busy_registry_is_asked_again_when_it_says() {
    let site = Site::new();
    site.registry.push(&[image("app:1")]);
    site.registry.fault(|faults| faults.statuses = vec![(429, 2), (500, 0), (503, 0)]);
    let began = Instant::now();
    site.pull("app:1").unwrap();
    assert!(began.elapsed() >= Duration::from_secs(3), "{:?}", began.elapsed());
    site.forget();
    site.registry.fault(|faults| faults.statuses = vec![(500, 0); 50]);
    let error = site.pull("app:1").unwrap_err();
    assert!(error.contains("status 500 to manifest 1"), "{error}");
}

#[test]
fn wrong_content_is_refused_and_nothing_of_it_stays() {
    let site = Site::new();
    site.registry.push(&[image("app:1")]);
    site.registry.fault(|faults| faults.damaged = true);
    let error = site.pull("app:1").unwrap_err();
    assert!(error.contains("layer 1 of 1 is damaged: its digest is sha256:"), "{error}");
    site.registry.fault(|faults| (faults.damaged, faults.longer) = (false, 1));
    let error = site.pull("app:1").unwrap_err();
    assert!(error.contains("layer 1 of 1 has ") && error.contains("would be right"), "{error}");
    site.registry.fault(|faults| faults.longer = -1);
    let error = site.pull("app:1").unwrap_err();
    assert!(error.contains("layer 1 of 1 has "), "{error}");
    assert!(site.names().is_empty());
    site.nothing_left_over();
    site.registry.fault(|faults| faults.longer = 0);
    site.pull("app:1").unwrap();
}

#[test]
fn a_token_that_expires_is_renewed() {
    let mut site = Site::new();
    site.registry.push(&[big("app:1")]);
    site.registry.fault(|faults| {
        faults.token_uses = Some(1);
        faults.cut_after = Some(1 << 20);
        faults.credentials = Some(site::BASIC.to_owned());
    });
    let error = site.pull("app:1").unwrap_err();
    assert!(error.contains("registries.credentials"), "{error}");
    site.credentials();
    site.registry.asked();
    site.pull("app:1").unwrap();
    let asked = site.registry.asked();
    let tokens: Vec<_> = asked.iter().filter(|asked| asked.path.starts_with("/token?")).collect();
    assert!(tokens.len() > 3, "{tokens:?}");
    assert!(
        tokens.iter().all(|asked| asked.path == "/token?service=test&scope=repository:app:pull"),
        "{tokens:?}"
    );
    let basic = |asked: &&kelson_tests::registry::Asked| asked.authorization.as_deref() == Some(site::BASIC);
    assert!(
        asked.iter().filter(basic).all(|asked| asked.path.starts_with("/token?")),
        "the password goes nowhere else"
    );
}

#[test]
fn a_password_alone_opens_a_registry() {
    let mut site = Site::new();
    site.registry.push(&[image("app:1")]);
    site.registry.fault(|faults| faults.credentials = Some("Basic b3RoZXI6eA==".to_owned()));
    site.credentials();
    let error = site.pull("app:1").unwrap_err();
    assert!(error.contains("refuses the name and the password"), "{error}");
    site.registry.fault(|faults| faults.credentials = Some(site::BASIC.to_owned()));
    site.pull("app:1").unwrap();
}

#[test]
fn a_password_can_be_a_secret_that_a_source_gave() {
    let mut site = Site::new();
    site.registry.push(&[image("app:1")]);
    site.registry.fault(|faults| faults.credentials = Some(site::BASIC.to_owned()));
    site.registries.secret = Some("registries".to_owned());
    let error = site.pull("app:1").unwrap_err();
    assert!(error.contains("registries.secret of the machine file: there is no secret"), "{error}");
    site.give_secret("registries");
    site.pull("app:1").unwrap();
}

#[test]
fn another_host_that_gives_blobs_learns_no_password() {
    let mut site = Site::new();
    let other = Registry::start(Some(&site.authority));
    for registry in [&site.registry, &other] {
        registry.push(&[image("app:1")]);
    }
    site.registry.fault(|faults| {
        faults.credentials = Some(site::BASIC.to_owned());
        faults.blobs_at = Some(format!("https://{}", other.host));
    });
    site.credentials();
    site.pull("app:1").unwrap();
    let asked = other.asked();
    assert!(!asked.is_empty() && asked.iter().all(|asked| asked.authorization.is_none()), "{asked:?}");
    // Not out of TLS, and not for ever.
    site.forget();
    site.registry.fault(|faults| faults.blobs_at = Some(format!("http://{}", other.host)));
    let error = site.pull("app:1").unwrap_err();
    assert!(error.contains("it leaves TLS"), "{error}");
    site.registry.fault(|faults| faults.blobs_at = Some(String::new()));
    let error = site.pull("app:1").unwrap_err();
    assert!(error.contains("there were too many"), "{error}");
}

#[test]
fn mirrors_are_asked_first_and_in_order() {
    let mut site = Site::new();
    site.registry.push(&[image("app:1")]);
    let (first, second) = (Registry::start(Some(&site.authority)), Registry::start(Some(&site.authority)));
    second.push(&[image("app:1")]);
    first.fault(|faults| faults.statuses = vec![(404, 0)]);
    let registry = site.registry.host.clone();
    site.registries.mirrors = vec![(registry, vec![first.host.clone(), second.host.clone()])];
    site.pull("app:1").unwrap();
    assert_eq!((first.asked().len(), site.registry.asked().len()), (1, 0));
    assert_eq!(site.names(), [format!("{}/app:1", site.registry.host)], "by the name of its registry");
    assert!(site.notes().iter().any(|note| note.contains(&first.host)), "{:?}", site.notes());
    // A mirror that lies or is down is passed over.
    site.forget();
    second.fault(|faults| faults.damaged = true);
    site.pull("app:1").unwrap();
    assert!(!site.registry.asked().is_empty());
}

#[test]
fn tls_has_to_lead_to_a_ca_of_the_host_unless_it_is_not_wanted() {
    let mut site = Site::new();
    site.registry.push(&[image("app:1")]);
    let ca = site.registries.ca.take();
    let error = site.pull("app:1").unwrap_err();
    assert!(error.contains("name its CA in registries.ca"), "{error}");
    site.registries.ca = ca;
    site.pull("app:1").unwrap();
    let plain = Registry::start(None);
    plain.push(&[image("app:1")]);
    let error = site.pull_from(&plain, "app:1").unwrap_err();
    assert!(error.contains("cannot be"), "{error}");
    site.registries.insecure = vec![plain.host.clone()];
    site.pull_from(&plain, "app:1").unwrap();
}

#[test]
fn a_proxy_opens_the_way() {
    let mut site = Site::new();
    site.registry.push(&[image("app:1")]);
    let (host, opened) = proxy();
    site.registries.proxy = Some(host);
    site.pull("app:1").unwrap();
    assert_eq!(opened.load(std::sync::atomic::Ordering::SeqCst), site.registry.asked().len() as u64);
}

#[test]
fn unused_images_leave_where_room_is_short_and_others_stay() {
    let mut site = Site::new();
    for name in ["a:1", "b:1", "c:1"] {
        site.registry.push(&[site::of_size(name, 1 << 20)]);
    }
    site.registries.max_size = Some(2 * (1 << 20) + (1 << 19));
    let host = site.registry.host.clone();
    let keep = |names: &[&str]| Some(names.iter().map(|name| format!("{host}/{name}")).collect::<Vec<_>>());
    site.keep = keep(&["a:1"]);
    site.pull("a:1").unwrap();
    site.pull("b:1").unwrap();
    site.keep = None;
    let error = site.pull("c:1").unwrap_err();
    assert!(error.contains("a larger registries.maxSize"), "nobody knows what is needed: {error}");
    site.keep = keep(&["a:1"]);
    site.pull("c:1").unwrap();
    assert_eq!(site.names(), keep(&["a:1", "c:1"]).unwrap());
    site.keep = keep(&["a:1", "c:1"]);
    let error = site.pull("b:1").unwrap_err();
    assert!(error.contains("the image needs 1.0 MiB, and there is room for"), "{error}");
    site.keep = keep(&["c:1"]);
    let removed = site.prune(true);
    assert!(
        removed.len() == 1 && removed[0].reference.ends_with("/a:1") && removed[0].size > 1 << 20,
        "{removed:?}"
    );
    assert_eq!(site.names().len(), 2);
    site.prune(false);
    assert_eq!(site.names(), keep(&["c:1"]).unwrap());
    site.nothing_left_over();
}

#[test]
fn a_tag_that_moves_leaves_what_it_led_to_under_its_digest() {
    let site = Site::new();
    let old = site.registry.push(&[image("app:1")]);
    site.pull("app:1").unwrap();
    let new = site.registry.push(&[image("app:1").set("Labels", serde_json::json!({"new": "yes"}))]);
    // To look changes nothing.
    let looked = site.look("app:1").unwrap();
    assert_eq!((looked.before.as_deref(), looked.digest.as_str()), (Some(old.as_str()), new.as_str()));
    assert!(0 < looked.bytes && looked.bytes < looked.size_before, "{looked:?}");
    assert!(looked.size > looked.size_before, "it has a label more: {looked:?}");
    assert_eq!(site.names().len(), 1);
    site.nothing_left_over();
    let pulled = site.pull("app:1").unwrap();
    assert_eq!(pulled, looked);
    assert_eq!((pulled.before.as_deref(), pulled.digest.as_str()), (Some(old.as_str()), new.as_str()));
    let host = &site.registry.host;
    assert_eq!(site.names(), [format!("{host}/app:1"), format!("{host}/app@{old}")]);
}

#[test]
fn a_kill_at_any_moment_leaves_whole_images_alone() {
    let site = Site::new();
    site.registry.push(&[big("app:1")]);
    let mut whole = 0;
    for round in 0..20 {
        site.pull_and_kill("app:1", Duration::from_millis(3 * round * round / 4 + 2));
        let names = site.names();
        whole += names.len();
        for (_, trouble) in site.scan() {
            assert_eq!(trouble, None, "round {round}");
        }
    }
    site.pull("app:1").unwrap();
    assert_eq!(site.names().len(), 1);
    site.nothing_left_over();
    println!("whole after {whole} of 20 kills");
}

#[test]
fn what_is_wrong_is_named() {
    let site = Site::new();
    let error = site.pull("app:none").unwrap_err();
    assert!(error.ends_with("does not have manifest none"), "{error}");
    let error = site.pull_name("app:1").unwrap_err();
    assert!(error.contains("names no registry"), "{error}");
    let began = Instant::now();
    let port = kelson_tests::free_port();
    let error = site.pull_name(&format!("127.0.0.1:{port}/app:1")).unwrap_err();
    assert!(
        error.contains(&format!("127.0.0.1:{port} cannot be reached: 127.0.0.1: Connection refused")),
        "{error}"
    );
    assert!(began.elapsed() < Duration::from_secs(40));
    let mut site = site;
    site.registries.ca = Some("/nowhere.pem".into());
    let error = site.pull("app:1").unwrap_err();
    assert!(error.starts_with("/nowhere.pem: "), "{error}");
}

/// It takes twenty seconds.
#[test]
fn long_a_transfer_that_stalls_is_cut_and_resumed() {
    let site = Site::new();
    site.registry.push(&[big("app:1")]);
    site.registry.fault(|faults| faults.stall = true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(5));
            site.registry.fault(|faults| faults.stall = false);
        });
        let pulled = site.pull("app:1").unwrap();
        assert!(pulled.bytes < 4 << 20, "it was resumed: {}", pulled.bytes);
    });
}
