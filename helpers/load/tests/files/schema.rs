//! The decoder accepts exactly what the schema describes: asked at every mapping of all files, with every
//! key, default, bound and word; and the published schema is the one that is generated now.
use std::path::Path;
use std::rc::Rc;

use crate::folder::Folder;
use kelson_load::files::all as files;
use kelson_load::schema::{Absent, Key, Kind, Mapping, json, tables};
use kelson_spec::Loaded;
use kelson_spec::duration_text;

/// The other keys that a key needs to mean something: the mapping, the key (empty: every one), the other keys there.
const COMPANY: [(&str, &str, &str); 28] = [
    ("fleet", "certificate", "ca: /ca.pem, key: /k.pem"),
    ("fleet", "key", "ca: /ca.pem, certificate: /c.pem"),
    ("fleet", "consul", "name: a"),
    ("fleet", "", "ca: /ca.pem"),
    ("encryption", "format", "keyFile: /k, recoveryFile: /r"),
    ("service", "lifecycle", "group: g"),
    ("service", "watchdog", "readiness: notify"),
    ("service", "removeIpc", "user: \"1:1\""),
    ("service", "schedule", "type: oneshot"),
    ("schedule", "", "calendar: daily"),
    ("http", "ca", "scheme: https"),
    ("grpc", "ca", "scheme: https"),
    ("http", "verify", "scheme: https, ca: /etc/ca.pem"),
    ("grpc", "verify", "scheme: https, ca: /etc/ca.pem"),
    ("http", "scheme", "verify: false"),
    ("grpc", "scheme", "verify: false"),
    ("container", "network", "hostname: a"),
    ("container", "userNamespace", "runtime: kelson"),
    ("volume", "usage", "source: {csi: db}"),
    ("volume-overlay", "upper", "work: /w"),
    ("volume-overlay", "work", "upper: /u"),
    ("check", "volume", "freeAtLeast: 5%"),
    ("registration-check", "volume", "freeAtLeast: 5%"),
    ("requirement", "tag", "registered: db"),
    ("requirement", "min", "registered: db"),
    ("requirement", "staleFor", "registered: db"),
    // It is for a container.
    ("csi-plugin", "mountDir", "socket: csi.sock"),
    ("interface", "gateway", "address: 192.0.2.1/24"),
];

/// Values that are right by themselves and wrong where the test puts them, with the reason that the decoder gives.
const WRONG_HERE: [(&str, &str, &str); 25] = [
    ("conflicts", "db", "starts with the boot too"),
    ("soft", "", "soft is above hard"),
    ("options", "size=", "is an option of a tmpfs"),
    ("name", "a", "is not the file's name"),
    ("scope", "group", "is in no group"),
    ("hook", "prestart", "has to end first"),
    ("hook", "poststop", "has to end"),
    ("scheme", "http", "without TLS there is no certificate"),
    ("verify", "false", "ca and verify: false exclude each other"),
    ("options", "bind", "a tmpfs is not bound"),
    ("address", "", "the program chooses its address"),
    ("address", "", "no port of the host leads there"),
    ("start", "onDemand", "is started on demand by its sockets"),
    ("mode", "0660", "has permissions"),
    ("user", "root", "has an owner"),
    ("ipv6Only", "true", "is no IPv6 address"),
    ("passCredentials", "true", "only messages of Unix sockets"),
    ("maxDelay", "0s", "is less than"),
    ("format", "ifBlank", "a blank disk has no LABEL"),
    ("mountDir", "", "sees the folder of its plugin where it is"),
    ("algorithm", "zstd", "algorithm belongs to zram"),
    ("volume", "db", "is none of the volumes of this service"),
    ("freeAtLeast", "", "this is for a check of a volume"),
    ("pull", "", "this is for an image"),
    ("onChange", "reload", "needs a reload"),
];

/// One place of a file where a mapping stands.
#[derive(Clone)]
struct Site {
    mapping: Rc<Mapping>,
    /// The file around the text of this mapping.
    around: Rc<dyn Fn(&str) -> String>,
    /// Names of the mappings from the root on.
    path: Vec<&'static str>,
    /// The name of the file's own mapping.
    file: &'static str,
}

impl Site {
    /// The file in which this mapping has these entries besides those that it must have.
    fn file(&self, key: Option<&Key>, value: &str) -> String {
        let own = key.map(|key| format!("{}: {value}", key.name));
        (self.around)(&body(&self.mapping, key.map(|key| key.name), own))
    }

