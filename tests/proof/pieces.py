"""What a privileged test proves, as the pieces of the tree that it stands for, and one digest of them.

A test stands for: its own text with that of the helpers it uses, the probes it names (their code, their programs for the kernel and the
parsers they import, what they use of files and probes beside them), the rules it names, what judges an exercise or an account of time
where it is about one, what ABOUT says of its module, and the kernel it runs on. Of a probe all counts on this host and on the oldest and
the newest kernel of the matrix; on those between its programs, and what asks the kernel for something. Comments, layout, imports and (below
src) sentences do not count, nor does the way in which tests are scheduled. The sentences of a rule count for a test that reads them.
"""

import re
from functools import cache
from pathlib import Path

from source import USE, bare, digest, items, rust

ROOT = Path(__file__).resolve().parents[2]
# Tests whose subject is neither a probe nor a rule, by their module: what they are about. Their texts do not name it.
ABOUT = {
    "agreement": ["benches/agreement.py", "benches/agreement_rows.py"],
    "denials": ["src/kernel/host/confine", "src/session/run", "src/session/worker.rs"],
    "history": ["src/history", "src/session/past", "src/session/watch"],
    "hostile_baits": ["src/kernel/host/way", "src/kernel/mechanism/points", "src/kernel/mechanism/symbols"],
    "hostile_log": ["src/collectors/kernel_log"],
    "hostile_programs": ["src/kernel/mechanism/points"],
    "hostile_symbols": ["src/kernel/host/way", "src/kernel/mechanism/symbols"],
    "rights": ["src/kernel/host/launch", "src/kernel/host/rights.rs"],
    "starting": ["src/kernel/mechanism/ebpf"],
    "survival": ["src/cli/signals.rs", "src/kernel/host/launch", "src/kernel/mechanism/tracefs/undo"],
}
# What begins a path that leads to no helper.
LIBRARIES = ("std", "core", "libc", "rustix", "serde_json", "tempfile")
# How a test is scheduled, and what it says when it cannot run, proves nothing of rdiag.
SCHEDULING = {"alone", "beside_others", "has", "Need", "skip", "Disturbance", "FullBefore", "ready", "has_kprobes"}
# What a test says of what it has seen proves nothing either.
TELLING = re.compile(r"\s*\btell_judged ?\(&report\) ?;")
NAME = re.compile(r"\b[A-Za-z_]\w*\b")
DEFINED = re.compile(
    r"\b(?:fn|const|static|struct|enum|type|trait|macro_rules!) ?([A-Za-z_]\w*)|^impl(?:<[^>]*>)? (?:\w+ for )?([A-Za-z_]\w*)"
)
TEXT = re.compile(r'"((?:\\.|[^"\\])*)"', re.S)
# A key of a report, the kind of reading whose rows a test looks at, and what a probe calls one of them: `events` is the name of a probe,
# and `processes` that of a collector, too.
KEY = re.compile(r'\["[a-z_]+"\]|(?<=&result, )"[a-z_ ]+"|(?<=[,&] )"(?:events|stacks|histogram|table|scalars|series)"(?=, "[a-z_ ]+"\))')


@cache
def sources() -> dict[Path, list[str]]:
    """The items of every file of tests, but for those that no privileged test takes anything from."""
    files = sorted(file for file in (ROOT / "tests").rglob("*.rs") if file.parent != ROOT / "tests/hostile")
    return {file: items(file.read_text()) for file in files}


@cache
def defined() -> dict[str, list[tuple[Path, str]]]:
    """Where each name of the tests is defined: a method stands for its whole type."""
    found: dict[str, list[tuple[Path, str]]] = {}
    for file, all_items in sources().items():
        for item in all_items:
            head = rust(item).split("{")[0]
            head = re.sub(r"^(?:#\[[^\]]*\] ?)*(?:pub(?:\([^)]*\))? )?", "", head)
            match = DEFINED.search(head)
            if match:
                found.setdefault(match.group(1) or match.group(2), []).append((file, item))
    return found


@cache
def imports(file: Path) -> str:
    """All that a file imports."""
    return " ".join(USE.findall(bare(file.read_text())))


