//! A volume that was made, and what its file has to say.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kelson_proto::v1::CreateVolumeResponse;

use crate::output::{escape, size, views};

views! {
    // `size`: null where the plugin does not say. `matches`: the file of the volume has this id and this context.
    CreateVolumeResponse: created {
        id, size: Some(created.size).filter(|size| *size > 0), context: created.context.iter().collect::<BTreeMap<_, _>>(),
        matches,
    }
}

/// What a volume that was made is, and what its file has to say.
pub fn text(name: &str, created: &CreateVolumeResponse) -> String {
    let with = if created.size > 0 { format!(" with {}", size(created.size)) } else { String::new() };
    let mut text = format!("volume {} is made{with}\n", escape(name));
    if !created.matches {
        text.push_str("its file has to say:\n");
        let _ = writeln!(text, "  id: {}", escape(&created.id));
        if !created.context.is_empty() {
            text.push_str("  context:\n");
        }
        for (key, value) in created.context.iter().collect::<BTreeMap<_, _>>() {
            let _ = writeln!(text, "    {}: {}", escape(key), escape(value));
        }
    }
    text
}
