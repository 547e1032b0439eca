//! What the programs say that a cell is about, packed into one word.

/// What a cell is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Runq,
    Wait,
    Call,
    Waker,
    Stack,
    Errno,
    /// How waits for a semaphore ended.
    Semaphore,
    Unknown,
}

/// `kind` of the programs: what happened, but for stack and object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Kind(pub(super) u64);

/// Modes that stand in place of a call in cells of [`Type::Runq`].
pub(super) const PREEMPTED: u64 = 2;
pub(super) const WOKEN: u64 = 3;
pub(super) const THROTTLED: u64 = 4;

/// An operation on a futex.
const WAIT_BITSET: u64 = 9;

impl Kind {
    pub(super) fn of(self) -> Type {
        match self.0 & 0xff {
            1 => Type::Runq,
            2 => Type::Wait,
            3 => Type::Call,
            4 => Type::Waker,
            5 => Type::Stack,
            6 => Type::Errno,
            7 => Type::Semaphore,
            _ => Type::Unknown,
        }
    }

    /// Number of the call, or the mode.
    pub(super) fn call(self) -> u64 {
        self.0 >> 8 & 0xffff
    }

    pub(super) fn class(self) -> u64 {
        self.0 >> 24 & 0xff
    }

    /// Bits of the task's state.
    pub(super) fn state(self) -> u64 {
        self.0 >> 32 & 0xffff
    }

    pub(super) fn io_wait(self) -> bool {
        self.0 >> 48 & 1 != 0
    }

    pub(super) fn kernel_thread(self) -> bool {
        self.0 >> 48 & 2 != 0
    }

    /// The kernel said that it is for one of its locks.
    pub(super) fn kernel_lock(self) -> bool {
        self.0 >> 48 & 32 != 0
    }

    /// The memory of its program says that it is for a reader-writer lock that others have.
    pub(super) fn rwlock(self) -> bool {
        self.0 >> 48 & 64 != 0
    }

    /// A machine of Java says what it parks the thread for.
    pub(super) fn parked(self) -> bool {
        self.0 >> 48 & 128 != 0
    }

    /// The same wait, if it is known what it is parked for.
    pub(super) fn when_parked(self) -> Self {
        Self(self.0 | 128 << 48)
    }

    /// The same wait, if it is known that it is for a lock.
    pub(super) fn when_for_lock(self) -> Self {
        Self(self.0 | 64 << 48)
    }

    /// A futex that nothing else tells the use of, on which a machine of Java may park a thread. Older C libraries have a plain wait for
    /// that.
    pub(super) fn may_be_parked(self) -> bool {
        let (operation, value) = self.futex();
        matches!(operation, 0 | WAIT_BITSET) && value == 0 && !self.rwlock() && !self.parked()
    }

    /// A sample of waits below the threshold.
    pub(super) fn short(self) -> bool {
        self.0 >> 48 & 4 != 0
    }

    /// A call that was watched in parts of the time only.
    pub(super) fn in_parts(self) -> bool {
        self.0 >> 48 & 16 != 0
    }

    /// Operation and value of a futex call, as far as they matter: 2 stands for the word of any lock that is waited for.
    pub(super) fn futex(self) -> (u64, u64) {
        (self.0 >> 56 & 15, if self.0 >> 48 & 8 != 0 { 2 } else { 0 })
    }

    /// A futex that a condition variable, a semaphore or the like of the C library waits on, which says nothing of its use.
    pub(super) fn unknown_futex(self) -> bool {
        self.futex().0 == WAIT_BITSET && !self.rwlock() && !self.parked()
    }

    /// The wait that cells of other types tell more of.
    pub(super) fn wait(self) -> Self {
        Self(self.0 & !0xff & !(4 << 48) | 2)
    }
}
