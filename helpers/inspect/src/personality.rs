//! The personality `kelson-inspect`: one question on its input, the answer on its output.

use std::io::{self, Read, Write};

use kelson_proto::v1::inspect_question::Question;
use kelson_proto::v1::{
    CgroupsResponse, DisksResponse, FactsResponse, FilesResponse, InspectQuestion, MountsResponse,
    NetworkResponse, ProcessesResponse, SocketsResponse,
};
use prost::Message as _;

use crate::answer::{Answer, Unanswered};
use crate::system::System;
use crate::{
    cgroups, clock, copy, cpu, disks, facts, files, memory, mounts, network, processes, read, sockets, write,
};
use kelson_helper::inspect::QUESTION_MAX;

/// Answers and ends. Returns the exit status.
pub fn main() -> i32 {
    let status = match serve(io::stdin().lock(), &mut io::stdout().lock(), &System::real()) {
        Ok(()) => 0,
        Err(_) => 1,
    };
    // A thread may wait for a file system that does not answer: it is not waited for.
    std::process::exit(status)
}

/// Reads a question and answers it.
///
/// # Errors
/// When nobody listens any more.
pub fn serve(mut input: impl Read, output: &mut dyn Write, system: &System) -> io::Result<()> {
    let mut answer = Answer::new(output);
    let result = question(&mut input).and_then(|question| tell(system, question, input, &mut answer));
    answer.end(result)
}

fn question(input: &mut impl Read) -> Result<InspectQuestion, Unanswered> {
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let mut bytes = Vec::new();
    input.take(u64::from(u32::from_le_bytes(length)).min(QUESTION_MAX)).read_to_end(&mut bytes)?;
    InspectQuestion::decode(bytes.as_slice()).map_err(|error| {
        Unanswered::Failed(format!("kelson-inspect does not understand its question: {error}"))
    })
}

fn tell(
    system: &System,
    asked: InspectQuestion,
    input: impl Read,
    answer: &mut Answer<'_>,
) -> Result<(), Unanswered> {
    let services = asked.services.as_slice();
    let Some(question) = asked.question else {
        return Err(Unanswered::Failed("kelson-inspect was asked for nothing that it knows".to_owned()));
    };
    match question {
        Question::Processes(_) => {
            let processes = processes::read(system, services)?;
            answer.pages(processes, |processes| ProcessesResponse { processes })?;
        }
        Question::Mounts(_) => answer.pages(mounts::read(system)?, |mounts| MountsResponse { mounts })?,
        Question::Memory(_) => answer.message(&memory::read(system)?)?,
        Question::Cpu(_) => answer.message(&cpu::read(system)?)?,
        Question::Disks(_) => answer.pages(disks::read(system)?, |disks| DisksResponse { disks })?,
        Question::Sockets(request) => {
            let sockets = sockets::read(system, services, request.connections)?;
            answer.pages(sockets, |sockets| SocketsResponse { sockets })?;
        }
        Question::Network(_) => {
            answer.pages(network::read()?, |links| NetworkResponse { links })?;
        }
        Question::Cgroups(_) => {
            let root = asked.cgroups_path;
            let cgroups = cgroups::read(&root)?;
            answer.pages(cgroups, |cgroups| CgroupsResponse { root: root.clone(), cgroups })?;
        }
        Question::Clock(_) => answer.message(&clock::read(system))?,
        Question::Facts(_) => answer.pages(facts::read(system), |facts| FactsResponse { facts })?,
        Question::Files(request) => {
            let files = files::read(&request.path, request.recursive)?;
            answer.pages(files, |files| FilesResponse { files })?;
        }
        Question::ReadFile(request) => read::read(&request.path, answer)?,
        Question::Copy(request) => copy::read(&request.path, answer)?,
        Question::WriteFile(begin) => write::write(&begin, input, answer)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kelson_proto::v1::{ClockRequest, ClockResponse};

    use super::*;
    use crate::answer::testing::messages;
    use kelson_helper::answer::frame;

    #[test]
    fn a_question_comes_as_bytes() {
        let asked =
            InspectQuestion { question: Some(Question::Clock(ClockRequest {})), ..Default::default() };
        let asked = question(&mut frame(&asked.encode_to_vec()).as_slice()).unwrap();
        let clocks: Vec<ClockResponse> =
            messages(|answer| tell(&System::real(), asked.clone(), io::empty(), answer)).unwrap();
        assert!(clocks[0].uptime.is_some());
    }

    #[test]
    fn what_is_no_question_is_said() {
        assert!(
            question(&mut frame(b"\xff\xff").as_slice())
                .unwrap_err()
                .to_string()
                .contains("does not understand")
        );
        let nothing = question(&mut frame(b"").as_slice()).unwrap();
        let said =
            messages::<ClockResponse>(|answer| tell(&System::real(), nothing.clone(), io::empty(), answer));
        assert!(said.unwrap_err().to_string().contains("asked for nothing"));
    }
}
