"""``python -m devicegen``, and the console script."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C exits with 130 also while its modules are imported."""
    try:
        from devicegen.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