@cache
def used(item: str) -> frozenset[str]:
    """The names that an item may mean functions, macros, types and constants by: a local variable is none of them."""
    # What is called by its type is part of the type.
    text = re.sub(r"\b([A-Z]\w*)::[a-z_]\w*", r"\1", rust(item, texts=False))
    names = {name for name in NAME.findall(text) if name[0].isupper()}
    names |= set(re.findall(r"(?<![.\w])([a-z_]\w*)(?=!? ?[({]|::<|!)", text))
    if re.match(r"(?:pub(?:\([^)]*\))? )?(?:const|static) |\w+!", text):
        # A table of functions, or a macro that is given some.
        names |= set(NAME.findall(text))
    # A function that is handed on, unless a variable has that name.
    for name in re.findall(r"[(,] ?([a-z_]\w*)(?= ?[),])", text):
        if not re.search(rf"\blet (mut )?{name}\b|\b{name} ?:|\|{name}\b|\b{name}\|", text):
            names.add(name)
    return frozenset(names - SCHEDULING - {"tell_judged"})


def meant(name: str, file: Path, item: str) -> list[tuple[Path, str]]:
    """The definitions that a name may mean in a file: its own ones, or those that it imports or gives the path of."""
    places = defined().get(name, [])
    own = [place for place in places if place[0] == file]
    if own or not places:
        return own
    paths = re.findall(rf"\b((?:[a-z]\w*::)*[a-z]\w*)::{name}\b", bare(item)) + [use for use in imports(file).split(";") if re.search(rf"\b{name}\b", use)]
    if not paths and "use super::*" not in imports(file):
        return []
    told = [place for place in places if any(module(place[0]) in re.findall(r"\w+", path) for path in paths)]
    is_called_by_path = not re.search(rf"(?<![\w:.]){name}\b", bare(item, texts=False))
    if not told and paths and is_called_by_path and all(foreign(path, file) for path in paths):
        return []
    return told or places


def foreign(path: str, file: Path) -> bool:
    """Whether a path leads into a library: `thread::sleep` is no helper of that name."""
    first = re.sub(r"^.*\buse ", "", path).strip().split("::")[0]
    return first in LIBRARIES or bool(re.search(rf"\b(?:{'|'.join(LIBRARIES)})\b::[^;]*\b{re.escape(first)}\b", imports(file)))


def module(file: Path) -> str:
    """The name by which a file's contents are imported."""
    return file.parent.name if file.stem == "mod" else file.stem


def closure(test: str) -> list[str]:
    """The test's own item and those that it uses."""
    name = test.rsplit("::", 1)[-1]
    todo = [
        (file, item)
        for file, all_items in sources().items()
        if home(file, test)
        for item in all_items
        if re.search(rf"\b{name}\b", item)
    ]
    if not todo:
        raise KeyError(f"no test {test} in the sources")
    seen = []
    while todo:
        file, item = todo.pop()
        if item not in seen:
            seen.append(item)
            todo.extend(place for name in used(item) for place in meant(name, file, item))
    return sorted(TELLING.sub("", rust(item)) for item in seen)


def home(file: Path, test: str) -> bool:
    """Whether a file can hold a test: privileged::cpu::NAME lies in privileged/cpu.rs."""
    module = test.rsplit("::", 1)[0].replace("::", "/")
    below = file.relative_to(ROOT / "tests").with_suffix("").as_posix()
    return below in (module, f"{module}/mod")


@cache
def probes() -> dict[str, Path]:
    """The folder that defines each probe."""
    found = {}
    for file in sorted((ROOT / "src/probes").rglob("*.rs")):
        for name in re.findall(r'ProbeDef \{\s*id: "([a-z0-9]+)"', file.read_text()):
            found[name] = file.parent if file.parent != ROOT / "src/probes" else file
    return found


@cache
def collectors() -> dict[str, Path]:
    """The file or folder of each collector."""
    return {path.stem: path for path in sorted((ROOT / "src/collectors").iterdir()) if path.stem not in ("lib", "Cargo", "def", "registry")}


# What asks the kernel for something.
ASKS = re.compile(r"\b(?:Context|Global|Hook|Host|Instance|Object|Symbols|host|self\.object)\b|(?<!\.)\bcontext\b")


def shipped(text: str) -> list[str]:
    """The items of a Rust file without its unit tests."""
    return [item for item in items(text) if "#[cfg(test)]" not in bare(item, texts=False)[:40]]


