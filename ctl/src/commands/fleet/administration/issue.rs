//! `fleet issue`: gives hosts their certificates.

mod verdict;

use std::time::Duration;

use etcd_client::{Compare, CompareOp, DeleteOptions, GetOptions, KeyValue, Txn, TxnOp, WatchOptions};
use kelson_fleet::certificates::{Answer, Member, Request, Token, is_token};
use rcgen::{PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm};
use tokio::time::{sleep, timeout};

use self::verdict::{Allowed, Case};
use super::access::{Folder, ISSUER, Store, call as called, now, number, parse_validity, text};
use crate::commands::generate::made::Signer;
use crate::failure::Failure;
use crate::output::{escape, note, print, time};
use crate::pki::{Authority, Holder};

/// Between two attempts to reach the store.
const RETRY: Duration = Duration::from_secs(2);
/// All requests are read again after so long: a watch that has ended without a word is noticed.
const LOOK: Duration = Duration::from_secs(30);
/// Requests that are read at once.
const AT_ONCE: i64 = 100;

#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    folder: Folder,
    #[command(flatten)]
    signer: Signer,
    /// The validity of the certificates of hosts
    #[arg(long, value_name = "D", default_value = "30d", value_parser = parse_validity)]
    valid: Duration,
}

/// Runs until it is killed; more than one may run.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { folder, signer, valid } = arguments;
    loop {
        // Both are read again: the CA may be another one by now.
        let authority = Authority::read(&signer.ca, signer.ca_key.as_deref())?;
        let answered = async {
            let mut issuer = Issuer { store: folder.connect(ISSUER).await?, authority, valid };
            issuer.run().await
        };
        let Err(failure) = answered.await else { continue };
        note(&failure.to_string());
        sleep(RETRY).await;
    }
}

struct Issuer {
    store: Store,
    authority: Authority,
    valid: Duration,
}

impl Issuer {
    /// Answers all requests until something fails.
    async fn run(&mut self) -> Result<(), Failure> {
        let prefix = self.store.access.requests();
        let options = WatchOptions::new().with_prefix();
        let mut watch =
            called("follow", &prefix, self.store.client.watch(prefix.as_str(), Some(options))).await?;
        loop {
            while self.answer_some(&prefix).await? {}
            self.sweep().await?;
            // The content of a change does not matter: all that is there is answered.
            if let Ok(message) = timeout(LOOK, watch.message()).await {
                let message = called("follow", &prefix, async { message }).await?;
                if message.is_none_or(|message| message.canceled()) {
                    return Ok(());
                }
            }
        }
    }

    /// Whether there were any requests.
    async fn answer_some(&mut self, prefix: &str) -> Result<bool, Failure> {
        let options = GetOptions::new().with_prefix().with_limit(AT_ONCE);
        let mut found = called("read", prefix, self.store.client.get(prefix, Some(options))).await?;
        let requests = found.take_kvs();
        for request in &requests {
            self.answer(request).await?;
        }
        Ok(!requests.is_empty())
    }

    /// Removes what is left of tokens that have expired.
    async fn sweep(&mut self) -> Result<(), Failure> {
        let prefix = self.store.access.tokens();
        let options = GetOptions::new().with_prefix();
        let mut found =
            called("read", &prefix, self.store.client.get(prefix.as_str(), Some(options))).await?;
        for stored in found.take_kvs() {
            let expired =
                serde_json::from_slice::<Token>(stored.value()).is_ok_and(|token| token.until <= now());
            let user = stored.key_str().ok().and_then(|key| key.strip_prefix(&prefix)).unwrap_or_default();
            if !expired || !is_token(user) {
                continue;
            }
            self.store.remove_user(user).await?;
            let below = Some(DeleteOptions::new().with_prefix());
            let [requests, answers] =
                [self.store.access.request(user, ""), self.store.access.answer(user, "")];
            let mut gone = [requests, answers].map(|keys| TxnOp::delete(keys, below.clone())).to_vec();
            gone.push(TxnOp::delete(stored.key(), None));
            called("remove the token", user, self.store.client.txn(Txn::new().and_then(gone))).await?;
        }
        Ok(())
    }

