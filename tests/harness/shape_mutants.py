"""Damages to how tests of every shape are scoped, isolated and distributed; see ``mutants.py``."""

from __future__ import annotations

from harness import isolation_behaviours as i
from harness import names_behaviours as n
from harness import shapes_behaviours as s
from harness import strategy_behaviours as t
from harness.mutants import mutant

SHAPES = [
    mutant(
        "methods of a TestCase that is not the standard library's are not multiplied",
        s.test_case_methods_are_scoped,
        "if issubclass(collector.obj, unittest.TestCase):",
        "if unittest.TestCase in collector.obj.__bases__:",
    ),
    mutant(
        "a project's parameters come in the way of the device's",
        s.functions_are_scoped,
        'metafunc.parametrize("device_scope", kinds, ids=kinds, indirect=True)',
        "kinds = kinds[: 1 if len(metafunc.fixturenames) > 3 else None]\n"
        '        metafunc.parametrize("device_scope", kinds, ids=kinds, indirect=True)',
    ),
    mutant(
        "fixtures of a wider scope are in a test's",
        i.outside_of_scopes_is_the_cpu,
        "after = number if fixtures and",
        "after = 0 if fixtures and",
    ),
    mutant(
        "a test's fixtures are not in its scope",
        s.functions_are_scoped,
        '[*names[:after], "device_scope", *names[after:]]',
        '[*names, "device_scope"]',
    ),
    mutant(
        "device_scope does not name its devices",
        s.threads_are_told_their_device,
        "return DeviceScope(kind, devices, strategy, assigned.simulated)",
        "return DeviceScope(kind, (HOST, *devices), strategy, assigned.simulated)",
    ),
    mutant(
        "coroutine runs when its strategy is left",
        s.coroutines_are_scoped,
        "    if not inspect.iscoroutinefunction(call):\n        return within(call)\n",
        "    if strategy:\n        return within(call)\n",
        "        scope.enter_context(_strategy_scope(tf, strategy))\n",
        "        assert scope\n",
    ),
    mutant(
        "items without fixtures run in no scope",
        s.other_items_are_on_the_cpu,
        '    elif not scoped and kind in ("cpu", "none"):  # it has no',
        '    elif not scoped and kind in ("cpu", "none") and not item.config:  # it has no',
        '        pytest.fail(f"{item.nodeid}: {hidden}", pytrace=False)',
        '        _place(hidden and "")',
    ),
    mutant(
        "marker on a parameter is ignored",
        s.what_cannot_be_scoped_says_so,
        "    if kind not in kinds:  #",
        "    if kind not in kinds and not params:  #",
    ),
    mutant(
        "a project's parameter device_scope stops the run",
        s.what_cannot_be_scoped_says_so,
        'any("device_scope" in str(mark.args[:1]) for mark in own)',
        "any(not mark.args for mark in own)",
    ),
    mutant(
        "marker that absl drops is not missed",
        s.what_cannot_be_scoped_says_so,
        "    lost = _lost(node)\n",
        '    lost = ""\n',
    ),
    mutant(
        "alias above absl's parameters is not known in a class",
        s.what_cannot_be_scoped_says_so,
        ", **vars(node.cls or object)}",
        "}",
    ),
    mutant(
        "marker above absl's parameters is not missed beside one below",
        s.what_cannot_be_scoped_says_so,
        "if len(found) > len(_class_marks(call)) else",
        "if found and not _class_marks(call) else",
    ),
    mutant(
        "marker above a decorator that keeps it is an error",
        s.what_cannot_be_scoped_says_so,
        "if len(found) > len(_class_marks(call)) else",
        "if found else",
    ),
    mutant(
        "no nearest device is suggested",
        s.what_cannot_be_scoped_says_so,
        "devices, n=1)",
        "devices, n=1)[1:]",
    ),
]

