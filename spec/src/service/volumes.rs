//! The volumes of a service: folders, files and file systems that it sees at paths of its own.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ServiceSpec;
use super::confinement::ViewRule;
use super::csi::CsiSource;
use super::disk_source::DiskSource;
use super::image_source::ImageSource;
use super::overlay_source::OverlaySource;
use super::path_source::{NewFolder, PathSource};
use super::workload::{ContainerMount, Workload};
use crate::features::{Feature, OWN};

/// What a service sees at one path of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Volume {
    /// For messages; unique in its service.
    pub name: String,
    pub source: VolumeSource,
    pub target: PathBuf,
    pub read_only: bool,
    /// Some of [`Volume::OPTIONS`].
    pub options: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum VolumeSource {
    /// What is at a path of the host.
    Path(PathSource),
    /// A file system in memory, empty at each start.
    Tmpfs(TmpfsSource),
    /// A volume of a plugin.
    Csi(CsiSource),
    /// The file system of a disk.
    Disk(DiskSource),
    /// Folders with one for what is written over them.
    Overlay(OverlaySource),
    /// The files of an image.
    Image(ImageSource),
}

impl VolumeSource {
    /// It, if it is a path of the host.
    pub fn path(&self) -> Option<&PathSource> {
        match self {
            VolumeSource::Path(source) => Some(source),
            _ => None,
        }
    }

    /// Where it is on the host. `None`: it is made at each start.
    pub fn place(&self) -> Option<&Path> {
        match self {
            VolumeSource::Path(source) => Some(&source.path),
            VolumeSource::Csi(source) => Some(&source.published),
            VolumeSource::Tmpfs(_)
            | VolumeSource::Disk(_)
            | VolumeSource::Overlay(_)
            | VolumeSource::Image(_) => None,
        }
    }

    /// It, if it is a volume of a plugin.
    pub fn csi(&self) -> Option<&CsiSource> {
        match self {
            VolumeSource::Csi(source) => Some(source),
            _ => None,
        }
    }

    /// It, if it is an overlay.
    pub fn overlay(&self) -> Option<&OverlaySource> {
        match self {
            VolumeSource::Overlay(source) => Some(source),
            _ => None,
        }
    }

    /// It, if it is an image.
    pub fn image(&self) -> Option<&ImageSource> {
        match self {
            VolumeSource::Image(source) => Some(source),
            _ => None,
        }
    }

    /// It, if it is a disk.
    pub fn disk(&self) -> Option<&DiskSource> {
        match self {
            VolumeSource::Disk(source) => Some(source),
            _ => None,
        }
    }
}

