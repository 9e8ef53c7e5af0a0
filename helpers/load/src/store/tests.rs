use std::time::SystemTime;

use kelson_spec::applied::About;

use super::*;

const GOOD: &str = "process: {command: [/bin/true]}\n";

struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    /// With one service in the host's own folder.
    fn new() -> Folder {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("etc/services")).unwrap();
        fs::write(folder.path().join("etc/services/own.yaml"), format!("name: own\n{GOOD}")).unwrap();
        Folder { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn store(&self) -> Store {
        Store::new(&self.path("state/config"), &self.path("etc"), &Sources::default())
    }
}

fn file(name: &str, text: &str) -> TreeFile {
    TreeFile { name: name.to_owned(), content: text.as_bytes().to_vec() }
}

/// Two files of which each names the other's number, so that a mixture shows.
fn files(number: u32) -> Vec<TreeFile> {
    let text = |name: &str| format!("name: {name}\ndescription: '{number}'\n{GOOD}");
    ["a", "b"].map(|name| file(&format!("services/{name}.yaml"), &text(name))).into()
}

fn change(source: Source) -> Change {
    let about = About { author: "ann".to_owned(), message: String::new(), time: SystemTime::UNIX_EPOCH };
    Change { source, base: None, dry_run: false, on_trial: false, about }
}

fn apply(store: &Store, change: Change) -> (Generation, Generation, Loaded) {
    match store.answer(Question::Apply(change)) {
        Answer::Applied { before, now, loaded } => (before, now, *loaded),
        other => panic!("{other:?}"),
    }
}

fn refused(store: &Store, change: Change) -> String {
    match store.answer(Question::Apply(change)) {
        Answer::Refused(why) => why,
        other => panic!("{other:?}"),
    }
}

/// The services by which a host that boots now runs, with their descriptions.
fn booted(folder: &Folder) -> Vec<(String, String)> {
    let loaded = folder.store().load_at_boot(&folder.path("state/config"));
    assert_eq!(loaded.diagnostics, []);
    loaded.services.into_iter().map(|spec| (spec.name, spec.description)).collect()
}

fn pairs(number: u32) -> Vec<(String, String)> {
    ["a", "b"].map(|name| (name.to_owned(), number.to_string())).into()
}

