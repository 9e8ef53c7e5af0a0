//! One file for several services that differ in a name alone: `instances`.

use std::rc::Rc;

use crate::tree::{Entry, Node, Value};
use kelson_spec::names::is_name;

const KEY: &str = "instances";

/// The instances that a file names, in its order, whatever else is wrong with it; none of a file that is one service.
pub fn of(root: Option<&Node>, text: &str) -> Vec<String> {
    let mut names = match root {
        Some(root) => match root.get(KEY).map(|node| &node.value) {
            Some(Value::Sequence(items)) => {
                items.iter().filter_map(|item| item.scalar().map(str::to_owned)).collect()
            }
            _ => Vec::new(),
        },
        // It is not YAML at another place. Services that run must not be taken for removed ones because of that.
        None => guessed(text),
    };
    let mut seen = Vec::new();
    names.retain(|name| {
        let is_new = is_name(name) && !seen.contains(name);
        seen.push(name.clone());
        is_new
    });
    names
}

/// From the lines that look like them: `instances: [a, b]`, or items below it.
fn guessed(text: &str) -> Vec<String> {
    let mut lines = text.lines().map(|line| line.split(" #").next().unwrap_or(line).trim_end());
    let first =
        lines.find_map(|line| line.strip_prefix(KEY)?.trim_start().strip_prefix(':')).unwrap_or_default();
    let bare = |text: &str| text.trim().trim_matches(['"', '\'']).to_owned();
    match first.trim().strip_prefix('[') {
        Some(list) => {
            // It may go on in the next lines.
            let whole = [list].into_iter().chain(lines).collect::<Vec<_>>().join(",");
            let inside = whole.split(']').next().unwrap_or_default();
            inside.split(',').map(bare).filter(|name| !name.is_empty()).collect()
        }
        None => lines.map_while(|line| line.trim_start().strip_prefix("- ")).map(bare).collect(),
    }
}

/// The name of the service that an instance is.
pub fn name(stem: &str, instance: &str) -> String {
    format!("{stem}-{instance}")
}

/// The file as one of its instances has it: with its name, and with the values of `$(instance)` and `$(service)`.
pub fn tree(root: &Node, stem: &str, instance: &str) -> Node {
    let service = name(stem, instance);
    let with_values = |text: &str| expanded(text, &[("instance", instance), ("service", &service)]);
    let mut whole = mapped(root, &with_values);
    if let Value::Mapping(entries) = &mut whole.value {
        for entry in entries.iter_mut().filter(|entry| entry.key.is("name") && entry.value.is(stem)) {
            entry.value = Rc::new(Node { at: entry.value.at, value: Value::Scalar(service.clone()) });
        }
    }
    whole
}

fn mapped(node: &Node, text: &dyn Fn(&str) -> String) -> Node {
    let value = match &node.value {
        Value::Null => Value::Null,
        Value::Scalar(scalar) => Value::Scalar(text(scalar)),
        Value::Sequence(items) => {
            Value::Sequence(items.iter().map(|item| Rc::new(mapped(item, text))).collect())
        }
        Value::Mapping(entries) => {
            let entry = |entry: &Entry| Entry {
                key: Rc::clone(&entry.key),
                value: Rc::new(mapped(&entry.value, text)),
            };
            Value::Mapping(entries.iter().map(entry).collect())
        }
    };
    Node { at: node.at, value }
}

/// As in commands of Kubernetes: other names stay as they are, and `$$(NAME)` is `$(NAME)`.
fn expanded(text: &str, values: &[(&str, &str)]) -> String {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, from)) = rest.split_once("$(") {
        let known = values.iter().find_map(|(name, value)| {
            let after = from.strip_prefix(name)?.strip_prefix(')')?;
            Some((*name, *value, after))
        });
        rest = match (known, before.strip_suffix('$')) {
            (Some((name, _, after)), Some(escaped)) => {
                done.extend([escaped, "$(", name, ")"]);
                after
            }
            (Some((_, value, after)), None) => {
                done.extend([before, value]);
                after
            }
            (None, _) => {
                done.extend([before, "$("]);
                from
            }
        };
    }
    done.push_str(rest);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instances_of_a_file_are_known_whatever_else_is_wrong_with_it() {
        for (text, names) in [
            ("name: a\n", &[][..]),
            ("name: a\nprocess: {command: [x, instances]}\n", &[]),
            ("name: a\ninstances: [b, 'c', B, b]\n", &["b", "c"]),
            ("name: a\ninstances:\n  - b\n  - c # last\nuser: x\n", &["b", "c"]),
            ("instances: [b, c] # two\nname: a\n\tx: y\n", &["b", "c"]),
            ("instances: [b, # first\n  c]\nname: a\n\tx: [d]\n", &["b", "c"]),
            ("instances :\n- b\n- \"c\"\nname: a\n\tx: y\n", &["b", "c"]),
            ("instances: b\n", &[]),
        ] {
            let tree = crate::parser::parse(text).and_then(|(root, _)| root);
            assert_eq!(of(tree.as_deref(), text), names, "{text}");
        }
    }

    #[test]
    fn values_are_put_in() {
        for (text, expected) in [
            ("$(instance)", "b"),
            ("a $(service) $(instance)s", "a w-b bs"),
            ("$$(instance) $$$(instance)", "$(instance) $$(instance)"),
            ("$(date) $instance ${instance} $(instance $", "$(date) $instance ${instance} $(instance $"),
        ] {
            assert_eq!(expanded(text, &[("instance", "b"), ("service", "w-b")]), expected, "{text}");
        }
    }
}