impl Default for VolumeSource {
    fn default() -> Self {
        VolumeSource::Path(PathSource::default())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TmpfsSource {
    /// Bytes. `None`: the kernel's half of the memory.
    pub size: Option<u64>,
    pub mode: u32,
}

impl Default for TmpfsSource {
    fn default() -> Self {
        TmpfsSource { size: None, mode: 0o755 }
    }
}

impl Volume {
    /// The most of a service.
    pub const MOST: usize = 64;

    /// None of them allows what the host does not.
    pub const OPTIONS: [&str; 5] = ["nosuid", "nodev", "noexec", "noatime", "nodiratime"];

    /// As a mount of a container. What is new belongs to this user and group, as the container counts them.
    pub fn mount(&self, (uid, gid): (u32, u32)) -> ContainerMount {
        let mut mount = ContainerMount {
            target: self.target.clone(),
            options: self.options.clone(),
            ..ContainerMount::default()
        };
        let options = &mut mount.options;
        let memory = |mode: u32, size: Option<u64>| {
            let words = [format!("mode={mode:04o}"), format!("uid={uid}"), format!("gid={gid}")];
            words.into_iter().chain(size.map(|size| format!("size={size}")))
        };
        if self.read_only {
            // Others may write to the disk.
            let word = if self.source.disk().is_some() { ContainerMount::READ_ONLY } else { "ro" };
            options.push(word.to_owned());
        }
        mount.source = match &self.source {
            VolumeSource::Path(source) => source.path.clone(),
            VolumeSource::Csi(source) => source.published.clone(),
            VolumeSource::Tmpfs(TmpfsSource { size, mode }) => {
                options.extend(memory(*mode, *size));
                ContainerMount::TMPFS.into()
            }
            // The kernel makes no overlay of one folder.
            VolumeSource::Overlay(OverlaySource { lower, upper: None, .. })
                if self.read_only && lower.len() == 1 =>
            {
                lower.iter().collect()
            }
            VolumeSource::Overlay(source) => {
                options.extend(source.options());
                if source.upper.is_none() && !self.read_only {
                    options.extend(memory(NewFolder::default().mode, source.size));
                }
                OverlaySource::KIND.clone_into(&mut mount.fs_type);
                OverlaySource::KIND.into()
            }
            VolumeSource::Disk(source) => {
                options.extend(source.options.iter().cloned());
                mount.fs_type.clone_from(&source.fs_type);
                PathBuf::from(&source.device)
            }
            VolumeSource::Image(source) => return self.of_folders(source).mount((uid, gid)),
        };
        mount
    }

    /// The same, made of the folders of its image. One without layers is an empty folder.
    fn of_folders(&self, image: &ImageSource) -> Volume {
        let source = match image.layers.as_slice() {
            [] => VolumeSource::Tmpfs(TmpfsSource::default()),
            layers => {
                VolumeSource::Overlay(OverlaySource { lower: layers.to_vec(), ..OverlaySource::default() })
            }
        };
        let mut options = self.options.clone();
        let missing =
            ImageSource::ALWAYS.iter().filter(|word| !self.options.iter().any(|known| known == *word));
        options.extend(missing.map(|word| (*word).to_owned()));
        Volume { source, read_only: true, options, ..self.clone() }
    }

    /// As a rule of the view of a process. What is new in it belongs to this user and group.
    pub fn to_rule(&self, (uid, gid): (u32, u32)) -> String {
        ViewRule::Volume.to_word(&format!("{uid}:{gid}:{}", self.to_word()))
    }

    /// As one word of a command line, for the helper that prepares it.
    pub fn to_word(&self) -> String {
        // Nothing in it can fail to be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// `None`: it is no word of [`Volume::to_word`].
    pub fn from_word(word: &str) -> Option<Volume> {
        serde_json::from_str(word).ok()
    }
}

/// What is made for a service that its processes enter, of its volumes too. Those of a container are among its mounts.
impl ServiceSpec {
    fn own_volumes(&self) -> &[Volume] {
        let is_process = matches!(self.workload, Workload::Process(_));
        if const { OWN.has(Feature::Volumes) } && is_process { &self.volumes } else { &[] }
    }

    /// Whether something is made for it that its processes enter.
    pub fn has_namespaces(&self) -> bool {
        !self.own_volumes().is_empty() || self.security.has_namespaces(&self.directories)
    }

    /// Whether the files of the host look different for it.
    pub fn has_view(&self) -> bool {
        !self.own_volumes().is_empty() || self.security.has_view(&self.directories)
    }

    /// The rules of all that is made for it: see [`Security::namespace_rules`](super::Security::namespace_rules).
    pub fn namespace_rules(&self) -> Vec<String> {
        let mut rules = self.security.namespace_rules(&self.directories, self.user.as_ref());
        let (uid, gid) = self.user.as_ref().map_or((0, 0), |user| (user.uid, user.gid));
        rules.extend(self.own_volumes().iter().map(|volume| volume.to_rule((uid, gid))));
        rules
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FoundDisk, Upper};
    use super::*;

    fn volume(source: VolumeSource) -> Volume {
        Volume { name: "data".to_owned(), source, target: "/srv/a b".into(), ..Volume::default() }
    }

    #[test]
    fn a_volume_survives_its_word() {
        let create = Some(NewFolder { owner: Some((33, 34)), mode: 0o2750 });
        let path = VolumeSource::Path(PathSource { path: "/a:\n\"".into(), create });
        let options = vec!["noexec".to_owned()];
        for volume in [
            Volume { read_only: true, options, ..volume(path) },
            volume(VolumeSource::Tmpfs(TmpfsSource { size: Some(1 << 20), mode: 0o700 })),
            volume(VolumeSource::Disk(DiskSource {
                device: "LABEL=a b".to_owned(),
                ..DiskSource::default()
            })),
            volume(VolumeSource::Overlay(OverlaySource {
                lower: vec!["/a b".into(), "/c".into()],
                upper: Some(Upper { upper: "/u".into(), work: "/w".into() }),
                ..OverlaySource::default()
            })),
            volume(VolumeSource::Image(ImageSource {
                image: "demo/assets:1".to_owned(),
                layers: vec!["/a".into()],
                ..ImageSource::default()
            })),
        ] {
            assert_eq!(Volume::from_word(&volume.to_word()), Some(volume));
        }
        assert_eq!(Volume::from_word("data"), None);
    }

    #[test]
    fn a_mount_has_the_options_of_its_source() {
        let memory = TmpfsSource { size: Some(4096), mode: 0o700 };
        let mount = volume(VolumeSource::Tmpfs(memory)).mount((7, 8));
        assert!(mount.is_tmpfs());
        assert_eq!(mount.options, ["mode=0700", "uid=7", "gid=8", "size=4096"]);
        let path = VolumeSource::Path(PathSource { path: "/srv".into(), create: None });
        let mount = Volume { read_only: true, ..volume(path) }.mount((7, 8));
        assert_eq!((mount.source.to_str(), mount.options), (Some("/srv"), vec!["ro".to_owned()]));
        let options = vec!["acl".to_owned()];
        let mut disk = DiskSource { device: "LABEL=A".to_owned(), options, ..DiskSource::default() };
        disk.found(FoundDisk { device: "/dev/vdb".into(), fs_type: "ext4".to_owned() });
        let mount = Volume { read_only: true, ..volume(VolumeSource::Disk(disk)) }.mount((7, 8));
        assert_eq!((mount.source.to_str(), mount.fs_type.as_str()), (Some("/dev/vdb"), "ext4"));
        assert_eq!(mount.options, ["rro", "acl"]);
        let lower = vec!["/a".into(), "/b".into()];
        let mut overlay = OverlaySource { lower, size: Some(4096), ..OverlaySource::default() };
        let mount = volume(VolumeSource::Overlay(overlay.clone())).mount((7, 8));
        assert_eq!(mount.fs_type, OverlaySource::KIND);
        assert_eq!(mount.options, ["lowerdir=/a:/b", "mode=0755", "uid=7", "gid=8", "size=4096"]);
        let read_only = |overlay: &OverlaySource| {
            Volume { read_only: true, ..volume(VolumeSource::Overlay(overlay.clone())) }.mount((7, 8))
        };
        assert_eq!(read_only(&overlay).options, ["ro", "lowerdir=/a:/b"]);
        let alone = read_only(&OverlaySource { lower: vec!["/a".into()], ..OverlaySource::default() });
        assert_eq!(
            (alone.source.to_str(), alone.fs_type.as_str(), alone.options),
            (Some("/a"), "", vec!["ro".to_owned()])
        );
        overlay.upper = Some(Upper { upper: "/u".into(), work: "/w".into() });
        assert_eq!(read_only(&overlay).options, ["ro", "lowerdir=/a:/b", "upperdir=/u", "workdir=/w"]);
    }

    #[test]
    fn an_image_is_one_folder_or_several_and_is_never_written_to() {
        let mount = |layers: &[&str]| {
            let layers = layers.iter().map(PathBuf::from).collect();
            let source = VolumeSource::Image(ImageSource { layers, ..ImageSource::default() });
            let options = vec!["nodev".to_owned(), "noexec".to_owned()];
            Volume { options, ..volume(source) }.mount((7, 8))
        };
        let (none, one, two) = (mount(&[]), mount(&["/l/a"]), mount(&["/l/b", "/l/a"]));
        assert!(none.is_tmpfs() && none.fs_type.is_empty());
        assert_eq!((one.source.to_str(), one.fs_type.as_str()), (Some("/l/a"), ""));
        assert_eq!(one.options, ["nodev", "noexec", "nosuid", "ro"]);
        assert_eq!((two.source.to_str(), two.fs_type.as_str()), (Some("overlay"), "overlay"));
        assert_eq!(two.options, ["nodev", "noexec", "nosuid", "ro", "lowerdir=/l/b:/l/a"]);
    }

    #[test]
    #[cfg(feature = "volumes")]
    fn a_process_has_a_view_for_its_volumes_and_a_container_none() {
        let mut spec = ServiceSpec::process("web", ["x"]);
        assert!(!spec.has_view() && !spec.has_namespaces());
        spec.volumes = vec![volume(VolumeSource::default())];
        assert!(spec.has_view() && spec.has_namespaces());
        let [rule] = &spec.namespace_rules()[..] else { panic!() };
        assert_eq!(*rule, format!("volume:0:0:{}", spec.volumes[0].to_word()));
        spec.workload = Workload::Container(super::super::ContainerSpec::new("x"));
        assert!(!spec.has_view() && spec.namespace_rules().is_empty());
    }
}
