//! Files that mean harm, and files that were damaged: always an answer, soon, and never a panic.
use std::time::{Duration, Instant};

use crate::folder::Folder;

const WHOLE: &str = include_str!("../whole.yaml");

/// Loads one file with this content, within bounds, and returns the mistakes.
fn said(content: &[u8]) -> Vec<String> {
    let folder = Folder::new();
    folder.service("web", content);
    folder.messages()
}

#[test]
fn aliases_cannot_grow_without_bound() {
    let mut bomb = "a: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..30 {
        let last = format!("*a{}, ", n - 1).repeat(9);
        bomb.push_str(&format!("b{n}: &a{n} [{last}*a{}]\n", n - 1));
    }
    assert_eq!(
        said(bomb.as_bytes()),
        ["services/web.yaml:5:55: the file holds more than 100000 values, aliases written out"]
    );
    let mut deep = "a: &a0 [x]\n".to_owned();
    for n in 1..100 {
        deep.push_str(&format!("b{n}: &a{n} [*a{}]\n", n - 1));
    }
    assert_eq!(
        said(deep.as_bytes()),
        ["services/web.yaml:32:6: lists and mappings are nested more than 32 deep"]
    );
}

#[test]
fn a_fair_alias_is_the_value_it_names() {
    let text = "name: web\nprocess: {command: &c [/bin/web]}\nhealth: [{exec: {command: *c}}]\n";
    assert_eq!(said(text.as_bytes()), Vec::<String>::new());
}

#[test]
fn depth_and_number_are_bounded_and_soon_found() {
    let million = 1 << 20;
    let files: [(&str, Vec<u8>); 8] = [
        ("brackets", b"[".repeat(million)),
        ("braces", b"{".repeat(million)),
        ("keys", b"? ".repeat(million / 2)),
        ("dashes", b"- ".repeat(million / 2)),
        ("items", b"- a\n".repeat(million / 4)),
        ("commas", [b"[".as_slice(), &b"a,".repeat(million / 2 - 1)].concat()),
        ("anchors", b"&a ".repeat(million / 3)),
        ("quotes", b"\"".repeat(million)),
    ];
    for (name, content) in files {
        let start = Instant::now();
        let messages = said(&content);
        assert_eq!(messages.len(), 1, "{name}: {messages:?}");
        assert!(start.elapsed() < Duration::from_secs(20), "{name} took {:?}", start.elapsed());
    }
}

#[test]
fn a_file_of_nothing_but_mistakes_is_told_in_few_words() {
    let keys: String = (0..40_000).map(|n| format!("k{n}: 1\n")).collect();
    let messages = said(keys.as_bytes());
    assert_eq!(messages.len(), 101);
    assert_eq!(
        messages[100],
        "services/web.yaml:101:1: 39902 more mistakes are not shown; mend the first ones"
    );
    let long = format!(
        "? {}\n: 1\nstop: {{timeout: {}1}}\nuser: \"\\e[31m{}\"\n",
        "k".repeat(5000),
        "0".repeat(5000),
        "x".repeat(5000)
    );
    for message in said(long.as_bytes()) {
        assert!(message.len() < 800 && !message.contains('\u{1b}'), "{message}");
    }
}

#[test]
fn a_long_environment_file_takes_no_long_time() {
    let folder = Folder::new();
    let lines: String = (0..100_000).map(|n| format!("A{n}=1\n")).collect();
    folder.root_file("etc/web.env", lines + "A7=last\n");
    folder.service(
        "web",
        "name: web\nprocess: {command: [a]}\nenvironmentFiles: [/etc/web.env]\nenvironment: {A0: first}\n",
    );
    let start = Instant::now();
    let loaded = folder.load();
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    let environment = &loaded.services[0].environment;
    assert_eq!(environment.len(), 100_000);
    assert_eq!((environment[0].1.as_str(), environment[7].1.as_str()), ("first", "last"));
}

#[test]
fn what_made_parsers_hang_or_fall() {
    for text in [
        "{---",
        "...",
        "...x",
        "{...",
        "\u{feff}",
        "\0",
        "%YAML 9.9\n---\n",
        "%TAG\n",
        "&",
        "*",
        "!",
        "!<",
        "|",
        ">9",
        "\"\\",
        "? ",
        ": ",
        "- -",
        "[,]",
        "{,}",
        "\r\n\r",
        "#",
        "--- |\n",
        "a: |-\n  \u{85}",
    ] {
        let messages = said(text.as_bytes());
        assert!(!messages.is_empty(), "{text:?} passed");
    }
}

/// Xorshift: small, and the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound.max(1)).unwrap()).unwrap()
    }
}

