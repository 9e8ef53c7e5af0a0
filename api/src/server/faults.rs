//! `kelson.test.v1.Faults`: crashes on demand, for the tests of what comes after. Not in releases.

#![allow(clippy::panic, clippy::panic_in_result_fn, reason = "to panic is what it is for")]

use kelson_proto::test::v1::faults_server::Faults;
use kelson_proto::test::v1::{Fault, ProvokeRequest, ProvokeResponse};
use tonic::{Request, Response, Status};

pub struct FaultsApi;

#[tonic::async_trait]
impl Faults for FaultsApi {
    async fn provoke(&self, request: Request<ProvokeRequest>) -> Result<Response<ProvokeResponse>, Status> {
        match request.into_inner().fault() {
            Fault::Unspecified => return Err(Status::invalid_argument("which fault?")),
            Fault::Panic => panic!("asked for"),
            Fault::PanicInThread => {
                let thread = std::thread::Builder::new().name("faulty".to_owned());
                let _ = thread.spawn(|| panic!("asked for")).map(std::thread::JoinHandle::join);
            }
            Fault::Abort => std::process::abort(),
            Fault::Segv => {
                // SAFETY: there is nothing at this address, so nothing is overwritten: that is the fault.
                unsafe { std::ptr::without_provenance_mut::<u8>(16).write_volatile(1) };
            }
            Fault::StackOverflow => {
                deeper(&mut [0; 4096]);
            }
            Fault::Spin => loop {
                std::hint::spin_loop();
            },
            Fault::Deadlock => {
                let lock = std::sync::Mutex::new(());
                let first = lock.lock();
                let second = lock.lock();
                drop((first, second));
            }
        }
        Ok(Response::new(ProvokeResponse {}))
    }
}

#[allow(unconditional_recursion, reason = "to overflow is what it is for")]
fn deeper(room: &mut [u8; 4096]) -> u8 {
    let mut more = *room;
    std::hint::black_box(&mut more);
    deeper(&mut more).wrapping_add(room.first().copied().unwrap_or_default())
}
