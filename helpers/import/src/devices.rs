//! The devices that a unit may open.

use kelson_spec::service::DeviceAccess;

use crate::draft::Draft;
use crate::finding::Outcome;
use crate::settings::Setting;
use crate::values::boolean;

/// `DeviceAllow=` and `DevicePolicy=`, which are one thing.
pub fn device_access(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let mut access = DeviceAccess::default();
    let mut outcome = Outcome::as_table();
    for value in draft.settings.service_list("DeviceAllow") {
        match draft.expanded(value).map(|value| device(&value).ok_or(value)) {
            Ok(Ok(device)) => access.allow.push(device),
            Ok(Err(value)) => {
                outcome =
                    outcome.and(Outcome::rejected(format!("{value} is no device that Kelson can name")));
            }
            Err(wrong) => outcome = outcome.and(wrong),
        }
    }
    let is_closed = match draft.settings.service("DevicePolicy") {
        // What a list of devices means without a policy, or with devices of its own.
        "" | "auto" => !access.allow.is_empty() || is_private(draft),
        "closed" => true,
        "strict" => {
            access.no_usual = true;
            true
        }
        other => {
            return Outcome::rejected(format!("{other:?} is no policy of systemd, and every device is open"));
        }
    };
    if !is_closed {
        return Outcome::kept("with this value nothing is lost");
    }
    draft.spec.security.devices = Some(access);
    match setting.key == "DeviceAllow" && setting.list().is_empty() {
        true => Outcome::kept("with this value nothing is lost"),
        false => outcome,
    }
}

fn is_private(draft: &Draft<'_>) -> bool {
    boolean(draft.settings.service("PrivateDevices")) == Some(true)
}

/// `/dev/sda rw` in the form of a service file.
fn device(value: &str) -> Option<String> {
    let mut words = value.split_ascii_whitespace();
    let (device, access) = (words.next()?, words.next());
    let is_known = DeviceAccess::is_device(device, access.unwrap_or("rwm"));
    if !is_known || device.contains(':') || words.next().is_some() {
        return None;
    }
    Some(match access {
        None | Some("rwm") => device.to_owned(),
        Some(access) => format!("{device}:{access}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_a_path_or_a_driver() {
        for (value, expected) in [
            ("/dev/null rw", Some("/dev/null:rw")),
            ("/dev/sda", Some("/dev/sda")),
            ("char-rtc r", Some("char-rtc:r")),
            ("block-loop rwm", Some("block-loop")),
            ("/run/x rw", None),
            ("char-", None),
            ("/dev/null x", None),
            ("", None),
        ] {
            assert_eq!(device(value).as_deref(), expected, "{value}");
        }
    }
}
