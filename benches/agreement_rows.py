"""What each program says of the window, beside what rdiag says of it: the rows of benches/agreement.py."""
import re

MIB = 1 << 20
# Counters of nstat by metric, a minus before one that is taken off. First those that rdiag gives per second, then numbers of the window.
NSTAT = {
    "network.tcp.received.per_second": "TcpInSegs",
    "network.tcp.sent.per_second": "TcpOutSegs",
    "network.tcp.retransmits.per_second": "TcpRetransSegs -TcpExtTCPSynRetrans",
    "network.tcp.active_opens.per_second": "TcpActiveOpens",
    "network.tcp.passive_opens.per_second": "TcpPassiveOpens",
    "network.tcp.failed_attempts.per_second": "TcpAttemptFails",
    "network.tcp.resets.per_second": "TcpEstabResets",
    "network.tcp.resets_sent.per_second": "TcpOutRsts",
    "network.tcp.timeouts.per_second": "TcpExtTCPTimeouts",
    "network.tcp.loss_probes.per_second": "TcpExtTCPLossProbes",
    "network.udp.received.per_second": "UdpInDatagrams Udp6InDatagrams",
    "network.udp.sent.per_second": "UdpOutDatagrams Udp6OutDatagrams",
    "network.udp.no_ports.per_second": "UdpNoPorts",
    "network.tcp.syn_retransmits.count": "TcpExtTCPSynRetrans",
    "network.tcp.listen_overflows.count": "TcpExtListenOverflows",
    "network.tcp.listen_drops.count": "TcpExtListenDrops",
    "network.tcp.time_wait_overflows.count": "TcpExtTCPTimeWaitOverflow",
    "network.udp.receive_buffer_errors.count": "UdpRcvbufErrors UdpMemErrors Udp6RcvbufErrors Udp6MemErrors",
}
# What drivers call what rdiag knows of every interface.
ETHTOOL = {
    "rx_packets": "receive.per_second",
    "tx_packets": "transmit.per_second",
    "rx_bytes": "receive.bytes_per_second",
    "tx_bytes": "transmit.bytes_per_second",
    "rx_drops": "receive_drops.count",
    "rx_dropped": "receive_drops.count",
    "tx_tx_timeouts": "transmit_timeouts.count",
    "rx_no_dma_resources": "no_buffer.count",
}


class Table:
    def __init__(self):
        self.rows, self.bad = [], 0

    def compare(self, what, theirs, ours, limit, of="", slack=0.0):
        """`of`: "%" where the limit is a share of theirs, else its unit. `slack` is what printing rounds off and what may fall on the
        border of the window."""
        if ours is None:
            self.bad += 1
            self.rows.append((what, f"{theirs:.3f}", "not measured", "", "", "over"))
            return
        difference = max(0.0, abs(ours - theirs) - slack)
        if of == "%":
            difference = 100 * difference / abs(theirs) if theirs else 100.0 * (difference > 0)
        over = difference > limit
        beyond = f" beyond {slack:.2f}" if slack >= 0.01 else ""
        self.bad += over
        figures = (f"{theirs:.3f}", f"{ours:.3f}", f"{difference:.2f} {of}".strip(), f"{limit} {of}".strip() + beyond)
        self.rows.append((what, *figures, "over" if over else "ok"))

    def only_theirs(self, what, theirs, why=""):
        self.rows.append((what, theirs, "not measured by rdiag", "", "", why))

    def not_compared(self, what, why):
        self.rows.append((what, "", f"not compared: {why}", "", "", ""))

    def without_limit(self, what, theirs, ours, why):
        """Both figures, of which none is judged."""
        shown = "not measured" if ours is None else f"{ours:.3f}"
        off = f"{100 * abs(ours - theirs) / theirs:.2f} %" if ours is not None and theirs else ""
        self.rows.append((what, f"{theirs:.3f}", shown, off, "none", why))

    def print(self):
        print("| what | theirs | rdiag | difference | limit | |\n|---|---|---|---|---|---|")
        for row in self.rows:
            print("| " + " | ".join(row) + " |")


