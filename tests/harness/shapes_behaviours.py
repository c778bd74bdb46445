"""Tests of every shape: each runs where its id says, or is an error that says why not.

All share one run of one project under real TensorFlow, with a simulated card and the plugins of
other people that make items of their own. A test finds its device by looking, not by asking the
harness: ``check()`` compares with what its id, in ``PYTEST_CURRENT_TEST``, promises.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from harness.behaviours import HarnessRun, run_harness
from harness.placement_behaviours import SEEN
from kit import environment
from kit.runs import PLUGIN

# For each TensorFlow, plugins that fit its pytest; they need none, so they are quickly made.
PLUGINS = {"tf-2.21": "plugins-9", "tf-2.15": "plugins-7", "tf-2.12": "plugins-8"}
CHECK = {
    **SEEN,
    "check.py": """
        import os
        import re
        import pytest
        from seen import seen

        everywhere = pytest.mark.run_on(["cpu", "gpu", "distributed"])
        EXPECTED = {"cpu": "CPU:0", "gpu": "CPU:1", "distributed": ""}

        def check():
            nodeid = os.environ["PYTEST_CURRENT_TEST"].rpartition(" (")[0]
            device = re.search(r"\\[(cpu|gpu|distributed)", nodeid)
            kind = device[1] if device else "cpu"
            now = seen()
            assert now["scope"] == EXPECTED[kind], (nodeid, now)
            assert now["replicas"] == (2 if kind == "distributed" else 0), (nodeid, now)
            if kind != "distributed":
                assert now["placed"] == now["traced"] == EXPECTED[kind], (nodeid, now)
    """,
}
ALL = 'pytest.mark.run_on(["cpu", "gpu", "distributed"])'
SHAPES = {
    **CHECK,
    "pytest.ini": "[pytest]\nasyncio_mode = strict\n",
    "test_cases.py": f"""
        import asyncio
        import unittest
        import pytest
        import tensorflow as tf
        from absl.testing import parameterized
        from check import check

        everywhere = {ALL}

        class Plain(unittest.TestCase):
            made = 0

            @classmethod
            def setUpClass(cls): cls.made += 1

            def setUp(self):
                check()
                self.ready = True

            def tearDown(self): check()

            @everywhere
            def test_marked(self):
                assert self.ready and self.made == 1
                check()

            @everywhere
            def test_sub_tests(self):
                for number in range(2):
                    with self.subTest(number=number):
                        check()

            @everywhere
            @unittest.skip("never")
            def test_skipped(self): raise AssertionError

            @everywhere
            @unittest.expectedFailure
            def test_expected(self): raise AssertionError

            def test_unmarked(self): check()

        @everywhere
        class Marked(unittest.TestCase):
            def test_it(self): check()

            @pytest.mark.no_device_scope
            def test_free(self):
                from seen import seen
                assert seen()["scope"] == "" and not seen()["replicas"]

        class Inherits(Marked): pass

        class Awaited(unittest.IsolatedAsyncioTestCase):
            @everywhere
            async def test_it(self):
                await asyncio.sleep(0)
                check()

            async def test_unmarked(self): check()

        class Absl(parameterized.TestCase):
            @parameterized.parameters(1, 2)
            @everywhere
            def test_parameters(self, number):
                check()
                assert number in (1, 2)

            @parameterized.named_parameters(("one", 1), ("two", 2))
            @everywhere
            def test_named(self, number): check()

        class Tensors(tf.test.TestCase, parameterized.TestCase):
            @everywhere
            def test_it(self):
                check()
                self.assertAllEqual(tf.constant([1]) + 1, [2])

            @parameterized.parameters(1, 2)
            @everywhere
            def test_parameters(self, number): check()
    """,
    "test_functions.py": f"""
        import threading
        import pytest
        from check import check
        from seen import seen

        everywhere = {ALL}

        @everywhere
        @pytest.mark.parametrize("one", [1, 2])
        @pytest.mark.parametrize("other", ["a", "b"])
        def test_stacked(one, other): check()

        @pytest.fixture
        def doubled(request):
            check()
            return request.param * 2

        @everywhere
        @pytest.mark.parametrize("doubled", [1, 2], indirect=True)
        def test_indirect(doubled):
            check()
            assert doubled in (2, 4)

        @pytest.fixture(params=["x", "y"])
        def letter(request): return request.param

        @everywhere
        def test_fixture(letter): check()

        @everywhere
        @pytest.mark.usefixtures("letter")
        def test_used(): check()

        @everywhere
        @pytest.mark.parametrize("word", ["grün", "水"])
        def test_unicode(word): check()

        @pytest.fixture
        def device(): return "the project's own"

        @everywhere
        def test_device_fixture(device): check()

        @everywhere
        @pytest.mark.parametrize("device", ["cpu", "gpu"])
        def test_device_parameter(device): check()

        @everywhere
        def test_subtests(subtests):
            for number in range(2):
                with subtests.test(number=number):
                    check()

        @pytest.mark.run_on(["gpu"])
        def test_thread(device_scope):
            import tensorflow as tf

            found = []
            def look():
                found.append(seen()["scope"])
                with tf.device(device_scope.devices[0]):
                    found.append(seen()["scope"])
            thread = threading.Thread(target=look)
            thread.start()
            thread.join()
            assert found == ["", "CPU:1"]

        class TestMethods:
            pytestmark = everywhere

            def test_it(self): check()

            @staticmethod
            def test_static(): check()

            @classmethod
            def test_class(cls): check()
    """,
    "test_async.py": f"""
        import pytest
        import pytest_asyncio
        from check import check

        everywhere = {ALL}

        @pytest_asyncio.fixture
        async def awaited():
            check()
            return 1

        @everywhere
        @pytest.mark.asyncio
        async def test_asyncio(awaited): check()

        @pytest.mark.asyncio
        async def test_unmarked(): check()

        @pytest.fixture
        def anyio_backend(): return "asyncio"

        @everywhere
        @pytest.mark.anyio
        async def test_anyio(anyio_backend): check()
    """,
    "documented.py": '''
        """
        >>> from check import check
        >>> check()
        """

        def function():
            """
            >>> from check import check
            >>> check()
            """
    ''',
    "sub/__init__.py": "",  # for pytest 7, to which conftest is one module otherwise
    "sub/page.txt": ">>> from check import check\n>>> check()\n",
    "sub/conftest.py": """
        import pytest

        class YamlFile(pytest.File):
            def collect(self):
                yield YamlItem.from_parent(self, name="plain")
                marked = YamlItem.from_parent(self, name="marked")
                marked.add_marker(pytest.mark.run_on(["gpu"]))
                yield marked
                free = YamlItem.from_parent(self, name="free")
                free.add_marker(pytest.mark.no_device_scope)
                yield free

        class YamlItem(pytest.Item):
            def runtest(self):
                from check import check
                from seen import seen

                if self.name == "free":
                    assert seen()["scope"] == ""
                else:
                    check()

        def pytest_collect_file(file_path, parent):
            if file_path.suffix == ".yaml":
                return YamlFile.from_parent(parent, path=file_path)
    """,
    "sub/test_items.yaml": "",
    "test_refused.py": """
        import unittest.mock
        import check
        import pytest
        import tensorflow as tf
        from absl.testing import parameterized
        run_on = pytest.mark.run_on

        @pytest.mark.parametrize("size", [
            1, pytest.param(2, marks=run_on(["gpu"])),
        ])
        def test_param_mark(size): pass

        @run_on(["cpu"])
        @pytest.mark.parametrize("size", [pytest.param(2, marks=run_on(["gpu"]))])
        def test_two_marks(size): pass

        @run_on(["gpu"])
        @pytest.mark.parametrize("device_scope", ["a"])
        def test_own_parameter(device_scope): pass

        @pytest.mark.parametrize("device_scope", ["a"])
        def test_own_parameter_unmarked(device_scope): assert device_scope == "a"

        @run_on([tf.distribute.MirroredStrategy])
        def test_strategy_class(): pass

        @run_on("GPU")
        def test_capitals(): pass

        @run_on([["gpu"]])
        def test_nested(): pass

        class Cases(unittest.TestCase):
            @run_on(devices="gpu")
            def test_keyword(self): pass

        class Absl(parameterized.TestCase):
            @run_on(["gpu"])
            @parameterized.parameters(1, 2)
            def test_above(self, number): pass

            of_the_class = run_on(["gpu"])

            @of_the_class
            @parameterized.parameters(1, 2)
            def test_alias(self, number): pass

            @check.everywhere
            @parameterized.parameters(1, 2)
            @run_on(["cpu"])
            def test_two(self, number): pass

            @run_on(["gpu"])
            @unittest.mock.patch("os.getcwd")
            def test_kept(self, getcwd): pass

            @parameterized.parameters(1, 2)
            def test_unmarked(self, number): pass

        def test_right(): pass
    """,
}
IDS = {
    "test_cases.py": [
        "Plain::test_marked",
        "Plain::test_sub_tests",
        "Marked::test_it",
        "Inherits::test_it",
        "Awaited::test_it",
        "Absl::test_parameters0",
        "Absl::test_parameters1",
        "Absl::test_named_one",
        "Absl::test_named_two",
        "Tensors::test_it",
        "Tensors::test_parameters0",
        "Tensors::test_parameters1",
    ],
    "test_functions.py": [
        "test_used{-x,-y}",
        "test_fixture{-x,-y}",
        "test_indirect{-1,-2}",
        "test_stacked{-a-1,-a-2,-b-1,-b-2}",
        "test_device_parameter{-cpu,-gpu}",
        "test_device_fixture",
        "test_subtests",
        "TestMethods::test_it",
        "TestMethods::test_static",
        "TestMethods::test_class",
    ],
    "test_async.py": ["test_asyncio", "test_anyio"],
}
REFUSED = {  # what the message must hold
    "test_param_mark[2]": ("run_on", "pytest.param"),
    "test_two_marks[cpu-2]": ("run_on", "keep one"),
    "test_own_parameter[a]": ("run_on", "device_scope"),
    "test_strategy_class": ("MirroredStrategy", "'distributed"),
    "test_capitals": ("'GPU'", "maybe 'gpu'?"),
    "test_nested": ("['gpu']", "'gpu'"),
    "Cases::test_keyword": ("devices", "'gpu'"),
    "Absl::test_above0": ("run_on", "lost", "below"),
    "Absl::test_above1": ("run_on", "lost", "below"),
    "Absl::test_alias0": ("run_on", "lost"),
    "Absl::test_two0": ("run_on", "lost"),
}
DEVICES = ("cpu", "gpu", "distributed")


@cache
def shapes_run(harness: str, python: Path) -> HarnessRun:
    plugins = next(environment(PLUGINS[python.parents[1].name]).parents[1].glob("lib/*/site-*"))
    return run_harness(
        harness, python, SHAPES, "--gpu-simulate=1", "--doctest-modules", "--doctest-glob=*.txt",
        env={"PYTHONPATH": f"{PLUGIN}:{plugins}"}, exit_codes=(0, 1, 2),  # 2: a collection error
    )  # fmt: skip


def ids(module: str) -> list[str]:
    """Write the ids out: each with every device, and each ending in the braces."""
    found = []
    for entry in IDS[module]:
        name, _, endings = entry.rstrip("}").partition("{")
        for device in DEVICES:
            found += [f"{module}::{name}[{device}{end}]" for end in endings.split(",")]
    return found


def test_case_methods_are_scoped(harness: str, python: Path) -> None:
    """set-up and tear-down too; inherited, absl's, asynchronous, with sub-tests."""
    run = shapes_run(harness, python)

    for nodeid in [*ids("test_cases.py"), "test_cases.py::Plain::test_unmarked"]:
        assert run.outcomes.get(nodeid) == "passed", (nodeid, str(run))
    for nodeid in ("Awaited::test_unmarked", "Marked::test_free", "Inherits::test_free"):
        assert run.outcomes[f"test_cases.py::{nodeid}"] == "passed", run
    for device in DEVICES:
        assert run.outcomes[f"test_cases.py::Plain::test_skipped[{device}]"] == "skipped", run
        assert run.outcomes[f"test_cases.py::Plain::test_expected[{device}]"] == "xfailed", run