ISOLATION = [
    mutant(
        "seeds are not set",
        i.a_test_draws_the_same_numbers,
        "    _seed()\n    kind, problem",
        "    kind, problem",
    ),
    mutant(
        "NumPy's seed is not set",
        i.a_test_draws_the_same_numbers,
        '    "numpy.random.seed",\n',
        "",
        '    "keras.utils.set_random_seed",\n',
        "",
    ),
    mutant(
        "what a wide fixture draws depends on what was before",
        i.a_test_draws_the_same_numbers,
        '    if fixturedef.scope != "function":',
        "    if not fixturedef:",
    ),
    mutant(
        "seeds are set with TensorFlow only",
        i.isolation_needs_no_tensorflow,
        "    random.seed(SEED)\n",
        '    if "tensorflow" in sys.modules:\n        random.seed(SEED)\n',
    ),
    mutant(
        "isolation imports NumPy",
        i.isolation_needs_no_tensorflow,
        "    random.seed(SEED)\n",
        "    import tensorflow  # noqa: F401\n\n    random.seed(SEED)\n",
    ),
    *(
        mutant(
            f"{what} is not taken back",
            i.settings_are_taken_back,
            old,
            "",
        )
        for what, old in {
            "function mode": (
                '    (CONFIG, "functions_run_eagerly", "run_functions_eagerly", False),\n'
            ),
            "Keras's float": '    ("keras.backend", "floatx", "set_floatx", "float32"),\n',
            "Keras's policy": '    (TRACKER, "dtype_policy", "", None),\n',
        }.items()
    ),
    mutant(
        "reading Keras's policy sets it",
        i.settings_are_taken_back,
        '    (TRACKER, "dtype_policy", "", None),\n',
        '    ("keras.mixed_precision", "global_policy", "set_global_policy", None),\n',
    ),
    mutant(
        "strategy that a test leaves entered stays",
        i.settings_are_taken_back,
        '        _find("tensorflow.compat.v1.reset_default_graph")()\n',
        "",
    ),
    mutant(
        "strategy that a test leaves entered is not missed",
        i.what_is_left_open_is_named,
        '        left.append("a strategy\'s scope")\n',
        "",
    ),
    mutant(
        "what is outside of scopes is where TensorFlow likes",
        i.outside_of_scopes_is_the_cpu,
        "    _place(HOST)  # what",
        "    assert HOST  # what",
    ),
    mutant(
        "what a test leaves that imports TensorFlow itself stays",
        i.a_test_that_imports_tensorflow_is_isolated,
        'item.addfinalizer(functools.partial(_undo, item, "", first, None, False))',
        "assert first",
    ),
    mutant(
        "strategy of a wide fixture is held against its tests",
        i.fixtures_of_a_wide_scope_keep_what_they_enter,
        "if _has_strategy() and not held:",
        "if _has_strategy():",
    ),
    mutant(
        "--gpu-strict does nothing",
        i.strict_placement_can_be_asked_for,
        "tf.config.set_soft_device_placement(False)",
        "pass",
    ),
    mutant(
        "--gpu-strict is for every test",
        i.strict_placement_can_be_asked_for,
        'if kind == "gpu" and _number(',
        "if tf and _number(",
    ),
    mutant(
        "--gpu-strict outlives its test",
        i.strict_placement_can_be_asked_for,
        '    (CONFIG, "get_soft_device_placement", "set_soft_device_placement", True),\n',
        "",
    ),
]

STRATEGIES = [
    mutant(
        "every strategy is the first",
        t.strategies_distribute,
        "made.get(kind) or STRATEGIES[kind](tf, devices)",
        'made.get(kind) or STRATEGIES["distributed"](tf, devices)',
        variant="strategies",
    ),
    mutant(
        "central storage is on the second half",
        t.strategies_distribute,
        'CentralStorageStrategy(devices, "/device:CPU:0")',
        "CentralStorageStrategy(devices, devices[1])",
        variant="strategies",
    ),
    mutant(
        "strategy in the way is not explained",
        t.strategies_in_the_way_are_explained,
        "    report.sections.append(",
        "    print(",
        variant="strategies",
    ),
    mutant(
        "every failure is explained by the strategy",
        t.strategies_in_the_way_are_explained,
        'UNDER_STRATEGY = r"^$|',
        'UNDER_STRATEGY = r"^|',
        variant="strategies",
    ),
    mutant(
        "a strategy of one's own needs no GPU",
        t.a_strategy_of_ones_own_is_a_line,
        'needs_gpu = kind not in ("", "cpu", "none")',
        'needs_gpu = kind in ("gpu", "distributed")',
        variant="strategies",
    ),
    mutant(
        "a strategy of one's own is not selected by -m distributed",
        t.a_strategy_of_ones_own_is_a_line,
        "return getattr(pytest.mark, plain)",
        'return getattr(pytest.mark, "gpu" if kind == "own" else plain)',
        variant="strategies",
    ),
]

NAMES = [
    mutant(
        "alias's arguments are not read",
        n.aliases_mean_what_they_stand_for,
        'args = ALIASES[name] or [getattr(arg, "__name__", arg) for arg in args]',
        "args = ALIASES[name] or args",
        variant="aliases",
    ),
    mutant(
        "alias beside another marker is one too many",
        n.aliases_mean_what_they_stand_for,
        "    marks = [mark for mark in marks if not ALIASES.get(mark.name)] or marks[:1]\n",
        "",
        variant="aliases",
    ),
    mutant(
        "run_on takes what an alias takes",
        n.wrong_aliases_are_errors,
        "    if name in ALIASES:\n",
        "    if name:\n",
        "args = ALIASES[name] or [",
        "args = ALIASES.get(name) or [",
        variant="aliases",
    ),
    mutant(
        "alias for a GPU is forgotten beside no_device",
        n.aliases_for_a_gpu_skip_without_one,
        "            needs_gpu = True  # the test",
        "            needs_gpu = needs_gpu or False  # the test",
        variant="aliases",
    ),
    mutant(
        "plain marks are the project's",
        n.other_names_leave_the_usual_ones_alone,
        'return getattr(pytest.mark, f"on_{plain}")(set',
        "return getattr(pytest.mark, plain)(set",
        variant="other_names",
    ),
    mutant(
        "fixture hides the project's",
        n.other_names_leave_the_usual_ones_alone,
        "def marked_scope()",
        "def device_scope()",
        variant="other_names",
    ),
]
SHAPE_MUTANTS = (*SHAPES, *ISOLATION, *STRATEGIES, *NAMES)