def table(text, first):
    """The last table of sysstat output whose header has a column named `first`: a list of rows by column."""
    header, rows = None, []
    for line in text.splitlines():
        fields = line.split()
        if first in fields:
            header, rows = fields, []
        elif header and len(fields) == len(header):
            rows.append(dict(zip(header, fields)))
    return rows


def scaled(value, by):
    return None if value is None else value * by


def mean(values):
    return sum(values) / len(values)


def mpstat(out, text, ours):
    cpu = {name: float(value) for name, value in table(text, "%usr")[-1].items() if name.startswith("%")}
    for what, theirs, metric in (
        ("user + nice", cpu["%usr"] + cpu["%nice"], "cpu.user.ratio"),
        ("system", cpu["%sys"], "cpu.system.ratio"),
        ("irq + soft", cpu["%irq"] + cpu["%soft"], "cpu.interrupt.ratio"),
        ("steal", cpu["%steal"], "cpu.steal.ratio"),
        ("busy", 100 - cpu["%idle"] - cpu["%iowait"] - cpu["%steal"], "cpu.busy.ratio"),
    ):
        out.compare(f"mpstat: {what}, %", theirs, scaled(ours.get(metric), 100), 2, "points", 0.005)
    for name in ("%iowait", "%guest", "%gnice"):
        out.only_theirs(f"mpstat: {name}", f"{cpu[name]:.3f}")


# Columns of iostat: what they count requests of, the metric and its scale, the field of /proc/diskstats behind the name and its scale.
IOSTAT = (
    ("r/s", "r/s", "disk.reads.per_second", 1, 0, 1), ("w/s", "w/s", "disk.writes.per_second", 1, 4, 1),
    ("rkB/s", "r/s", "disk.read.bytes_per_second", 1 / 1024, 2, 0.5), ("wkB/s", "w/s", "disk.write.bytes_per_second", 1 / 1024, 6, 0.5),
    ("aqu-sz", "r/s", "disk.queue.count", 1, 10, 0.001), ("%util", "r/s", "disk.busy.ratio", 100, 9, 0.1),
    ("r_await", "r/s", "disk.read_await.seconds", 1000, 3, 1), ("w_await", "w/s", "disk.write_await.seconds", 1000, 7, 1),
    ("rareq-sz", "r/s", "disk.read_size.bytes", 1 / 1024, 2, 0.5), ("wareq-sz", "w/s", "disk.write_size.bytes", 1 / 1024, 6, 0.5),
)


def iostat(out, text, border, ours):
    """`border`: by device, what its counters moved where a request may be in one window and not in the other."""
    for row in table(text, "r/s"):
        device = row["Device"]
        if float(row["r/s"]) + float(row["w/s"]) < 20:
            continue
        moved = border[device]
        for column, of, metric, scale, field, unit in IOSTAT:
            theirs, per_second = float(row[column]), float(row[of])
            if per_second < 20:
                out.not_compared(f"iostat: {device} {column}", "fewer than 20 requests a second")
                continue
            slack = moved[field] * unit
            if column[1:] in ("_await", "areq-sz"):
                # A mean: of those at the border the time and the size, and that they are counted.
                slack = (slack + theirs * moved[0 if column[0] == "r" else 4]) / per_second
            value = scaled(ours.get(metric, device), scale)
            out.compare(f"iostat: {device} {column}", theirs, value, 5, "%", 0.005 + slack / ours.seconds)
        flushes = ours.get("disk.flushes.per_second", device)
        out.compare(f"iostat: {device} f/s", float(row["f/s"]), flushes, 5, "%", 2 / ours.seconds)
        out.not_compared(f"iostat: {device} dkB/s, d_await, f_await", "too few of them in most windows")
        for column in ("rrqm/s", "wrqm/s"):
            out.only_theirs(f"iostat: {device} {column}", row[column])


def pidstat(out, text, ours, lived):
    """Of processes that were there at both ends of the window."""
    names = ours.labels["process"]
    instances = ours.readings["process.cpu.seconds"]["measured"]["instances"]
    of = lambda key: names.get(key, {}).get("pid")
    by_pid = {of(key): one["Ok"]["total"] / ours.seconds * 100 for key, one in instances.items() if "Ok" in one}
    for row in table(text, "%CPU"):
        if float(row["%CPU"]) >= 5 and row["PID"] in lived:
            out.compare(f"pidstat: {row['Command']} %CPU", float(row["%CPU"]), by_pid.get(row["PID"]), 2, "points", 0.005)
    out.only_theirs("pidstat: %wait, %guest, last CPU of a process", "")


