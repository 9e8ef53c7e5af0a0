//! What another client sees in the store, and puts there.

use etcd_client::{Client, EventType, PutOptions, Txn, TxnOp, WatchOptions};
use kelson_tests::Etcd;
use tokio::runtime::Runtime;

/// A client without certificates.
pub struct Store {
    runtime: Runtime,
    endpoint: String,
    /// What came before is not looked at.
    revision: i64,
}

impl Store {
    pub fn new(etcd: &Etcd) -> Store {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut store = Store { runtime, endpoint: etcd.endpoint(), revision: 0 };
        store.forget();
        store
    }

    /// Another one each time: the store may have been started again.
    fn client(&self) -> Client {
        self.runtime.block_on(Client::connect([&self.endpoint], None)).unwrap()
    }

    fn now(&self) -> i64 {
        let answer = self.runtime.block_on(self.client().get("/", None)).unwrap();
        answer.header().unwrap().revision()
    }

    /// Looks at later changes only.
    pub fn forget(&mut self) {
        self.revision = self.now();
    }

    /// All changes since then, as a watcher sees them.
    pub fn changes(&mut self) -> Vec<String> {
        let (from, until) = (self.revision, self.now());
        if from == until {
            return Vec::new();
        }
        let options = WatchOptions::new().with_start_revision(from + 1).with_all_keys();
        let mut client = self.client();
        self.runtime.block_on(async {
            let mut changes = Vec::new();
            let mut stream = client.watch("", Some(options)).await.unwrap();
            loop {
                // It has all changes of a revision.
                let answer = stream.message().await.unwrap().unwrap();
                for event in answer.events() {
                    let value = event.kv().unwrap();
                    let word = match event.event_type() {
                        EventType::Put => "put",
                        EventType::Delete => "delete",
                    };
                    changes.push(format!("{word} {}", value.key().escape_ascii()));
                }
                let last = answer.events().last().and_then(|event| Some(event.kv()?.mod_revision()));
                if last >= Some(until) {
                    return changes;
                }
            }
        })
    }

    pub fn put(&self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.runtime.block_on(self.client().put(key, value, None)).unwrap();
    }

    /// Puts many keys, with a lease where there is one.
    pub fn put_all(&self, pairs: impl Iterator<Item = (String, String)>, lease: i64) {
        let options = PutOptions::new().with_lease(lease);
        let puts: Vec<TxnOp> =
            pairs.map(|(key, value)| TxnOp::put(key, value, Some(options.clone()))).collect();
        for some in puts.chunks(100) {
            self.runtime.block_on(self.client().txn(Txn::new().and_then(some))).unwrap();
        }
    }

    pub fn lease_of(&self, key: &str) -> i64 {
        self.runtime.block_on(self.client().get(key, None)).unwrap().kvs()[0].lease()
    }
}
