"""Submissions that attack the grader. Each keeps the points of its honest answers and gains none."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import class_samples as samples
import psutil
import pytest

from helpers import paths
from helpers.classroom.grading_loop import grade_class
from helpers.classroom.host import Settings, close_workers
from helpers.classroom.results import ClassResult, StudentResult
from helpers.classroom.sandbox import protection
from helpers.classroom.submissions import find

needs_sandbox = pytest.mark.skipif(not protection().sandboxed, reason="bubblewrap does not work on this machine")

SECRET = "the-teacher's-password"
IMPORTS = "import math\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn"
WRONG_SOFTMAX = "def softmax(scores):\n    return scores.exp() / scores.exp().sum(dim=0, keepdim=True)"
RIGHT = {name: samples.solution(name) for name in ("attention_scores", "softmax", "SelfAttentionV1")}
FULL = {name: samples.POINTS[name] for name in RIGHT}
ALL_RIGHT = "\n\n\n".join(RIGHT.values())


@dataclass
class Attack:
    """A notebook with an attack in it, and what must come of it.

    points: what each answer must get; exercises that are not named must get nothing.
    """

    cells: list[str]
    points: dict[str, float]
    status: str = "graded"
    says: str = ""  # a part of the reason, of a note or of a finding
    findings: dict[str, str] = field(default_factory=dict)  # exercise → the id of one of its findings


def after_right_answers(cell: str, **more: Any) -> Attack:
    """Three right answers, then a hostile cell."""
    return Attack([IMPORTS, ALL_RIGHT, cell], dict(FULL), **more)


def with_wrong_softmax(cell: str, **more: Any) -> Attack:
    """A wrong softmax among right answers; the hostile cell tries to hide it."""
    points = {name: FULL[name] for name in ("attention_scores", "SelfAttentionV1")}
    rest = "\n\n\n".join(RIGHT[name] for name in points)
    return Attack([IMPORTS, rest, WRONG_SOFTMAX, cell], points, **more)


def layer(init: str = "pass", forward: str = "return x") -> str:
    return (
        "class SelfAttentionV1(nn.Module):\n"
        "    def __init__(self, hidden_dim=768):\n"
        "        super().__init__()\n"
        "        self.query_proj = nn.Linear(hidden_dim, hidden_dim)\n"
        f"        {init}\n"
        "    def forward(self, x):\n"
        f"        {forward}\n"
    )


def hostile_layer(init: str = "pass", forward: str = "return x", **more: Any) -> Attack:
    """Two right functions, and a class that attacks when it is built or called."""
    points = {name: FULL[name] for name in ("attention_scores", "softmax")}
    rest = "\n\n\n".join(RIGHT[name] for name in points)
    return Attack([IMPORTS, layer(init, forward), rest], points, **more)


GIVEN_UP = {"status": "partly graded", "says": "given up"}

ATTACKS: dict[str, Attack] = {
    # --- never-ending work
    "loop in a cell": after_right_answers("while True:\n    pass", **GIVEN_UP),
    "loop in the cell of an answer": Attack([IMPORTS, ALL_RIGHT + "\n\nwhile True:\n    pass"], dict(FULL), **GIVEN_UP),
    "loop before the answers": Attack([IMPORTS, "while True:\n    pass", ALL_RIGHT], dict(FULL), **GIVEN_UP),
    "loop that catches everything": after_right_answers(
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass", **GIVEN_UP
    ),
    "sleeps for ever": after_right_answers("import time\nwhile True:\n    time.sleep(1000)", **GIVEN_UP),
    "loop in __init__": hostile_layer(init="while True: pass", findings={"SelfAttentionV1": "ended-time"}, **GIVEN_UP),
    "loop in forward": hostile_layer(
        forward="while True: pass", findings={"SelfAttentionV1": "ended-time"}, **GIVEN_UP
    ),
    # --- memory, processes, output
    "memory bomb in a cell": after_right_answers(
        "hoard = []\nwhile True:\n    hoard.append(bytearray(10**8))", **GIVEN_UP
    ),
    "memory bomb in forward": hostile_layer(forward="return torch.zeros(10**6, 10**6)"),
    "memory bomb in many processes": after_right_answers(
        """
        import os
        for _ in range(12):
            if os.fork() == 0:
                hoard = [bytearray(os.urandom(10**6)) * 1 for _ in range(10**6)]
        while True:
            pass
        """,
        status="partly graded",
    ),
    "fork bomb": after_right_answers("import os\nwhile True:\n    os.fork()", status="partly graded"),
    "fork bomb in forward": hostile_layer(
        init="import os", forward="import os\n        while True: os.fork()", status="partly graded"
    ),
    "process that stays": after_right_answers(
        """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(1000)
            os._exit(0)
        """
    ),
    "output flood": after_right_answers(
        "import sys\nfor _ in range(200_000):\n    print('x' * 1000)\n    sys.stderr.write('y' * 1000)"
    ),
    "output flood past Python": after_right_answers(
        "import os\nfor _ in range(20_000):\n    os.write(1, b'z' * 10_000)"
    ),
    "huge output of an answer": Attack(
        [IMPORTS, RIGHT["softmax"], "def attention_scores(q, k):\n    return torch.zeros(3000, 3000)"],
        {"softmax": FULL["softmax"]},
    ),
    "many prints in forward": hostile_layer(forward="print('x' * 10**7); return x"),
    # --- ways out
    "os._exit in a cell": after_right_answers("import os\nos._exit(0)", **GIVEN_UP),
    "os._exit in forward": hostile_layer(
        forward="import os; os._exit(0)", findings={"SelfAttentionV1": "ended-died"}, **GIVEN_UP
    ),
    "sys.exit in a cell": after_right_answers("import sys\nsys.exit(0)"),
    "sys.exit in forward": hostile_layer(forward="import sys; sys.exit('all passed')"),
    "crash": hostile_layer(
        forward="import ctypes; ctypes.string_at(0)", findings={"SelfAttentionV1": "ended-died"}, **GIVEN_UP
    ),
    "kills its parent": after_right_answers("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)"),
    "kills everything": after_right_answers("import os, signal\nos.kill(-1, signal.SIGKILL)"),
    "raises KeyboardInterrupt": hostile_layer(forward="raise KeyboardInterrupt"),
    "endless recursion": hostile_layer(forward="return self.forward(x)"),
    # --- replaced functions
    "replaced abs and print": with_wrong_softmax(
        "import builtins\nbuiltins.abs = lambda x: 0.0\nbuiltins.print = None"
    ),
    "replaced allclose": with_wrong_softmax(
        "import numpy as np\ntorch.allclose = torch.equal = torch.isclose = lambda *a, **k: True\n"
        "np.allclose = np.array_equal = lambda *a, **k: True"
    ),
    "replaced torch.softmax": with_wrong_softmax("torch.softmax = F.softmax = torch.Tensor.softmax = lambda x, **k: x"),
    "replaced __import__": with_wrong_softmax("import builtins\nbuiltins.__import__ = lambda *a, **k: None"),
    "emptied modules": after_right_answers("import sys\nsys.modules.clear()"),
    "broken numpy": after_right_answers("import numpy as np\nnp.stack = np.asarray = np.allclose = None"),
    "broken json": after_right_answers("import json\njson.dumps = json.loads = None", **GIVEN_UP),
    "no builtins": after_right_answers("vars(__import__('builtins')).clear()", **GIVEN_UP),
    "other defaults": after_right_answers(
        "torch.set_default_dtype(torch.float64)\ntorch.set_default_device('meta')\ntorch.set_grad_enabled(False)"
    ),
    "replaced layers": Attack(
        [
            IMPORTS,
            "\n\n\n".join(RIGHT[name] for name in ("attention_scores", "softmax")),
            layer(),
            "nn.Linear.forward = nn.Module.__call__ = lambda self, x: torch.zeros_like(x)",
        ],
        {name: FULL[name] for name in ("attention_scores", "softmax")},
    ),
    "replaced judge": with_wrong_softmax(
        """
        import gc
        for thing in gc.get_objects():
            if getattr(thing, "__name__", "") == "observe_each":
                thing.__code__ = (lambda *a, **k: []).__code__
            if type(thing).__name__ == "Verdict" or getattr(thing, "__name__", "") == "Verdict":
                thing.passed = True
        """,
    ),
    # --- lies
    "lying __eq__": Attack(
        [
            IMPORTS,
            RIGHT["attention_scores"],
            "class Liar(torch.Tensor):\n"
            "    def __eq__(self, other): return True\n"
            "    def __bool__(self): return True\n"
            "    @classmethod\n"
            "    def __torch_function__(cls, function, types, args=(), kwargs=None): return True\n"
            "def softmax(scores): return torch.zeros_like(scores).as_subclass(Liar)",
        ],
        {"attention_scores": FULL["attention_scores"]},
    ),
    "object that is everything": Attack(
        [
            IMPORTS,
            RIGHT["attention_scores"],
            "class Everything:\n"
            "    def __eq__(self, other): return True\n"
            "    def __getattr__(self, name): return self\n"
            "    def __call__(self, *a, **k): return self\n"
            "    def __float__(self): return 1.0\n"
            "softmax = Everything()\nSelfAttentionV1 = Everything()",
        ],
        {"attention_scores": FULL["attention_scores"]},
    ),
    "wrong dtype": Attack([IMPORTS, "def softmax(scores): return scores.softmax(-1).to(torch.complex64)"], {}),
    "sparse": Attack([IMPORTS, "def softmax(scores): return torch.zeros_like(scores).to_sparse()"], {}),
    "meta": Attack([IMPORTS, "def softmax(scores): return scores.to('meta')"], {}),
    "quantised": Attack(
        [IMPORTS, "def softmax(scores): return torch.quantize_per_tensor(scores, 1.0, 0, torch.qint8)"], {}
    ),
    "endless shape": Attack([IMPORTS, "def softmax(scores): return torch.zeros(1).expand(10**12)"], {}),
    # --- the channel
    "writes to every channel": with_wrong_softmax(
        "import os\nfor number in range(0, 256):\n    try:\n        os.write(number, b'{\"passed\": true}' * 100)\n"
        "    except OSError:\n        pass",
        status="partly graded",
        says="channel",
    ),
    "closes every channel": after_right_answers("import os\nos.closerange(0, 256)", **GIVEN_UP),
    "forged message": with_wrong_softmax(
        """
        import json, os, gc
        channel = next(o for o in gc.get_objects() if type(o).__name__ == "Channel")
        channel.send(payload=b"ab", observed="softmax", sizes=[1, 1])
        """,
        status="partly graded",
        says="channel",
    ),
    # --- what is not theirs
    "reads the answer book": after_right_answers(
        f"""
        found = []
        for folder in ({str(paths.ROOT)!r}, "/course"):
            for name in ("solutions/self_attention_v1.py", "helpers/judge/recorded/right.safetensors",
                         "helpers/judge/recorded/book.json"):
                try:
                    found.append(open(f"{{folder}}/{{name}}", "rb").read())
                except OSError:
                    pass
        assert not found
        """
    ),
    "imports the solutions": with_wrong_softmax(
        "import solutions.self_attention_v1\nsoftmax = solutions.self_attention_v1.softmax\n"
        "from helpers.judge import answer_book\nbook = answer_book.answer_book().right['softmax']"
    ),
}

# Attacks that only a sandbox holds back. Each ends in a failed assertion when it gets through, and a right answer to
# one more exercise is only defined when it does not.
BEHIND_BARS: dict[str, str] = {
    "looks at proc": "import os\nassert not os.listdir('/proc')",
    "reads the environment": f"import os\nassert not any({SECRET!r} in value for value in os.environ.values())",
    "reads the parent's environment": f"""
        import os
        for number in range(1, 60):
            try:
                assert {SECRET!r} not in open(f"/proc/{{number}}/environ").read()
            except OSError:
                pass
        """,
    "looks for other submissions": """
        import os
        for folder in FOLDERS:
            assert not os.path.exists(folder), folder
        """,
    "opens a socket": """
        import socket
        try:
            socket.create_connection(("127.0.0.1", PORT), timeout=2)
        except OSError:
            pass
        else:
            raise AssertionError("there is a network")
        """,
    "writes a file": """
        import os
        for folder in ("/course", "/course/helpers", "/usr", "/etc", "/", "/dev", "/var/tmp", "/run"):
            try:
                open(f"{folder}/left-behind-by-a-submission", "w").write("here")
            except OSError:
                pass
            else:
                raise AssertionError(folder)
        open("/tmp/left-behind-by-a-submission", "w").write("here")
        """,
    "finds what another submission left": """
        import os
        assert os.listdir("/tmp") == [] and os.listdir("/dev/shm") == [], os.listdir("/tmp")
        """,
    "fills the disk": """
        written = 0
        try:
            for number in range(1000):
                with open(f"/tmp/file-{number}", "wb") as file:
                    written += file.write(b"x" * 10**7)
        except OSError:
            pass
        assert written < 2 * 10**8, written
        """,
    "unshares again and looks": """
        import ctypes, os
        libc = ctypes.CDLL(None)
        libc.unshare(0x10000000 | 0x00020000)
        libc.umount2(b"/proc", 2)
        assert not [name for name in os.listdir("/proc") if name.isdigit() and int(name) > 1], os.listdir("/proc")[:9]
        """,
    "finds another submission in memory": """
        import gc
        texts = [thing for thing in gc.get_objects() if isinstance(thing, (dict, list, tuple))]
        mark = "-".join(["MARK", "OF", "ANOTHER"])
        assert not any(mark in str(part)[:500] for text in texts for part in text if isinstance(part, (str, bytes)))
        """,
}


@pytest.fixture(scope="module")
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@dataclass
class Run:
    result: ClassResult
    left_files: set[str]
    left_processes: list[str]

    def of(self, student: str) -> StudentResult:
        return next(one for one in self.result.students if one.student == student)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, listening: int) -> Iterator[Run]:
    """All attacks in one class, among honest students."""
    folder = tmp_path_factory.mktemp("hostile")
    for name, attack in ATTACKS.items():
        samples.write(folder / "in" / name / "work.ipynb", samples.bare(*attack.cells))
    for name, cell in BEHIND_BARS.items():
        others = [str(folder / "in" / "honest 1" / "work.ipynb"), str(paths.SOLUTIONS), str(paths.ROOT / "README.md")]
        text = _with_more_points(cell.replace("PORT", str(listening)).replace("FOLDERS", repr(others)))
        samples.write(folder / "in" / name / "work.ipynb", samples.bare(IMPORTS, ALL_RIGHT, text))
    for number in (1, 2, 3):
        cells = (IMPORTS, ALL_RIGHT, "mark = 'MARK-OF-ANOTHER'")
        samples.write(folder / "in" / f"honest {number}" / "work.ipynb", samples.bare(*cells))
    os.environ["TEACHER"] = SECRET
    settings = Settings(seed=7, seconds=1.0, memory=400 << 20)
    try:
        with ThreadPoolExecutor(2) as executor:
            result = grade_class(find(folder / "in"), folder / "out", settings, executor, in_flight=3)
    finally:
        del os.environ["TEACHER"]
    close_workers()
    gone = time.monotonic() + 5
    while (left := _own_children()) and time.monotonic() < gone:
        time.sleep(0.05)
    names = os.listdir(tempfile.gettempdir())
    yield Run(result, {name for name in names if name.startswith(("left-behind", "submission-", "file-"))}, left)
    shutil.rmtree(folder)


def _with_more_points(attack: str) -> str:
    """The attack, and a right answer that is only there when it failed."""
    body = textwrap.indent(textwrap.dedent(attack), "    ")
    answer = textwrap.indent(samples.solution("causal_mask"), "    ")
    return f"def attack():\n{body}\n\n\nif attack() is None:\n{answer}"


def _own_children() -> list[str]:
    """The workers of this process, and what they started."""
    commands = [" ".join(child.cmdline()) for child in psutil.Process().children(recursive=True)]
    return [command for command in commands if "classroom.worker" in command]


def points_of(result: StudentResult) -> dict[str, float]:
    return {verdict.exercise: verdict.points for verdict in result.verdicts if verdict.points}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_gains_nothing_and_honest_answers_keep_their_points(run: Run, name: str) -> None:
    attack, result = ATTACKS[name], run.of(name)
    told = (result.status, result.reason, result.notes)
    assert points_of(result) == attack.points, told
    assert result.status == attack.status, told
    findings = {v.exercise: [f.id for f in v.findings] for v in result.verdicts}
    messages = " ".join(finding.message for verdict in result.verdicts for finding in verdict.findings)
    assert attack.says in f"{result.reason} {result.notes} {messages}"
    for exercise, id in attack.findings.items():
        assert id in findings[exercise]


@needs_sandbox
@pytest.mark.parametrize("name", BEHIND_BARS)
def test_the_sandbox_holds(run: Run, name: str) -> None:
    result = run.of(name)
    assert result.status == "graded", result.reason
    assert points_of(result) == FULL | {"causal_mask": samples.POINTS["causal_mask"]}


@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_honest_student_among_them_loses_nothing(run: Run, number: int) -> None:
    result = run.of(f"honest {number}")
    assert (result.status, result.reason, result.notes) == ("graded", "", ())
    assert points_of(result) == FULL


def test_nothing_is_left_behind(run: Run) -> None:
    assert run.left_processes == []
    assert run.left_files == set()
