//! `DynamicUser=`, and what systemd sets with it.

use kelson_spec::service::Credentials;

use crate::confinement::{no_new_privileges, protect_system};
use crate::draft::Draft;
use crate::finding::Outcome;
use crate::key::Read;
use crate::sandbox::{remove_ipc, switch};
use crate::settings::Setting;
use crate::values::boolean;
use crate::view::{private_tmp, protect_home};

/// Keys that it sets, whatever the unit says of them.
const SET: [(&str, &str, Read); 5] = [
    ("ProtectSystem", "strict", protect_system),
    ("PrivateTmp", "yes", private_tmp),
    ("RemoveIPC", "yes", remove_ipc),
    ("NoNewPrivileges", "yes", no_new_privileges),
    ("RestrictSUIDSGID", "yes", switch),
];

pub fn dynamic_user(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    if boolean(setting.last()) != Some(true) {
        return Outcome::kept("the user that the unit names");
    }
    let own = draft.settings.service("User").to_owned();
    // A group of the same name is made with the user.
    let group = draft.settings.service("Group");
    let group = if group.is_empty() || group == own { String::new() } else { format!(":{group}") };
    draft.dynamic_user = Some(format!("{}{group}", Credentials::DYNAMIC));
    let set = |key: &str, value: &str| Setting {
        key: key.to_owned(),
        values: vec![value.to_owned()],
        ..setting.clone()
    };
    for (key, value, read) in SET {
        let is_set = draft.settings.service(key) == value || value == "yes" && draft.is_on(key);
        if !is_set {
            read(draft, &set(key, value));
        }
    }
    let home = draft.settings.service("ProtectHome");
    if home.is_empty() || boolean(home) == Some(false) {
        protect_home(draft, &set("ProtectHome", "read-only"));
    }
    Outcome::as_table()
}
