//! Users and groups from `/etc/passwd` and `/etc/group`, read as text: a static binary has no NSS.

use kelson_sys::ordered;
use std::io;
use std::path::Path;

use crate::read::{self, ReadError};
use kelson_spec::names::{APID_USER, NET_USER, PULL_USER};
use kelson_spec::quote::{quoted, shown};
use kelson_spec::service::Credentials;

/// The most that either file may hold, in bytes.
const MAX_ACCOUNTS: u64 = 16 << 20;

/// Why a user cannot be told.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    #[error("{} is not a user; write a name or number, or user:group", quoted(.0))]
    Form(String),
    #[error("{kind} {} is not in {file}{hint}", quoted(.name))]
    Unknown { kind: &'static str, name: String, file: &'static str, hint: String },
    #[error("user {0} is {1}'s own, by which others know it; give the service another")]
    Own(u32, &'static str),
    #[error("user {0} is not in /etc/passwd, so its group is not known; write {0}:GROUP")]
    NoGroup(u32),
    #[error("each id for a dynamic user is that of a user or a group of the host; write a user")]
    NoneFree,
}

/// The program of Kelson whose user this is.
fn own(uid: u32) -> Option<&'static str> {
    match uid {
        APID_USER => Some("kelson-apid"),
        NET_USER => Some("kelson-net"),
        PULL_USER => Some("kelson-pull"),
        _ => None,
    }
}

/// The contents of both files.
#[derive(Debug, Default)]
pub struct Accounts {
    users: Vec<User>,
    groups: Vec<Group>,
}

#[derive(Debug)]
struct User {
    name: String,
    uid: u32,
    gid: u32,
    home: String,
}

#[derive(Debug)]
struct Group {
    name: String,
    gid: u32,
    members: Vec<String>,
}

impl Accounts {
    /// Reads `etc/passwd` and `etc/group` below `root`. A file that is not there knows nobody.
    ///
    /// # Errors
    /// With the name of the file that is there but cannot be read.
    pub fn read(root: &Path) -> Result<Self, (&'static str, ReadError)> {
        let lines = |path: &'static str, name: &'static str| match read::bytes(&root.join(path), MAX_ACCOUNTS)
        {
            // A strange byte in a comment field must not hide all users.
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err((name, error)),
        };
        Ok(Self::parse(&lines("etc/passwd", "/etc/passwd")?, &lines("etc/group", "/etc/group")?))
    }