def sar(out, text, ours):
    """Two packets of the window, 3 kB at most, may fall on its border."""
    columns = (("rxpck/s", "receive.per_second", 1, 2), ("txpck/s", "transmit.per_second", 1, 2),
               ("rxkB/s", "receive.bytes_per_second", 1 / 1024, 3), ("txkB/s", "transmit.bytes_per_second", 1 / 1024, 3))
    for row in table(text, "rxkB/s"):
        name = row["IFACE"]
        if float(row["rxkB/s"]) + float(row["txkB/s"]) > 10 and re.fullmatch(r"[\w.@-]+", name):
            for column, metric, scale, border in columns:
                value = scaled(ours.get(f"network.interface.{metric}", name), scale)
                out.compare(f"sar: {name} {column}", float(row[column]), value, 2, "%", 0.005 + border / ours.seconds)
    out.only_theirs("sar: compressed and multicast packets", "")


def nstat(out, before, after, elapsed, ours):
    """Two events of the window may fall on its border."""
    counted = set()
    for metric, names in NSTAT.items():
        names = [(name.lstrip("-"), -1 if name.startswith("-") else 1) for name in names.split()]
        counted |= {name for name, _ in names}
        change = sum(sign * (after.get(name, 0) - before.get(name, 0)) for name, sign in names)
        words = " ".join(("− " if sign < 0 else "+ ") + name for name, sign in names).lstrip("+ ")
        if metric.endswith(".count"):
            out.compare(f"nstat: {words}", change, ours.get(metric, field="total"), 2, "%", 2)
        else:
            out.compare(f"nstat: {words}, /s", change / elapsed, ours.get(metric), 2, "%", 2 / elapsed)
    rest = [name for name in after if name not in counted and after[name] != before.get(name, 0)]
    if rest:
        out.not_compared(f"nstat: {len(rest)} other counters that moved", f"{', '.join(sorted(rest)[:3])} …")


def ss(out, summaries, lists, ours):
    """Numbers of sockets, as means of the window."""
    found = [re.search(r"Total: (\d+).*?estab (\d+), closed (\d+), orphaned (\d+), timewait (\d+)", text, re.S) for text in summaries]
    total, established, _, _, waiting = (mean([float(match.group(at)) for match in found]) for at in range(1, 6))
    out.compare("ss -s: sockets of all kinds", total, ours.get("network.sockets.count"), 5, "%", 1)
    out.compare("ss -s: established", established, ours.get("network.tcp.established.count"), 2, "%", 1)
    out.compare("ss -s: timewait", waiting, ours.get("network.tcp.time_wait.count"), 5, "%", 1)
    states = [[line.split()[0] for line in text.splitlines()[1:]] for text in lists]
    of = lambda *wanted: mean([sum(state in wanted for state in one) for one in states])
    out.compare("ss -tan: ESTAB + CLOSE-WAIT", of("ESTAB", "CLOSE-WAIT"), ours.get("network.tcp.established.count"), 2, "%", 1)
    out.compare("ss -tan: TIME-WAIT", of("TIME-WAIT"), ours.get("network.tcp.time_wait.count"), 5, "%", 1)
    in_use = mean([sum(state not in ("TIME-WAIT", "SYN-RECV") for state in one) for one in states])
    out.compare("ss -tan: all but TIME-WAIT and SYN-RECV", in_use, ours.get("network.tcp.sockets.count"), 2, "%", 1)
    out.only_theirs("ss -tan: Recv-Q and Send-Q of each socket", "")
    out.only_theirs("ss -s: RAW and FRAG", "")


