//! `devices` of the machine file: what the built-in service `devices` does with the nodes of devices.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DevicesSpec {
    /// In the order of the file: of two that set the same, the later one counts.
    pub rules: Vec<DeviceRule>,
}

/// The owner, permissions and further names of each device for which all of its patterns hold. In no text of it is a space.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceRule {
    /// Pattern of the subsystem, such as `tty`.
    pub subsystem: String,
    /// Pattern of the node's name below `/dev`.
    pub name: Option<String>,
    /// Patterns of attributes in sysfs, of the device or of one above it, by their names.
    pub attributes: Vec<(String, String)>,
    pub owner: Option<u32>,
    pub group: Option<u32>,
    pub mode: Option<u32>,
    /// The name below `/dev` of a link to the node.
    pub link: Option<String>,
}

impl DeviceRule {
    /// One word of a command line.
    pub fn to_word(&self) -> String {
        let mut parts = Vec::new();
        let mut put = |key: &str, value: Option<String>| {
            parts.extend(value.map(|value| format!("{key}={value}")));
        };
        put("subsystem", Some(self.subsystem.clone()));
        put("name", self.name.clone());
        for (name, pattern) in &self.attributes {
            put(&format!("attribute:{name}"), Some(pattern.clone()));
        }
        put("owner", self.owner.map(|owner| owner.to_string()));
        put("group", self.group.map(|group| group.to_string()));
        put("mode", self.mode.map(|mode| format!("{mode:o}")));
        put("link", self.link.clone());
        parts.join(" ")
    }

    /// Reads what [`DeviceRule::to_word`] wrote; `None`: it is something else.
    pub fn from_word(word: &str) -> Option<DeviceRule> {
        let mut rule = DeviceRule::default();
        for part in word.split(' ') {
            let (key, value) = part.split_once('=')?;
            let text = value.to_owned();
            match key {
                "subsystem" => rule.subsystem = text,
                "name" => rule.name = Some(text),
                "owner" => rule.owner = Some(value.parse().ok()?),
                "group" => rule.group = Some(value.parse().ok()?),
                "mode" => rule.mode = Some(u32::from_str_radix(value, 8).ok()?),
                "link" => rule.link = Some(text),
                _ => rule.attributes.push((key.strip_prefix("attribute:")?.to_owned(), text)),
            }
        }
        Some(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_survives_its_word() {
        let rule = DeviceRule {
            subsystem: "tty".into(),
            name: Some("ttyUSB*".into()),
            attributes: vec![("idVendor".into(), "0403".into()), ("device/model".into(), "A=b".into())],
            owner: Some(7),
            group: Some(20),
            mode: Some(0o660),
            link: Some("serial/gps".into()),
        };
        let word = rule.to_word();
        assert_eq!(
            word,
            "subsystem=tty name=ttyUSB* attribute:idVendor=0403 attribute:device/model=A=b owner=7 group=20 mode=660 \
             link=serial/gps"
        );
        assert_eq!(DeviceRule::from_word(&word), Some(rule));
        for wrong in ["", "tty", "mode=9", "owner=x", "colour=red"] {
            assert_eq!(DeviceRule::from_word(wrong), None, "{wrong}");
        }
    }
}