    async fn answer(&mut self, stored: &KeyValue) -> Result<(), Failure> {
        let key = stored.key();
        let Some((user, host)) = self.store.access.parse_request(key) else {
            return called("remove", "a request", self.store.client.delete(key, None)).await.map(drop);
        };
        let request = serde_json::from_slice::<Request>(stored.value());
        let (answer, line) = match request {
            Err(error) => refusal(String::new(), format!("the request cannot be read: {error}")),
            Ok(request) => match self.decide(&user, &host, &request).await? {
                Err(refused) => refusal(request.public_key, refused),
                // Another issuer was faster, or the host has asked again.
                Ok(None) => return Ok(()),
                Ok(Some(answer)) => {
                    let until = i64::try_from(answer.until).unwrap_or(i64::MAX);
                    let until = time::rfc3339(&prost_types::Timestamp { seconds: until, nanos: 0 });
                    let names: Vec<&str> = answer.services.iter().map(String::as_str).collect();
                    let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
                    let line = format!("a certificate until {until}, to register {names}");
                    (answer, line)
                }
            },
        };
        let place = self.store.access.answer(&user, &host);
        let same = Compare::mod_revision(key, CompareOp::Equal, stored.mod_revision());
        let done = [TxnOp::put(place, text(&answer)?, None), TxnOp::delete(key, None)];
        called("answer", &host, self.store.client.txn(Txn::new().when([same]).and_then(done))).await?;
        print(&format!("{}: {}\n", escape(&host), escape(&line)))
    }

    /// The certificate, or why there is none. `None`: what the store has has changed meanwhile.
    async fn decide(
        &mut self,
        user: &str,
        host: &str,
        request: &Request,
    ) -> Result<Result<Option<Answer>, String>, Failure> {
        let store = &mut self.store;
        let [member_key, token_key] = [store.access.member(host), store.access.token(user)];
        let (member, member_revision) = store.read::<Member>(&member_key).await?;
        let (token, token_revision) = store.read::<Token>(&token_key).await?;
        let case = Case { user, host, request, member, token };
        let Allowed { mut member, token } = match case.judge(now(), number()?) {
            Ok(allowed) => allowed,
            Err(refused) => return Ok(Err(refused)),
        };
        let Some(point) = Point::read(&request.public_key) else {
            return Ok(Err("its public key is none of P-256".to_owned()));
        };
        let (certificate, span) = self.authority.certify(&member.user, Holder::Member, &point, self.valid)?;
        member.until = u64::try_from(span.until).unwrap_or_default();
        // At first, so that a use counts once, whatever fails after it.
        let equal = |key: &str, revision| Compare::mod_revision(key, CompareOp::Equal, revision);
        let mut conditions = vec![equal(&member_key, member_revision)];
        let mut puts = vec![TxnOp::put(member_key.as_str(), text(&member)?, None)];
        if let Some(token) = &token {
            conditions.push(equal(&token_key, token_revision));
            puts.push(TxnOp::put(token_key.as_str(), text(token)?, None));
        }
        let transaction = Txn::new().when(conditions).and_then(puts);
        if !called("note the host", host, store.client.txn(transaction)).await?.succeeded() {
            return Ok(Ok(None));
        }
        let permissions = store.access.of_host(&member.user, host, &member.services);
        store.user(&member.user, &permissions).await?;
        Ok(Ok(Some(Answer {
            public_key: request.public_key.clone(),
            refused: String::new(),
            certificate,
            user: member.user,
            services: member.services,
            from: now(),
            until: member.until,
        })))
    }
}

fn refusal(public_key: String, refused: String) -> (Answer, String) {
    let line = format!("refused: {refused}");
    let answer = Answer { public_key, refused, ..Answer::default() };
    (answer, line)
}

/// The public key of a host.
struct Point(Vec<u8>);

impl Point {
    fn read(text: &str) -> Option<Point> {
        let digits = text.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).ok());
        let bytes: Option<Vec<u8>> = digits.map(|two| u8::from_str_radix(two?, 16).ok()).collect();
        bytes.map(Point)
    }
}

impl PublicKeyData for Point {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}