    fn load(&self, folder: &Folder, file: &str) -> Loaded {
        let ca = "-----BEGIN CERTIFICATE-----\nMIIBAA==\n-----END CERTIFICATE-----\n";
        folder.root_file("etc/ca.pem", ca);
        folder.root_file("srv", ca);
        folder.service("db", "name: db\ngroup: g\nprocess: {command: [/bin/db]}\n");
        folder.volume("db", "plugin: nfs\n");
        folder.service("nfs", "name: nfs\nprocess: {command: [/bin/nfs]}\nprovides: {csi: {id: nfs}}\n");
        match self.file {
            "machine" => folder.machine(file),
            "group" => folder.group("a", file),
            "volume-file" => folder.volume("a", file),
            _ => {
                folder.machine("fleet: {endpoints: [\"http://192.0.2.1:2379\"]}\n");
                folder.service("a", file);
            }
        }
        folder.load()
    }

    fn messages(&self, file: &str) -> Vec<String> {
        self.load(&Folder::new(), file).diagnostics.into_iter().map(|diagnostic| diagnostic.message).collect()
    }

    #[track_caller]
    fn takes(&self, key: &Key, value: &str) {
        let file = self.file(Some(key), value);
        let messages = self.messages(&file);
        let excused = |message: &String| {
            WRONG_HERE
                .iter()
                .any(|(name, word, why)| *name == key.name && value.contains(word) && message.contains(why))
        };
        let left: Vec<&String> = messages.iter().filter(|message| !excused(message)).collect();
        assert!(left.is_empty(), "{:?}: {value} is refused: {left:?}\n{file}", self.path);
    }

    #[track_caller]
    fn refuses(&self, key: &Key, value: &str) {
        let file = self.file(Some(key), value);
        assert!(!self.messages(&file).is_empty(), "{:?}: {value} is taken\n{file}", self.path);
    }
}

/// The text of a mapping: what it must have, and `own` for `key`.
fn body(mapping: &Mapping, key: Option<&str>, own: Option<String>) -> String {
    let company = COMPANY.iter().find(|(of, with, other)| {
        let is_with = |key: &str| !with.is_empty() && *with == key;
        let is_any = with.is_empty() && key.is_none_or(|key| !other.starts_with(key));
        *of == mapping.name && (is_any || key.is_some_and(is_with))
    });
    let alone = key.is_some_and(|key| mapping.one_of.contains(&key));
    let event_of = mapping.name == "requirement" && matches!(key, Some("event" | "whenDown"));
    let mut entries: Vec<String> = Vec::new();
    let is_of_company = |name: &str| {
        company
            .is_some_and(|(_, _, other)| other.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))
    };
    for needed in mapping.required().filter(|needed| Some(needed.name) != key && !is_of_company(needed.name))
    {
        entries.push(format!("{}: {}", needed.name, sample(needed)));
    }
    let has_one = (alone && !event_of) || mapping.one_of.iter().any(|name| is_of_company(name));
    if let Some(first) = mapping.one_of.first().filter(|_| !has_one) {
        let first = mapping.keys.iter().find(|key| key.name == *first).unwrap();
        entries.push(format!("{}: {}", first.name, sample(first)));
    }
    entries.extend(company.map(|(_, _, other)| (*other).to_owned()));
    entries.extend(own);
    format!("{{{}}}", entries.join(", "))
}

fn sample(key: &Key) -> String {
    values(key).into_iter().next().unwrap()
}

/// Values of a key; the name is mostly that of the file.
fn values(key: &Key) -> Vec<String> {
    let is_of_a_fact = matches!(&key.kind, Kind::Form(form) if form.name == "name of a fact");
    if key.name == "name" && !is_of_a_fact { vec!["a".to_owned()] } else { samples(&key.kind) }
}

fn sample_of(kind: &Kind) -> String {
    samples(kind).into_iter().next().unwrap()
}

