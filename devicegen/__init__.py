"""Writes a tailored pytest harness for TensorFlow tests into a repository."""

from importlib.metadata import version

__version__ = version("devicegen")
