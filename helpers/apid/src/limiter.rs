//! Strangers in numbers: nobody takes all the room in which handshakes are made, nor all of the log.
//!
//! An address (of IPv6 a network of 64 bits, which is what one customer gets) may have some handshakes under
//! way and begin some a second. Connections above that are closed at once, so that they cost next to nothing
//! and the others find room.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::say;

/// Handshakes of one address at the same time.
const AT_ONCE: usize = 16;
/// From one handshake of an address to the next, in the long run: 64 a second.
const OF_ONE: Rate = Rate { interval: Duration::from_micros(15_625), burst: Duration::from_secs(2) };
/// The same of all addresses together: 256 a second.
const OF_ALL: Rate = Rate { interval: Duration::from_micros(3_906), burst: Duration::from_secs(1) };
/// Addresses that are remembered; each is forgotten within seconds.
const REMEMBERED: usize = 4096;
/// Refusals logged one by one in each [`PERIOD`].
const LOGGED: u32 = 20;
const PERIOD: Duration = Duration::from_secs(10);

/// How often something may be, and how much of it may come together: what `burst` holds of `interval`s.
struct Rate {
    interval: Duration,
    burst: Duration,
}

impl Rate {
    /// `next` is when the next would be on time; it moves on. False: too many have come.
    fn take(&self, next: &mut Instant, now: Instant) -> bool {
        let due = (*next).max(now);
        if due.duration_since(now) > self.burst {
            return false;
        }
        *next = due.checked_add(self.interval).unwrap_or(due);
        true
    }
}

/// Why somebody is turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooMany {
    AtOnce,
    ASecond,
    OfAll,
}

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TooMany::AtOnce => write!(f, "refused: {AT_ONCE} handshakes of its address are under way"),
            TooMany::ASecond => f.write_str("refused: more than 64 handshakes a second from its address"),
            TooMany::OfAll => f.write_str("refused: more than 256 handshakes a second"),
        }
    }
}

/// All strangers.
#[derive(Clone)]
pub struct Limiter(Arc<Mutex<State>>);

struct State {
    addresses: HashMap<IpAddr, Address>,
    next: Instant,
    /// Refusals of this period, and when it ends.
    refused: u32,
    period_ends: Instant,
}

struct Address {
    under_way: usize,
    next: Instant,
}

/// One handshake that is under way, until it is dropped.
pub struct Handshake {
    limiter: Limiter,
    address: IpAddr,
}

impl Limiter {
    pub fn new() -> Limiter {
        let now = Instant::now();
        let state = State { addresses: HashMap::new(), next: now, refused: 0, period_ends: now };
        Limiter(Arc::new(Mutex::new(state)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody has come and wants to make a handshake.
    ///
    /// # Errors
    /// There are too many.
    pub fn enter(&self, from: IpAddr) -> Result<Handshake, TooMany> {
        let address = network(from);
        let now = Instant::now();
        let mut state = self.state();
        if state.addresses.len() >= REMEMBERED {
            state.addresses.retain(|_, address| address.under_way > 0 || address.next > now);
        }
        let mut of_all = state.next;
        let one = state.addresses.entry(address).or_insert(Address { under_way: 0, next: now });
        if one.under_way >= AT_ONCE {
            return Err(TooMany::AtOnce);
        }
        if !OF_ONE.take(&mut one.next, now) {
            return Err(TooMany::ASecond);
        }
        if !OF_ALL.take(&mut of_all, now) {
            return Err(TooMany::OfAll);
        }
        one.under_way = one.under_way.saturating_add(1);
        state.next = of_all;
        drop(state);
        Ok(Handshake { limiter: self.clone(), address })
    }

    /// Says in the log that somebody was refused, unless many were.
    pub fn tell(&self, line: &str) {
        if let Some(line) = self.refused(line) {
            say(&line);
        }
    }

    /// Returns the line to log about this refusal: some of each period one by one, of the others their
    /// number.
    fn refused(&self, line: &str) -> Option<String> {
        let now = Instant::now();
        let mut state = self.state();
        let unlogged = state.refused.saturating_sub(LOGGED);
        let first = now >= state.period_ends;
        if first {
            state.refused = 0;
            state.period_ends = now.checked_add(PERIOD).unwrap_or(now);
        }
        state.refused = state.refused.saturating_add(1);
        if first && unlogged > 0 {
            return Some(format!("{unlogged} more were refused\n{line}"));
        }
        (state.refused <= LOGGED).then(|| line.to_owned())
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let mut state = self.limiter.state();
        if let Some(address) = state.addresses.get_mut(&self.address) {
            address.under_way = address.under_way.saturating_sub(1);
        }
    }
}

/// Whom an address stands for.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn one_address_does_not_take_all_the_room() {
        let limiter = Limiter::new();
        let mut slow: Vec<_> = (0..AT_ONCE).map(|_| limiter.enter(ip("192.0.2.1")).unwrap()).collect();
        assert_eq!(limiter.enter(ip("192.0.2.1")).err(), Some(TooMany::AtOnce));
        assert_eq!(limiter.enter(ip("::ffff:192.0.2.1")).err(), Some(TooMany::AtOnce), "the same by IPv6");
        assert!(limiter.enter(ip("192.0.2.2")).is_ok());
        slow.pop();
        assert!(limiter.enter(ip("192.0.2.1")).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_of_ipv6_is_one() {
        let limiter = Limiter::new();
        let slow: Vec<_> =
            (0..AT_ONCE).map(|n| limiter.enter(ip(&format!("2001:db8:0:7::{n:x}"))).unwrap()).collect();
        assert_eq!(limiter.enter(ip("2001:db8:0:7:ffff::1")).err(), Some(TooMany::AtOnce));
        assert!(limiter.enter(ip("2001:db8:0:8::1")).is_ok());
        drop(slow);
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_a_second_and_no_more() {
        let limiter = Limiter::new();
        let attempt = |seconds: u64| async move {
            let mut taken = 0;
            for _ in 0..seconds * 1000 {
                tokio::time::advance(Duration::from_millis(1)).await;
                taken += u64::from(limiter.enter(ip("192.0.2.1")).is_ok());
            }
            (limiter, taken)
        };
        // The burst, and 64 in each second.
        let (limiter, taken) = attempt(10).await;
        assert!((640 + 100..=640 + 140).contains(&taken), "{taken}");
        let mut others = 0;
        for number in 0..1000u32 {
            others += u32::from(limiter.enter(IpAddr::V4(number.into())).is_ok());
        }
        assert!((200..=300).contains(&others), "{others}");
        assert!(limiter.state().addresses.len() <= REMEMBERED);
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_are_forgotten() {
        let limiter = Limiter::new();
        for number in 0..20_000u32 {
            tokio::time::advance(Duration::from_millis(20)).await;
            limiter.enter(IpAddr::V4(number.into())).unwrap();
        }
        assert!(limiter.state().addresses.len() <= REMEMBERED);
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_do_not_fill_the_log() {
        let limiter = Limiter::new();
        let logged = (0..1000).filter_map(|_| limiter.refused("192.0.2.1: refused")).count();
        assert_eq!(logged, 20);
        tokio::time::advance(PERIOD).await;
        assert_eq!(
            limiter.refused("192.0.2.1: refused").unwrap(),
            "980 more were refused\n192.0.2.1: refused"
        );
    }
}
