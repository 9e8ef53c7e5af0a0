//! Commands of operators beside services: where there is a run to join, and up to a limit.

use kelson_runner::ExecRequest;
use kelson_services::model::State;
use tokio::time::Instant;

use crate::house::*;

fn request() -> ExecRequest {
    ExecRequest { command: vec!["/bin/true".into()], ..ExecRequest::default() }
}

async fn refused(house: &House, name: &str) -> String {
    match house.manager.exec(name, request()).await {
        Ok(_) => panic!("{name} takes a command"),
        Err(why) => why.to_string(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_joins_the_run_that_there_is() {
    let house = House::with([spec("web"), notify("slow"), manual(spec("idle"))]).await;
    assert_eq!(house.state("slow"), State::Starting);
    for name in ["web", "slow"] {
        assert!(house.manager.exec(name, request()).await.is_ok(), "{name}");
    }
    assert_eq!(refused(&house, "idle").await, "service \"idle\" does not run: its state is initialized");
    assert_eq!(refused(&house, "wbe").await, "there is no service \"wbe\"; did you mean \"web\"?");
    house.obey_after(&["web"], secs(5));
    house.begin_stop("web").await;
    assert_eq!(refused(&house, "web").await, "service \"web\" does not run: its state is stopping");
    house.manager.stop_all(Instant::now() + secs(60), &[]).await;
    assert_eq!(refused(&house, "slow").await, "the host is stopping: nothing more is started");
}

#[tokio::test(start_paused = true)]
async fn so_many_commands_run_at_once() {
    let house = House::with([spec("web")]).await;
    let mut running = Vec::new();
    for _ in 0..64 {
        running.push(house.manager.exec("web", request()).await.ok().unwrap());
    }
    assert!(refused(&house, "web").await.starts_with("64 commands run beside services"));
    // One that has ended, or that nobody waits for any more, makes room.
    running.pop();
    assert!(house.manager.exec("web", request()).await.is_ok());
}
