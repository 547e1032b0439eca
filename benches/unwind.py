#!/usr/bin/env python3
"""How many stacks of real programs reach the start of their thread, by frame pointers and by unwind tables, and what that costs.

  benches/unwind.py [--repeat 3] [--seconds 5] [--rdiag target/release/rdiag]

Needs root, python3, perl, bash, xz, gcc; node if it is there. Each program runs alone and is profiled both ways. CPU time is that of rdiag
and of the process that reads symbols for it (which is not waited for, so its threads are looked at as long as they live), in profiles of the
whole host with two busy programs, interleaved; the medians are what to hold.
"""
import argparse, json, os, resource, shutil, statistics, subprocess, tempfile, time

CHAIN = r'''
#include <stdlib.h>
unsigned long sink;
#define PART __attribute__((noinline, noclone))
#define NO_TAIL_CALL __asm__ volatile("" ::: "memory")
PART void six(void) { unsigned long x = sink; for (int i = 0; i < 20000; i++) x = x * 6364136223846793005UL + i; sink = x; }
PART void five(void) { six(); NO_TAIL_CALL; }
PART int four(const void *a, const void *b) { five(); NO_TAIL_CALL; return *(const int *)a - *(const int *)b; }
PART void three(void) { int n[3] = {3, 1, 2}; qsort(n, 3, sizeof(int), four); sink += n[0]; }
PART void two(void) { three(); NO_TAIL_CALL; }
PART void one(void) { two(); NO_TAIL_CALL; }
int main(void) { for (;;) one(); }
'''
PYTHON = '''
import re, json
d = {str(i): [i] * 5 for i in range(200)}
def down(n): return sorted(json.dumps(d)) if n == 0 else down(n - 1)
while True: down(20); re.sub('a+b', 'c', 'aaab' * 1000)
'''
PERL = 'sub r{my $n=shift; if($n){return r($n-1)} my %h; $h{$_%97}.="x" for 1..5000; my @s=sort keys %h; join(",",@s)=~s/1/2/gr} while(1){r(10)}'
BASH = 'f(){ local i; for i in 1 2 3 4 5 6 7 8 9; do x="${x}a"; x=${x:0:100}; done; }; while :; do f; done'
NODE = 'function a(n){return n?a(n-1)+1:JSON.stringify([1,2,3,{a:n}]).length} for(;;)a(50)'
WAYS = ['frame-pointers', 'tables']


def programs(folder):
    """Commands that use a CPU until they are ended."""
    source, binary, big = (os.path.join(folder, name) for name in ('chain.c', 'chain', 'big.i'))
    with open(source, 'w') as out:
        out.write(CHAIN)
    subprocess.run(['gcc', '-O2', '-fomit-frame-pointer', '-o', binary, source], check=True)
    with open(big, 'w') as out:
        for at in range(6000):
            out.write(f'int f{at}(int a,int b){{int s=0;for(int i=0;i<a;i++){{s+=i*b^{at};switch(s&7){{case 1:s++;break;default:s^=5;}}}}return s;}}\n')
    compiler = subprocess.run(['gcc', '-print-prog-name=cc1'], capture_output=True, text=True, check=True).stdout.strip()
    found = {
        'C, gcc -O2, with qsort': [binary],
        'python3': ['/usr/bin/python3', '-c', PYTHON],
        'perl': ['perl', '-e', PERL],
        'bash': ['bash', '-c', BASH],
        'cc1 (gcc -O2)': [compiler, '-quiet', '-O2', big, '-o', '/dev/null'],
        'xz -9': ['xz', '-9', '-c', '/dev/zero'],
        'node, compiled at run time': ['node', '-e', NODE],
    }
    return {name: command for name, command in found.items() if shutil.which(command[0])}


def profile(rdiag, way, seconds, pid=None):
    """The result of a profile, and the CPU seconds of rdiag and of its children."""
    command = [rdiag, 'probe', 'profile', '--format', 'json', '--param', f'unwind={way}', '-d', f'{seconds}s']
    command += ['--pid', str(pid)] if pid else []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    children = {}
    with tempfile.TemporaryFile('w+') as out:
        running = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        while running.poll() is None:
            for entry in filter(str.isdigit, os.listdir('/proc')):
                try:
                    fields = open(f'/proc/{entry}/stat').read().rsplit(')', 1)[1].split()
                except OSError:
                    continue
                if int(fields[1]) == running.pid:
                    children[entry] = (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')
            time.sleep(0.05)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        out.seek(0)
        result = json.loads(out.read().strip().splitlines()[-1])
    own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return result, own, sum(children.values())


def completeness(result):
    """Share of what was sampled that reaches the start, and frames of a stack on average."""
    stacks = next(output['stacks'] for output in result['outputs'] if 'stacks' in output)
    whole = sum(stack['value'] for stack in stacks['stacks']) + stacks['missing'] + stacks['others']
    frames = sum(stack['value'] * len(stack['frames']) for stack in stacks['stacks'])
    return abs(100 * (1 - (stacks['truncated'] + stacks['missing']) / whole)), frames / whole


def ended(load):
    load.kill()
    load.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--rdiag', default='target/release/rdiag')
    parser.add_argument('--repeat', type=int, default=3)
    parser.add_argument('--seconds', type=int, default=5)
    args = parser.parse_args()
    quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as folder:
        commands = programs(folder)
        print('| program | by frame pointers: reach the start, frames | by unwind tables |\n|---|---|---|')
        for name, command in commands.items():
            cells = []
            for way in WAYS:
                load = subprocess.Popen(command, **quiet)
                time.sleep(1)
                share, frames = completeness(profile(args.rdiag, way, 2, load.pid)[0])
                cells.append(f'{share:.0f} %, {frames:.0f}')
                ended(load)
            print('|', ' | '.join([name] + cells), '|', flush=True)
        loads = [subprocess.Popen(commands[name], **quiet) for name in ('python3', 'perl')]
        costs = {way: [] for way in WAYS}
        try:
            for _ in range(args.repeat):
                for way in WAYS:
                    result, own, children = profile(args.rdiag, way, args.seconds)
                    cost = result['cost'] if 'cost' in result else result
                    costs[way].append((own, children, 1e6 * cost['cpu_seconds'] / max(cost['runs'], 1)))
        finally:
            list(map(ended, loads))
    print(f'\n| {args.seconds} s of 2 busy CPUs at 99 Hz, medians of {args.repeat} | rdiag, CPU s | reader, CPU s | program in the kernel, µs a sample |')
    print('|---|---|---|---|')
    for way, rows in costs.items():
        own, children, kernel = map(statistics.median, zip(*rows))
        print(f'| {way} | {own:.2f} | {children:.2f} | {kernel:.1f} |')


if __name__ == '__main__':
    main()
