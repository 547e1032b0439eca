//! Files with a name and its value on each line.

/// The rest of the first line that begins with a name, colon and all (`Uid:` of /proc/PID/status, `mnt_id:` of /proc/PID/fdinfo).
#[must_use]
pub fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Lines such as `pswpin 12`, of /proc/vmstat; anything else is left out.
pub fn counters(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        Some((name, value.trim().parse().ok()?))
    })
}

/// Lines such as `MemTotal:   12 kB`, of /proc/meminfo; anything else is left out.
pub fn meminfo(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (name, rest) = line.split_once(':')?;
        Some((name, rest.split_whitespace().next()?.parse().ok()?))
    })
}

/// Lines such as `model name\t: Xeon`, of /proc/cpuinfo: the value of the first one of this name.
#[must_use]
pub fn cpuinfo<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_and_broken_lines_left_out() {
        let text = "pswpin 12\npswpout\npgmajfault 18446744073709551615\noom_kill -1\noom_kill 1 2\nnr_dirty 7";
        let found: Vec<_> = counters(text).collect();
        assert_eq!(found, [("pswpin", 12), ("pgmajfault", u64::MAX), ("nr_dirty", 7)]);
        let text = "MemTotal:  100 kB\nNew thing: x\n\nHugePages_Free: 3\nActive(anon): 7 kB extra\nMemFree: -1 kB\n\
            MemShared: 18446744073709551616 kB\nMemAvail";
        assert_eq!(meminfo(text).collect::<Vec<_>>(), [("MemTotal", 100), ("HugePages_Free", 3), ("Active(anon)", 7)]);
    }

    #[test]
    fn a_name_is_looked_for_where_lines_begin() {
        let text = "Name:\tUid: 9\nUid:\t1000\t1001\nUid:\t7\n";
        assert_eq!((field(text, "Uid:"), field(text, "Gid:")), (Some("1000\t1001"), None));
        let text = "processor\t: 0\nmodel name\t: A: B\nflags\t\t: fpu hypervisor\n\nprocessor\t: 1\nmodel name\t: C\n";
        assert_eq!((cpuinfo(text, "model name"), cpuinfo(text, "flags")), (Some(" A: B"), Some(" fpu hypervisor")));
        assert_eq!((cpuinfo(text, "model"), cpuinfo("", "flags")), (None, None));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_survived(text in "(.|\n){0,200}", name in ".{0,4}") {
            let _ = (field(&text, &name), cpuinfo(&text, &name), counters(&text).count(), meminfo(&text).count());
        }
    }
}
