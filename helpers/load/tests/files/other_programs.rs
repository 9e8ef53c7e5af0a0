//! Files of other programs in a configuration folder. The client's translations are given here.

use std::fs;

use kelson_load::{Importer, Sources, load_with, read_tree};
use kelson_spec::Loaded;
use kelson_spec::features::Features;

use crate::folder::Folder;

/// A folder with a service file and a unit, which this importer translates.
fn load(importer: Importer) -> Loaded {
    load_for(importer, Features::ALL)
}

fn load_for(importer: Importer, features: Features) -> Loaded {
    let folder = Folder::new();
    folder.service("db", "name: db\nprocess: {command: [/bin/db]}\n");
    folder.service("user", "name: user\nprocess: {command: [/bin/user]}\ndepends: [{service: web}]\n");
    let units = folder.config().join("units");
    fs::create_dir(&units).unwrap();
    fs::write(units.join("web.service"), "").unwrap();
    load_with(&folder.config(), &Sources { root: None, features, importer, ..Sources::default() })
}

fn names(loaded: &Loaded) -> Vec<&str> {
    loaded.services.iter().map(|spec| spec.name.as_str()).collect()
}

fn texts(found: &[kelson_spec::Diagnostic]) -> Vec<String> {
    let text = |one: &kelson_spec::Diagnostic| {
        let file = one.file.file_name().unwrap_or_default().to_string_lossy();
        format!("{file}:{}: {}: {}", one.line, one.service.as_deref().unwrap_or_default(), one.message)
    };
    found.iter().map(text).collect()
}

#[test]
fn what_loses_nothing_is_a_service_like_any_other() {
    let loaded = load(|config| {
        let from = config.join("units/web.service");
        Ok(format!(
            r#"[{{"unit": "{0}", "service": "web", "file": "name: web\nprocess: {{command: [/bin/web]}}\n", "error": null,
                 "beside": [{{"service": "web-first", "file": "name: web-first\ntype: oneshot\nprocess: {{command: [/bin/a]}}\n"}}],
                 "fate": "approximated", "findings": [
                   {{"section": "Service", "key": "Type", "file": "{0}", "line": 2, "fate": "kept", "sentence": "s"}},
                   {{"section": "Unit", "key": "After", "file": "{0}", "line": 3, "fate": "approximated", "sentence": "t"}}]}}]"#,
            from.display()
        ))
    });
    assert_eq!(texts(&loaded.diagnostics), [""; 0]);
    assert_eq!(names(&loaded), ["db", "user", "web", "web-first"]);
    assert!(
        loaded.services.iter().find(|spec| spec.name == "web").unwrap().file.ends_with("units/web.service")
    );
    assert_eq!(
        texts(&loaded.warnings),
        ["web.service:0: web: approximated: After; `kelsonctl import folder` names each difference"]
    );
}

#[test]
fn what_loses_something_is_faulty_and_names_the_key() {
    let loaded = load(|config| {
        let from = config.join("units/web.service");
        Ok(format!(
            r#"[{{"unit": "{0}", "service": "web", "file": "name: web\nprocess: {{command: [/bin/web]}}\n", "error": null,
                 "beside": [], "fate": "rejected", "findings": [
                   {{"section": "Service", "key": "SecureBits", "file": "{0}", "line": 7, "fate": "rejected", "sentence": "lost"}}]}},
               {{"unit": "{1}", "service": null, "file": null, "error": "{1}: this is no UTF-8", "beside": [],
                 "fate": "rejected", "findings": []}}]"#,
            from.display(),
            config.join("units/other.service").display()
        ))
    });
    assert_eq!(names(&loaded), ["db", "user"]);
    assert_eq!(
        texts(&loaded.diagnostics),
        [
            "other.service:0: other: this is no UTF-8",
            "web.service:7: web: SecureBits: lost; make a service file with `kelsonctl import`, and decide there"
        ]
    );
    assert_eq!(loaded.faulty(), ["other", "web"]);
}

#[test]
fn a_translation_is_checked_as_a_service_file_is() {
    let loaded = load(|config| {
        Ok(format!(
            r#"[{{"unit": "{0}", "service": "web", "file": "name: web\n\nprocess: {{command: [/bin/web], x: 1}}\n", "error": null,
                 "beside": [], "fate": "kept", "findings": []}},
               {{"unit": "{0}", "service": "db", "file": "name: db\nprocess: {{command: [/bin/db]}}\n", "error": null,
                 "beside": [], "fate": "kept", "findings": []}}]"#,
            config.join("units/web.service").display()
        ))
    });
    let found = texts(&loaded.diagnostics);
    assert!(
        found.iter().any(|text| text.starts_with("web.service:0: web: process.x: this key is not known")),
        "{found:?}"
    );
    // A service file counts in place of what it was made of.
    assert!(loaded.warnings[0].message.ends_with("services/db.yaml is there"), "{:?}", loaded.warnings);
    assert_eq!(names(&loaded), ["db", "user"]);
}

#[test]
fn without_an_answer_the_service_files_count_alone() {
    let loaded = load(|_| Err("kelsonctl is not there".to_owned()));
    assert_eq!(texts(&loaded.diagnostics), ["units:0: : kelsonctl is not there"]);
    // It waits for the one that may come.
    assert_eq!(names(&loaded), ["db", "user"]);
    let small = load_for(|_| Err("it was asked".to_owned()), Features::NONE);
    assert!(texts(&small.diagnostics)[0].contains("built without the feature units"), "{small:?}");
}

#[test]
fn the_files_belong_to_the_configuration() {
    let folder = Folder::new();
    folder.service("db", "name: db\nprocess: {command: [/bin/db]}\n");
    for name in [
        "units/web.service",
        "units/web.service.d/a.conf",
        "units/README",
        "compose/shop/compose.yaml",
        "compose/shop/.env",
        "compose/shop/data/large",
        "compose/.hidden/compose.yaml",
        "talos/ups.yaml",
        "other/web.service",
    ] {
        let path = folder.config().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let names: Vec<String> = read_tree(&folder.config()).unwrap().into_iter().map(|file| file.name).collect();
    assert_eq!(
        names,
        [
            "compose/shop/.env",
            "compose/shop/compose.yaml",
            "services/db.yaml",
            "talos/ups.yaml",
            "units/web.service",
            "units/web.service.d/a.conf"
        ]
    );
}
