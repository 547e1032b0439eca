"""Real commands, and servers with a client, for benches/ledgers.py: of these the kernel's charge of CPU time is known."""

import os
import subprocess
from pathlib import Path
from shutil import which

C_SOURCE = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n" + "".join(
    f"int f{i}(int x) {{ for (int i = 0; i < x; i++) x ^= i * {i}; printf(\"%d\", x); return x + {i}; }}\n" for i in range(300)
)
CPP_SOURCE = "#include <map>\n#include <string>\n#include <vector>\n#include <regex>\nstd::map<std::string, std::vector<std::string>> m;\nstd::regex r(\"a+\");\n"


def commands(folder: Path, program: str) -> dict[str, list[str]]:
    """Real programs, of which the kernel's charge of CPU time is known."""
    (folder / "a.c").write_text(C_SOURCE)
    (folder / "a.cc").write_text(CPP_SOURCE)
    (folder / "Makefile").write_text("all: 1.o 2.o 3.o 4.o\n%.o:\n\tgcc -O1 -c -o /dev/null a.c\n")

    def sh(line: str) -> list[str]:
        return [program, "exec", "sh", "-c", f"cd {folder}; {line}"]

    return {
        "gcc": sh("gcc -O1 -c -o /dev/null a.c"),
        "g++": sh("g++ -c -o /dev/null a.cc"),
        "make -j2": sh("make -s -j2"),
        "shell-loop": sh("for i in $(seq 50); do /bin/true; done"),
        "pipeline": sh("head -c 10000000 /dev/urandom | gzip -1 | sha256sum"),
        "find": sh("find /usr -xdev -name nothing"),
        "tar": sh("tar -cf - /usr/include | wc -c"),
        "sort": sh("seq 100000 | sort -r | tail -1"),
    }


def servers(folder: Path, program: str) -> dict[str, list[str]]:
    """Servers with a client, as one command: what both and all that they started took, as the kernel charged it."""

    def sh(line: str) -> list[str]:
        return [program, "exec", "sh", "-c", f"cd {folder}; {line}"]

    site = f"daemon off; pid {folder}/nginx.pid; error_log stderr; events {{ }} http {{ access_log off; server {{ listen unix:{folder}/nginx.sock; root {folder}; }} }}"
    (folder / "nginx.conf").write_text(site)
    (folder / "index.html").write_text("x" * 10000)
    data, nobody = folder / "pg", "setpriv --reuid=65534 --regid=65534 --clear-groups"
    tools = subprocess.run(["pg_config", "--bindir"], stdout=subprocess.PIPE, text=True, check=False).stdout.strip() if which("pg_config") else ""
    tools = tools or next((str(one.parent) for one in Path("/usr/lib/postgresql").glob("*/bin/initdb")), "")
    # What a database does once for all is no part of the run.
    before = []
    if tools:
        folder.chmod(0o755)
        data.mkdir()
        os.chown(data, 65534, 65534)
        before.append([*nobody.split(), f"{tools}/initdb", "-D", str(data), "-A", "trust", "-U", "ledgers", "-N"])
    if which("mariadb-install-db"):
        before.append(["mariadb-install-db", "--no-defaults", f"--datadir={folder}/maria", "--user=root", "--skip-test-db"])
    for words in before:
        subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", check=True)
    postgres = f"psql -q -h {data} -U ledgers postgres"
    maria = f"--no-defaults --user=root --socket={folder}/maria.sock"
    return {
        "redis": sh(
            f"redis-server --port 0 --unixsocket {folder}/redis.sock --save '' >/dev/null & "
            f"until redis-cli -s redis.sock ping >/dev/null 2>&1; do sleep 0.05; done; "
            "redis-benchmark -s redis.sock -q -t set,get -n 50000 >/dev/null; redis-cli -s redis.sock shutdown nosave; wait"
        ),
        "nginx": sh(
            f"nginx -c {folder}/nginx.conf -e stderr & until [ -S nginx.sock ]; do sleep 0.05; done; "
            f"for i in $(seq 60); do curl -s -o /dev/null -o /dev/null --unix-socket nginx.sock http://x/index.html http://x/index.html; done; kill $!; wait"
        ),
        "postgresql": sh(
            f"{nobody} {tools}/postgres -D {data} -k {data} -c listen_addresses= >/dev/null 2>&1 & "
            f"until {postgres} -c 'select 1' >/dev/null 2>&1; do sleep 0.05; done; "
            f"{postgres} -c 'create table t as select i, md5(i::text) a from generate_series(1, 200000) i; create index on t (a)'; "
            f"{postgres} -c 'select count(*) from t x join t y using (a)' >/dev/null; kill -INT $!; wait"
        ),
        "mariadb": sh(
            f"mariadbd {maria} --datadir={folder}/maria --skip-networking >/dev/null 2>&1 & "
            f"until mariadb-admin {maria} ping >/dev/null 2>&1; do sleep 0.05; done; "
            f"mariadb-slap {maria} --auto-generate-sql --concurrency=4 --number-of-queries=4000 >/dev/null; mariadb-admin {maria} shutdown; wait"
        ),
        "sqlite": sh(
            "sqlite3 s.db 'create table t as with recursive n(i) as (select 1 union all select i + 1 from n where i < 500000) "
            "select i, hex(i) a from n; create index x on t (a); select count(*) from t x join t y using (a)'"
        ),
    }