    /// Lines that are not whole are passed over, as the C library does.
    pub fn parse(passwd: &str, group: &str) -> Self {
        let users = passwd.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [name, _, uid, gid, _, home, ..] = fields.as_slice() else { return None };
            let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
            Some(User { name: (*name).to_owned(), uid, gid, home: (*home).to_owned() })
        });
        let groups = group.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [name, _, gid, members, ..] = fields.as_slice() else { return None };
            let members = members.split(',').filter(|m| !m.is_empty()).map(|m| m.trim().to_owned()).collect();
            Some(Group { name: (*name).to_owned(), gid: gid.parse().ok()?, members })
        });
        Accounts { users: users.collect(), groups: groups.collect() }
    }

    /// The user of the service of this name: as [`Accounts::resolve`], or `dynamic` with its own group or another one.
    ///
    /// # Errors
    /// As [`Accounts::resolve`], and where no id is free.
    pub fn of_service(&self, text: &str, service: &str) -> Result<Credentials, AccountError> {
        match split(text) {
            (Credentials::DYNAMIC, group) if group != Some("") => {
                let uid = self.free_ids(service).next().ok_or(AccountError::NoneFree)?;
                let gid = group.map_or(Ok(uid), |group| self.group(group))?;
                Ok(Credentials {
                    uid,
                    gid,
                    groups: Vec::new(),
                    name: Credentials::DYNAMIC.to_owned(),
                    home: None,
                })
            }
            _ => self.resolve(text),
        }
    }

    /// The ids of dynamic users that nobody has here, in the order in which a service of this name tries them.
    pub fn free_ids(&self, service: &str) -> impl Iterator<Item = u32> {
        let is_used = |id: u32| {
            self.users.iter().any(|user| user.uid == id) || self.groups.iter().any(|group| group.gid == id)
        };
        Credentials::dynamic_ids(service).filter(move |id| !is_used(*id))
    }

    /// Resolves `user[:group]`, names or numbers.
    ///
    /// # Errors
    /// Where one of the two is not known, or the user is one of Kelson's own.
    pub fn resolve(&self, text: &str) -> Result<Credentials, AccountError> {
        let (user_text, group_text) = split(text);
        if user_text.is_empty() || group_text.is_some_and(str::is_empty) {
            return Err(AccountError::Form(text.to_owned()));
        }
        let number = id(user_text);
        let user = self.users.iter().find(|user| match number {
            Some(uid) => user.uid == uid,
            None => user.name == user_text,
        });
        let (uid, primary) = match (user, number) {
            (Some(user), _) => (user.uid, Some(user.gid)),
            // Root is there also where no file says so.
            (None, Some(0)) => (0, Some(0)),
            (None, None) if user_text == "root" => (0, Some(0)),
            (None, Some(uid)) => (uid, None),
            (None, None) => return Err(self.unknown("user", "/etc/passwd", user_text)),
        };
        if let Some(program) = own(uid) {
            return Err(AccountError::Own(uid, program));
        }
        let gid = match group_text {
            Some(group) => self.group(group)?,
            None => primary.ok_or(AccountError::NoGroup(uid))?,
        };
        let name = user.map_or(user_text, |user| &user.name);
        let mut groups: Vec<u32> =
            self.groups.iter().filter(|g| g.members.iter().any(|m| m == name)).map(|g| g.gid).collect();
        ordered::sort(&mut groups);
        groups.dedup();
        let home = match user {
            Some(user) if !user.home.is_empty() => Some(user.home.clone()),
            None if uid == 0 => Some("/root".to_owned()),
            _ => None,
        };
        Ok(Credentials { uid, gid, groups, name: name.to_owned(), home })
    }

    /// Whether some host may know `user[:group]`.
    pub fn may_know(text: &str) -> bool {
        let (user, group) = text.split_once(':').unwrap_or((text, "0"));
        !user.is_empty() && !group.is_empty() && id(user).and_then(own).is_none()
    }

    /// The number of a group that `/etc/group` names.
    pub fn group_named(&self, name: &str) -> Option<u32> {
        self.groups.iter().find(|group| group.name == name).map(|group| group.gid)
    }

    fn group(&self, text: &str) -> Result<u32, AccountError> {
        if let Some(gid) = id(text) {
            return Ok(gid);
        }
        match self.group_named(text) {
            Some(gid) => Ok(gid),
            None if text == "root" => Ok(0),
            None => Err(self.unknown("group", "/etc/group", text)),
        }
    }

    fn unknown(&self, kind: &'static str, file: &'static str, text: &str) -> AccountError {
        let users = self.users.iter().map(|user| user.name.as_str()).filter(|_| kind == "user");
        let groups = self.groups.iter().map(|group| group.name.as_str()).filter(|_| kind != "user");
        let near = kelson_spec::near::near(text, users.chain(groups));
        // Their names come out of a file that anybody may have written.
        let hint = near.map(|name| format!("; did you mean {}?", shown(name))).unwrap_or_default();
        AccountError::Unknown { kind, name: text.to_owned(), file, hint }
    }
}

/// A user, and a group where one is named.
fn split(text: &str) -> (&str, Option<&str>) {
    text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)))
}

