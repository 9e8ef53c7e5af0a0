//! The partitions that the machine file asks for.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The types of partitions, with the GUIDs that stand for them in a table.
pub const TYPES: [(&str, &str); 6] = [
    ("linux", "0fc63daf-8483-4772-8e79-3d69d8477de4"),
    ("swap", "0657fd6d-a4ab-43c4-84e5-0933c84b4f4f"),
    ("esp", "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"),
    ("luks", "ca7d7ccb-63ed-4c53-861c-1742536059cc"),
    ("lvm", "e6d6d379-f507-44c2-a23c-238f2a3df928"),
    ("raid", "a19d880f-05fc-4d3b-a006-743f0f84911e"),
];

/// The partitions of a disk. Those that it lacks are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskPartitionsSpec {
    /// A [name of a disk](crate::disk::DiskName).
    pub disk: String,
    pub create: Vec<PartitionSpec>,
    /// How long the boot waits for the disk. One that comes later gets its partitions then.
    pub wait: Duration,
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartitionSpec {
    /// Its name in the table, by which it is found again.
    pub label: String,
    /// In bytes. `None`: all that is free behind the others.
    pub size: Option<u64>,
    /// The name of one of [`TYPES`], or a GUID.
    pub kind: String,
}

impl Default for DiskPartitionsSpec {
    fn default() -> Self {
        DiskPartitionsSpec { disk: String::new(), create: Vec::new(), wait: Duration::from_secs(10) }
    }
}

impl Default for PartitionSpec {
    fn default() -> Self {
        let [(linux, _), ..] = TYPES;
        PartitionSpec { label: String::new(), size: None, kind: linux.to_owned() }
    }
}

impl DiskPartitionsSpec {
    /// The disk and its partitions, each on a line.
    pub fn to_word(&self) -> String {
        self.create.iter().fold(self.disk.clone(), |word, part| format!("{word}\n{}", part.to_word()))
    }

    /// Reads what [`DiskPartitionsSpec::to_word`] wrote; `None`: it is something else.
    pub fn from_word(word: &str) -> Option<DiskPartitionsSpec> {
        let mut lines = word.lines();
        let disk = lines.next()?.to_owned();
        let create = lines.map(PartitionSpec::from_word).collect::<Option<_>>()?;
        Some(DiskPartitionsSpec { disk, create, ..DiskPartitionsSpec::default() })
    }
}

impl PartitionSpec {
    /// One word of a command line.
    pub fn to_word(&self) -> String {
        let size = self.size.map_or_else(|| "-".to_owned(), |size| size.to_string());
        format!("{size}:{}:{}", self.kind, self.label)
    }

    /// Reads what [`PartitionSpec::to_word`] wrote; `None`: it is something else.
    pub fn from_word(word: &str) -> Option<PartitionSpec> {
        let mut parts = word.splitn(3, ':');
        let (size, kind, label) = (parts.next()?, parts.next()?, parts.next()?);
        let size = if size == "-" { None } else { Some(size.parse().ok()?) };
        Some(PartitionSpec { label: label.to_owned(), size, kind: kind.to_owned() })
    }
}

/// The GUID of a type, in the byte order of a table of partitions: its first three fields are little-endian. `None`: it is neither
/// the name of a type nor a GUID.
pub fn type_guid(kind: &str) -> Option<[u8; 16]> {
    let named = TYPES.into_iter().find(|(name, _)| *name == kind);
    let text = named.map_or(kind, |(_, guid)| guid);
    let fields: Vec<&str> = text.split('-').collect();
    let [first, second, third, fourth, node] = fields[..] else { return None };
    let number = |text: &str, digits: usize| {
        let sound = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u64::from_str_radix(text, 16).ok().filter(|_| sound)
    };
    let mut guid = [0; 16];
    let fields = [
        u32::try_from(number(first, 8)?).ok()?.to_le_bytes().to_vec(),
        u16::try_from(number(second, 4)?).ok()?.to_le_bytes().to_vec(),
        u16::try_from(number(third, 4)?).ok()?.to_le_bytes().to_vec(),
        u16::try_from(number(fourth, 4)?).ok()?.to_be_bytes().to_vec(),
        number(node, 12)?.to_be_bytes().get(2..)?.to_vec(),
    ];
    guid.iter_mut().zip(fields.concat()).for_each(|(to, from)| *to = from);
    // Zero stands for an entry that is not used.
    guid.iter().any(|byte| *byte != 0).then_some(guid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_survives_its_word() {
        for size in [None, Some(u64::MAX)] {
            let part = PartitionSpec { label: "a:b c".to_owned(), size, ..PartitionSpec::default() };
            assert_eq!(PartitionSpec::from_word(&part.to_word()).as_ref(), Some(&part));
            let create = vec![part, PartitionSpec { label: "B".to_owned(), ..PartitionSpec::default() }];
            let disk =
                DiskPartitionsSpec { disk: "SERIAL=A".to_owned(), create, ..DiskPartitionsSpec::default() };
            assert_eq!(DiskPartitionsSpec::from_word(&disk.to_word()), Some(disk));
        }
        for word in ["", "1:linux", "x:linux:A", ":linux:A"] {
            assert_eq!(PartitionSpec::from_word(word), None, "{word}");
        }
    }

    #[test]
    fn a_type_is_a_name_or_a_guid() {
        let guid = "03020100-0504-0706-0809-0A0b0c0d0e0f";
        assert_eq!(type_guid(guid), Some([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]));
        assert!(
            TYPES.iter().all(|(name, guid)| type_guid(name).is_some_and(|of| type_guid(guid) == Some(of)))
        );
        for other in
            ["", "linux-swap", "LINUX", "00000000-0000-0000-0000-000000000000", &guid[1..], &guid[..35]]
        {
            assert_eq!(type_guid(other), None, "{other}");
        }
        assert_eq!(type_guid(&guid.replace('A', "+")), None);
    }
}
