//! Whether two descriptors are one open file: after fork(2) both processes have it.
#![expect(unsafe_code, reason = "kcmp(2) has no safe wrapper")]

use super::Host;

/// KCMP_FILE.
const FILE: libc::c_int = 0;

/// None where the kernel does not tell, or the descriptors are not those of this machine's processes.
#[must_use]
pub fn same_open_file(host: &Host, one: (u32, u32), other: (u32, u32)) -> Option<bool> {
    if host.is_recorded() || host.is_seen_from_outside() {
        return None;
    }
    let ((pid, descriptor), (other_pid, other_descriptor)) = (one, other);
    // SAFETY: five numbers; nothing is written.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_kcmp,
            libc::c_long::from(pid),
            libc::c_long::from(other_pid),
            libc::c_long::from(FILE),
            libc::c_long::from(descriptor),
            libc::c_long::from(other_descriptor),
        )
    };
    (answer >= 0).then_some(answer == 0)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;
    use std::path::Path;

    use super::*;

    #[test]
    fn a_copy_of_a_descriptor_is_the_same_file_and_another_opening_is_not() {
        let host = Host::live(Path::new("/"));
        let own = std::process::id();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        #[expect(clippy::disallowed_methods, reason = "the test's own file")]
        let [one, other] = [(); 2].map(|()| std::fs::File::create(&path).unwrap());
        let copy = one.try_clone().unwrap();
        let same = |of: &std::fs::File| {
            let number = |file: &std::fs::File| u32::try_from(file.as_raw_fd()).unwrap();
            same_open_file(&host, (own, number(&one)), (own, number(of)))
        };
        // A kernel without kcmp, or a sandbox that denies it, tells nothing.
        assert!([None, Some(true)].contains(&same(&copy)));
        assert!([None, Some(false)].contains(&same(&other)));
        assert_eq!(same_open_file(&host, (own, 9999), (own, 9998)), None);
    }
}