/// Values that have to be taken: every word, and both ends of a range.
fn samples(kind: &Kind) -> Vec<String> {
    match kind {
        Kind::Text => vec!["text".into(), "80".into(), "true".into()],
        Kind::Form(form) if form.name == "certificates" => {
            vec![r#""-----BEGIN CERTIFICATE-----\nMIIBAA==\n-----END CERTIFICATE-----""#.into()]
        }
        Kind::Form(form) => vec![format!("{:?}", form.sample)],
        Kind::Boolean => vec!["true".into(), "false".into()],
        Kind::True => vec!["true".into()],
        Kind::Number(range) => vec![range.start().to_string(), range.end().to_string()],
        Kind::Integer(range) => vec![range.start().to_string(), range.end().to_string()],
        // The default of one may bound the other: the longest first.
        Kind::Duration(range) => vec![duration_text(*range.end()), duration_text(*range.start())],
        Kind::Size(least) => vec![least.to_string(), "64Mi".into()],
        Kind::Cpus => vec!["0.01".into(), "2".into(), "4096".into()],
        Kind::Choice(words) => words.iter().map(|word| (*word).to_owned()).collect(),
        Kind::List(of, count) => {
            let mut lists: Vec<String> = samples(of).iter().map(|one| format!("[{one}]")).collect();
            lists.extend((*count.start() == 0).then(|| "[]".to_owned()));
            lists
        }
        Kind::Map(form, of, own) => {
            let of_own = |key: &Key| -> Vec<String> {
                samples(&key.kind).iter().map(|one| format!("{{{}: {one}}}", key.name)).collect()
            };
            let usual = [format!("{{{:?}: {}}}", form.sample, sample_of(of)), "{}".into()];
            usual.into_iter().chain(own.iter().flat_map(of_own)).collect()
        }
        Kind::Mapping(mapping) => vec![body(&mapping(), None, None)],
        Kind::Either(kinds) => kinds.iter().flat_map(samples).collect(),
    }
}

/// Values just beyond.
fn beyond(kind: &Kind) -> Vec<String> {
    match kind {
        Kind::Text => vec!["[]".into(), "{}".into()],
        Kind::Form(_) => vec!["\"\"".into(), "[]".into()],
        Kind::Boolean => vec!["maybe".into()],
        Kind::True => vec!["false".into()],
        Kind::Number(range) => {
            let below = range.start().checked_sub(1).map_or("-1".to_owned(), |below| below.to_string());
            vec![below, (range.end() + 1).to_string(), "many".into()]
        }
        Kind::Integer(range) => {
            vec![(range.start() - 1).to_string(), (range.end() + 1).to_string(), "1.5".into()]
        }
        Kind::Duration(range) => {
            let one = std::time::Duration::from_millis(1);
            let mut all = vec![duration_text(*range.end() + one), "5".into()];
            all.extend(range.start().checked_sub(one).map(duration_text));
            all
        }
        Kind::Size(0) => vec!["64MB".into()],
        Kind::Size(least) => vec![(least - 1).to_string(), "64MB".into()],
        Kind::Cpus => vec!["0.009".into(), "4096.001".into()],
        Kind::Choice(words) => words.iter().map(|word| format!("{word}x")).collect(),
        Kind::List(of, count) => {
            let mut lists: Vec<String> = beyond(of).iter().map(|one| format!("[{one}]")).collect();
            lists.extend((*count.start() > 0).then(|| "[]".to_owned()));
            if *count.end() < usize::MAX {
                lists.push(format!("[{}]", vec![sample_of(of); count.end() + 1].join(", ")));
            }
            lists.push("word".into());
            lists
        }
        Kind::Map(_, of, own) => {
            let of_own = |key: &Key| -> Vec<String> {
                beyond(&key.kind).iter().map(|one| format!("{{{}: {one}}}", key.name)).collect()
            };
            let usual = ["word".into(), "{\"\": x}".into(), format!("{{A.B: {}}}", beyond(of).join(", "))];
            usual.into_iter().chain(own.iter().flat_map(of_own)).collect()
        }
        Kind::Mapping(_) => vec!["word".into()],
        // A value that one of them refuses another might take.
        Kind::Either(_) => vec!["-".into()],
    }
}

/// Every place in all files where a mapping stands, each chain of names once.
fn sites() -> Vec<Site> {
    let mut found = Vec::new();
    for mapping in files() {
        let file = mapping.name;
        let path = vec![mapping.name];
        descend(Site { mapping: Rc::new(mapping), around: Rc::new(str::to_owned), path, file }, &mut found);
    }
    found
}

fn descend(site: Site, found: &mut Vec<Site>) {
    if found.iter().any(|other| other.path == site.path) {
        return;
    }
    found.push(site.clone());
    // `when` takes what `depends` takes, less a `whenDown`.
    for key in site.mapping.keys.iter().filter(|key| key.name != "when") {
        for (inner, wrap) in mappings_in(&key.kind) {
            // `any` holds what it stands in.
            if site.path.contains(&inner.name) {
                continue;
            }
            let (outer, key) = (site.clone(), key.clone());
            let around = Rc::new(move |text: &str| outer.file(Some(&key), &wrap(text)));
            let path = site.path.iter().copied().chain([inner.name]).collect();
            let mapping = Rc::new(inner);
            descend(Site { mapping, around, path, file: site.file }, found);
        }
    }
}

type Wrap = Box<dyn Fn(&str) -> String>;

/// The mappings that may be the value of a key, and what has to be put around them.
fn mappings_in(kind: &Kind) -> Vec<(Mapping, Wrap)> {
    match kind {
        Kind::Mapping(mapping) => vec![(mapping(), Box::new(str::to_owned))],
        Kind::List(of, _) => mappings_in(of)
            .into_iter()
            .map(|(mapping, wrap)| (mapping, Box::new(move |text: &str| format!("[{}]", wrap(text))) as Wrap))
            .collect(),
        Kind::Either(kinds) => kinds.iter().flat_map(mappings_in).collect(),
        _ => Vec::new(),
    }
}

fn each_key(mut ask: impl FnMut(&Site, &Key)) {
    for site in sites() {
        for key in &site.mapping.keys {
            ask(&site, key);
        }
    }
}

#[test]
fn the_decoder_allows_these_keys_and_no_others() {
    let sites = sites();
    assert!(sites.len() > 30, "only {} places", sites.len());
    for site in sites {
        let unknown =
            Key { name: "zzz", kind: Kind::Text, default: Absent::Means(""), feature: None, about: "" };
        let messages = site.messages(&site.file(Some(&unknown), "1"));
        let names: Vec<&str> = site.mapping.keys.iter().map(|key| key.name).collect();
        let all = match site.mapping.name {
            "builtins" => {
                let mut sorted = names.clone();
                sorted.sort_unstable();
                format!("one of the built-in services {}", sorted.join(", "))
            }
            "target" | "dummy" => "this key is not known; allowed here: nothing".to_owned(),
            _ => format!("this key is not known; allowed here: {}", names.join(", ")),
        };
        let told = messages.iter().filter(|message| message.ends_with(&all)).count();
        assert_eq!(told, 1, "{:?}: {messages:?}\n{all}", site.path);
    }
}

#[test]
fn what_must_be_there_must_be_there() {
    for site in sites() {
        let file = (site.around)("{}");
        let messages = site.messages(&file).join("\n");
        for key in &site.mapping.keys {
            let missing = format!("{}: this key is missing", key.name);
            let required = site.mapping.required().any(|needed| needed.name == key.name);
            assert_eq!(messages.contains(&missing), required, "{:?} {}: {messages}", site.path, key.name);
        }
        let choice = format!("one of the keys {} is missing", site.mapping.one_of.join(", "));
        assert_eq!(messages.contains(&choice), !site.mapping.one_of.is_empty(), "{:?}", site.path);
        let least = site.file(None, "");
        assert_eq!(site.messages(&least), Vec::<String>::new(), "{:?}\n{least}", site.path);
    }
}

#[test]
fn every_default_is_what_the_decoder_takes_an_absent_key_for() {
    let mut defaults = 0;
    each_key(|site, key| {
        let Absent::Is(default) = &key.default else { return };
        let default = default.to_string();
        let (with, without) = (site.file(Some(key), &default), site.file(None, ""));
        if COMPANY.iter().any(|(of, name, _)| *of == site.mapping.name && *name == key.name) {
            return;
        }
        let folder = Folder::new();
        let (left, right) = (site.load(&folder, &with), site.load(&folder, &without));
        assert_eq!(left, right, "{:?}.{}: {default}", site.path, key.name);
        assert_eq!(site.messages(&with), Vec::<String>::new(), "{with}");
        defaults += 1;
    });
    assert!(defaults > 100, "{defaults}");
}

#[test]
fn every_word_and_bound_is_taken() {
    each_key(|site, key| {
        values(key).iter().for_each(|value| site.takes(key, value));
    });
}

#[test]
fn what_is_beyond_is_refused() {
    each_key(|site, key| {
        for value in beyond(&key.kind).iter().chain(&[String::new()]) {
            site.refuses(key, value);
        }
    });
}

/// Compares a file of the documents with what is generated, or writes it where KELSON_RENEW is set.
fn published(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(path);
    if std::env::var_os("KELSON_RENEW").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(kept == text, "docs/{path} is old: hack/docs --renew");
}

#[test]
fn the_published_schemas_are_the_generated_ones() {
    for file in files() {
        published(&format!("schema/{}.schema.json", file.name), &json::schema(&file));
    }
}

#[test]
fn the_tables_of_the_documents_are_the_generated_ones() {
    for name in ["service-file.md", "group-file.md", "machine-file.md", "volume-file.md"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        let document = std::fs::read_to_string(&file).unwrap();
        assert!(document.contains("<!-- keys: "), "{name} has no table");
        published(name, &tables::renew(&document, &files()).unwrap());
    }
}
