//! Mount options as people write them, turned into what mount(2) takes.

use nix::mount::MsFlags;

/// Flags, and the words that are the file system's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountOptions {
    pub flags: MsFlags,
    pub data: String,
}

impl MountOptions {
    /// Understands the words of mount(8) that are the kernel's; `defaults`, `nofail` and `x-…` mean nothing here.
    pub fn parse<'a>(options: impl IntoIterator<Item = &'a str>) -> MountOptions {
        let mut flags = MsFlags::empty();
        let mut data: Vec<&str> = Vec::new();
        for word in options.into_iter().flat_map(|option| option.split(',')).map(str::trim) {
            match word {
                "ro" => flags |= MsFlags::MS_RDONLY,
                "rw" => flags.remove(MsFlags::MS_RDONLY),
                "nosuid" => flags |= MsFlags::MS_NOSUID,
                "suid" => flags.remove(MsFlags::MS_NOSUID),
                "nodev" => flags |= MsFlags::MS_NODEV,
                "dev" => flags.remove(MsFlags::MS_NODEV),
                "noexec" => flags |= MsFlags::MS_NOEXEC,
                "exec" => flags.remove(MsFlags::MS_NOEXEC),
                "sync" => flags |= MsFlags::MS_SYNCHRONOUS,
                "async" => flags.remove(MsFlags::MS_SYNCHRONOUS),
                "dirsync" => flags |= MsFlags::MS_DIRSYNC,
                "noatime" => flags |= MsFlags::MS_NOATIME,
                "nodiratime" => flags |= MsFlags::MS_NODIRATIME,
                "relatime" => flags |= MsFlags::MS_RELATIME,
                "strictatime" => flags |= MsFlags::MS_STRICTATIME,
                "lazytime" => flags |= MsFlags::MS_LAZYTIME,
                "silent" => flags |= MsFlags::MS_SILENT,
                "bind" => flags |= MsFlags::MS_BIND,
                "rbind" => flags |= MsFlags::MS_BIND | MsFlags::MS_REC,
                "remount" => flags |= MsFlags::MS_REMOUNT,
                "" | "defaults" | "nofail" | "auto" | "noauto" | "_netdev" => {}
                own if own.starts_with("x-") => {}
                own => data.push(own),
            }
        }
        MountOptions { flags, data: data.join(",") }
    }

    /// The flags that a bind mount takes only in a second call, if there are any.
    pub fn after_bind(&self) -> Option<MsFlags> {
        let kept = self.flags.difference(MsFlags::MS_BIND | MsFlags::MS_REC);
        (self.flags.contains(MsFlags::MS_BIND)
            && !self.flags.contains(MsFlags::MS_REMOUNT)
            && !kept.is_empty())
        .then_some(kept | MsFlags::MS_BIND | MsFlags::MS_REMOUNT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_flags_and_the_rest_is_the_file_systems() {
        let options = MountOptions::parse(["noatime,nodev", "size=16M", "defaults", "x-foo", "mode=0755"]);
        assert_eq!(options.flags, MsFlags::MS_NOATIME | MsFlags::MS_NODEV);
        assert_eq!(options.data, "size=16M,mode=0755");
        assert_eq!(MountOptions::parse(["ro", "rw"]).flags, MsFlags::empty());
    }

    #[test]
    fn a_read_only_bind_takes_two_calls() {
        let options = MountOptions::parse(["rbind", "ro"]);
        assert_eq!(options.after_bind(), Some(MsFlags::MS_RDONLY | MsFlags::MS_BIND | MsFlags::MS_REMOUNT));
        assert_eq!(MountOptions::parse(["bind"]).after_bind(), None);
        assert_eq!(MountOptions::parse(["ro"]).after_bind(), None);
    }
}
