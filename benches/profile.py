#!/usr/bin/env python3
"""What a flame graph costs: rdiag beside perf record, perf script and inferno.

  benches/profile.py [--repeat 5] [--seconds 10]

Needs root, perf, stress-ng, and inferno's tools in PATH (or --inferno DIR). CPU time is user and system of the programs, of
interleaved runs under the same load; the ratios of their medians are what to hold. The size of flame graphs is that of the same folded
text with 30,000 distinct stacks.
"""
import argparse, os, random, resource, shlex, statistics, subprocess, sys, tempfile, time

LOAD = ['stress-ng', '--cpu', '1', '--switch', '1', '--open', '1', '--timeout']


def cpu_seconds(command):
    """User and system time of a shell's pipeline."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, shell=True, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def under_load(command, seconds):
    load = subprocess.Popen(LOAD + [f'{seconds + 3}s'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # rusage counts children that were waited for, so the load must be there still when the command has ended.
    time.sleep(1)
    try:
        return cpu_seconds(command)
    finally:
        load.wait()


def recording(args, folder):
    at = lambda name: shlex.quote(os.path.join(folder, name))
    rows = []
    for _ in range(args.repeat):
        ours = under_load(f'{args.rdiag} probe profile --param hz=99 -d {args.seconds}s --format svg >{at("ours.svg")}', args.seconds)
        record = under_load(f'perf record -o {at("data")} -F 99 -a -g -- sleep {args.seconds}', args.seconds)
        script = cpu_seconds(f'perf script -i {at("data")} >{at("text")}')
        fold = cpu_seconds(f'{args.inferno}inferno-collapse-perf <{at("text")} >{at("folded")}')
        draw = cpu_seconds(f'{args.inferno}inferno-flamegraph <{at("folded")} >{at("theirs.svg")}')
        rows.append((ours, record, script, fold, draw))
        print('  '.join(f'{value:.3f}' for value in rows[-1]), flush=True)
    ours, record, script, fold, draw = map(statistics.median, zip(*rows))
    theirs = record + script + fold + draw
    print(f'\n| {args.seconds} s at 99 Hz to a flame graph, CPU s | median of {args.repeat} |\n|---|---|')
    for name, value in [('perf record', record), ('perf script', script), ('inferno-collapse-perf', fold),
                        ('inferno-flamegraph', draw), ('all four', theirs), ('**rdiag probe profile**', ours)]:
        print(f'| {name} | {value:.3f} |')
    print(f'| rdiag per the four | **{ours / theirs:.2f}** |')


def sizes(args, folder):
    """Stacks as programs have them: few functions at the bottom, many at the top, widths far apart."""
    random.seed(1)
    path = os.path.join(folder, 'wide.folded')
    seen = set()
    with open(path, 'w') as out:
        while len(seen) < 30000:
            depth = random.randint(5, 40)
            stack = ';'.join(f'function_{level}_{min(int(random.paretovariate(1)), 60)}' for level in range(depth))
            if stack not in seen:
                seen.add(stack)
                out.write(f'program;{stack} {int(random.paretovariate(0.8))}\n')
    ours, theirs = os.path.join(folder, 'ours.svg'), os.path.join(folder, 'theirs.svg')
    subprocess.run(f'{args.rdiag} analyze {path} --format svg --out - >{ours}', shell=True, check=True)
    subprocess.run(f'{args.inferno}inferno-flamegraph <{path} >{theirs}', shell=True, check=True)
    ours, theirs = os.path.getsize(ours), os.path.getsize(theirs)
    print(f'\n| flame graph of 30,000 distinct stacks | bytes |\n|---|---|\n| inferno-flamegraph | {theirs} |')
    print(f'| **rdiag analyze** | {ours} |\n| rdiag per inferno | **{ours / theirs:.2f}** |')


def main():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--rdiag', default=os.path.join(here, 'target/release/rdiag'))
    parser.add_argument('--inferno', default='', help='folder of its tools')
    parser.add_argument('--repeat', type=int, default=5)
    parser.add_argument('--seconds', type=int, default=10)
    args = parser.parse_args()
    args.inferno = os.path.join(args.inferno, '') if args.inferno else ''
    with tempfile.TemporaryDirectory() as folder:
        sizes(args, folder)
        if args.repeat:
            recording(args, folder)


if __name__ == '__main__':
    sys.exit(main())
