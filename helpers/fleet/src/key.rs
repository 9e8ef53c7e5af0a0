//! Keys in the store: `PREFIX/hosts/NAME`, `PREFIX/services/NAME/HOST/SERVICE` and `PREFIX/plans/HOST/NAME/PART`.

/// A key of the store: any bytes.
pub type Key = Vec<u8>;

/// The keys of a fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// Ends in `/`.
    hosts: String,
    /// Ends in `/`.
    services: String,
    /// Ends in `/`.
    plans: String,
}

/// What a key below `services/` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub name: String,
    pub host: String,
    pub service: String,
}

impl Keys {
    pub fn new(prefix: &str) -> Keys {
        let prefix = prefix.trim_end_matches('/');
        Keys {
            hosts: format!("{prefix}/hosts/"),
            services: format!("{prefix}/services/"),
            plans: format!("{prefix}/plans/"),
        }
    }

    pub fn hosts(&self) -> &str {
        &self.hosts
    }

    /// Of one name, or of all.
    pub fn services(&self, name: Option<&str>) -> String {
        match name {
            Some(name) => format!("{}{name}/", self.services),
            None => self.services.clone(),
        }
    }

    pub fn host(&self, name: &str) -> Key {
        format!("{}{name}", self.hosts).into_bytes()
    }

    pub fn service(&self, name: &str, host: &str, service: &str) -> Key {
        format!("{}{name}/{host}/{service}", self.services).into_bytes()
    }

    /// Of all plans.
    pub fn plans(&self) -> &str {
        &self.plans
    }

    /// Of all plans that a host keeps. Ends in `/`.
    pub fn plans_of(&self, host: &str) -> String {
        format!("{}{host}/", self.plans)
    }

    /// Of the parts of one plan. Ends in `/`.
    pub fn plan(&self, host: &str, name: &str) -> String {
        format!("{}{name}/", self.plans_of(host))
    }

    /// The host, the name and the part. `None`: the key is none of a plan.
    pub fn parse_plan(&self, key: &[u8]) -> Option<(String, String, u32)> {
        let rest = std::str::from_utf8(key).ok()?.strip_prefix(&self.plans)?;
        let mut parts = rest.split('/');
        let (host, name, part) = (parts.next()?, parts.next()?, parts.next()?);
        let number = part.parse().ok().filter(|number| plan_part(*number) == part)?;
        let fits = parts.next().is_none() && is_host(host) && is_name(name);
        fits.then(|| (host.to_owned(), name.to_owned(), number))
    }

    /// The name of the host of a key. `None`: the key is none of a host.
    pub fn parse_host(&self, key: &[u8]) -> Option<String> {
        let name = std::str::from_utf8(key).ok()?.strip_prefix(&self.hosts)?;
        is_host(name).then(|| name.to_owned())
    }

    /// `None`: the key is none of a service.
    pub fn parse_service(&self, key: &[u8]) -> Option<Place> {
        let rest = std::str::from_utf8(key).ok()?.strip_prefix(&self.services)?;
        let mut parts = rest.split('/');
        let (name, host, service) = (parts.next()?, parts.next()?, parts.next()?);
        let fits = parts.next().is_none() && is_name(name) && is_host(host) && is_name(service);
        fits.then(|| Place { name: name.to_owned(), host: host.to_owned(), service: service.to_owned() })
    }
}

/// The last part of the key of a part of a plan; in the order of the numbers.
pub fn plan_part(number: u32) -> String {
    format!("{number:04}")
}

/// What follows all keys that begin with `prefix`, which ends in `/`.
pub fn end_of(prefix: &str) -> Key {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    end
}

/// What follows this key at once.
pub fn after(key: impl Into<Key>) -> Key {
    let mut next = key.into();
    next.push(0);
    next
}

/// Whether something can be registered under this name.
pub fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.bytes().all(fits) && text.bytes().next().is_some_and(|first| first != b'-')
}

/// Whether a host can have this name in a fleet.
pub fn is_host(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    text.bytes().all(fits) && text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_made_and_read() {
        let keys = Keys::new("/kelson/v1/");
        assert_eq!(keys.host("Edge-1.example"), b"/kelson/v1/hosts/Edge-1.example");
        assert_eq!(keys.parse_host(b"/kelson/v1/hosts/Edge-1.example").as_deref(), Some("Edge-1.example"));
        let key = keys.service("web", "edge-1", "nginx");
        assert_eq!(key, b"/kelson/v1/services/web/edge-1/nginx");
        let place = Place { name: "web".into(), host: "edge-1".into(), service: "nginx".into() };
        assert_eq!(keys.parse_service(&key), Some(place));
    }

    #[test]
    fn the_parts_of_a_plan_are_in_order_and_beside_those_of_no_other() {
        let keys = Keys::new("/kelson/v1");
        let part = |name: &str, number| keys.plan("edge-1", name) + &plan_part(number);
        assert_eq!(part("roll", 7), "/kelson/v1/plans/edge-1/roll/0007");
        assert_eq!(keys.parse_plan(part("roll", 7).as_bytes()), Some(("edge-1".into(), "roll".into(), 7)),);
        assert!(part("roll", 9) < part("roll", 10) && part("roll", 1023) > part("roll", 999));
        let end = end_of(&keys.plan("edge-1", "roll"));
        for other in ["roll-2", "roll2", "rolf"] {
            let key = part(other, 0).into_bytes();
            assert!(key < part("roll", 0).into_bytes() || key >= end, "{other}");
        }
        for odd in
            ["edge-1/roll", "edge-1/roll/7", "edge-1/roll/+007", "edge-1/roll/0007/a", "edge-1/Roll/0007"]
        {
            assert_eq!(keys.parse_plan(format!("/kelson/v1/plans/{odd}").as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn odd_keys_are_none() {
        let keys = Keys::new("/kelson/v1");
        for name in ["", "a/b", "a b", "-a", "\u{e4}"] {
            assert_eq!(keys.parse_host(&keys.host(name)), None, "{name:?}");
        }
        assert_eq!(keys.parse_host(b"/kelson/v1/hosts/\xff"), None);
        assert_eq!(keys.parse_host(b"/kelson/v10/hosts/a"), None);
        for rest in ["web/edge", "web/edge/a/b", "Web/edge/a", "web//a", "web/edge/\u{0}", ""] {
            let key = format!("/kelson/v1/services/{rest}");
            assert_eq!(keys.parse_service(key.as_bytes()), None, "{rest:?}");
        }
    }

    #[test]
    fn a_name_that_begins_as_another_is_outside_its_range() {
        let keys = Keys::new("/kelson/v1");
        let of = |name: &str| keys.service(name, "edge-1", "a");
        let prefix = keys.services(Some("web"));
        let holds = |key: Key| key.as_slice() >= prefix.as_bytes() && key < end_of(&prefix);
        assert!(holds(of("web")) && !holds(of("web2")) && !holds(of("web-2")) && !holds(of("we")));
        assert!(after("a") > b"a".to_vec() && after("a") < b"a-".to_vec());
    }
}