def tc(out, before, after, elapsed, depths, ours):
    """Root qdiscs; the backlog is a mean of readings, and half a packet is none."""
    for (device, kind), now in after.items():
        if kind == "noqueue":
            out.not_compared(f"tc: {device} noqueue", "it has no queue, and counts nothing")
            continue
        then, instance = before.get((device, kind), now), f"{device} {kind}"
        rate = lambda name: (now[name] - then[name]) / elapsed
        total = lambda name: scaled(ours.get(f"network.qdisc.{name}.count", instance, "total"), 1 / ours.seconds)
        out.compare(f"tc: {instance} bytes/s", rate("bytes"), ours.get("network.qdisc.sent.bytes_per_second", instance), 2, "%", 1500)
        out.compare(f"tc: {instance} packets/s", rate("packets"), total("packets"), 2, "%", 1)
        out.compare(f"tc: {instance} dropped/s", rate("drops"), total("drops"), 2, "%", 1)
        out.compare(f"tc: {instance} overlimits/s", rate("overlimits"), total("overlimits"), 5, "%", 1)
        depth = mean([one.get((device, kind), now)["qlen"] for one in depths])
        out.compare(f"tc: {instance} backlog, packets", depth, ours.get("network.qdisc.backlog.count", instance), 20, "%", 0.5)
        out.only_theirs(f"tc: {instance} requeues/s", f"{rate('requeues'):.3f}")


def df(out, texts, ours):
    """Mounts in the order of df. What was written meanwhile is a part of the size."""
    rows = [{line.split()[0]: line.split()[1:] for line in text.splitlines()[1:]} for text in texts]
    for mount, last in rows[-1].items():
        each = [one[mount] for one in rows if mount in one]
        size, used, free, inodes, taken = (mean([float(fields[at].replace("-", "0")) for fields in each]) for at in range(5))
        ratio = ours.instance("filesystem.space.ratio", mount)
        if ratio is None or "Ok" not in ratio:
            why = ratio["Err"]["why"] if ratio else f"{last[5]}: the kernel's own, or mounted twice"
            out.only_theirs(f"df: {mount}", f"{used / MIB:.0f} MiB used", why)
            continue
        whole, left = (scaled(ours.get(f"filesystem.{name}.bytes", mount), 1 / MIB) for name in ("size", "available"))
        out.compare(f"df: {mount} size, MiB", size / MIB, whole, 0, "%", 0.01)
        out.compare(f"df: {mount} available, MiB", free / MIB, left, 0.2, "%", 1)
        out.compare(f"df: {mount} used, %", 100 * used / (used + free), scaled(ratio["Ok"]["mean"], 100), 0.2, "points")
        if inodes:
            share = scaled(ours.get("filesystem.inodes.ratio", mount), 100)
            out.compare(f"df -i: {mount} used, %", 100 * taken / inodes, share, 0.1, "points")


def free(out, text, ours):
    """Means of the window; the limits are shares of all memory."""
    names = ("total", "used", "free", "shared", "cache", "available")
    rows = [[float(word) for word in line.split()[1:]] for line in text.splitlines() if line.startswith("Mem:")]
    theirs = {name: mean([row[at] for row in rows]) / MIB for at, name in enumerate(names)}
    get = lambda metric: ours.get(metric) / MIB
    limit = round(0.01 * theirs["total"])
    out.compare("free: total, MiB", theirs["total"], get("memory.installed.bytes"), 0, "MiB", 0.01)
    out.compare("free: available, MiB", theirs["available"], get("memory.available.bytes"), limit, "MiB")
    out.compare("free: used, MiB", theirs["used"], ours.get("memory.used.ratio") * theirs["total"], limit, "MiB")
    out.compare("free: shared, MiB", theirs["shared"], get("memory.shared.bytes"), limit, "MiB")
    cache = get("memory.cache.bytes") + get("memory.shared.bytes") + get("memory.slab_reclaimable.bytes")
    out.compare("free: buff/cache, MiB", theirs["cache"], cache, limit, "MiB")
    swap = next(float(line.split()[1]) for line in text.splitlines() if line.startswith("Swap:"))
    out.compare("free: swap, MiB", swap / MIB, get("memory.swap_space.bytes"), 0, "MiB", 0.01)
    out.only_theirs("free: free, MiB", f"{theirs['free']:.3f}", "only of each zone, against its watermarks")


