use super::*;
use crate::dashboard::keys::Key;
use crate::samples::{line, result, service};
use kelson_proto::v1::State;

fn model(names: &[&str]) -> Model {
    Model::new(names.iter().map(|name| service(name, State::Running)).collect())
}

fn chosen(model: &Model) -> &str {
    model.chosen().map_or("", |(_, service)| &service.name)
}

fn press(model: &mut Model, keys: &str) -> Option<Effect> {
    keys.chars().map(|key| model.press(Key::Char(key))).last().flatten()
}

fn host(names: &[&str]) -> News {
    News::Host {
        services: names.iter().map(|name| service(name, State::Running)).collect(),
        version: None,
        boot: None,
    }
}

fn acted(action: Action, outcome: Outcome, message: &str) -> News {
    News::Acted(action, "db".to_owned(), Box::new(Ok(result("db", outcome, message))))
}

fn lines(name: &str, count: usize) -> News {
    News::Lines(vec![line(name, b"x"); count])
}

#[test]
fn the_choice_stays_with_its_service() {
    let mut model = model(&["api", "db", "web"]);
    assert_eq!(chosen(&model), "api");
    press(&mut model, "j");
    assert_eq!(chosen(&model), "db");
    model.hear(host(&["aa", "api", "db", "web"]));
    assert_eq!(chosen(&model), "db", "the one, not its place");
    model.hear(host(&["aa", "api", "web"]));
    assert_eq!(chosen(&model), "web", "what stands there now");
    model.hear(host(&["aa"]));
    assert_eq!(chosen(&model), "aa");
    model.hear(host(&[]));
    assert_eq!((chosen(&model), model.wish()), ("", Wish::Nothing));
    model.press(Key::Down);
    model.hear(host(&["api"]));
    assert_eq!(chosen(&model), "api");
}

