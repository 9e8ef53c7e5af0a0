//! The user of a program in an image: names are looked up in the image's own files.

use kelson_sys::ordered;
use thiserror::Error;

/// A user with everything that belongs to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    pub home: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AccountError {
    #[error("its /etc/passwd has no user {0:?}; the number of one would do as well")]
    User(String),
    #[error("its /etc/group has no group {0:?}; the number of one would do as well")]
    Group(String),
    #[error("{0:?} is no user: name, number, name:group or number:number would be right")]
    Words(String),
}

/// The kernel takes up to 65536; no user is in that many.
const MOST_GROUPS: usize = 1024;

struct User<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
}

struct Group<'a> {
    name: &'a str,
    gid: u32,
    members: &'a str,
}

/// Whether this can be answered only by the image's files. (The home of a number is asked there, too, but not needed.)
pub fn needs_names(wanted: &str) -> bool {
    let (user, group) = wanted.split_once(':').unwrap_or((wanted, ""));
    !(user.is_empty() || number(user).is_some()) || !(group.is_empty() || number(group).is_some())
}

/// Looks up `user[:group]`; empty is root. A number that has no entry counts, with group 0.
pub fn look_up(wanted: &str, passwd: &[u8], group: &[u8]) -> Result<Account, AccountError> {
    let (passwd, group) = (String::from_utf8_lossy(passwd), String::from_utf8_lossy(group));
    let (user, wanted_group) = match wanted.split_once(':') {
        Some((_, rest)) if rest.contains(':') => {
            return Err(AccountError::Words(wanted.chars().take(100).collect()));
        }
        Some((user, group)) => (user, Some(group).filter(|group| !group.is_empty())),
        None => (wanted, None),
    };
    let user = if user.is_empty() { "0" } else { user };
    let uid = number(user);
    let entry = users(&passwd)
        .find(|entry| entry.name == user)
        .or_else(|| users(&passwd).find(|entry| Some(entry.uid) == uid));
    let mut account = match (&entry, uid) {
        (Some(entry), _) => Account {
            uid: entry.uid,
            gid: entry.gid,
            groups: Vec::new(),
            home: Some(entry.home.to_owned()).filter(|home| home.starts_with('/')),
        },
        (None, Some(uid)) => Account { uid, ..Account::default() },
        (None, None) => return Err(AccountError::User(user.chars().take(100).collect())),
    };
    match wanted_group {
        Some(wanted) => {
            account.gid = groups(&group)
                .find(|entry| entry.name == wanted)
                .map(|entry| entry.gid)
                .or_else(|| number(wanted))
                .ok_or_else(|| AccountError::Group(wanted.chars().take(100).collect()))?;
        }
        None => {
            if let Some(entry) = &entry {
                let member = |group: &Group| group.members.split(',').any(|name| name.trim() == entry.name);
                account.groups =
                    groups(&group).filter(member).map(|group| group.gid).take(MOST_GROUPS).collect();
                ordered::sort(&mut account.groups);
                account.groups.dedup();
            }
        }
    }
    Ok(account)
}

/// A user's or group's number; the greatest means "none" to the kernel.
fn number(text: &str) -> Option<u32> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|number| plain && *number != u32::MAX)
}

fn users(passwd: &str) -> impl Iterator<Item = User<'_>> {
    passwd.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty() && !name.starts_with('#'))?;
        let _password = fields.next()?;
        let (uid, gid) = (number(fields.next()?.trim())?, number(fields.next()?.trim())?);
        let _comment = fields.next();
        Some(User { name, uid, gid, home: fields.next().unwrap_or_default().trim() })
    })
}

fn groups(group: &str) -> impl Iterator<Item = Group<'_>> {
    group.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty() && !name.starts_with('#'))?;
        let _password = fields.next()?;
        let gid = number(fields.next()?.trim())?;
        Some(Group { name, gid, members: fields.next().unwrap_or_default() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &[u8] = b"root:x:0:0:root:/root:/bin/sh\n# odd\n\nbroken\nwww:x:33:34::/srv/www:/none\r\n\
        \xff\xfe:x:1:1::/:\n1000:x:7:7::/odd:\nnohome:x:40:41\nnone:x:4294967295:1::/:\n";
    const GROUP: &[u8] =
        b"root:x:0:\nweb:x:50:www,other\nlogs:x:20:other, www\nagain:x:50:www\nbad:x:y:www\nwww:x:34:\n";

    fn of(wanted: &str) -> Result<(u32, u32, Vec<u32>, Option<String>), AccountError> {
        look_up(wanted, PASSWD, GROUP).map(|a| (a.uid, a.gid, a.groups, a.home))
    }

    #[test]
    fn users_are_found_in_all_forms() {
        let home = |path: &str| Some(path.to_owned());
        assert_eq!(of(""), Ok((0, 0, vec![], home("/root"))));
        assert_eq!(of("root"), Ok((0, 0, vec![], home("/root"))));
        assert_eq!(of("www"), Ok((33, 34, vec![20, 50], home("/srv/www"))));
        assert_eq!(of("33"), Ok((33, 34, vec![20, 50], home("/srv/www"))));
        assert_eq!(of("www:web"), Ok((33, 50, vec![], home("/srv/www"))));
        assert_eq!(of("www:7"), Ok((33, 7, vec![], home("/srv/www"))));
        assert_eq!(of("www:"), Ok((33, 34, vec![20, 50], home("/srv/www"))));
        assert_eq!(of(":web"), Ok((0, 50, vec![], home("/root"))));
        assert_eq!(of("555"), Ok((555, 0, vec![], None)));
        assert_eq!(of("555:666"), Ok((555, 666, vec![], None)));
        assert_eq!(of("1000"), Ok((7, 7, vec![], home("/odd"))), "a name of digits is a name first");
        assert_eq!(of("nohome"), Ok((40, 41, vec![], None)));
    }

    #[test]
    fn who_is_not_there_is_named() {
        assert_eq!(of("www-data"), Err(AccountError::User("www-data".to_owned())));
        assert_eq!(of("none"), Err(AccountError::User("none".to_owned())));
        assert_eq!(of("broken"), Err(AccountError::User("broken".to_owned())));
        assert_eq!(of("www:bad"), Err(AccountError::Group("bad".to_owned())));
        assert_eq!(of("-1"), Err(AccountError::User("-1".to_owned())));
        assert_eq!(of("4294967295"), Err(AccountError::User("4294967295".to_owned())));
        assert_eq!(of("a:b:c"), Err(AccountError::Words("a:b:c".to_owned())));
    }

    #[test]
    fn numbers_need_no_files() {
        for (wanted, needs) in [("", false), ("0", false), ("1:2", false), ("www", true), ("1:web", true)] {
            assert_eq!(needs_names(wanted), needs, "{wanted}");
        }
        assert_eq!(look_up("", b"", b""), Ok(Account::default()));
    }
}