def functions_are_scoped(harness: str, python: Path) -> None:
    """With parameters and fixtures of every kind, and with a ``device`` of the project's."""
    run = shapes_run(harness, python)

    for nodeid in ids("test_functions.py"):
        assert run.outcomes.get(nodeid) == "passed", (nodeid, str(run))
    unicode = [nodeid for nodeid in run.outcomes if "::test_unicode[" in nodeid]
    assert len(unicode) == 6, unicode
    assert {run.outcomes[nodeid] for nodeid in unicode} == {"passed"}, run


def threads_are_told_their_device(harness: str, python: Path) -> None:
    """A thread is in no scope of its test's; ``device_scope`` says which to enter."""
    run = shapes_run(harness, python)

    assert run.outcomes["test_functions.py::test_thread[gpu]"] == "passed", run


def coroutines_are_scoped(harness: str, python: Path) -> None:
    """Those of pytest-asyncio and of anyio."""
    run = shapes_run(harness, python)

    for nodeid in [*ids("test_async.py"), "test_async.py::test_unmarked"]:
        assert run.outcomes.get(nodeid) == "passed", (nodeid, str(run))


def other_items_are_on_the_cpu(harness: str, python: Path) -> None:
    """Doctests of modules and files, items without fixtures; a marked one is an error."""
    run = shapes_run(harness, python)

    for nodeid in (
        "documented.py::documented",
        "documented.py::documented.function",
        "sub/page.txt::page.txt",
        "sub/test_items.yaml::plain",
        "sub/test_items.yaml::free",
    ):
        assert run.outcomes.get(nodeid) == "passed", (nodeid, str(run))
    assert run.outcomes["sub/test_items.yaml::marked"] == "error", run
    assert "YamlItem" in run.pytest.text("sub/test_items.yaml::marked"), run


def what_cannot_be_scoped_says_so(harness: str, python: Path) -> None:
    """Each such test is one error that names it; its neighbours run."""
    run = shapes_run(harness, python)

    for name, words in REFUSED.items():
        nodeid = f"test_refused.py::{name}"
        text = run.pytest.text(nodeid)
        assert run.outcomes.get(nodeid) == "error", (nodeid, str(run))
        assert nodeid in text, (nodeid, text)
        for word in words:
            assert word in text.replace(nodeid, ""), (nodeid, word, text)
    others = ("test_right", "test_param_mark[1]", "test_own_parameter_unmarked[a]")
    for name in (*others, "Absl::test_unmarked0", "Absl::test_kept[gpu]"):
        assert run.outcomes.get(f"test_refused.py::{name}") == "passed", (name, str(run))


SHAPED = (
    test_case_methods_are_scoped,
    functions_are_scoped,
    threads_are_told_their_device,
    coroutines_are_scoped,
    other_items_are_on_the_cpu,
    what_cannot_be_scoped_says_so,
)
