//! `images` of the machine file: folders, and rules about which images may run.

use std::path::PathBuf;

use kelson_spec::MachineSpec;
use kelson_spec::verify::{Demand, VerifyRule};

use crate::folder::Folder;

fn machine(text: &str) -> (MachineSpec, Vec<String>) {
    let folder = Folder::new();
    folder.machine(text);
    (folder.load().machine, folder.messages())
}

#[test]
fn folders_are_a_list_or_beside_rules() {
    for text in ["images: [/a]\n", "images: {folders: [/a]}\n"] {
        let (machine, messages) = machine(text);
        assert_eq!((machine.images, machine.verify, messages), (vec![PathBuf::from("/a")], vec![], vec![]));
    }
    let (machine, messages) = machine("images: {verify: [{digestOnly: true}]}\n");
    assert_eq!((machine.images, messages), (MachineSpec::default().images, vec![]));
    assert_eq!(machine.verify, [VerifyRule { pattern: None, demand: Demand::DigestOnly, signed_as: None }]);
}

#[test]
fn a_rule_with_a_mistake_lets_nothing_run() {
    let closed = [VerifyRule { pattern: None, demand: Demand::Reject, signed_as: None }];
    for (text, why) in [
        (
            "{verify: [{match: a}]}",
            "one of the keys cosignKey, minisignKey, digestOnly, reject, accept is missing",
        ),
        ("{verify: [{cosignKey: /a, accept: true}]}", "cosignKey and accept exclude each other"),
        ("{verify: [{cosignKey: a.pem}]}", "images.verify[0].cosignKey"),
        ("{verify: [{digestOnly: false}]}", "write true or leave the key out"),
        ("{verify: [{digestOnly: true, signedAs: x}]}", "signedAs belongs to cosignKey"),
        ("{verify: [{digestOnly: true}, {accept: true}]}", "rule 1 has no match"),
        ("{verify: [{match: \"a b\", accept: true}]}", "images.verify[0].match"),
        ("{verfy: [{digestOnly: true}]}", "did you mean verify?"),
        ("{verify: {digestOnly: true}}", "a list of rules"),
    ] {
        let (machine, messages) = machine(&format!("images: {text}\n"));
        assert!(messages.iter().any(|message| message.contains(why)), "{text}: {messages:?}");
        assert_eq!(machine.verify, closed, "{text}");
    }
}

#[test]
fn a_machine_file_that_cannot_be_read_lets_nothing_run() {
    let sound = "hostname: edge\nimages: {verify: [{accept: true}]}\n";
    for (text, why) in [
        (format!("{sound}health: {{minimum: 10s\n"), "this is not YAML"),
        (format!("{sound}\tmodules: []\n"), "this is not YAML"),
        (format!("{sound}---\nhostname: other\n"), "a second document starts here"),
        ("a text".to_owned(), "mapping"),
        ("[a, list]".to_owned(), "mapping"),
        (String::new(), "the file is empty"),
        ("# Nothing else came to the disk.\n".to_owned(), "the file is empty"),
        ("\0\0\0\0".to_owned(), "machine.yaml"),
    ] {
        let (machine, messages) = machine(&text);
        assert!(messages.iter().any(|message| message.contains(why)), "{text}: {messages:?}");
        assert_eq!(machine.verify, [VerifyRule::unread()], "{text}");
    }
    // There is one, and what it says is not known.
    let folder = Folder::new();
    std::fs::create_dir(folder.config().join("machine.yaml")).unwrap();
    assert_eq!(folder.load().machine.verify, [VerifyRule::unread()]);
    // There never was one.
    assert_eq!(Folder::new().load().machine.verify, []);
    // A mistake costs its own key alone.
    let (machine, messages) = machine(&format!("{sound}health: x\n"));
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(machine.verify.len(), 1);
    assert_eq!(machine.verify[0].demand, Demand::Accept);
}
