//! A start that cannot succeed is not tried again until the service's file or an archive of images has
//! changed.

use kelson_tests::{Host, Image, archive};

use super::{host, runtime, test_image};

const RESTART: &str = "restart: {policy: forever, delay: 10ms, maxDelay: 10ms}";

#[track_caller]
fn preparations(host: &Host, name: &str) -> usize {
    host.events_of(name).iter().filter(|event| event.message == "all that it waits for holds").count()
}

both!(a_missing_image_and_an_unknown_user_wait_for_a_change);
fn a_missing_image_and_an_unknown_user_wait_for_a_change() {
    let key = runtime();
    let stranger = |user: &str| format!("container: {{{key}image: 'test:1'}}\nuser: '{user}'\n{RESTART}");
    let mut host = host(&[test_image()])
        .service("missing", &format!("container: {{{key}image: 'late:1'}}\n{RESTART}"))
        .service("stranger", &stranger("nobody-here"))
        .archive("bad.tar", b"no archive".repeat(100))
        .start();
    for (name, why) in [("missing", "holds image \"late:1\""), ("stranger", "has no user \"nobody-here\"")] {
        let service = host.wait_state(name, "failed");
        assert!(service.message.contains(why), "{service:?}");
        let until = "; it is tried again once its file or an archive of images changes";
        assert!(service.message.ends_with(until), "{service:?}");
        assert_eq!((service.restarts, service.stopped, service.pid), (0, false, None), "{service:?}");
        host.wait_down(name);
    }
    // Another incarnation waits for the same, and tries nothing.
    host.ctl(&["reexec"]).ok();
    assert_eq!((preparations(&host, "missing"), preparations(&host, "stranger")), (1, 1));

    let image = archive(&[Image::new("late:1", &["serve"])]);
    std::fs::write(host.path("images/late.tar"), image).expect("the test's folder is writable");
    host.wait_up("missing");
    assert_eq!(host.service("missing").restarts, 0);
    // The archives changed for the other one as well, and it failed as before.
    host.wait_for("stranger", "to have been tried once more", |now| {
        now.state == "failed" && preparations(&host, "stranger") == 2
    });
    host.write_service("stranger", &stranger("0"));
    host.signal(libc::SIGHUP);
    host.wait_up("stranger");
    assert_eq!(preparations(&host, "missing"), 2);
    host.poweroff();
}
