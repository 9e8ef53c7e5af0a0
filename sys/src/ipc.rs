//! System V IPC: removing what stands in the tables of `/proc/sysvipc`.

use nix::errno::Errno;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    SharedMemory,
    Semaphores,
    Messages,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::SharedMemory, Kind::Semaphores, Kind::Messages];

    /// The table of those there are.
    pub fn table(self) -> &'static str {
        match self {
            Kind::SharedMemory => "/proc/sysvipc/shm",
            Kind::Semaphores => "/proc/sysvipc/sem",
            Kind::Messages => "/proc/sysvipc/msg",
        }
    }

    /// Removes one. Memory that is in use goes with its last user.
    ///
    /// # Errors
    /// What the kernel says: EINVAL or EIDRM where there is none of this number.
    pub fn remove(self, id: i32) -> nix::Result<()> {
        // SAFETY: with IPC_RMID the calls take no pointer.
        let done = unsafe {
            match self {
                Kind::SharedMemory => libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()),
                Kind::Semaphores => libc::semctl(id, 0, libc::IPC_RMID),
                Kind::Messages => libc::msgctl(id, libc::IPC_RMID, std::ptr::null_mut()),
            }
        };
        Errno::result(done).map(drop)
    }
}
