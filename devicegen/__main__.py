"""``python -m devicegen``, and the console script."""

import gc
import sys


def main() -> None:
    """Run the command line; Ctrl-C exits with 130 also while its modules are imported."""
    # A run is short and leaves next to no cycles: looking for some, while modules are imported,
    # trees are built and at exit, would be a fifth of its time.
    gc.disable()
    try:
        from devicegen.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        gc.freeze()


if __name__ == "__main__":
    main()