fn own() -> Vec<(String, String)> {
    vec![("own".to_owned(), String::new())]
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_configuration_is_kept_and_wins_over_the_hosts_own() {
    let folder = Folder::new();
    assert_eq!(booted(&folder), own());
    let (before, now, loaded) = apply(&folder.store(), change(Source::Files(files(1))));
    assert_eq!((before, now, loaded.generation), (0, 1, Some(1)));
    let named = folder.path("state/config/current/services/a.yaml");
    assert_eq!(loaded.services[0].file, named);
    assert_eq!(fs::read_to_string(named).unwrap(), format!("name: a\ndescription: '1'\n{GOOD}"));
    assert_eq!(booted(&folder), pairs(1));
    // Where its disk is mounted elsewhere, the files are named as they will be.
    let loaded = folder.store().load_at_boot(Path::new("/later"));
    assert_eq!(loaded.services[1].file, Path::new("/later/current/services/b.yaml"));
    assert!(loaded.warnings.iter().any(|found| found.message.contains("generation 1, which was applied")));
    // The same again is no other generation.
    assert_eq!(apply(&folder.store(), change(Source::Files(files(1)))).1, 1);
    assert_eq!(apply(&folder.store(), change(Source::Files(files(2)))).1, 2);
    let (before, now, _) = apply(&folder.store(), change(Source::Generation(1)));
    assert_eq!((before, now, booted(&folder)), (2, 3, pairs(1)));
    let (before, now, loaded) = apply(&folder.store(), change(Source::Generation(0)));
    assert_eq!((before, now, loaded.generation), (3, 0, None));
    assert_eq!(booted(&folder), own());
    assert_eq!(names(&folder.path("state/config")), ["1", "2", "3"]);
}

#[test]
fn a1_a_mistake_changes_nothing_and_each_is_named() {
    let folder = Folder::new();
    apply(&folder.store(), change(Source::Files(files(1))));
    let wrong = vec![
        file("services/a.yaml", "name: a\nprocess: {command: [/bin/true]}\nproces: 1\n"),
        file("services/b.yaml", &format!("name: b\n{GOOD}depends: [{{service: nobody}}]\n")),
        file("machine.yaml", "hostnam: x\n"),
        file("groups/g.yml", "{}\n"),
    ];
    let (before, now, loaded) = apply(&folder.store(), change(Source::Files(wrong)));
    assert_eq!((before, now), (1, 1));
    let places: Vec<String> = loaded
        .diagnostics
        .iter()
        .map(|found| {
            found.file.strip_prefix(folder.path("state/config/current")).unwrap().display().to_string()
        })
        .collect();
    assert_eq!(places, ["groups/g.yml", "machine.yaml", "services/a.yaml", "services/b.yaml"]);
    assert_eq!(booted(&folder), pairs(1));
    // A dry run leaves nothing either.
    let dry = Change { dry_run: true, ..change(Source::Files(files(2))) };
    let (before, now, loaded) = apply(&folder.store(), dry);
    assert_eq!((before, now, loaded.services.len()), (1, 1, 2));
    assert_eq!(names(&folder.path("state/config")), ["1", "current"]);
}

#[test]
fn names_lead_nowhere_else() {
    let folder = Folder::new();
    for name in [
        "../x.yaml",
        "/etc/x.yaml",
        "services/../x.yaml",
        "services/a/b.yaml",
        "services/.a.yaml",
        "services/a\n.yaml",
        "services/",
        "services/a.txt",
        "other/a.yaml",
        ".about",
        "",
        &format!("services/{}.yaml", "x".repeat(255)),
    ] {
        let why = refused(&folder.store(), change(Source::Files(vec![file(name, GOOD)])));
        assert!(why.contains("is no file of a configuration"), "{name:?}: {why}");
    }
    let twice = vec![file("machine.yaml", "{}"), file("machine.yaml", "{}")];
    assert!(refused(&folder.store(), change(Source::Files(twice))).contains("twice"));
    let large = vec![file("machine.yaml", &"#".repeat(TREE_MAX + 1))];
    assert!(refused(&folder.store(), change(Source::Files(large))).contains("it may have 1000000"));
    assert_eq!(names(&folder.path("state/config")), Vec::<String>::new());
}

#[test]
fn a4_a_change_of_another_generation_is_refused_and_its_author_named() {
    let folder = Folder::new();
    let based = |base, number| Change { base: Some(base), ..change(Source::Files(files(number))) };
    assert_eq!(apply(&folder.store(), based(0, 1)).1, 1);
    let why = refused(&folder.store(), based(0, 2));
    assert!(why.contains("generation 1 (applied by ann) is in force and not 0"), "{why}");
    assert_eq!(booted(&folder), pairs(1));
    assert_eq!(apply(&folder.store(), based(1, 2)).1, 2);
}

#[test]
fn a2_a_trial_ends_with_the_boot_or_when_it_is_told_to() {
    let folder = Folder::new();
    let tried = |number| Change { on_trial: true, ..change(Source::Files(files(number))) };
    // The first boot that finds it returns, and the next ones stay there.
    apply(&folder.store(), change(Source::Files(files(1))));
    apply(&folder.store(), tried(2));
    assert_eq!(folder.store().load(Path::new("/x")).generation, Some(2), "a reload reads what is tried");
    assert_eq!(booted(&folder), pairs(1));
    assert_eq!(booted(&folder), pairs(1));
    apply(&folder.store(), tried(3));
    assert_eq!(folder.store().answer(Question::Confirm), Answer::Settled);
    assert_eq!(booted(&folder), pairs(3));
    assert_eq!(folder.store().answer(Question::Revert), Answer::Settled, "nothing is on trial");
    apply(&folder.store(), tried(4));
    let Answer::Applied { before: 4, now: 3, loaded } = folder.store().answer(Question::Revert) else {
        panic!("it was on trial");
    };
    assert_eq!(loaded.services[0].description, "3");
    assert_eq!(booted(&folder), pairs(3));
    let Answer::History { kept, trial: None } = folder.store().answer(Question::History) else {
        panic!("no history")
    };
    let told: Vec<(Generation, bool, bool)> =
        kept.iter().map(|kept| (kept.generation, kept.current, kept.reverted)).collect();
    assert_eq!(
        told,
        [(4, false, true), (3, true, false), (2, false, true), (1, false, false), (0, false, false)]
    );
    assert_eq!(kept[0].about.as_ref().unwrap().author, "ann");
    // From the host's own files and back to them.
    let first = Folder::new();
    apply(&first.store(), tried(1));
    assert_eq!(booted(&first), own());
}

#[test]
fn the_last_ten_are_kept() {
    let folder = Folder::new();
    for number in 1..=13 {
        assert_eq!(apply(&folder.store(), change(Source::Files(files(number)))).1, u64::from(number));
    }
    assert_eq!(folder.store().numbers(), (4..=13).collect::<Vec<_>>());
    let why = refused(&folder.store(), change(Source::Generation(3)));
    assert!(why.starts_with("there is no generation 3; the host keeps 0, 4, 5,"), "{why}");
    assert_eq!(names(&folder.path("state/config")).len(), 11, "nothing else is left");
}

/// The power goes after each step of the writer: the next boot has the old configuration or the new one, complete.
#[test]
fn a3_a_write_that_ends_at_any_step_leaves_the_old_or_the_new() {
    for on_trial in [false, true] {
        let (mut old, mut new) = (0, 0);
        for steps in 0.. {
            let folder = Folder::new();
            apply(&folder.store(), change(Source::Files(files(1))));
            let store = folder.store();
            store.disk.left.set(Some(steps));
            let answer =
                store.answer(Question::Apply(Change { on_trial, ..change(Source::Files(files(2))) }));
            let whole = store.disk.left.get() > Some(0);
            let now = booted(&folder);
            match now == pairs(1) {
                true => old += 1,
                false => new += 1,
            }
            assert!(now == pairs(1) || (now == pairs(2) && !on_trial), "after {steps} steps: {now:?}");
            if matches!(answer, Answer::Applied { .. }) && !on_trial {
                assert_eq!(now, pairs(2), "it was called applied after {steps} steps");
            }
            // What was broken off keeps nobody from the next one, and nothing of it stays.
            let (_, number, _) = apply(&folder.store(), change(Source::Files(files(3))));
            assert_eq!(booted(&folder), pairs(3));
            let left = names(&folder.path("state/config"));
            assert!(left.iter().all(|name| !name.starts_with('.') && name != "pending"), "{left:?}");
            assert!(number >= 2);
            if whole {
                break;
            }
        }
        assert!(old > 10 && (new > 0) != on_trial, "{old} {new}");
    }
}

/// The power goes after each step of the return to the configuration from before a trial.
#[test]
fn a3_a_return_that_ends_at_any_step_is_completed_by_the_boot() {
    for steps in 0..20 {
        let folder = Folder::new();
        apply(&folder.store(), change(Source::Files(files(1))));
        apply(&folder.store(), Change { on_trial: true, ..change(Source::Files(files(2))) });
        let store = folder.store();
        store.disk.left.set(Some(steps));
        store.answer(Question::Revert);
        assert_eq!(booted(&folder), pairs(1), "after {steps} steps");
    }
}

#[test]
fn a_generation_that_is_gone_leaves_the_hosts_own_files() {
    let folder = Folder::new();
    apply(&folder.store(), change(Source::Files(files(1))));
    fs::remove_dir_all(folder.path("state/config/1")).unwrap();
    let loaded = folder.store().load_at_boot(&folder.path("state/config"));
    assert_eq!(loaded.services[0].name, "own");
    assert!(loaded.warnings[0].message.contains("generation 1 is gone"), "{:?}", loaded.warnings);
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let folder = Folder::new();
    fs::write(folder.path("state"), "a file").unwrap();
    let why = refused(&folder.store(), change(Source::Files(files(1))));
    assert!(why.contains("state/config cannot be written: "), "{why}");
}

#[test]
fn the_sources_override_what_was_applied_and_their_files_are_handed_out() {
    let folder = Folder::new();
    let layers = Some(folder.path("sources"));
    let sources = Sources { layers, ..Sources::default() };
    let store = Store::new(&folder.path("state/config"), &folder.path("etc"), &sources);
    for (layer, text) in
        [("disk", "hostname: disk\n"), ("credentials", "x: y\n"), ("commandLine", "main: a\n")]
    {
        fs::create_dir_all(folder.path(&format!("sources/{layer}"))).unwrap();
        fs::write(folder.path(&format!("sources/{layer}/machine.yaml")), text).unwrap();
    }
    let machine = file("machine.yaml", "sources: {from: [disk, credentials]}\nhostname: applied\n");
    let (_, _, loaded) = apply(&store, change(Source::Files([files(1), vec![machine]].concat())));
    assert_eq!((loaded.machine.hostname.as_deref(), loaded.machine.main), (Some("disk"), None));
    let handed_out = |sources| match store.answer(Question::Get { generation: None, sources }) {
        Answer::Files { files, .. } => files.into_iter().map(|file| file.name).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(handed_out(false), ["machine.yaml", "services/a.yaml", "services/b.yaml"]);
    // Neither those of a source that is skipped, nor those of one that is not named.
    assert_eq!(handed_out(true)[3..], ["sources/disk/machine.yaml"]);
}
