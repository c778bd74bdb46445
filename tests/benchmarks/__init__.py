"""Measurements: how long suites take under the harness and its peers, and what a test costs."""