/// A number that may be a uid or gid; the largest one means "no change" to the kernel and is nobody's.
fn id(text: &str) -> Option<u32> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|id| *id != u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nbroken line\nwww-data:x:33:33:www:/var/www:/bin/sh\n\
                          app:x:1000:1001::/srv/app:/bin/false\n";
    const GROUP: &str = "root:x:0:\nwww-data:x:33:\nadm:x:4:app,syslog\nssl-cert:x:110:www-data,app\n";

    fn resolve(text: &str) -> Result<Credentials, String> {
        Accounts::parse(PASSWD, GROUP).resolve(text).map_err(|error| error.to_string())
    }

    fn who(uid: u32, gid: u32, groups: &[u32], name: &str, home: &str) -> Result<Credentials, String> {
        let home = Some(home.to_owned()).filter(|home| !home.is_empty());
        Ok(Credentials { uid, gid, groups: groups.to_vec(), name: name.to_owned(), home })
    }

    #[test]
    fn resolves_names_and_numbers() {
        assert_eq!(resolve("www-data"), who(33, 33, &[110], "www-data", "/var/www"));
        assert_eq!(resolve("app:adm"), who(1000, 4, &[4, 110], "app", "/srv/app"));
        assert_eq!(resolve("1000"), who(1000, 1001, &[4, 110], "app", "/srv/app"));
        assert_eq!(resolve("4711:4712"), who(4711, 4712, &[], "4711", ""));
        assert_eq!(resolve("0:adm"), who(0, 4, &[], "root", "/root"));
        let root = Accounts::default().resolve("root").map_err(|error| error.to_string());
        assert_eq!(root, who(0, 0, &[], "root", "/root"));
    }

    #[test]
    fn a_dynamic_user_has_an_id_of_its_own() {
        let of_service = |accounts: &Accounts, text: &str, service: &str| {
            accounts.of_service(text, service).map_err(|error| error.to_string())
        };
        let accounts = Accounts::parse(PASSWD, GROUP);
        let web = of_service(&accounts, "dynamic", "web").unwrap();
        assert_eq!(Ok(web.clone()), who(web.uid, web.uid, &[], "dynamic", ""));
        assert!((61_184..65_280).contains(&web.uid), "{}", web.uid);
        assert_ne!(of_service(&accounts, "dynamic", "db").unwrap().uid, web.uid);
        assert_eq!(of_service(&accounts, "dynamic:adm", "web"), who(web.uid, 4, &[], "dynamic", ""));
        let error = of_service(&accounts, "dynamic:", "web").unwrap_err();
        assert_eq!(error, "\"dynamic:\" is not a user; write a name or number, or user:group");
        assert_eq!(of_service(&accounts, "app", "web"), resolve("app"));
        for other in [format!("x:x:{}:0::/:/bin/sh", web.uid), String::new()] {
            let group = if other.is_empty() { format!("x:x:{}:", web.uid) } else { String::new() };
            let next = of_service(&Accounts::parse(&other, &group), "dynamic", "web").unwrap().uid;
            assert_eq!(Credentials::dynamic_ids("web").nth(1), Some(next), "the first one is taken");
        }
        let all: String = (61_184..65_280).map(|id| format!("x:x:{id}:\n")).collect();
        let error = of_service(&Accounts::parse("", &all), "dynamic", "web").unwrap_err();
        assert_eq!(
            error,
            "each id for a dynamic user is that of a user or a group of the host; write a user"
        );
    }

    #[test]
    fn says_who_is_not_known() {
        let error = |text: &str| resolve(text).err().unwrap_or_default();
        assert_eq!(error("www_data"), "user \"www_data\" is not in /etc/passwd; did you mean www-data?");
        assert_eq!(error("app:nope"), "group \"nope\" is not in /etc/group");
        assert_eq!(
            error("4711"),
            "user 4711 is not in /etc/passwd, so its group is not known; write 4711:GROUP"
        );
        assert_eq!(error("app:"), "\"app:\" is not a user; write a name or number, or user:group");
        let strange = Accounts::parse("web\u{1b}[2J:x:1:1::/:/bin/sh\n", "").resolve("web[2J");
        let text = r#"user "web[2J" is not in /etc/passwd; did you mean "web\u{1b}[2J"?"#;
        assert_eq!(strange.unwrap_err().to_string(), text, "nothing that a terminal would obey");
        assert_eq!(
            error("65432:0"),
            "user 65432 is kelson-apid's own, by which others know it; give the service another"
        );
        assert!(error("65433:0").starts_with("user 65433 is kelson-net's own, "));
        assert_eq!(error("4294967295"), "user \"4294967295\" is not in /etc/passwd");
    }
}
