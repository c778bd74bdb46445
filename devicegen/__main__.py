"""``python -m devicegen``."""

from devicegen.cli import main

main()