def parts(item: str) -> list[str]:
    """The methods of an `impl`, each with its head; of everything else the item."""
    head = re.match(r"(?:\s|#\[[^\]]*\]|//[^\n]*\n)*impl\b[^{]*\{", item)
    if not head:
        return [item]
    return [head.group(0) + method for method in items(item[head.end() : item.rindex("}")])]


@cache
def folder(path: Path, but: tuple[str, ...] = (), whole: bool = True) -> str:
    """The code of a file or folder, `but` some files, without sentences and unit tests; only what asks the kernel for something where it
    does not count as a `whole`. Of Python all counts."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.suffix in (".rs", ".c") and file.name not in but)
    texts = []
    for file in files:
        if "tests" in file.stem:
            continue
        if file.suffix == ".py":
            texts.append(file.read_text())
        elif file.suffix == ".c":
            texts.append(program(file))
        else:
            found = [rust(part, texts=False) for item in shipped(file.read_text()) for part in ([item] if whole else parts(item))]
            # Where an item stands changes nothing.
            texts.extend(sorted(part for part in found if whole or ASKS.search(part)))
    return digest(*texts) if texts else ""


@cache
def shared(path: Path) -> frozenset[Path]:
    """What a probe uses of those next to it: files that several probes have in common, and other probes."""
    here = ROOT / "src/probes"
    homes = {place.stem: place for place in here.glob("*.rs") if place.stem not in ("lib", "def", "registry", "params", "listing")}
    homes |= {place.name: place for place in here.iterdir() if place.is_dir()}
    found, todo = set(), [path]
    while todo:
        place = todo.pop()
        for file in [place] if place.is_file() else sorted(place.rglob("*.rs")):
            if "tests" in file.stem:
                continue
            text = " ".join(bare(item, texts=False) for item in shipped(file.read_text()))
            named = set(re.findall(r"\w+", " ".join(re.findall(r"\b(?:crate|super)::[^;]*;", " ".join(USE.findall(text))))))
            named |= set(re.findall(r"\b(?:crate|super)::(\w+)", text))
            for other in (homes[name] for name in named & homes.keys()):
                if other not in found and other != path:
                    found.add(other)
                    todo.append(other)
    return frozenset(found)


@cache
def parsers(path: Path) -> str:
    """The parsers of src/proc that a file or folder imports; "" where it imports none."""
    files = [path] if path.is_file() else sorted(path.rglob("*.rs"))
    named = {name for file in files for name in re.findall(r"\w+", " ".join(re.findall(r"\brdiag_proc::[^;()]*", file.read_text())))}
    exported = re.findall(r"^pub use (\w+)::([^;]+);|^pub mod (\w+);", (ROOT / "src/proc/lib.rs").read_text(), re.M)
    homes = {name: module or own for module, names, own in exported for name in re.findall(r"\w+", names or own)}
    used = sorted({homes[name] for name in named & homes.keys()})
    # What most of them use of the others is in these two.
    return digest(*(folder(ROOT / f"src/proc/{name}.rs") for name in sorted({*used, "task_stat", "lib"}))) if used else ""


@cache
def program(file: Path) -> str:
    """A program for the kernel with all it includes."""
    text = file.read_text()
    included = [file.parent / name for name in re.findall(r'#include "([^"]+)"', text)]
    roots = [ROOT / "src/kernel/mechanism/ebpf/include"]
    # What is included follows, from wherever it comes.
    texts = [bare(re.sub(r"#include [^\n]*", "", text))]
    for path in included:
        places = [path, *(root / path.name for root in roots)]
        texts.extend(program(place.resolve()) for place in [place for place in places if place.exists()][:1])
    return "\n".join(texts)


# A test that reads what a rule says.
READS_SENTENCES = re.compile(r'\["(?:summary|headline|refuted_by|title)"\]')
SENTENCES = "title|says|quiet|"
# What a report has of a rule besides.
ADVICE = "why|verify|next|false_if|tests"


@cache
def rules(worded: bool = False) -> dict[str, str]:
    """What each rule judges by: everything but its advice and tests, and its words unless they are asked for."""
    found = {}
    for file in sorted((ROOT / "playbooks/rules").glob("*.yaml")):
        text = re.sub(r"^ *#.*\n", "", file.read_text(), flags=re.M)
        for block in re.split(r"^(?=- id: )", text, flags=re.M)[1:]:
            name = re.match(r"- id: (\S+)", block).group(1)
            keys = re.split(r"^  (?=\w+:)", block, flags=re.M)
            kept = [key for key in keys if not re.match(rf"({'' if worded else SENTENCES}{ADVICE}):", key)]
            found[name] = digest(*kept)
    return found


@cache
def mentioned() -> str:
    """From which share on Method R mentions a component, and whether its time can be saved; not what is said of it."""
    shares, rest = (ROOT / "playbooks/method-r/components.yaml").read_text().split("\nsteps:\n")
    savings = re.findall(r"^  ([a-z_.]+):\n    saving: (\w+)$", rest, re.M)
    assert len(savings) == rest.count("\n    saving:"), "the saving of a component is the first that is said of it"
    return digest(re.sub(r"^ *#.*\n", "", shares, flags=re.M), *(" ".join(saving) for saving in savings))


def pieces(test: str, whole: bool = True) -> dict[str, str]:
    """What a test stands for: a digest for each piece of the tree. Of probes only what asks the kernel, where they do not count as a
    `whole`."""
    own = closure(test)
    texts = " ".join(text for item in own for text in TEXT.findall(KEY.sub("", item)))
    words = set(re.findall(r"[a-z0-9_.-]+", texts.replace("-", "_") + " " + texts)) | set(test.split("::")[-2].split("_", 1))
    found = {"test": digest(*own)}
    for name, place in probes().items():
        if name in words:
            found[f"probe {name}"] = folder(place, whole=whole)
            beside = {f"beside {name}, {other.stem}": folder(other, whole=whole) for other in shared(place)}
            found |= {name: code for name, code in beside.items() if code}
    of_test = rf"\bfn {test.rsplit('::', 1)[-1]}\b"
    worded = any(re.search(of_test, item) and READS_SENTENCES.search(item) for item in own)
    found |= {f"rule {name}": judged for name, judged in rules(worded).items() if name in words}
    # A probe by itself reads what no collector does; its tables may be called like one (`processes`).
    reads = collectors() if "run" in words or "::probes_" not in test else {}
    found |= {f"collector {name}": folder(place) for name, place in reads.items() if name in words}
    for kind, places in [("probe", probes()), ("collector", reads)]:
        found |= {f"parsers of {kind} {name}": parsers(place) for name, place in places.items() if name in words and parsers(place)}
    if any("assert_judged(" in item for item in own):
        # It asks every rule for an answer.
        found["every rule"] = digest(*(f"{name} {judged}" for name, judged in sorted(rules().items())))
    if words & {"method-r", "task_states", "response"}:
        found["accounts"] = digest(folder(ROOT / "src/judge/profile"), folder(ROOT / "src/kernel/classify"), mentioned())
    for module in set(test.split("::")) & ABOUT.keys():
        found |= {f"code {place}": folder(ROOT / place) for place in ABOUT[module]}
    if "starting" in test.split("::"):
        # All of them are loaded.
        found["every program"] = digest(*(program(file) for file in sorted((ROOT / "src").rglob("*.bpf.c"))))
    if "::lab" in test:
        # What a class has reached is told of exercises that were judged long ago.
        found["exercises"] = folder(ROOT / "src/lab", but=("class.rs",))
        found["parsers of exercises"] = parsers(ROOT / "src/lab")
        scenarios = [file for file in sorted((ROOT / "lab-scenarios").glob("*.yaml")) if {file.stem, file.stem[:2]} & words]
        found |= {f"exercise {file.stem}": digest(file.read_text()) for file in scenarios}
    return found


@cache
def ends() -> tuple[str, str]:
    """The oldest and the newest series of the matrix."""
    lines = (ROOT / "tests/vm/kernels.lock").read_text().splitlines()
    series = [line.split()[0] for line in lines if line and not line.startswith("#")]
    return series[0], series[-1]


def fingerprint(test: str, kernel: str) -> str:
    """One digest of all that a test stands for on a kernel."""
    whole = kernel == "host" or any(kernel == end or kernel.startswith(f"{end}.") for end in ends())
    return digest(kernel, *(f"{name} {value}" for name, value in sorted(pieces(test, whole).items())))


def lane(test: str) -> str:
    """Whether the test needs the host to itself (`alone`), or runs beside others."""
    return "alone" if any(re.search(r"\balone\(\)", item) for item in closure(test)) else "beside"
