//! /proc/net/snmp and /proc/net/netstat.

/// Group, column and value, from pairs of lines: names in the first, values in the second. A pair whose lines do not
/// belong together is left out; so is a single value that is no whole number (MaxConn is -1).
pub fn columns(text: &str) -> impl Iterator<Item = (&str, &str, u64)> {
    let mut lines = text.lines();
    std::iter::from_fn(move || Some((lines.next()?, lines.next()?)))
        .filter_map(|(names, values)| {
            let (group, names) = names.split_once(':')?;
            let (again, values) = values.split_once(':')?;
            let whole = names.split_whitespace().count() == values.split_whitespace().count();
            (group == again && whole).then_some((group, names, values))
        })
        .flat_map(|(group, names, values)| {
            let pairs = names.split_whitespace().zip(values.split_whitespace());
            pairs.filter_map(move |(name, value)| Some((group, name, value.parse().ok()?)))
        })
}

/// One column of a text with pairs of lines.
#[must_use]
pub fn column(text: &str, group: &str, column: &str) -> Option<u64> {
    columns(text).find_map(|(of, name, value)| (of == group && name == column).then_some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNMP: &str = "Ip: Forwarding InDiscards OutDiscards\nIp: 2 0 0\n\
        Tcp: RtoAlgorithm MaxConn ActiveOpens PassiveOpens InSegs OutSegs RetransSegs\nTcp: 1 -1 10 20 1000 2000 30\n\
        Udp: InDatagrams RcvbufErrors\nUdp: 100 1\n";

    #[test]
    fn columns_are_found_by_name_wherever_they_stand() {
        assert_eq!(column(SNMP, "Tcp", "OutSegs"), Some(2000));
        assert_eq!(column("Tcp: New OutSegs Newer\nTcp: 5 7 9\n", "Tcp", "OutSegs"), Some(7));
        assert_eq!(column(SNMP, "Tcp", "MaxConn"), None, "-1 is no count");
        assert_eq!(column(SNMP, "Udp", "OutSegs"), None);
    }

    #[test]
    fn lines_that_do_not_belong_together_give_nothing() {
        assert_eq!(columns("Tcp: A B\nUdp: 1 2\n").count(), 0);
        assert_eq!(columns("Tcp: A B\nTcp: 1\n").count(), 0, "the values are cut off");
        assert_eq!(columns("Tcp: A B\n").count(), 0);
        assert_eq!(columns("Tcp A B\nTcp 1 2\n").count(), 0);
        assert_eq!(columns("Tcp: A B\nTcp: 99999999999999999999999 2\n").collect::<Vec<_>>(), [("Tcp", "B", 2)]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "(\\PC|\n|: ){0,200}") {
            let _ = columns(&text).count();
        }

        #[test]
        fn more_columns_never_hide_a_known_one(before in 0..30_usize, after in 0..30_usize, value in proptest::num::u64::ANY) {
            let names = |n: usize, tag: &str| (0..n).map(|i| format!("{tag}{i} ")).collect::<String>();
            let numbers = |n: usize| "1 ".repeat(n);
            let (pre, post) = (names(before, "A"), names(after, "B"));
            let text = format!(
                "TcpExt: {pre}TCPTimeouts {post}\nTcpExt: {}{value} {}\n", numbers(before), numbers(after)
            );
            proptest::prop_assert_eq!(column(&text, "TcpExt", "TCPTimeouts"), Some(value));
        }
    }
}
