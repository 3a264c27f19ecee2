"""Sweeps: a grid of runs, from a file to a table of results, on this machine or a cluster."""
