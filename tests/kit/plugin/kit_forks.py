"""Runs the jobs of a folder, each in a fork of this process: ``python kit_forks.py FOLDER``."""

import json
import os
import sys
import traceback
from pathlib import Path


def main(folder):
    import pytest  # noqa: F401 - before the forks

    codes = []
    for number, job in enumerate(json.loads((folder / "jobs.json").read_text("utf-8"))):
        pid = os.fork()
        if pid == 0:
            run(job, folder / f"{number}.out", folder / f"{number}.jsonl")
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    (folder / "codes.json").write_text(json.dumps(codes), "utf-8")


def run(job, output, reports):
    code = 70
    try:
        reports.touch()
        os.environ["KIT_REPORTS"] = str(reports)
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.chdir(job["cwd"])
        del sys.path[0]  # as the script `pytest` has it, which adds no folder
        import pytest

        code = int(pytest.main(job["args"]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
