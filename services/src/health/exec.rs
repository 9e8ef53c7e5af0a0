//! A check that runs a command beside the service: exit status 0 passes.

use std::sync::Arc;

use kelson_runner::{BoxFuture, ExecRequest, Executing, Executor, Exit, Leash};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::output::with_line;
use super::plan::{Answer, Probe};
use super::reader::Reader;
use crate::error::ServicesError;
use crate::prober::Verdict;

/// The command of a check, and what runs it beside the present run.
pub struct ExecProbe {
    command: Vec<String>,
    executor: Result<Arc<dyn Executor>, ServicesError>,
}

impl ExecProbe {
    pub fn new(command: Vec<String>, executor: Result<Arc<dyn Executor>, ServicesError>) -> ExecProbe {
        ExecProbe { command, executor }
    }
}

impl Probe for ExecProbe {
    fn kind(&self) -> &'static str {
        "exec"
    }

    fn ask(&self, deadline: Instant) -> BoxFuture<'static, Answer> {
        let executor = match &self.executor {
            Ok(executor) => Arc::clone(executor),
            Err(why) => return Box::pin(std::future::ready(Answer::fails(why.to_string()))),
        };
        let request = ExecRequest { command: self.command.clone(), ..ExecRequest::default() };
        Box::pin(async move {
            match timeout_at(deadline, executor.exec(request)).await {
                Ok(Ok(executing)) => attend(executing, deadline).await,
                Ok(Err(error)) => Answer::fails(error.message),
                Err(_) => Answer { verdict: Verdict::Silent, output: String::new(), ending: None },
            }
        })
    }
}

async fn attend(executing: Executing, deadline: Instant) -> Answer {
    let Executing { output, errors, mut exit, control, .. } = executing;
    let leash = Leash(control);
    let mut reader = match Reader::new(output, errors) {
        Ok(reader) => reader,
        Err(error) => return Answer::fails(format!("its output cannot be read: {error}")),
    };
    let exit = tokio::select! {
        biased;
        ended = &mut exit => Ok(ended),
        () = sleep_until(deadline) => Err(exit),
        never = reader.listen() => match never {},
    };
    drop(leash);
    let output = reader.finish();
    match exit {
        Ok(Exit::Status(0)) => Answer::passes(output),
        Ok(ended @ Exit::Status(_)) if output.is_empty() => Answer::fails(ended.to_string()),
        Ok(Exit::Status(_)) => Answer::fails(output),
        Ok(ended) => Answer::fails(with_line(output, &ended.to_string())),
        Err(exit) => Answer {
            verdict: Verdict::Silent,
            output,
            ending: Some(Box::pin(async move {
                exit.await;
            })),
        },
    }
}
