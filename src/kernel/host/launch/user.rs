//! As whom a command runs.
#![expect(
    unsafe_code,
    reason = "the C library's data base of accounts, which knows those of directories too, has no safe wrapper"
)]

use std::ffi::{CStr, CString, OsString};
use std::os::unix::ffi::OsStringExt as _;

use rustix::fs::{Gid, Uid};
use rustix::process::Signal;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// Bytes of one account's texts: first, and at most.
const TEXTS: usize = 4096;
const MOST_TEXTS: usize = 1 << 20;
/// Groups that a user may be in; the kernel's own limit.
const MOST_GROUPS: libc::c_int = 65536;

/// An account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    name: CString,
    id: u32,
    group: u32,
    home: OsString,
}

impl User {
    /// The one with this name, or with this number if no name is like it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let words = CString::new(name).ok()?;
        // SAFETY: the name is a string, and the other pointers are to what `account` owns.
        let found = account(|found, texts, size, result| unsafe {
            libc::getpwnam_r(words.as_ptr(), found, texts, size, result)
        });
        found.or_else(|| Self::with_id(name.parse().ok()?))
    }

    /// The one with this number.
    #[must_use]
    pub fn with_id(id: u32) -> Option<Self> {
        // SAFETY: the pointers are to what `account` owns.
        account(|found, texts, size, result| unsafe { libc::getpwuid_r(id, found, texts, size, result) })
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    /// What of the environment says who one is.
    pub(super) fn environment(&self) -> [(&'static str, OsString); 3] {
        let name = OsString::from_vec(self.name.as_bytes().to_vec());
        [("HOME", self.home.clone()), ("USER", name.clone()), ("LOGNAME", name)]
    }

    /// What the process is told that is to become this user.
    pub(super) fn identity(&self) -> Identity {
        Identity { user: self.id, group: self.group, groups: self.groups() }
    }

    fn groups(&self) -> Vec<u32> {
        let mut count: libc::c_int = 64;
        loop {
            let mut groups: Vec<libc::gid_t> = vec![0; usize::try_from(count).unwrap_or(0)];
            // SAFETY: the name is a string, and there is room for `count` groups.
            let told =
                unsafe { libc::getgrouplist(self.name.as_ptr(), self.group, groups.as_mut_ptr(), &raw mut count) };
            if told >= 0 {
                groups.truncate(usize::try_from(count).unwrap_or(0));
                return groups;
            }
            // Now it holds how many there are; a C library that does not tell would be asked for ever.
            if usize::try_from(count).is_ok_and(|count| count <= groups.len()) || count > MOST_GROUPS {
                return vec![self.group];
            }
        }
    }
}

/// Asks for one account, with as much room for its texts as they take.
fn account(
    ask: impl Fn(*mut libc::passwd, *mut libc::c_char, usize, *mut *mut libc::passwd) -> libc::c_int,
) -> Option<User> {
    let mut size = TEXTS;
    while size <= MOST_TEXTS {
        // SAFETY: passwd is numbers and pointers, for which all zero bits are valid.
        let mut found: libc::passwd = unsafe { std::mem::zeroed() };
        let (mut texts, mut result) = (vec![0; size], std::ptr::null_mut());
        match ask(&raw mut found, texts.as_mut_ptr(), size, &raw mut result) {
            libc::ERANGE => size *= 2,
            0 if !result.is_null() && !found.pw_name.is_null() && !found.pw_dir.is_null() => {
                // SAFETY: both were just filled in with strings that lie in `texts`, which lives.
                let (name, home) = unsafe { (CStr::from_ptr(found.pw_name), CStr::from_ptr(found.pw_dir)) };
                let home = OsString::from_vec(home.to_bytes().to_vec());
                return Some(User { name: name.to_owned(), id: found.pw_uid, group: found.pw_gid, home });
            }
            _ => return None,
        }
    }
    None
}

/// A user in numbers, as one word.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Identity {
    user: u32,
    group: u32,
    groups: Vec<u32>,
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.user, self.group)?;
        self.groups.iter().try_for_each(|group| write!(f, ":{group}"))
    }
}

impl Identity {
    /// None if it is not one.
    pub(super) fn parse(word: &str) -> Option<Self> {
        let mut numbers = word.split(':').map(|number| number.parse::<u32>());
        let (user, group) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(Self { user, group, groups: numbers.collect::<Result<_, _>>().ok()? })
    }

    /// Becomes this user for good. To be called in a process with a single thread.
    pub(super) fn adopt(&self) -> rustix::io::Result<()> {
        let groups: Vec<Gid> = self.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        let (user, group) = (Uid::from_raw(self.user), Gid::from_raw(self.group));
        set_thread_groups(&groups)?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)?;
        // The kernel clears it when the user changes.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_name_and_number_and_others_are_not() {
        let root = User::named("root").unwrap();
        assert_eq!((root.id(), root.name().as_str()), (0, "root"));
        assert_eq!(User::named("0").as_ref(), Some(&root));
        assert_eq!(User::with_id(0), Some(root));
        for name in ["no-such-user-anywhere", "", "4294967294", "-1", "ro\0ot"] {
            assert_eq!(User::named(name), None, "{name:?}");
        }
    }

    #[test]
    fn a_user_in_numbers_comes_back_from_one_word() {
        let root = User::named("root").unwrap().identity();
        assert!(root.groups.contains(&root.group));
        assert_eq!(Identity::parse(&root.to_string()), Some(root));
        for word in ["", "1", "1:", "x:1", "1:2:x", "1:2:-3", "-1:2"] {
            assert_eq!(Identity::parse(word), None, "{word}");
        }
    }
}
