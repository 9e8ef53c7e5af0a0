//! The files of proc and sys that `kelson-inspect` reads, and its answers to PID 1.

use std::cell::OnceCell;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::answer::{self, HEADER};
use kelson_helper::inspect::{FRAME_MAX, Kind, content};
use kelson_helper::{BoxFuture, Launched, Launcher, Start};
use kelson_inspect::{System, serve};
use kelson_proto::v1::inspect_question::Question;
use kelson_proto::v1::{self, InspectQuestion, InspectService};
use kelson_services::inspect::{InspectError, Inspector};
use prost::Message as _;

use crate::place::{self, Place};
use crate::{input, time};

thread_local! {
    static FOLDER: OnceCell<Place> = const { OnceCell::new() };
}

/// Several files, each after a line `=== NAME`, such as `proc/meminfo` and `sys/block/vda/stat`.
pub fn files(data: &[u8]) {
    const MOST: usize = 12;
    let mut files = input::files(data, "proc/stat");
    files.truncate(MOST);
    let sound = |part: &str| {
        (1..32).contains(&part.len())
            && part != "."
            && part != ".."
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-!".contains(&byte))
    };
    files.retain(|(name, _)| {
        (name.starts_with("proc/") || name.starts_with("sys/"))
            && name.split('/').count() < 7
            && name.split('/').all(sound)
            // The cgroups of this very process are looked at instead.
            && !name.starts_with("proc/thread-self")
    });
    place::with(&FOLDER, |place| {
        for folder in ["proc", "sys"] {
            let _ = fs::remove_dir_all(place.path().join(folder));
            fs::create_dir_all(place.path().join(folder)).expect("a folder of this target");
        }
        for (name, bytes) in files {
            let path = place.path().join(name);
            // A name may be a file here and a folder there.
            let _ = fs::create_dir_all(path.parent().expect("it lies in a folder"));
            let _ = fs::write(path, bytes);
        }
        let system = System::below(place.path());
        let cgroups = place.path().join("sys/kelson").to_string_lossy().into_owned();
        let questions = [
            Question::Processes(v1::ProcessesRequest {}),
            Question::Memory(v1::MemoryRequest {}),
            Question::Cpu(v1::CpuRequest {}),
            Question::Disks(v1::DisksRequest {}),
            Question::Sockets(v1::SocketsRequest { connections: true }),
            Question::Cgroups(v1::CgroupsRequest {}),
            Question::Clock(v1::ClockRequest {}),
            Question::Facts(v1::FactsRequest {}),
        ];
        for asks in questions {
            let asked = InspectQuestion {
                question: Some(asks),
                cgroups_path: cgroups.clone(),
                services: vec![InspectService { name: "web".to_owned(), pid: 7 }],
            };
            let mut answered = Vec::new();
            serve(answer::frame(&asked.encode_to_vec()).as_slice(), &mut answered, &system)
                .expect("a vector takes it");
            check(&answered);
        }
    });
}

/// An answer is frames up to one that is the last.
fn check(mut answer: &[u8]) {
    loop {
        let (head, rest) = answer.split_first_chunk::<HEADER>().expect("a frame begins");
        let length = answer::length(*head, FRAME_MAX + 1).expect("it is one");
        let (body, rest) = rest.split_at_checked(length).expect("it is whole");
        let (kind, content) = content(body).expect("it is of a kind");
        if kind != Kind::Message {
            assert!(rest.is_empty(), "nothing follows the last");
            let text = String::from_utf8_lossy(content);
            assert!(!text.chars().any(char::is_control), "{text:?}");
            return;
        }
        answer = rest;
    }
}

struct Says(Vec<u8>);

impl Launcher for Says {
    fn launch(&self, mut start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        let made = start.take(libc::STDOUT_FILENO).and_then(|pipe| {
            // It fits into the pipe.
            File::from(pipe).write_all(&self.0)?;
            let exit = Box::pin(std::future::ready("exited with status 0".to_owned()));
            Ok(Launched { pid: 7, start_time: 0, exit, kill: Box::new(|| {}) })
        });
        Box::pin(std::future::ready(made))
    }
}

/// The bytes are the pipe's.
pub fn frames(data: &[u8]) {
    let inspector = Inspector::new(Arc::new(Says(data.to_vec())), None);
    let work = async {
        let mut answers = inspector.begin(Vec::new()).await?;
        let mut bytes = 0_usize;
        while let Some(message) = answers.next().await? {
            bytes += message.len() + HEADER;
        }
        assert!(bytes < data.len(), "no byte is made up");
        Ok::<_, InspectError>(())
    };
    let ended = time::within(Duration::from_secs(600), work).expect("it gives up in time");
    if let Err(error) = ended {
        let text = error.to_string();
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
}