#[test]
fn keys_of_movement_end_at_the_ends() {
    let names: Vec<String> = (10..40).map(|number| format!("s{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut model = model(&names);
    model.note(Shown { table: 10, ..Shown::default() });
    for (key, name) in [
        (Key::Up, "s10"),
        (Key::PageDown, "s19"),
        (Key::PageDown, "s28"),
        (Key::PageUp, "s19"),
        (Key::End, "s39"),
        (Key::PageDown, "s39"),
        (Key::Up, "s38"),
        (Key::Home, "s10"),
    ] {
        assert_eq!(model.press(key), None);
        assert_eq!(chosen(&model), name, "{key:?}");
    }
}

#[test]
fn a_filter_is_a_part_of_the_name() {
    let mut model = model(&["api", "db", "web", "webmail"]);
    press(&mut model, "/we");
    assert_eq!((model.listed().len(), chosen(&model), &model.mode), (2, "web", &Mode::Filter));
    // Letters that are keys elsewhere are letters here.
    assert_eq!(press(&mut model, "xq"), None);
    assert_eq!((model.listed().len(), chosen(&model)), (0, ""));
    model.press(Key::Backspace);
    model.press(Key::Backspace);
    model.press(Key::Enter);
    assert_eq!((model.listed().len(), &model.mode), (2, &Mode::Browse));
    model.press(Key::Escape);
    assert_eq!((model.listed().len(), model.filter.as_str()), (4, ""));
}

#[test]
fn nothing_is_done_without_a_yes() {
    let mut model = model(&["db"]);
    for (key, action) in [
        ("s", Action::Start { with_dependencies: false }),
        ("x", Action::Stop { cascade: false }),
        ("r", Action::Restart),
    ] {
        assert_eq!(press(&mut model, key), None);
        assert!(matches!(&model.mode, Mode::Confirm(asked, name, _) if *asked == action && name == "db"));
        // Neither these nor what comes from the host answers for the operator.
        assert_eq!(press(&mut model, "zj"), None);
        assert_eq!(model.press(Key::Enter), None);
        model.hear(host(&["aa", "db"]));
        assert_eq!(press(&mut model, "y"), Some(Effect::Act(action, "db".to_owned())));
        assert_eq!(model.mode, Mode::Browse);
        press(&mut model, key);
        assert_eq!(press(&mut model, "n"), None);
        assert_eq!(model.said.as_ref().unwrap().1, "db: left as it is");
        assert_eq!(press(&mut model, "y"), None, "it is not asked any more");
    }
}

#[test]
fn a_refused_stop_asks_about_those_that_need_it() {
    let mut model = model(&["db", "web"]);
    let stop = Action::Stop { cascade: false };
    model.hear(acted(stop, Outcome::Refused, "needed by \"web\""));
    assert_eq!(
        model.mode,
        Mode::Confirm(
            Action::Stop { cascade: true },
            "db".to_owned(),
            "db: refused: needed by \"web\"".to_owned()
        )
    );
    assert_eq!(press(&mut model, "y"), Some(Effect::Act(Action::Stop { cascade: true }, "db".to_owned())));
    model.hear(acted(Action::Stop { cascade: true }, Outcome::Done, "stopping, after web"));
    assert_eq!(model.said, Some((Tone::Good, "db: stopping, after web".to_owned())));
    // A user who types something else gets a message and no question.
    press(&mut model, "/w");
    model.hear(acted(stop, Outcome::Refused, "needed by \"web\""));
    assert_eq!(model.mode, Mode::Filter);
    assert_eq!(model.said.as_ref().unwrap().0, Tone::Bad);
    // No other refusal can be got round so.
    press(&mut model, "");
    model.press(Key::Enter);
    model.hear(acted(Action::Start { with_dependencies: false }, Outcome::Refused, "its file has a mistake"));
    assert_eq!(model.mode, Mode::Browse);
}

#[test]
fn what_may_not_be_done_is_told() {
    let mut model = model(&["db"]);
    let reason = "Services.Stop needs the role os:operator, and the client certificate has os:reader";
    model.hear(News::Acted(
        Action::Restart,
        "db".to_owned(),
        Box::new(Err(Failure::Denied(reason.to_owned()))),
    ));
    assert_eq!(model.said, Some((Tone::Bad, format!("db: {reason}"))));
    model.press(Key::Down);
    assert_eq!(model.said, None, "until the next key");
}

#[test]
fn each_pane_wishes_for_its_own() {
    let mut model = model(&["db", "web"]);
    let db = || "db".to_owned();
    for (key, wish) in [
        ("1", Wish::LogOf(db())),
        ("e", Wish::Nothing),
        ("g", Wish::Graph),
        ("4", Wish::Status(db())),
        ("l", Wish::LogOf(db())),
    ] {
        press(&mut model, key);
        assert_eq!(model.wish(), wish);
    }
    press(&mut model, "j");
    assert_eq!(model.wish(), Wish::LogOf("web".to_owned()));
}

#[test]
fn a_log_is_followed_until_one_looks_back() {
    let mut model = model(&["db"]);
    model.hear(News::LogOf("db".to_owned()));
    model.hear(lines("db", 20));
    let shown = |bottom| Shown { pane: 5, bottom: Some(bottom), ..Shown::default() };
    model.note(shown(19));
    assert_eq!(model.bottom, None, "at the newest");
    model.press(Key::Tab);
    model.press(Key::Up);
    assert_eq!(model.bottom, Some(18));
    model.note(shown(18));
    model.hear(lines("db", 3));
    assert_eq!(model.bottom, Some(18), "what comes does not move it");
    model.press(Key::PageUp);
    assert_eq!(model.bottom, Some(14));
    model.press(Key::Home);
    // There are five lines: the view shows them from the first on.
    model.note(shown(4));
    assert_eq!(model.bottom, Some(4));
    model.press(Key::PageDown);
    assert_eq!(model.bottom, Some(8));
    model.press(Key::End);
    assert_eq!(model.bottom, None);
    model.press(Key::Up);
    model.hear(News::LogOf("db".to_owned()));
    assert_eq!((model.bottom, model.log.is_empty()), (None, true), "another log begins at its end");
}

#[test]
fn what_is_lost_stays_until_it_is_back() {
    let mut model = model(&["db"]);
    let version = VersionResponse { hostname: "edge-1".to_owned(), ..VersionResponse::default() };
    model.hear(News::Host {
        services: vec![service("db", State::Running)],
        version: Some(Box::new(version)),
        boot: None,
    });
    model.hear(News::Lost("gone".to_owned()));
    assert_eq!((model.link.clone(), model.services.len()), (Link::Lost("gone".to_owned()), 1));
    model.hear(host(&["db"]));
    assert_eq!(model.link, Link::Connected);
    assert_eq!(model.version.as_ref().unwrap().hostname, "edge-1", "not told this time, and known");
}

#[test]
fn the_end_of_a_service_line_cannot_be_forged() {
    let mut model = model(&["db"]);
    let text = b"\x1b[2J\ta\xff".to_vec();
    model.hear(News::Lines(vec![Line { text, ..Line::default() }]));
    assert_eq!(model.log.get(0).unwrap().text, "\\x1b[2J    a\\xff");
    let long = Line { text: vec![b'x'; 16 << 10], ..Line::default() };
    model.hear(News::Lines(vec![long]));
    assert_eq!(model.log.get(1).unwrap().text.chars().count(), LINE_MAX);
}

#[test]
fn quit_is_always_heard() {
    let mut model = model(&["db"]);
    for before in ["", "/", "x", "?"] {
        press(&mut model, before);
        assert_eq!(model.press(Key::Interrupt), Some(Effect::Quit), "{before}");
        model.mode = Mode::Browse;
    }
    assert_eq!(press(&mut model, "q"), Some(Effect::Quit));
    assert_eq!(model.press(Key::Redraw), Some(Effect::Redraw));
}