#[test]
fn a_damaged_file_is_answered_never_a_panic() {
    const WORDS: [&str; 24] = [
        "\n",
        " ",
        ": ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        "\"",
        "'",
        "&a ",
        "*a",
        "!x ",
        "---\n",
        "...\n",
        "|\n",
        ">\n",
        "# ",
        "\t",
        "? ",
        "\u{1f600}",
        "\0",
        "99999999999999999999",
        "%",
    ];
    let folder = Folder::new();
    folder.root_file("etc/web.env", "A=1\n");
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let (mut sound, mut faulty) = (0, 0);
    for _ in 0..1500 {
        let mut content = WHOLE.as_bytes().to_vec();
        for _ in 0..=dice.below(4) {
            let at = dice.below(content.len());
            match dice.below(6) {
                0 => content[at] = u8::try_from(dice.below(256)).unwrap(),
                1 => drop(content.drain(at..(at + dice.below(40)).min(content.len()))),
                2 => content.truncate(at),
                3 => {
                    let copy = content[at..(at + dice.below(60)).min(content.len())].to_vec();
                    let to = dice.below(content.len());
                    content.splice(to..to, copy);
                }
                _ => drop(content.splice(at..at, WORDS[dice.below(WORDS.len())].bytes())),
            }
            if content.is_empty() {
                break;
            }
        }
        folder.service("web", &content);
        folder.machine(&String::from_utf8_lossy(&content));
        let loaded = folder.load();
        for diagnostic in &loaded.diagnostics {
            let text = diagnostic.to_string();
            assert!(
                !text.contains("parser failed"),
                "the parser fell over {:?}",
                String::from_utf8_lossy(&content)
            );
            assert!(text.len() < 2000, "{text}");
            assert!(diagnostic.line == 0 || diagnostic.column > 0, "{text}");
        }
        let web_is_faulty = loaded.faulty() == ["web"];
        assert_ne!(
            web_is_faulty,
            loaded.services.iter().any(|spec| spec.name == "web"),
            "either sound or faulty"
        );
        if web_is_faulty { faulty += 1 } else { sound += 1 }
    }
    assert!(
        sound > 20 && faulty > 500,
        "the damage is too small or too great: {sound} sound, {faulty} faulty"
    );
}

#[test]
fn a_member_that_was_damaged_is_never_passed_over() {
    const MIGRATE: &str = "name: migrate\ntype: oneshot\nprocess:\n  command: [/bin/migrate, --to, latest]\ngroup: shop\nlifecycle: {hook: prestart, sidecar: false}\nrestart: {policy: untilSuccess, delay: 1s}\n";
    const GROUP: &str = "\ngroup: shop\n";
    let folder = Folder::new();
    folder.service("web", "name: web\nprocess: {command: [/bin/web]}\ngroup: shop\n");
    let mut dice = Dice(0x2545_F491_4F6C_DD1D);
    let (mut sound, mut faulty) = (0, 0);
    for _ in 0..600 {
        let mut content = MIGRATE.as_bytes().to_vec();
        for _ in 0..=dice.below(3) {
            let at = dice.below(content.len());
            match dice.below(4) {
                0 => content[at] = u8::try_from(dice.below(256)).unwrap(),
                1 => drop(content.drain(at..(at + dice.below(20)).min(content.len()))),
                2 => content.truncate(at.max(1)),
                _ => drop(content.splice(at..at, [b"\n\t '{[:\"]}-&*!"[dice.below(14)]])),
            }
            if content.is_empty() {
                break;
            }
        }
        folder.service("migrate", &content);
        let loaded = folder.load();
        // A content that is no text says nothing.
        if !std::str::from_utf8(&content).is_ok_and(|text| text.contains(GROUP)) {
            continue;
        }
        let web = loaded.services.iter().find(|spec| spec.name == "web");
        let waits = web.is_some_and(|web| !web.depends.is_empty());
        let is_main = loaded.services.iter().any(|spec| spec.name == "migrate" && spec.lifecycle.is_main());
        let text = String::from_utf8_lossy(&content);
        // Whole lines may be gone, and with them its part.
        assert!(waits || is_main || !text.contains("\nlifecycle"), "web starts without {text}");
        if loaded.faulty() == ["migrate"] { faulty += 1 } else { sound += 1 }
    }
    assert!(sound > 20 && faulty > 100, "{sound} sound, {faulty} faulty");
}

#[test]
fn a_thousand_files_are_read_soon() {
    let folder = Folder::new();
    for n in 0..1000 {
        let name = format!("s{n:04}");
        folder.service(&name, format!("name: {name}\ndescription: one of many\nprocess:\n  command: [/bin/sleep, \"1000\"]\nenvironment: {{LANG: C}}\nrestart: {{delay: 5s}}\nstop:\n  timeout: 3s\n"));
    }
    let start = Instant::now();
    let loaded = folder.load();
    let took = start.elapsed();
    println!("1,000 files of 8 lines in {took:?}");
    assert_eq!((loaded.services.len(), loaded.diagnostics.len()), (1000, 0));
    assert!(took < Duration::from_secs(5), "{took:?}");
}