def slabtop(out, texts, ours):
    """The sum of all caches; large allocations, which go by no cache, are in the kernel's total alone."""
    size = re.compile(r"^\s*\d+\s+\d+\s+\d+%\s+\S+\s+\d+\s+\d+\s+(\d+)K ", re.M)
    theirs = mean([sum(int(kilobytes) for kilobytes in size.findall(text)) for text in texts]) / 1024
    total = ours.get("memory.slab_reclaimable.bytes") + ours.get("memory.slab_unreclaimable.ratio") * ours.get("memory.installed.bytes")
    out.compare("slabtop: cache size of all, MiB", theirs, total / MIB, 2, "%")
    out.only_theirs("slabtop: objects and size of each cache", "")


def numastat(out, before, after, ours):
    """`before` and `after`: by node, the counters."""
    if len(after) < 2:
        out.not_compared("numastat: numa_foreign", "one memory node here")
    else:
        for node, now in after.items():
            hit, foreign = (now[name] - before[node][name] for name in ("numa_hit", "numa_foreign"))
            ratio = ours.instance("memory.numa_foreign.ratio", node)
            if "Ok" in ratio:
                out.compare(f"numastat: {node} foreign, %", 100 * foreign / (hit + foreign), 100 * ratio["Ok"]["mean"], 1, "points")
            else:
                out.not_compared(f"numastat: {node} foreign", ratio["Err"]["why"])
    out.only_theirs("numastat: interleave_hit, local_node, other_node", "")


def ethtool(out, before, after, elapsed, ours):
    """Counters of drivers by interface. What a driver calls as rdiag does is compared; the rest is its own."""
    for name, now in after.items():
        for counter, metric in ETHTOOL.items():
            if counter in now:
                instance = ours.instance(f"network.interface.{metric}", name)
                value = instance and "Ok" in instance and instance["Ok"]["total" if metric.endswith(".count") else "mean"]
                change = (now[counter] - before[name].get(counter, 0)) / (1 if metric.endswith(".count") else elapsed)
                if value is None or value is False:
                    out.only_theirs(f"ethtool: {name} {counter}", f"{change:.3f}", "of virtual interfaces traffic alone")
                else:
                    out.compare(f"ethtool: {name} {counter}", change, value, 2, "%", 2)
        own = [counter for counter in now if counter not in ETHTOOL]
        if own:
            out.only_theirs(f"ethtool: {name}, {len(own)} counters of its driver", f"{own[0]} …")
    if not after:
        out.not_compared("ethtool -S", "no interface here has counters of its driver")


def nfsiostat(out, text, ours):
    """The last report of nfsiostat: by mount, the rates and the mean latencies of reads and writes."""
    if text is None:
        out.not_compared("nfsiostat", "no NFS mount here")
        return
    reports = re.findall(r"^\S+ mounted on (\S+):\n(.*?)(?=^\S+ mounted on |\Z)", text, re.M | re.S)
    for mount, report in reports[-len(ours.mounts("nfs")):]:
        for word in ("read", "write"):
            # ops/s, kB/s, kB/op, retransmissions and their share, avg RTT, avg exe.
            row = re.search(rf"^{word}:.*\n\s*([\d.]+)\s+[\d.]+\s+[\d.]+\s+\d+ \(\s*[\d.]+%\)\s+([\d.]+)\s+([\d.]+)", report, re.M)
            if not row:
                continue
            rate, *latencies = map(float, row.groups())
            out.compare(f"nfsiostat: {mount} {word}s/s", rate, ours.get(f"filesystem.nfs.{word}s.per_second", mount), 5, "%", 0.2)
            # On an emulated CPU the round trip moved between 138 and 201 ms within one window, and no two windows are exactly the same.
            for what, metric, theirs in zip(("avg RTT", "avg exe"), ("round_trip", "execute"), latencies):
                value = scaled(ours.get(f"filesystem.nfs.{word}_{metric}.seconds", mount), 1000)
                out.without_limit(f"nfsiostat: {mount} {word} {what}, ms", theirs, value, "no limit was found")
    out.only_theirs("nfsiostat: kB/op, retransmits of reads and of writes, avg queue, errors", "")
