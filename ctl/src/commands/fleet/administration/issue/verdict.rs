//! Whether a host gets the certificate that it asks for. Pure.

use std::collections::BTreeSet;

use kelson_fleet::certificates::{Member, Request, Token, host_user, is_token};
use kelson_fleet::{is_host, is_name};
use kelson_sys::fnmatch;

/// The most names under which a host may register: each is a permission of its role.
const MOST: usize = 256;
/// The longest name of a host.
const LONGEST: usize = 63;
/// Hexadecimal digits of a point of P-256, uncompressed.
const KEY: usize = 130;

/// A request, and what the store has about it.
pub struct Case<'a> {
    pub user: &'a str,
    pub host: &'a str,
    pub request: &'a Request,
    pub member: Option<Member>,
    pub token: Option<Token>,
}

/// What the store has to have before the certificate is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    pub member: Member,
    /// With a use less. `None`: none was used.
    pub token: Option<Token>,
}

impl Case<'_> {
    /// `now`: seconds since 1970. `number`: nobody has it yet.
    ///
    /// # Errors
    /// Why not, for an operator.
    pub fn judge(self, now: u64, number: u64) -> Result<Allowed, String> {
        let Case { user, host, request, member, token } = self;
        if !is_host(host) || host.len() > LONGEST {
            return Err(format!("{host:?} is no name for a host of a fleet"));
        }
        if request.public_key.len() != KEY || !request.public_key.starts_with("04") {
            return Err("its public key is none of P-256".to_owned());
        }
        let (mut member, token) = match member {
            Some(member) if member.user == user => (member, None),
            // It has not seen the answer.
            Some(member) if member.token == user && member.public_key == request.public_key => (member, None),
            Some(_) => {
                return Err(format!(
                    "the name {host} is taken by a host that has a certificate; if that is this host, or one that is gone, \
                     `kelsonctl fleet remove {host}` frees the name"
                ));
            }
            None if is_token(user) => {
                let token = token.ok_or("the fleet does not know the token any more")?;
                let token = used(token, host, now)?;
                let (token_user, user) = (user.to_owned(), host_user(host, number));
                let (allowed, public_key) = (token.services.clone(), String::new());
                let member = Member {
                    user,
                    token: token_user,
                    public_key,
                    allowed,
                    services: BTreeSet::new(),
                    until: 0,
                };
                (member, Some(token))
            }
            None => {
                return Err(format!("the fleet has no host {host} any more; it needs a token to join again"));
            }
        };
        let is_exact = |pattern: &&String| !pattern.contains(['*', '?', '[']);
        let exact = member.allowed.iter().filter(is_exact);
        let may = |name: &&String| member.allowed.iter().any(|pattern| fnmatch::matches(pattern, name));
        let granted = exact.chain(request.services.iter().filter(may)).filter(|name| is_name(name));
        let granted: BTreeSet<String> = granted.chain(&member.services).cloned().collect();
        if granted.len() > MOST {
            return Err(format!("these are {} names of services; a host has at most {MOST}", granted.len()));
        }
        (member.services, member.public_key) = (granted, request.public_key.clone());
        Ok(Allowed { member, token })
    }
}

/// The token after a host of this name has used it.
fn used(token: Token, host: &str, now: u64) -> Result<Token, String> {
    if token.until <= now {
        return Err("the token has expired".to_owned());
    }
    if !token.hosts.iter().any(|pattern| fnmatch::matches(pattern, host)) {
        return Err(format!("the token lets in {}, and not {host}", token.hosts.join(", ")));
    }
    let Some(uses) = token.uses.checked_sub(1) else {
        return Err("the token is used up: as many hosts have joined with it as it lets in".to_owned());
    };
    Ok(Token { uses, ..token })
}

#[cfg(test)]
mod tests {
    use kelson_fleet::certificates::token_user;

    use super::*;

    const NOW: u64 = 1000;

    fn request(services: &[&str]) -> Request {
        Request { public_key: format!("04{}", "ab".repeat(64)), services: names(services) }
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn token() -> Token {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        Token { hosts: texts(&["edge-*"]), services: texts(&["web", "db-*"]), uses: 2, until: NOW + 1 }
    }

    fn judge(
        host: &str,
        request: &Request,
        member: Option<&Member>,
        token: Option<Token>,
    ) -> Result<Allowed, String> {
        let user = member
            .filter(|member| member.host_asks(host))
            .map_or_else(|| token_user(1), |member| member.user.clone());
        Case { user: &user, host, request, member: member.cloned(), token }.judge(NOW, 7)
    }

    trait Asks {
        fn host_asks(&self, host: &str) -> bool;
    }

    impl Asks for Member {
        fn host_asks(&self, host: &str) -> bool {
            self.user.starts_with(&format!("{host}_"))
        }
    }

    #[test]
    fn a_token_lets_in_what_it_names() {
        let Allowed { member, token: rest } =
            judge("edge-1", &request(&["db-main", "mail", "../x", "db-/edge-2"]), None, Some(token()))
                .unwrap();
        assert_eq!((member.user.as_str(), rest.unwrap().uses), ("edge-1_0000000000000007", 1));
        assert_eq!(member.services, names(&["web", "db-main"]));
        for (host, token, why) in [
            ("edge-1", None, "does not know the token"),
            ("edge-1", Some(Token { until: NOW, ..token() }), "has expired"),
            ("edge-1", Some(Token { uses: 0, ..token() }), "is used up"),
            ("lab-1", Some(token()), "lets in edge-*, and not lab-1"),
            ("edge-1/x", Some(token()), "is no name for a host"),
        ] {
            let refused = judge(host, &request(&[]), None, token).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        let unfit = Request { public_key: "04".to_owned(), ..request(&[]) };
        assert!(judge("edge-1", &unfit, None, Some(token())).unwrap_err().contains("public key"));
    }

    #[test]
    fn a_name_is_taken_except_for_the_host_that_has_it() {
        let first = judge("edge-1", &request(&[]), None, Some(token())).unwrap().member;
        // Again with the same key: the answer was lost.
        let user = token_user(1);
        let case = |request, user| Case {
            user,
            host: "edge-1",
            request,
            member: Some(first.clone()),
            token: Some(token()),
        };
        let same = request(&[]);
        assert_eq!(case(&same, &user).judge(NOW, 8).unwrap(), Allowed { member: first.clone(), token: None });
        let other = Request { public_key: format!("04{}", "cd".repeat(64)), ..request(&[]) };
        assert!(case(&other, &user).judge(NOW, 8).unwrap_err().contains("taken"));
        assert!(case(&same, "edge-2_0000000000000007").judge(NOW, 8).unwrap_err().contains("taken"));
        // The host itself, also after the end of the token, keeps what it has.
        let more = Request { services: names(&["db-two"]), ..other.clone() };
        let again = case(&more, &first.user).judge(NOW + 9, 8).unwrap().member;
        assert_eq!((again.user, again.services), (first.user.clone(), names(&["web", "db-two"])));
        let gone = Case { user: &first.user, host: "edge-1", request: &more, member: None, token: None };
        assert!(gone.judge(NOW, 8).unwrap_err().contains("needs a token to join again"));
    }
}
